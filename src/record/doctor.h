/* What this machine and this user allow: event sources, the rates that they reach, the cache. */
#ifndef RECORD_DOCTOR_H
#define RECORD_DOCTOR_H

#include <stdio.h>
#include <sys/types.h>

/* Prints what there is; with a program also whether and how it can be recorded. Returns 0 or 1. */
int doctor_print(FILE *out, const char *program);

/* Whether a process that runs can be recorded. Returns 0 or 1. */
int doctor_print_process(FILE *out, pid_t pid);

#endif
