/*
 * A function as a structure: its instructions, the blocks they make, the edges between them, and
 * which registers are in use before each instruction. Cold parts that lie elsewhere belong to it.
 *
 * Control gets into a function at its start, behind its calls, and at its landings: places that the
 * data leads to (jump tables, computed goto), landing pads of exceptions, and what other functions
 * jump to. Where code has the address of a place inside, that may be one more, or data, which must
 * stay as it is: such a function is left alone. A path begins at each of them. Where an indirect
 * jump leads is not asked: a path ends there.
 */
#ifndef FLOW_ROUTINE_H
#define FLOW_ROUTINE_H

#include "edit/plan_format.h"
#include "edit/targets.h"
#include "flow/path_numbers.h"

#include <Zydis/Zydis.h>

/* Sets of registers: general ones by their number in instructions, vector registers, the flags. */
typedef uint64_t flow_set;
enum { REG_RAX, REG_RCX, REG_RDX, REG_RSP = 4, REG_RSI = 6, REG_RDI, REG_R8, REG_R9 };
enum { REG_R10 = 10, REG_R11, REG_XMM0 = 16, REG_FLAGS = 32, REG_NONE = 63 };
#define REG_BIT(r) (UINT64_C(1) << (r))

enum flow_insn_kind {
    INSN_PLAIN,
    INSN_JUMP,    /* direct */
    INSN_BRANCH,  /* on a condition, direct */
    INSN_COUNTED, /* the same, of those that only have a short form: loop, jrcxz */
    INSN_CALL,
    INSN_RETURN,
    INSN_INDIRECT, /* a jump through a register or memory */
    INSN_STOP      /* nothing comes out of it */
};

struct flow_insn {
    uint32_t offset;
    uint32_t target; /* of a direct branch or call; of others what they name relative to rip */
    uint8_t length;
    uint8_t kind;    /* enum flow_insn_kind */
    uint8_t disp_at; /* where in it a distance from rip lies; 0: it has none */
    bool is_direct;  /* a call */
    flow_set uses, kills;
    flow_set live; /* before it */
};

struct flow_block {
    uint32_t first, end; /* instructions */
    uint32_t offset;
    bool is_landing, is_reached;
    uint32_t taken_block, fall_block;     /* FLOW_NONE: it has none, or it is elsewhere */
    uint32_t taken, fall, leaves, enters; /* its edges in the graph; FLOW_NONE: it has none */
    flow_set live_out;
};

struct flow_call {
    uint32_t from, to; /* starts of functions */
    flow_set live;     /* behind it */
};

/* What is in use at a landing. */
struct flow_landing {
    uint32_t offset;
    flow_set live;
};

/* What one function has to do with others, found before any is changed. */
struct flow_summary {
    uint32_t start;
    uint8_t reason; /* enum flow_reason */
    bool is_entered;
    flow_set mentions; /* registers that its instructions name */
    flow_set needs;    /* r10 and r11, if it takes them from its callers */
    flow_set held;     /* what callers may keep in registers meanwhile */
};

struct flow_module {
    const struct elf_file *file;
    const struct map *map;
    ZydisDecoder decoder;
    struct targets targets;
    uint64_t *landings; /* one bit for each byte of code: others jump there */
    uint64_t *taken;    /* and here: code has its address */
    VEC(struct part) parts;
    VEC(struct flow_summary) summaries; /* by start */
    VEC(struct flow_call) calls;
    VEC(struct flow_landing) live_landings; /* by offset; those of functions that are read */
};

struct routine {
    struct flow_module *module;
    uint32_t start;
    const struct part *parts;
    unsigned part_count;
    uint8_t reason; /* enum flow_reason: it cannot be relocated */
    flow_set mentions, held;
    flow_set over_jumps; /* the flags, if some place that an indirect jump may lead to uses them */
    VEC(struct flow_insn) insns;
    VEC(struct flow_block) blocks; /* by offset */
    struct flow_graph graph;
};

/* With all that is needed for graphs of functions and their numbers, or also for copies. */
void flow_module_open(struct flow_module *module, const struct elf_file *file,
                      const struct map *map);
void flow_module_begin(struct flow_module *module, const struct elf_file *file,
                       const struct map *map);
void flow_module_end(struct flow_module *module);

bool flow_is_taken(const struct flow_module *module, uint32_t offset);
bool flow_is_landing(const struct flow_module *module, uint32_t offset);

/* The summary of the function that begins there, or NULL. */
struct flow_summary *flow_summary_at(const struct flow_module *module, uint32_t start);

/*
 * Decodes a function, with its blocks and the liveness of registers. `held` is what stays in use
 * when it returns. It may have a reason then, and is not complete.
 */
void routine_read(struct flow_module *module, uint32_t start, flow_set held, struct routine *out);
void routine_free(struct routine *routine);

/* Its graph, with numbers of its paths. False: too many. */
bool routine_number(struct routine *routine, uint64_t most);

/* How many bytes of instructions there are that do nothing and stand between others. */
uint32_t flow_padding(const struct flow_module *module, uint32_t offset, uint32_t end);

/* The instruction at an offset, or FLOW_NONE. */
uint32_t routine_find(const struct routine *routine, uint32_t offset);
const uint8_t *routine_bytes(const struct routine *routine, uint32_t offset);

/* liveness.c */
void routine_live(struct routine *routine);
void flow_effects(const ZydisDecodedInstruction *d, const ZydisDecodedOperand *operands,
                  struct flow_insn *insn, flow_set *mentions);
flow_set flow_at_return(void);

#endif
