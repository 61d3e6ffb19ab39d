/*
 * Row 15: backtrace() while samples are taken: in ordinary code, in a handler, and deep. It sees
 * the real callers every time; a marked frame may show as one entry more, in calltrail's library.
 */
#include "torture.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/time.h>

static int wrong, walks;
static int frames_at_depth[64];

static int without_marks(void *const *frames, int count)
{
    int real = 0;
    Dl_info info;
    for (int i = 0; i < count; i++)
        real += !dladdr(frames[i], &info) || !strstr(info.dli_fname, "libcalltrail-");
    return real;
}

static NOINLINE void look(int depth)
{
    void *frames[200];
    int all = backtrace(frames, 200), count = without_marks(frames, all);
    walks++;
    wrong += all > count + 1;
    if (!frames_at_depth[depth])
        frames_at_depth[depth] = count;
    wrong += frames_at_depth[depth] != count;
    for (int i = 0; i < all; i++)
        wrong += frames[i] == NULL;
}

static NOINLINE int deep(int depth, int of)
{
    spin(500);
    if (depth == 0) {
        look(of);
        return 0;
    }
    int below = deep(depth - 1, of);
    __asm__ volatile("" : "+r"(below));
    return below + 1;
}

static volatile sig_atomic_t in_handler;

static void on_user(int number)
{
    void *frames[200];
    int count = backtrace(frames, 200), through = 0;
    char **names = backtrace_symbols(frames, count);
    for (int i = 0; i < count; i++)
        through += strstr(names[i], "main") != NULL;
    in_handler += number == SIGUSR1 && through > 0;
    free(names);
}

int main(void)
{
    for (int i = 0; i < 6000; i++)
        deep(i % 60, i % 60);
    signal(SIGUSR1, on_user);
    for (int i = 0; i < 100; i++) {
        spin(100000);
        raise(SIGUSR1);
    }
    printf("walks %d, wrong %d, through main from a handler %d\n", walks, wrong, (int)in_handler);
    printf("frames at 10, 59: %d\n", frames_at_depth[59] - frames_at_depth[10]);
    return torture_end();
}
