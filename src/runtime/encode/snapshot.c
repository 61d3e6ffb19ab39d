/*
 * Samples: the word of the innermost frame that has one, decoded, and the frames inside of it. And
 * for --verify, whether what is decoded agrees with a walk of the whole stack.
 */
#include "runtime/arena.h"
#include "runtime/channel_format.h"
#include "runtime/charge.h"
#include "runtime/encode/encode.h"
#include "runtime/engine.h"
#include "runtime/event.h"
#include "runtime/modules.h"
#include "runtime/sample/sample.h"
#include "runtime/sample/times.h"
#include "runtime/ticks_owed.h"

enum walk_left encode_leave_code(struct walk_registers *r, uint64_t *restored_below)
{
    const struct edited_left left = edited_leave(r);
    if (left.site && left.site->kind >= SITE_TAIL)
        *restored_below = r->value[X86_RSP];
    return left.is_lost ? WALK_NOT_LEFT : WALK_LEFT;
}

/* --- samples ---------------------------------------------------------------------------------- */

/* What nodes that are noted in entries hold for: this numbering, and this phase. */
static uint64_t stamp_now(const struct encode_thread *t)
{
    return (t->counts->numberings << 32 | t->thread->phase) + 1;
}

/* The node of the calls that led to a word; 0: there is no room. */
static uint32_t node_of_word(struct encode_thread *e, struct thread *t, uint64_t word)
{
    const uint64_t stamp = stamp_now(e);
    uint32_t node = t->base, count = 0;
    for (; count < MOST_CALLS; count++) {
        struct left left = word_leave(&e->contexts, word);
        if (left.edge == GRAPH_NONE)
            break;
        const struct entry *entry = left.entry ? entry_at(&e->contexts, left.entry) : NULL;
        if (entry && entry->stamp == stamp) {
            node = entry->node;
            break;
        }
        e->calls[count] =
            (struct decoded_call){e->contexts.graph.edges[left.edge].site_key, left.entry, 0};
        word = left.caller;
    }
    while (count-- > 0 && node) {
        const struct decoded_call *call = &e->calls[count];
        if (call->key)
            node = cct_child(&t->tree, node, call->key);
        if (call->entry && node) {
            struct entry *entry = entry_at(&e->contexts, call->entry);
            entry->node = node;
            entry->stamp = stamp;
        }
    }
    return node;
}

static uint32_t node_of(struct encode_thread *e, struct thread *t, const struct met *m)
{
    const struct walk_modules *modules = guest->modules;
    uint32_t node = t->base;
    if (m->known < m->count)
        node = node_of_word(e, t, m->word);
    else if (m->end != WALK_COMPLETE)
        node = cct_child(&t->tree, node, KEY_MAKE(0, KEY_GAP, m->end));
    uint32_t i = m->known < m->count ? m->known + 1 : m->count;
    while (i-- > 0 && node)
        if (modules_role(modules, e->frames[i].module) != ROLE_OURS)
            node = cct_child(&t->tree, node, sample_key(modules, &e->frames[i]));
    return node;
}

static void count_depth(struct encode_thread *e, uint64_t word, uint64_t weight)
{
    uint32_t depth = word_entry(word) ? entry_at(&e->contexts, word_entry(word))->depth : 0;
    e->counts->entry_depth += depth;
    if (e->history)
        e->history->depths[depth < HISTORY_DEPTHS ? depth : HISTORY_DEPTHS - 1] += weight;
}

static void count_sample(struct encode_thread *e, struct thread *t, const struct met *m,
                         uint64_t weight)
{
    struct arena_thread *record = t->record;
    uint64_t passed_ns = weight * event_period_ns(t);
    bool is_known = m->known < m->count;
    record->samples += weight;
    record->sampled_ns += passed_ns;
    t->accounted_ns += passed_ns;
    record->ends[is_known ? WALK_COMPLETE : m->end] += weight;
    record->frames_walked += is_known ? m->known + 1 : m->count;
    e->counts->decoded += is_known;
    e->counts->walked += !is_known;
    if (!is_known)
        return;
    e->counts->frames_walked += m->known;
    count_depth(e, m->word, weight);
}

bool encode_sample(struct thread *t, const ucontext_t *context, uint64_t ticks)
{
    struct encode_thread *e = encode_thread_now();
    if (!e) {
        bool is_taken = sample_take(t, context, ticks);
        encode_counts_in(t->record)->walked += is_taken;
        return is_taken;
    }
    if (guest->flags & CHANNEL_VERIFY) /* a walk, which encode_agrees looks at */
        return sample_take(t, context, ticks);
    if (!sample_enter_phase(t)) {
        tick_owe(t, LOST_NO_ROOM, ticks);
        return false;
    }
    struct walk_registers r;
    sample_registers(context, &r);
    uint64_t restored_below = 0;
    if (!encode_leave_code(&r, &restored_below)) {
        tick_owe(t, LOST_BUSY, ticks);
        return true;
    }
    struct met m = encode_walk(e, &r, restored_below, 0);
    uint32_t node = node_of(e, t, &m);
    if (!node) {
        cct_want(&t->tree, m.count);
        tick_owe(t, LOST_NO_ROOM, ticks);
        return false;
    }
    uint64_t weight = ticks + tick_settle(t);
    ((struct arena_node *)arena_at(node))->count += (uint32_t)weight;
    times_keep(t, node, weight);
    count_sample(e, t, &m, weight);
    return true;
}

/* --- verification ----------------------------------------------------------------------------- */

static bool is_unwinder(const struct walk_modules *modules, const struct walk_frame *f)
{
    if (f->module == UINT32_MAX || !modules->items[f->module].tables)
        return false;
    const struct walk_module *m = &modules->items[f->module];
    const struct map_range *range = map_find_unmarkable(m->tables, f->pc - m->base);
    return modules_role(modules, f->module) == ROLE_UNWINDER || (range && range->value);
}

static bool is_ours(const struct walk_modules *modules, const struct walk_frame *f)
{
    return modules_role(modules, f->module) == ROLE_OURS;
}

static bool is_function_of(const struct contexts *c, const struct walk_modules *modules,
                           uint64_t word, const struct walk_frame *f)
{
    uint32_t number = word_function(c, word);
    return number != GRAPH_NONE && c->graph.functions[number].key ==
                                       code_key(modules, frame_function(modules, f), KEY_IS_PC);
}

static bool is_same_call(uint64_t decoded, uint64_t walked)
{
    const uint64_t guessed = KEY_MAKE(0, KEY_GUESSED, 0);
    return ((decoded ^ walked) & ~guessed) == 0;
}

/* The calls of a word against the frames up to and with `last`; tail calls no walk can see. */
static bool is_same_path(const struct encode_thread *e, const struct walk_modules *modules,
                         uint64_t word, const struct walk_frame *frames, uint32_t last)
{
    const struct contexts *c = &e->contexts;
    for (uint32_t i = last + 1; i-- > 0;) {
        if (is_ours(modules, &frames[i]))
            continue;
        if (!is_function_of(c, modules, word, &frames[i]))
            return false;
        struct left left = word_leave(c, word);
        while (left.edge != GRAPH_NONE && (c->graph.edges[left.edge].flags & EDGE_TAIL))
            left = word_leave(c, left.caller);
        if (left.edge == GRAPH_NONE)
            return false;
        uint64_t key = c->graph.edges[left.edge].site_key;
        word = left.caller;
        if (word_function(c, word) != ROOT_FUNCTION &&
            (KEY_FLAGS(c->graph.functions[word_function(c, word)].key) & KEY_GAP))
            return true; /* the frames further out were too many */
        uint32_t outside = i;
        while (outside-- > 0 && is_ours(modules, &frames[outside]))
            ;
        if (outside != UINT32_MAX && !is_same_call(key, sample_key(modules, &frames[outside])))
            return false;
    }
    return word == e->root_word;
}

/* Does what is known decode to the stack as a walk found it? Its frames are outermost first. */
bool encode_agrees(const struct walk_modules *modules, const struct walk_frame *frames,
                   uint32_t count)
{
    struct encode_thread *e = encode_thread_now();
    enum { NEAR = 4 };
    if (!e)
        return true; /* there is nothing to compare with */
    for (uint32_t i = count; i-- > 0 && count - i <= NEAR;)
        if (is_unwinder(modules, &frames[i]))
            return true; /* it may be changing return addresses at this moment */
    for (uint32_t i = count; i-- > 0;) {
        const struct walk_frame *f = &frames[i];
        if (is_ours(modules, f) || f->flags & FRAME_GUESSED)
            continue;
        uint64_t word = word_find(f->slot);
        if (!word || !is_function_of(&e->contexts, modules, word, f))
            continue;
        e->counts->decoded++;
        e->counts->frames_walked += count - 1 - i;
        if (word_entry(word))
            e->counts->entry_depth += entry_at(&e->contexts, word_entry(word))->depth;
        return is_same_path(e, modules, word, frames, i);
    }
    e->counts->walked++;
    return true;
}
