/*
 * Threads that stand where a change is hardest, put there by a debugger: at each boundary inside of
 * a range, at its start when everything has been looked at, in the handler of a signal that came in
 * the middle, asleep in the kernel. The change must wait, refuse or go on, and the thread's result
 * must be right. Nothing depends on time: what must not happen is waited for until it has had its
 * chance, and that is known by what the threads do.
 *
 *     live_parked [FAULT]      a number of enum live_fault: then it must find something wrong
 *
 * The process has a worker, which is traced and does what it is told, one byte from a pipe at a
 * time, and an editor, which makes the changes.
 */
#include "live_common.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

enum { WORKER, EDITOR, PARTS };
enum { INPUT = 12345 };

/* Shared with the tracer. */
static struct shared {
    pid_t tids[PARTS];
    long result;
    _Atomic int go_on, runs; /* a worker that does not sleep waits for the first */
    sem_t semaphore;
} * shared;

/* A message is what to do and a number; what comes back is a number. */
struct message {
    int what, number;
    uint64_t patience_ns;
};
static int orders[PARTS][2], answers[PARTS][2], wake[2], hook_says[2], hook_goes_on[2];
static pid_t process;

static void say(int fd, const void *what, size_t bytes)
{
    if (write(fd, what, bytes) != (ssize_t)bytes)
        exit(2);
}

static bool hear(int fd, void *what, size_t bytes)
{
    ssize_t got;
    do
        got = read(fd, what, bytes);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)bytes;
}

/* --- the process that is looked at --------------------------------------------------------------
 */

enum { RUN_RANGE, RUN_CALL, SLEEP, LOOK_IN_CHILD, VFORK, RUN_UNSEEN };
enum { EDIT, PUT_BACK, EDIT_WITH_HOOK, CALLS_TO_B };
enum { IN_EPOLL, IN_POLL, IN_RECV, IN_SEMAPHORE, SLEEPS };
static const int sleeping_call[SLEEPS] = {SYS_epoll_wait, SYS_poll, SYS_recvfrom, SYS_futex};

/* Sleeps until it is woken; what the system call said, or less than 0: its error. */
static long sleep_in(int kind)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct pollfd fd = {.fd = wake[0], .events = POLLIN};
    struct timespec late = {.tv_sec = INT32_MAX};
    struct timeval long_time = {.tv_sec = 1000};
    char byte;
    long got = 0;
    int epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, wake[0], &event);
    setsockopt(wake[0], SOL_SOCKET, SO_RCVTIMEO, &long_time, sizeof long_time);
    errno = 0;
    switch (kind) {
    case IN_EPOLL:
        got = epoll_wait(epoll, &event, 1, 1000000);
        break;
    case IN_POLL:
        got = poll(&fd, 1, 1000000);
        break;
    case IN_RECV:
        got = recv(wake[0], &byte, 1, MSG_PEEK);
        break;
    default:
        got = sem_timedwait(&shared->semaphore, &late) == 0 ? 1 : -1;
    }
    int error = errno;
    close(epoll);
    return got < 0 ? -error : got;
}

/* In a child that is forked now: are the entrances as they were? */
static long look_in_child(int range)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        _exit(memcmp(ranges[range].site, range_old[range], ranges[range].bytes) != 0);
    waitpid(child, &status, 0);
    return status;
}

/* A child that uses this memory, until it is woken. */
static long wait_for_vfork(void)
{
    int status = -1;
    pid_t child = vfork();
    if (child == 0) {
        char byte;
        _exit(read(wake[0], &byte, 1) != 1);
    }
    waitpid(child, &status, 0);
    return status;
}

/* Runs without a system call and without a signal that could get through. */
static long run_unseen(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    shared->runs = 1;
    while (!shared->go_on)
        ;
    shared->go_on = shared->runs = 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return 0;
}

static void on_sleeping_signal(int number)
{
    char byte;
    (void)number;
    hear(wake[0], &byte, 1);
}

static void on_our_signal(int number)
{
    (void)number;
}

static void on_busy_signal(int number)
{
    (void)number;
    while (!shared->go_on)
        ;
    shared->go_on = 0;
}

static void *worker(void *unused)
{
    static char other_stack[1 << 16];
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    struct message m;
    sigaltstack(&stack, NULL);
    know_this_thread();
    shared->tids[WORKER] = gettid();
    while (hear(orders[WORKER][0], &m, sizeof m)) {
        long result = m.what == RUN_RANGE       ? ranges[m.number].function(INPUT, twice)
                      : m.what == RUN_CALL      ? calls[m.number].function(INPUT)
                      : m.what == SLEEP         ? sleep_in(m.number)
                      : m.what == LOOK_IN_CHILD ? look_in_child(m.number)
                      : m.what == VFORK         ? wait_for_vfork()
                                                : run_unseen();
        say(answers[WORKER][1], &result, sizeof result);
    }
    return unused;
}

static void hook(void)
{
    char byte = 0;
    say(hook_says[1], &byte, 1);
    hear(hook_goes_on[0], &byte, 1);
}

static void in_child(void)
{
    live_seen = NULL;
    live_forked();
}

static int edits(void)
{
    pthread_t made;
    struct message m;
    const struct live_text text = own_text();
    pthread_atfork(NULL, NULL, in_child);
    signal(SIGUSR1, on_sleeping_signal);
    signal(SIGUSR2, on_busy_signal);
    struct sigaction elsewhere = {.sa_handler = on_sleeping_signal, .sa_flags = SA_ONSTACK};
    sigaction(SIGURG, &elsewhere, NULL);
    signal(SAMPLE_SIGNAL, on_our_signal);
    know_this_thread();
    shared->tids[EDITOR] = gettid();
    pthread_create(&made, NULL, worker, NULL);
    while (hear(orders[EDITOR][0], &m, sizeof m)) {
        struct live_site site = m.what == CALLS_TO_B ? call_change(m.number, 1)
                                                     : range_change(m.number, m.what != PUT_BACK);
        live_seen = m.what == EDIT_WITH_HOOK || m.what == CALLS_TO_B ? hook : NULL;
        long done = live_replace(&text, &site, 1, m.patience_ns);
        say(answers[EDITOR][1], &done, sizeof done);
    }
    return 0;
}

/* --- the tracer ---------------------------------------------------------------------------------
 */

static int wrong;
static char where[64]; /* what is being tried */

/* What goes on from here is of no use: the process is broken. */
static _Noreturn void end(void)
{
    kill(process, SIGKILL);
    printf("%d wrong\n", wrong);
    exit(wrong != 0);
}

static void check(bool is_right, const char *what)
{
    if (is_right)
        return;
    printf("wrong: %s: %s\n", where, what);
    wrong++;
    if (live_fault != FAULT_NONE) /* it was noticed, and nothing is right from here on */
        end();
}

static void order(int part, int what, int number, uint64_t patience_ns)
{
    struct message m = {what, number, patience_ns};
    say(orders[part][1], &m, sizeof m);
}

/* The answer of a part, which goes on meanwhile. A worker that dies instead is wrong. */
static long answer(int part)
{
    long result = -1;
    struct pollfd fd = {.fd = answers[part][0], .events = POLLIN};
    int status;
    while (poll(&fd, 1, 1) == 0) {
        pid_t worker = shared->tids[WORKER];
        if (waitpid(process, &status, WNOHANG) == process) {
            check(false, "the process has ended");
            end();
        }
        if (waitpid(worker, &status, __WALL | WNOHANG) != worker)
            continue;
        if (!WIFSTOPPED(status) || status >> 16 == PTRACE_EVENT_STOP) {
            ptrace(PTRACE_CONT, worker, 0, 0);
            continue;
        }
        int signal = WSTOPSIG(status);
        if (signal == SIGTRAP || signal == SIGSEGV || signal == SIGILL || signal == SIGBUS) {
            check(false, strsignal(signal));
            end();
        }
        ptrace(PTRACE_CONT, worker, 0, signal);
    }
    hear(fd.fd, &result, sizeof result);
    return result;
}

static uint64_t pc_of_worker(void)
{
    struct user_regs_struct r = {0};
    ptrace(PTRACE_GETREGS, shared->tids[WORKER], 0, &r);
    return r.rip;
}

static void stop_worker(void)
{
    int status;
    ptrace(PTRACE_INTERRUPT, shared->tids[WORKER], 0, 0);
    waitpid(shared->tids[WORKER], &status, __WALL);
}

static void step_worker(void)
{
    int status;
    ptrace(PTRACE_SINGLESTEP, shared->tids[WORKER], 0, 0);
    waitpid(shared->tids[WORKER], &status, __WALL);
    if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
        check(false, "the worker does not step");
}

/* Runs the worker up to a place in a range, or in what was moved out of it. */
static void park(int range, const uint8_t *at)
{
    stop_worker();
    order(WORKER, RUN_RANGE, range, 0);
    for (long steps = 0; pc_of_worker() != (uint64_t)at; steps++) {
        step_worker();
        if (steps == 100000) {
            check(false, "the worker does not get there");
            end();
        }
    }
}

static void release(int signal)
{
    ptrace(PTRACE_CONT, shared->tids[WORKER], 0, signal);
}

/* Until the worker sleeps in a system call. */
static void wait_for_call(int number)
{
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%d/task/%d/syscall", process, shared->tids[WORKER]);
    for (long now = -1; now != number; sched_yield()) {
        FILE *in = fopen(path, "re");
        now = in && fgets(text, sizeof text, in) && text[0] != 'r' ? atol(text) : -1;
        if (in)
            fclose(in);
    }
}

static bool holds(const uint8_t *at, const uint8_t *bytes, size_t count)
{
    uint8_t now[MOST_RANGE_BYTES];
    struct iovec here = {now, count}, there = {(void *)at, count};
    return process_vm_readv(process, &here, 1, &there, 1, 0) == (ssize_t)count &&
           memcmp(now, bytes, count) == 0;
}

static bool is_old(int range)
{
    return holds(ranges[range].site, range_old[range], ranges[range].bytes);
}

static bool is_new(int range)
{
    return holds(ranges[range].site, range_new[range], ranges[range].bytes);
}

/* Times to give up; those that are not to be reached are long. */
static const uint64_t soon_ns = 20000000, late_ns = UINT64_C(100000000000);

static void must_refuse(int range, const char *why)
{
    order(EDITOR, EDIT, range, soon_ns);
    check(answer(EDITOR) == 0, why);
    check(is_old(range), "something has changed");
}

static void must_edit(int range, uint64_t patience_ns)
{
    order(EDITOR, EDIT, range, patience_ns);
    check(answer(EDITOR) == 1 && is_new(range), "it was not edited");
}

static void must_put_back(int range)
{
    order(EDITOR, PUT_BACK, range, 0);
    check(answer(EDITOR) == 1 && is_old(range), "it was not put back");
}

static void must_be_right(int range)
{
    check(answer(WORKER) == right_range(range, INPUT), "the result");
}

/* Boundaries of the instructions of a range, but for the first: by stepping through it. */
static int boundaries(int range, uint64_t *found)
{
    const struct range *r = &ranges[range];
    int count = 0;
    park(range, r->site);
    for (step_worker(); pc_of_worker() - (uint64_t)r->site < r->bytes; step_worker())
        found[count++] = pc_of_worker() - (uint64_t)r->site;
    release(0);
    must_be_right(range);
    return count;
}

/* A thread inside is waited for; when it goes on, so does the change. */
static void try_boundary(int range, uint64_t at)
{
    snprintf(where, sizeof where, "range %d, at byte %d", range, (int)at);
    park(range, ranges[range].site + at);
    must_refuse(range, "a thread inside was not waited for");
    order(EDITOR, EDIT, range, late_ns);
    while (is_old(range)) /* until its entrance is closed */
        sched_yield();
    release(0);
    check(answer(EDITOR) == 1 && is_new(range), "it was not edited");
    must_be_right(range);
}

/* Threads at the start, behind the end, and in the stub: no thread waits. */
static void try_outside(int range)
{
    snprintf(where, sizeof where, "range %d, outside", range);
    must_edit(range, late_ns);
    park(range, range_stub[range] + ranges[range].first_bytes);
    must_put_back(range);
    release(0);
    must_be_right(range);
    park(range, ranges[range].site);
    must_edit(range, late_ns);
    release(0);
    must_be_right(range);
    must_put_back(range);
}

/* A thread at the start, when all have been seen: it must not get inside any more. */
static void try_start(int range)
{
    char byte = 0;
    snprintf(where, sizeof where, "range %d, at the start when all were seen", range);
    park(range, ranges[range].site);
    order(EDITOR, EDIT_WITH_HOOK, range, late_ns);
    hear(hook_says[0], &byte, 1);
    step_worker();
    check(pc_of_worker() - (uint64_t)ranges[range].site - 1 >= ranges[range].bytes - 1,
          "the entrance is open");
    say(hook_goes_on[1], &byte, 1);
    check(answer(EDITOR) == 1, "it was not edited");
    release(0);
    must_be_right(range);
    must_put_back(range);
}

/* Handlers on top of an instruction inside, which sleep or run; `more` comes on top of that. */
static void try_handler(int range, int signal, int more)
{
    char byte = 0;
    snprintf(where, sizeof where, "range %d, in the handler of %s", range, strsignal(signal));
    park(range, ranges[range].site + ranges[range].first_bytes);
    release(signal);
    if (signal != SIGUSR2)
        wait_for_call(SYS_read);
    if (more) {
        tgkill(process, shared->tids[WORKER], more);
        int status;
        waitpid(shared->tids[WORKER], &status, __WALL);
        release(more);
        wait_for_call(SYS_read);
    }
    must_refuse(range, "a handler goes back inside");
    if (signal == SIGUSR2)
        shared->go_on = 1;
    else
        say(wake[1], &byte, 1);
    if (more)
        say(wake[1], &byte, 1);
    must_be_right(range);
    must_edit(range, late_ns);
    must_put_back(range);
}

/* Threads that sleep do not notice, and are right when they wake. */
static void try_sleep(int kind)
{
    char byte = 0;
    snprintf(where, sizeof where, "asleep in system call %d", sleeping_call[kind]);
    order(WORKER, SLEEP, kind, 0);
    wait_for_call(sleeping_call[kind]);
    for (int range = 0; range < RANGES; range++) {
        must_edit(range, late_ns);
        must_put_back(range);
    }
    if (kind == IN_SEMAPHORE)
        sem_post(&shared->semaphore);
    else
        say(wake[1], &byte, 1);
    check(answer(WORKER) == 1, "the system call failed");
    if (kind != IN_SEMAPHORE)
        hear(wake[0], &byte, 1);
}

/* A child that is forked while the entrance is closed. */
static void try_fork(int range)
{
    char byte = 0;
    snprintf(where, sizeof where, "range %d, forked when it was closed", range);
    order(EDITOR, EDIT_WITH_HOOK, range, late_ns);
    hear(hook_says[0], &byte, 1);
    order(WORKER, LOOK_IN_CHILD, range, 0);
    check(answer(WORKER) == 0, "the child finds it closed");
    say(hook_goes_on[1], &byte, 1);
    check(answer(EDITOR) == 1, "it was not edited");
    must_put_back(range);
}

/* Where the child of vfork is in this memory is not known. */
static void try_vfork(int range)
{
    char byte = 0;
    snprintf(where, sizeof where, "range %d, a child of vfork runs", range);
    order(WORKER, VFORK, 0, 0);
    wait_for_call(SYS_vfork);
    must_refuse(range, "the child was not waited for");
    say(wake[1], &byte, 1);
    check(answer(WORKER) == 0, "the child");
    must_edit(range, late_ns);
    must_put_back(range);
}

/* A thread that never sleeps, and that no signal reaches, is seen all the same. */
static void try_busy(int range)
{
    if (!has_perf_events())
        return;
    snprintf(where, sizeof where, "range %d, a thread runs with all signals blocked", range);
    order(WORKER, RUN_UNSEEN, 0, 0);
    while (!shared->runs)
        sched_yield();
    must_edit(range, late_ns);
    must_put_back(range);
    shared->go_on = 1;
    check(answer(WORKER) == 0, "the thread");
}

/* A call that is run at any moment in which something has been written. */
static void try_call(int number)
{
    char byte = 0;
    long done = 0;
    snprintf(where, sizeof where, "call %d while it changes", number);
    order(EDITOR, CALLS_TO_B, number, 0);
    struct pollfd said[] = {{.fd = hook_says[0], .events = POLLIN},
                            {.fd = answers[EDITOR][0], .events = POLLIN}};
    while (poll(said, 2, -1) > 0 && !said[1].revents) {
        hear(hook_says[0], &byte, 1);
        order(WORKER, RUN_CALL, number, 0);
        check(answer(WORKER) == right_call(number, INPUT), "the result");
        say(hook_goes_on[1], &byte, 1);
    }
    done = answer(EDITOR);
    check(done == 1, "it was not changed");
    order(WORKER, RUN_CALL, number, 0);
    check(answer(WORKER) == right_call(number, INPUT), "the result after it");
}

static void try_boundaries(int range)
{
    uint64_t at[MOST_RANGE_BYTES];
    int count = boundaries(range, at);
    for (int i = 0; i < count; i++) {
        try_boundary(range, at[i]);
        must_put_back(range);
    }
    printf("range %d: %d boundaries\n", range, count);
}

static void try_handlers(int range)
{
    try_handler(range, SIGUSR1, 0);
    try_handler(range, SIGURG, 0);
    try_handler(range, SIGUSR2, 0);
    try_handler(range, SIGUSR1, SIGURG);
}

/* What must notice each of the faults; without one, all of it. */
static const struct {
    enum live_fault fault;
    void (*try)(int number);
    int first, end;
} tries[] = {{FAULT_NO_WAIT, try_boundaries, 0, RANGES}, {FAULT_NONE, try_outside, 0, RANGES},
             {FAULT_NONE, try_vfork, 0, RANGES},         {FAULT_NONE, try_busy, 0, RANGES},
             {FAULT_NO_CLOSE, try_start, 0, RANGES},     {FAULT_NO_FRAMES, try_handlers, 0, RANGES},
             {FAULT_NOT_FORKED, try_fork, 0, RANGES},    {FAULT_SIGNALS, try_sleep, 0, SLEEPS},
             {FAULT_IN_PLACE, try_call, 18, 22}}; /* one of these lies on two pages */

static void try_all(void)
{
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++)
        for (int n = tries[i].first; n < tries[i].end; n++)
            if (live_fault == FAULT_NONE || live_fault == tries[i].fault)
                tries[i].try(n);
}

int main(int argc, char **argv)
{
    live_fault = argc > 1 ? (enum live_fault)atoi(argv[1]) : FAULT_NONE;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sem_init(&shared->semaphore, 1, 0);
    for (int part = 0; part < PARTS; part++)
        if (pipe(orders[part]) || pipe(answers[part]))
            return 2;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, wake) || pipe(hook_says) || pipe(hook_goes_on))
        return 2;
    make_sites();
    setvbuf(stdout, NULL, _IOLBF, 0);
    process = fork();
    if (process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        return edits();
    }
    while (!*(volatile pid_t *)&shared->tids[WORKER])
        sched_yield();
    if (ptrace(PTRACE_SEIZE, shared->tids[WORKER], 0, 0) < 0) {
        perror("ptrace");
        kill(process, SIGKILL);
        return 2;
    }
    try_all();
    end();
}
