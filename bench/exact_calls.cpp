// What a call costs under engine exact: a program to be run by `calltrail record --engine exact`
// (bench/exact.py does).
//
//   exact_calls toggle KIND PAIRS  the same loop of calls with and without the edits, in turn, by
//                                  ct_pause and ct_resume; prints the CPU time of both, in ns
//   exact_calls steps KIND         prints how many instructions a turn of the loop takes, by single
//                                  steps: more than in a plain run are calltrail's
#include <calltrail.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUT __attribute__((noinline, noclone))

static const long CALLS = 400000; // a millisecond or so
static const long STEPPED = 500;

OUT static long leaf(long x)
{
    __asm__ volatile("" : "+r"(x));
    return x;
}

OUT static long direct(long x)
{
    return leaf(x) + 1;
}

OUT static long tail(long x)
{
    __asm__ volatile("" : "+r"(x));
    return direct(x);
}

OUT static long other(long x)
{
    return leaf(x) + 2;
}

struct shape {
    virtual long area(long x) const = 0;
    virtual ~shape() = default;
};

struct square : shape {
    OUT long area(long x) const override
    {
        return leaf(x) * 2;
    }
};

struct circle : shape {
    OUT long area(long x) const override
    {
        return leaf(x) * 3;
    }
};

static long (*volatile one)(long) = direct;
static long (*volatile several[])(long) = {direct, other, tail, direct};
static const shape *volatile shapes[] = {new square, new circle};

// The calls of a turn, of which one is what is asked for: the rest are in all kinds, and known.
static long turn(char kind, long i)
{
    switch (kind) {
    case 'l':
        return leaf(i);
    case 'd':
        return direct(i);
    case 't':
        return tail(i);
    case 'i':
        return one(i);
    case 'm':
        return several[i & 3](i);
    case 'v':
        return shapes[i & 1]->area(i);
    case 'p':
        return labs(i);
    default:
        return i;
    }
}

static long loop(char kind, long count)
{
    long sum = 0;
    for (long i = 0; i < count; i++)
        sum += turn(kind, i);
    return sum;
}

static uint64_t cpu_ns()
{
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

static volatile long keep;

static uint64_t loop_ns(char kind)
{
    keep = loop(kind, CALLS / 20); // caches and contexts are warm
    uint64_t start = cpu_ns();
    keep = loop(kind, CALLS);
    return cpu_ns() - start;
}

static void toggle(char kind, int pairs)
{
    for (int i = 0; i < pairs; i++) {
        uint64_t with = loop_ns(kind);
        ct_pause();
        uint64_t without = loop_ns(kind);
        ct_resume();
        printf("%.3f %.3f\n", static_cast<double>(with) / static_cast<double>(CALLS),
               static_cast<double>(without) / static_cast<double>(CALLS));
    }
}

// A child does the loop; its parent counts its steps between the two marks.
static void steps(char kind)
{
    auto *mark = static_cast<volatile int *>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    pid_t child = fork();
    if (child == 0) {
        keep = loop(kind, STEPPED);
        ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
        raise(SIGSTOP);
        *mark = 1;
        keep = loop(kind, STEPPED);
        *mark = 2;
        _exit(0);
    }
    long count = 0;
    int status;
    waitpid(child, &status, 0);
    while (*mark < 2 && ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) == 0 &&
           waitpid(child, &status, 0) == child && WIFSTOPPED(status))
        count += *mark == 1;
    ptrace(PTRACE_CONT, child, nullptr, nullptr);
    waitpid(child, &status, 0);
    printf("%.2f\n", static_cast<double>(count) / static_cast<double>(STEPPED));
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    if (strcmp(argv[1], "steps") == 0)
        steps(argv[2][0]);
    else
        toggle(argv[2][0], argc > 3 ? atoi(argv[3]) : 50);
    return 0;
}
