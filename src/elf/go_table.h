/*
 * Go's own table of functions (pclntab). Every Go program has one, stripped or not, since Go walks
 * its own stacks with it: names, where functions begin, and by how much the stack pointer is moved
 * at each instruction. It takes the place of .symtab and of .eh_frame, which Go code does not have.
 *
 * The table is read where it lies in the file. Every offset in it is checked.
 */
#ifndef ELF_GO_TABLE_H
#define ELF_GO_TABLE_H

#include "base/reader.h"
#include "elf/elf_file.h"

/* By the layout; a layout holds for several releases. */
enum go_layout { GO_1_2, GO_1_16, GO_1_18, GO_1_20 };

struct go_bytes {
    const uint8_t *at;
    uint64_t size;
};

struct go_table {
    uint64_t address; /* where the table is loaded */
    enum go_layout layout;
    uint32_t function_count;
    uint64_t text_start; /* function starts are counted from here; 0 in old layouts */
    struct go_bytes names;
    struct go_bytes values;    /* the encoded tables of values by pc */
    struct go_bytes functions; /* pairs (start, offset of the record), then the records */
};

/* What Go's linker says about a function, since Go 1.17. Bits. */
enum go_flags {
    GO_TOP_FRAME = 1, /* nothing has called it: a stack begins here */
    GO_WRITES_SP = 2, /* it moves rsp in ways that the table does not say */
    GO_NO_FLAGS = 128 /* the layout is older: nothing is said */
};

struct go_function {
    uint64_t start;
    uint64_t end; /* where the next one begins: padding counts */
    const char *name;
    uint32_t stack_values; /* offset of the stack's heights in the values; 0: not Go code */
    uint8_t flags;
};

/* Values by pc: `value` holds in [start, end). */
struct go_values {
    struct reader reader;
    uint64_t start, end;
    uint64_t limit;
    int32_t value;
    bool is_first;
};

/* Finds the table by its section, or in a Go program without it, by its first bytes. */
bool go_table_find(const struct elf_file *file, struct go_table *out);

/* Is this written by Go's linker? It says so in sections, or in a note that strip leaves. */
bool go_is_go(const struct elf_file *file);

/* Function number `i`; false if its entry is damaged. They come in order of their starts. */
bool go_function_at(const struct go_table *table, uint32_t i, struct go_function *out);

/* The first function that ends behind an address; function_count when there is none. */
uint32_t go_function_behind(const struct go_table *table, uint64_t address);

/* Where function number `i` begins; that of function_count is where the last one ends. */
uint64_t go_function_start(const struct go_table *table, uint32_t i);

/* The bytes between rsp and the return address, by pc. None: the table is damaged or empty. */
struct go_values go_stack_values(const struct go_table *table, const struct go_function *function);
bool go_next_value(struct go_values *values);

/* Where the code itself ends, without padding. */
uint64_t go_code_end(const struct go_table *table, const struct go_function *function);

#endif
