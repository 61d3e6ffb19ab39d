#include "mpi/reduce.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TAG = 1, PIECE_BYTES = 4 << 20 };

/* Goes ahead of a part. */
struct part_header {
    uint64_t bytes; /* 0: the rank had no files */
    int32_t failed; /* then nothing follows, and the text says why */
    char why[sizeof((struct ct_error *)0)->text];
};

static int open_unnamed(int *out, struct ct_error *err)
{
    const char *folder = getenv("TMPDIR");
    char *path = must_format("%s/calltrail-mpi-XXXXXX", folder && *folder ? folder : "/tmp");
    *out = mkostemp(path, O_CLOEXEC);
    int status = *out < 0 ? ct_fail_errno(err, errno, "%s: no room for a part", path) : CT_OK;
    if (status == CT_OK)
        unlink(path);
    free(path);
    return status;
}

/* ---- Sending --------------------------------------------------------------------------------- */

static int write_part(struct merge *merge, int *fd, uint64_t *bytes, struct ct_error *err)
{
    struct stat status;
    CT_TRY(open_unnamed(fd, err));
    char *path = must_format("/proc/self/fd/%d", *fd);
    int result = merge_write(merge, path, err);
    free(path);
    if (result == CT_OK && fstat(*fd, &status) != 0)
        result = ct_fail_errno(err, errno, "a part cannot be read back");
    if (result == CT_OK)
        *bytes = (uint64_t)status.st_size;
    return result;
}

static void send_part(const struct part_header *header, int fd, int to)
{
    MPI_Send(header, sizeof *header, MPI_BYTE, to, TAG, MPI_COMM_WORLD);
    char *bytes = header->bytes
                      ? mmap(NULL, header->bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0)
                      : NULL;
    if (bytes == MAP_FAILED) { /* announced, and not to be had: no rank can go on */
        fprintf(stderr, "calltrail-mpi: a part cannot be mapped: %s\n", strerror(errno));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (uint64_t at = 0; at < header->bytes; at += PIECE_BYTES) {
        uint64_t left = header->bytes - at;
        MPI_Send(bytes + at, left < PIECE_BYTES ? (int)left : PIECE_BYTES, MPI_BYTE, to, TAG,
                 MPI_COMM_WORLD);
    }
    if (bytes)
        munmap(bytes, header->bytes);
}

/* The rank's sum, or why there is none, to another rank. */
static int hand_over(struct merge *merge, bool is_empty, int to, int status,
                     struct reduce_step *step, struct ct_error *err)
{
    struct part_header header = {0};
    int fd = -1;
    double start_s = now_s();
    if (status == CT_OK && !is_empty)
        status = write_part(merge, &fd, &header.bytes, err);
    if (status != CT_OK) {
        header.bytes = 0;
        header.failed = 1;
        memcpy(header.why, err->text, sizeof header.why);
    }
    double written_s = now_s();
    send_part(&header, fd, to);
    if (fd >= 0)
        close(fd);
    *step = (struct reduce_step){header.bytes, now_s() - written_s, written_s - start_s};
    return status;
}

/* ---- Receiving ------------------------------------------------------------------------------- */

static int write_piece(int fd, const char *bytes, size_t size)
{
    while (size) {
        ssize_t n = write(fd, bytes, size);
        if (n < 0 && errno != EINTR)
            return -1;
        bytes += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* Takes all pieces, whatever becomes of them: the sender is waiting. */
static int receive_pieces(uint64_t bytes, int from, int fd, struct ct_error *err)
{
    char *piece = must_realloc(NULL, 1, PIECE_BYTES);
    int status = CT_OK;
    for (uint64_t at = 0; at < bytes; at += PIECE_BYTES) {
        uint64_t left = bytes - at;
        int size = left < PIECE_BYTES ? (int)left : PIECE_BYTES;
        MPI_Recv(piece, size, MPI_BYTE, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (status == CT_OK && fd >= 0 && write_piece(fd, piece, (size_t)size) != 0)
            status = ct_fail_errno(err, errno, "no room for the part of rank %d", from);
    }
    free(piece);
    return status;
}

static int add_part(struct merge *merge, int fd, uint64_t bytes, int from, struct ct_error *err)
{
    struct profile profile;
    char name[64];
    snprintf(name, sizeof name, "the part of rank %d", from);
    void *mapped = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapped == MAP_FAILED)
        return ct_fail_errno(err, errno, "%s: cannot be mapped", name);
    int status = profile_from_bytes(mapped, bytes, name, &profile, err);
    if (status == CT_OK) {
        status = profile_validate(&profile, err);
        if (status == CT_OK)
            status = merge_add(merge, &profile, err);
        profile_close(&profile);
    }
    munmap(mapped, bytes);
    return status;
}

/* Another rank's sum into our own. After a failure parts are taken, and forgotten. */
static int take_over(struct merge *merge, int from, int status, bool *is_empty,
                     struct reduce_step *step, struct ct_error *err)
{
    struct part_header header;
    int fd = -1;
    double start_s = now_s();
    MPI_Recv(&header, sizeof header, MPI_BYTE, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (status == CT_OK && header.failed)
        status = ct_fail(err, "%s", header.why);
    if (status == CT_OK && header.bytes)
        status = open_unnamed(&fd, err);
    struct ct_error why;
    if (receive_pieces(header.bytes, from, fd, &why) != CT_OK && status == CT_OK) {
        status = CT_ERROR;
        *err = why;
    }
    double received_s = now_s();
    if (status == CT_OK && header.bytes) {
        status = add_part(merge, fd, header.bytes, from, err);
        *is_empty = false;
    }
    if (fd >= 0)
        close(fd);
    *step = (struct reduce_step){header.bytes, received_s - start_s, now_s() - received_s};
    return status;
}

/* ---- The tree -------------------------------------------------------------------------------- */

static int merge_share(struct merge *merge, const struct file_list *files, int rank, int ranks,
                       struct reduce_times *times, struct ct_error *err)
{
    double start_s = now_s();
    int status = CT_OK;
    for (size_t i = (size_t)rank; i < files->paths.count && status == CT_OK; i += (size_t)ranks) {
        status = merge_file(merge, files->paths.items[i], err);
        times->files++;
    }
    times->share_s = now_s() - start_s;
    return status;
}

int reduce_files(struct merge *merge, const struct file_list *files, struct reduce_times *times,
                 struct ct_error *err)
{
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    *times = (struct reduce_times){0};
    int status = merge_share(merge, files, rank, ranks, times, err);
    bool is_empty = times->files == 0;
    for (int distance = 1; distance < ranks; distance *= 2) {
        struct reduce_step *step = &times->step[times->steps++];
        if (rank & distance)
            return hand_over(merge, is_empty, rank - distance, status, step, err);
        if (rank + distance < ranks)
            status = take_over(merge, rank + distance, status, &is_empty, step, err);
    }
    return status;
}
