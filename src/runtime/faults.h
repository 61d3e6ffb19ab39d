/*
 * Faults in code that an engine has moved. The program's handler finds the registers of the place
 * where the code was. If it leaves them as they are, the program goes on where the code is now.
 */
#ifndef RUNTIME_FAULTS_H
#define RUNTIME_FAULTS_H

#include <stdbool.h>

/* Are the handlers of this signal to be called by way of a stub (handler_entry.S) for that? */
bool faults_are_watched(int number);

#endif
