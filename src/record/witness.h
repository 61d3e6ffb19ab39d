/*
 * A signal that reaches the supervisor is passed on to the program, unless it was sent to the
 * whole process group: then the program has it already, and its handler would run twice. Nothing in
 * a signal says which of both it was. So there is a witness: a process of the group that blocks
 * every signal. What is pending for it was sent to all.
 */
#ifndef RECORD_WITNESS_H
#define RECORD_WITNESS_H

#include <stdbool.h>
#include <sys/types.h>

struct witness {
    pid_t pid; /* 0: none could be had */
    int line;  /* to it */
};

/* Before the program is started: the kernel signals the younger processes of a group first, so that
 * the witness has a signal before the supervisor has it. */
void witness_begin(struct witness *witness);
void witness_end(struct witness *witness);

/* Was this signal sent to the group, too? */
bool witness_has(struct witness *witness, int number);

#endif
