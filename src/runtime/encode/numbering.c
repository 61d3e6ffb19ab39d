/*
 * Numbers that are made anew: what stubs know of their sites, and words that are carried over from
 * the old numbers to the new ones.
 */
#include "arch/x86_64/syscall.h"
#include "runtime/arena.h"
#include "runtime/encode/here.h"

#include <string.h>
#include <sys/mman.h>

/* Locked memory is not given back. */
void encode_clear(void *memory, uint64_t bytes)
{
    if (raw_syscall3(SYS_madvise, (long)memory, (long)bytes, MADV_DONTNEED) < 0)
        memset(memory, 0, bytes);
}

void encode_set_root_word(struct encode_thread *t)
{
    t->root_word = word_make(t->contexts.graph.functions[ROOT_FUNCTION].base, 0);
}

/* The stubs look it up in the same way. */
static void put_other(struct encode_thread *t, uint64_t site, uint64_t target, uint64_t step)
{
    uint64_t h = site;
    __asm__("crc32q %1, %0" : "+r"(h) : "r"(target));
    struct other_code *at = &t->others[h & (OTHER_CODES - 1)];
    for (uint32_t i = 0; i < OTHER_CODES_BEYOND - 1; i++, at++) { /* the last one stays free */
        if (at->site)
            continue;
        *at = (struct other_code){site, target, step, 0};
        return;
    }
}

/* What the stub of an edge's site knows of it. */
static void put_code(struct encode_thread *t, const struct graph_edge *e)
{
    const struct graph *g = &t->contexts.graph;
    const struct edited_module *m = e->site < CODED_SITES ? edited_by_site(e->site) : NULL;
    if (!m || e->site - m->first_site >= m->site_count)
        return;
    struct site_code *code = &t->codes[e->site];
    uint64_t step =
        e->flags & EDGE_LEAF ? NO_NUMBER : word_make(g->functions[e->callee].base + e->code, 0);
    if (code->numbers) {
        put_other(t, e->site, e->target, step);
        return;
    }
    const struct graph_function *f = &g->functions[e->caller];
    *code = (struct site_code){word_make(f->base, 0), word_make(f->numbers, 0), step, 0};
    if (site_is_indirect(edited_site(m, e->site)))
        code->target = e->target;
}

/* An indirect site's hottest edge is its own, the others are in the table. */
static void put_codes(struct encode_thread *t)
{
    const struct graph *g = &t->contexts.graph;
    for (uint32_t i = 0; i < g->function_count; i++) {
        for (uint32_t k = g->functions[i].first_out; k != GRAPH_NONE; k = g->edges[k].next_out) {
            const struct graph_edge *e = &g->edges[k];
            if ((e->flags & (EDGE_CODED | EDGE_LEAF)) && !(e->flags & EDGE_FIXED) && e->site)
                put_code(t, e);
        }
    }
}

static void count_all_hits(struct encode_thread *t)
{
    for (uint32_t i = 0; i < PUSHED_CALLS; i++)
        if (t->pushed[i].hits)
            count_hits(t, &t->pushed[i]);
}

static void begin_history(struct encode_thread *t)
{
    struct encode_process *p = encode_process_in(guest->arena);
    if (p->history_count >= MOST_HISTORIES ||
        __atomic_fetch_add((uint32_t *)&p->history_count, 1, __ATOMIC_RELAXED) >= MOST_HISTORIES)
        return;
    struct encode_history *h = arena_take(sizeof *h);
    if (!h)
        return;
    h->next = p->first_history;
    while (!__atomic_compare_exchange_n((uint32_t *)&p->first_history, &h->next, arena_place(h),
                                        false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        ;
    t->history = h;
}

static void note_step(struct encode_thread *t)
{
    struct encode_history *h = t->history;
    const struct encode_counts *c = t->counts;
    if (!h)
        return;
    if (h->count == HISTORY_STEPS) {
        for (uint32_t i = 0; i < HISTORY_STEPS / 2; i++)
            h->steps[i] = h->steps[2 * i];
        h->count = HISTORY_STEPS / 2;
    }
    h->steps[h->count] = (struct encode_step){.at_ns = clock_ns(CLOCK_MONOTONIC),
                                              .functions = t->contexts.graph.function_count,
                                              .edges = t->contexts.graph.edge_count,
                                              .coded_edges = (uint32_t)c->coded_edges,
                                              .entries = t->contexts.entry_count - 1,
                                              .ids = c->ids,
                                              .pushes = c->pushes};
    h->count++;
}

static void number_anew(struct encode_thread *t)
{
    struct graph *g = &t->contexts.graph;
    struct encode_counts *counts = t->counts;
    uint64_t most = encode_settings()->most_ids, begin_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    encode_clear(t->mirror, WORDS_MAPPED);
    encode_clear(t->codes, CODES_BYTES);
    encode_clear(t->others, OTHERS_BYTES);
    count_all_hits(t);
    encode_clear(t->pushed, PUSHED_BYTES);
    counts->coded_edges = graph_number(g, most && most < INT32_MAX ? most : INT32_MAX);
    encode_set_root_word(t);
    put_codes(t);
    counts->back_edges = 0;
    for (uint32_t i = 0; i < g->edge_count; i++)
        counts->back_edges += (g->edges[i].flags & EDGE_BACK) != 0;
    counts->ids = g->ids;
    counts->numberings++;
    counts->numbering_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
    if (t->here)
        encode_here_numbered(t);
    if (counts->numberings == 1)
        begin_history(t);
    note_step(t);
    t->pending = t->slow = 0;
    if (t->crowded >= t->crowded_most)
        t->crowded_most *= 4;
    t->crowded = 0;
    t->putting = false; /* what did that has left by longjmp */
}

/* A frame whose word is to be made of the new numbers: how many calls lie between it and the next
 * one outside that is among these. */
struct carried {
    uint64_t slot;
    uint32_t calls;
};

/*
 * The calls from one word to another, innermost first, as edges; `room` if there are more. With
 * what no walk sees: tail calls.
 */
static uint32_t calls_between(const struct encode_thread *t, uint64_t outer, uint64_t inner,
                              struct decoded_call *calls, uint32_t room)
{
    for (uint32_t count = 0; count < room; count++) {
        if (inner == outer)
            return count;
        struct left left = word_leave(&t->contexts, inner);
        if (left.edge == GRAPH_NONE)
            break;
        calls[count].key = left.edge;
        inner = left.caller;
    }
    return room;
}

/* Words that the mirror has for the frames of a walk stay, in new numbers. */
static void number_and_carry(struct encode_thread *t, uint32_t frame_count)
{
    struct carried *carried = (struct carried *)(void *)t->frames; /* a frame is larger */
    uint32_t count = 0, used = 0;
    uint64_t outer = t->root_word;
    for (uint32_t i = 0; i < frame_count / 2; i++) { /* outermost first */
        struct walk_frame f = t->frames[i];
        t->frames[i] = t->frames[frame_count - 1 - i];
        t->frames[frame_count - 1 - i] = f;
    }
    for (uint32_t i = 0; i < frame_count; i++) {
        uint64_t slot = t->frames[i].slot, word = word_find(slot);
        uint32_t room = MOST_CALLS - used;
        uint32_t calls = word ? calls_between(t, outer, word, t->calls + used, room) : room;
        if (calls == room)
            continue;
        carried[count++] = (struct carried){slot, calls};
        used += calls;
        outer = word;
    }
    number_anew(t);
    uint64_t word = t->root_word;
    const struct decoded_call *calls = t->calls;
    for (uint32_t i = 0; i < count && word; calls += carried[i].calls, i++) {
        bool is_pushed;
        for (uint32_t k = carried[i].calls; k-- > 0 && word;)
            word = word_enter(&t->contexts, word, (uint32_t)calls[k].key, &is_pushed);
        if (word)
            word_put(carried[i].slot, word, *(const uint64_t *)carried[i].slot);
    }
}

/*
 * Numbers are made anew if that can be done now: code that a handler has interrupted may be in a
 * stub, with a word of the old numbers in a register.
 */
void encode_number_if_safe(struct encode_thread *t, const struct walk_registers *r,
                           uint64_t restored_below)
{
    t->pending = t->slow = 0;
    struct met m = encode_walk(t, r, restored_below, WALK_AT_CALL | WALK_TO_THE_END);
    if (m.end == WALK_COMPLETE && !m.is_interrupted)
        number_and_carry(t, m.count);
}
