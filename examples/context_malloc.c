/*
 * Who asks for memory? Every malloc, calloc and realloc of a program by its full calling context.
 *
 *     cc -O2 -shared -fPIC -o context_malloc.so context_malloc.c $(pkg-config --cflags calltrail)
 *     LD_PRELOAD=./context_malloc.so calltrail record --engine encode redis-server 2>memory.log
 *     calltrail decode <memory.log
 *
 * At its end the program writes the contexts that asked for most, with bytes and calls. There is a
 * table by key, which all threads share without a lock; a call costs a few nanoseconds more.
 */
#include <calltrail.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROOM = 1 << 16, SHOWN = 20 };

struct context {
    uint64_t key; /* 0: free */
    uint64_t bytes, calls;
    struct ct_snapshot snapshot;
};

static struct context contexts[ROOM];
static uint64_t unknown_bytes, unknown_calls;
static int is_over;

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);

static struct context *find(uint64_t key, const struct ct_snapshot *s)
{
    for (uint64_t i = key; i < key + 64; i++) {
        struct context *c = &contexts[i % ROOM];
        uint64_t there = __atomic_load_n(&c->key, __ATOMIC_ACQUIRE);
        if (there == key)
            return c;
        if (!there && __atomic_compare_exchange_n(&c->key, &there, key, 0, __ATOMIC_ACQ_REL,
                                                  __ATOMIC_ACQUIRE)) {
            c->snapshot = *s;
            return c;
        }
        if (there == key)
            return c;
    }
    return NULL;
}

static void count(const struct ct_snapshot *s, uint64_t bytes)
{
    if (__atomic_load_n(&is_over, __ATOMIC_RELAXED))
        return;
    uint64_t key = ct_key(s);
    struct context *c = key ? find(key, s) : NULL;
    __atomic_fetch_add(c ? &c->bytes : &unknown_bytes, bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(c ? &c->calls : &unknown_calls, 1, __ATOMIC_RELAXED);
}

void *malloc(size_t bytes)
{
    struct ct_snapshot s;
    ct_here(&s);
    count(&s, bytes);
    return __libc_malloc(bytes);
}

void *calloc(size_t items, size_t bytes)
{
    struct ct_snapshot s;
    ct_here(&s);
    count(&s, items * bytes);
    return __libc_calloc(items, bytes);
}

void *realloc(void *old, size_t bytes)
{
    struct ct_snapshot s;
    ct_here(&s);
    count(&s, bytes);
    return __libc_realloc(old, bytes);
}

static int by_bytes(const void *a, const void *b)
{
    const struct context *x = a, *y = b;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static __attribute__((destructor)) void report(void)
{
    char text[CT_TEXT_BYTES];
    __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED); /* sorting asks for memory, too */
    uint64_t bytes = unknown_bytes, calls = unknown_calls;
    for (int i = 0; i < ROOM; i++) {
        bytes += contexts[i].bytes;
        calls += contexts[i].calls;
    }
    if (calls == unknown_calls)
        return; /* it is not recorded */
    qsort(contexts, ROOM, sizeof *contexts, by_bytes);
    dprintf(2, "memory: %llu bytes in %llu calls, of which %llu calls of unknown context\n",
            (unsigned long long)bytes, (unsigned long long)calls,
            (unsigned long long)unknown_calls);
    for (int i = 0; i < SHOWN && contexts[i].calls; i++) {
        ct_print(&contexts[i].snapshot, text, sizeof text);
        dprintf(2, "memory: %llu bytes in %llu calls %s\n", (unsigned long long)contexts[i].bytes,
                (unsigned long long)contexts[i].calls, text);
    }
}
