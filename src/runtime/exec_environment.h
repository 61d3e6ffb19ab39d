/* The environment of programs that the program starts. */
#ifndef RUNTIME_EXEC_ENVIRONMENT_H
#define RUNTIME_EXEC_ENVIRONMENT_H

#include <stddef.h>

struct exec_room;

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

#endif
