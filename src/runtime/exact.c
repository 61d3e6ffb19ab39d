#include "runtime/exact.h"

#include "runtime/arch/x86_64/syscall.h"
#include "runtime/memory.h"
#include "runtime/thread.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum {
    FIRST_ENTRIES = 1 << 10,
    SHADOW_BYTES = 64 << 20, /* of address space; a frame takes as much of the stack as an entry */
    MOST_FRAMES = 1 << 16,
    BEYOND = 64, /* entries behind the table's end, so that probing need not wrap */
    UNKNOWN_SITE = INT32_MIN
};

/* Where every thread begins: nothing matches, so the first site of a thread takes the slow way. */
static struct shadow_entry bottom[2] = {{UINT64_MAX, NULL}, {UINT64_MAX, NULL}};
static struct child_entry empty_table[1 + BEYOND];

__thread struct exact_state exact_state
    __attribute__((tls_model("initial-exec"))) = {&bottom[1], empty_table, 0};

/* What else belongs to a thread; made when its first call comes. */
struct exact_thread {
    struct shadow_entry *shadow;
    struct child_entry *table;
    uint32_t room, count;
    struct arena_record_chunk *chunk;
    struct arena_record *root;
    struct arena_thread *record;
    struct walk_frame *frames;
    struct walk_cache cache;
    struct exact_state before_fork;
    bool busy;
};

static __thread struct exact_thread *mine __attribute__((tls_model("initial-exec")));

/* Around a fork: calls in libc's own fork, on both sides, are nobody's. */
void exact_before_fork(void)
{
    if (!mine)
        return;
    mine->before_fork = exact_state;
    mine->busy = true;
    exact_state = (struct exact_state){&bottom[1], empty_table, 0};
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
    exact_state = (struct exact_state){&bottom[1], empty_table, 0};
}

static void *map_private(uint64_t bytes)
{
    return raw_mmap(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

static struct arena_record *new_record(struct exact_thread *t, uint32_t parent, uint64_t site,
                                       uint64_t callee, uint32_t flags)
{
    if (!t->chunk || t->chunk->count == ARENA_CHUNK_RECORDS) {
        struct arena_record_chunk *chunk = arena_take(sizeof *chunk);
        if (!chunk)
            return NULL;
        chunk->next = t->record->first_record_chunk;
        t->record->first_record_chunk = arena_place(chunk);
        t->chunk = chunk;
    }
    struct arena_record *r = &t->chunk->records[t->chunk->count];
    *r = (struct arena_record){.site = site, .callee = callee, .parent = parent, .flags = flags};
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    t->chunk->count++;
    return r;
}

static bool begin_table(struct exact_thread *t, uint32_t room)
{
    t->table = map_private((room + BEYOND) * sizeof *t->table);
    t->room = room;
    t->count = 0;
    return t->table != NULL;
}

static struct exact_thread *begin(void)
{
    struct thread *thread = thread_self();
    if (mine)
        return mine;
    if (!guest->arena || !thread || thread->of != guest || !thread->record)
        return NULL;
    struct exact_thread *t = map_private(sizeof *t + MOST_FRAMES * sizeof *t->frames);
    if (!t)
        return NULL;
    t->frames = (void *)(t + 1);
    t->record = thread->record;
    t->shadow = map_private(SHADOW_BYTES);
    t->root = t->shadow ? new_record(t, 0, 0, 0, 0) : NULL;
    if (!t->root || !begin_table(t, FIRST_ENTRIES))
        return NULL;
    t->shadow[0] = (struct shadow_entry){UINT64_MAX, NULL};
    t->shadow[1] = (struct shadow_entry){UINT64_MAX, t->root};
    return mine = t;
}

/* As the stubs compute it: where to begin to look. */
static uint32_t hash(uint32_t parent, uint32_t site, uint64_t callee, bool is_indirect)
{
    uint64_t h = site;
    __asm__("crc32l %1, %k0" : "+r"(h) : "r"(parent));
    if (is_indirect)
        __asm__("crc32q %1, %0" : "+r"(h) : "r"(callee));
    return (uint32_t)h;
}

static bool insert(struct exact_thread *t, const struct child_entry *new, bool is_indirect);

static bool grow(struct exact_thread *t)
{
    struct exact_thread old = *t;
    for (uint32_t room = t->room * 2;; room *= 2) {
        if (!begin_table(t, room)) {
            t->table = old.table;
            t->room = old.room;
            t->count = old.count;
            return false;
        }
        bool fits = true;
        for (uint32_t i = 0; i < old.room + BEYOND && fits; i++)
            if (old.table[i].parent)
                fits = insert(t, &old.table[i], old.table[i].unused);
        if (fits)
            break;
        raw_syscall3(SYS_munmap, (long)t->table, (long)((t->room + BEYOND) * sizeof *t->table), 0);
    }
    raw_syscall3(SYS_munmap, (long)old.table, (long)((old.room + BEYOND) * sizeof *old.table), 0);
    return true;
}

static bool insert(struct exact_thread *t, const struct child_entry *new, bool is_indirect)
{
    uint32_t at = hash(new->parent, new->site, new->callee, is_indirect) & (t->room - 1);
    /* The last entry stays free, where every search ends. */
    while (at < t->room + BEYOND - 1 && t->table[at].parent)
        at++;
    if (at == t->room + BEYOND - 1 || t->count * 2 > t->room)
        return false;
    t->table[at] = *new;
    t->table[at].unused = is_indirect;
    t->count++;
    return true;
}

static uint64_t key_of_address(const struct walk_modules *modules, uint64_t address, uint32_t flags)
{
    uint32_t index = modules_find(modules, address);
    if (index == UINT32_MAX)
        return KEY_MAKE(address >> 32 & 0xffffff, flags | KEY_ADDRESS, address);
    return KEY_MAKE(modules_id(modules, index), flags, address - modules->items[index].base);
}

/* The record of a call from `parent` at `site`; made if it is new. NULL when there is no room. */
static struct arena_record *child(struct exact_thread *t, struct arena_record *parent,
                                  uint32_t site, uint64_t callee, bool is_indirect,
                                  uint64_t site_key, uint32_t flags)
{
    uint32_t low = (uint32_t)(uintptr_t)parent;
    uint32_t at = hash(low, site, callee, is_indirect) & (t->room - 1);
    for (; t->table[at].parent; at++)
        if (t->table[at].parent == low && t->table[at].site == site &&
            (!is_indirect || t->table[at].callee == callee))
            return t->table[at].record;
    const struct walk_modules *modules = guest->modules;
    struct arena_record *r =
        new_record(t, arena_place(parent), site_key,
                   key_of_address(modules, modules_function(modules, callee), KEY_IS_PC), flags);
    struct child_entry new = {low, site, r, callee, is_indirect};
    if (!r)
        return NULL;
    while (!insert(t, &new, is_indirect))
        if (!grow(t))
            return r;
    return r;
}

/* Makes the shadow stack anew from the real one, down to the frame that `r` describes. */
static struct shadow_entry *walk_anew(struct exact_thread *t, const struct walk_registers *r)
{
    const struct walk_modules *modules = guest->modules;
    struct walk_memory memory = memory_of_this_process(0, 0);
    struct walk_result walked =
        walk_frames_cached(&t->cache, modules, r, &memory, t->frames, MOST_FRAMES);
    struct shadow_entry *top = &t->shadow[1];
    struct arena_record *record = t->root;
    uint64_t call = 0; /* return address of the call that led to the frame */
    t->record->resyncs++;
    for (uint32_t i = walked.count; i-- > 0;) {
        const struct walk_frame *f = &t->frames[i];
        if (modules_role(modules, f->module) == ROLE_OURS)
            continue;
        bool is_pc = f->flags & FRAME_IS_PC;
        uint64_t function = modules_function(modules, f->pc - !is_pc);
        uint32_t site = call ? edited_site_behind(call) : 0;
        const struct edited_module *m = site ? edited_by_site(site) : NULL;
        bool is_indirect = !m || m->sites[site - m->first_site].kind == SITE_CALL_INDIRECT;
        if (!site)
            site = (uint32_t)UNKNOWN_SITE | (uint32_t)call;
        record = child(t, record, site, function, is_indirect,
                       call ? key_of_address(modules, call, 0) : 0, 0);
        if (!record)
            return NULL;
        if (f->slot)
            *++top = (struct shadow_entry){f->slot, record};
        call = f->pc;
    }
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

/* Not bound yet, the slot points back to the PLT, which pushes a number for the binder. */
static bool is_binder(uint64_t callee)
{
    const uint8_t *code = (const uint8_t *)callee;
    static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    if (code[0] == endbr64[0] && code[1] == endbr64[1] && code[2] == endbr64[2] &&
        code[3] == endbr64[3])
        code += 4;
    return code[0] == 0x68;
}

static void count_call(struct exact_thread *t, const struct slow_frame *f)
{
    uint32_t site = (uint32_t)f->site;
    const struct edited_module *m = edited_by_site(site);
    const struct plan_site *s = &m->sites[site - m->first_site];
    bool is_indirect = s->kind == SITE_CALL_INDIRECT || s->kind == SITE_TAIL_INDIRECT;
    bool is_tail = s->kind >= SITE_TAIL;
    const struct walk_modules *modules = guest->modules;
    uint64_t callee = is_indirect ? f->above[0] : m->base + s->target;
    uint32_t flags = is_tail ? RECORD_TAIL : 0;
    if (s->got) { /* a stub of the PLT: what it jumps to, if that is known already */
        callee = *(const uint64_t *)(m->base + s->got);
        if (is_binder(callee))
            flags |= RECORD_UNBOUND;
    }
    uint64_t function = m->base + s->function;
    if (s->kind == SITE_TAIL_INDIRECT && callee != function &&
        modules_function(modules, callee) == function)
        return; /* a switch, not a call */

    uint64_t new_slot = (uint64_t)(uintptr_t)&f->above[is_indirect];
    uint64_t sp = new_slot + (is_tail ? 0 : 8);
    uint64_t slot = s->slot_base == SLOT_RSP   ? sp + (uint64_t)(int64_t)s->slot_bytes
                    : s->slot_base == SLOT_RBP ? f->rbp + (uint64_t)(int64_t)s->slot_bytes
                                               : 0;
    struct shadow_entry *top = exact_state.top;
    while (slot && top->slot < slot)
        top--;
    uint64_t own = key_of_address(modules, function, KEY_IS_PC);
    if (slot && top->slot == slot && top->record && (top->record->flags & RECORD_UNBOUND)) {
        top->record->callee = own; /* it has been bound since */
        top->record->flags &= ~(uint32_t)RECORD_UNBOUND;
    }
    if (!slot || top->slot != slot || !top->record || top->record->callee != own) {
        struct walk_registers r = registers_at_site(f, m->base + s->offset, sp);
        top = walk_anew(t, &r);
        if (!top)
            return;
    }
    uint64_t site_key = KEY_MAKE(m->module_id, is_tail ? KEY_IS_PC : 0,
                                 is_tail ? s->offset : s->offset + s->length);
    struct arena_record *record = child(t, top->record, site, callee, is_indirect, site_key, flags);
    if (!record)
        return;
    record->count++;
    if (!is_tail)
        top++;
    *top = (struct shadow_entry){new_slot, record};
    exact_state.top = top;
}

void exact_slow(const struct slow_frame *f) __attribute__((visibility("hidden")));

void exact_slow(const struct slow_frame *f)
{
    struct exact_thread *t = guest->arena && guest->modules ? begin() : NULL;
    if (!t || t->busy) /* a signal handler's call in the midst of this: it is not counted */
        return;
    t->busy = true;
    t->record->slow_calls++;
    if (exact_state.table == empty_table)
        exact_state.top = &t->shadow[1];
    count_call(t, f);
    exact_state.table = t->table;
    exact_state.mask_bytes = (uint64_t)(t->room - 1) * sizeof *t->table;
    t->busy = false;
}
