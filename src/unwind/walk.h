/*
 * Walking a stack from the registers of an interrupted context, with unwind tables only: no DWARF,
 * no allocation, no locks, no system calls but those of the caller's `find_memory`.
 *
 * It can run in a signal handler. It reads memory only where `struct walk_memory` says it may, so
 * it cannot fault, whatever the stack holds.
 */
#ifndef UNWIND_WALK_H
#define UNWIND_WALK_H

#include "map/map_format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One loaded module: [start, end) of its address range, and its tables (NULL: no map). */
struct walk_module {
    uint64_t start;
    uint64_t end;
    uint64_t base; /* load address of the map's offset 0 */
    const struct map_tables *tables;
};

/* Modules sorted by start, not overlapping. Never changed while a walk uses it. */
struct walk_modules {
    uint32_t count;
    uint32_t generation; /* another number for another set: tells caches to forget */
    const struct walk_module *items;
};

/*
 * The memory that a walk may read. Addresses in [start, end) are read at address + bias (the bias
 * is 0 inside the target; a debugger that has copied a stack sets it). When the walk needs an
 * address outside, it calls find_memory, which sets start, end and bias to a readable range that
 * holds the 8 bytes at the address, or returns false.
 */
struct walk_marks;
struct walk_registers;

/* How registers have left code that stands for the program's, if they were in such code. */
enum walk_left {
    WALK_NOT_LEFT, /* nobody knows the way out now */
    WALK_LEFT,
    WALK_LEFT_BY_RETURN /* they were where a call comes back to: the pc is a return address now */
};

struct walk_memory {
    uint64_t start;
    uint64_t end;
    uint64_t bias;
    bool (*find_memory)(struct walk_memory *memory, uint64_t address);
    void *context;            /* for find_memory's use */
    struct walk_marks *marks; /* NULL: there are none */
    uint64_t restored_below;  /* registers that were saved below this have their values again */
    bool without_corrections; /* only what the files' CFI says (walk_check.h) */
    bool is_at_call;          /* the pc is a call's, where rows are right, not just any */
    /* Where a signal has interrupted code that stands for the program's: changes the registers to
     * those of the program's place, and restored_below. NULL: there is no such code. */
    enum walk_left (*leave_code)(struct walk_registers *registers, uint64_t *restored_below);
};

/*
 * Return marks: where the slot of a return address holds an address in [start, end), that stands
 * for another one, which `real` gives (0: not known). `leave` is for a pc in that range, where a
 * marked frame has returned: it sets pc and sp to what they will be when the mark's code has gone
 * on to the real address, or returns false where the tables know the way. With `join`, frames of
 * the past are the same whether or not they are marked; without, `real` hears of every mark once.
 */
struct walk_marks {
    uint64_t start;
    uint64_t end;
    uint64_t (*real)(struct walk_marks *marks, uint64_t mark, uint64_t slot);
    bool (*leave)(struct walk_marks *marks, const struct walk_memory *memory, uint64_t *pc,
                  uint64_t *sp);
    bool join;
};

enum walk_end {
    WALK_COMPLETE,    /* reached a frame whose return address is undefined: the outermost one */
    WALK_LIMIT,       /* the caller's array is full */
    WALK_NO_MODULE,   /* a pc outside every known module */
    WALK_NO_MAP,      /* a pc in a module without a map */
    WALK_NO_RULE,     /* code without unwind information */
    WALK_UNKNOWN,     /* an unwind rule that tables cannot say */
    WALK_REGISTER,    /* the rule needs a register whose value was lost in an inner frame */
    WALK_MEMORY,      /* the stack leads to memory that may not be read */
    WALK_NO_PROGRESS, /* the next frame would not lie above this one */
    WALK_SWITCHED =
        11, /* the callers are on another stack; 9 and 10 are reasons of a profile only */
    WALK_END_COUNT
};

extern const char *const walk_end_names[WALK_END_COUNT];

/* Values of all registers, indexed by enum x86_reg. */
struct walk_registers {
    uint64_t value[X86_COUNT];
};

enum frame_flags {
    FRAME_IS_PC = 1,
    FRAME_GUESSED = 2,     /* its rule was found by decoding */
    FRAME_SPECIAL = 4,     /* its rule is a special one */
    FRAME_LOOKED_AT = 8,   /* the next three are known; they are the trampoline's */
    FRAME_MARKABLE = 16,   /* its function does nothing with its return address but return */
    FRAME_AFTER_CALL = 32, /* its pc is behind a call instruction */
    FRAME_UNWINDER = 64,   /* its function may be looking at return addresses */
    FRAME_UNKNOWN = 128    /* no table has its code; the frame pointer was believed */
};

/*
 * A frame: its pc, and the address of the slot that its return address lies in (0 when that is not
 * in memory or not known, as in the last frame). FRAME_IS_PC marks a pc at which execution was
 * interrupted: the first frame and those below a signal frame; all others are return addresses.
 */
struct walk_frame {
    uint64_t pc;
    uint64_t slot;
    uint64_t rbp;    /* its value in this frame */
    uint32_t module; /* index in walk_modules, or UINT32_MAX */
    uint32_t flags;
};

struct walk_result {
    uint32_t count; /* frames filled in, innermost first */
    enum walk_end end;
};

struct walk_result walk_frames(const struct walk_modules *modules,
                               const struct walk_registers *registers, struct walk_memory *memory,
                               struct walk_frame *frames, uint32_t room);

/*
 * What a thread has learnt from its earlier walks: the rules of return addresses it has met, and
 * which return address was found above each. Zeroed before its first use; for one thread at a time.
 */
enum { WALK_CACHE_ENTRIES = 512 };

struct walk_cache_entry {
    uint64_t pc;                   /* a return address; 0: free */
    struct walk_cache_entry *next; /* the entry met above this one the last time */
    uint32_t cfa_and_flags;  /* CFA - base (rsp or rbp) in 24 bits; 0 for the outermost frame */
    int32_t saved_rbp_bytes; /* where rbp was saved - base */
    uint32_t module;
    uint32_t frame_flags; /* the last two are copied to the frame in one go */
};

struct walk_cache {
    uint32_t generation; /* of the modules that the entries are about */
    struct walk_cache_entry entries[WALK_CACHE_ENTRIES];
};

/* As walk_frames, with the same result, faster. */
struct walk_result walk_frames_cached(struct walk_cache *cache, const struct walk_modules *modules,
                                      const struct walk_registers *registers,
                                      struct walk_memory *memory, struct walk_frame *frames,
                                      uint32_t room);

/*
 * The outer frames of a stack, outermost first, as an earlier complete walk found them. Each says
 * which words of memory it was found by: the return address in its slot, and the saved rbp. A walk
 * is a function of the words that it reads, so while these words are the same, so are the frames.
 */
struct walk_past_frame {
    uint64_t pc;
    uint64_t slot;
    uint64_t rbp;
    uint64_t rbp_slot; /* where the caller's rbp was saved; 0: it was not */
};

struct walk_past {
    const struct walk_past_frame *frames;
    uint32_t count;
    uint32_t kept;  /* out: how many of them, from the outermost on, are still there */
    uint32_t look;  /* where the search for a common frame stands */
    uint64_t until; /* the stack pointer at which to look again */
    /* A mark that is known to be there: a walk that meets it has met the caller of that frame. */
    uint64_t mark, mark_slot; /* 0: none */
    uint32_t mark_frame;
};

/*
 * As walk_frames_cached, but a complete walk ends where it joins the past: `frames` then has the
 * frames below, and past->kept says how many of the past's frames are above them. Otherwise kept is
 * 0.
 */
struct walk_result walk_frames_joining(struct walk_past *past, struct walk_cache *cache,
                                       const struct walk_modules *modules,
                                       const struct walk_registers *registers,
                                       struct walk_memory *memory, struct walk_frame *frames,
                                       uint32_t room);

/* Do the eight bytes before an address end in a call instruction: E8 rel32, or FF /2? */
bool walk_ends_in_call(uint64_t bytes);

/* Remembers flags of a return address, for the frames that later walks find with it. */
void walk_cache_note(struct walk_cache *cache, uint64_t pc, uint32_t frame_flags);

/* Where a frame that was walked by a direct rule keeps its caller's rbp; 0 where it does not. */
uint64_t walk_rbp_slot(struct walk_cache *cache, const struct walk_modules *modules,
                       const struct walk_frame *frame);

#endif
