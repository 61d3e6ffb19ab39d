#include "base/clock.h"
#include "record/collect.h"
#include "record/ended.h"
#include "record/kept.h"
#include "record/leftovers.h"
#include "record/outside/outside_children.h"
#include "record/outside/outside_run.h"
#include "record/perf_samples.h"
#include "record/prepare.h"
#include "record/record.h"
#include "record/server.h"
#include "record/signals.h"
#include "record/slices.h"
#include "record/target.h"
#include "record/tick_cost.h"
#include "record/witness.h"

#include "base/file.h"
#include "names/fill.h"
#include "runtime/channel_format.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

/*
 * The runtime is beside the command in a build, and in the library folder when installed. Those
 * for events have stand-ins for many more of libc's functions, and one of them for C++'s operators
 * new and delete: they only come where they are needed.
 */
static char *find_runtime(const char *name)
{
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        return NULL;
    self[length] = '\0';
    char *slash = strrchr(self, '/');
    *slash = '\0';
    static const char *const places[] = {"%s/%s", "%s/../lib/calltrail/%s",
                                         "%s/../lib/x86_64-linux-gnu/calltrail/%s"};
    for (unsigned i = 0; i < 3; i++) {
        char path[4200];
        snprintf(path, sizeof path, places[i], self, name);
        if (access(path, R_OK) == 0)
            return must_strdup(path);
    }
    return NULL;
}

static void run_child(const struct record_options *options, const struct server *server,
                      const char *path, const char *runtime, const sigset_t *mask,
                      const int gate[2])
{
    char word;
    close(gate[1]);
    if (options->perf.count && read(gate[0], &word, 1) != 1)
        _exit(0); /* its events could not be had */
    const char *preload = getenv("LD_PRELOAD");
    char *value =
        preload && *preload ? must_format("%s:%s", runtime, preload) : must_strdup(runtime);
    setenv("LD_PRELOAD", value, 1);
    setenv(CHANNEL_VARIABLE, server->address, 1);
    sigprocmask(SIG_SETMASK, mask, NULL);
    signal(SIGXFSZ, SIG_DFL);
    execv(path, options->command);
    fprintf(stderr, "calltrail: %s: cannot be run: %s\n", path, strerror(errno));
    _exit(127);
}

/* How fast the time stamp counter runs is known from how far it came. */
struct stamp {
    double time_s;
    uint64_t ticks;
};

static struct stamp take_stamp(void)
{
    return (struct stamp){now_s(), __rdtsc()};
}

static void measure_ticks(struct recording *recording, struct stamp start)
{
    struct stamp end = take_stamp();
    while (end.time_s - start.time_s < 0.001)
        end = take_stamp();
    recording->ticks_per_ns = (double)(end.ticks - start.ticks) / (end.time_s - start.time_s) / 1e9;
}

static void take_signal(int signals, pid_t child, struct recording *recording,
                        struct witness *witness, struct stamp start)
{
    struct signalfd_siginfo info;
    struct ct_error err;
    if (read(signals, &info, sizeof info) != sizeof info || info.ssi_signo == SIGCHLD)
        return;
    if (info.ssi_signo == SIGUSR2) {
        measure_ticks(recording, start);
        if (collect_profile(recording, &err) != CT_OK)
            fprintf(stderr, "calltrail: no snapshot: %s\n", err.text);
        else
            recording->is_written = true;
    } else if (info.ssi_code != SI_KERNEL && /* a key press has reached the program already */
               !witness_has(witness, (int)info.ssi_signo)) {
        kill(child, (int)info.ssi_signo);
    }
}

/* Samples of the kernel's events are charged to threads by number; a trace has them one by one. */
static bool needs_threads_apart(const struct record_options *options)
{
    const struct record_engine *engine = options->engine;
    return options->perf.count || (engine->output && engine->output(options->engine_options));
}

/* Until the program has ended: answers, grows arenas, passes signals on. */
static void supervise(struct server *server, pid_t child, int signals, struct recording *recording,
                      struct perf_samples *perf, struct witness *witness,
                      struct outside_children *children)
{
    const struct record_options *options = recording->options;
    enum { POLL_MS = 10, MOST_RINGS = 256 };
    const double looks_every_s = 0.1; /* by the clock: a turn may be one of thousands of answers */
    int descriptors[MOST_RINGS];
    struct stamp stamp = take_stamp();
    struct ended past = {.is_off = needs_threads_apart(options)};
    double began_s = 0; /* to measure, after the start */
    double look_s = 0;  /* when to look around, after the start */
    for (;;) {
        struct pollfd wait[3 + MOST_RINGS] = {{.fd = signals, .events = POLLIN},
                                              {.fd = server->listeners[0], .events = POLLIN},
                                              {.fd = server->listeners[1], .events = POLLIN}};
        unsigned rings = perf ? perf_rings_descriptors(&perf->rings, descriptors, MOST_RINGS) : 0;
        for (unsigned i = 0; i < rings; i++)
            wait[3 + i] = (struct pollfd){.fd = descriptors[i], .events = POLLIN};
        poll(wait, 3 + rings, POLL_MS);
        server_answer(server);
        server_grow_arenas(server);
        double passed = now_s() - stamp.time_s;
        bool paused = server->has_begun
                          ? options->duration_s > 0 && passed >= began_s + options->duration_s
                          : passed < options->delay_s;
        if (perf)
            perf_samples_read(perf);
        outside_children_read(children, false);
        if (paused != server->paused) {
            server_pause(server, paused);
            if (perf)
                perf_rings_pause(&perf->rings, paused);
            outside_children_pause(children, paused);
            if (!paused)
                began_s = now_s() - stamp.time_s;
        }
        if (passed >= look_s) {
            server_look_around(server);
            measure_ticks(recording, stamp);
            ended_look(&past, recording);
            look_s = passed + looks_every_s;
        }
        if (wait[0].revents & POLLIN)
            take_signal(signals, child, recording, witness, stamp);
        if (recording->slices && slices_due(recording->slices, server)) {
            measure_ticks(recording, stamp);
            slices_take(recording->slices, recording);
        }
        struct rusage usage;
        siginfo_t ended = {0};
        if (waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid)
            server_look_at_io(server, (uint64_t)child); /* as long as it can be looked at */
        if (wait4(child, &recording->wait_status, WNOHANG, &usage) == child) {
            measure_ticks(recording, stamp);
            ended_wait(&past, recording);
            recording->has_usage = true;
            recording->utime_s =
                (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6;
            recording->stime_s =
                (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6;
            return;
        }
    }
}

/* What the engine writes besides the profile, or NULL. */
static const char *second_output(const struct record_options *options)
{
    return options->engine->output ? options->engine->output(options->engine_options) : NULL;
}

/* Whether a file can be written is asked before the program runs, not after. */
static int check_output(const char *path, bool keeps_old, struct ct_error *err)
{
    struct new_file probe;
    if (!path)
        return CT_OK;
    CT_TRY(file_begin(path, &probe, err));
    int status = keeps_old ? file_keep_old(&probe, err) : CT_OK;
    file_abandon(&probe);
    return status;
}

/* What could not be done to the code of a process, or not in time. */
static void say_what_was_not_edited(const struct server_arena *a)
{
    const struct arena_header *h = a->header;
    if (h->modules_not_edited)
        fprintf(stderr,
                "calltrail: pid %u: calls from %u module%s were not counted: the edit plans "
                "came too late, or no memory nearby was free\n",
                (unsigned)a->pid, h->modules_not_edited, h->modules_not_edited == 1 ? "" : "s");
    if (h->not_paused)
        fprintf(stderr,
                "calltrail: pid %u: calls between ct_pause and ct_resume were counted, too: "
                "the files of its modules cannot be read any more\n",
                (unsigned)a->pid);
    if (h->not_resumed)
        fprintf(stderr,
                "calltrail: pid %u: calls after ct_resume were not counted: it had other "
                "threads then; --delay and --duration choose a time for all threads\n",
                (unsigned)a->pid);
    if (h->is_too_high == ARENA_GAVE_WAY)
        fprintf(stderr,
                "calltrail: pid %u: its calls were not counted any more from when it mapped memory "
                "at a fixed place between 2 and 4 GB, where calltrail had its own\n",
                (unsigned)a->pid);
    else if (h->is_too_high == ARENA_STOOD_IN_THE_WAY)
        fprintf(stderr,
                "calltrail: pid %u: a call that maps memory at a fixed place between 2 and 4 GB "
                "failed: calltrail has its own there with this engine\n",
                (unsigned)a->pid);
    else if (h->is_too_high)
        fprintf(stderr,
                "calltrail: pid %u: its calls were not counted: too little of its address space "
                "between 2 and 4 GB is free; see its limits (ulimit -v)\n",
                (unsigned)a->pid);
}

/* One line for each thing that the profile cannot hold. */
static void say_what_is_missing(const struct server *server, const char *path)
{
    uint64_t lost = 0, lost_by_limit = 0;
    unsigned alive = 0;
    pid_t first = 0;
    for (size_t i = 0; i < server->arenas.count; i++) {
        const struct arena_header *h = server->arenas.items[i].header;
        /* Where more came too late for a few samples only, their number is in the profile. */
        if (h->wanted == ARENA_CANNOT_BE_MAPPED)
            lost_by_limit += h->lost[LOST_NO_ROOM];
        else if (server->arenas.items[i].is_full)
            lost += h->lost[LOST_NO_ROOM];
        if (server_arena_in_use(server, i) && alive++ == 0)
            first = (pid_t)server->arenas.items[i].pid;
    }
    if (!server->arenas.count && !server->without_arena)
        fprintf(stderr,
                "calltrail: %s: nothing was recorded: the runtime did not get in, or found no "
                "room for what it measures (see calltrail doctor %s)\n",
                path, path);
    if (server->without_arena)
        fprintf(stderr, "calltrail: %u process%s not recorded: no room in %s: %s\n",
                server->without_arena, server->without_arena == 1 ? " was" : "es were",
                server->folder.path, strerror(server->why_without));
    if (lost)
        fprintf(stderr, "calltrail: %llu samples are lost: no room in %s\n",
                (unsigned long long)lost, server->folder.path);
    if (lost_by_limit)
        fprintf(stderr,
                "calltrail: %llu samples are lost: a limit for the program's address space leaves "
                "no room for them\n",
                (unsigned long long)lost_by_limit);
    for (size_t i = 0; i < server->arenas.count; i++) {
        say_what_was_not_edited(&server->arenas.items[i]);
        if (server->engine->say_what_is_missing)
            server->engine->say_what_is_missing(server, &server->arenas.items[i]);
    }
    if (alive)
        fprintf(stderr, "calltrail: %u process%s on (pid %d%s), recorded up to here\n", alive,
                alive == 1 ? " goes" : "es go", first, alive == 1 ? "" : ", …");
}

/* Opens the perf events of the child that waits, and lets it go on. */
static int begin_perf(struct perf_samples *perf, struct recording *recording, pid_t child, int gate,
                      struct ct_error *err)
{
    const struct record_options *options = recording->options;
    CT_TRY(perf_rings_open(&perf->rings, &options->perf, child, options->follow,
                           options->delay_s > 0, options->rate_hz, err));
    perf_samples_begin(perf, recording->server);
    recording->perf = perf;
    if (write(gate, "", 1) != 1)
        return ct_fail_errno(err, errno, "the program cannot be told to begin");
    return CT_OK;
}

static int run_program(const struct record_options *options, struct server *server,
                       struct slices *slices, const struct signals *signals, const char *path,
                       const char *runtime, int *exit_status, struct ct_error *err)
{
    server->paused = options->delay_s > 0;
    server->has_begun = !server->paused;
    fflush(stdout);
    struct witness witness;
    witness_begin(&witness);
    int gate[2]; /* the program waits there until its events are open */
    if (pipe2(gate, O_CLOEXEC) != 0) {
        witness_end(&witness);
        return ct_fail_errno(err, errno, "%s: no process for it", path);
    }
    pid_t child = fork();
    if (child == 0)
        run_child(options, server, path, runtime, &signals->before, gate);
    struct perf_samples perf = {0};
    struct outside_children children;
    struct recording recording = {.options = options, .server = server, .slices = slices};
    outside_children_begin(&children, server, options);
    int status = CT_OK;
    close(gate[0]);
    if (child < 0)
        status = ct_fail_errno(err, errno, "%s: no process for it", path);
    else if (options->perf.count)
        status = begin_perf(&perf, &recording, child, gate[1], err);
    close(gate[1]);
    if (status != CT_OK) {
        if (child > 0)
            waitpid(child, NULL, 0);
    } else {
        supervise(server, child, signals->fd, &recording, options->perf.count ? &perf : NULL,
                  &witness, &children);
        server_answer(server);
        outside_children_read(&children, true);
        server_look_around(server); /* what has ended meanwhile ended now */
        *exit_status = WIFSIGNALED(recording.wait_status) ? 128 + WTERMSIG(recording.wait_status)
                                                          : WEXITSTATUS(recording.wait_status);
        server_pause(server, true); /* what goes on is left in peace */
        if (recording.perf) {
            perf_rings_pause(&perf.rings, true);
            perf_samples_read(&perf);
        }
        recording.is_over = true;
        status = slices ? slices_end(slices, &recording, err) : collect_profile(&recording, err);
        if (status == CT_OK && second_output(options))
            status = options->engine->write_output(server, second_output(options), err);
        say_what_is_missing(server, path);
        outside_children_say_what_is_missing(&children);
    }
    outside_children_end(&children);
    if (recording.perf)
        perf_samples_end(&perf);
    witness_end(&witness);
    return status;
}

/* The profile could not be written; what was measured is still there. */
static void say_how_to_recover(struct ct_error *err, const char *folder)
{
    struct ct_error why = *err;
    ct_fail(err, "%.350s; nothing is lost: 'calltrail recover -o FILE %.100s' makes the profile",
            why.text, folder);
}

/*
 * Source lines, into the profile that has been written. Debug information is large, and not always
 * sound: it is read in a process of its own, so that whatever it does to that one, and whenever the
 * user loses patience, there is a profile.
 */
static void look_up_lines(const char *output)
{
    if (file_is_stream(output)) {
        fprintf(stderr,
                "calltrail: %s: is not a regular file: the profile has no source lines; calltrail "
                "symbolize adds them\n",
                output);
        return;
    }
    struct fill_result result;
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(names_fill_file(output, output, &(struct debug_folders){0}, &result, NULL));
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        fprintf(stderr,
                "calltrail: %s: source lines could not be looked up; functions and costs are "
                "complete\n",
                output);
}

static int choose_runtime(const struct record_options *options,
                          const struct program_modules *modules, const char *path, char **runtime,
                          struct ct_error *err)
{
    const char *name = options->events.mask & ~(uint32_t)EVENT_CPU ? "libcalltrail-events.so"
                                                                   : "libcalltrail-rt.so";
    if (options->events.mask & EVENTS_OF_MEMORY) {
        struct program_memory memory = prepare_memory(modules);
        if (memory.has_new_operator)
            name = "libcalltrail-events-new.so";
        if (memory.has_malloc)
            fprintf(stderr,
                    "calltrail: %s has a malloc of its own inside, which cannot be seen; linked as "
                    "a shared library it can\n",
                    path);
    }
    *runtime = find_runtime(name);
    return *runtime ? CT_OK : ct_fail(err, "%s is not where calltrail is; install both", name);
}

/*
 * LD_PRELOAD has spaces and colons between paths. A library that is installed where there are such
 * is preloaded by another name, in the folder of the recording.
 */
static int make_preloadable(const struct server *server, char **runtime, struct ct_error *err)
{
    if (!strpbrk(*runtime, " :"))
        return CT_OK;
    char *link = server_runtime_link(server);
    int status = CT_OK;
    if (strpbrk(link, " :"))
        status =
            ct_fail(err, "%s: cannot be preloaded: its path has a space or a colon, and so has %s",
                    *runtime, server->folder.path);
    else if (symlink(*runtime, link) != 0)
        status = ct_fail_errno(err, errno, "%s: cannot be made", link);
    free(*runtime);
    *runtime = link;
    return status;
}

/* Events where the command line names none: the engine's own, if there are no others. */
static struct arena_events choose_events(const struct record_options *options)
{
    struct arena_events events = options->events;
    if (!events.mask && !options->perf.count)
        events.mask = options->engine->events;
    return events;
}

static uint64_t choose_period_ns(const struct record_options *options,
                                 const struct arena_events *events)
{
    /* Without samples, a tick now and then does what has to be done in the program. */
    const uint64_t seldom_ns = 10000000;
    const struct record_engine *engine = options->engine;
    if (events->mask & EVENTS_BY_SAMPLES)
        return 1000000000 / options->rate_hz;
    uint64_t tick_ns = engine->tick_ns ? engine->tick_ns(options->engine_options) : 0;
    return tick_ns ? tick_ns : seldom_ns;
}

static int open_server(struct server *server, const struct record_options *options,
                       struct signals *signals, struct ct_error *err)
{
    const struct record_engine *engine = options->engine;
    struct arena_events events = choose_events(options);
    uint32_t flags =
        (options->follow ? CHANNEL_FOLLOW : 0u) | (options->verify ? CHANNEL_VERIFY : 0u) |
        (engine->edits && !engine->by_height && options->duration_s > 0 ? CHANNEL_DETACHES : 0u) |
        (needs_threads_apart(options) ? CHANNEL_APART : 0u);
    leftovers_settle(stderr);
    signals_take(signals); /* before there is a folder */
    CT_TRY(server_open(server, choose_period_ns(options, &events), flags, err));
    if (server->maps.cache.warning.text[0])
        fprintf(stderr, "calltrail: warning: %s\n", server->maps.cache.warning.text);
    if (!options->outside)
        server->tick_cost_ns = tick_cost_ns();
    server->engine = engine;
    server->engine_options = options->engine_options;
    if (engine->settings)
        engine->settings(options->engine_options, options, server->settings);
    server->events = events;
    server->keeps_times =
        !options->no_times && options->slices.every_s <= 0 && (events.mask & EVENT_CPU);
    return CT_OK;
}

/* What only a runtime inside can measure is not to be had from outside. */
static bool can_be_outside(const struct record_options *options)
{
    return !engine_edits(options->engine, options->engine_options) && !options->perf.count &&
           !(options->events.mask & ~(uint32_t)EVENT_CPU);
}

/* The program of the options; where it cannot be a host, it is recorded from outside. */
static int find_program(struct record_options *options, char **path, struct ct_error *err)
{
    struct target_ways ways;
    struct ct_error why;
    if (options->pids.items.count)
        return CT_OK;
    CT_TRY(target_locate(options->command[0], path, err));
    if (options->outside || target_check_host(*path, &ways, err) == CT_OK)
        return CT_OK;
    if (ways.inside && (!can_be_outside(options) || outside_try(getpid(), false, &why) != CT_OK))
        return CT_OK;
    if (!ways.outside)
        return CT_ERROR;
    if (!can_be_outside(options)) {
        why = *err;
        return ct_fail(err, "%.400s; from outside only CPU time can be measured", why.text);
    }
    fprintf(stderr, "calltrail: recording from outside: %s\n", err->text);
    options->outside = true;
    return CT_OK;
}

/* Finds what is needed to run the program, and has the maps of its modules made. */
static int prepare(const struct record_options *options, const char *path, char **runtime,
                   struct ct_error *err)
{
    if (options->slices.every_s <= 0)
        CT_TRY(check_output(options->output, true, err));
    CT_TRY(check_output(second_output(options), false, err));
    if (!path)
        return CT_OK;
    struct program_modules modules = prepare_list(path);
    int status = options->outside ? CT_OK : choose_runtime(options, &modules, path, runtime, err);
    if (status == CT_OK)
        prepare_maps(&modules,
                     options->engine->by_height ? NULL : record_engine_plans(options->engine));
    prepare_free(&modules);
    return status;
}

int record_run(const struct record_options *asked, int *exit_status, struct ct_error *err)
{
    char *path = NULL, *runtime = NULL;
    struct server server;
    struct signals signals = {.fd = -1};
    struct slices slices = {0};
    struct record_options chosen = *asked;
    const struct record_options *options = &chosen;
    int status = find_program(&chosen, &path, err);
    if (status == CT_OK)
        status = prepare(options, path, &runtime, err);
    if (status == CT_OK && (status = open_server(&server, options, &signals, err)) == CT_OK) {
        struct slices *used = options->slices.every_s > 0 ? &slices : NULL;
        status = slices_begin(&slices, options, &server, err);
        if (status == CT_OK && options->outside)
            status = outside_run(options, &server, used, &signals, path, exit_status, err);
        else if (status == CT_OK && (status = make_preloadable(&server, &runtime, err)) == CT_OK)
            status = run_program(options, &server, used, &signals, path, runtime, exit_status, err);
        bool keep = status != CT_OK && server.arenas.count;
        if (keep)
            say_how_to_recover(err, server.folder.path);
        server_close(&server, keep);
        if (status == CT_OK && !options->no_lines && !used)
            look_up_lines(options->output);
    }
    if (signals.fd >= 0)
        close(signals.fd);
    free(path);
    free(runtime);
    return status;
}

int record_recover(const char *folder, const char *output, struct ct_error *err)
{
    struct server server;
    CT_TRY(server_reopen(&server, folder, err));
    char *none[] = {NULL};
    struct record_options options = {.output = output,
                                     .rate_hz =
                                         server.period_ns ? 1000000000 / server.period_ns : 0,
                                     .command = none};
    struct recording recording = {.options = &options,
                                  .server = &server,
                                  .for_slice = slices_are_left(folder),
                                  .is_over = true,
                                  .wait_status = -1};
    /* Asked before the profile is made: what ends meanwhile has written all it had by then. */
    size_t in_use = 0;
    for (size_t i = 0; i < server.arenas.count; i++)
        in_use += server_arena_in_use(&server, i);
    server_look_around(&server); /* for the CPU time of what goes on */
    measure_ticks(&recording, take_stamp());
    int status = kept_settle(&server, err);
    if (status == CT_OK)
        status = collect_profile(&recording, err);
    if (status == CT_OK)
        status = slices_recover(server.folder.path, output, err);
    if (status == CT_OK && in_use)
        fprintf(stderr,
                "calltrail: %zu process%s on: this is what was measured so far; recover %s again "
                "afterwards\n",
                in_use, in_use == 1 ? " goes" : "es go", folder);
    server_close(&server, status != CT_OK || in_use);
    if (status == CT_OK)
        look_up_lines(output);
    return status;
}
