/*
 * The slow path: edges that are new, calls on edges without a code, numbers that are made anew, and
 * functions whose word the mirror does not have.
 */
#include "runtime/encode/encode.h"

#include "arch/x86_64/syscall.h"
#include "runtime/confined.h"
#include "runtime/edit/no_mirror.h"
#include "runtime/edit/stubs.h"
#include "runtime/encode/here.h"
#include "runtime/engine.h"
#include "runtime/limits.h"
#include "runtime/modules.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

/* Where every thread begins: nothing matches, so the first site of a thread takes the slow way. */
static_assert((int)WORDS_MAPPED <= (int)NO_MIRROR_BYTES, "every thread begins with that");

#define STATE_AT_FIRST ((struct encode_state){.words = no_mirror})

__thread struct encode_state encode_state
    __attribute__((tls_model("initial-exec"))) = {.words = no_mirror};

static __thread struct encode_thread *mine __attribute__((tls_model("initial-exec")));

enum {
    THREAD_BYTES = sizeof(struct encode_thread) + MOST_FRAMES * sizeof(struct walk_frame) +
                   MOST_CALLS * sizeof(struct decoded_call)
};

/* All of this process, for those who unload modules and for pauses; changed without signals. */
static struct encode_thread *all_threads;
static uint32_t thread_count; /* of those */
static _Atomic uint32_t list_lock;
static uint32_t list_number; /* the guest's, whose they are */

static uint64_t lock_list(void)
{
    uint64_t all = UINT64_MAX, before = 0;
    uint32_t free = 0;
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, 8);
    while (!atomic_compare_exchange_strong(&list_lock, &free, 1)) {
        free = 0;
        raw_syscall3(SYS_sched_yield, 0, 0, 0);
    }
    if (list_number != guest->number) { /* a child's list is its own */
        list_number = guest->number;
        all_threads = NULL;
        thread_count = 0;
    }
    return before;
}

static void unlock_list(uint64_t mask)
{
    list_lock = 0;
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, 8);
}

void encode_forget(void)
{
    mine = NULL; /* what it knows is the parent's */
    encode_state = STATE_AT_FIRST;
    encode_reader_forget();
    list_lock = 0; /* the thread that held it is not here */
}

static void *map_private(uint64_t bytes)
{
    return raw_mmap(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

/* In the child of a fork that was not seen the mirror is empty, and every stub slow. */
static char *map_mirror(void)
{
    char *memory = map_private(WORDS_MAPPED);
    if (memory)
        raw_syscall3(SYS_madvise, (long)memory, WORDS_MAPPED, MADV_WIPEONFORK);
    return memory;
}

static void free_thread(struct encode_thread *t)
{
    contexts_end(&t->contexts);
    if (t->mirror)
        raw_syscall3(SYS_munmap, (long)t->mirror, WORDS_MAPPED, 0);
    if (t->codes)
        raw_syscall3(SYS_munmap, (long)t->codes, CODES_BYTES, 0);
    if (t->others)
        raw_syscall3(SYS_munmap, (long)t->others, OTHERS_BYTES, 0);
    if (t->pushed)
        raw_syscall3(SYS_munmap, (long)t->pushed, PUSHED_BYTES, 0);
    encode_here_end(t);
    raw_syscall3(SYS_munmap, (long)t, THREAD_BYTES, 0);
}

/*
 * Where the program has a limit, a small part of it is for this. A thread without has its stacks
 * walked.
 */
static bool is_room_for(uint32_t threads)
{
    enum { PART = 16 };
    const uint64_t each = UINT64_C(84) << 20; /* all that a thread maps */
    return each * threads <= limit_of_memory() / PART;
}

static void enlist(struct encode_thread *t)
{
    uint64_t mask = lock_list();
    t->next = all_threads;
    all_threads = t;
    thread_count++;
    unlock_list(mask);
}

static void strike_off(const struct encode_thread *t)
{
    uint64_t mask = lock_list();
    for (struct encode_thread **at = &all_threads; *at; at = &(*at)->next) {
        if (*at == t) {
            *at = t->next;
            thread_count--;
            break;
        }
    }
    unlock_list(mask);
}

static bool begin_contexts(struct encode_thread *t)
{
    t->mirror = map_mirror();
    t->codes = map_private(CODES_BYTES);
    t->others = map_private(OTHERS_BYTES);
    t->pushed = map_private(PUSHED_BYTES);
    if (!t->mirror || !t->codes || !t->others || !t->pushed || !contexts_begin(&t->contexts))
        return false;
    contexts_function(&t->contexts, 0); /* ROOT_FUNCTION */
    graph_number(&t->contexts.graph, UINT32_MAX);
    encode_set_root_word(t);
    return true;
}

/* So many calls on edges for which there were not enough numbers make new ones due; then more. */
enum { CROWDED_FIRST = 1 << 18 };

/* Where a thread found no memory, later ones do not even try: every call would. */
static uint32_t without_memory; /* the guest's number */

/*
 * What the calling thread has, or memory for it, in which nothing is yet. Only this is done on the
 * program's stack: of that a few hundred bytes may be left, at the first call that comes here, too.
 */
static struct encode_thread *find_or_map(void)
{
    const struct thread *thread = thread_self();
    if (!guest->arena || !guest->modules || !thread || thread->of != guest || !thread->record)
        return NULL;
    if (mine && mine->number == guest->number)
        return mine;
    if (without_memory == guest->number || is_confined())
        return NULL;
    uint32_t others = list_number == guest->number ? thread_count : 0;
    mine = is_room_for(others + 1) ? map_private(THREAD_BYTES) : NULL;
    if (!mine)
        without_memory = guest->number;
    return mine;
}

/* On the stack in that memory. Its number says in the end that all is there. */
static bool begin(struct encode_thread *t)
{
    t->frames = (void *)(t + 1);
    t->calls = (void *)(t->frames + MOST_FRAMES);
    t->thread = thread_self();
    if (!begin_contexts(t))
        return false;
    t->counts = encode_counts_in(t->thread->record);
    t->crowded_most = CROWDED_FIRST;
    t->number = guest->number;
    enlist(t);
    encode_state =
        (struct encode_state){(void *)(t->mirror + WORDS_SHIFT), t->codes, t->others, t->pushed};
    return true;
}

/* On the program's stack again: `mine` has too little. */
static void give_up(void)
{
    without_memory = guest->number;
    free_thread(mine);
    mine = NULL;
}

struct encode_thread *encode_thread_now(void)
{
    return mine && mine->number == guest->number && !mine->busy ? mine : NULL;
}

void encode_thread_ends(struct thread *thread)
{
    struct encode_thread *t = mine;
    (void)thread;
    mine = NULL;
    encode_state = STATE_AT_FIRST;
    encode_reader_forget();
    if (!t || t->number != guest->number || is_confined())
        return;
    strike_off(t);
    free_thread(t);
}

/* What other threads have they may be using: only the calling one's is given back. */
void encode_limited(void)
{
    uint64_t all = UINT64_MAX, before = 0;
    struct encode_thread *t = encode_thread_now();
    if (!t || is_room_for(thread_count))
        return;
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, 8);
    encode_thread_ends(t->thread);
    without_memory = guest->number;
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, 8);
}

/* --- what does not hold any more -------------------------------------------------------------- */

void encode_forget_stacks(void)
{
    uint64_t mask = lock_list();
    for (struct encode_thread *t = all_threads; t; t = t->next)
        encode_clear(t->mirror, WORDS_MAPPED);
    unlock_list(mask);
}

static _Atomic bool is_resting;

void encode_rest(bool rests)
{
    is_resting = rests;
    encode_forget_stacks();
}

bool encode_rests(void)
{
    return is_resting;
}

/* Targets of indirect calls: another module may come in this place. */
void encode_module_unloaded(uint64_t start, uint64_t end, uint64_t since)
{
    (void)since;
    uint64_t mask = lock_list();
    for (struct encode_thread *t = all_threads; t; t = t->next) {
        struct graph *g = &t->contexts.graph;
        for (uint32_t i = 0; i < g->edge_count; i++) {
            struct graph_edge *e = &g->edges[i];
            if (!e->site || e->target - start >= end - start)
                continue;
            e->flags |= EDGE_FIXED;
            if (e->site < CODED_SITES)
                t->codes[e->site] = (struct site_code){0};
        }
        for (uint32_t i = 0; i < OTHER_CODES + OTHER_CODES_BEYOND; i++)
            if (t->others[i].target - start < end - start)
                t->others[i].target = 0;
        for (uint32_t i = 0; i < PUSHED_CALLS; i++)
            if (t->pushed[i].target - start < end - start)
                t->pushed[i].caller = 0;
    }
    unlock_list(mask);
}

/* Often enough for programs that have begun, and seldom in comparison with what it takes. */
ALWAYS_INLINE bool numbers_are_due(const struct encode_thread *t)
{
    enum { FEW = 256 };
    uint64_t storm = encode_settings()->storm_calls;
    return t->pending >= FEW + 4ul * t->contexts.graph.edge_count ||
           t->crowded >= t->crowded_most || (storm && t->slow >= storm);
}

/* --- calls ------------------------------------------------------------------------------------ */

/* A call at a site, as the stub left it. */
struct call {
    const struct edited_module *module;
    const struct plan_site *site;
    uint64_t new_slot; /* of the callee's return address */
    uint64_t sp;       /* at the site */
    uint64_t slot;     /* of the function's own return address; 0: not known */
    uint64_t target, ret, site_key;
    uint32_t number;
    bool is_tail;
};

ALWAYS_INLINE void call_at(const struct slow_frame *f, struct call *c)
{
    uint32_t number = (uint32_t)f->site;
    const struct edited_module *m = edited_by_site(number);
    const struct plan_site *s = edited_site(m, number);
    bool indirect = s->kind == SITE_CALL_INDIRECT || s->kind == SITE_TAIL_INDIRECT;
    c->module = m;
    c->site = s;
    c->number = number;
    c->is_tail = s->kind >= SITE_TAIL;
    const unsigned gap = c->is_tail ? TAIL_GAP_WORDS : 0;
    c->new_slot = (uint64_t)(uintptr_t)&f->above[gap + indirect];
    c->sp = c->new_slot + (c->is_tail ? 0 : 8);
    c->slot = s->slot_base == SLOT_RSP   ? c->sp + (uint64_t)(int64_t)s->slot_bytes
              : s->slot_base == SLOT_RBP ? f->rbp + (uint64_t)(int64_t)s->slot_bytes
                                         : 0;
    uint32_t offset = c->is_tail ? s->offset : s->offset + s->length;
    c->target = indirect ? f->above[gap] : site_target(m, s);
    c->ret = m->base + offset;
    c->site_key = KEY_MAKE(m->module_id, c->is_tail ? KEY_IS_PC : 0, offset);
}

uint32_t encode_callee(struct encode_thread *t, uint64_t target)
{
    struct known_callee *k = callee_place(t, target);
    if (k->target == target && k->generation == modules_generation)
        return k->function;
    bool is_final;
    uint64_t function = code_function_behind(guest->modules, target, &is_final);
    if (!is_final)
        return GRAPH_NONE;
    uint32_t number =
        contexts_function(&t->contexts, code_key(guest->modules, function, KEY_IS_PC));
    if (number == GRAPH_NONE)
        return GRAPH_NONE;
    struct graph_function *f = &t->contexts.graph.functions[number];
    if (!f->site_count)
        edited_sites_of(function, &f->first_site, &f->site_count);
    *k = (struct known_callee){target, number, modules_generation};
    return number;
}

/* Is it a word of the function that has the site? */
ALWAYS_INLINE uint32_t function_with(const struct encode_thread *t, uint64_t word, uint32_t site)
{
    uint32_t number = word_function(&t->contexts, word);
    if (number == GRAPH_NONE)
        return GRAPH_NONE;
    const struct graph_function *f = &t->contexts.graph.functions[number];
    return site - f->first_site < f->site_count ? number : GRAPH_NONE;
}

/* The word of the function whose site it is; 0: not known. */
static uint64_t find_own(struct encode_thread *t, const struct slow_frame *f, const struct call *c)
{
    struct walk_registers r = registers_at_site(f, c->module->base + c->site->offset, c->sp);
    uint64_t restored_below = c->is_tail ? c->sp : 0;
    if (numbers_are_due(t))
        encode_number_if_safe(t, &r, restored_below);
    uint64_t word = c->slot ? word_find(c->slot) : 0;
    if (word && function_with(t, word, c->number) != GRAPH_NONE)
        return word;
    t->counts->resyncs++;
    word = encode_resync(t, &r, restored_below, WALK_AT_CALL);
    return function_with(t, word, c->number) == GRAPH_NONE ? 0 : word;
}

/* A tail jump to a function that is at this slot already goes back to that: tail recursion does not
 * grow. 0: it is not there. */
static uint64_t back_at_slot(const struct encode_thread *t, uint64_t word, uint32_t callee)
{
    const struct contexts *c = &t->contexts;
    for (;;) {
        if (word_function(c, word) == callee)
            return word;
        struct left left = word_leave(c, word);
        if (left.edge == GRAPH_NONE || !(c->graph.edges[left.edge].flags & EDGE_TAIL))
            return 0;
        word = left.caller;
    }
}

/* One more call on an edge that has no code; those that may get one make new numbers due. */
ALWAYS_INLINE void note_call(struct encode_thread *t, struct graph_edge *e)
{
    e->calls += e->calls < UINT32_MAX;
    t->pending += !(e->flags & (EDGE_SEEN | EDGE_FIXED));
    t->slow++;
    t->counts->slow++;
}

static void enter(struct encode_thread *t, const struct slow_frame *f)
{
    struct call c;
    call_at(f, &c);
    /* An earlier call by this site, in another context, may have had its frame in the same place.
     */
    if (!c.is_tail)
        word_put(c.new_slot, 0, c.ret);
    uint64_t own = find_own(t, f, &c);
    uint32_t callee = own ? encode_callee(t, c.target) : GRAPH_NONE;
    if (callee == GRAPH_NONE)
        return;
    struct graph_edge like = {.site_key = c.site_key,
                              .target = c.target,
                              .caller = word_function(&t->contexts, own),
                              .callee = callee,
                              .site = c.number,
                              .flags = c.is_tail ? EDGE_TAIL : 0};
    if (!t->contexts.graph.functions[callee].site_count)
        like.flags |= EDGE_LEAF;
    uint32_t edge = contexts_edge(&t->contexts, &like);
    if (edge == GRAPH_NONE)
        return;
    note_call(t, &t->contexts.graph.edges[edge]);
    uint64_t word = c.is_tail ? back_at_slot(t, own, callee) : 0;
    bool is_pushed = word != 0;
    if (!word)
        word = word_enter(&t->contexts, own, edge, &is_pushed);
    t->counts->pushes += is_pushed;
    if (is_pushed && word)
        encode_put_pushed(t, own, edge, word, site_is_indirect(c.site));
    if (!word)
        return;
    if (!c.is_tail)
        word_put(c.new_slot, word, c.ret);
    else if (word_find(c.new_slot)) /* the frame stays */
        *word_place(c.new_slot) = word;
}

static void say_sizes(struct encode_thread *t)
{
    t->counts->functions = t->contexts.graph.function_count;
    t->counts->edges = t->contexts.graph.edge_count;
    t->counts->entries = t->contexts.entry_count - 1;
}

static void enter_on_own_stack(const struct slow_frame *f)
{
    struct encode_thread *t = mine;
    if (!t->number && !begin(t))
        return;
    t->busy = true;
    uint32_t was_busy = t->thread->busy;
    t->thread->busy = 1; /* the modules must not change now */
    enter(t, f);
    say_sizes(t);
    if (t->here)
        encode_log_follow(t);
    t->thread->busy = was_busy;
    t->busy = false;
}

static __attribute__((noinline)) void enter_or_not(const struct slow_frame *f)
{
    struct encode_thread *t = find_or_map();
    if (!t) {
        if (mine) /* of the parent of a fork that was not seen */
            encode_forget();
    } else if (t->busy) {
        t->counts->not_encoded++;
    } else {
        slow_on_stack(t->stack + ENCODE_STACK, enter_on_own_stack, f);
        if (!t->number)
            give_up();
    }
}

/* --- work for others -------------------------------------------------------------------------- */

struct work {
    void (*work)(struct encode_thread *, void *);
    void *argument;
    bool is_done;
};

static void work_on_own_stack(const struct slow_frame *argument)
{
    struct work *w = (void *)(uintptr_t)argument;
    struct encode_thread *t = mine;
    if (!t->number && !begin(t))
        return;
    t->busy = true;
    uint32_t was_busy = t->thread->busy;
    t->thread->busy = 1; /* the modules must not change now */
    w->work(t, w->argument);
    t->thread->busy = was_busy;
    t->busy = false;
    w->is_done = true;
}

bool encode_at_work(void (*work)(struct encode_thread *, void *), void *argument)
{
    struct work w = {work, argument, false};
    uint64_t all = UINT64_MAX, before = 0;
    if (!guest->arena || guest->engine != &engine_encode || may_call_nothing())
        return false;
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, 8);
    struct encode_thread *t = find_or_map();
    if (t && !t->busy) {
        slow_on_stack(t->stack + ENCODE_STACK, work_on_own_stack, (const void *)&w);
        if (!t->number)
            give_up();
    }
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, 8);
    return w.is_done;
}

/* --- the slow path ---------------------------------------------------------------------------- */

/*
 * The usual reason to be here once a program has begun, a known edge without a code to a context
 * that was there before, with signals: to mask them takes longer than all the rest. Nothing is
 * made, and what a handler makes meanwhile is somewhere else.
 */
STUB_TEXT static bool enter_quickly(struct encode_thread *t, const struct slow_frame *f)
{
    struct call c;
    call_at(f, &c);
    const struct contexts *contexts = &t->contexts;
    uint64_t own = c.slot ? word_find(c.slot) : 0;
    uint64_t numberings = t->counts->numberings;
    uint32_t caller = own ? function_with(t, own, c.number) : GRAPH_NONE;
    if (caller == GRAPH_NONE || numbers_are_due(t))
        return false;
    const struct known_callee *place = callee_place(t, c.target);
    uint32_t callee = place->function;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    /* Looked at last: a handler may have changed it while it was copied. */
    if (place->target != c.target || place->generation != modules_generation)
        return false;
    uint32_t edge = edge_find(contexts, contexts->edges, c.site_key, caller, callee, c.number);
    if (edge == GRAPH_NONE)
        return false;
    struct graph_edge *e = &t->contexts.graph.edges[edge];
    uint64_t word = 0;
    if (e->flags & EDGE_LEAF) {
        note_call(t, e);
        return true;
    }
    if (c.is_tail) /* it may go back to what is at the slot */
        return false;
    const struct graph_function *to = &contexts->graph.functions[callee];
    if ((e->flags & EDGE_CODED) && graph_has(&contexts->graph.functions[caller], word_id(own))) {
        word = own + ((uint64_t)graph_step(&contexts->graph, e) << 32);
    } else {
        uint32_t entry = entry_find(contexts, contexts->entries, own, edge);
        if (!entry)
            return false;
        word = word_make(to->numbers ? to->base : 0, entry);
        t->counts->pushes++;
        if (t->counts->numberings == numberings)
            encode_put_pushed(t, own, edge, word, c.site->kind == SITE_CALL_INDIRECT);
    }
    note_call(t, e);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (t->counts->numberings == numberings) /* a handler cannot make new ones below a stub */
        word_put(c.new_slot, word, c.ret);
    return true;
}

/*
 * Where the slow path is entered and left. All else is done without signals: a handler could leave
 * by longjmp; and on a stack of its own, since the program's may be a small one for signals.
 */
void encode_slow(const struct slow_frame *f) __attribute__((visibility("hidden"))) STUB_TEXT;

void encode_slow(const struct slow_frame *f)
{
    uint64_t all = UINT64_MAX, before = 0;
    if (!mine && (!guest->arena || without_memory == guest->number))
        return; /* nothing is known, and that quickly */
    if (may_call_nothing() || is_resting)
        return;
    if (mine && mine->number == guest->number && !mine->busy && enter_quickly(mine, f))
        return;
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, 8);
    enter_or_not(f);
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, 8);
}
