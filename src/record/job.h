/*
 * Where a recording runs: the host and, inside a job of MPI, the rank. Launchers tell their
 * processes in the environment.
 */
#ifndef RECORD_JOB_H
#define RECORD_JOB_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct job {
    char host[256];
    bool has_rank;
    uint32_t rank;
    uint32_t ranks; /* 0: not known */
};

struct job job_find(void);

/*
 * A file's name with %r replaced by the rank and %h by the host; to be freed. Without a rank, %r is
 * an error. Other per cent signs stay.
 */
int job_file_name(const struct job *job, const char *pattern, char **out, struct ct_error *err);

#endif
