/*
 * 64 threads run code that one of them changes all the time: calls that lead to one callee and to
 * another, and pieces of several instructions that become a jump, and come back.
 *
 *     live_storm SECONDS CHANGES
 *
 * Runs until there have been so many changes, and for so long. Every thread knows what it has to
 * get, from each call that it makes and from each system call; what differs is counted, by kind.
 */
#include "live_common.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition) && failures++ < 20)                                                       \
            fprintf(stderr, "live_storm.c:%d: %s, errno %d\n", __LINE__, #condition, errno);       \
    } while (0)

enum { THREADS = 64, SHORT_NS = 5000000 };

static _Atomic long failures, all_calls, rounds;
static _Atomic bool is_over;
static pthread_barrier_t begun;
extern char **environ;

long throws_through(long (*function)(long, long (*)(long)), long x);

/* Everything that changes, once; `n` is any number. */
static void run_all(long n)
{
    long a = calls_a, b = calls_b;
    for (int i = 0; i < CALLS; i++)
        CHECK(calls[i].function(n + i) == right_call(i, n + i));
    CHECK(calls_a - a + calls_b - b == CALLS);
    for (int i = 0; i < RANGES; i++)
        CHECK(ranges[i].function(n, twice) == right_range(i, n));
    all_calls += CALLS;
    rounds++;
}

/* --- the threads -------------------------------------------------------------------------------
 */

static void never_sleeps(long n)
{
    run_all(n);
}

static void sleeps(long n)
{
    struct timespec time = {0, SHORT_NS};
    run_all(n);
    CHECK(nanosleep(&time, NULL) == 0);
}

static void waits_for_epoll(long n)
{
    static __thread int epoll;
    if (!epoll)
        epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event;
    run_all(n);
    CHECK(epoll_wait(epoll, &event, 1, 5) == 0);
}

static void polls(long n)
{
    run_all(n);
    CHECK(poll(NULL, 0, 5) == 0);
}

static void receives(long n)
{
    static __thread int pair[2];
    struct timeval time = {0, SHORT_NS / 1000};
    char byte;
    if (!pair[0]) {
        CHECK(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) == 0);
        CHECK(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
    }
    run_all(n);
    CHECK(recv(pair[0], &byte, 1, 0) == -1 && errno == EAGAIN);
}

static void waits_for_semaphore(long n)
{
    static __thread sem_t semaphore;
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_nsec += SHORT_NS;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    run_all(n);
    CHECK(sem_timedwait(&semaphore, &time) == -1 && errno == ETIMEDOUT);
}

/* Without libc, so that no stand-in notices. */
static void blocks_all(long n)
{
    uint64_t all = ~UINT64_C(0);
    long status;
    register long bytes __asm__("r10") = 8;
    __asm__ volatile("syscall"
                     : "=a"(status)
                     : "a"(SYS_rt_sigprocmask), "D"(SIG_SETMASK), "S"(&all), "d"(0), "r"(bytes)
                     : "rcx", "r11", "memory");
    CHECK(status == 0);
    run_all(n);
    if (n % 8 == 0)
        sched_yield();
}

static void throws(long n)
{
    struct timespec time = {0, SHORT_NS};
    run_all(n);
    for (int i = 0; i < 20; i++)
        CHECK(throws_through(ranges[2].function, n) == n + 1);
    nanosleep(&time, NULL);
}

static void *short_life(void *n)
{
    know_this_thread();
    run_all((long)n);
    return n;
}

static void makes_threads(long n)
{
    pthread_t made;
    void *got = NULL;
    CHECK(pthread_create(&made, NULL, short_life, (void *)n) == 0);
    CHECK(pthread_join(made, &got) == 0 && got == (void *)n);
}

/*
 * Every other one by vfork: the child runs in the memory of its parent. It stays away from the
 * entrances at which it would wait for the change to be over: that waits for the child.
 */
static void forks(long n)
{
    int status = -1;
    char *arguments[] = {"true", NULL};
    struct timespec time = {0, 10 * SHORT_NS};
    pid_t child = -1;
    if (n % 4 == 3) {
        CHECK(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) == 0);
    } else if (n % 2) {
        child = vfork();
        if (child == 0)
            _exit(ranges[0].function(5, twice) != right_range(0, 5));
    } else {
        child = fork();
        if (child == 0) {
            failures = 0;
            for (int i = 0; i < 20; i++)
                run_all(i);
            _exit(failures != 0);
        }
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    nanosleep(&time, NULL);
}

static _Atomic long handled;

static void on_user_signal(int number)
{
    (void)number;
    int before = errno;
    for (int i = 0; i < RANGES; i++)
        CHECK(ranges[i].function(i, twice) == right_range(i, i));
    handled++;
    errno = before;
}

static pthread_t made[THREADS];

/* A handler of the program comes in the middle of anything, in threads that do not wait. */
static void signals_others(long n)
{
    struct timespec time = {0, SHORT_NS};
    run_all(n);
    CHECK(pthread_kill(made[n % 3], SIGUSR1) == 0);
    nanosleep(&time, NULL);
}

static const struct kind {
    void (*work)(long n);
    int count;
} kinds[] = {{never_sleeps, 3},        {sleeps, 22},  {waits_for_epoll, 8}, {polls, 6},
             {waits_for_semaphore, 6}, {receives, 6}, {blocks_all, 2},      {throws, 5},
             {makes_threads, 3},       {forks, 1},    {signals_others, 1}};

static void *work(void *argument)
{
    const struct kind *kind = argument;
    know_this_thread();
    pthread_barrier_wait(&begun);
    for (long n = 0; !is_over; n++)
        kind->work(n);
    return NULL;
}

/* --- the changes -------------------------------------------------------------------------------
 */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static struct live_text text;
static long changed, ranges_changed, refused;

/* From one callee to the other: one site, some, or all. */
static void change_calls(long n)
{
    static int leads_to[CALLS];
    static const int most[] = {1, 3, 1, 8, 1, CALLS};
    struct live_site sites[CALLS];
    int count = most[n % 6], first = (int)(n * 7 % CALLS);
    if (first + count > CALLS)
        first = CALLS - count;
    for (int i = 0; i < count; i++) {
        leads_to[first + i] ^= 1;
        sites[i] = call_change(first + i, leads_to[first + i]);
    }
    CHECK(live_replace(&text, sites, (uint32_t)count, 0));
    changed += count;
}

/*
 * From instructions to a jump, and back: mostly the one at whose entrance no thread has to wait,
 * since all the others do so with all their might, and now and then all of them at once. That may
 * be refused: a handler waits at an entrance, on top of a thread that is inside, or a thread gets
 * no processor for so long.
 */
static void change_ranges(long n)
{
    struct live_site sites[RANGES];
    uint32_t count = 0;
    for (int is_edit = 1; is_edit >= 0; is_edit--) {
        count = 0;
        for (int i = 0; i < RANGES; i++)
            if (i == 0 || n % 5 == 0)
                sites[count++] = range_change(i, is_edit);
        if (!live_replace(&text, sites, count, UINT64_C(3000000000))) {
            refused++;
            CHECK(is_edit);
            for (uint32_t i = 0; i < count; i++)
                CHECK(memcmp((void *)sites[i].address, sites[i].old_bytes, sites[i].bytes) == 0);
            return;
        }
        changed += count;
        ranges_changed += count;
        run_all(n);
    }
}

/* --- before and after the storm -----------------------------------------------------------------
 */

static bool is_unchanged(void)
{
    for (int i = 0; i < RANGES; i++)
        if (memcmp(ranges[i].site, range_old[i], ranges[i].bytes) != 0)
            return false;
    return memcmp(calls[0].site, call_bytes[0][0], CALL_BYTES) == 0;
}

/* What cannot be done is not done in part either: old bytes that are others, a first instruction of
 * one byte, sites in the wrong order, no memory. */
static void try_refusals(void)
{
    struct live_site sites[] = {call_change(0, 1), range_change(1, true), range_change(4, true)};
    struct live_site wrong_bytes = range_change(4, false), short_one = range_change(1, true);
    struct rlimit before, none;
    CHECK(!live_replace(&text, (struct live_site[]){sites[0], sites[1], wrong_bytes}, 3, 0));
    CHECK(is_unchanged());
    short_one.first_bytes = 1;
    CHECK(!live_replace(&text, (struct live_site[]){sites[0], short_one}, 2, UINT64_MAX / 4));
    CHECK(is_unchanged());
    CHECK(!live_replace(&text, (struct live_site[]){call_change(1, 1), sites[0]}, 2, 0));
    CHECK(is_unchanged());
    getrlimit(RLIMIT_AS, &before);
    none = before;
    none.rlim_cur = PAGE;
    setrlimit(RLIMIT_AS, &none); /* no memory for a copy */
    bool done = live_replace(&text, sites, 3, UINT64_MAX / 4);
    setrlimit(RLIMIT_AS, &before);
    CHECK(!done && is_unchanged());
}

/* Maps still say that all of the code is the program's: debuggers find its symbols by that. */
static void check_maps(void)
{
    char line[512], name[256];
    unsigned long start, end;
    int found = 0;
    ssize_t length = readlink("/proc/self/exe", name, sizeof name - 1);
    FILE *maps = fopen("/proc/self/maps", "re");
    CHECK(length > 0 && maps);
    name[length > 0 ? length : 0] = 0;
    while (maps && fgets(line, sizeof line, maps) && sscanf(line, "%lx-%lx", &start, &end) == 2)
        for (int i = 0; i < CALLS; i++)
            if ((uint64_t)calls[i].site >= start && (uint64_t)calls[i].site < end) {
                CHECK(strstr(line, name) && strstr(line, " r-xp "));
                found++;
            }
    CHECK(found == CALLS);
    if (maps)
        fclose(maps);
}

/* Not all mappings that a process may have are taken from it; what was refused takes none. */
static void try_many_pages(void)
{
    enum { PAGES = 16500, FEW = 100 };
    static const uint8_t bytes[2][CALL_BYTES] = {{0xe8, 1, 2, 3, 4}, {0xe8, 5, 6, 7, 8}};
    static struct live_site sites[PAGES];
    const struct live_text anonymous = {.file = -1};
    uint8_t *code = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    for (long i = 0; i < PAGES; i++) {
        memcpy(code + i * PAGE, bytes[0], CALL_BYTES);
        sites[i] = (struct live_site){(uint64_t)(code + i * PAGE), bytes[0], bytes[1], CALL_BYTES,
                                      CALL_BYTES};
    }
    CHECK(!live_replace(&anonymous, sites, PAGES, 0) && code[1] == 1);
    CHECK(live_replace(&anonymous, sites, FEW, 0) && code[1] == 5 && code[FEW * PAGE + 1] == 1);
}

static void on_fault(int number)
{
    static const char said[] = "a fault came up\n";
    ssize_t count = write(2, said, sizeof said - 1);
    _exit(count < 0 ? 4 : 3 + (number == SIGTRAP));
}

int main(int argc, char **argv)
{
    double seconds = argc > 2 ? atof(argv[1]) : 1;
    long most = argc > 2 ? atol(argv[2]) : 1000;
    if (!has_perf_events()) {
        puts("skip live storm: perf events are not permitted");
        return 77;
    }
    signal(SIGSEGV, on_fault);
    signal(SIGTRAP, on_fault);
    signal(SIGUSR1, on_user_signal);
    pthread_atfork(NULL, NULL, live_forked);
    make_sites();
    know_this_thread();
    text = own_text();
    CHECK(text.file >= 0);
    try_refusals();
    pthread_barrier_init(&begun, NULL, THREADS);
    int count = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (int i = 0; i < kinds[k].count && count < THREADS - 1; i++)
            CHECK(pthread_create(&made[count++], NULL, work, (void *)&kinds[k]) == 0);
    CHECK(count == THREADS - 1);
    pthread_barrier_wait(&begun);
    uint64_t start = now_ns(), in_calls = 0, in_ranges = 0;
    long call_changes = 0, range_changes = 0;
    for (long n = 0; changed < most || (double)(now_ns() - start) < seconds * 1e9; n++) {
        uint64_t before = now_ns();
        change_calls(n);
        in_calls += now_ns() - before;
        call_changes++;
        if (n % 100 == 0) {
            before = now_ns();
            change_ranges(n / 100);
            in_ranges += now_ns() - before;
            range_changes++;
        }
    }
    is_over = true;
    for (int i = 0; i < count; i++)
        pthread_join(made[i], NULL);
    check_maps();
    try_many_pages();
    CHECK(rounds > THREADS && handled > 0 && ranges_changed > 0);
    printf("%ld sites changed, %ld of them ranges; %ld rounds, %ld handlers; failures %ld, "
           "refused %ld\n",
           changed, ranges_changed, (long)rounds, (long)handled, (long)failures, refused);
    fprintf(stderr, "us for calls %.1f, for ranges there and back %.1f\n",
            (double)in_calls / 1e3 / (double)call_changes,
            (double)in_ranges / 1e3 / (double)range_changes);
    return failures != 0;
}
