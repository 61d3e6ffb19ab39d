/*
 * Writes a trace of a program that was compiled with -finstrument-functions, for tests and
 * benchmarks: real trees of calls, by the compiler's own knowledge of what was called.
 *
 *     TRACE_OUT=FILE      where to; without it the program runs as it is
 *     TRACE_SYMBOLS=FILE  what `nm` prints of the program, which must be linked with -no-pie
 *     TRACE_CALLS=N       ends the trace after so many calls
 *
 * Calls of one thread only, the first. A function that is left by longjmp tells no hook: what is
 * deeper in the stack than the function that calls or returns now is taken as returned.
 */
#include "trace/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))

void __cyg_profile_func_enter(void *function, void *site) QUIET;
void __cyg_profile_func_exit(void *function, void *site) QUIET;

struct active {
    void *function;
    uintptr_t frame; /* of the hook that was called from it: lower is deeper */
};

struct known {
    uint64_t key;
    uint32_t number;
};

struct table {
    struct known *items;
    uint64_t mask, used;
};

struct symbol {
    uint64_t address;
    char *name;
};

static struct trace_writer *writer;
static VEC(struct active) stack;
static VEC(struct symbol) symbols;
static struct table functions, labels;
static uint64_t calls_left;

static struct known *find(struct table *t, uint64_t key)
{
    if (t->used * 2 >= t->mask) {
        struct table old = *t;
        t->mask = old.mask ? old.mask * 2 + 1 : 4095;
        t->items = must_calloc(t->mask + 1, sizeof *t->items);
        t->used = 0;
        for (uint64_t i = 0; old.items && i <= old.mask; i++)
            if (old.items[i].key)
                *find(t, old.items[i].key) = old.items[i];
        free(old.items);
    }
    uint64_t at = key * UINT64_C(0x9e3779b97f4a7c15) >> 20 & t->mask;
    while (t->items[at].key && t->items[at].key != key)
        at = (at + 1) & t->mask;
    if (!t->items[at].key) {
        t->items[at] = (struct known){key, UINT32_MAX};
        t->used++;
    }
    return &t->items[at];
}

static int by_address(const void *a, const void *b)
{
    const struct symbol *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

static void read_symbols(void)
{
    const char *path = getenv("TRACE_SYMBOLS");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[4096], name[4096], type;
    uint64_t address;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%" SCNx64 " %c %4095s", &address, &type, name) == 3 &&
            (type == 't' || type == 'T'))
            vec_push(&symbols, (struct symbol){address, must_strdup(name)});
    if (file)
        fclose(file);
    if (symbols.count)
        qsort(symbols.items, symbols.count, sizeof *symbols.items, by_address);
}

static uint32_t function_number(void *function)
{
    struct known *known = find(&functions, (uintptr_t)function);
    if (known->number != UINT32_MAX)
        return known->number;
    struct symbol key = {.address = (uintptr_t)function};
    const struct symbol *symbol =
        symbols.count ? bsearch(&key, symbols.items, symbols.count, sizeof key, by_address) : NULL;
    char name[32];
    snprintf(name, sizeof name, "%p", function);
    return known->number =
               trace_add_function(writer, symbol ? symbol->name : name, program_invocation_name);
}

static uint32_t label_number(void *function, void *site)
{
    struct known *known = find(&labels, (uint64_t)(uintptr_t)site << 32 ^ (uintptr_t)function);
    if (known->number == UINT32_MAX)
        known->number = trace_add_label(writer, function_number(function), (uintptr_t)site);
    return known->number;
}

static void finish(void)
{
    struct ct_error err;
    struct trace_writer *w = writer;
    writer = NULL;
    if (w && trace_writer_commit(w, &err) != CT_OK)
        fprintf(stderr, "trace_runtime: %s\n", err.text);
}

static void __attribute__((constructor)) start(void)
{
    const char *path = getenv("TRACE_OUT"), *calls = getenv("TRACE_CALLS");
    struct ct_error err;
    if (!path)
        return;
    calls_left = calls ? strtoull(calls, NULL, 10) : UINT64_MAX;
    read_symbols();
    if (trace_writer_open(path, &writer, &err) != CT_OK)
        fprintf(stderr, "trace_runtime: %s\n", err.text);
    atexit(finish);
}

static bool is_mine(void)
{
    return writer && syscall(SYS_gettid) == getpid();
}

static void drop_deeper(uintptr_t frame)
{
    while (stack.count && stack.items[stack.count - 1].frame < frame) {
        stack.count--;
        trace_write_return(writer);
    }
}

void __cyg_profile_func_enter(void *function, void *site)
{
    if (!is_mine())
        return;
    if (calls_left-- == 0) {
        finish();
        return;
    }
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    drop_deeper(frame);
    trace_write_call(writer, label_number(function, site));
    vec_push(&stack, (struct active){function, frame});
}

void __cyg_profile_func_exit(void *function, void *site)
{
    (void)site;
    if (!is_mine())
        return;
    drop_deeper((uintptr_t)__builtin_frame_address(0));
    /* Inlined calls share a frame: those that were not left by their own exit go with it. */
    size_t at = stack.count;
    while (at > 0 && stack.items[at - 1].function != function)
        at--;
    while (at > 0 && stack.count >= at) {
        stack.count--;
        trace_write_return(writer);
    }
}
