/*
 * Applies the edit plan of a module: makes a stub for each site, near the module, and points the
 * site at it. Nobody runs the code meanwhile: modules are edited before their constructors, and at
 * the start of the program before there are other threads.
 *
 * No function of libc is called while text is written: it may be libc's own.
 */
#include "runtime/exact.h"

#include "runtime/arch/x86_64/syscall.h"

#include <sys/mman.h>
#include <sys/syscall.h>

enum { MOST_MODULES = 512, PAGE = 4096, STUB_ROOM = 192, POINTER_BYTES = 16 };

static struct edited_module edited[MOST_MODULES];
static uint32_t edited_count;
static uint32_t next_site = 1;

void exact_slow_entry(void);

const struct edited_module *edited_by_site(uint32_t site)
{
    uint32_t low = 0, high = edited_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (edited[middle].first_site <= site)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &edited[low - 1] : NULL;
}

uint32_t edited_site_behind(uint64_t address)
{
    for (uint32_t m = edited_count; m-- > 0;) {
        const struct edited_module *e = &edited[m];
        uint64_t offset = address - e->base;
        uint32_t low = 0, high = e->plan->site_count;
        while (low < high) {
            uint32_t middle = (low + high) / 2;
            if (e->sites[middle].offset < offset)
                low = middle + 1;
            else
                high = middle;
        }
        if (low && e->sites[low - 1].offset + e->sites[low - 1].length == offset &&
            e->sites[low - 1].kind <= SITE_CALL_INDIRECT)
            return e->first_site + low - 1;
    }
    return 0;
}

void edited_renumber(uint64_t base, uint32_t module_id)
{
    for (uint32_t i = 0; i < edited_count; i++)
        if (edited[i].base == base)
            edited[i].module_id = module_id;
}

/* Memory that a rel32 of the module reaches. */
static uint8_t *map_near(uint64_t module, uint64_t module_end, uint64_t bytes)
{
    enum { STEP = 1 << 20, TRIES = 1500 };
    for (uint64_t i = 1; i < TRIES; i++) {
        uint64_t places[2] = {(module_end + i * STEP) & ~(uint64_t)(PAGE - 1),
                              (module - bytes - i * STEP) & ~(uint64_t)(PAGE - 1)};
        for (unsigned k = 0; k < 2; k++) {
            long got = raw_syscall6(SYS_mmap, (long)places[k], (long)bytes,
                                    PROT_READ | PROT_WRITE | PROT_EXEC,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
            if (got == (long)places[k])
                return (uint8_t *)got;
            if (got > 0)
                raw_syscall3(SYS_munmap, got, (long)bytes, 0);
        }
    }
    return NULL;
}

/* --- writing instructions ------------------------------------------------------------------- */

struct emitter {
    uint8_t *at;
    const uint8_t *slow_pointer; /* where the address of the slow path lies */
    int32_t top, table, mask;    /* offsets from %fs */
};

static void emit(struct emitter *e, const char *bytes, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        *e->at++ = (uint8_t)bytes[i];
}

#define EMIT(e, text) emit(e, text, sizeof(text) - 1)

static void emit_u32(struct emitter *e, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        *e->at++ = (uint8_t)(value >> (8 * i));
}

static void emit_relative(struct emitter *e, const uint8_t *target)
{
    emit_u32(e, (uint32_t)(target - (e->at + 4)));
}

static void emit_jump(struct emitter *e, const uint8_t *target)
{
    EMIT(e, "\xe9");
    emit_relative(e, target);
}

/* A short forward jump whose distance is filled in later. */
static uint8_t *emit_short(struct emitter *e, uint8_t opcode)
{
    *e->at++ = opcode;
    *e->at++ = 0;
    return e->at;
}

static void land(struct emitter *e, uint8_t *jump)
{
    jump[-1] = (uint8_t)(e->at - jump);
}

/*
 * The counting part of a stub. On entry `pushed` bytes lie on the stack that the site's function
 * did not have there. A tail jump keeps the slot of its function.
 */
static void emit_counting(struct emitter *e, const struct plan_site *s, uint32_t site,
                          bool is_indirect, bool is_tail)
{
    const int32_t saved = 24, target_bytes = is_indirect ? 8 : 0, return_bytes = is_tail ? 0 : 8;
    const int32_t above = saved + target_bytes;
    uint8_t *slow[8];
    unsigned slow_count = 0;
    EMIT(e, "\x50\x51\x52"); /* push rax, rcx, rdx */
    if (s->slot_base == SLOT_UNKNOWN) {
        slow[slow_count++] = emit_short(e, 0xeb);
    } else {
        EMIT(e, "\x64\x48\x8b\x04\x25"); /* mov rax, fs:[top] */
        emit_u32(e, (uint32_t)e->top);
        if (s->slot_base == SLOT_RSP) { /* lea rcx, [rsp + …]: its function's slot */
            EMIT(e, "\x48\x8d\x8c\x24");
            emit_u32(e, (uint32_t)(above + return_bytes + s->slot_bytes));
        } else { /* lea rcx, [rbp + …] */
            EMIT(e, "\x48\x8d\x8d");
            emit_u32(e, (uint32_t)s->slot_bytes);
        }
        EMIT(e, "\x48\x39\x08"                    /* 1: cmp [rax], rcx */
                "\x73\x06"                        /*    jae 2f */
                "\x48\x83\xe8\x10"                /*    sub rax, 16: gone */
                "\xeb\xf5");                      /*    jmp 1b; 2: */
        slow[slow_count++] = emit_short(e, 0x75); /* jne slow */
        EMIT(e, "\x8b\x50\x08");                  /* mov edx, [rax + 8]: parent */
        EMIT(e, "\xb9");                          /* mov ecx, site */
        emit_u32(e, site);
        EMIT(e, "\xf2\x0f\x38\xf1\xca"); /* crc32 ecx, edx */
        if (is_indirect)
            EMIT(e, "\xf2\x48\x0f\x38\xf1\x4c\x24\x18"); /* crc32 rcx, [rsp + 24]: target */
        EMIT(e, "\x48\xc1\xe1\x05");                     /* shl rcx, 5 */
        EMIT(e, "\x64\x48\x23\x0c\x25");                 /* and rcx, fs:[mask] */
        emit_u32(e, (uint32_t)e->mask);
        EMIT(e, "\x64\x48\x03\x0c\x25"); /* add rcx, fs:[table] */
        emit_u32(e, (uint32_t)e->table);
        uint8_t *again = e->at;
        EMIT(e, "\x39\x11"); /* cmp [rcx], edx */
        uint8_t *next1 = emit_short(e, 0x75);
        EMIT(e, "\x81\x79\x04"); /* cmp dword [rcx + 4], site */
        emit_u32(e, site);
        uint8_t *next2 = emit_short(e, 0x75), *next3 = NULL;
        if (is_indirect) {
            EMIT(e, "\x48\x8b\x54\x24\x18" /* mov rdx, [rsp + 24] */
                    "\x48\x39\x51\x10");   /* cmp [rcx + 16], rdx */
            next3 = emit_short(e, 0x75);
        }
        EMIT(e, "\x48\x8b\x49\x08" /* mov rcx, [rcx + 8]: record */
                "\x48\xff\x01");   /* inc qword [rcx] */
        if (!is_tail) {
            EMIT(e, "\x48\x83\xc0\x10"   /* add rax, 16 */
                    "\x48\x8d\x54\x24"); /* lea rdx, [rsp + …]: the new slot */
            *e->at++ = (uint8_t)above;
            EMIT(e, "\x48\x89\x10"); /* mov [rax], rdx */
        }
        EMIT(e, "\x48\x89\x48\x08"       /* mov [rax + 8], rcx */
                "\x64\x48\x89\x04\x25"); /* mov fs:[top], rax */
        emit_u32(e, (uint32_t)e->top);
        uint8_t *done = emit_short(e, 0xeb);
        land(e, next1);
        land(e, next2);
        if (next3) {
            land(e, next3);
            EMIT(e, "\x8b\x50\x08"); /* mov edx, [rax + 8] */
        }
        EMIT(e, "\x83\x39\x00"); /* cmp dword [rcx], 0: free, so there is none */
        slow[slow_count++] = emit_short(e, 0x74);
        EMIT(e, "\x48\x83\xc1\x20"); /* add rcx, 32 */
        *e->at++ = 0xeb;
        *e->at = (uint8_t)(again - (e->at + 1));
        e->at++;
        for (unsigned i = 0; i < slow_count; i++)
            land(e, slow[i]);
        slow_count = 0;
        EMIT(e, "\x68"); /* push site */
        emit_u32(e, site);
        EMIT(e, "\xff\x15"); /* call [slow_pointer] */
        emit_relative(e, e->slow_pointer);
        EMIT(e, "\x48\x8d\x64\x24\x08"); /* lea rsp, [rsp + 8] */
        land(e, done);
    }
    if (slow_count) {
        land(e, slow[0]);
        EMIT(e, "\x68");
        emit_u32(e, site);
        EMIT(e, "\xff\x15");
        emit_relative(e, e->slow_pointer);
        EMIT(e, "\x48\x8d\x64\x24\x08");
    }
    EMIT(e, "\x5a\x59\x58"); /* pop rdx, rcx, rax */
}

/* push of a 64-bit address; no flags and no other register change. */
static void emit_push_address(struct emitter *e, uint64_t address)
{
    EMIT(e, "\x68"); /* push imm32 */
    emit_u32(e, (uint32_t)address);
    EMIT(e, "\xc7\x44\x24\x04"); /* mov dword [rsp + 4], … */
    emit_u32(e, (uint32_t)(address >> 32));
}

/*
 * The moved instructions. The last of an indirect site's is the push of its target, which takes up
 * as many bytes as the site: a call that must push its return address does so before that.
 */
static void emit_moved(struct emitter *e, const struct edited_module *m, const struct plan_site *s)
{
    uint8_t *field = NULL;
    for (unsigned i = 0; i < s->code_bytes; i++) {
        if (i == s->moved_bytes && (s->flags & SITE_PUSHES_RETURN))
            emit_push_address(e, m->base + s->offset + s->length);
        if (s->fixup && i == s->fixup - 1u)
            field = e->at;
        *e->at++ = m->code[s->code + i];
    }
    if (field) { /* a rel32 counts from the end of its instruction, which has no immediate */
        struct emitter at_field = {.at = field};
        emit_relative(&at_field, (const uint8_t *)m->base + s->fixup_target);
    }
}

/* Writes the stub of a site and points the site at it. */
static void edit_site(struct emitter *e, const struct edited_module *m, const struct plan_site *s,
                      uint32_t site)
{
    uint8_t *text = (uint8_t *)m->base + s->offset, *stub = e->at;
    bool is_indirect = s->kind == SITE_CALL_INDIRECT || s->kind == SITE_TAIL_INDIRECT;
    bool is_tail = s->kind >= SITE_TAIL;
    uint8_t opcode = text[0];
    emit_moved(e, m, s);
    if (s->kind == SITE_TAIL_SHORT && opcode != 0xeb) { /* not taken: back behind the site */
        *e->at++ = (uint8_t)(opcode ^ 1);
        uint8_t *back = e->at++;
        emit_counting(e, s, site, false, true);
        emit_jump(e, (const uint8_t *)m->base + s->target);
        *back = (uint8_t)(e->at - (back + 1));
        emit_jump(e, text + s->length);
    } else {
        emit_counting(e, s, site, is_indirect, is_tail);
        if (is_indirect)
            EMIT(e, "\x48\x8d\x64\x24\x08" /* lea rsp, [rsp + 8] */
                    "\xff\x64\x24\xf8");   /* jmp [rsp - 8] */
        else
            emit_jump(e, (const uint8_t *)m->base + s->target);
    }
    struct emitter at_site = {.at = text + s->length - 4};
    if (s->tier == TIER_RETARGET) {
        emit_relative(&at_site, stub);
        return;
    }
    /* A call must end where it ended, or its return address would be another. */
    uint8_t *begin = text - s->moved_bytes, *jump = text + s->length - 5;
    bool jumps = is_tail || (s->flags & SITE_PUSHES_RETURN);
    if (jumps)
        jump = begin;
    for (uint8_t *b = begin; b < text + s->length; b++)
        if (b < jump || b >= jump + 5)
            *b = jumps ? 0xcc : 0x90;
    at_site.at = jump;
    *at_site.at++ = jumps ? 0xe9 : 0xe8;
    emit_relative(&at_site, stub);
}

static int32_t from_fs(const void *address)
{
    uint64_t fs;
    __asm__("mov %%fs:0, %0" : "=r"(fs));
    return (int32_t)((int64_t)(uint64_t)(uintptr_t)address - (int64_t)fs);
}

bool edit_module(uint64_t base, uint32_t module_id, const void *plan, size_t plan_bytes)
{
    const struct plan_header *h = plan;
    if (edited_count == MOST_MODULES || plan_bytes < sizeof *h || h->magic != PLAN_MAGIC ||
        h->version != PLAN_VERSION || h->file_bytes != plan_bytes || !h->site_count)
        return false;
    struct edited_module m = {.base = base,
                              .first_site = next_site,
                              .module_id = module_id,
                              .plan = h,
                              .sites = (const void *)(h + 1)};
    m.code = (const uint8_t *)(m.sites + h->site_count);
    uint64_t last = m.sites[h->site_count - 1].offset, first = m.sites[0].offset;
    m.stub_bytes =
        ((uint64_t)h->site_count * STUB_ROOM + POINTER_BYTES + PAGE) & ~(uint64_t)(PAGE - 1);
    m.stubs = map_near(base, base + last, m.stub_bytes);
    uint64_t page = (base + first - 16) & ~(uint64_t)(PAGE - 1);
    uint64_t bytes = base + last + 16 - page;
    if (!m.stubs ||
        raw_syscall3(SYS_mprotect, (long)page, (long)bytes, PROT_READ | PROT_WRITE | PROT_EXEC) < 0)
        return false;
    *(void (**)(void))m.stubs = exact_slow_entry;
    struct emitter e = {.at = m.stubs + POINTER_BYTES,
                        .slow_pointer = m.stubs,
                        .top = from_fs(&exact_state.top),
                        .table = from_fs(&exact_state.table),
                        .mask = from_fs(&exact_state.mask_bytes)};
    edited[edited_count++] = m;
    next_site += h->site_count;
    for (uint32_t i = 0; i < h->site_count; i++)
        if (m.sites[i].tier <= TIER_DISPLACE)
            edit_site(&e, &m, &m.sites[i], m.first_site + i);
    raw_syscall3(SYS_mprotect, (long)page, (long)bytes, PROT_READ | PROT_EXEC);
    raw_syscall3(SYS_mprotect, (long)m.stubs, (long)m.stub_bytes, PROT_READ | PROT_EXEC);
    return true;
}
