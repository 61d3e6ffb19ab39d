/*
 * The program's own account of its calls. A function that begins with TRUTH() counts itself in its
 * context; truth_print() prints each context and how often it was entered, sorted:
 *
 *     context main;outer;inner 12
 *
 * The suite compares these lines with the profile (truth in cases.py). What is known by arithmetic
 * a program prints itself, as `calls NAME N`; names of the same code are joined by |.
 */
#ifndef TRUTH_H
#define TRUTH_H

#include "torture.h"

struct truth_node {
    const char *name; /* a literal, compared by address */
    struct truth_node *parent, *children, *next;
    long calls;
};

enum { TRUTH_ROOM = 100000, TRUTH_LINE = 2000 };

static struct truth_node truth_nodes[TRUTH_ROOM];
static int truth_count = 1; /* the first is the root of all threads */
static int truth_lock;
static __thread struct truth_node *truth_here;

static NOINLINE __attribute__((unused)) struct truth_node *truth_add(struct truth_node *parent,
                                                                     const char *name)
{
    while (__atomic_exchange_n(&truth_lock, 1, __ATOMIC_ACQUIRE))
        ;
    struct truth_node *n = parent->children; /* another thread may have been first */
    while (n && n->name != name)
        n = n->next;
    if (!n) {
        if (truth_count == TRUTH_ROOM)
            abort();
        n = &truth_nodes[truth_count++];
        n->name = name;
        n->parent = parent;
        n->next = parent->children;
        __atomic_store_n(&parent->children, n, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&truth_lock, 0, __ATOMIC_RELEASE);
    return n;
}

/* Inline: a function that calls nothing else stays one that calls nothing. */
static inline __attribute__((always_inline, unused)) struct truth_node *
truth_enter(const char *name)
{
    struct truth_node *parent = truth_here ? truth_here : truth_nodes;
    struct truth_node *n = __atomic_load_n(&parent->children, __ATOMIC_ACQUIRE);
    while (n && n->name != name)
        n = n->next;
    if (!n)
        n = truth_add(parent, name);
    __atomic_fetch_add(&n->calls, 1, __ATOMIC_RELAXED);
    truth_here = n;
    return n;
}

static inline __attribute__((always_inline, unused)) void truth_leave(struct truth_node **n)
{
    truth_here = (*n)->parent;
}

#define TRUTH_AS(NAME)                                                                             \
    struct truth_node *truth_of_this __attribute__((cleanup(truth_leave), unused)) =               \
        truth_enter(NAME)
#define TRUTH() TRUTH_AS(__func__)

/* In the first function of a thread: its call comes before anything is counted there. */
#define TRUTH_OF_THREAD()                                                                          \
    TRUTH();                                                                                       \
    __atomic_fetch_sub(&truth_of_this->calls, 1, __ATOMIC_RELAXED)

static __attribute__((unused)) int truth_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static __attribute__((unused)) void truth_print(void)
{
    int count = truth_count;
    char **lines = (char **)malloc((size_t)count * sizeof *lines);
    for (int i = 1; i < count; i++) {
        char text[TRUTH_LINE];
        char *at = text + sizeof text - 1;
        *at = 0;
        for (const struct truth_node *n = &truth_nodes[i]; n != truth_nodes; n = n->parent) {
            size_t length = strlen(n->name);
            if (at - text < (long)length + 1)
                abort();
            if (*at)
                *--at = ';';
            at = (char *)memcpy(at - length, n->name, length);
        }
        if (asprintf(&lines[i], "context %s %ld", at, (long)truth_nodes[i].calls) < 0)
            abort();
    }
    qsort(lines + 1, (size_t)count - 1, sizeof *lines, truth_compare);
    for (int i = 1; i < count; i++)
        puts(lines[i]);
}

#endif
