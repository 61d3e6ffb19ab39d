#include "runtime/sample/trampoline.h"

#include "arch/x86_64/code_bytes.h"
#include "arch/x86_64/syscall.h"
#include "base/page.h"
#include "runtime/arena.h"
#include "runtime/guest.h"
#include "runtime/modules.h"
#include "runtime/own_stack.h"
#include "runtime/sample/marks.h"
#include "runtime/sample/sample_format.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unwind.h>

extern char trampoline_exit[];
void *trampoline_bounce(uint32_t number, uint64_t sp) __attribute__((visibility("hidden")));
void trampoline_resume(void *exception) __attribute__((visibility("hidden"), noreturn));

static bool enabled;
static uint32_t process_number; /* private memory: a child counts on from its parent's */

static uint64_t word_at(uint64_t slot)
{
    return *(volatile uint64_t *)(uintptr_t)slot;
}

/* Not atomic for other threads, which have no business in this stack, but for signals. */
static bool replace_word(uint64_t slot, uint64_t expected, uint64_t word)
{
    bool done;
    __asm__ volatile("cmpxchg %3, %1"
                     : "=@ccz"(done), "+m"(*(uint64_t *)(uintptr_t)slot), "+a"(expected)
                     : "r"(word)
                     : "memory");
    return done;
}

void trampoline_begin(void)
{
    enum { ARCH_SHSTK_STATUS = 0x5005 };
    uint64_t shadow_stack = 0;
    process_number++;
    long known = raw_syscall3(SYS_arch_prctl, ARCH_SHSTK_STATUS, (long)&shadow_stack, 0);
    enabled = sample_settings_in(guest->settings)->trampoline && !(known == 0 && shadow_stack);
}

bool trampoline_is_on(void)
{
    return enabled && !guest->arena->languages;
}

/* --- what walks see ------------------------------------------------------------------------- */

static uint64_t real_address(struct walk_marks *walk, uint64_t word, uint64_t slot)
{
    struct marks_met *met = (struct marks_met *)walk;
    uint32_t number = mark_number(word);
    if (!mark_is_stub(word) || word != mark_word(number))
        return 0;
    const struct mark *m = &trampoline_marks[number];
    uint64_t state = m->state;
    if (state != MARK_BEING_SET && (state & ~(uint64_t)MARK_DEAD) != slot)
        return 0;
    if (met->count < MOST_MET) {
        met->slots[met->count] = slot;
        met->numbers[met->count++] = number;
    }
    return m->real;
}

static bool read_stack(const struct walk_memory *memory, uint64_t address, uint64_t *word)
{
    struct walk_memory m = *memory;
    if ((address < m.start || address > m.end - 8 || m.end < 8) &&
        !(m.find_memory && m.find_memory(&m, address)))
        return false;
    memcpy(word, (const void *)(uintptr_t)(address + m.bias), sizeof *word);
    return true;
}

/* A pc in a stub, or at the last jump: all that is left to do is to go to the real address. */
static bool leave_trampoline(struct walk_marks *walk, const struct walk_memory *memory,
                             uint64_t *pc, uint64_t *sp)
{
    struct marks_met *met = (struct marks_met *)walk;
    uint64_t byte = (*pc - (uint64_t)(uintptr_t)trampoline_stubs) % MARK_STUB_BYTES;
    met->in_trampoline = true;
    if (*pc == (uint64_t)(uintptr_t)trampoline_exit)
        return read_stack(memory, *sp - 8, pc);
    if (!mark_is_stub(*pc))
        return false;
    if (byte < MARK_PUSHED_REAL) {
        *pc = trampoline_marks[mark_number(*pc)].real;
        return true;
    }
    uint64_t pushed = byte < MARK_PUSHED_ALL ? 8 : 16;
    if (!read_stack(memory, *sp + pushed - 8, pc))
        return false;
    *sp += pushed;
    return true;
}

void trampoline_prepare_walk(struct marks_met *met)
{
    met->count = 0;
    met->in_trampoline = false;
    met->walk = (struct walk_marks){.start = (uint64_t)(uintptr_t)trampoline_stubs,
                                    .end = (uint64_t)(uintptr_t)trampoline_exit + 1,
                                    .real = real_address,
                                    .leave = leave_trampoline};
}

/* --- the mark of a thread ------------------------------------------------------------------- */

static bool is_on_own_stack(const struct thread *t, uint64_t slot)
{
    return slot >= t->stack_start && slot < t->stack_end;
}

/* The entry of the thread's mark, if it is still that. */
static struct mark *current_mark(const struct thread *t)
{
    struct mark *m = &trampoline_marks[t->mark.number];
    return t->mark.set && m->owner == t && m->stamp == t->mark.stamp && m->state == t->mark.slot
               ? m
               : NULL;
}

struct stack_mark trampoline_intact(const struct thread *t, uint64_t sp)
{
    uint64_t slot = t->mark.slot, word = mark_word(t->mark.number);
    if (!current_mark(t) || slot < sp || !is_on_own_stack(t, slot) || word_at(slot) != word)
        return (struct stack_mark){0};
    return (struct stack_mark){.word = word, .slot = slot, .frame = t->mark.frame};
}

void trampoline_forget(struct thread *t)
{
    t->mark.set = false;
}

/* Puts the real address back; the stack is the running one. */
static bool restore(struct mark *m, uint64_t slot)
{
    return replace_word(slot, mark_word((uint32_t)(m - trampoline_marks)), m->real);
}

void trampoline_unmark(struct thread *t, uint64_t sp)
{
    struct stack_mark mark = trampoline_intact(t, sp);
    struct mark *m = &trampoline_marks[t->mark.number];
    t->mark.set = false;
    if (mark.word && restore(m, mark.slot))
        mark_declare_dead(m, mark.slot);
}

/* What there is to say of a frame that is about to be marked; nothing of it changes until then. */
struct place {
    uint64_t slot, real;
    uint32_t frame, node;
};

/* Behind code without unwind rows, frames are where a guess says: nothing is marked there. */
static bool is_guessed_from_here(const struct thread *t, uint32_t frame)
{
    return t->stack.frames[frame].flags & FRAME_UNKNOWN;
}

static bool place_of(const struct thread *t, uint32_t frame, struct place *out)
{
    const struct walk_frame *f = &t->stack.frames[frame];
    if (!frame || !(f->flags & FRAME_MARKABLE) || !(f[-1].flags & FRAME_AFTER_CALL) ||
        !is_on_own_stack(t, f->slot))
        return false;
    *out =
        (struct place){.slot = f->slot, .real = f[-1].pc, .frame = frame, .node = t->nodes[frame]};
    return true;
}

/* Writes the mark into the slot. The entry is being set: no other code touches it until then. */
static void set_mark(struct thread *t, struct mark *m, const struct place *place)
{
    uint32_t number = (uint32_t)(m - trampoline_marks), stamp = ++t->mark.last_stamp;
    m->real = place->real;
    m->owner = t;
    m->exception = NULL;
    m->node = place->node;
    m->process = process_number;
    m->stamp = stamp;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (!replace_word(place->slot, place->real, mark_word(number))) {
        __atomic_store_n((uint64_t *)&m->state, MARK_FREE, __ATOMIC_RELEASE);
        return;
    }
    __atomic_store_n((uint64_t *)&m->state, place->slot, __ATOMIC_RELEASE);
    t->mark.number = number;
    t->mark.frame = place->frame;
    t->mark.slot = place->slot;
    t->mark.stamp = stamp;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    t->mark.set = true;
    t->record->marks_set++;
}

static void set_new_mark(struct thread *t, const struct place *place)
{
    struct mark *m = mark_take(t, place->slot, place->real);
    if (m)
        set_mark(t, m, place);
}

/* --- after a sample ------------------------------------------------------------------------- */

static bool is_behind_call(uint64_t pc)
{
    return walk_ends_in_call(word_at(pc - 8));
}

/*
 * A jump through the GOT, the only thing that a stub of a PLT without a section does: what comes
 * behind it is not known, and may look at its return address.
 */
static bool is_at_far_jump(uint64_t pc)
{
    const uint8_t *at = (const uint8_t *)(uintptr_t)pc;
    if (pc % PAGE_BYTES > PAGE_BYTES - 8) /* what is on the next page is not known */
        return true;
    at = code_skip_endbr64(at);
    at += at[0] == 0xf2; /* bnd */
    return code_is_slot_jump(at);
}

static uint32_t look_at(const struct walk_modules *modules, const struct walk_frame *f)
{
    const struct walk_module *m = &modules->items[f->module];
    bool is_pc = f->flags & FRAME_IS_PC;
    uint64_t pc = f->pc - (is_pc ? 0 : 1);
    uint32_t flags = FRAME_LOOKED_AT;
    if (f->module >= modules->count || !m->tables || (f->flags & FRAME_GUESSED) ||
        pc < m->start + 16 || pc > m->end - 16)
        return flags;
    const struct map_range *unmarkable = map_find_unmarkable(m->tables, pc - m->base);
    enum module_role role = modules_role(modules, f->module);
    if (role == ROLE_UNWINDER || (unmarkable && unmarkable->value))
        flags |= FRAME_UNWINDER;
    else if (role == ROLE_PROGRAM && !unmarkable && !(is_pc && is_at_far_jump(pc)))
        flags |= FRAME_MARKABLE;
    if (!is_pc && is_behind_call(f->pc))
        flags |= FRAME_AFTER_CALL;
    return flags;
}

/* Returns whether an unwinder is at work in them. */
static bool look_at_frames(struct thread *t, const struct walk_modules *modules)
{
    struct thread_stack *s = &t->stack;
    bool unwinds = false;
    for (uint32_t i = s->kept; i < s->count; i++) {
        struct walk_frame *f = &s->frames[i];
        if (!(f->flags & FRAME_LOOKED_AT)) {
            uint32_t flags = look_at(modules, f);
            f->flags |= flags;
            if (!(f->flags & (FRAME_IS_PC | FRAME_GUESSED)))
                walk_cache_note(&s->cache, f->pc, flags);
        }
        unwinds |= i && (f->flags & FRAME_UNWINDER); /* the outermost one looks at nothing more */
    }
    return unwinds;
}

/*
 * Marks that the walk has passed on its way: those on this stack come off, of whatever thread they
 * are, so that a stack has one mark.
 */
static void take_off(struct thread *t, const struct marks_met *met)
{
    for (uint32_t i = 0; i < met->count; i++) {
        struct mark *m = &trampoline_marks[met->numbers[i]];
        uint64_t slot = met->slots[i], state = m->state;
        if (!is_on_own_stack(t, slot) || (state & ~(uint64_t)MARK_DEAD) != slot)
            continue;
        if (state & MARK_DEAD)
            marks_come_back = true;
        m->was_left = true;
        restore(m, slot);
        mark_declare_dead(m, slot);
        t->record->stale_marks++;
    }
}

/*
 * The thread's mark was not met. On this same stack that means that it was jumped over; on another
 * one it waits for its stack to be switched to again.
 */
static void give_up(struct thread *t, uint64_t base_slot)
{
    struct mark *m = current_mark(t);
    t->mark.set = false;
    if (!m)
        return;
    t->record->stale_marks++;
    m->was_left = true;
    if (t->mark.base_slot == base_slot)
        mark_declare_dead(m, t->mark.slot);
}

/* The walk has met the thread's mark at `frame`: it moves to the place, if that is further in. */
static void move_mark(struct thread *t, uint32_t frame, const struct place *place)
{
    struct mark *m = &trampoline_marks[t->mark.number];
    uint64_t slot = t->mark.slot;
    if (place->frame <= frame) {
        m->node = t->nodes[frame]; /* it has come to another pc since */
        return;
    }
    t->mark.set = false;
    restore(m, slot);
    mark_declare_dead(m, slot);
    set_new_mark(t, place);
}

void trampoline_mark(struct thread *t, const struct walk_modules *modules, struct stack_mark intact,
                     const struct marks_met *met)
{
    struct thread_stack *s = &t->stack;
    bool joined = intact.word && s->kept;
    if (joined)
        t->record->frames_reused += s->kept;
    if (s->end != WALK_COMPLETE || s->count < 2) {
        t->mark.set = false; /* what is known of its frames has been written over */
        return;
    }
    /* No mark comes or goes where an unwinder is in the middle of looking at it. */
    if (look_at_frames(t, modules) || met->in_trampoline ||
        modules_role(modules, s->frames[s->count - 1].module) == ROLE_OURS) {
        t->mark.set = joined;
        return;
    }
    uint64_t base_slot = s->frames[1].slot;
    if (!joined)
        give_up(t, base_slot);
    take_off(t, met);
    struct place place = {0};
    uint32_t frame = s->count - 1;
    while (frame && !place_of(t, frame, &place))
        frame = is_guessed_from_here(t, frame) ? 0 : frame - 1;
    t->mark.base_slot = base_slot;
    if (joined) {
        move_mark(t, intact.frame, &place);
    } else if (frame) {
        set_new_mark(t, &place);
    }
}

/* --- when a marked frame returns ------------------------------------------------------------ */

/* The thread that has set the mark, if this is it. Thread-local variables would say so, too, but
 * the program may have put its own thread pointer in place of libc's. */
static struct thread *owner_here(const struct mark *m)
{
    struct thread *t = m->owner;
    return t && t->own_stack && own_stack_has_libc_thread(t->own_stack) ? t : NULL;
}

/*
 * Called by the stub, with rsp as it will be in the caller; the slot below it holds the real
 * address again. A signal may come anywhere in here, a handler of the program may leave by longjmp,
 * and a sample may set another mark: nothing is taken from the thread's frames but what is copied
 * before the entry changes hands. Returns the exception that has landed here, if any.
 */
void *trampoline_bounce(uint32_t number, uint64_t sp)
{
    struct mark *m = &trampoline_marks[number];
    uint64_t slot = sp - 8, state = m->state;
    if (state != MARK_BEING_SET && (state & ~(uint64_t)MARK_DEAD) != slot)
        return NULL; /* taken by another thread since the stub has read it */
    struct thread *t = owner_here(m);
    void *exception = m->exception;
    bool is_ours = guest->arena && m->process == process_number && !exception;
    bool is_known = is_ours && t && t->of == guest && t->record;
    if (state & MARK_DEAD)
        marks_come_back = true;
    if (is_ours)
        __atomic_fetch_add(&((struct arena_node *)arena_at(m->node))->returns, 1, __ATOMIC_RELAXED);
    if (is_known)
        t->record->bounces++;

    struct place place;
    bool goes_up = false;
    if (is_known && t->mark.set && t->mark.number == number && t->mark.stamp == m->stamp &&
        m->owner == t && !guest->arena->paused) {
        uint32_t serial = t->stack.serial, frame = t->mark.frame;
        while (frame > 1 && !goes_up && !is_guessed_from_here(t, frame - 1))
            goes_up = place_of(t, --frame, &place);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        goes_up = goes_up && t->stack.serial == serial && t->mark.set && trampoline_is_on();
        t->mark.set = false;
    }
    if (m->was_left)
        mark_declare_dead_from(m, state, slot);
    else
        mark_change_state(m, state, MARK_FREE);
    if (goes_up)
        set_new_mark(t, &place);
    return exception;
}

/* --- unwinders ------------------------------------------------------------------------------ */

/*
 * Which mark an unwinder stands at. Its context is its own (there may be several unwinders in a
 * process): the mark's word and the stack pointer above its slot are looked for in it.
 */
static struct mark *mark_in(const uint64_t *context)
{
    enum { CONTEXT_WORDS = 48 };
    for (unsigned i = 0; i < CONTEXT_WORDS; i++) {
        if (!mark_is_stub(context[i]) || context[i] != mark_word(mark_number(context[i])))
            continue;
        struct mark *m = &trampoline_marks[mark_number(context[i])];
        uint64_t slot = m->state & ~(uint64_t)MARK_DEAD;
        for (unsigned k = 0; slot > MARK_BEING_SET && k < CONTEXT_WORDS; k++)
            if (context[k] == slot + 8)
                return m;
    }
    return NULL;
}

/*
 * The personality of the stubs. A mark that an unwinder comes by is taken off, in the first phase
 * if there is one, so that the second meets the frames as they were; the entry keeps the address
 * until the unwinder has read it. A mark that was set between the phases, in a destructor, just
 * below the frame with the handler has that frame's CFA, and the unwinder stops at it: it lands in
 * the stub, which sends the exception on.
 */
__attribute__((visibility("hidden"))) _Unwind_Reason_Code
trampoline_personality(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                       struct _Unwind_Exception *exception, struct _Unwind_Context *context)
{
    (void)version;
    (void)class;
    struct mark *m = mark_in((const uint64_t *)context);
    if (!m)
        return _URC_CONTINUE_UNWIND;
    uint64_t state = m->state, slot = state & ~(uint64_t)MARK_DEAD;
    restore(m, slot);
    if (!(actions & _UA_HANDLER_FRAME)) {
        mark_declare_dead(m, slot);
        return _URC_CONTINUE_UNWIND;
    }
    mark_change_state(m, state, MARK_BEING_SET); /* kept until the stub has read it */
    m->exception = exception;
    return _URC_INSTALL_CONTEXT;
}

/* The program has an unwinder, since it came here; where it is linked statically, libc's will do.
 */
void trampoline_resume(void *exception)
{
    void (*resume)(void *);
    *(void **)&resume = dlsym(RTLD_DEFAULT, "_Unwind_Resume");
    if (!resume) {
        static void *library; /* stays */
        library = dlopen("libgcc_s.so.1", RTLD_NOW);
        *(void **)&resume = library ? dlsym(library, "_Unwind_Resume") : NULL;
    }
    if (resume)
        resume(exception);
    abort();
}
