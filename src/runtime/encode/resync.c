/* Contexts by walks: where the mirror does not know a frame, those outside of it are looked at. */
#include "runtime/charge.h"
#include "runtime/encode/encode.h"
#include "runtime/modules.h"
#include "runtime/sample/sample.h"
#include "unwind/memory.h"

static struct walk_result walk(struct encode_thread *t, const struct walk_registers *r,
                               uint64_t restored_below, unsigned how, uint32_t most)
{
    enum { RED_ZONE = 128 };
    const bool is_at_call = how & WALK_AT_CALL;
    struct thread *thread = t->thread;
    uint64_t sp = r->value[X86_RSP], low = is_at_call ? sp : sp - RED_ZONE;
    bool is_known = low >= thread->stack_start && sp < thread->stack_end;
    struct walk_memory memory = memory_of_this_process(is_known ? thread->stack_start : 0,
                                                       is_known ? thread->stack_end : 0);
    memory.restored_below = restored_below;
    memory.leave_code = encode_leave_code;
    memory.is_at_call = is_at_call;
    struct walk_result walked =
        walk_frames_cached(&t->cache, guest->modules, r, &memory, t->frames, most);
    if (walked.end == WALK_COMPLETE && memory.start <= thread->first_sp &&
        thread->first_sp < memory.end &&
        (memory.start < thread->stack_start || !thread->stack_end)) {
        thread->stack_start = memory.start;
        thread->stack_end = memory.end;
    }
    return walked;
}

static bool is_function(const struct contexts *c, uint64_t word, uint64_t key)
{
    uint32_t function = word_function(c, word);
    return function != GRAPH_NONE && c->graph.functions[function].key == key;
}

/* The word of a frame; 0: none. At a tail jump that is under way it may be that of its callee. */
static uint64_t word_of_frame(const struct contexts *c, const struct walk_modules *modules,
                              const struct walk_frame *f, bool may_jump)
{
    uint64_t word = word_find(f->slot);
    if (!word)
        return 0;
    uint64_t key = code_key(modules, frame_function(modules, f), KEY_IS_PC);
    if (is_function(c, word, key))
        return word;
    struct left left = word_leave(c, word);
    bool is_tail = left.edge != GRAPH_NONE && (c->graph.edges[left.edge].flags & EDGE_TAIL);
    return may_jump && is_tail && is_function(c, left.caller, key) ? left.caller : 0;
}

/* The innermost of the frames whose word is known, from `first` on; `count`: none. */
static uint32_t find_known(struct encode_thread *t, uint32_t first, uint32_t count, uint64_t *word)
{
    const struct walk_modules *modules = guest->modules;
    const struct contexts *c = &t->contexts;
    for (uint32_t i = first; i < count; i++) {
        const struct walk_frame *f = &t->frames[i];
        if (modules_role(modules, f->module) == ROLE_OURS || f->flags & FRAME_GUESSED)
            continue;
        *word = word_of_frame(c, modules, f, i == 0);
        if (*word)
            return i;
    }
    return count;
}

struct met encode_walk(struct encode_thread *t, const struct walk_registers *r,
                       uint64_t restored_below, unsigned how)
{
    enum { FEW = 16, GROWTH = 16 };
    struct met m = {0};
    for (uint32_t most = FEW;; most *= GROWTH) {
        struct walk_result walked = walk(t, r, restored_below, how, most);
        m.count = walked.count;
        m.end = walked.end;
        m.known = find_known(t, how & WALK_AT_CALL, m.count, &m.word);
        bool is_enough = m.known < m.count && !(how & WALK_TO_THE_END);
        if (is_enough || m.end != WALK_LIMIT || most == MOST_FRAMES)
            break;
    }
    for (uint32_t i = 1; i < m.count; i++)
        m.is_interrupted |= (t->frames[i].flags & FRAME_IS_PC) != 0;
    return m;
}

/* Where a stack begins whose outer frames are not known: a function for each reason. */
static uint64_t begin_at(struct encode_thread *t, enum walk_end end)
{
    if (end == WALK_COMPLETE)
        return t->root_word;
    uint64_t key = KEY_MAKE(0, KEY_GAP, end);
    struct graph_edge like = {.site_key = key,
                              .caller = ROOT_FUNCTION,
                              .callee = contexts_function(&t->contexts, key),
                              .flags = EDGE_FIXED};
    if (like.callee == GRAPH_NONE)
        return 0;
    uint32_t edge = contexts_edge(&t->contexts, &like);
    bool is_pushed;
    return edge == GRAPH_NONE ? 0 : word_enter(&t->contexts, t->root_word, edge, &is_pushed);
}

/* How a frame's function was entered, from the frame that has the word. */
struct way {
    uint64_t pc;  /* return address of the call; 0: the stack begins here */
    uint64_t key; /* of it, or of where a signal interrupted; 0: none */
    uint32_t site;
};

/*
 * The edge, if there is a place for it. `ret`: its return address, if the code that puts that there
 * writes the mirror, too.
 */
static uint32_t edge_into(struct encode_thread *t, uint64_t word, const struct way *by,
                          uint64_t function, uint64_t *ret)
{
    struct graph_edge like = {.site_key = by->key,
                              .caller = word_function(&t->contexts, word),
                              .callee = encode_callee(t, function),
                              .target = function};
    *ret = 0;
    if (like.caller == GRAPH_NONE || like.callee == GRAPH_NONE)
        return GRAPH_NONE;
    uint32_t site = by->site;
    if (site) {
        const struct edited_module *m = edited_by_site(site);
        const struct plan_site *s = edited_site(m, site);
        *ret = by->pc;
        /* A direct call to another function, which then went on here by a tail jump. */
        if (s->kind == SITE_CALL) {
            like.target = site_target(m, s);
            if (encode_callee(t, like.target) != like.callee)
                site = 0;
        }
        /* One that leads into its own module only by what a walk cannot see, too. */
        const struct graph_function *caller = &t->contexts.graph.functions[like.caller];
        if (site - caller->first_site >= caller->site_count)
            site = 0;
        /* It has called something, without a site that is edited: stubs give it no word. */
        if (!t->contexts.graph.functions[like.callee].site_count) {
            site = 0;
            *ret = 0;
        }
    }
    like.site = site;
    like.flags = site ? 0 : EDGE_FIXED;
    return contexts_edge(&t->contexts, &like);
}

static void note_way(struct way *by, const struct walk_modules *modules, const struct walk_frame *f)
{
    by->pc = f->pc;
    by->key = sample_key(modules, f);
    by->site = f->flags & FRAME_IS_PC ? 0 : edited_site_behind(f->pc);
}

uint64_t encode_resync(struct encode_thread *t, const struct walk_registers *r,
                       uint64_t restored_below, unsigned how)
{
    const struct walk_modules *modules = guest->modules;
    struct met m = encode_walk(t, r, restored_below, how);
    uint64_t word = m.known < m.count ? m.word : begin_at(t, m.end);
    struct way by = {0};
    for (uint32_t i = m.known < m.count ? m.known + 1 : m.count; i-- > 0 && word;) {
        const struct walk_frame *f = &t->frames[i];
        if (modules_role(modules, f->module) == ROLE_OURS)
            continue;
        if (i != m.known) {
            uint64_t ret;
            bool is_pushed;
            uint32_t edge = edge_into(t, word, &by, frame_function(modules, f), &ret);
            if (i + 1 < m.count && t->frames[i + 1].pc != by.pc) /* one of ours is between */
                ret = 0;
            word = edge == GRAPH_NONE ? 0 : word_enter(&t->contexts, word, edge, &is_pushed);
            if (word && ret && f->slot)
                word_put(f->slot, word, ret);
        }
        note_way(&by, modules, f);
    }
    return word;
}
