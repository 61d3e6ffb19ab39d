/* Bytes that the program reads and writes (-e io). */
#ifndef RUNTIME_IO_H
#define RUNTIME_IO_H

#include "runtime/charge.h"

#include <sys/types.h>

/*
 * Charges a context with bytes, below a word for the kind of file. The kernel's own counters of a
 * process (/proc/PID/io) have the bytes of all calls but those for sockets alone.
 */
void io_charge(uint32_t node, int fd, enum arena_value value, ssize_t bytes, bool kernel_counts);

#endif
