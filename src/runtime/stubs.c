/*
 * The stub of a site, near its module: the instructions that moved with the site, if it was short;
 * then the code that counts, and goes on to the callee (counting.c).
 */
#include "runtime/counting.h"

enum { JUMP_BYTES = 5 };

/* --- stubs ------------------------------------------------------------------------------------ */

/* Some of the site's code bytes. */
static void emit_code(struct emitter *e, const struct edited_module *m, const struct plan_site *s,
                      unsigned from, unsigned to)
{
    uint8_t *field = NULL;
    for (unsigned i = from; i < to; i++) {
        if (s->fixup && i == s->fixup - 1u)
            field = e->at;
        *e->at++ = m->code[s->code + i];
    }
    if (field) {
        struct emitter at_field = {.at = field};
        emit_relative(&at_field, (const uint8_t *)m->base + s->fixup_target);
    }
}

static uint32_t read_u32(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* The parts of the code that asks whether a jump stays, in bytes; bytes_pushed knows them, too. */
enum { STAY_BEGIN = 5, STAY_PART = 27, STAY_INSIDE = 11, STAY_OUTSIDE = 16, RED_ZONE = 128 };

/*
 * A jump that may stay in its function. If it does, nothing may change: neither the flags nor what
 * lies below the stack pointer. The jump itself is then done as it was. If it does not, its target
 * is at the top of the stack in the end, as of every indirect site.
 */
static void emit_stay(struct emitter *e, const struct edited_module *m, const struct plan_site *s)
{
    const uint8_t *parts = m->code + s->code + s->code_bytes;
    const unsigned count = *parts++, push = s->code_bytes - s->moved_bytes;
    EMIT(e, "\x48\x8d\x64\x24\x80"); /* lea rsp, [rsp - 128] */
    emit_code(e, m, s, s->moved_bytes, s->code_bytes);
    EMIT(e, "\x9c\x50\x51"); /* pushfq, push rax, rcx */
    const uint8_t *inside = e->at + count * STAY_PART + 2;
    for (unsigned i = 0; i < count; i++, parts += 8) {
        uint32_t start = read_u32(parts), end = read_u32(parts + 4);
        EMIT(e, "\x48\x8b\x44\x24\x18" /* mov rax, [rsp + 24]: the target */
                "\x48\x8d\x0d");       /* lea rcx, [the part's start] */
        emit_relative(e, (const uint8_t *)m->base + start);
        EMIT(e, "\x48\x29\xc8" /* sub rax, rcx */
                "\x48\x3d");   /* cmp rax, the part's size */
        emit_u32(e, end - start);
        EMIT(e, "\x0f\x82"); /* jb inside */
        emit_relative(e, inside);
    }
    *e->at++ = 0xeb; /* jmp outside */
    *e->at++ = (uint8_t)(STAY_INSIDE + push);
    EMIT(e, "\x59\x58\x9d"                       /* inside: pop rcx, rax, popfq */
            "\x48\x8d\xa4\x24\x88\x00\x00\x00"); /* lea rsp, [rsp + 136] */
    uint8_t *jump = e->at;
    emit_code(e, m, s, s->moved_bytes, s->code_bytes);
    while (*jump != 0xff) /* the opcode of the push and of the jump */
        jump++;
    jump[1] = (uint8_t)((jump[1] & ~0x38) | 4 << 3);
    EMIT(e, "\x59\x58"               /* outside: pop rcx, rax */
            "\x48\x8d\x64\x24\x08"   /* lea rsp, [rsp + 8] */
            "\x8f\x44\x24\x78"       /* pop [rsp + 120]: to what was the top of the stack */
            "\x48\x8d\x64\x24\x78"); /* lea rsp, [rsp + 120] */
}

/*
 * The moved instructions, and the push of an indirect site's target. A call that became a jump puts
 * its return address where it belongs, above the target; no flags and no other register change.
 */
static void emit_moved(struct emitter *e, const struct edited_module *m, const struct plan_site *s)
{
    emit_code(e, m, s, 0, s->moved_bytes);
    if (s->flags & SITE_MAY_STAY)
        emit_stay(e, m, s);
    else
        emit_code(e, m, s, s->moved_bytes, s->code_bytes);
    if (s->flags & SITE_PUSHES_RETURN) {
        uint64_t address = m->base + s->offset + s->length;
        EMIT(e, "\xff\x34\x24"       /* push [rsp] */
                "\xc7\x44\x24\x08"); /* mov dword [rsp + 8], … */
        emit_u32(e, (uint32_t)address);
        EMIT(e, "\xc7\x44\x24\x0c"); /* mov dword [rsp + 12], … */
        emit_u32(e, (uint32_t)(address >> 32));
    }
}

/* What moved out of the way of a hop, in the plan. */
static const uint8_t *room_of(const struct edited_module *m, const struct plan_site *s)
{
    const uint8_t *at = m->code + s->code + s->code_bytes;
    return s->flags & SITE_MAY_STAY ? at + 1 + 8ul * at[0] : at;
}

static uint32_t room_bytes(const struct edited_module *m, const struct plan_site *s)
{
    return s->flags & SITE_MAKES_ROOM ? *room_of(m, s) : 0;
}

/* It runs here, and goes back behind the place where it was. */
static void emit_room(struct emitter *e, const struct edited_module *m, const struct plan_site *s)
{
    const uint8_t *room = room_of(m, s), *bytes = room + PLAN_ROOM_HEADER_BYTES;
    uint8_t *begin = e->at;
    for (unsigned i = 0; i < room[0]; i++)
        *e->at++ = bytes[i];
    if (room[1]) {
        struct emitter at_field = {.at = begin + room[1] - 1};
        emit_relative(&at_field, (const uint8_t *)m->base + read_u32(room + 2));
    }
    emit_jump(e, (const uint8_t *)m->base + s->offset + s->hop - JUMP_BYTES + room[0]);
}

static void emit_stub(struct emitter *e, const struct edited_module *m, uint32_t index,
                      uint8_t opcode)
{
    const struct plan_site *s = &m->sites[index];
    if (s->flags & SITE_MAKES_ROOM)
        emit_room(e, m, s);
    const uint8_t *stub = e->at;
    emit_moved(e, m, s);
    if (s->kind == SITE_TAIL_SHORT && s->tier != TIER_HOP && opcode != 0xeb) {
        EMIT(e, "\x70\x05"); /* jcc over a jump back behind the site */
        e->at[-2] = opcode;
        emit_jump(e, (const uint8_t *)m->base + s->offset + s->length);
    }
    counting_write(e, m, s, &m->layouts[index], stub);
}

uint32_t stub_most_bytes(const struct plan_site *s)
{
    /* But for what moved; all of them when every option is on, and some more. */
    enum { ALL = 256, TABLE = 192, STAY = STAY_BEGIN + 5 + STAY_INSIDE + STAY_OUTSIDE };
    const uint32_t stay = STAY + s->code_bytes + PLAN_MOST_PARTS * STAY_PART;
    return ALL + s->code_bytes + (site_is_indirect(s) ? (uint32_t)TABLE : 0) +
           (s->flags & SITE_MAY_STAY ? stay : 0) +
           (s->flags & SITE_MAKES_ROOM ? PLAN_MOST_ROOM_BYTES + JUMP_BYTES : 0);
}

/* Points the site at its stub; for a pun, pun.c does that when all others are done. */
static void patch(const struct edited_module *m, const struct plan_site *s, const uint8_t *stub)
{
    uint8_t *text = (uint8_t *)m->base + s->offset;
    struct emitter at_site = {.at = text + s->length - 4};
    if (s->tier == TIER_PUN)
        return;
    if (s->tier == TIER_RETARGET) {
        emit_relative(&at_site, stub);
        return;
    }
    if (s->tier == TIER_HOP) {
        struct emitter at_pad = {.at = text + s->hop};
        if (s->flags & SITE_MAKES_ROOM) {
            uint32_t moved = room_bytes(m, s);
            at_pad.at -= JUMP_BYTES;
            emit_jump(&at_pad, stub);
            for (uint8_t *b = at_pad.at + JUMP_BYTES; b < at_pad.at - JUMP_BYTES + moved; b++)
                *b = 0xcc;
            stub += moved + JUMP_BYTES;
        }
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
            *b = jumps ? 0xcc : 0x2e; /* a prefix that means nothing: one instruction, not many */
    at_site.at = jump;
    *at_site.at++ = jumps ? 0xe9 : 0xe8;
    emit_relative(&at_site, stub);
}

uint8_t *stub_write(uint8_t *at, const struct edited_module *m, uint32_t index)
{
    const struct plan_site *s = &m->sites[index];
    struct emitter e = {.at = at};
    emit_stub(&e, m, index, *((const uint8_t *)m->base + s->offset));
    m->layouts[index].end = (uint16_t)(e.at - at);
    patch(m, s, at);
    return e.at;
}

/* --- leaving a stub --------------------------------------------------------------------------- */

/* The same for the code that asks whether a jump stays: from moved_bytes on, and before saving. */
static uint64_t bytes_pushed_to_ask(const struct plan_site *s, const struct stub_layout *l,
                                    uint32_t at)
{
    const uint32_t push = s->code_bytes - s->moved_bytes, begin = s->moved_bytes;
    const uint32_t outside = l->saving - STAY_OUTSIDE, inside = outside - STAY_INSIDE - push;
    const uint32_t pushed = begin + STAY_BEGIN + push; /* what is jumped to is on the stack */
    if (at < begin + STAY_BEGIN || (at >= inside + STAY_INSIDE && at < outside))
        return 0; /* before all, or the jump itself */
    if (at < pushed)
        return RED_ZONE;
    if (at < inside) /* then the flags, rax and rcx */
        return RED_ZONE + 8ul + 8ul * (at - pushed < 3 ? at - pushed : 3);
    if (at < outside)
        return RED_ZONE + 8ul + 8ul * (3 - (at - inside < 3 ? at - inside : 3));
    at -= outside;
    if (at < 7) /* pop, pop, lea */
        return RED_ZONE + 8ul + 8ul * (3 - (at < 2 ? at : 2));
    return at < 11 ? RED_ZONE + 8 : RED_ZONE;
}

/* How many bytes lie on the stack, at a place of the stub, that were not there at the site. */
static uint64_t bytes_pushed(const struct plan_site *s, const struct stub_layout *l, uint32_t at)
{
    const uint32_t push = 3;
    bool is_call = s->kind <= SITE_CALL_INDIRECT, is_late = s->flags & SITE_PUSHES_RETURN;
    uint64_t bytes = 8ul * counting_saved(s, l, at) + (counting_has_target(s, l, at) ? 8 : 0);
    if ((s->flags & SITE_MAY_STAY) && at >= s->moved_bytes && at < l->saving)
        return bytes_pushed_to_ask(s, l, at);
    if (is_call && (!is_late || at >= s->code_bytes))
        bytes += 8;
    if (is_late && at >= s->code_bytes + push && at < l->saving)
        bytes += 8; /* the target is there, and the return address is being written */
    return bytes;
}

/*
 * Takes back the registers that are on the stack: some code knows its frame by one of them. Where
 * the stub asks whether a jump stays, it has saved the flags, rax and rcx, below the target.
 */
static void restore_registers(const struct plan_site *s, const struct stub_layout *l, uint32_t at,
                              struct walk_registers *r)
{
    static const unsigned counting[] = {X86_RAX, X86_RCX, X86_RDX};
    static const unsigned asking[] = {X86_RIP, X86_RAX, X86_RCX}; /* the first: the flags */
    const uint64_t *top = (const uint64_t *)r->value[X86_RSP];
    const bool asks = (s->flags & SITE_MAY_STAY) && at >= s->moved_bytes && at < l->saving;
    const uint64_t asked = asks ? bytes_pushed_to_ask(s, l, at) : 0;
    const uint64_t count = !asks                  ? counting_saved(s, l, at)
                           : asked > RED_ZONE + 8 ? (asked - RED_ZONE - 8) / 8
                                                  : 0;
    for (uint64_t i = 0; i < count; i++)
        r->value[asks ? asking[i] : counting[i]] = top[count - 1 - i];
}

void stub_leave(const struct edited_module *m, uint32_t index, struct walk_registers *r)
{
    const struct plan_site *s = &m->sites[index];
    const struct stub_layout *l = &m->layouts[index];
    uint32_t at = (uint32_t)(r->value[X86_RIP] - (uint64_t)m->stubs) - l->start;
    if (s->flags & SITE_MAKES_ROOM) {
        uint32_t moved = room_bytes(m, s);
        if (at < moved + JUMP_BYTES) { /* nothing of the site, only what had to move for it */
            uint64_t room = m->base + s->offset + (uint64_t)s->hop - JUMP_BYTES;
            r->value[X86_RIP] = room + (at < moved ? at : moved);
            return;
        }
        at -= moved + JUMP_BYTES;
    }
    restore_registers(s, l, at, r);
    r->value[X86_RSP] += bytes_pushed(s, l, at);
    /* Moved instructions are as long as they were. */
    uint32_t offset = at < s->moved_bytes ? s->offset - s->moved_bytes + at : s->offset;
    r->value[X86_RIP] = m->base + offset;
}
