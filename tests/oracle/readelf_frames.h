/*
 * What GNU readelf says of a file's .eh_frame, read from its output.
 *
 * `--debug-dump=frames-interp` prints a table of rows for each FDE. Where a table says only `exp`,
 * or `u` (which stands for both "no rule" and "undefined"), `--debug-dump=frames` has the program
 * that the table was made from; frames_read_programs runs as much of that as it takes to know.
 */
#ifndef ORACLE_READELF_FRAMES_H
#define ORACLE_READELF_FRAMES_H

#include "base/error.h"
#include "base/strings.h"
#include "base/vec.h"
#include "map/map_format.h"

#include <stdbool.h>

/* What a cell of the table says of a register. */
enum said {
    SAID_NOTHING, /* the table has no column for it */
    SAID_UNSET,   /* u: no rule, or undefined */
    SAID_SAME,    /* s */
    SAID_CFA,     /* c-16: saved at CFA + number */
    SAID_VALUE,   /* v-16: its value is CFA + number */
    SAID_REG,     /* r2 (rcx): it is in the register `number` */
    SAID_EXP,     /* exp: saved where an expression says */
    SAID_VEXP,    /* vexp: its value is that of an expression */
};

/* A row of a table, or the one that a CIE without a program of the FDE's own stands for. */
struct frame_row {
    uint64_t pc;
    int32_t number[AT_COUNT];
    int32_t cfa_offset;
    uint8_t said[AT_COUNT]; /* enum said */
    uint8_t cfa_reg;        /* X86_NONE when it is no general register, or not set at all */
    bool cfa_is_expression;
};

/* What only the program says. Texts are offsets in frames.texts, 0 for none. */
struct frame_detail {
    uint32_t cfa_text;
    uint32_t text[AT_COUNT];
    bool cfa_is_set;
    bool undefined[AT_COUNT]; /* said to be undefined */
    /*
     * Restored by the CIE itself, where there is nothing yet to restore. Unwinders drop the rule;
     * readelf's tables take no notice.
     */
    bool dropped[AT_COUNT];
};

struct frame_cie {
    uint64_t offset; /* in .eh_frame */
    uint8_t ra;      /* DWARF's number of the return address column */
    bool signal;
    bool has_row;
    struct frame_row row;
    struct frame_detail detail;
};

struct frame_fde {
    uint64_t offset; /* in .eh_frame */
    uint64_t start;
    uint64_t end;
    uint32_t cie; /* index */
    uint32_t row_count;
    size_t first_row;
    size_t first_detail; /* valid when has_details; one for each row */
    bool wanted;         /* set by the caller, for frames_read_programs */
    bool has_details;
};

struct frames {
    VEC(struct frame_cie) cies;
    VEC(struct frame_fde) fdes; /* in the section's order */
    VEC(struct frame_row) rows;
    VEC(struct frame_detail) details;
    struct string_pool texts;
    char warning[256]; /* the first line that readelf wrote to stderr, or "" */
};

/* Runs readelf and reads all tables. The frames are to be freed in any case. */
int frames_read(const char *path, struct frames *out, struct ct_error *err);

/* Runs readelf again and finds the details of all wanted FDEs. */
int frames_read_programs(const char *path, struct frames *frames, struct ct_error *err);

void frames_free(struct frames *frames);

enum { NO_PLACE = 0xff };

/* The place (AT_RIP and so on) that a map gives for a register, or NO_PLACE. */
uint8_t place_of_register(unsigned reg);

/* The number of a register from its name ("rsp", "r10"), or X86_NONE. */
uint8_t register_named(const char *name, size_t length);

extern const char *const register_names[X86_COUNT];

#endif
