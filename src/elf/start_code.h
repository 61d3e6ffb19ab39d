/*
 * What a stripped program's own start says: the kernel enters at _start, which glibc's crt1.o
 * brings and which passes the address of main to __libc_start_main.
 */
#ifndef ELF_START_CODE_H
#define ELF_START_CODE_H

#include "elf/elf_file.h"

/* The address of main by the code of the entry point; 0 when that is not glibc's. */
uint64_t elf_main_address(const struct elf_file *file);

#endif
