#include "runtime/exact.h"

#include "runtime/arch/x86_64/syscall.h"
#include "runtime/channel_format.h"
#include "runtime/memory.h"
#include "runtime/thread.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum {
    PAGE = 4096,
    SHADOW_BYTES = 8 << 20, /* a frame takes as much of the stack as an entry, or more */
    MOST_FRAMES = 1 << 16,
    STACK_BYTES = 64 << 10,
    MOST_UNBOUND = 32
};

/* Where every thread begins: nothing matches, so the first site of a thread takes the slow way. */
static struct shadow_entry bottom[2] = {{UINT64_MAX, NULL}, {UINT64_MAX, NULL}};
static struct child_entry empty_table[1 + RECORDS_BEYOND];

#define STATE_AT_FIRST ((struct exact_state){&bottom[1], empty_table, 0, &bottom[2]})

__thread struct exact_state exact_state
    __attribute__((tls_model("initial-exec"))) = {&bottom[1], empty_table, 0, &bottom[2]};

/* A function that was called through the PLT before it was bound: what it is, is known later. */
struct unbound {
    struct arena_record *record;
    const uint64_t *got;
};

/* What else belongs to a thread; made when its first call comes. */
struct exact_thread {
    struct records records;
    struct shadow_entry *shadow;
    struct thread *thread;
    struct arena_header *arena; /* another one: this is the child of a fork */
    struct walk_frame *frames;
    struct walk_cache cache;
    struct unbound unbound[MOST_UNBOUND];
    uint32_t unbound_count;
    struct exact_state before_fork;
    bool busy;
    bool was_jumping; /* the sample came in the stub of a tail jump: either function is right */
    uint8_t stack[STACK_BYTES] __attribute__((aligned(16))); /* the slow path's own */
};

enum { THREAD_BYTES = sizeof(struct exact_thread) + MOST_FRAMES * sizeof(struct walk_frame) };

static __thread struct exact_thread *mine __attribute__((tls_model("initial-exec")));

/* Around a fork: calls in libc's own fork, on both sides, are nobody's. */
void exact_before_fork(void)
{
    if (!mine)
        return;
    mine->before_fork = exact_state;
    mine->busy = true;
    exact_state = STATE_AT_FIRST;
}

void exact_after_fork(void)
{
    if (!mine)
        return;
    exact_state = mine->before_fork;
    mine->busy = false;
}

void exact_forget(void)
{
    mine = NULL; /* its records are the parent's */
    exact_state = STATE_AT_FIRST;
}

static void *map_private(uint64_t bytes)
{
    return raw_mmap(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

/*
 * In the child of a fork of which nobody told us, the shadow stack is empty but for its first page:
 * every stub takes the slow way, and none writes to the parent's arena (pitfall 42).
 */
static struct shadow_entry *map_shadow(void)
{
    struct shadow_entry *shadow = map_private(SHADOW_BYTES);
    if (shadow)
        raw_syscall3(SYS_madvise, (long)shadow + PAGE, SHADOW_BYTES - PAGE, MADV_WIPEONFORK);
    return shadow;
}

static void free_thread(struct exact_thread *t)
{
    records_end(&t->records);
    if (t->shadow)
        raw_syscall3(SYS_munmap, (long)t->shadow, SHADOW_BYTES, 0);
    raw_syscall3(SYS_munmap, (long)t, THREAD_BYTES, 0);
}

/* Where a thread found no memory, later ones do not even try: every call would. */
static const struct arena_header *without_memory;

static struct exact_thread *begin(void)
{
    struct thread *thread = thread_self();
    if (!guest->arena || !guest->modules || !thread || thread->of != guest || !thread->record)
        return NULL;
    if (mine && mine->arena == guest->arena)
        return mine;
    if (without_memory == guest->arena)
        return NULL;
    struct exact_thread *t = is_confined() ? NULL : map_private(THREAD_BYTES);
    if (!t) {
        without_memory = guest->arena;
        return NULL;
    }
    t->frames = (void *)(t + 1);
    t->thread = thread;
    t->arena = guest->arena;
    t->shadow = map_shadow();
    if (!t->shadow || !records_begin(&t->records, thread->record)) {
        free_thread(t);
        without_memory = guest->arena;
        return NULL;
    }
    /* All of the first page says that nothing is there: see map_shadow. */
    for (unsigned i = 0; i < PAGE / sizeof *t->shadow; i++)
        t->shadow[i] = (struct shadow_entry){UINT64_MAX, NULL};
    return mine = t;
}

static struct shadow_entry *shadow_bottom(const struct exact_thread *t)
{
    return &t->shadow[PAGE / sizeof *t->shadow - 1];
}

static struct shadow_entry *shadow_limit(const struct exact_thread *t)
{
    return &t->shadow[SHADOW_BYTES / sizeof *t->shadow - 1];
}

static uint64_t key_of_address(const struct walk_modules *modules, uint64_t address, uint32_t flags)
{
    uint32_t index = modules_find(modules, address);
    if (index == UINT32_MAX)
        return KEY_MAKE(address >> 32 & 0xffffff, flags | KEY_ADDRESS, address);
    return KEY_MAKE(modules_id(modules, index), flags, address - modules->items[index].base);
}

static uint64_t key_of_function(const struct walk_modules *modules, uint64_t address)
{
    return key_of_address(modules, modules_function(modules, address), KEY_IS_PC);
}

static const uint8_t *skip_endbr64(const uint8_t *code)
{
    static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    for (unsigned i = 0; i < sizeof endbr64; i++)
        if (code[i] != endbr64[i])
            return code;
    return code + sizeof endbr64;
}

/* Not bound yet, the slot points back to the PLT, which pushes a number for the binder. */
static bool is_binder(uint64_t callee)
{
    return *skip_endbr64((const uint8_t *)callee) == 0x68;
}

static void resolve_unbound(struct exact_thread *t)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < t->unbound_count; i++) {
        struct unbound u = t->unbound[i];
        if (is_binder(*u.got))
            t->unbound[left++] = u;
        else
            u.record->callee = key_of_function(guest->modules, *u.got);
    }
    t->unbound_count = left;
}

void exact_thread_ends(void)
{
    struct exact_thread *t = mine;
    mine = NULL;
    exact_state = STATE_AT_FIRST;
    if (!t || t->arena != guest->arena || is_confined())
        return;
    resolve_unbound(t);
    free_thread(t);
}

void exact_process_ends(void)
{
    if (mine && mine->arena == guest->arena && !mine->busy)
        resolve_unbound(mine);
}

/* --- resynchronisation ------------------------------------------------------------------------ */

/* What a direct site leads to; through the PLT, what that is bound to. */
static uint64_t target_of(const struct edited_module *m, const struct plan_site *s)
{
    return s->got ? *(const uint64_t *)(m->base + s->got) : m->base + s->target;
}

/* How the function of a frame was entered, by the return address of the frame above it. */
static struct entered entered_by(const struct walk_modules *modules, uint64_t call,
                                 uint32_t call_flags, uint64_t function)
{
    struct entered how = {.site = call && !call_flags ? edited_site_behind(call) : 0,
                          .by_callee = true,
                          .callee = function,
                          .site_key = call ? key_of_address(modules, call, call_flags) : 0,
                          .callee_key = key_of_address(modules, function, KEY_IS_PC)};
    const struct edited_module *m = how.site ? edited_by_site(how.site) : NULL;
    const struct plan_site *s = m ? &m->sites[how.site - m->first_site] : NULL;
    if (s && s->kind == SITE_CALL)
        how.by_callee = false;
    /* A direct call to another function, which then went on here by a tail jump. */
    if (!s || (s->kind == SITE_CALL && modules_function(modules, target_of(m, s)) != function)) {
        how.site = (uint32_t)UNKNOWN_SITE | (uint32_t)call;
        how.by_callee = true;
    }
    return how;
}

/* Was the record's frame entered from this return address, perhaps by tail jumps in between? */
static bool came_from(const struct arena_record *record, uint64_t site_key)
{
    while (record->flags & RECORD_TAIL)
        record = arena_at(record->parent);
    return record->site == site_key;
}

static struct walk_result walk(struct exact_thread *t, const struct walk_registers *r)
{
    struct thread *thread = t->thread;
    uint64_t sp = r->value[X86_RSP];
    bool is_known = sp >= thread->stack_start && sp < thread->stack_end;
    struct walk_memory memory = memory_of_this_process(is_known ? thread->stack_start : 0,
                                                       is_known ? thread->stack_end : 0);
    struct walk_result walked =
        walk_frames_cached(&t->cache, guest->modules, r, &memory, t->frames, MOST_FRAMES);
    if (walked.end == WALK_COMPLETE && memory.start <= thread->first_sp &&
        thread->first_sp < memory.end &&
        (memory.start < thread->stack_start || !thread->stack_end)) {
        thread->stack_start = memory.start;
        thread->stack_end = memory.end;
    }
    return walked;
}

/*
 * Makes the shadow stack anew from the real one, down to the frame that `r` describes. Entries that
 * agree with the real stack stay: they know of tail jumps, which no walk can see. Returns the top.
 */
static struct shadow_entry *walk_anew(struct exact_thread *t, const struct walk_registers *r)
{
    const struct walk_modules *modules = guest->modules;
    struct walk_result walked = walk(t, r);
    struct shadow_entry *top = shadow_bottom(t), *old_top = exact_state.top;
    struct arena_record *record = t->records.root;
    uint64_t call = 0;       /* return address of the call that led to the frame, */
    uint32_t call_flags = 0; /* or where a signal interrupted */
    bool agrees = old_top >= top && old_top <= shadow_limit(t);
    if (walked.end != WALK_COMPLETE)
        record = records_gap(&t->records, walked.end);
    for (uint32_t i = walked.count; i-- > 0;) {
        const struct walk_frame *f = &t->frames[i];
        if (modules_role(modules, f->module) == ROLE_OURS)
            continue;
        uint64_t function = modules_function(modules, f->pc - !(f->flags & FRAME_IS_PC));
        struct entered how = entered_by(modules, call, call_flags, function);
        agrees = agrees && f->slot && top < old_top && top[1].slot == f->slot &&
                 top[1].record->callee == how.callee_key && came_from(top[1].record, how.site_key);
        if (agrees)
            record = top[1].record;
        else
            record = records_child(&t->records, record, &how)->record;
        if (f->slot && top < shadow_limit(t))
            *++top = (struct shadow_entry){f->slot, record};
        call = f->pc;
        call_flags = f->flags & FRAME_IS_PC ? KEY_IS_PC : 0;
    }
    if (top == shadow_bottom(t) || top->record != record) /* its slot is not in memory */
        *++top = (struct shadow_entry){0, record};
    return top;
}

static struct walk_registers registers_at_site(const struct slow_frame *f, uint64_t pc, uint64_t sp)
{
    struct walk_registers r = {{0}};
    r.value[X86_RAX] = f->rax;
    r.value[X86_RCX] = f->rcx;
    r.value[X86_RDX] = f->rdx;
    r.value[X86_RBX] = f->rbx;
    r.value[X86_RSI] = f->rsi;
    r.value[X86_RDI] = f->rdi;
    r.value[X86_RBP] = f->rbp;
    r.value[X86_RSP] = sp;
    r.value[X86_R8] = f->r8;
    r.value[X86_R9] = f->r9;
    r.value[X86_R10] = f->r10;
    r.value[X86_R11] = f->r11;
    r.value[X86_R12] = f->r12;
    r.value[X86_R13] = f->r13;
    r.value[X86_R14] = f->r14;
    r.value[X86_R15] = f->r15;
    r.value[X86_RIP] = pc;
    return r;
}

/* --- the slow path ---------------------------------------------------------------------------- */

/* A call at a site, as the stub left it. */
struct call {
    const struct edited_module *module;
    const struct plan_site *site;
    uint64_t function; /* whose site it is */
    uint64_t new_slot; /* of the callee's return address */
    uint64_t sp;       /* at the site */
    uint64_t slot;     /* of the function's own return address; 0: not known */
    struct entered how;
    bool is_tail;
};

static struct call call_at(const struct slow_frame *f)
{
    const struct walk_modules *modules = guest->modules;
    uint32_t number = (uint32_t)f->site;
    const struct edited_module *m = edited_by_site(number);
    const struct plan_site *s = &m->sites[number - m->first_site];
    bool is_indirect = s->kind == SITE_CALL_INDIRECT || s->kind == SITE_TAIL_INDIRECT;
    struct call c = {
        .module = m, .site = s, .function = m->base + s->function, .is_tail = s->kind >= SITE_TAIL};
    c.new_slot = (uint64_t)(uintptr_t)&f->above[is_indirect];
    c.sp = c.new_slot + (c.is_tail ? 0 : 8);
    if (s->slot_base == SLOT_RSP)
        c.slot = c.sp + (uint64_t)(int64_t)s->slot_bytes;
    else if (s->slot_base == SLOT_RBP)
        c.slot = f->rbp + (uint64_t)(int64_t)s->slot_bytes;
    uint32_t offset = c.is_tail ? s->offset : s->offset + s->length;
    c.how = (struct entered){.site = number,
                             .by_callee = is_indirect,
                             .callee = is_indirect ? f->above[0] : target_of(m, s),
                             .site_key = KEY_MAKE(m->module_id, c.is_tail ? KEY_IS_PC : 0, offset),
                             .flags = c.is_tail ? RECORD_TAIL : 0};
    c.how.callee_key = key_of_function(modules, c.how.callee);
    return c;
}

/* The entry of the function whose site it is. */
static struct shadow_entry *find_own(struct exact_thread *t, const struct slow_frame *f,
                                     const struct call *c, enum slow_reason *why)
{
    struct shadow_entry *top = exact_state.top;
    while (c->slot && top->slot < c->slot)
        top--;
    uint64_t own = key_of_address(guest->modules, c->function, KEY_IS_PC);
    if (c->slot && top->slot == c->slot && top->record && top < shadow_limit(t) &&
        (top->record->callee == own || top->record == t->records.overflow))
        return top;
    struct walk_registers r = registers_at_site(f, c->module->base + c->site->offset, c->sp);
    *why = SLOW_RESYNC;
    return walk_anew(t, &r);
}

static enum slow_reason count_call(struct exact_thread *t, const struct slow_frame *f)
{
    enum slow_reason why = SLOW_OTHER;
    resolve_unbound(t);
    struct call c = call_at(f);
    struct shadow_entry *top = find_own(t, f, &c, &why);
    uint32_t before = t->records.count;
    const struct child_entry *entry = records_child(&t->records, top->record, &c.how);
    if (why == SLOW_OTHER && t->records.count != before)
        why = SLOW_NEW;
    if (c.site->got && t->records.count != before && is_binder(c.how.callee) &&
        t->unbound_count < MOST_UNBOUND && entry->counter != t->records.overflow)
        t->unbound[t->unbound_count++] =
            (struct unbound){entry->counter, (const uint64_t *)(c.module->base + c.site->got)};
    entry->counter->count++;
    if (!c.is_tail)
        top++;
    *top = (struct shadow_entry){c.new_slot, entry->record};
    exact_state.top = top;
    return why;
}

static void count_or_not(const struct slow_frame *f)
{
    struct exact_thread *t = begin();
    if (!t) {
        if (mine) /* of the parent of a fork of which nobody told us */
            exact_forget();
        return;
    }
    if (t->busy) {
        t->records.thread->slow[SLOW_UNCOUNTED]++;
        return;
    }
    t->busy = true;
    if (exact_state.table == empty_table)
        exact_state.top = shadow_bottom(t);
    uint32_t was_busy = t->thread->busy;
    t->thread->busy = 1; /* the modules must not change now */
    t->records.thread->slow[count_call(t, f)]++;
    t->thread->busy = was_busy;
    exact_state.table = t->records.table;
    exact_state.mask_bytes = (uint64_t)(t->records.room - 1) * sizeof *t->records.table;
    exact_state.limit = shadow_limit(t);
    t->busy = false;
}

/*
 * Where the slow path is entered and left; a sample must not come here. No signal gets in between:
 * a handler could leave by longjmp. The work is done on a stack of its own, since the program's may
 * be a small one for signals.
 */
#define SLOW_TEXT __attribute__((section("exact_slow_text"), used, noinline))

void exact_slow(const struct slow_frame *f) __attribute__((visibility("hidden"))) SLOW_TEXT;
void exact_on_stack(void *stack, void (*work)(const struct slow_frame *),
                    const struct slow_frame *f) __attribute__((visibility("hidden")));

void exact_slow(const struct slow_frame *f)
{
    uint64_t all = UINT64_MAX, before = 0;
    if (!mine && (!guest->arena || without_memory == guest->arena))
        return; /* nothing is counted, and that quickly */
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, 8);
    if (mine && !mine->busy)
        exact_on_stack(mine->stack + STACK_BYTES, count_or_not, f);
    else
        count_or_not(f);
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, 8);
}

/* --- samples ---------------------------------------------------------------------------------- */

extern const char __start_exact_slow_text[] __attribute__((visibility("hidden")));
extern const char __stop_exact_slow_text[] __attribute__((visibility("hidden")));

bool exact_leave_stub(struct walk_registers *r)
{
    uint64_t pc = r->value[X86_RIP];
    if (pc >= (uint64_t)__start_exact_slow_text && pc < (uint64_t)__stop_exact_slow_text)
        return false;
    const struct edited_module *m = edited_by_stub(pc);
    if (mine)
        mine->was_jumping = false;
    if (!m)
        return true;
    stub_leave_common(m, r);
    uint32_t site = edited_site_of_stub(r->value[X86_RIP]);
    if (!site)
        return false;
    stub_leave(m, site - m->first_site, r);
    if (mine)
        mine->was_jumping = m->sites[site - m->first_site].kind >= SITE_TAIL;
    return true;
}

/* The PLT, and the binder behind it, are on their way to the function that was called; of code
 * without a module nobody knows where functions begin. */
static bool is_on_its_way(const struct walk_modules *modules, const struct walk_frame *f)
{
    if (modules_role(modules, f->module) == ROLE_LINKER || f->module == UINT32_MAX)
        return true;
    if (!(f->flags & FRAME_IS_PC))
        return false;
    const uint8_t *code = skip_endbr64((const uint8_t *)f->pc);
    code += *code == 0xf2;                                          /* bnd */
    return (code[0] == 0xff && code[1] == 0x25) || code[0] == 0x68; /* jmp *…(%rip); push */
}

static uint64_t function_key(const struct walk_modules *modules, const struct walk_frame *f)
{
    return key_of_function(modules, f->pc - !(f->flags & FRAME_IS_PC));
}

/* May a function have gone on to another one by a tail jump that is not counted? */
static bool may_go_on(const struct walk_modules *modules, uint64_t callee_key)
{
    for (uint32_t i = 0; i < modules->count; i++)
        if (modules_id(modules, i) == KEY_MODULE(callee_key))
            return edited_has_gaps(modules->items[i].base, KEY_OFFSET(callee_key));
    return true;
}

/* Is this the record of the frame's function, or of one that it is about to jump to? */
static bool is_record_of(const struct walk_modules *modules, const struct arena_record *record,
                         const struct walk_frame *f)
{
    uint64_t key = function_key(modules, f);
    for (;; record = arena_at(record->parent)) {
        if (record->callee == key || may_go_on(modules, record->callee))
            return true;
        if (!(record->flags & RECORD_TAIL))
            return is_on_its_way(modules, f);
    }
}

/* The context of a record against the frames up to and with `last`. */
static bool is_same_path(const struct exact_thread *t, const struct walk_modules *modules,
                         const struct arena_record *record, const struct walk_frame *frames,
                         uint32_t last)
{
    for (uint32_t i = last + 1; i-- > 0;) {
        if (modules_role(modules, frames[i].module) == ROLE_OURS)
            continue;
        if (KEY_FLAGS(record->callee) & KEY_GAP)
            return true;    /* the frames further out were too many */
        uint32_t above = i; /* the next frame that is not ours */
        while (above-- > 0 && modules_role(modules, frames[above].module) == ROLE_OURS)
            ;
        if (!is_record_of(modules, record, &frames[i]))
            return false;
        while (record->flags & RECORD_TAIL)
            record = arena_at(record->parent);
        if (KEY_FLAGS(((const struct arena_record *)arena_at(record->parent))->callee) & KEY_GAP)
            return true; /* the frames further out were too many */
        /* Where a handler interrupted, or code that is not edited called, may have changed. */
        if (i && above != UINT32_MAX && !(frames[above].flags & FRAME_IS_PC) &&
            edited_site_behind(frames[above].pc) &&
            record->site != key_of_address(modules, frames[above].pc, 0))
            return false;
        record = arena_at(record->parent);
    }
    return record == t->records.root;
}

static bool is_unwinder(const struct walk_modules *modules, const struct walk_frame *f)
{
    if (f->module == UINT32_MAX || !modules->items[f->module].tables)
        return false;
    const struct walk_module *m = &modules->items[f->module];
    const struct map_range *range = map_find_unmarkable(m->tables, f->pc - m->base);
    return modules_role(modules, f->module) == ROLE_UNWINDER || (range && range->value);
}

/*
 * Does the shadow stack agree with a walked one? Its frames are outermost first. Calls from code
 * that is not edited are not in the shadow stack: inside the last frame that is, there may be only
 * such. Tail callers, which no walk can see, are left out.
 */
bool exact_agrees(const struct walk_modules *modules, const struct walk_frame *frames,
                  uint32_t count)
{
    struct exact_thread *t = mine;
    if (!t || t->arena != guest->arena || t->busy || exact_state.table == empty_table || !count ||
        t->was_jumping || (guest->flags & CHANNEL_FOLD))
        return true; /* there is nothing to compare with */
    resolve_unbound(t);
    const struct shadow_entry *top = exact_state.top;
    uint64_t outermost = 0;
    for (uint32_t i = 0; i < count && !outermost; i++)
        outermost = frames[i].slot;
    while (top->slot < frames[count - 1].slot)
        top--;
    if (top->slot > outermost)
        return true; /* of another stack, and nothing has been called on this one since */
    enum { NEAR = 4 };
    for (uint32_t i = count; i-- > 0 && count - i <= NEAR;)
        if (is_unwinder(modules, &frames[i]))
            return true; /* it may be changing return addresses at this moment */
    for (uint32_t i = count; i-- > 0;) {
        while (top->slot < frames[i].slot)
            top--;
        if (modules_role(modules, frames[i].module) == ROLE_OURS)
            continue;
        if (top->slot == frames[i].slot && top->record == t->records.overflow)
            return true;
        if (top->slot == frames[i].slot && top->record &&
            is_record_of(modules, top->record, &frames[i]))
            return is_same_path(t, modules, top->record, frames, i);
        if (i && !(frames[i - 1].flags & FRAME_IS_PC) && edited_site_behind(frames[i - 1].pc))
            return false; /* that call was counted, and must be known */
    }
    return true;
}
