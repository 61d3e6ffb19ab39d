/*
 * What recordings that were killed have left: folders with arenas, which can be large.
 */
#ifndef RECORD_LEFTOVERS_H
#define RECORD_LEFTOVERS_H

#include "base/error.h"

#include <stdio.h>

/* One line for each of this user's: which program it was, when, and how much it takes. */
void leftovers_print(FILE *out);

/*
 * What lies in memory for more than ten minutes goes to a disk, and a line says where it is now:
 * what a recording has left costs no memory when others follow. Who wants to recover it sooner
 * finds it where it was.
 */
void leftovers_settle(FILE *out);

/* Removes one of them, unless processes that were recorded still write there. */
int leftovers_remove(const char *folder, FILE *out, struct ct_error *err);

/* Removes all of this user's, and says which. Returns how many could not be. */
unsigned leftovers_remove_all(FILE *out);

#endif
