/*
 * Row 48: libc's ways to start programs keep what they promise, among threads, when they are
 * cancelled, on small stacks and with bad arguments. The argument says which.
 */
#include "torture.h"

#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <wordexp.h>

extern char **environ;

static const char *self;

static NOINLINE void burn_in_child(void)
{
    burn_ms(100);
}

static const char *action_of(int number)
{
    struct sigaction action;
    sigaction(number, NULL, &action);
    return action.sa_handler == SIG_DFL   ? "default"
           : action.sa_handler == SIG_IGN ? "ignored"
                                          : "handled";
}

static void print_actions(const char *when)
{
    printf("%s: SIGINT %s, SIGQUIT %s\n", when, action_of(SIGINT), action_of(SIGQUIT));
}

/* --- system in several threads ------------------------------------------------------------------
 */

static pthread_barrier_t together;

static void *runs_system(void *argument)
{
    (void)argument;
    for (int i = 0; i < 10; i++) {
        pthread_barrier_wait(&together);
        CHECK(system(":") == 0);
    }
    return NULL;
}

static void system_threads(void)
{
    enum { COUNT = 4 };
    pthread_t threads[COUNT];
    pthread_barrier_init(&together, NULL, COUNT);
    for (int i = 0; i < COUNT; i++)
        pthread_create(&threads[i], NULL, runs_system, NULL);
    for (int i = 0; i < COUNT; i++)
        pthread_join(threads[i], NULL);
    print_actions("after all");
    printf("child: %#x\n", system("kill -INT $$"));
    print_actions("after the child's");
}

/* --- system, cancelled --------------------------------------------------------------------------
 */

static int started[2], held[2];

static void *runs_for_ever(void *argument)
{
    (void)argument;
    char command[128];
    snprintf(command, sizeof command, "exec cat <&%d >&%d", held[0], started[1]);
    system(command);
    return NULL;
}

static void system_cancelled(void)
{
    pthread_t thread;
    void *result = NULL;
    char line[16] = "";
    CHECK(pipe(started) == 0 && pipe(held) == 0);
    fcntl(started[0], F_SETFD, FD_CLOEXEC);
    fcntl(held[1], F_SETFD, FD_CLOEXEC);
    pthread_create(&thread, NULL, runs_for_ever, NULL);
    CHECK(write(held[1], "started\n", 8) == 8); /* which comes back from cat, not from its shell */
    CHECK(read(started[0], line, sizeof line) == 8);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    close(started[1]);
    printf("cancelled: %d\n", result == PTHREAD_CANCELED);
    if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD) {
        printf("the child is still there\n");
        close(held[1]); /* it ends */
    }
    CHECK(read(started[0], line, sizeof line) == 0);
    print_actions("afterwards");
}

/* --- environ, seen by others --------------------------------------------------------------------
 */

static atomic_bool is_over;
static atomic_int seen;

static void *looks(void *argument)
{
    char **first = environ;
    while (!is_over) {
        const char *home = getenv("HOME");
        if (!home || getenv("LD_PRELOAD") || environ != first)
            seen++;
        for (char **at = environ; *at; at++)
            if (strncmp(*at, "CALLTRAIL", 9) == 0 || strncmp(*at, "LD_PRELOAD", 10) == 0)
                seen++;
    }
    return argument;
}

static void popen_getenv(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, looks, NULL);
    for (int i = 0; i < 100; i++) {
        char line[64] = "";
        FILE *pipe = popen("echo from the child", "r");
        CHECK(fgets(line, sizeof line, pipe) && strcmp(line, "from the child\n") == 0);
        CHECK(pclose(pipe) == 0);
    }
    is_over = true;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("seen: %d\n", seen);
}

/* --- small stacks, large environments -----------------------------------------------------------
 */

enum { VARIABLES = 2000 };

static char **large_environment(int count)
{
    static char text[8 * VARIABLES][16];
    char **variables = calloc((size_t)count + 1, sizeof *variables);
    for (int i = 0; i < count; i++) {
        snprintf(text[i], sizeof text[i], "V%d=%d", i, i);
        variables[i] = text[i];
    }
    return variables;
}

static void collect(pid_t pid)
{
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid);
    printf("status %#x\n", status);
}

static void *spawns(void *argument)
{
    char **variables = argument;
    char *const arguments[] = {(char *)self, (char *)"child", NULL};
    pid_t pid = -1;
    CHECK(posix_spawn(&pid, self, NULL, NULL, arguments, variables) == 0);
    collect(pid);
    pid = vfork();
    if (pid == 0) {
        execve(self, arguments, variables);
        _exit(99);
    }
    collect(pid);
    return NULL;
}

static int count_maps(void)
{
    int lines = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    for (int c; (c = fgetc(file)) != EOF;)
        lines += c == '\n';
    fclose(file);
    return lines;
}

static void small_stack(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstacksize(&attributes, 16384) == 0);
    CHECK(pthread_create(&thread, &attributes, spawns, large_environment(VARIABLES)) == 0);
    pthread_join(thread, NULL);
    environ = large_environment(8 * VARIABLES);
    char *const arguments[] = {(char *)"true", NULL};
    int before = 0;
    for (int i = 0; i < 20; i++) {
        pid_t pid;
        CHECK(posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ) == 0);
        waitpid(pid, NULL, 0);
        before = i ? before : count_maps();
    }
    CHECK(system("test $V1999 = 1999") == 0);
    CHECK(count_maps() < before + 10); /* what a child needed is not left in its parent */
}

/* --- bad arguments ------------------------------------------------------------------------------
 */

#define FAILS(call)                                                                                \
    do {                                                                                           \
        int status_ = call;                                                                        \
        printf("%s: %d %s\n", #call, status_, strerrorname_np(errno));                             \
    } while (0)

static void bad_arguments(void)
{
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page + 4096, 4096);
    char *const arguments[] = {(char *)self, (char *)"child", NULL};
    char *bad_text[] = {(char *)"A=1", (char *)8, NULL};
    char **cut = (char **)(page + 4096) - 2;
    cut[0] = cut[1] = (char *)"A=1";
    memcpy(page + 4096 - 8, "LD_PRELO", 8); /* and the rest of it is not there */
    char *cut_text[] = {page + 4096 - 8, NULL};
    FAILS(execve(self, arguments, (char **)8));
    FAILS(execve(self, arguments, bad_text));
    FAILS(execve(self, arguments, cut_text));
    FAILS(execve(self, (char **)8, environ));
    FAILS(execve((char *)8, arguments, environ));
    FAILS(execve("", arguments, environ));
    FAILS(execve("/nonexistent", arguments, environ));
    FAILS(execve("/dev/null/x", arguments, environ));
    FAILS(execve("/dev/null", arguments, environ));
    FAILS(execveat(-1, "x", arguments, environ, 0));
    FAILS(fexecve(-1, arguments, environ));
    FAILS(execvp("no-such-program-anywhere", arguments));
    cut[1] = NULL;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(self, O_RDONLY);
        fexecve(fd, arguments, cut);
        _exit(99);
    }
    collect(pid);
    pid = fork();
    if (pid == 0) {
        char *empty[] = {(char *)"LD_PRELOAD=", NULL};
        execve(self, arguments, empty);
        _exit(99);
    }
    collect(pid);
    pid = fork();
    if (pid == 0) {
        execveat(AT_FDCWD, self, arguments, NULL, 0);
        _exit(99);
    }
    collect(pid);
}

/* --- no shell -----------------------------------------------------------------------------------
 */

static void no_shell(void)
{
    printf("with a shell: %d\n", system(NULL) != 0);
    CHECK(mkdir("no-shell", 0700) == 0 && chroot("no-shell") == 0);
    printf("without: %d\n", system(NULL));
    printf("command: %#x\n", system("exit 3"));
    FILE *pipe = popen("exit 3", "r");
    printf("popen: %s\n", pipe ? "a stream" : strerrorname_np(errno));
    burn_in_child();
}

/* --- others that start a shell ------------------------------------------------------------------
 */

static void expansion(void)
{
    wordexp_t words;
    char text[4300];
    snprintf(text, sizeof text, "$(%s child; echo one two)", self);
    printf("%d\n", wordexp(text, &words, 0));
    for (size_t i = 0; i < words.we_wordc; i++)
        printf("word: %s\n", words.we_wordv[i]);
}

/* --- a child that is not a host -----------------------------------------------------------------
 */

static void other_bits(void)
{
    char path[4200], script[4200];
    snprintf(path, sizeof path, "%.*s/child32", (int)(strrchr(self, '/') - self), self);
    snprintf(script, sizeof script, "%s.sh", path);
    FILE *file = fopen(script, "w");
    fprintf(file, "#!%s\n", path);
    fclose(file);
    CHECK(chmod(script, 0755) == 0);
    printf("child: %#x\n", system(path));
    printf("script: %#x\n", system(script));
    burn_in_child();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } ways[] = {{"system", system_threads}, {"cancelled", system_cancelled},
                {"environ", popen_getenv},  {"small_stack", small_stack},
                {"bad", bad_arguments},     {"no_shell", no_shell},
                {"wordexp", expansion},     {"32bit", other_bits}};
    const char *way = argc > 1 ? argv[1] : "";
    self = "/proc/self/exe";
    if (strcmp(way, "child") == 0) {
        const char *preload = getenv("LD_PRELOAD");
        printf("child: preloaded '%s', %s\n", preload ? preload : "nothing",
               getenv("V1999") ? "with all" : "");
        burn_in_child();
        return 0;
    }
    char path[4096] = "";
    CHECK(readlink(self, path, sizeof path - 1) > 0);
    self = path;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (strcmp(way, ways[i].name) == 0)
            ways[i].run();
    return torture_end();
}
