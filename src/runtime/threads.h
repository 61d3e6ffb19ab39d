/* The threads of the process: how they begin and end, and the list of them. */
#ifndef RUNTIME_THREADS_H
#define RUNTIME_THREADS_H

#include <stdbool.h>
#include <stdint.h>

struct thread;

void threads_prepare(void);        /* once, before the others */
void threads_forget(void);         /* in a child that was forked */
struct thread *thread_begin(void); /* the calling thread is known and sampled from now on */
void thread_end(void);
void thread_note_stack(uint64_t address); /* the first return address of the calling thread */

/* For a thread that is about to be made, and in it. NULL: it will not be known. */
struct thread *thread_for_new(const void *start);
void thread_become(struct thread *thread);

/* Gives the program the key that we have. False: it has that already. */
bool threads_give_key(void);

#endif
