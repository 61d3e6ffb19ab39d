/*
 * The stub of a site, near its module, and the counting that the stubs of a module share:
 *
 *     the instructions that moved with the site, if it was short
 *     push rax, rcx, rdx                                              saving:
 *     rcx = the site's number, rax = where its function's return address lies
 *     call the module's common code for sites of this kind
 *     pop rdx, rcx, rax                                               restoring:
 *     jump to the callee                                              end:
 *
 * Stubs are short, since a program has a hundred thousand of them; the common code stays in the
 * cache. They change no register but the flags, which are dead at a call: compilers never keep them
 * across one, whatever the callee is. Nor is anything kept below the stack pointer then.
 *
 * No function of libc is called while text is written: it may be libc's own.
 */
#include "runtime/exact.h"

#include "runtime/channel_format.h"

enum { JUMP_BYTES = 5 };

struct emitter {
    uint8_t *at;
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

/* --- the common code -------------------------------------------------------------------------- */

/* From where the common code returns to, back to the site's number in `mov ecx, …; call …`. */
enum { STUB_SITE_BEFORE_RETURN = 5 + 4 };

/* What the common code does, by the kind of site. */
struct variant {
    bool is_indirect, is_tail;
};

static struct variant variant_of(const struct plan_site *s)
{
    return (struct variant){s->kind == SITE_CALL_INDIRECT || s->kind == SITE_TAIL_INDIRECT,
                            s->kind >= SITE_TAIL};
}

static unsigned variant_index(const struct plan_site *s)
{
    struct variant v = variant_of(s);
    return s->slot_base == SLOT_UNKNOWN ? COMMON_SLOW : 2u * v.is_indirect + v.is_tail;
}

/* Leads to the slow path and back; returns where it begins. */
static uint8_t *emit_slow(struct emitter *e, const uint8_t *slow_pointer)
{
    uint8_t *begin = e->at;
    EMIT(e, "\x51"       /* push rcx: the site */
            "\xff\x15"); /* call [slow_pointer] */
    emit_relative(e, slow_pointer);
    EMIT(e, "\x48\x8d\x64\x24\x08" /* lea rsp, [rsp + 8] */
            "\xc3");               /* ret */
    return begin;
}

/* A slot's entry of the mirror: its address in rdx, from the slot's in rax or rcx. */
static void emit_entry(struct emitter *e, const char *move)
{
    emit(e, move, 3);                /* mov rdx, slot */
    EMIT(e, "\x64\x48\x23\x14\x25"); /* and rdx, fs:[mask] */
    emit_fs(e, &exact_state.mask);
    EMIT(e, "\x64\x48\x03\x14\x25"); /* add rdx, fs:[mirror] */
    emit_fs(e, &exact_state.mirror);
}

/* rax: from a place to an address. */
static void emit_address(struct emitter *e)
{
    EMIT(e, "\x48\xc1\xe0\x03"     /* shl rax, 3 */
            "\x64\x48\x03\x04\x25"); /* add rax, fs:[arena] */
    emit_fs(e, &exact_state.arena);
}

enum { TARGET_AT = 32 }; /* from rsp in the common code of an indirect site */

enum {
    RECORD_ENTER = offsetof(struct arena_record, enter),
    RECORD_COUNT = offsetof(struct arena_record, count),
    RECORD_RET = offsetof(struct arena_record, ret),
    RECORD_FIRST = offsetof(struct arena_record, first_site),
    RECORD_SITES = offsetof(struct arena_record, site_count),
    RECORD_TARGET = offsetof(struct arena_record, target),
    RECORD_CHILD = offsetof(struct arena_record, child_by_site)
};

static void emit_u8(struct emitter *e, unsigned byte)
{
    *e->at++ = (uint8_t)byte;
}

/* rax: the callee's record, from the caller's in rdx and the number of the site there in ecx. */
static void emit_child(struct emitter *e, uint8_t **none)
{
    EMIT(e, "\x8b\x44\x8a"); /* mov eax, [rdx + rcx * 4 + child_by_site] */
    emit_u8(e, RECORD_CHILD);
    EMIT(e, "\x85\xc0");        /* test eax, eax */
    *none = emit_near(e, 0x84); /* jz slow */
    emit_address(e);
}

/* The same at an indirect site: the first callee is in the place, others in the table. */
static void emit_find_callee(struct emitter *e, uint8_t **none, uint8_t **not_there)
{
    EMIT(e, "\x48\x8d\x54\x8a"); /* lea rdx, [rdx + rcx * 4 + child_by_site]: the place */
    emit_u8(e, RECORD_CHILD);
    EMIT(e, "\x8b\x02"             /* mov eax, [rdx] */
            "\x85\xc0");           /* test eax, eax */
    *none = emit_near(e, 0x84);    /* jz slow */
    EMIT(e, "\x48\x8b\x4c\x24"); /* mov rcx, [rsp + …]: target */
    emit_u8(e, TARGET_AT);
    emit_address(e);
    EMIT(e, "\x48\x39\x48"); /* cmp [rax + target], rcx */
    emit_u8(e, RECORD_TARGET);
    uint8_t *is_first = emit_short(e, 0x74);
    EMIT(e, "\x31\xc0"                 /* xor eax, eax */
            "\xf2\x48\x0f\x38\xf1\xc2" /* crc32 rax, rdx */
            "\xf2\x48\x0f\x38\xf1\xc1" /* crc32 rax, rcx */
            "\x48\xc1\xe0\x05"         /* shl rax, 5 */
            "\x64\x48\x23\x04\x25");   /* and rax, fs:[others_mask] */
    emit_fs(e, &exact_state.others_mask);
    EMIT(e, "\x64\x48\x03\x04\x25"); /* add rax, fs:[others] */
    emit_fs(e, &exact_state.others);
    uint8_t *again = e->at;
    EMIT(e, "\x48\x39\x10"); /* cmp [rax], rdx */
    uint8_t *next = emit_short(e, 0x75);
    EMIT(e, "\x48\x39\x48\x08"); /* cmp [rax + 8], rcx */
    uint8_t *found = emit_short(e, 0x74);
    land(e, next);
    EMIT(e, "\x48\x83\x38\x00");   /* cmp qword [rax], 0: free, so there is none */
    *not_there = emit_near(e, 0x84); /* je slow */
    EMIT(e, "\x48\x83\xc0\x20");   /* add rax, 32 */
    emit_jump(e, again);
    land(e, found);
    EMIT(e, "\x48\x8b\x40\x18"); /* mov rax, [rax + 24]: record */
    land(e, is_first);
}

/*
 * On entry: rax is the slot, rcx the site. The stack has the way back to the stub, its rdx, rcx and
 * rax, the target of an indirect site, and the return address of a call.
 */
static uint8_t *emit_common(struct emitter *e, struct variant v, const uint8_t *slow_pointer)
{
    const unsigned new_slot_at = v.is_indirect ? TARGET_AT + 8 : TARGET_AT;
    bool folds = guest->flags & CHANNEL_FOLD;
    emit_entry(e, "\x48\x89\xc2");
    EMIT(e, "\x48\x39\x02");              /* cmp [rdx], rax: is it for this slot? */
    uint8_t *early1 = emit_near(e, 0x85);  /* jne slow */
    EMIT(e, "\x48\x8b\x00");              /* mov rax, [rax]: the return address there */
    if (folds) {
        EMIT(e, "\x48\x39\x82"); /* cmp [rdx + twin], rax */
        emit_u32(e, MIRROR_TWIN);
        EMIT(e, "\x48\x8b\x52\x08"); /* mov rdx, [rdx + 8]: record */
    } else {
        EMIT(e, "\x48\x8b\x52\x08"  /* mov rdx, [rdx + 8]: record */
                "\x48\x39\x42");    /* cmp [rdx + ret], rax */
        emit_u8(e, RECORD_RET);
    }
    uint8_t *early2 = emit_near(e, 0x85); /* jne slow */
    EMIT(e, "\x2b\x4a");                  /* sub ecx, [rdx + first_site] */
    emit_u8(e, RECORD_FIRST);
    EMIT(e, "\x3b\x4a"); /* cmp ecx, [rdx + site_count] */
    emit_u8(e, RECORD_SITES);
    uint8_t *late1 = emit_near(e, 0x83), *late2, *late3 = NULL; /* jae slow */
    if (v.is_indirect)
        emit_find_callee(e, &late2, &late3);
    else
        emit_child(e, &late2);
    EMIT(e, "\x48\xff\x40"); /* inc qword [rax + count] */
    emit_u8(e, RECORD_COUNT);
    if (v.is_tail || folds) {
        EMIT(e, "\x8b\x40"); /* mov eax, [rax + enter] */
        emit_u8(e, RECORD_ENTER);
        emit_address(e);
    }
    EMIT(e, "\x48\x8d\x4c\x24"); /* lea rcx, [rsp + …]: the new slot */
    emit_u8(e, new_slot_at);
    emit_entry(e, "\x48\x89\xca");
    EMIT(e, "\x48\x89\x0a"          /* mov [rdx], rcx */
            "\x48\x89\x42\x08");    /* mov [rdx + 8], rax */
    if (folds) {
        EMIT(e, "\x48\x8b\x09"  /* mov rcx, [rcx]: its return address */
                "\x48\x89\x8a"); /* mov [rdx + twin], rcx */
        emit_u32(e, MIRROR_TWIN);
    }
    EMIT(e, "\xc3"); /* ret */
    land_near(e, late1);
    land_near(e, late2);
    if (v.is_indirect)
        land_near(e, late3);
    /* The slow path wants the site's number; from the stub's copy: mov ecx, … is before the call. */
    EMIT(e, "\x48\x8b\x0c\x24"     /* mov rcx, [rsp]: where the stub goes on */
            "\x8b\x49");           /* mov ecx, [rcx - …] */
    emit_u8(e, (unsigned)-STUB_SITE_BEFORE_RETURN);
    land_near(e, early1);
    land_near(e, early2);
    return emit_slow(e, slow_pointer);
}

uint8_t *stub_write_common(uint8_t *at, const uint8_t *slow_pointer, struct common_code *out)
{
    struct emitter e = {.at = at};
    for (unsigned i = 0; i < COMMON_KINDS; i++) {
        out->start[i] = e.at;
        if (i == COMMON_SLOW)
            out->slow[i] = emit_slow(&e, slow_pointer);
        else
            out->slow[i] = emit_common(&e, (struct variant){i & 2, i & 1}, slow_pointer);
    }
    out->end = e.at;
    return e.at;
}

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
                "\x48\x8d\x0d");         /* lea rcx, [the part's start] */
        emit_relative(e, (const uint8_t *)m->base + start);
        EMIT(e, "\x48\x29\xc8" /* sub rax, rcx */
                "\x48\x3d");    /* cmp rax, the part's size */
        emit_u32(e, end - start);
        EMIT(e, "\x0f\x82"); /* jb inside */
        emit_relative(e, inside);
    }
    *e->at++ = 0xeb; /* jmp outside */
    *e->at++ = (uint8_t)(STAY_INSIDE + push);
    EMIT(e, "\x59\x58\x9d"                        /* inside: pop rcx, rax, popfq */
            "\x48\x8d\xa4\x24\x88\x00\x00\x00"); /* lea rsp, [rsp + 136] */
    uint8_t *jump = e->at;
    emit_code(e, m, s, s->moved_bytes, s->code_bytes);
    while (*jump != 0xff) /* the opcode of the push and of the jump */
        jump++;
    jump[1] = (uint8_t)((jump[1] & ~0x38) | 4 << 3);
    EMIT(e, "\x59\x58"              /* outside: pop rcx, rax */
            "\x48\x8d\x64\x24\x08"  /* lea rsp, [rsp + 8] */
            "\x8f\x44\x24\x78"      /* pop [rsp + 120]: to what was the top of the stack */
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
        EMIT(e, "\xff\x34\x24"      /* push [rsp] */
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

static void emit_counting(struct emitter *e, const struct edited_module *m,
                          const struct plan_site *s, uint32_t site, struct stub_layout *layout,
                          const uint8_t *stub)
{
    struct variant v = variant_of(s);
    const int32_t above = 24 + (v.is_indirect ? 8 : 0) + (v.is_tail ? 0 : 8);
    layout->saving = (uint16_t)(e->at - stub);
    EMIT(e, "\x50\x51\x52"); /* push rax, rcx, rdx */
    if (s->slot_base == SLOT_RSP) { /* lea rax, [rsp + …]: its function's slot */
        EMIT(e, "\x48\x8d\x84\x24");
        emit_u32(e, (uint32_t)(above + s->slot_bytes));
    } else if (s->slot_base == SLOT_RBP) { /* lea rax, [rbp + …] */
        EMIT(e, "\x48\x8d\x85");
        emit_u32(e, (uint32_t)s->slot_bytes);
    }
    EMIT(e, "\xb9"); /* mov ecx, site */
    emit_u32(e, site);
    EMIT(e, "\xe8"); /* call the common code */
    emit_relative(e, m->common.start[variant_index(s)]);
    layout->restoring = (uint16_t)(e->at - stub);
    EMIT(e, "\x5a\x59\x58"); /* pop rdx, rcx, rax */
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
    emit_counting(e, m, s, m->first_site + s->rank, &m->layouts[index], stub);
    if (variant_of(s).is_indirect)     /* no signal writes to the 128 bytes below rsp */
        EMIT(e, "\x48\x8d\x64\x24\x08" /* lea rsp, [rsp + 8] */
                "\xff\x64\x24\xf8");   /* jmp [rsp - 8] */
    else
        emit_jump(e, (const uint8_t *)m->base + s->target);
}

uint32_t stub_most_bytes(const struct plan_site *s)
{
    enum { ALL = 72, STAY = STAY_BEGIN + 5 + STAY_INSIDE + STAY_OUTSIDE }; /* but for what moved */
    const uint32_t stay = STAY + s->code_bytes + PLAN_MOST_PARTS * STAY_PART;
    return ALL + s->code_bytes + (s->flags & SITE_MAY_STAY ? stay : 0) +
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
            *b = jumps ? 0xcc : 0x90;
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
    const uint32_t push = 3, lea = 5, restored = l->restoring + 3u;
    bool is_call = s->kind <= SITE_CALL_INDIRECT, is_late = s->flags & SITE_PUSHES_RETURN;
    uint64_t bytes = 0;
    if ((s->flags & SITE_MAY_STAY) && at >= s->moved_bytes && at < l->saving)
        return bytes_pushed_to_ask(s, l, at);
    if (is_call && (!is_late || at >= s->code_bytes))
        bytes += 8;
    if (variant_of(s).is_indirect && at >= (is_late ? s->code_bytes + push : l->saving) &&
        at < restored + lea)
        bytes += 8;
    if (at > l->saving && at < restored) { /* between the pushes and the pops, some of them */
        uint32_t pushes = at - l->saving < 3 ? at - l->saving : 3;
        uint32_t pops = at > l->restoring ? at - l->restoring : 0;
        bytes += 8ul * (pushes - pops);
    }
    return bytes;
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
    r->value[X86_RSP] += bytes_pushed(s, l, at);
    /* Moved instructions are as long as they were. */
    uint32_t offset = at < s->moved_bytes ? s->offset - s->moved_bytes + at : s->offset;
    r->value[X86_RIP] = m->base + offset;
}

bool stub_leave_common(const struct edited_module *m, struct walk_registers *r)
{
    const uint32_t push = 1, call = 6;
    const uint8_t *pc = (const uint8_t *)r->value[X86_RIP];
    if (pc < m->common.start[0] || pc >= m->common.end)
        return false;
    uint64_t pushed = 0;
    for (unsigned i = 0; i < COMMON_KINDS; i++)
        if (pc == m->common.slow[i] + push || pc == m->common.slow[i] + push + call)
            pushed = 8;
    r->value[X86_RSP] += pushed;
    r->value[X86_RIP] = *(const uint64_t *)r->value[X86_RSP];
    r->value[X86_RSP] += 8;
    return true;
}
