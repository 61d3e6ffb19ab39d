/*
 * The edit plan of one module: every place where control goes from one function to another, and how
 * it can be changed. Made from the file, offline, and cached; the runtime maps it and applies it.
 * Positions are offsets from the module's base, as in the map.
 *
 * Behind the header lie the sections that it names, each an array, aligned to 8 bytes. What an
 * engine needs beyond the sites is one section more.
 */
#ifndef EDIT_PLAN_FORMAT_H
#define EDIT_PLAN_FORMAT_H

#include <assert.h>
#include <stdint.h>

#define PLAN_MAGIC   UINT64_C(0x0a6e616c706c6c63) /* "cllplan\n" */
#define PLAN_VERSION 41

enum site_kind {
    SITE_CALL,          /* call rel32 */
    SITE_CALL_INDIRECT, /* through a register or memory */
    SITE_TAIL,          /* jmp or jcc rel32 to another function */
    SITE_TAIL_SHORT,    /* the same with rel8 */
    SITE_TAIL_INDIRECT, /* through a register or memory */
    SITE_KINDS
};

/* How a site is changed, best first. */
enum site_tier {
    TIER_RETARGET, /* its rel32 is pointed at a stub */
    TIER_DISPLACE, /* it moves to a stub, with instructions before it if it is short */
    TIER_HOP,      /* it becomes a short jump to room nearby, from where one leads to the stub */
    TIER_PUN,      /* it becomes a jump whose last bytes are those of the instruction behind it */
    TIER_NONE,     /* cannot be changed */
    SITE_TIERS
};

/* Why a site has no better tier. */
enum site_reason {
    REASON_NONE,
    REASON_BRANCH_TARGET, /* something may jump between it and the instructions before it */
    REASON_NOT_MOVABLE,   /* the instruction before it depends on where it is, or on the stack */
    REASON_AT_START,      /* there is nothing before it */
    REASON_NO_SLOT,       /* where the return address of its function lies is not known */
    REASON_NO_CODE,       /* where it leads there is no code */
    REASON_MAY_STAY,      /* a jump that may stay in its function, and cannot be told from a call */
    SITE_REASONS
};

/* Where the return address of the site's own function lies: a register and a distance. */
enum slot_base { SLOT_UNKNOWN, SLOT_RSP, SLOT_RBP };

enum site_flags {
    SITE_PUSHES_RETURN = 1, /* a call that becomes a jump: the stub pushes the return address */
    SITE_MAY_STAY = 2,      /* a jump that may stay in its function: the stub finds out */
    SITE_MAKES_ROOM = 4,    /* TIER_HOP: the room is made by moving what is there to the stub */
    SITE_TO_LEAF = 8,       /* direct, to a function that has no sites */
};

/*
 * Behind the code of a site that may stay in its function: the number of the function's parts, one
 * byte, and for each part where it begins and where it ends, of four bytes each. A jump to the
 * function's own start leaves it, as it does in functions that cannot be jumped about in.
 */
enum { PLAN_MOST_PARTS = 8 };

/*
 * Behind the code of a site that makes room (and behind the parts): how many bytes move, one byte;
 * where a rel32 lies in them, plus one, one byte; what that leads to, four bytes; then the bytes.
 * In their place there are two jumps: to where they went, and, at the hop, to the stub.
 */
enum { PLAN_ROOM_HEADER_BYTES = 6, PLAN_MOST_ROOM_BYTES = 9 + 15 };

struct plan_site {
    uint32_t offset;
    uint32_t target;   /* direct: where it leads; otherwise 0 */
    uint32_t function; /* start of the function that it is in; of a cold part, the whole's */
    uint32_t got;      /* direct, and the target is a stub of the PLT: what that jumps through */
    int32_t slot_bytes;
    uint32_t code;         /* what runs in its place, in the code bytes */
    uint8_t code_bytes;    /* of that, the transfer itself not included */
    uint8_t fixup;         /* where in it a rel32 lies that depends on the place, plus one */
    uint8_t moved_bytes;   /* how many bytes before the site move, too */
    uint8_t length;        /* of the site's instruction */
    uint8_t kind;          /* enum site_kind */
    uint8_t tier;          /* enum site_tier */
    uint8_t reason;        /* enum site_reason */
    uint8_t slot_base;     /* enum slot_base */
    uint32_t fixup_target; /* what the rel32 leads to */
    uint8_t flags;         /* enum site_flags */
    uint8_t grow;          /* so many times 16 bytes before the call (edit/growth.h); in caches 0 */
    int16_t hop;           /* TIER_HOP: where the room is, from the site */
    uint32_t rank;         /* its position when sites are sorted by function, then by offset */
    uint32_t first_rank;   /* of its function's sites */
};

enum plan_section_kind {
    PLAN_SITES,     /* struct plan_site, by offset */
    PLAN_BY_RANK,   /* uint32_t: the index of each site by rank, with which the sites of a function,
                       cold parts included, are found together */
    PLAN_CODE,      /* bytes of moved code, of which sites say where theirs begin */
    PLAN_UNDECODED, /* uint32_t: starts of functions whose bytes are not all instructions */
    /* Of plans that relocate functions (flow/flow_plan.h), which have none of the above: */
    PLAN_ROUTINES,    /* struct plan_routine, by start */
    PLAN_COPIES,      /* bytes: the code of all copies, and the constants that it reads */
    PLAN_COPY_FIXES,  /* uint32_t: where in the copies four bytes depend on the place; enum copy_fix
                         in the lowest bits, the place above them */
    PLAN_COPY_PIECES, /* struct plan_piece, by start */
    PLAN_COPY_HOOKS,  /* struct plan_hook, by offset */
    PLAN_SECTIONS
};

/* A function, and where its counters are: one for each path, of eight bytes. */
struct plan_routine {
    uint32_t start;
    uint32_t first; /* of all counters of the module */
    uint32_t paths; /* 0: it stays where it is, */
    uint8_t reason; /* for this: enum flow_reason (flow/flow_plan.h) */
    uint8_t number; /* register of the path: a general one, or 16 and more, a vector register */
    uint16_t unused;
    uint32_t first_piece;
};

/* What is added to four bytes of a copy, when it is known where it lies. */
enum copy_fix {
    FIX_MODULE, /* the way from the copies to the module */
    FIX_BASE,   /* the module's address */
    FIX_TABLE,  /* where the thread's table of counters is, from %fs */
    FIX_MIRROR, /* the same for its mirror of the stack */
    FIX_SLOT,   /* the module's place in the table */
    COPY_FIX_BITS = 3
};

/* A part of a copy, and what in the module it stands for. */
struct plan_piece {
    uint32_t start;  /* from the start of the copies */
    uint32_t offset; /* in the module: of its first byte if it moves, of all of it otherwise */
    uint16_t bytes;
    uint16_t moves; /* instructions of the module as they are; 0: code that was put in */
};

/* A jump in the old code. */
struct plan_hook {
    uint32_t offset;
    uint32_t target; /* in the copies; of a short one in the module */
    uint32_t bytes;  /* 5, or 2: a short one, to another of these */
};

/*
 * Behind a module's counters of paths are those for paths whose beginning is not known. The mirror
 * of a stack is three times so long: the stack pointer at a call, the number of the
 * path so far, and where the call returns to.
 */
enum { PLAN_MOST_PATHS = 2048, PLAN_MIRROR_BYTES = 4 << 20 };

struct plan_section {
    uint64_t offset; /* in the file */
    uint64_t count;  /* of items */
};

struct plan_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint64_t file_bytes;
    uint64_t base; /* as in the map */
    uint64_t hash; /* XXH3 of all bytes behind the header */
    struct plan_section sections[PLAN_SECTIONS];
    uint32_t function_count; /* that were decoded */
    uint32_t tiers[SITE_KINDS][SITE_TIERS];
    uint32_t reasons[SITE_REASONS]; /* of sites with TIER_PUN or TIER_NONE */
    uint32_t unknown_bytes;         /* of code that no site was looked for in */
    uint32_t counter_count;         /* of all functions that are relocated, and those behind them */
    uint32_t path_count;            /* of them: of paths */
    uint32_t lost_counter;          /* where paths go on whose beginning is not known */
    uint32_t unused;
};

static_assert(sizeof(struct plan_site) == 48, "layout");
static_assert(sizeof(struct plan_piece) == 12 && sizeof(struct plan_routine) == 20, "layout");
static_assert(sizeof(struct plan_header) % 8 == 0, "layout");

#endif
