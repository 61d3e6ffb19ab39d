#include "record/job.h"

#include "base/vec.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Open MPI; MPICH, Intel MPI and others by PMI; MVAPICH; PMIx itself; Slurm's srun. The first that
 * has a number counts: a job of MPI may run in one of Slurm, and not the other way round. */
static const struct {
    const char *rank, *ranks;
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
    {"PMIX_RANK", NULL},
    {"SLURM_PROCID", "SLURM_NTASKS"},
};

static bool read_number(const char *variable, uint32_t *out)
{
    const char *text = variable ? getenv(variable) : NULL;
    char *end;
    if (!text || *text < '0' || *text > '9')
        return false;
    unsigned long number = strtoul(text, &end, 10);
    if (*end || number >= INT32_MAX)
        return false;
    *out = (uint32_t)number;
    return true;
}

struct job job_find(void)
{
    struct job job = {.host = ""};
    if (gethostname(job.host, sizeof job.host - 1) != 0)
        job.host[0] = '\0';
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers && !job.has_rank; i++) {
        job.has_rank = read_number(launchers[i].rank, &job.rank);
        if (job.has_rank && !read_number(launchers[i].ranks, &job.ranks))
            job.ranks = 0;
    }
    return job;
}

int job_file_name(const struct job *job, const char *pattern, char **out, struct ct_error *err)
{
    char *name = NULL;
    size_t size;
    FILE *stream = open_memstream(&name, &size);
    int status = CT_OK;
    for (const char *c = pattern; *c && stream; c++) {
        if (c[0] == '%' && c[1] == 'r' && !job->has_rank)
            status = ct_fail(err,
                             "%s: %%r is the rank of an MPI job, and this is not one: no "
                             "launcher has set a variable such as OMPI_COMM_WORLD_RANK",
                             pattern);
        if (c[0] == '%' && c[1] == 'r')
            fprintf(stream, "%u", job->rank);
        else if (c[0] == '%' && c[1] == 'h')
            fputs(job->host, stream);
        else
            putc(*c, stream);
        c += c[0] == '%' && (c[1] == 'r' || c[1] == 'h');
    }
    if (!stream || fclose(stream) != 0) {
        free(name);
        return ct_fail(err, "%s: no memory for its name", pattern);
    }
    if (status == CT_OK)
        *out = name;
    else
        free(name);
    return status;
}
