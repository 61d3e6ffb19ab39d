/*
 * The code of a process under engine exact: what lies at an address, and what the program itself
 * has there, by its file. Where memory has something else, a site has been changed.
 */
#ifndef EXACT_CODE_H
#define EXACT_CODE_H

#include "step_modules.h"

enum code_kind {
    CODE_NOWHERE,
    CODE_PROGRAM, /* a module that can be edited */
    CODE_LINKER,
    CODE_VDSO,
    CODE_OURS, /* the runtime */
    CODE_STUB, /* made at run time: in these programs only by the runtime */
    CODE_KINDS
};

enum transfer { GOES_ON, CALLS, RETURNS, JUMPS, JUMPS_OR_GOES_ON, ENTERS_KERNEL };

/* One instruction. */
struct code {
    uint64_t pc;
    uint8_t kind;     /* enum code_kind */
    uint8_t transfer; /* enum transfer: what the file has there; of a stub, what memory has */
    uint8_t length;   /* likewise */
    bool is_indirect; /* the transfer's target is in a register or in memory */
    bool is_changed;  /* memory has something else */
    bool may_stay;    /* that is a conditional jump; others lead to a stub, perhaps by some steps */
    bool in_plt;
    bool at_start;     /* of a function that is no part of another */
    uint64_t part;     /* start of the piece of code that it is in */
    uint64_t function; /* start of the function: of a cold part, the whole's; 0: none is known */
};

struct anonymous {
    uint64_t start, end;
};

struct code_file {
    const struct module_file *file;
    const uint8_t *bytes;
    size_t size;
    enum code_kind kind;
};

struct code_view {
    pid_t pid;
    struct step_modules modules;
    VEC(struct anonymous) anonymous; /* executable memory without a file */
    VEC(struct code_file) files;
    struct code *slots; /* open addressing; a pc of 0 is free */
    size_t slot_count, used;
};

/* Reads the process's mappings again, and forgets what is known of its code. */
int code_refresh(struct code_view *view, struct ct_error *err);
void code_free(struct code_view *view);

struct code code_at(struct code_view *view, uint64_t pc);

/* The runtime's file, and where its address 0 lies. NULL: it is not there. */
const char *code_runtime(const struct code_view *view, uint64_t *bias);

#endif
