/*
 * A program whose frames may grow, and that is walked while they have: exceptions through them,
 * rethrown and caught by type, clean-ups, longjmp, a thread that is cancelled, backtrace(). It
 * prints what it saw. With an argument it stops below all of its functions instead, and waits for a
 * byte, so that others can walk it.
 */
#include <csetjmp>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <execinfo.h>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <unistd.h>

#define CALLED __attribute__((noinline, noclone, noipa))

static volatile int zero;
static int cleaned;
static jmp_buf back;

struct Cleaner {
    int value;
    explicit Cleaner(int v) : value(v)
    {
    }
    ~Cleaner()
    {
        cleaned = cleaned * 7 + value;
    }
};

/* Its caller has two of the arguments on the stack: the frame between them may not grow. */
static CALLED int with_arguments(int a, int b, int c, int d, int e, int f, int g, int h)
{
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + zero;
}

static CALLED int with_list(const char *format, ...)
{
    char text[64];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return (int)strlen(text) + zero;
}

static CALLED int see_frames(void)
{
    void *frames[64];
    int count = backtrace(frames, 64);
    char **names = backtrace_symbols(frames, count);
    int known = 0;
    for (int i = 0; i < count; i++)
        known += strstr(names[i], "grown_main") || strstr(names[i], "libc_start");
    free(names);
    return known >= 2;
}

static CALLED int stop_here(int n)
{
    char byte;
    printf("%d\n", (int)getpid());
    fflush(stdout);
    return (int)read(0, &byte, 1) + n + zero;
}

static CALLED int innermost(int how, int n)
{
    Cleaner c(n & 3);
    switch (how) {
    case 0:
        throw n;
    case 1:
        throw std::runtime_error("depth " + std::to_string(n));
    case 2:
        return see_frames() + zero;
    case 3:
        longjmp(back, n);
    case 4:
        for (;;)
            pthread_testcancel();
    case 5:
        return stop_here(n);
    default:
        return with_arguments(n, 2, 3, 4, 5, 6, 7, 8) +
               with_list("%d %s %f %d %d %d %d %d", n, "x", 1.5, 1, 2, 3, 4, 5);
    }
}

static CALLED int third(int how, int n)
{
    Cleaner c(1);
    return innermost(how, n) + 1 + zero;
}

static CALLED int second(int how, int n)
{
    try {
        return third(how, n) + 1 + zero;
    } catch (const std::runtime_error &e) {
        if (n & 1)
            throw;
        throw std::logic_error(std::string("from ") + e.what());
    }
}

static CALLED int first(int how, int n)
{
    Cleaner c(2);
    if (n > 3)
        return first(how, n - 1) + 1 + zero;
    return second(how, n) + 1 + zero;
}

static CALLED void *run_thread(void *)
{
    Cleaner c(3);
    first(4, 5);
    return nullptr;
}

extern "C" CALLED int grown_main(int argc)
{
    for (int round = 0; round < 50; round++) {
        for (int n = 0; n < 12; n++) {
            try {
                first(0, n);
            } catch (int thrown) {
                cleaned += thrown;
            }
            try {
                first(1, n);
            } catch (const std::logic_error &e) {
                cleaned += (int)strlen(e.what());
            } catch (const std::exception &e) {
                cleaned += 2 * (int)strlen(e.what());
            }
            if (setjmp(back) == 0)
                first(3, n + 1);
            cleaned = cleaned % 1000003 + first(6, n);
        }
    }
    printf("cleaned %d, frames %d\n", cleaned, first(2, 9));
    pthread_t thread;
    void *result = nullptr;
    pthread_create(&thread, nullptr, run_thread, nullptr);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("cancelled %d, cleaned %d\n", result == PTHREAD_CANCELED, cleaned);
    if (argc > 1)
        printf("%d\n", first(5, 6));
    return zero;
}

int main(int argc, char **)
{
    return grown_main(argc) + zero;
}
