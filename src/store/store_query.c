/*
 * The sum of chosen profiles. The server adds up their costs by context; what they say of
 * themselves is merged here, from their skeletons, by what merges files: so the result is the same.
 */
#include "store/store_query.h"

#include "profile/merge.h"
#include "store/store_sum.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct question {
    struct merge *merge;
    VEC(uint64_t) profiles;
    uint64_t first, last; /* when they were taken, by the server's clock */
};

static int take_profile(void *context, const PGresult *row, struct ct_error *err)
{
    struct question *q = context;
    struct profile skeleton;
    char name[64];
    size_t size;
    const char *bytes = db_bytes(row, 0, 2, &size);
    uint64_t id = db_u64(row, 0, 0), taken = db_u64(row, 0, 1);
    snprintf(name, sizeof name, "profile %llu of the store", (unsigned long long)id);
    void *aligned = must_realloc(NULL, size + 1, 1);
    memcpy(aligned, bytes, size);
    int status = profile_from_bytes(aligned, size, name, &skeleton, err);
    if (status == CT_OK) {
        status = profile_validate(&skeleton, err);
        if (status == CT_OK)
            status = merge_add(q->merge, &skeleton, err);
        profile_close(&skeleton);
    }
    free(aligned);
    if (!q->profiles.count || (int64_t)taken < (int64_t)q->first)
        q->first = taken;
    if (!q->profiles.count || (int64_t)taken > (int64_t)q->last)
        q->last = taken;
    vec_push(&q->profiles, id);
    return status;
}

/* The costs as a profile without a name of its own, into the merge. */
static int add_costs(const struct sum *sum, struct merge *merge, struct ct_error *err)
{
    struct profile_writer *writer;
    struct profile costs;
    int fd = memfd_create("costs", MFD_CLOEXEC);
    if (fd < 0)
        return ct_fail_errno(err, errno, "no memory for costs");
    char *path = must_format("/proc/self/fd/%d", fd);
    int status = profile_writer_open(path, &writer, err);
    if (status == CT_OK) {
        sum_write(sum, writer);
        status = profile_writer_commit(writer, err);
    }
    if (status == CT_OK && (status = profile_open(path, &costs, err)) == CT_OK) {
        status = merge_add_costs(merge, &costs, err);
        profile_close(&costs);
    }
    free(path);
    close(fd);
    return status;
}

static int read_costs(struct question *q, struct store *store, struct ct_error *err)
{
    struct wire ids = {0};
    struct sum sum;
    sum_init(&sum);
    wire_array(&ids, TYPE_INT8, q->profiles.count);
    for (size_t i = 0; i < q->profiles.count; i++)
        wire_field_u64(&ids, q->profiles.items[i]);
    int status = sum_read(&sum, store, &ids, q->first, q->last, err);
    if (status == CT_OK)
        status = add_costs(&sum, q->merge, err);
    sum_free(&sum);
    vec_free(&ids.bytes);
    return status;
}

static int answer(struct question *q, struct store *store, const struct store_selection *selection,
                  struct ct_error *err)
{
    struct selection_values values;
    selection_values(selection, &values);
    int status =
        db_each(store, "SELECT p.id, p.taken, p.skeleton FROM calltrail.profile p WHERE " SELECTED,
                values.items, SELECTION_VALUES, take_profile, q, err);
    selection_values_free(&values);
    if (status == CT_OK && !q->profiles.count)
        status = ct_fail(err, "no profile of the store has these labels and times");
    return status == CT_OK ? read_costs(q, store, err) : status;
}

int store_query(struct store *store, const struct store_selection *selection, const char *output,
                uint32_t *profiles, struct ct_error *err)
{
    struct question q = {.merge = merge_begin(&(struct merge_options){0})};
    /* A day's table that is dropped is gone for older snapshots, too: the lock keeps tables, and is
     * taken before there is a snapshot. */
    int status = db_run(store,
                        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "
                        "LOCK TABLE ONLY calltrail.cost IN ACCESS SHARE MODE",
                        err);
    if (status == CT_OK)
        status = answer(&q, store, selection, err);
    db_run(store, "ROLLBACK", NULL);
    if (status == CT_OK)
        status = merge_write(q.merge, output, err);
    *profiles = (uint32_t)q.profiles.count;
    vec_free(&q.profiles);
    merge_free(q.merge);
    return status;
}
