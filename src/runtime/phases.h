/* What the program says of itself: phases, pause and resume. */
#ifndef RUNTIME_PHASES_H
#define RUNTIME_PHASES_H

void phases_begin(void); /* in a new arena: the parent of a forked child may have paused */

#endif
