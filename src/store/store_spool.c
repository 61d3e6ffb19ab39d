#include "store/store_spool.h"

#include "base/clock.h"
#include "profile/merge_files.h"
#include "profile/slice.h"
#include "store/store_db.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RETRY_MS = 1000, LOOK_MS = 5000 };

struct spool {
    const struct store_spool *wanted;
    const char *folder;
    uint64_t bytes_max;
    struct store store;
    bool is_open, is_warned;
};

/* ---- Files ----------------------------------------------------------------------------------- */

struct spool_files {
    VEC(char *) names; /* in the order of time */
};

static bool ends_in(const char *name, const char *end)
{
    size_t length = strlen(name), tail = strlen(end);
    return length > tail && strcmp(name + length - tail, end) == 0;
}

static int is_slice(const struct dirent *entry)
{
    return strncmp(entry->d_name, "slice-", 6) == 0 &&
           (ends_in(entry->d_name, ".ctp") || ends_in(entry->d_name, ".sending"));
}

static char *path_of(const struct spool *s, const char *name)
{
    return must_format("%s/%s", s->folder, name);
}

static void remove_file(const struct spool *s, const char *name)
{
    char *path = path_of(s, name);
    unlink(path);
    free(path);
}

static void files_free(struct spool_files *files)
{
    for (size_t i = 0; i < files->names.count; i++)
        free(files->names.items[i]);
    vec_free(&files->names);
}

/* Whose slice it is: the host and the process, behind the time. `size` gets its length. */
static const char *owner_of(const char *name, size_t *size)
{
    const char *from = strchr(name, 'Z');
    if (!from)
        from = name;
    const char *plus = strchr(from, '+');
    size_t end = strlen(name) - strlen(ends_in(name, ".ctp") ? ".ctp" : ".sending");
    *size = (plus ? (size_t)(plus - name) : end) - (size_t)(from - name);
    return from;
}

static bool is_same_owner(const char *a, const char *b)
{
    size_t first, second;
    const char *x = owner_of(a, &first), *y = owner_of(b, &second);
    return first == second && memcmp(x, y, first) == 0;
}

/*
 * A merged slice has the name of its first one, and the name of its last one behind a "+":
 * slice-A+slice-B.ctp replaces what is from slice-A to slice-B of the same recording, whose slices
 * come one after the other. If the merging was cut off, they are still there.
 */
static void remove_replaced(const struct spool *s, struct spool_files *files)
{
    for (size_t i = 0; i < files->names.count; i++) {
        char *merged = files->names.items[i], *plus = merged ? strrchr(merged, '+') : NULL;
        if (!plus)
            continue;
        char *first = must_format("%.*s.ctp", (int)(plus - merged), merged);
        for (size_t k = 0; k < files->names.count; k++) {
            char *other = files->names.items[k];
            if (!other || k == i || strcmp(other, first) < 0 || strcmp(other, plus + 1) > 0 ||
                ends_in(other, ".sending") || !is_same_owner(merged, other))
                continue;
            remove_file(s, other);
            free(other);
            files->names.items[k] = NULL;
        }
        free(first);
    }
    size_t kept = 0;
    for (size_t i = 0; i < files->names.count; i++)
        if (files->names.items[i])
            files->names.items[kept++] = files->names.items[i];
    files->names.count = kept;
}

static struct spool_files list_files(const struct spool *s)
{
    struct spool_files files = {0};
    struct dirent **entries;
    int count = scandir(s->folder, &entries, is_slice, alphasort);
    for (int i = 0; i < count; i++) {
        vec_push(&files.names, must_strdup(entries[i]->d_name));
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    remove_replaced(s, &files);
    return files;
}

/* ---- Merging what is too much ---------------------------------------------------------------- */

/* The earliest start and the latest end of slices that become one. */
static void join_times(const struct profile *p, struct slice_times *times)
{
    const struct ctp_fact *start = profile_find_fact(p, CTP_SCOPE_PROFILE, 0, FACT_SLICE_START),
                          *end = profile_find_fact(p, CTP_SCOPE_PROFILE, 0, FACT_SLICE_END);
    if (start && (!times->start_ns || start->value < times->start_ns))
        times->start_ns = start->value;
    if (end && end->value > times->end_ns)
        times->end_ns = end->value;
}

static int add_slice(struct merge *merge, const char *path, struct slice_times *times,
                     struct ct_error *err)
{
    struct profile p;
    CT_TRY(profile_open(path, &p, err));
    int status = profile_validate(&p, err);
    if (status == CT_OK) {
        join_times(&p, times);
        status = merge_add(merge, &p, err);
    }
    profile_close(&p);
    return status;
}

/* What is merged has no times that all agree on: they are added. */
static int add_times(const char *from, const char *to, const struct slice_times *times,
                     struct ct_error *err)
{
    struct profile p;
    struct profile_writer *w;
    CT_TRY(profile_open(from, &p, err));
    int status = profile_writer_open(to, &w, err);
    if (status == CT_OK) {
        profile_copy(&p, w);
        profile_fact_i64(w, CTP_SCOPE_PROFILE, 0, FACT_SLICE_START, (int64_t)times->start_ns);
        profile_fact_i64(w, CTP_SCOPE_PROFILE, 0, FACT_SLICE_END, (int64_t)times->end_ns);
        status = profile_writer_commit(w, err);
    }
    profile_close(&p);
    return status;
}

/* Two slices as one, which replaces them. */
static int merge_two(const struct spool *s, const char *first, const char *second,
                     struct ct_error *err)
{
    const char *plus = strrchr(first, '+'), *last = strrchr(second, '+');
    int length = (int)(plus ? plus - first : (ptrdiff_t)strlen(first) - 4);
    char *name = must_format("%.*s+%s", length, first, last ? last + 1 : second);
    char *paths[2] = {path_of(s, first), path_of(s, second)};
    char *out = path_of(s, name), *part = must_format("%s/.%s.part", s->folder, name);
    struct merge *merge = merge_begin(&(struct merge_options){0});
    struct slice_times times = {0};
    int status = CT_OK;
    for (int i = 0; i < 2 && status == CT_OK; i++)
        status = add_slice(merge, paths[i], &times, err);
    if (status == CT_OK)
        status = merge_write(merge, part, err);
    if (status == CT_OK)
        status = add_times(part, out, &times, err);
    for (int i = 0; i < 2 && status == CT_OK; i++)
        if (strcmp(paths[i], out) != 0)
            unlink(paths[i]);
    unlink(part);
    merge_free(merge);
    free(paths[0]);
    free(paths[1]);
    free(out);
    free(part);
    free(name);
    return status;
}

static uint64_t size_of(const struct spool *s, const struct spool_files *files)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < files->names.count; i++) {
        struct stat status;
        char *path = path_of(s, files->names.items[i]);
        if (stat(path, &status) == 0)
            bytes += (uint64_t)status.st_size;
        free(path);
    }
    return bytes;
}

/* The two oldest slices of one recording that can be merged. */
static bool find_two(const struct spool_files *files, size_t *first, size_t *second)
{
    for (*first = 0; *first < files->names.count; ++*first) {
        const char *name = files->names.items[*first];
        for (*second = *first + 1; *second < files->names.count; ++*second)
            if (is_same_owner(name, files->names.items[*second]))
                break;
        if (*second < files->names.count && !ends_in(name, ".sending") &&
            !ends_in(files->names.items[*second], ".sending"))
            return true;
    }
    return false;
}

/* Merges the oldest until all fit, or there is nothing left to merge. */
static void shrink(const struct spool *s)
{
    for (bool more = true; more;) {
        struct spool_files files = list_files(s);
        struct ct_error err;
        size_t first, second;
        more = size_of(s, &files) > s->bytes_max && find_two(&files, &first, &second) &&
               merge_two(s, files.names.items[first], files.names.items[second], &err) == CT_OK;
        files_free(&files);
    }
}

/* ---- Sending --------------------------------------------------------------------------------- */

/* A file that is no profile is put aside, and that is said. */
static bool is_sound(const char *path)
{
    struct profile p;
    struct ct_error err;
    bool sound = profile_open(path, &p, &err) == CT_OK;
    if (sound) {
        sound = profile_validate(&p, &err) == CT_OK;
        profile_close(&p);
    }
    if (!sound) {
        char *aside = must_format("%s.bad", path);
        fprintf(stderr, "calltrail: not stored: %s\n", err.text);
        rename(path, aside);
        free(aside);
    }
    return sound;
}

static void say_that_it_waits(struct spool *s, const char *why)
{
    if (!s->is_warned)
        fprintf(stderr, "calltrail: slices wait in %s: %s\n", s->folder, why);
    s->is_warned = true;
}

/* Adds one slice; it is gone then. */
static int send_slice(struct spool *s, const char *name, struct ct_error *err)
{
    char *path = path_of(s, name), *sending;
    sending = ends_in(name, ".sending") ? must_strdup(path)
                                        : must_format("%.*s.sending", (int)strlen(path) - 4, path);
    int status = CT_OK;
    bool is_new;
    static const struct store_labels none; /* they are in the slice */
    if (is_sound(path)) {
        if (rename(path, sending) != 0)
            status = ct_fail_errno(err, errno, "%s: cannot be renamed", path);
        if (status == CT_OK)
            status = store_add(&s->store, sending, &none, &is_new, err);
        if (status == CT_OK)
            unlink(sending);
    }
    free(path);
    free(sending);
    return status;
}

/* As many as can be sent now. */
static int send_all(struct spool *s, struct ct_error *err)
{
    struct spool_files files = list_files(s);
    int status = CT_OK;
    if (files.names.count && !s->is_open) {
        status = store_open(s->wanted->url, &s->store, err);
        s->is_open = status == CT_OK;
    }
    for (size_t i = 0; i < files.names.count && status == CT_OK; i++)
        status = send_slice(s, files.names.items[i], err);
    files_free(&files);
    if (status == CT_OK) {
        s->is_warned = false;
        return CT_OK;
    }
    if (s->is_open) /* whatever it was, the next try begins anew */
        db_close(&s->store);
    s->is_open = false;
    return status;
}

/* One turn, if no other process does it. */
static bool turn(struct spool *s)
{
    struct ct_error err;
    char *path = path_of(s, ".lock");
    int lock = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    bool sent = true;
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0) {
        sent = send_all(s, &err) == CT_OK;
        if (!sent) {
            say_that_it_waits(s, err.text);
            shrink(s);
        }
    }
    if (lock >= 0)
        close(lock);
    free(path);
    return sent;
}

unsigned store_spool_carry(const void *context, const char *folder, uint64_t bytes, int wake)
{
    struct spool s = {.wanted = context, .folder = folder, .bytes_max = bytes};
    bool is_over = false;
    while (!is_over) {
        bool sent = turn(&s);
        struct pollfd p = {.fd = wake, .events = POLLIN};
        char bytes_read[256];
        poll(&p, 1, sent ? LOOK_MS : RETRY_MS);
        ssize_t n;
        while ((n = read(wake, bytes_read, sizeof bytes_read)) > 0)
            ;
        is_over = n == 0;
    }
    turn(&s);
    if (s.is_open)
        db_close(&s.store);
    struct spool_files left = list_files(&s);
    unsigned count = (unsigned)left.names.count;
    files_free(&left);
    return count;
}
