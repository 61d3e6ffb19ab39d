/* Programs that the program starts: the parts of exec.c, and what system calls by number need. */
#ifndef RUNTIME_EXEC_H
#define RUNTIME_EXEC_H

#include "runtime/process.h"

/* --- their environment (exec_environment.c) -------------------------------------------------- */

/* An environment with our variables, in memory that is there until the exec has failed. */
struct exec_environment {
    char *const *variables;
    void *memory; /* NULL: the caller's own, as it came */
    size_t bytes;
    struct exec_room *room; /* of which the memory is, in a child of vfork */
};

/* The variables to put back, as they stand in an environment. */
void exec_environment_set(const char *preload_variable, const char *channel_variable);

struct exec_environment exec_environment_make(char *const environment[]);
void exec_environment_free(const struct exec_environment *environment);

/* --- their files (exec_target.c) ---------------------------------------------------------------
 */

/* Can the file be opened, so that it can be preloaded? */
bool exec_can_open(const char *path);

/*
 * May our library be preloaded into what this file is? If not, the supervisor expects this process
 * to run it, until it hears that it did not (channel_say_not_run).
 */
bool exec_is_host(int folder, const char *path, int flags);

/* --- execveat, which is execve with more words (exec.c) -----------------------------------------
 */

/* A negative errno, if it returns. */
long exec_at(int folder, const char *path, char *const arguments[], char *const environment[],
             int flags);

#endif
