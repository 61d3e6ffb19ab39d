/*
 * The stub of a site, near its module:
 *
 *     the instructions that moved with the site, if it was short     saving:
 *     push rax, rcx, rdx                                             …
 *     find the entry of this function in the shadow stack, the
 *     entry of this call in the table; count; push                   slow:
 *     or push the site's number and call the slow path               restoring:
 *     pop rdx, rcx, rax                                              …
 *     jump to the callee                                             end:
 *
 * It changes no register but the flags, which are dead at a call: compilers never keep them across
 * one, whatever the callee is. Nor is anything kept below the stack pointer then.
 *
 * No function of libc is called while text is written: it may be libc's own.
 */
#include "runtime/exact.h"

struct emitter {
    uint8_t *at;
    const uint8_t *slow_pointer; /* where the address of the slow path lies */
    struct stub_layout *layout;
    uint8_t *stub;
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

/* A forward jump whose distance is filled in later. */
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

/* The same with a distance of 32 bits; `condition` is the second byte of its opcode. */
static uint8_t *emit_near(struct emitter *e, uint8_t condition)
{
    *e->at++ = 0x0f;
    *e->at++ = condition;
    emit_u32(e, 0);
    return e->at;
}

static void land_near(struct emitter *e, uint8_t *jump)
{
    struct emitter distance = {.at = jump - 4};
    emit_u32(&distance, (uint32_t)(e->at - jump));
}

/* A variable of this thread: the offset from %fs is the same in all of them. */
static void emit_fs(struct emitter *e, const void *variable)
{
    uint64_t fs;
    __asm__("mov %%fs:0, %0" : "=r"(fs));
    emit_u32(e, (uint32_t)((uint64_t)(uintptr_t)variable - fs));
}

/* rax: this function's entry in the shadow stack. Otherwise to the slow path. */
static void emit_find_own(struct emitter *e, const struct plan_site *s, int32_t above,
                          uint8_t **slow, unsigned *slow_count)
{
    EMIT(e, "\x64\x48\x8b\x04\x25"); /* mov rax, fs:[top] */
    emit_fs(e, &exact_state.top);
    if (s->slot_base == SLOT_RSP) { /* lea rcx, [rsp + …]: its function's slot */
        EMIT(e, "\x48\x8d\x8c\x24");
        emit_u32(e, (uint32_t)(above + s->slot_bytes));
    } else { /* lea rcx, [rbp + …] */
        EMIT(e, "\x48\x8d\x8d");
        emit_u32(e, (uint32_t)s->slot_bytes);
    }
    EMIT(e, "\x48\x39\x08"                      /* 1: cmp [rax], rcx */
            "\x73\x06"                          /*    jae 2f */
            "\x48\x83\xe8\x10"                  /*    sub rax, 16: gone */
            "\xeb\xf5");                        /*    jmp 1b; 2: */
    slow[(*slow_count)++] = emit_near(e, 0x85); /* jne slow */
    EMIT(e, "\x64\x48\x3b\x04\x25");            /* cmp rax, fs:[limit] */
    emit_fs(e, &exact_state.limit);
    slow[(*slow_count)++] = emit_near(e, 0x83); /* jae slow */
}

/* rcx: the table's entry of this call. The target of an indirect one is at [rsp + 24]. */
static void emit_find_child(struct emitter *e, uint32_t site, bool is_indirect, uint8_t **slow,
                            unsigned *slow_count)
{
    EMIT(e, "\x8b\x50\x08" /* mov edx, [rax + 8]: parent */
            "\xb9");       /* mov ecx, site */
    emit_u32(e, site);
    EMIT(e, "\xf2\x0f\x38\xf1\xca"); /* crc32 ecx, edx */
    if (is_indirect)
        EMIT(e, "\xf2\x48\x0f\x38\xf1\x4c\x24\x18"); /* crc32 rcx, [rsp + 24] */
    EMIT(e, "\x48\xc1\xe1\x05"                       /* shl rcx, 5 */
            "\x64\x48\x23\x0c\x25");                 /* and rcx, fs:[mask] */
    emit_fs(e, &exact_state.mask_bytes);
    EMIT(e, "\x64\x48\x03\x0c\x25"); /* add rcx, fs:[table] */
    emit_fs(e, &exact_state.table);
    uint8_t *again = e->at;
    EMIT(e, "\x39\x11"); /* cmp [rcx], edx */
    uint8_t *next1 = emit_short(e, 0x75);
    EMIT(e, "\x81\x79\x04"); /* cmp dword [rcx + 4], site */
    emit_u32(e, site);
    uint8_t *next2 = NULL, *found;
    if (is_indirect) {
        next2 = emit_short(e, 0x75);
        EMIT(e, "\x48\x8b\x54\x24\x18" /* mov rdx, [rsp + 24] */
                "\x48\x39\x51\x10");   /* cmp [rcx + 16], rdx */
        found = emit_short(e, 0x74);
        EMIT(e, "\x8b\x50\x08"); /* mov edx, [rax + 8] */
        land(e, next2);
    } else {
        found = emit_short(e, 0x74);
    }
    land(e, next1);
    EMIT(e, "\x83\x39\x00"); /* cmp dword [rcx], 0: free, so there is none */
    slow[(*slow_count)++] = emit_near(e, 0x84);
    EMIT(e, "\x48\x83\xc1\x20"); /* add rcx, 32 */
    *e->at++ = 0xeb;
    *e->at = (uint8_t)(again - (e->at + 1));
    e->at++;
    land(e, found);
}

static void emit_call_slow(struct emitter *e, uint32_t site)
{
    e->layout->slow = (uint16_t)(e->at - e->stub);
    EMIT(e, "\x68"); /* push site */
    emit_u32(e, site);
    EMIT(e, "\xff\x15"); /* call [slow_pointer] */
    emit_relative(e, e->slow_pointer);
    EMIT(e, "\x48\x8d\x64\x24\x08"); /* lea rsp, [rsp + 8] */
}

/* The counting part of a stub. A tail jump keeps the slot of its function. */
static void emit_counting(struct emitter *e, const struct plan_site *s, uint32_t site,
                          bool is_indirect, bool is_tail)
{
    const int32_t saved = 24, return_bytes = is_tail ? 0 : 8;
    const int32_t target_bytes = is_indirect ? 8 : 0;
    uint8_t *slow[4];
    unsigned slow_count = 0;
    e->layout->saving = (uint16_t)(e->at - e->stub);
    EMIT(e, "\x50\x51\x52"); /* push rax, rcx, rdx */
    if (s->slot_base != SLOT_UNKNOWN) {
        emit_find_own(e, s, saved + target_bytes + return_bytes, slow, &slow_count);
        emit_find_child(e, site, is_indirect, slow, &slow_count);
        EMIT(e, "\x48\x8b\x51\x08" /* mov rdx, [rcx + 8]: counter */
                "\x48\x8b\x49\x18" /* mov rcx, [rcx + 24]: record */
                "\x48\xff\x02");   /* inc qword [rdx] */
        if (!is_tail) {
            EMIT(e, "\x48\x83\xc0\x10"   /* add rax, 16 */
                    "\x48\x8d\x54\x24"); /* lea rdx, [rsp + …]: the new slot */
            *e->at++ = (uint8_t)(saved + target_bytes);
            EMIT(e, "\x48\x89\x10"); /* mov [rax], rdx */
        }
        EMIT(e, "\x48\x89\x48\x08"       /* mov [rax + 8], rcx */
                "\x64\x48\x89\x04\x25"); /* mov fs:[top], rax */
        emit_fs(e, &exact_state.top);
        uint8_t *done = emit_short(e, 0xeb);
        for (unsigned i = 0; i < slow_count; i++)
            land_near(e, slow[i]);
        emit_call_slow(e, site);
        land(e, done);
    } else {
        emit_call_slow(e, site);
    }
    e->layout->restoring = (uint16_t)(e->at - e->stub);
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

static void emit_stub(struct emitter *e, const struct edited_module *m, const struct plan_site *s,
                      uint32_t site, uint8_t opcode)
{
    bool is_indirect = s->kind == SITE_CALL_INDIRECT || s->kind == SITE_TAIL_INDIRECT;
    bool is_tail = s->kind >= SITE_TAIL;
    const uint8_t *target = (const uint8_t *)m->base + s->target;
    emit_moved(e, m, s);
    if (s->kind == SITE_TAIL_SHORT && s->tier == TIER_DISPLACE &&
        opcode != 0xeb) { /* jcc over a jump back behind the site */
        EMIT(e, "\x70\x05");
        e->at[-2] = opcode;
        emit_jump(e, (const uint8_t *)m->base + s->offset + s->length);
    }
    emit_counting(e, s, site, is_indirect, is_tail);
    if (is_indirect) {                 /* no signal writes to the 128 bytes below rsp */
        EMIT(e, "\x48\x8d\x64\x24\x08" /* lea rsp, [rsp + 8] */
                "\xff\x64\x24\xf8");   /* jmp [rsp - 8] */
    } else {
        emit_jump(e, target);
    }
}

/* Points the site at its stub. */
static void patch(const struct edited_module *m, const struct plan_site *s, const uint8_t *stub)
{
    uint8_t *text = (uint8_t *)m->base + s->offset;
    struct emitter at_site = {.at = text + s->length - 4};
    if (s->tier == TIER_RETARGET) {
        emit_relative(&at_site, stub);
        return;
    }
    if (s->tier == TIER_HOP) {
        struct emitter at_pad = {.at = text + s->hop};
        emit_jump(&at_pad, stub);
        if (s->kind != SITE_TAIL_SHORT) /* a conditional jump keeps its condition */
            text[0] = 0xeb;
        text[1] = (uint8_t)(s->hop - 2);
        return;
    }
    /* A call must end where it ended, or its return address would be another. */
    uint8_t *begin = text - s->moved_bytes, *jump = text + s->length - 5;
    bool jumps = s->kind >= SITE_TAIL || (s->flags & SITE_PUSHES_RETURN);
    if (jumps)
        jump = begin;
    for (uint8_t *b = begin; b < text + s->length; b++)
        if (b < jump || b >= jump + 5)
            *b = jumps ? 0xcc : 0x90;
    at_site.at = jump;
    *at_site.at++ = jumps ? 0xe9 : 0xe8;
    emit_relative(&at_site, stub);
}

uint8_t *stub_write(uint8_t *at, const struct edited_module *m, uint32_t index)
{
    const struct plan_site *s = &m->sites[index];
    struct emitter e = {
        .at = at, .slow_pointer = m->stubs, .layout = &m->layouts[index], .stub = at};
    uint8_t opcode = *((const uint8_t *)m->base + s->offset);
    emit_stub(&e, m, s, m->first_site + index, opcode);
    m->layouts[index].end = (uint16_t)(e.at - at);
    patch(m, s, at);
    return e.at;
}

/* How many bytes lie on the stack, at a place of the stub, that were not there at the site. */
static uint64_t bytes_pushed(const struct plan_site *s, const struct stub_layout *l, uint32_t at)
{
    const uint32_t PUSH = 5, CALL = 6, LEA = 5;
    bool is_call = s->kind <= SITE_CALL_INDIRECT;
    bool is_indirect = s->kind == SITE_CALL_INDIRECT || s->kind == SITE_TAIL_INDIRECT;
    uint64_t bytes = 0;
    if (is_call && (!(s->flags & SITE_PUSHES_RETURN) || at >= s->moved_bytes + PUSH))
        bytes += 8;
    uint32_t restored = l->restoring + 3u;
    if (is_indirect && at >= l->saving && at < restored + LEA)
        bytes += 8;
    if (at > l->saving && at < restored) { /* between the pushes and the pops, some of them */
        uint32_t pushes = at - l->saving < 3 ? at - l->saving : 3;
        uint32_t pops = at > l->restoring ? at - l->restoring : 0;
        bytes += 8ul * (pushes - pops);
    }
    if (at == l->slow + PUSH || at == l->slow + PUSH + CALL)
        bytes += 8;
    return bytes;
}

void stub_leave(const struct edited_module *m, uint32_t index, struct walk_registers *r)
{
    const struct plan_site *s = &m->sites[index];
    const struct stub_layout *l = &m->layouts[index];
    uint32_t at = (uint32_t)(r->value[X86_RIP] - (uint64_t)m->stubs) - l->start;
    r->value[X86_RSP] += bytes_pushed(s, l, at);
    /* Moved instructions are as long as they were. */
    uint32_t offset = at < s->moved_bytes ? s->offset - s->moved_bytes + at : s->offset;
    r->value[X86_RIP] = m->base + offset;
}
