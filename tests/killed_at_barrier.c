/*
 * Preloaded into the ranks of an MPI job: rank 1 is killed when all of its work is done, where it
 * waits for the others.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

int MPI_Barrier(void *communicator);
int PMPI_Barrier(void *communicator);

int MPI_Barrier(void *communicator)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (rank && strcmp(rank, "1") == 0)
        raise(SIGKILL);
    return PMPI_Barrier(communicator);
}
