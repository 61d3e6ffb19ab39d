/*
 * Unwind rows for Go code, from Go's table: how far rsp is from the return address at every
 * instruction. That is exact, in prologues and epilogues too, where the frame pointer that Go also
 * keeps is not there yet or no longer: rows count from rsp, and say where rbp was saved only for
 * the sake of C code further out.
 *
 * A few functions of Go's runtime go from one stack to another, which the table does not say:
 *
 *   nothing has called goexit (a goroutine), mstart and rt0_go (a thread): outermost
 *   what mcall calls does not return; it is the scheduler, on a stack of the thread: outermost
 *   systemstack, morestack, asmcgocall: the caller's stack is known to Go's variables only; the
 *     walk ends there, and says so
 *   the clock is read on the thread's stack, by a function that keeps its frame pointer: the way
 *     back is known
 *   sigtramp returns into the kernel's signal frame; what asyncPreempt and sigpanic return to was
 *     interrupted, not calling; cgocallback pretends that C code was not there
 */
#ifndef MAP_GO_ROWS_H
#define MAP_GO_ROWS_H

#include "elf/go_table.h"
#include "map/unwind.h"

#include <Zydis/Zydis.h>

struct go_rows {
    const struct elf_file *file;
    const struct go_table *go;
    struct unwind_table *table;
    ZydisDecoder decoder;
};

struct go_rows go_rows_begin(const struct elf_file *file, const struct go_table *go,
                             struct unwind_table *table);

/*
 * Appends the rows of a function for [from, to), offsets from the base within one code range.
 * Returns false, and appends nothing, when Go does not describe it: it may be C code.
 */
bool go_rows_of(struct go_rows *rows, const struct go_function *function, uint32_t from,
                uint32_t to);

#endif
