/* What the search for sites (sites.c) and the moving of instructions (displace.c) share. */
#ifndef EDIT_FINDER_H
#define EDIT_FINDER_H

#include "edit/reach.h"
#include "edit/sites.h"
#include "edit/targets.h"

#include <Zydis/Zydis.h>

enum { MOST_BEFORE = 4, BEFORE_ROOM = 32, IS_BRANCH = 128 };

/* Bytes that are never run: a short site hops there, and from there to its stub. */
struct pad {
    uint32_t start, end;
};

/* A place whose address code knows, perhaps a table of where to jump to. */
struct known_place {
    uint32_t offset;
    uint32_t whole; /* the function that has the code */
};

struct instruction {
    uint32_t offset;
    ZydisDecodedInstruction decoded;
    ZydisDecoderContext context;
    const uint8_t *bytes;
};

struct finder {
    const struct elf_file *file;
    const struct map *map;
    struct sites *out;
    struct targets targets;
    struct reach reach;
    ZydisDecoder decoder;
    const struct map_function *function;  /* the current one */
    uint32_t whole;                       /* start of what it is a part of, or its own */
    struct instruction room[BEFORE_ROOM]; /* what was decoded last: */
    struct instruction *before;           /* before the current one, in order */
    unsigned before_count;
    VEC(uint8_t) lengths; /* of all instructions of the functions that were decoded; IS_BRANCH */
    const uint8_t *function_bytes;
    uint32_t earlier[MOST_BEFORE]; /* where those before the current one begin, oldest first */
    unsigned earlier_count;
    VEC(struct pad) pads;           /* sorted */
    VEC(struct part) parts;         /* sorted by whole */
    VEC(struct known_place) places; /* sorted when all are known */
    VEC(uint32_t) decoded;          /* functions that were: indices, sorted */
    VEC(struct instruction) all;    /* of those around a site that needs room */
};

static inline bool is_jump(const struct instruction *i)
{
    return i->decoded.meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
           i->decoded.meta.category == ZYDIS_CATEGORY_COND_BR;
}

static inline bool is_padding(const struct instruction *i)
{
    return i->decoded.mnemonic == ZYDIS_MNEMONIC_NOP || i->decoded.mnemonic == ZYDIS_MNEMONIC_INT3;
}

/* Reads the address that a rip-relative operand names, as an offset. */
static inline bool is_rip_relative(const struct instruction *i, uint64_t *offset)
{
    const ZydisDecodedInstruction *d = &i->decoded;
    if (!(d->attributes & ZYDIS_ATTRIB_HAS_MODRM) || d->raw.modrm.mod != 0 || d->raw.modrm.rm != 5)
        return false;
    *offset = i->offset + d->length + (uint64_t)d->raw.disp.value;
    return true;
}

typedef void visit_fn(struct finder *f, const struct instruction *i);

/* Decodes the current function; false when its bytes are not all instructions. */
bool each_instruction(struct finder *f, visit_fn *visit);

/*
 * The branches and calls of the current function, which was decoded before: its instructions'
 * lengths are known, and the others are only counted. What is before one of them is not decoded,
 * unless it is asked for: of few it is.
 */
void each_branch(struct finder *f, const uint8_t *length, visit_fn *visit);
void look_before(struct finder *f);

/*
 * An indirect jump with the return address at the top of the stack is a tail call, or a switch in a
 * function without a frame. Is it that? What is before it has been looked at.
 */
bool is_jump_of_switch(const struct finder *f, const struct instruction *jump);

/* How a site without a rel32 can be changed, with the instructions before it: its tier. */
void displace(struct finder *f, const struct instruction *i, struct plan_site *site);

/*
 * Makes a hop of a pun, if instructions near all[at], the site, can move out of the way of a jump.
 * To be asked when all other sites are done. `all` may be of several functions, in order.
 */
bool make_room(struct finder *f, const struct instruction *all, size_t count, size_t at,
               struct plan_site *site);

#endif
