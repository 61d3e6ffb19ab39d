/* What threads that have ended leave to those that begin. */
#ifndef RUNTIME_THREADS_ENDED_H
#define RUNTIME_THREADS_ENDED_H

#include <stdbool.h>

struct thread;

/* A structure that no thread uses; NULL when there is no memory. And back. */
struct thread *thread_take(void);
void thread_keep(struct thread *thread);

/* The same for a thread that begins in that function: it may come with a record. */
struct thread *thread_take_for(const void *start);

/* A thread ends: will another go on with its record? And the calling thread goes on with one. */
bool thread_will_go_on(const struct thread *thread);
void thread_goes_on(struct thread *thread);

void threads_ended_forget(void); /* in a child that was forked */

#endif
