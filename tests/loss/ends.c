/*
 * A program that ends in the way that the first argument says, at a moment that was not chosen.
 * Three threads divide their time among three functions and publish, on a board in a shared file,
 * how much CPU time each function took: what the samples must agree with.
 *
 *   ends HOW BOARD AFTER_US
 *
 * It begins to end AFTER_US after the observer has set `go` on the board, so that the observer has
 * opened the arena by then. Ways that end by themselves do so in main, while the other threads are
 * anywhere; the others go on until they are killed.
 */
#include "torture.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

struct board {
    _Atomic uint32_t go;        /* by the observer: the time runs from here */
    _Atomic uint32_t go_second; /* by the observer: the program after exec may end */
    _Atomic uint32_t ready;     /* by the program: main has begun */
    _Atomic uint32_t rounds;    /* of forking or loading */
    _Atomic uint64_t ns[3];     /* CPU time in alpha, beta, gamma; of all threads */
};

static struct board *board;
static const char *self;
static uint64_t after_ns;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/*
 * A virtual machine may stand still for long, which the kernel takes for CPU time, and in which
 * there is one tick at most: what takes a hundred times as long as it should is not counted.
 */
static NOINLINE void slice(int which)
{
    enum { STOOD_STILL_NS = 5000000 };
    for (int i = 0; i < 4; i++) {
        uint64_t begin = thread_cpu_ns();
        spin(20000);
        uint64_t took = thread_cpu_ns() - begin;
        if (took < STOOD_STILL_NS)
            atomic_fetch_add(&board->ns[which], took);
    }
}

static NOINLINE void alpha(void)
{
    slice(0);
    __asm__ volatile("");
}

static NOINLINE void beta(void)
{
    slice(1);
    slice(1);
    __asm__ volatile("");
}

static NOINLINE void gamma_(void)
{
    slice(2);
    slice(2);
    slice(2);
    __asm__ volatile("");
}

static NOINLINE void divide_time(void)
{
    alpha();
    beta();
    gamma_();
}

static void *beside(void *argument)
{
    for (;;)
        divide_time();
    return argument;
}

static void start_threads(void)
{
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, beside, NULL);
    }
}

static void work_until_the_end(void)
{
    while (!board->go)
        divide_time();
    for (uint64_t end = now_ns() + after_ns; now_ns() < end;)
        divide_time();
}

static void *exit_beside(void *argument)
{
    work_until_the_end();
    exit(21);
    return argument;
}

static void end_exit_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, exit_beside, NULL);
    beside(NULL);
}

static void end_forking(void)
{
    for (;;) {
        board->rounds++;
        pid_t pid = fork();
        if (pid == 0) {
            burn_ms(2);
            _exit(0);
        }
        waitpid(pid, NULL, 0);
    }
}

static void end_loading(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%.4000s.plugin.so", self);
    for (;;) {
        board->rounds++;
        void *plugin = dlopen(path, RTLD_NOW);
        if (!plugin)
            exit(98);
        burn_ms(1);
        dlclose(plugin);
    }
}

static void end_exec(void)
{
    work_until_the_end();
    execl(self, self, "after_exec", "-", "0", (char *)NULL);
}

static void end_exec_static(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%.4000s.static", self);
    work_until_the_end();
    execl(path, path, (char *)NULL);
}

static void end_exec_missing(void)
{
    work_until_the_end();
    int status = execl("/nonexistent/program", "program", (char *)NULL);
    for (int i = 0; i < 20; i++)
        divide_time();
    _exit(status == -1 && errno == ENOENT ? 24 : 99);
}

static void end_signal(int number)
{
    work_until_the_end();
    raise(number);
}

static void end_kill(void)
{
    beside(NULL);
}

static void end_segv(void)
{
    work_until_the_end();
    *(volatile int *)8 = 1;
}

static void end_abort(void)
{
    work_until_the_end();
    abort();
}

static void end__exit(void)
{
    work_until_the_end();
    _exit(33);
}

static void end_term(void)
{
    end_signal(SIGTERM);
}

static void open_board(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (board == MAP_FAILED)
        exit(97);
    close(fd);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } ways[] = {{"kill", end_kill},
                {"segv", end_segv},
                {"abort", end_abort},
                {"_exit", end__exit},
                {"term", end_term},
                {"exit_thread", end_exit_thread},
                {"exec", end_exec},
                {"exec_static", end_exec_static},
                {"exec_missing", end_exec_missing},
                {"forking", end_forking},
                {"loading", end_loading}};
    if (argc != 4)
        return 96;
    self = argv[0];
    if (strcmp(argv[1], "after_exec") == 0) {
        open_board(getenv("BOARD"));
        do
            burn_ms(2);
        while (!board->go_second);
        return 22;
    }
    open_board(argv[2]);
    setenv("BOARD", argv[2], 1);
    after_ns = strtoull(argv[3], NULL, 10) * 1000;
    printf("%s\n", argv[1]);
    fflush(stdout);
    board->ready = 1;
    start_threads();
    for (unsigned i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (strcmp(argv[1], ways[i].name) == 0)
            ways[i].run();
    return 95;
}
