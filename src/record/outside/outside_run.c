#include "record/outside/outside_run.h"

#include "base/clock.h"
#include "record/collect.h"
#include "record/outside/outside_attach.h"
#include "record/signals.h"
#include "record/slices.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct run {
    const struct record_options *options;
    struct recording recording;
    struct outside outside;
    pid_t child;      /* 0: processes that ran before */
    VEC(int) watched; /* a descriptor of each of those */
    int signals;
    double began_s;
    uint64_t told; /* of processes, and when: */
    double told_s;
    bool is_lively; /* lately */
    bool is_over;   /* of --duration, or the user has said so */
    bool child_ended;
};

/* --- the program -------------------------------------------------------------------------------
 */

/* As it would be without calltrail: same environment, same signals, no descriptors of ours. */
static void run_child(const struct run *run, const char *path, const sigset_t *mask,
                      const int gate[2])
{
    char word;
    close(gate[1]);
    if (read(gate[0], &word, 1) != 1)
        _exit(0); /* its events could not be had */
    sigprocmask(SIG_SETMASK, mask, NULL);
    signal(SIGXFSZ, SIG_DFL);
    setrlimit(RLIMIT_NOFILE, &run->outside.events.descriptors_before);
    execv(path, run->options->command);
    fprintf(stderr, "calltrail: %s: cannot be run: %s\n", path, strerror(errno));
    _exit(127);
}

static bool changes_user(const char *path)
{
    struct stat file;
    return stat(path, &file) == 0 && ((file.st_mode & S_ISUID)   ? file.st_uid != geteuid()
                                      : (file.st_mode & S_ISGID) ? file.st_gid != getegid()
                                                                 : false);
}

/* The kernel takes the events off a process that gets other privileges; root may put them back. */
static void attach_after_exec(struct run *run, int begun)
{
    struct ct_error err;
    char word;
    while (read(begun, &word, 1) < 0 && errno == EINTR)
        ;
    for (size_t i = 0; i < run->outside.processes.count; i++)
        outside_process_free(run->outside.processes.items[i]);
    run->outside.processes.count = 0;
    if (outside_attach(&run->outside, &run->child, 1, &err) != CT_OK)
        fprintf(stderr, "calltrail: nothing is recorded: %s\n", err.text);
}

static int start_program(struct run *run, const char *path, const sigset_t *mask,
                         struct ct_error *err)
{
    int gate[2], begun[2]; /* it waits at the first; the second ends when it has called exec */
    if (pipe2(gate, O_CLOEXEC) != 0 || pipe2(begun, O_CLOEXEC) != 0)
        return ct_fail_errno(err, errno, "%s: no process for it", path);
    fflush(stdout);
    run->child = fork();
    if (run->child == 0)
        run_child(run, path, mask, gate);
    close(gate[0]);
    close(begun[1]);
    int status = run->child < 0 ? ct_fail_errno(err, errno, "%s: no process for it", path)
                                : outside_follow(&run->outside, run->child, 0, err);
    if (status == CT_OK && write(gate[1], "", 1) != 1)
        status = ct_fail_errno(err, errno, "the program cannot be told to begin");
    close(gate[1]);
    if (status != CT_OK && run->child > 0)
        waitpid(run->child, NULL, 0);
    else if (status == CT_OK && changes_user(path))
        attach_after_exec(run, begun[0]);
    close(begun[0]);
    return status;
}

/* --- processes that run ------------------------------------------------------------------------
 */

static int attach(struct run *run, struct ct_error *err)
{
    const struct record_pids *pids = &run->options->pids;
    for (size_t i = 0; i < pids->items.count; i++) {
        int fd = (int)syscall(SYS_pidfd_open, pids->items.items[i], 0);
        if (fd >= 0)
            vec_push(&run->watched, fd);
        else if (errno == ESRCH)
            return ct_fail(err, "there is no process %d", pids->items.items[i]);
    }
    CT_TRY(outside_attach(&run->outside, pids->items.items, pids->items.count, err));
    size_t processes = run->outside.processes.count, threads = 0;
    for (size_t i = 0; i < processes; i++)
        threads += run->outside.processes.items[i]->threads.count;
    fprintf(stderr, "calltrail: recording %zu process%s with %zu thread%s; Ctrl-C ends it\n",
            processes, processes == 1 ? "" : "es", threads, threads == 1 ? "" : "s");
    return CT_OK;
}

/* Have all of them ended? */
static bool have_ended(struct run *run)
{
    for (size_t i = 0; i < run->watched.count; i++) {
        struct pollfd p = {.fd = run->watched.items[i], .events = POLLIN};
        if (p.fd >= 0 && poll(&p, 1, 0) == 1) {
            close(p.fd);
            run->watched.items[i] = -1;
        }
    }
    for (size_t i = 0; i < run->watched.count; i++)
        if (run->watched.items[i] >= 0)
            return false;
    return true;
}

/* --- until the end -----------------------------------------------------------------------------
 */

static void take_signal(struct run *run)
{
    struct signalfd_siginfo info;
    struct ct_error err;
    if (read(run->signals, &info, sizeof info) != sizeof info || info.ssi_signo == SIGCHLD)
        return;
    if (info.ssi_signo == SIGUSR2) {
        outside_read(&run->outside, false); /* once more: what was too young the last time */
        if (collect_profile(&run->recording, &err) != CT_OK)
            fprintf(stderr, "calltrail: no snapshot: %s\n", err.text);
    } else if (!run->child) {
        run->is_over = true;
    } else if (info.ssi_code != SI_KERNEL) { /* a key press has reached the program already */
        kill(run->child, (int)info.ssi_signo);
    }
}

static bool has_child_ended(struct run *run)
{
    struct rusage usage;
    if (wait4(run->child, &run->recording.wait_status, WNOHANG, &usage) != run->child)
        return false;
    run->recording.has_usage = true;
    run->recording.utime_s = (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6;
    run->recording.stime_s = (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6;
    return true;
}

/* --delay and --duration: by the times of samples, which are read later. */
static void keep_time(struct run *run)
{
    const struct record_options *options = run->options;
    struct server *server = run->recording.server;
    double passed = now_s() - run->began_s;
    if (!server->has_begun && passed >= options->delay_s) {
        run->outside.from_ns = now_ns();
        server_pause(server, false);
        run->began_s = now_s();
    } else if (server->has_begun && !server->is_over && options->duration_s > 0 &&
               passed >= options->duration_s) {
        run->outside.until_ns = now_ns();
        outside_events_stop(&run->outside.events);
        server_pause(server, true);
        run->is_over |= !run->child;
    }
}

/* Until --delay or --duration has passed; at most `most_ms`. */
static int time_left_ms(const struct run *run, int most_ms)
{
    const struct record_options *options = run->options;
    const struct server *server = run->recording.server;
    double ends_s = server->has_begun ? options->duration_s : options->delay_s;
    double left_ms = (run->began_s + ends_s - now_s()) * 1000;
    if (server->is_over || ends_s <= 0 || left_ms >= most_ms)
        return most_ms;
    return left_ms > 0 ? (int)left_ms + 1 : 0;
}

/*
 * While processes come and go, what is told of them is read often, as long as their files can be
 * found by them. Else it is read when there is much, or something is told: to wait and to be woken
 * takes 40 us, a walk 1.
 */
static int choose_patience_ms(struct run *run)
{
    enum { OFTEN_MS = 10, SELDOM_MS = 100, LIVELY_S = 1 };
    const struct outside_events *e = &run->outside.events;
    if (e->told != run->told) {
        run->told = e->told;
        run->told_s = now_s();
    }
    run->is_lively = e->waiting.count || now_s() - run->told_s < LIVELY_S;
    return time_left_ms(run, run->is_lively ? OFTEN_MS : SELDOM_MS);
}

static void wait_for_more(struct run *run)
{
    enum { MOST_RINGS = 512 };
    int rings[MOST_RINGS];
    struct pollfd wait[1 + MOST_RINGS];
    int patience_ms = choose_patience_ms(run);
    unsigned count =
        outside_events_descriptors(&run->outside.events, !run->is_lively, rings, MOST_RINGS);
    wait[0] = (struct pollfd){.fd = run->signals, .events = POLLIN};
    for (unsigned i = 0; i < count; i++)
        wait[1 + i] = (struct pollfd){.fd = rings[i], .events = POLLIN};
    poll(wait, 1 + count, patience_ms);
}

static void supervise(struct run *run)
{
    const double looks_every_s = 0.1;
    struct server *server = run->recording.server;
    double looked_s = 0;
    run->began_s = run->told_s = now_s();
    while (!run->is_over) {
        wait_for_more(run);
        keep_time(run);
        outside_read(&run->outside, false);
        if (now_s() - looked_s >= looks_every_s) {
            server_look_around(server);
            looked_s = now_s();
        }
        take_signal(run);
        if (run->recording.slices && slices_due(run->recording.slices, run->recording.server)) {
            outside_read(&run->outside, false);
            slices_take(run->recording.slices, &run->recording);
        }
        if (run->child ? has_child_ended(run) : have_ended(run))
            break;
    }
}

/* --- what is to be said ------------------------------------------------------------------------
 */

static void say_what_is_missing(const struct run *run, const char *path)
{
    const struct server *s = run->recording.server;
    uint64_t no_room = 0;
    for (size_t i = 0; i < s->arenas.count; i++)
        no_room += s->arenas.items[i].header->lost[LOST_NO_ROOM];
    if (!s->arenas.count)
        fprintf(stderr, "calltrail: %s: nothing was recorded\n", path ? path : "the processes");
    if (no_room)
        fprintf(stderr, "calltrail: %llu samples are lost: no room in %s\n",
                (unsigned long long)no_room, s->folder.path);
    outside_say_what_is_missing(&run->outside);
    size_t alive = run->child ? run->outside.processes.count : 0;
    if (alive)
        fprintf(stderr, "calltrail: %zu process%s on (pid %u%s), recorded up to here\n", alive,
                alive == 1 ? " goes" : "es go", run->outside.processes.items[0]->pid,
                alive == 1 ? "" : ", …");
}

static int finish(struct run *run, const char *path, int *exit_status, struct ct_error *err)
{
    struct server *server = run->recording.server;
    int wait_status = run->recording.wait_status;
    if (run->outside.until_ns == UINT64_MAX)
        run->outside.until_ns = now_ns();
    outside_events_stop(&run->outside.events);
    outside_read(&run->outside, true);
    server_look_around(server);
    server_pause(server, true);
    if (run->child)
        *exit_status =
            WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
    run->recording.is_over = true;
    int status = run->recording.slices ? slices_end(run->recording.slices, &run->recording, err)
                                       : collect_profile(&run->recording, err);
    say_what_is_missing(run, path);
    return status;
}

static struct outside_wanted wanted_by(const struct record_options *options,
                                       const struct server *server)
{
    uint32_t modes = server->events.cpu_modes ? server->events.cpu_modes : CPU_USER;
    return (struct outside_wanted){.period_ns = server->period_ns,
                                   .in_user = modes & CPU_USER,
                                   .in_kernel = modes & CPU_KERNEL,
                                   .follow = options->follow,
                                   .window_bytes = options->window_bytes,
                                   .has_window = options->has_window,
                                   .by_height = options->engine->by_height};
}

int outside_run(const struct record_options *options, struct server *server, struct slices *slices,
                const struct signals *signals, const char *path, int *exit_status,
                struct ct_error *err)
{
    struct run run = {.options = options,
                      .recording = {.options = options,
                                    .server = server,
                                    .slices = slices,
                                    .wait_status = -1,
                                    .ticks_per_ns = 1}};
    struct outside_wanted wanted = wanted_by(options, server);
    *exit_status = 0;
    server->is_outside = true;
    server->is_attached = options->pids.items.count;
    server->paused = options->delay_s > 0;
    server->has_begun = !server->paused;
    CT_TRY(outside_begin(&run.outside, server, &wanted, options->verify, err));
    if (server->paused)
        run.outside.from_ns = UINT64_MAX;
    run.signals = signals->fd;
    int status = path ? start_program(&run, path, &signals->before, err) : attach(&run, err);
    if (status == CT_OK) {
        supervise(&run);
        status = finish(&run, path, exit_status, err);
    }
    for (size_t i = 0; i < run.watched.count; i++)
        if (run.watched.items[i] >= 0)
            close(run.watched.items[i]);
    vec_free(&run.watched);
    outside_end(&run.outside);
    return status;
}

int outside_try(pid_t pid, bool in_kernel, struct ct_error *err)
{
    struct outside_events events;
    struct outside_wanted wanted = {
        .period_ns = 1000000000, .in_user = true, .in_kernel = in_kernel};
    bool is_gone;
    CT_TRY(outside_events_begin(&events, &wanted, err));
    int status = outside_events_add(&events, pid, pid, true, &is_gone, err);
    outside_events_end(&events);
    if (status != CT_OK || !is_gone)
        return status;
    return kill(pid, 0) == 0 || errno == EPERM
               ? ct_fail(err, "process %d has ended, or is a zombie", pid)
               : ct_fail(err, "there is no process %d", pid);
}
