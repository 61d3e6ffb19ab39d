#include "record/leftovers.h"

#include "record/folder.h"
#include "record/kept.h"
#include "record/server.h"
#include "record/slices.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Memory or disk that the files of a folder take. */
static uint64_t folder_bytes(const char *path)
{
    DIR *folder = opendir(path);
    uint64_t sum = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        struct stat status;
        if (fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(status.st_mode))
            sum += (uint64_t)status.st_blocks * 512;
    }
    if (folder)
        closedir(folder);
    return sum;
}

/* What the header of the first arena says, by reading alone: a recover of the folder at this
 * moment has its lock. */
static void name_program(const char *path, char *text, size_t room)
{
    DIR *folder = opendir(path);
    uint64_t start = UINT64_MAX;
    snprintf(text, room, "no program");
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        struct arena_header header;
        int fd = openat(dirfd(folder), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        ssize_t bytes = fd < 0 ? -1 : pread(fd, &header, sizeof header, 0);
        if (fd >= 0)
            close(fd);
        if (bytes != (ssize_t)sizeof header || header.magic != ARENA_MAGIC ||
            header.start_ns >= start)
            continue;
        start = header.start_ns;
        header.program[sizeof header.program - 1] = '\0';
        const char *name = strrchr(header.program, '/');
        snprintf(text, room, "%.40s", name ? name + 1 : header.program);
    }
    if (folder)
        closedir(folder);
}

/* "perl, 35.2 MB, of 2026-11-18 01:10" */
static char *describe(const char *path)
{
    struct stat status;
    char date[32] = "?", program[48];
    struct tm local;
    if (stat(path, &status) == 0 && localtime_r(&status.st_mtime, &local))
        strftime(date, sizeof date, "%Y-%m-%d %H:%M", &local);
    name_program(path, program, sizeof program);
    for (char *c = program; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    return must_format("%s, %.1f MB, of %s", program, (double)folder_bytes(path) / 1e6, date);
}

void leftovers_print(FILE *out)
{
    struct folder_list left = {0};
    folder_list_left(&left);
    for (size_t i = 0; i < left.paths.count; i++) {
        char *about = describe(left.paths.items[i]);
        fprintf(out, "  left behind       %s: %s: calltrail recover -o FILE %s\n", about,
                left.paths.items[i], left.paths.items[i]);
        free(about);
        free(left.paths.items[i]);
    }
    if (left.paths.count)
        fputs("                    (calltrail doctor --clean removes them)\n", out);
    vec_free(&left.paths);
}

/* The arenas, as far as they are in use. */
static bool copy_arenas(const struct server *s, const struct folder *to)
{
    bool good = kept_copy(s, to->path);
    for (size_t i = 0; i < s->arenas.count && good; i++) {
        const struct server_arena *a = &s->arenas.items[i];
        uint64_t size = a->header->used < a->allocated ? a->header->used : a->allocated;
        size = size < sizeof *a->header ? sizeof *a->header : size;
        char *path = must_format("%s/%" PRIu32 ".arena", to->path, a->number);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        for (uint64_t done = 0; done < size && good;) {
            ssize_t wrote = fd < 0 ? -1 : write(fd, (const char *)a->header + done, size - done);
            good = wrote > 0;
            done += good ? (uint64_t)wrote : 0;
        }
        if (fd >= 0)
            good &= close(fd) == 0;
        free(path);
    }
    return good;
}

static void remove_copies(const struct server *s, struct folder *to)
{
    for (size_t i = 0; i < s->arenas.count; i++) {
        char *path = must_format("%s/%" PRIu32 ".arena", to->path, s->arenas.items[i].number);
        unlink(path);
        free(path);
    }
    folder_remove_files(to->path, KEPT_PREFIX);
    folder_remove(to);
}

/* Where nothing can be said of it, or processes still write there, it stays as it is. */
static void settle(const char *path, FILE *out)
{
    struct server server;
    struct folder to;
    struct stat status;
    size_t in_use = 0;
    if (stat(path, &status) != 0 || server_reopen(&server, path, NULL) != CT_OK)
        return;
    kept_settle(&server, NULL); /* where that fails, recover says so */
    for (size_t i = 0; i < server.arenas.count; i++)
        in_use += server_arena_in_use(&server, i);
    bool moves = !in_use && folder_make_on_disk(&to, NULL) == CT_OK;
    bool moved = moves && copy_arenas(&server, &to);
    if (moves && !moved)
        remove_copies(&server, &to);
    if (moved)
        folder_remove_files(path, SLICES_PREFIX);
    server_close(&server, !moved);
    if (!moved)
        return;
    const struct timespec times[2] = {status.st_mtim, status.st_mtim};
    utimensat(AT_FDCWD, to.path, times, 0);
    char *about = describe(to.path);
    fprintf(out,
            "calltrail: a recording that was killed has left %s; it is in %s now: calltrail "
            "recover -o FILE FOLDER, or calltrail doctor --clean\n",
            about, to.path);
    free(about);
    folder_leave(&to);
}

void leftovers_settle(FILE *out)
{
    const double young_s = 600;
    struct folder_list left = {0};
    folder_list_left(&left);
    for (size_t i = 0; i < left.paths.count; i++) {
        if (folder_is_in_memory(left.paths.items[i]) && folder_age_s(left.paths.items[i]) > young_s)
            settle(left.paths.items[i], out);
        free(left.paths.items[i]);
    }
    vec_free(&left.paths);
}

int leftovers_remove(const char *folder, FILE *out, struct ct_error *err)
{
    struct server server;
    uint64_t bytes = folder_bytes(folder);
    CT_TRY(server_reopen(&server, folder, err));
    size_t in_use = 0;
    for (size_t i = 0; i < server.arenas.count; i++)
        in_use += server_arena_in_use(&server, i);
    if (!in_use)
        folder_remove_files(folder, SLICES_PREFIX);
    server_close(&server, in_use != 0);
    if (in_use)
        return ct_fail(err, "%s: %zu process%s of that recording still run%s", folder, in_use,
                       in_use == 1 ? "" : "es", in_use == 1 ? "s" : "");
    fprintf(out, "removed %s (%.1f MB)\n", folder, (double)bytes / 1e6);
    return CT_OK;
}

unsigned leftovers_remove_all(FILE *out)
{
    struct folder_list left = {0};
    unsigned kept = 0;
    folder_list_left(&left);
    if (left.paths.count == 0)
        fputs("no recording was left behind\n", out);
    for (size_t i = 0; i < left.paths.count; i++) {
        struct ct_error err;
        if (leftovers_remove(left.paths.items[i], out, &err) != CT_OK) {
            fprintf(out, "kept %s\n", err.text);
            kept++;
        }
        free(left.paths.items[i]);
    }
    vec_free(&left.paths);
    return kept;
}
