/* The files of programs that the program starts. */
#ifndef RUNTIME_EXEC_TARGET_H
#define RUNTIME_EXEC_TARGET_H

#include <stdbool.h>

/* Can the file be opened, so that it can be preloaded? */
bool exec_can_open(const char *path);

/*
 * May our library be preloaded into what this file is? If not, the supervisor expects this process
 * to run it, until it hears that it did not (channel_say_not_run).
 */
bool exec_is_host(int folder, const char *path, int flags);

#endif
