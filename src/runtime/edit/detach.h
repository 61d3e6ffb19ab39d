/* The end of --duration: the code is as it was. */
#ifndef RUNTIME_EDIT_DETACH_H
#define RUNTIME_EDIT_DETACH_H

struct thread;

/* Detaching goes on, a step at each tick of a thread, until the code is as it was. */
void edit_detach(struct thread *thread);

#endif
