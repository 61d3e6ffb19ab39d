/*
 * The map file: what calltrail knows of one module. Written by src/map, read there and by the
 * runtime, which maps it and parses nothing. All integers are little-endian; all code positions are
 * offsets from the module's base (the lowest load address in the file, rounded down to a page).
 *
 * The unwind table is an array of rows sorted by pc: where a row begins, and its rule. A row holds
 * up to the next one. Looking one up costs an index load (one entry for 64 bytes of code) and a
 * scan of the few rows that begin in those 64 bytes. A parallel array says where r12 to r15 were
 * saved.
 *
 * A rule is 32 bits. Nearly all are direct:
 *
 *     bits  0-1   kind: RULE_RSP or RULE_RBP, what the CFA is counted from
 *     bits  2-6   rbp was saved at CFA - 8 * this; 0: rbp is unchanged
 *     bits  7-11  the same for rbx
 *     bits 12-31  CFA - base, in words of 8 bytes
 *
 * with the return address at CFA - 8. What does not fit is RULE_SPECIAL with an index in bits 2-31
 * into the table of special rules, which spell everything out.
 *
 * `saves` has four bits for each of r12 to r15 (r12 lowest): saved at CFA - 8 * n, 0 for unchanged.
 * Only frames whose CFA is held in one of those registers (glibc's libmvec has some) ever make the
 * walker look there.
 */
#ifndef MAP_FORMAT_H
#define MAP_FORMAT_H

#include "base/search.h"

#include <assert.h>
#include <stdint.h>

#define MAP_MAGIC   UINT64_C(0x0a70616d6c6c6163) /* "callmap\n" */
#define MAP_VERSION 9

enum { MAP_BUCKET_SHIFT = 6 };

/* DWARF's numbers for x86-64 registers. (REG_RAX and so on are taken by <ucontext.h>.) */
enum x86_reg {
    X86_RAX,
    X86_RDX,
    X86_RCX,
    X86_RBX,
    X86_RSI,
    X86_RDI,
    X86_RBP,
    X86_RSP,
    X86_R8,
    X86_R9,
    X86_R10,
    X86_R11,
    X86_R12,
    X86_R13,
    X86_R14,
    X86_R15,
    X86_RIP,
    X86_COUNT,
    X86_NONE = 0xff
};

enum { RULE_SPECIAL = 0, RULE_RSP = 1, RULE_RBP = 2 };

#define RULE_KIND(rule)          ((rule)&3u)
#define RULE_RBP_SLOT(rule)      ((rule) >> 2 & 31u)
#define RULE_RBX_SLOT(rule)      ((rule) >> 7 & 31u)
#define RULE_CFA_WORDS(rule)     ((rule) >> 12)
#define RULE_SPECIAL_INDEX(rule) ((rule) >> 2)
#define RULE_MAX_SLOT            31
#define RULE_MAX_CFA_WORDS       0xfffff

#define SAVES_SLOT(saves, reg)   ((saves) >> (((reg)-X86_R12) * 4) & 15u)
#define SAVES_MAX_SLOT           15

struct map_row {
    uint32_t pc;
    uint32_t rule;
};

/*
 * What holds for the code in [start, end). A correction: at a pc at which execution was
 * interrupted, the rule `value` and not the row's; one that says "outermost" holds for return
 * addresses too. Of the unmarkable: the return address must stay as it is, since the code looks at
 * it itself (`value` is 1), or ends in a jump to what may (0).
 */
struct map_range {
    uint32_t start;
    uint32_t end;
    uint32_t value;
};

enum cfa_kind {
    CFA_UNKNOWN, /* there is a description, but not one that a rule can say */
    CFA_NONE,    /* this code has no unwind information */
    CFA_END,     /* the outermost frame: the return address is undefined */
    CFA_REG,     /* reg + offset */
    CFA_DEREF,   /* *(reg + index_reg * 8 + offset) + add; index_reg may be X86_NONE */
    CFA_PLT,     /* rsp + 8, and 8 more from byte `offset` of each 16-byte PLT entry on */
    CFA_SIGNAL,  /* a kernel signal frame: all registers are in the ucontext at rsp */
    CFA_SWITCHED /* the caller is on another stack, and nothing on this one says where */
};

enum place_kind {
    PLACE_SAME,   /* unchanged; for rsp: the CFA itself */
    PLACE_CFA,    /* in memory at CFA + offset */
    PLACE_MEMORY, /* in memory at reg + offset */
    PLACE_REG,    /* in register reg */
    PLACE_LOST,   /* not recoverable */
};

struct map_place {
    uint8_t kind;
    uint8_t reg;
    uint16_t unused;
    int32_t offset;
};

/* The registers whose places a special rule gives, in this order. */
enum { AT_RIP, AT_RSP, AT_RBX, AT_RBP, AT_R12, AT_R13, AT_R14, AT_R15, AT_COUNT };

enum special_flags {
    SPECIAL_GUESSED = 1,    /* found by decoding instructions, not given by the compiler */
    SPECIAL_EXACT_PC = 2,   /* a signal frame: the "return address" is a pc, not behind a call */
    SPECIAL_OTHER_STACK = 4 /* the CFA may be on another stack, and that one below this one */
};

struct map_special {
    uint8_t cfa_kind;
    uint8_t reg;
    uint8_t index_reg;
    uint8_t flags;
    int32_t offset;
    int32_t add;
    uint32_t unused;
    struct map_place place[AT_COUNT];
};

/* The first special rules are the same in every map. */
enum {
    SPECIAL_NONE = 0,
    SPECIAL_END = 1,
    SPECIAL_UNKNOWN = 2,
    SPECIAL_SWITCHED = 3,
    SPECIAL_FIRST_OWN = 4
};

enum function_flags {
    FUNCTION_HAS_SYMBOL = 1,
    FUNCTION_HAS_CFI = 2,
    FUNCTION_FRAGMENT = 4, /* a .cold part; `parent` is what it belongs to */
    FUNCTION_LABEL = 8,    /* only labels without a type name it */
    FUNCTION_IFUNC = 16,   /* the symbol is an indirect function: this is its resolver */
    FUNCTION_IS_GO = 32,   /* Go's table describes it */
};

#define NO_PARENT UINT32_MAX

struct map_function {
    uint32_t start;
    uint32_t size;
    uint32_t name; /* offset in the strings; the empty string when nothing names it */
    uint32_t flags;
    uint32_t parent; /* index of the function or the part that this is a part of, or NO_PARENT */
    uint32_t alias_first;
    uint32_t alias_count; /* further names, in the alias array */
};

/*
 * The function that a cold part belongs to; a function that is none is its own. A part may be that
 * of another part: without symbols it belongs to the only code that jumps to it. Such jumps may
 * lead in a circle, so this ends somewhere.
 */
static inline const struct map_function *map_whole_function(const struct map_function *functions,
                                                            uint32_t count,
                                                            const struct map_function *f)
{
    enum { MOST_PARTS = 64 };
    for (unsigned i = 0; i < MOST_PARTS && (f->flags & FUNCTION_FRAGMENT) && f->parent < count; i++)
        f = &functions[f->parent];
    return f;
}

struct map_section {
    uint64_t offset; /* from the start of the file, a multiple of 8 */
    uint64_t count;  /* of elements */
};

enum map_section_id {
    MAP_INDEX,       /* uint32_t: for each 64 bytes of code, the first row at or after it, and flags
                        (INDEX_CORRECTED and so on); one more */
    MAP_ROWS,        /* struct map_row, sorted by pc */
    MAP_SAVES,       /* uint16_t: one for each row */
    MAP_SPECIALS,    /* struct map_special */
    MAP_CORRECTIONS, /* struct map_range, sorted by start */
    MAP_UNMARKABLE,  /* struct map_range, sorted: functions that use their return address */
    MAP_FUNCTIONS,   /* struct map_function, sorted by start */
    MAP_ALIASES,     /* uint32_t: names */
    MAP_STRINGS,     /* char, each string ends with a zero byte, the last byte is zero */
    MAP_SECTION_COUNT
};

/* What a module is. Bits. */
enum map_flags {
    /* Go code: it walks its own stacks and moves them, so that no return address may be replaced in
       it, and no instruction. All of it is unmarkable. */
    MAP_IS_GO = 1,
    /* Native OCaml code: its collector finds frames by return address, those of its C functions,
       too. */
    MAP_IS_OCAML = 2,
    /* The program reads its instructions while it runs: they must be those of the file. */
    MAP_READS_ITSELF = 4
};

struct map_counts {
    uint64_t fdes;
    uint64_t rows_unknown;  /* rows of compiler-made CFI that no rule can say */
    uint64_t rows_decoded;  /* rows found by decoding */
    uint64_t bytes_code;    /* in executable sections */
    uint64_t bytes_cfi;     /* of those, described by CFI */
    uint64_t bytes_decoded; /* of the rest, described by decoding */
    uint64_t bytes_go;      /* of the rest, described by Go's table */
    uint64_t bad_fdes;      /* left out: damaged or outside the module's code */
    uint64_t symbols;       /* function symbols seen in all symbol tables */
};

struct map_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_size;
    uint64_t file_size;
    uint64_t base;        /* virtual address that offset 0 stands for */
    uint64_t span;        /* bytes of address space from base to the end of the last segment */
    uint64_t body_hash;   /* XXH3 of all bytes behind the header */
    uint64_t header_hash; /* XXH3 of the header with this field zero */
    uint8_t build_id[32]; /* zero-padded */
    uint32_t build_id_size;
    uint32_t code_start; /* executable bytes, as offsets from base */
    uint32_t code_end;
    uint32_t symbol_sources; /* bits of enum symbol_source (elf/symbols.h) */
    uint32_t flags;          /* bits of enum map_flags */
    uint32_t unused;
    struct map_counts counts;
    struct map_section sections[MAP_SECTION_COUNT];
};

static_assert(sizeof(struct map_place) == 8, "layout");
static_assert(sizeof(struct map_special) == 80, "layout");
static_assert(sizeof(struct map_function) == 28, "layout");
static_assert(sizeof(struct map_counts) == 72, "layout");
static_assert(sizeof(struct map_header) == 56 + 32 + 24 + 72 + 16 * MAP_SECTION_COUNT, "layout");

/*
 * The tables of a map in memory, as both sides use them. Every count has been checked against the
 * file's size; the contents have not, so code that follows a number read from the tables checks it.
 */
struct map_tables {
    const uint32_t *index; /* bucket_count + 1 entries */
    const struct map_row *rows;
    const uint16_t *saves;
    const struct map_special *specials;
    const struct map_range *corrections;
    uint32_t bucket_count;
    uint32_t row_count;
    uint32_t special_count;
    uint32_t correction_count;
    const struct map_range *unmarkable;
    uint32_t unmarkable_count;
    uint32_t function_count;
    const struct map_function *functions;
};

enum { NO_ROW = -1 };

/* Nearly all code has neither, and the entry is read for the row anyway: no need to search. */
#define INDEX_CORRECTED  UINT32_C(0x80000000) /* one of the corrections is about these 64 bytes */
#define INDEX_UNMARKABLE UINT32_C(0x40000000) /* a function here uses its return address */
#define INDEX_ROW        UINT32_C(0x3fffffff)

static inline int map_has(const struct map_tables *t, uint64_t offset, uint32_t flag)
{
    uint64_t bucket = offset >> MAP_BUCKET_SHIFT;
    return bucket < t->bucket_count && (t->index[bucket] & flag);
}

static inline const struct map_range *map_find_range(const struct map_range *ranges, uint32_t count,
                                                     uint64_t offset)
{
    uint32_t i;
    SEARCH(i, count, ranges[i].start <= offset);
    return i && offset < ranges[i - 1].end ? &ranges[i - 1] : (void *)0;
}

/* The correction that holds at `offset`, or NULL. */
static inline const struct map_range *map_find_correction(const struct map_tables *t,
                                                          uint64_t offset)
{
    return map_has(t, offset, INDEX_CORRECTED)
               ? map_find_range(t->corrections, t->correction_count, offset)
               : (void *)0;
}

/* The function here whose return address must stay as it is, or NULL. */
static inline const struct map_range *map_find_unmarkable(const struct map_tables *t,
                                                          uint64_t offset)
{
    return map_has(t, offset, INDEX_UNMARKABLE)
               ? map_find_range(t->unmarkable, t->unmarkable_count, offset)
               : (void *)0;
}

/* The row that holds at `offset`, or NO_ROW. Safe whatever the tables contain. */
static inline int64_t map_find_row(const struct map_tables *t, uint64_t offset)
{
    uint64_t bucket = offset >> MAP_BUCKET_SHIFT;
    if (__builtin_expect(bucket >= t->bucket_count, 0))
        return NO_ROW;
    uint32_t row = t->index[bucket] & INDEX_ROW;
    uint32_t end = t->index[bucket + 1] & INDEX_ROW;
    if (__builtin_expect(end > t->row_count, 0))
        return NO_ROW;
    while (row < end && t->rows[row].pc <= offset)
        row++;
    if (__builtin_expect(row == 0 || row > t->row_count, 0))
        return NO_ROW;
    return (int64_t)row - 1;
}

#endif
