/*
 * Adding a profile: one transaction. What is new of names, code and contexts is written under a
 * lock that is held to the end of it, so that no two clients give one thing two ids; once a fleet's
 * contexts are known, which is soon, most profiles need no lock at all.
 */
#include "store/store.h"
#include "store/store_content.h"

#include "base/utf8.h"
#include "profile/slice.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

enum { LOOKUPS_AT_ONCE = 50000, COSTS_IN_A_ROW = 500000 };

struct addition {
    struct store *store;
    const struct profile *profile;
    struct content content;
    uint64_t taken_ns, ended_ns;
    uint64_t id; /* of the profile */
    bool has_lock;
};

/* ---- Names, code and contexts ---------------------------------------------------------------- */

/* Asks for the ids of those that have none yet, and says how many are left. */
static int look_up(struct addition *a, enum content_kind kind, uint32_t *missing,
                   struct ct_error *err)
{
    struct content_set *set = &a->content.sets[kind];
    VEC(uint32_t) asked = {0};
    int status = CT_OK;
    char *sql =
        must_format("SELECT t.n::int4, x.id FROM unnest($1::uuid[]) WITH ORDINALITY t(hash, "
                    "n) JOIN calltrail.%s x USING (hash)",
                    content_table(kind));
    *missing = 0;
    for (uint32_t from = 0; from < set->hashes.count && status == CT_OK;) {
        struct wire hashes = {0};
        asked.count = 0;
        for (; from < set->hashes.count && asked.count < LOOKUPS_AT_ONCE; from++)
            if (!set->ids[from])
                vec_push(&asked, from);
        wire_array(&hashes, TYPE_UUID, asked.count);
        for (size_t i = 0; i < asked.count; i++)
            wire_field_bytes(&hashes, key_set_get(&set->hashes, asked.items[i]),
                             sizeof(struct store_hash));
        PGresult *result = NULL;
        struct db_value value = {hashes.bytes.items, hashes.bytes.count, false};
        if (asked.count)
            status = db_query(a->store, sql, &value, 1, &result, err);
        for (int row = 0; result && row < PQntuples(result); row++) {
            uint32_t n = db_u32(result, row, 0);
            if (n >= 1 && n <= asked.count)
                set->ids[asked.items[n - 1]] = db_u32(result, row, 1);
        }
        *missing += (uint32_t)asked.count - (uint32_t)(result ? PQntuples(result) : 0);
        PQclear(result);
        vec_free(&hashes.bytes);
    }
    vec_free(&asked);
    free(sql);
    return status;
}

/* The same for all kinds at once, in one round trip: that is all that a profile without anything
 * new needs. The largest are asked for kind by kind. */
static int look_up_all(struct addition *a, struct ct_error *err)
{
    struct wire hashes[CONTENT_KINDS] = {0};
    struct db_value values[CONTENT_KINDS];
    PGresult *result = NULL;
    size_t total = 0;
    for (int kind = 0; kind < CONTENT_KINDS; kind++)
        total += a->content.sets[kind].hashes.count;
    if (total > LOOKUPS_AT_ONCE)
        return CT_OK;
    for (int kind = 0; kind < CONTENT_KINDS; kind++) {
        const struct key_set *set = &a->content.sets[kind].hashes;
        wire_array(&hashes[kind], TYPE_UUID, set->count);
        for (uint32_t i = 0; i < set->count; i++)
            wire_field_bytes(&hashes[kind], key_set_get(set, i), sizeof(struct store_hash));
        values[kind] = (struct db_value){hashes[kind].bytes.items, hashes[kind].bytes.count, false};
    }
    char *sql = must_strdup("");
    for (int kind = 0; kind < CONTENT_KINDS; kind++) {
        char *more = must_format("%s%sSELECT %d::int4, t.n::int4, x.id FROM unnest($%d::uuid[]) "
                                 "WITH ORDINALITY t(hash, n) JOIN calltrail.%s x USING (hash)",
                                 sql, kind ? " UNION ALL " : "", kind, kind + 1,
                                 content_table((enum content_kind)kind));
        free(sql);
        sql = more;
    }
    int status = db_query(a->store, sql, values, CONTENT_KINDS, &result, err);
    free(sql);
    for (int row = 0; result && row < PQntuples(result); row++) {
        uint32_t kind = db_u32(result, row, 0), n = db_u32(result, row, 1);
        if (kind < CONTENT_KINDS && n >= 1 && n <= a->content.sets[kind].hashes.count)
            a->content.sets[kind].ids[n - 1] = db_u32(result, row, 2);
    }
    PQclear(result);
    for (int kind = 0; kind < CONTENT_KINDS; kind++)
        vec_free(&hashes[kind].bytes);
    return status;
}

static bool is_known(const struct content_set *set)
{
    for (uint32_t i = 0; i < set->hashes.count; i++)
        if (!set->ids[i])
            return false;
    return true;
}

/* Gives ids to those that have none, and writes them. The lock is ours. */
static int write_new(struct addition *a, enum content_kind kind, struct ct_error *err)
{
    struct content_set *set = &a->content.sets[kind];
    const char *table = content_table(kind);
    PGresult *result;
    char *sql = must_format("SELECT coalesce(max(id), 0)::int4 FROM calltrail.%s", table);
    int status = db_query(a->store, sql, NULL, 0, &result, err);
    free(sql);
    CT_TRY(status);
    uint64_t next = db_u32(result, 0, 0) + UINT64_C(1);
    PQclear(result);
    struct wire rows = {0};
    db_copy_begin(&rows);
    for (uint32_t i = 0; i < set->hashes.count; i++) {
        if (set->ids[i])
            continue;
        if (next > INT32_MAX) {
            vec_free(&rows.bytes);
            return ct_fail(err, "the store is full: it has 2 billion different %ss", table);
        }
        set->ids[i] = (uint32_t)next++;
        content_row(&a->content, kind, i, &rows);
    }
    sql = must_format("COPY calltrail.%s FROM STDIN BINARY", table);
    status = db_copy(a->store, sql, &rows, err);
    free(sql);
    vec_free(&rows.bytes);
    return status;
}

static int settle(struct addition *a, enum content_kind kind, struct ct_error *err)
{
    uint32_t missing;
    if (is_known(&a->content.sets[kind]))
        return CT_OK;
    CT_TRY(look_up(a, kind, &missing, err));
    if (missing && !a->has_lock) {
        CT_TRY(db_run(a->store, "SELECT pg_advisory_xact_lock(7309453, 1)", err));
        a->has_lock = true;
        CT_TRY(look_up(a, kind, &missing, err)); /* another client may have been faster */
    }
    return missing ? write_new(a, kind, err) : CT_OK;
}

/* ---- The profile's own row ------------------------------------------------------------------- */

static void find_times(struct addition *a)
{
    const struct profile *p = a->profile;
    const struct ctp_fact *fact = profile_find_fact(p, CTP_SCOPE_PROFILE, 0, FACT_SLICE_START);
    const struct timespec *written = &p->file.status.st_mtim;
    for (uint32_t i = 0; i < profile_process_count(p); i++) {
        const struct ctp_process *process = profile_process(p, i);
        if (process->start_ns && (!a->taken_ns || process->start_ns < a->taken_ns))
            a->taken_ns = process->start_ns;
        a->ended_ns = process->end_ns > a->ended_ns ? process->end_ns : a->ended_ns;
    }
    if (!a->taken_ns)
        a->taken_ns = (uint64_t)written->tv_sec * 1000000000 + (uint64_t)written->tv_nsec;
    if (fact && fact->type == CTP_I64)
        a->taken_ns = fact->value;
    fact = profile_find_fact(p, CTP_SCOPE_PROFILE, 0, FACT_SLICE_END);
    if (fact && fact->type == CTP_I64)
        a->ended_ns = fact->value;
    if (a->ended_ns < a->taken_ns)
        a->ended_ns = a->taken_ns;
}

static bool has_label(const struct store_labels *labels, const char *key)
{
    for (size_t i = 0; i < labels->items.count; i++)
        if (strcmp(labels->items.items[i].key, key) == 0)
            return true;
    return false;
}

/* Those that the recorder was given. */
static void add_recorded_labels(const struct profile *p, struct store_labels *all)
{
    struct profile_range facts = profile_facts_of(p, CTP_SCOPE_PROFILE, 0);
    size_t prefix = strlen(FACT_LABEL);
    for (uint32_t i = facts.first; i < facts.end; i++) {
        const struct ctp_fact *fact = profile_fact(p, i);
        const char *key = profile_string(p, fact->key);
        if (fact->type == CTP_STRING && strncmp(key, FACT_LABEL, prefix) == 0 && key[prefix] &&
            !has_label(all, key + prefix))
            vec_push(&all->items,
                     (struct store_label){key + prefix, profile_string(p, fact->value)});
    }
}

/* Keys and values as two arrays: those that are given, and what the profile says itself. */
static void write_labels(const struct addition *a, const struct store_labels *given,
                         struct wire *keys, struct wire *values)
{
    const struct profile *p = a->profile;
    const struct ctp_fact *host = profile_find_fact(p, CTP_SCOPE_PROFILE, 0, "host");
    const char *command = profile_string(p, profile_process(p, 0)->command);
    const char *file = strrchr(command, '/');
    struct store_label own[] = {
        {"host", host && host->type == CTP_STRING ? profile_string(p, host->value) : ""},
        {"program", file ? file + 1 : command}};
    struct store_labels all = {0};
    for (size_t i = 0; i < given->items.count; i++)
        vec_push(&all.items, given->items.items[i]);
    add_recorded_labels(p, &all);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (*own[i].value && !has_label(&all, own[i].key))
            vec_push(&all.items, own[i]);
    wire_array(keys, TYPE_TEXT, all.items.count);
    wire_array(values, TYPE_TEXT, all.items.count);
    for (size_t i = 0; i < all.items.count; i++) {
        char *key = utf8_copy(all.items.items[i].key), *value = utf8_copy(all.items.items[i].value);
        wire_field_text(keys, key);
        wire_field_text(values, value);
        free(key);
        free(value);
    }
    vec_free(&all.items);
}

/* The skeleton's bytes, mapped; its descriptor is the mapping's. */
static int make_skeleton(const struct profile *p, struct mapped_file *out, struct ct_error *err)
{
    struct profile_writer *w;
    int fd = memfd_create("skeleton", MFD_CLOEXEC);
    if (fd < 0)
        return ct_fail_errno(err, errno, "no memory for a profile's outline");
    char *path = must_format("/proc/self/fd/%d", fd);
    int status = profile_writer_open(path, &w, err);
    if (status == CT_OK) {
        profile_copy_skeleton(p, w);
        status = profile_writer_commit(w, err);
    }
    if (status == CT_OK)
        status = file_map(path, out, err);
    free(path);
    close(fd);
    return status;
}

static int insert_profile(struct addition *a, const struct store_labels *labels, bool *is_new,
                          struct ct_error *err)
{
    XXH128_canonical_t hash;
    struct mapped_file skeleton;
    struct wire keys = {0}, values = {0}, numbers = {0};
    XXH128_canonicalFromHash(&hash, XXH3_128bits(a->profile->bytes, a->profile->size));
    CT_TRY(make_skeleton(a->profile, &skeleton, err));
    write_labels(a, labels, &keys, &values);
    wire_u64(&numbers, wire_time(a->taken_ns));
    wire_u64(&numbers, wire_time(a->ended_ns));
    wire_u64(&numbers, a->profile->size);
    const struct db_value fields[] = {
        {hash.digest, sizeof hash.digest, false},
        {numbers.bytes.items, 8, false},
        {numbers.bytes.items + 8, 8, false},
        {keys.bytes.items, keys.bytes.count, false},
        {values.bytes.items, values.bytes.count, false},
        {numbers.bytes.items + 16, 8, false},
        {skeleton.bytes, skeleton.size, false},
    };
    PGresult *result;
    int status = db_query(
        a->store,
        "INSERT INTO calltrail.profile (hash, taken, ended, labels, file_bytes, skeleton) "
        "VALUES ($1::uuid, $2::timestamptz, $3::timestamptz, jsonb_object($4::text[], $5::text[]), "
        "$6::int8, $7::bytea) ON CONFLICT (hash) DO NOTHING RETURNING id",
        fields, 7, &result, err);
    if (status == CT_OK) {
        *is_new = PQntuples(result) == 1;
        a->id = *is_new ? db_u64(result, 0, 0) : 0;
        PQclear(result);
    }
    file_unmap(&skeleton);
    vec_free(&keys.bytes);
    vec_free(&values.bytes);
    vec_free(&numbers.bytes);
    return status;
}

/* ---- Costs ----------------------------------------------------------------------------------- */

/* Contexts that have nothing and that nothing is below: kept too, so that no context is lost. */
static bool *find_empty_leaves(const struct addition *a)
{
    const struct profile *p = a->profile;
    const struct content *c = &a->content;
    uint32_t count = c->sets[CONTENT_CONTEXT].hashes.count;
    bool *is_empty = must_calloc((size_t)count + 1, sizeof *is_empty);
    memset(is_empty, true, count);
    for (uint32_t n = 0; n < p->node_count; n++) {
        uint32_t parent = profile_parent(p, n), number = c->numbers[CONTENT_CONTEXT][n] - 1;
        if (parent != CTP_NONE)
            is_empty[c->numbers[CONTENT_CONTEXT][parent] - 1] = false;
        for (uint32_t m = 0; m < p->metric_count; m++)
            is_empty[number] &= p->values[m][n] == 0;
    }
    return is_empty;
}

static void write_cost_row(const struct addition *a, uint32_t metric, const uint32_t *contexts,
                           const uint64_t *amounts, size_t count, struct wire *rows)
{
    struct wire array = {0};
    wire_u16(rows, 5);
    wire_field_u64(rows, wire_time(a->taken_ns));
    wire_field_u64(rows, a->id);
    wire_field_u32(rows, metric);
    wire_array(&array, TYPE_INT4, count);
    for (size_t i = 0; i < count; i++)
        wire_field_u32(&array, contexts[i]);
    wire_field_bytes(rows, array.bytes.items, array.bytes.count);
    array.bytes.count = 0;
    wire_array(&array, TYPE_INT8, count);
    for (size_t i = 0; i < count; i++)
        wire_field_u64(&array, amounts[i]);
    wire_field_bytes(rows, array.bytes.items, array.bytes.count);
    vec_free(&array.bytes);
}

/* One metric: by context, in rows of bounded size. */
static int write_metric(struct addition *a, uint32_t metric, const bool *is_empty,
                        struct ct_error *err)
{
    const struct profile *p = a->profile;
    const struct content *c = &a->content;
    const struct content_set *set = &c->sets[CONTENT_CONTEXT];
    uint64_t *sums = must_calloc((size_t)set->hashes.count + 1, sizeof *sums);
    for (uint32_t n = 0; n < p->node_count && metric < p->metric_count; n++)
        sums[c->numbers[CONTENT_CONTEXT][n] - 1] += p->values[metric][n];
    uint32_t name = metric < p->metric_count
                        ? content_id(c, CONTENT_STRING, profile_metric(p, metric)->name)
                        : 0;
    VEC(uint32_t) contexts = {0};
    VEC(uint64_t) amounts = {0};
    struct wire rows = {0};
    int status = CT_OK;
    for (uint32_t from = 0; from < set->hashes.count && status == CT_OK;) {
        contexts.count = amounts.count = 0;
        for (; from < set->hashes.count && contexts.count < COSTS_IN_A_ROW; from++) {
            if (!sums[from] && (metric || !is_empty[from]))
                continue;
            if (sums[from] > INT64_MAX)
                status = ct_fail(err, "%s: a value does not fit in the 63 bits of the database",
                                 p->name);
            vec_push(&contexts, set->ids[from]);
            vec_push(&amounts, sums[from]);
        }
        if (!contexts.count || status != CT_OK)
            continue;
        db_copy_begin(&rows);
        write_cost_row(a, name, contexts.items, amounts.items, contexts.count, &rows);
        status = db_copy(a->store, "COPY calltrail.cost FROM STDIN BINARY", &rows, err);
    }
    vec_free(&rows.bytes);
    vec_free(&contexts);
    vec_free(&amounts);
    free(sums);
    return status;
}

static int write_costs(struct addition *a, struct ct_error *err)
{
    bool *is_empty = find_empty_leaves(a);
    int status = CT_OK;
    /* A profile without metrics still has contexts. */
    uint32_t metrics = a->profile->metric_count ? a->profile->metric_count : 1;
    for (uint32_t i = 0; i < metrics && status == CT_OK; i++)
        status = write_metric(a, i, is_empty, err);
    free(is_empty);
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int make_partition(struct addition *a, struct ct_error *err)
{
    PGresult *result;
    struct wire time = {0};
    uint64_t day = a->taken_ns / UINT64_C(86400000000000) + 1;
    if (a->store->day == day)
        return CT_OK;
    wire_u64(&time, wire_time(a->taken_ns));
    struct db_value value = {time.bytes.items, time.bytes.count, false};
    int status = db_query(a->store, "SELECT calltrail.partition_for($1::timestamptz)", &value, 1,
                          &result, err);
    if (status == CT_OK) {
        a->store->day = day;
        PQclear(result);
    }
    vec_free(&time.bytes);
    return status;
}

static int add_in_transaction(struct addition *a, const struct store_labels *labels, bool *is_new,
                              struct ct_error *err)
{
    CT_TRY(db_run(a->store, "BEGIN", err));
    int status = insert_profile(a, labels, is_new, err);
    if (status == CT_OK && *is_new) {
        content_open(&a->content, a->profile);
        status = look_up_all(a, err);
        for (enum content_kind kind = 0; kind < CONTENT_KINDS && status == CT_OK; kind++)
            status = settle(a, kind, err);
        if (status == CT_OK)
            status = write_costs(a, err);
        content_close(&a->content);
    }
    if (status == CT_OK)
        return db_run(a->store, "COMMIT", err);
    db_run(a->store, "ROLLBACK", NULL);
    return status;
}

int store_add(struct store *store, const char *path, const struct store_labels *labels,
              bool *is_new, struct ct_error *err)
{
    const uint64_t latest_ns = UINT64_C(7258118400) * 1000000000; /* 2200: what is later is wrong */
    struct profile profile;
    struct ct_error why;
    CT_TRY(profile_open(path, &profile, err));
    struct addition a = {.store = store, .profile = &profile};
    int status = profile_validate(&profile, err);
    if (status == CT_OK) {
        find_times(&a);
        if (a.taken_ns > latest_ns || a.ended_ns > latest_ns)
            status = ct_fail(err, "%s: its time is after the year 2200", path);
    }
    if (status == CT_OK && (make_partition(&a, &why) != CT_OK ||
                            add_in_transaction(&a, labels, is_new, &why) != CT_OK)) {
        store->day = 0; /* another client may have dropped it */
        status = ct_fail(err, "%s: not added: %s", path, why.text);
    }
    profile_close(&profile);
    return status;
}
