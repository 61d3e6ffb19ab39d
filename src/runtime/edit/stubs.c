/*
 * The stub of a site, near its module: the instructions that moved with the site, if it was short;
 * then what the engine does there, which goes on to the callee.
 */
#include "runtime/edit/stubs.h"

#include "runtime/edit/emit.h"

enum { JUMP_BYTES = 5 };

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

/* Of the code that asks whether a jump stays: all that is always there, and for each part of its
 * function. */
enum { STAY_BYTES = 37, STAY_PART = 27, RED_ZONE_WORDS = 16 };

/*
 * A jump that may stay in its function. If it does, nothing may change: neither the flags nor what
 * lies below the stack pointer. The jump itself is then done as it was. If it does not, its target
 * is at the top of the stack in the end, as of every indirect site.
 */
static void emit_stay(struct emitter *e, const struct edited_module *m, const struct plan_site *s)
{
    const uint8_t *parts = m->code + s->code + s->code_bytes;
    const unsigned count = *parts++;
    const struct row_now at_site = e->now;
    EMIT(e, "\x48\x8d\x64\x24\x80"); /* lea rsp, [rsp - 128] */
    emit_words(e, RED_ZONE_WORDS);
    emit_code(e, m, s, s->moved_bytes, s->code_bytes); /* push of the target */
    emit_words(e, 1);
    EMIT(e, "\x9c"); /* pushfq */
    emit_words(e, 1);
    emit_push_rax(e);
    emit_push_rcx(e);
    const struct row_now asking = e->now;
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
    uint8_t *outside = emit_short(e, 0xeb);
    emit_pop_rcx(e); /* inside: */
    emit_pop_rax(e);
    EMIT(e, "\x9d"); /* popfq */
    emit_words(e, -1);
    EMIT(e, "\x48\x8d\xa4\x24\x88\x00\x00\x00"); /* lea rsp, [rsp + 136] */
    emit_row(e, at_site);
    uint8_t *jump = e->at;
    emit_code(e, m, s, s->moved_bytes, s->code_bytes);
    while (*jump != 0xff) /* the opcode of the push and of the jump */
        jump++;
    jump[1] = (uint8_t)((jump[1] & ~0x38) | 4 << 3);
    land(e, outside);
    emit_row(e, asking);
    emit_pop_rcx(e);
    emit_pop_rax(e);
    EMIT(e, "\x48\x8d\x64\x24\x08"); /* lea rsp, [rsp + 8]: the flags */
    emit_words(e, -1);
    EMIT(e, "\x8f\x44\x24\x78"); /* pop [rsp + 120]: to what was the top of the stack */
    emit_words(e, -1);
    EMIT(e, "\x48\x8d\x64\x24\x78"); /* lea rsp, [rsp + 120] */
    emit_words(e, 1 - RED_ZONE_WORDS);
}

/* A site that is a call in the program's code, too, has its return address on the stack. */
static unsigned words_at_start(const struct plan_site *s, bool comes_back)
{
    return s->kind <= SITE_CALL_INDIRECT && !(s->flags & SITE_PUSHES_RETURN) && !comes_back;
}

/* What moves with a call has been made for a stack with its return address: there is room for it.
 */
static unsigned make_room(struct emitter *e, const struct plan_site *s)
{
    emit_row(e, row_of(0, -s->moved_bytes, 0));
    EMIT(e, "\x48\x8d\x64\x24\xf8"); /* lea rsp, [rsp - 8] */
    return 1;
}

/*
 * The moved instructions, and the push of an indirect site's target. A call that became a jump puts
 * its return address where it belongs, above the target; no flags and no other register change.
 */
static void emit_moved(struct emitter *e, const struct edited_module *m, const struct plan_site *s,
                       bool comes_back)
{
    unsigned words = words_at_start(s, comes_back);
    if (comes_back && s->kind == SITE_CALL_INDIRECT && !(s->flags & SITE_PUSHES_RETURN))
        words = make_room(e, s);
    if (s->moved_bytes) {
        emit_row(e, row_of(words, -s->moved_bytes, ROW_MOVES));
        emit_code(e, m, s, 0, s->moved_bytes);
    }
    emit_row(e, row_of(words, 0, 0));
    if (s->flags & SITE_MAY_STAY) {
        emit_stay(e, m, s);
    } else if (s->code_bytes > s->moved_bytes) {
        emit_code(e, m, s, s->moved_bytes, s->code_bytes);
        emit_words(e, 1);
    }
    if (s->flags & SITE_PUSHES_RETURN) {
        uint64_t address = m->base + s->offset + s->length;
        EMIT(e, "\xff\x34\x24"); /* push [rsp] */
        emit_words(e, 1);
        if (comes_back)
            return;
        EMIT(e, "\xc7\x44\x24\x08"); /* mov dword [rsp + 8], … */
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
    const int pc = s->hop - JUMP_BYTES;
    emit_row(e, row_of(0, pc, ROW_MOVES));
    for (unsigned i = 0; i < room[0]; i++)
        *e->at++ = bytes[i];
    if (room[1]) {
        struct emitter at_field = {.at = begin + room[1] - 1};
        emit_relative(&at_field, (const uint8_t *)m->base + read_u32(room + 2));
    }
    emit_row(e, row_of(0, pc + room[0], 0));
    emit_jump(e, (const uint8_t *)m->base + s->offset + pc + room[0]);
}

static void emit_stub(struct emitter *e, const struct edited_module *m, const struct plan_site *s,
                      const struct stub_writer *writer, bool comes_back)
{
    const uint8_t opcode = *((const uint8_t *)m->base + s->offset);
    if (s->flags & SITE_MAKES_ROOM)
        emit_room(e, m, s);
    emit_moved(e, m, s, comes_back);
    if (s->kind == SITE_TAIL_SHORT && s->tier != TIER_HOP && opcode != 0xeb) {
        EMIT(e, "\x70\x05"); /* jcc over a jump back behind the site */
        e->at[-2] = opcode;
        emit_jump(e, (const uint8_t *)m->base + s->offset + s->length);
    }
    writer->site(e, m, s);
}

uint32_t stub_most_bytes(const struct plan_site *s)
{
    enum {
        RETURN = 5 + 3 + 2 * 8,
        SHORT = 2 + JUMP_BYTES,
        ROOM = PLAN_MOST_ROOM_BYTES + JUMP_BYTES
    };
    const unsigned stay = STAY_BYTES + s->code_bytes + PLAN_MOST_PARTS * STAY_PART;
    return s->code_bytes + (unsigned)RETURN + (unsigned)SHORT +
           (s->flags & SITE_MAY_STAY ? stay : 0u) + (s->flags & SITE_MAKES_ROOM ? ROOM : 0u);
}

/* Points the site at its stub; for a pun, pun.c does that when all others are done. */
static void patch(const struct edited_module *m, const struct plan_site *s, const uint8_t *stub,
                  bool comes_back)
{
    uint8_t *text = (uint8_t *)m->base + s->offset;
    struct emitter at_site = {.at = text + s->length - 4};
    if (s->tier == TIER_PUN)
        return;
    if (s->tier == TIER_RETARGET) {
        if (comes_back)
            at_site.at[-1] = 0xe9;
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
    bool jumps = s->kind >= SITE_TAIL || (s->flags & SITE_PUSHES_RETURN) || comes_back;
    if (jumps)
        jump = begin;
    for (uint8_t *b = begin; b < text + s->length; b++)
        if (b < jump || b >= jump + 5)
            *b = jumps ? 0xcc : 0x2e; /* a prefix that means nothing: one instruction, not many */
    at_site.at = jump;
    *at_site.at++ = jumps ? 0xe9 : 0xe8;
    emit_relative(&at_site, stub);
}

/* Rows of one stub after the other: modules are edited by one thread at a time. */
static struct stub_row rows[EMIT_MOST_ROWS];

static struct emitter begin_at(uint8_t *at)
{
    return (struct emitter){.at = at, .start = at, .last_at = ROW_LAST, .next = rows};
}

static bool describe(const struct emitter *e, uint8_t *at, struct stub_layout *layout)
{
    const uint32_t bytes = (uint32_t)(e->at - at);
    uint32_t shape = rows_shape(rows, (uint32_t)(e->next - rows), bytes);
    if (shape == ROWS_NO_SHAPE)
        return false;
    layout->shape = (uint16_t)shape;
    layout->bytes = (uint16_t)bytes;
    return true;
}

uint8_t *stub_write(uint8_t *at, const struct edited_module *m, uint32_t index,
                    const struct stub_writer *writer)
{
    const struct plan_site *s = &m->sites[index];
    const bool comes_back =
        s->kind <= SITE_CALL_INDIRECT && writer->comes_back && writer->comes_back(m, s);
    struct emitter e = begin_at(at);
    emit_stub(&e, m, s, writer, comes_back);
    if (!describe(&e, at, &m->layouts[index]))
        return NULL;
    patch(m, s, at, comes_back);
    return e.at;
}

uint8_t *stub_write_common(uint8_t *at, struct edited_module *m, const struct stub_writer *writer)
{
    struct emitter e = begin_at(at);
    emit_row(&e, row_of(0, 0, ROW_CALLED));
    writer->common(&e);
    return describe(&e, at, &m->common) ? e.at : NULL;
}
