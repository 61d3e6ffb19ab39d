/*
 * Asks for its own context at random points, in threads, handlers and recursion, and compares with
 * what it knows of it: each call notes itself. Prints a line for each thing that is wrong, then the
 * text of some snapshots with the calls that they stand for; where it is not recorded, `inert`.
 *
 *     snapshots ROUNDS
 */
#include <calltrail.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noipa))
#endif

enum { FUNCTIONS = 6, THREADS = 3, DEPTH = 12, MOST = 64, KEPT = 16 };

/* A call as its thread notes it. */
struct noted {
    const char *function;
    int site;
};

struct seen {
    uint64_t hash, key;
};

struct state {
    unsigned random;
    int depth, is_thread;
    struct noted noted[MOST];
    jmp_buf back;
    struct {
        struct ct_snapshot snapshot;
        uint64_t key;
        int depth;
        struct noted noted[MOST];
    } kept[KEPT];
    int kept_count;
    unsigned long taken, missed, wrong;
};

static __thread struct state *now;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct seen *seen;
static size_t seen_count, seen_room;

/* The site is a constant in the code behind the call, so that two calls are never made one. */
#define CALL(f, number, ...)                                                                       \
    ({                                                                                             \
        now->noted[now->depth++] = (struct noted){#f, number};                                     \
        long result_ = f(__VA_ARGS__);                                                             \
        __asm__ volatile("# site %c0" ::"i"(number));                                              \
        now->depth--;                                                                              \
        result_;                                                                                   \
    })

static unsigned next(void)
{
    now->random = now->random * 1103515245u + 12345u;
    return now->random >> 16;
}

static int wrong(const char *what)
{
    if (now->wrong++ < 5)
        printf("wrong: %s\n", what);
    return 0;
}

/* The calls must end in those that were noted, innermost first. */
static int is_same(const struct ct_snapshot *s, const struct noted *noted, int depth)
{
    struct ct_frame frames[MOST + 16];
    int count = ct_decode(s, frames, MOST + 16);
    if (count <= depth)
        return wrong("not decoded");
    for (int i = 0; i < depth; i++)
        if (!frames[i].function || strcmp(frames[i].function, noted[depth - 1 - i].function) != 0)
            return wrong("another function");
    return 1;
}

static uint64_t noted_hash(const struct noted *noted, int depth, int is_thread)
{
    uint64_t hash = 77 + (uint64_t)is_thread;
    for (int i = 0; i < depth; i++)
        for (uint64_t word = (uint64_t)noted[i].site << 3 | (uint64_t)noted[i].function[1] << 32,
                      k = 0;
             k < 8; k++)
            hash = (hash ^ (word >> (8 * k) & 255)) * 0x100000001b3u;
    return hash;
}

/* The same calls, the same key, whoever made them; other calls, another key. */
static void compare_key(uint64_t hash, uint64_t key)
{
    pthread_mutex_lock(&lock);
    size_t at = hash & (seen_room - 1);
    while (seen[at].hash && seen[at].hash != hash)
        at = (at + 1) & (seen_room - 1);
    if (!seen[at].hash) {
        for (size_t i = 0; i < seen_room; i++)
            if (seen[i].hash && seen[i].key == key)
                wrong("other calls have the same key");
        seen_count++;
    } else if (seen[at].key != key) {
        wrong("the same calls have another key");
    }
    seen[at] = (struct seen){hash, key};
    pthread_mutex_unlock(&lock);
}

static NOINLINE void look(const struct ct_snapshot *s, int is_known)
{
    now->taken++;
    if (!is_known) {
        now->missed++;
        return;
    }
    uint64_t key = ct_key(s);
    if (!key)
        wrong("no key");
    if (!is_same(s, now->noted, now->depth))
        return;
    if (seen_count < seen_room / 4)
        compare_key(noted_hash(now->noted, now->depth, now->is_thread), key);
    if (now->kept_count < KEPT && next() % 8 == 0) {
        int k = now->kept_count++;
        now->kept[k].snapshot = *s;
        now->kept[k].key = key;
        now->kept[k].depth = now->depth;
        memcpy(now->kept[k].noted, now->noted, sizeof now->noted);
    }
}

static long any(int depth);

static NOINLINE long f0(int depth)
{
    struct ct_snapshot s;
    int is_known = ct_here(&s);
    look(&s, is_known);
    return depth;
}

static NOINLINE long f1(int depth)
{
    return CALL(any, 10, depth + 1) + CALL(f0, 11, depth + 1) + 1;
}

static NOINLINE long f2(int depth)
{
    struct ct_snapshot s;
    int is_known = ct_here(&s);
    look(&s, is_known);
    return CALL(any, 20, depth + 2) + 1;
}

static NOINLINE long f3(int depth)
{
    return depth < DEPTH ? CALL(f3, 30, depth + 1) + CALL(f0, 31, depth) : CALL(f0, 32, depth);
}

static NOINLINE long f4(int depth)
{
    if (next() % 16 == 0)
        longjmp(now->back, 1);
    return CALL(any, 40, depth + 1) + 1;
}

static NOINLINE void on_signal(int number)
{
    now->noted[now->depth++] = (struct noted){"on_signal", 50};
    struct ct_snapshot s;
    int is_known = ct_here(&s);
    struct ct_frame frames[2];
    if (is_known && (ct_decode(&s, frames, 2) < 3 || strcmp(frames[0].function, "on_signal") != 0))
        wrong("handler");
    now->depth--;
    (void)number;
}

static NOINLINE long f5(int depth)
{
    raise(SIGUSR1);
    return CALL(f0, 51, depth) + 1;
}

typedef long function(int);
static function *const all[FUNCTIONS] = {f0, f1, f2, f3, f4, f5};
static const char *const names[FUNCTIONS] = {"f0", "f1", "f2", "f3", "f4", "f5"};

static NOINLINE long any(int depth)
{
    if (depth >= DEPTH)
        return CALL(f0, 60, depth);
    int which = (int)(next() % FUNCTIONS);
    now->noted[now->depth++] = (struct noted){names[which], 61};
    long result = all[which](depth + 1);
    now->depth--;
    return result + 1;
}

static NOINLINE void rounds_of(int rounds)
{
    for (volatile int i = 0; i < rounds; i++) {
        now->depth = 1;
        if (setjmp(now->back) == 0)
            CALL(any, 70, 0);
    }
    now->depth = 1;
}

static void *run(void *argument)
{
    struct state *s = argument;
    now = s;
    now->noted[0] = (struct noted){"rounds_of", 0};
    rounds_of(atoi(getenv("ROUNDS")));
    return NULL;
}

/* --- what is known of other threads' snapshots ------------------------------------------------ */

static void look_later(struct state *of)
{
    for (int i = 0; i < of->kept_count; i++) {
        is_same(&of->kept[i].snapshot, of->kept[i].noted, of->kept[i].depth);
        if (ct_key(&of->kept[i].snapshot) != of->kept[i].key)
            wrong("another key later");
    }
}

static void print_kept(const struct state *of)
{
    for (int i = 0; i < of->kept_count; i++) {
        char text[CT_TEXT_BYTES];
        ct_print(&of->kept[i].snapshot, text, sizeof text);
        printf("%016llx %s =", (unsigned long long)of->kept[i].key, text);
        for (int k = 0; k < of->kept[i].depth; k++)
            printf(" > %s", of->kept[i].noted[k].function);
        putchar('\n');
    }
}

/* --- work that is handed over ----------------------------------------------------------------- */

static struct ct_snapshot handed;
static char task_text[CT_TEXT_BYTES];

static NOINLINE void works(void)
{
    struct ct_snapshot s;
    struct ct_frame frames[MOST];
    int has_handed = 0, count;
    if (!ct_here(&s))
        return;
    count = ct_decode(&s, frames, MOST);
    for (int i = 0; i < count && i < MOST; i++)
        if ((frames[i].flags & CT_FRAME_TASK) && frames[i].function &&
            strcmp(frames[i].function, "hands_over") == 0)
            has_handed++;
    if (has_handed != 1)
        wrong("task");
    uint64_t key = ct_key(&s);
    ct_task_end();
    struct ct_snapshot after;
    if (!ct_here(&after) || after.task == s.task || ct_key(&after) == key)
        wrong("task has no end");
    ct_print(&s, task_text, sizeof task_text);
}

static void *worker(void *argument)
{
    struct state *s = argument;
    now = s;
    ct_task_begin(&handed);
    works();
    return NULL;
}

static NOINLINE void hands_over(struct state *s)
{
    pthread_t thread;
    ct_here(&handed);
    pthread_create(&thread, NULL, worker, s);
    pthread_join(thread, NULL);
}

/* --- a handler that looks at what was interrupted --------------------------------------------- */

static char interrupted_text[CT_TEXT_BYTES];

static void on_fault(int number, siginfo_t *info, void *context)
{
    struct ct_snapshot s;
    if (ct_at(&s, context))
        ct_print(&s, interrupted_text, sizeof interrupted_text);
    (void)number;
    (void)info;
    siglongjmp(now->back, 1);
}

static NOINLINE void faults(volatile int *nowhere)
{
    *nowhere = 1;
}

static NOINLINE void leads_to_fault(void)
{
    faults(NULL);
    __asm__ volatile("");
}

static void in_child(void)
{
    struct ct_snapshot s;
    char text[CT_TEXT_BYTES];
    if (fork() == 0) {
        if (ct_decode(&handed, NULL, 0) != CT_OTHER_RUN)
            wrong("a parent's snapshot");
        if (ct_here(&s) && ct_print(&s, text, sizeof text))
            printf("child %s\n", text);
        fflush(stdout);
        kill(getpid(), SIGKILL); /* what it has written stays */
    }
    wait(NULL);
}

int main(int argc, char **argv)
{
    static struct state states[THREADS + 1];
    pthread_t threads[THREADS];
    struct ct_snapshot s;
    now = &states[0];
    if (!ct_here(&s)) {
        struct ct_frame frame;
        char text[CT_TEXT_BYTES] = "text";
        puts(ct_key(&s) || ct_decode(&s, &frame, 1) != CT_EMPTY || ct_print(&s, text, 9) || *text
                 ? "not inert"
                 : "inert");
        return 0;
    }
    setenv("ROUNDS", argc > 1 ? argv[1] : "100", 1);
    seen_room = 1 << 16;
    seen = calloc(seen_room, sizeof *seen);
    signal(SIGUSR1, on_signal);
    for (int i = 0; i <= THREADS; i++) {
        states[i].random = (unsigned)i % 3 + 1; /* two threads do the same */
        states[i].is_thread = i > 0;
    }
    for (volatile int i = 0; i < THREADS; i++) /* in one place: they have the same origin */
        pthread_create(&threads[i], NULL, run, &states[i + 1]);
    run(&states[0]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i <= THREADS; i++)
        look_later(&states[i]);
    static struct state of_worker;
    hands_over(&of_worker);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    if (sigsetjmp(now->back, 1) == 0)
        leads_to_fault();
    unsigned long taken = 0, missed = 0, failed = 0;
    for (int i = 0; i <= THREADS; i++) {
        print_kept(&states[i]);
        taken += states[i].taken;
        missed += states[i].missed;
        failed += states[i].wrong;
    }
    printf("task %s\nfault %s\n", task_text, interrupted_text);
    fflush(stdout);
    in_child();
    printf("%s %s %lu wrong\n", taken > 100 ? "taken" : "few", missed ? "missed" : "all",
           failed + of_worker.wrong);
    return 0;
}
