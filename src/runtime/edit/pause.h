/* The program pauses its measurement (ct_pause). */
#ifndef RUNTIME_EDIT_PAUSE_H
#define RUNTIME_EDIT_PAUSE_H

#include <stdbool.h>

/* The program pauses its measurement: all original code is back when this returns; and goes on. */
void edit_pause(void);
bool edit_resume(void); /* False: it was not paused */

#endif
