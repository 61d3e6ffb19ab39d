/*
 * Many contexts, made in every way: direct calls and calls through pointers, tail calls, recursion,
 * callbacks from libc, handlers of signals, longjmp over frames, threads. What it prints depends on
 * its argument alone: how many rounds.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline))

enum { FUNCTIONS = 8, THREADS = 3, DEPTH = 9 };

struct walk {
    unsigned state;
    long sum;
    jmp_buf back;
    int may_jump;
};

typedef long function(struct walk *w, int depth);
static function f0, f1, f2, f3, f4, f5, f6, f7;
static function *const all[FUNCTIONS] = {f0, f1, f2, f3, f4, f5, f6, f7};
static __thread struct walk *now;

static NOINLINE unsigned next(struct walk *w)
{
    w->state = w->state * 1103515245u + 12345u;
    return w->state >> 16;
}

static NOINLINE long leaf(struct walk *w, int depth)
{
    long sum = depth;
    for (int i = 0; i < 200; i++)
        sum = sum * 31 + i;
    w->sum += sum & 1023;
    return sum & 7;
}

static NOINLINE long spin(struct walk *w, int depth)
{
    return leaf(w, depth) + leaf(w, depth + 1);
}

static NOINLINE int compare(const void *a, const void *b)
{
    spin(now, 1);
    return *(const int *)a - *(const int *)b;
}

static NOINLINE long sorts(struct walk *w, int depth)
{
    int numbers[] = {5, 2, 9, (int)next(w) & 15};
    qsort(numbers, 4, sizeof numbers[0], compare);
    return numbers[0] + depth;
}

static NOINLINE void on_signal(int number)
{
    spin(now, number);
}

static NOINLINE long raises(struct walk *w, int depth)
{
    raise(SIGUSR1);
    return spin(w, depth) + 1;
}

static NOINLINE long jumps(struct walk *w, int depth)
{
    if (w->may_jump && next(w) % 4 == 0)
        longjmp(w->back, depth + 1);
    return spin(w, depth) + 1;
}

static NOINLINE long any(struct walk *w, int depth)
{
    if (depth >= DEPTH)
        return spin(w, depth);
    return all[next(w) % FUNCTIONS](w, depth + 1);
}

static long f0(struct walk *w, int depth)
{
    return f1(w, depth + 1) + 1;
}

static long f1(struct walk *w, int depth)
{
    return any(w, depth) + leaf(w, depth);
}

static long f2(struct walk *w, int depth)
{
    long first = any(w, depth + 1);
    return first + any(w, depth + 2);
}

static long f3(struct walk *w, int depth)
{
    return any(w, depth); /* a tail call */
}

static long f4(struct walk *w, int depth)
{
    return depth < DEPTH ? f4(w, depth + 3) + f5(w, depth + 2) : spin(w, depth) + 1;
}

static long f5(struct walk *w, int depth)
{
    return sorts(w, depth) + 1;
}

static long f6(struct walk *w, int depth)
{
    return raises(w, depth) + any(w, depth + 1);
}

static long f7(struct walk *w, int depth)
{
    return jumps(w, depth) + any(w, depth + 1);
}

static NOINLINE void round_of(struct walk *w)
{
    w->may_jump = 1;
    if (setjmp(w->back) == 0)
        w->sum += any(w, 0);
    w->may_jump = 0;
    w->sum += any(w, DEPTH / 2);
}

struct job {
    struct walk walk;
    int rounds;
};

static void *run(void *argument)
{
    struct job *job = argument;
    now = &job->walk;
    for (int i = 0; i < job->rounds; i++)
        round_of(&job->walk);
    return NULL;
}

int main(int argc, char **argv)
{
    struct job jobs[THREADS] = {0};
    pthread_t threads[THREADS];
    long sum = 0;
    signal(SIGUSR1, on_signal);
    for (int i = 0; i < THREADS; i++) {
        jobs[i].walk.state = (unsigned)i + 1;
        jobs[i].rounds = argc > 1 ? atoi(argv[1]) : 1000;
    }
    for (int i = 1; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, &jobs[i]);
    run(&jobs[0]);
    for (int i = 1; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        sum += jobs[i].walk.sum;
    printf("%ld\n", sum);
    return 0;
}
