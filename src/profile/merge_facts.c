/*
 * Facts when profiles are merged. Whole numbers are counts and are summed, and so are seconds
 * (keys that end in _s), in whole microseconds, so that the order of the sums does not matter.
 * Everything else stays only if all that were merged have it, and the same. One rate is made anew.
 */
#include "profile/merge_state.h"

#include <math.h>
#include <string.h>

static const double MICROSECONDS = 1e6;

static bool is_seconds(const struct merge *m, const struct fact_key *key)
{
    const char *name = merge_text(m, key->key);
    size_t length = strlen(name);
    return key->type == CTP_F64 && length > 2 && strcmp(name + length - 2, "_s") == 0;
}

static bool is_own(const char *key)
{
    return strcmp(key, FACT_PERIOD_MIN) == 0 || strcmp(key, FACT_PERIOD_MAX) == 0 ||
           strcmp(key, FACT_SAMPLES) == 0 || strcmp(key, FACT_PROFILES) == 0 ||
           strcmp(key, FACT_DROPPED) == 0;
}

static double as_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t as_microseconds(uint64_t bits)
{
    double value = as_double(bits) * MICROSECONDS;
    return value >= 0 && value < 1e18 ? (uint64_t)llround(value) : 0;
}

/* Sums that do not fit stay at the greatest number. */
static uint64_t sum(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

static void add_fact(struct merge *m, const struct fact_key *key, uint64_t value)
{
    uint32_t before = m->facts.count, number = key_set_add(&m->facts, key);
    bool counts = key->type == CTP_U64, seconds = is_seconds(m, key);
    if (seconds)
        value = as_microseconds(value);
    if (number == before) {
        vec_push(&m->fact_records, (struct merged_fact){.value = value, .seen = 1});
        return;
    }
    struct merged_fact *fact = &m->fact_records.items[number];
    fact->seen++;
    if (counts || seconds)
        fact->value = sum(fact->value, value);
    else
        fact->differs |= fact->value != value;
}

void merge_count_instance(struct merge *m, enum ctp_scope scope, uint32_t index)
{
    while (m->instances[scope].count <= index)
        vec_push(&m->instances[scope], 0);
    m->instances[scope].items[index]++;
}

/* Parts of a recording: the first one has said it of all. */
static bool is_said(const struct merge *m, uint32_t scope)
{
    return m->parts && m->profiles && (scope == CTP_SCOPE_PROFILE || scope == CTP_SCOPE_METRIC);
}

void merge_add_facts(struct merge *m, const struct profile *p, uint32_t *const maps[CTP_SCOPE_END])
{
    merge_count_instance(m, CTP_SCOPE_PROFILE, 0);
    for (uint32_t i = 0; i < profile_fact_count(p); i++) {
        const struct ctp_fact *fact = profile_fact(p, i);
        const char *name = profile_string(p, fact->key);
        if (fact->scope >= CTP_SCOPE_END || fact->type > CTP_STRING || is_own(name) ||
            is_said(m, fact->scope))
            continue;
        struct fact_key key = {fact->scope, maps[fact->scope] ? maps[fact->scope][fact->index] : 0,
                               strings_add(&m->texts, name), fact->type};
        uint64_t value = fact->value;
        if (fact->type == CTP_STRING)
            value = strings_add(&m->texts, profile_string(p, fact->value));
        add_fact(m, &key, value);
    }
}

static const struct merged_fact *find_fact(const struct merge *m, const struct fact_key *like,
                                           uint32_t name, enum ctp_fact_type type)
{
    struct fact_key key = {like->scope, like->index, name, type};
    uint32_t number;
    return key_set_find(&m->facts, &key, &number) ? &m->fact_records.items[number] : NULL;
}

/* Samples for each second of CPU time, from the sums. 0 when one of them is not known. */
static double rate_of(const struct merge *m, const struct fact_key *key)
{
    const struct merged_fact *count = find_fact(m, key, m->samples_text, CTP_U64),
                             *time = find_fact(m, key, m->seconds_text, CTP_F64);
    return count && time && time->value
               ? (double)count->value / ((double)time->value / MICROSECONDS)
               : 0;
}

static void write_fact(const struct merge *m, struct profile_writer *w, uint32_t number,
                       uint32_t place)
{
    struct fact_key key;
    memcpy(&key, key_set_get(&m->facts, number), sizeof key);
    const struct merged_fact *fact = &m->fact_records.items[number];
    const char *name = merge_text(m, key.key);
    enum ctp_scope scope = (enum ctp_scope)key.scope;
    uint32_t instances = is_said(m, key.scope) ? 1 : m->instances[scope].items[key.index];
    if (key.type == CTP_U64) {
        profile_fact_u64(w, scope, place, name, fact->value);
    } else if (is_seconds(m, &key)) {
        if (!find_fact(m, &key, key.key, CTP_U64)) /* the same as a whole number goes first */
            profile_fact_f64(w, scope, place, name, (double)fact->value / MICROSECONDS);
    } else if (strcmp(name, "rate_got_hz") == 0 && instances > 1 && rate_of(m, &key) > 0) {
        profile_fact_f64(w, scope, place, name, rate_of(m, &key));
    } else if (!fact->differs && fact->seen == instances) {
        if (key.type == CTP_STRING)
            profile_fact_string(w, scope, place, name, merge_text(m, (uint32_t)fact->value));
        else if (key.type == CTP_I64)
            profile_fact_i64(w, scope, place, name, (int64_t)fact->value);
        else
            profile_fact_f64(w, scope, place, name, as_double(fact->value));
    }
}

struct fact_order {
    const struct merge *merge;
    uint32_t *const *ranks;
};

static uint32_t place_of(const struct fact_order *o, const struct fact_key *key)
{
    return o->ranks[key->scope] ? o->ranks[key->scope][key->index] : 0;
}

static int compare_facts(const void *a, const void *b, void *order)
{
    const struct fact_order *o = order;
    const struct fact_key *x = key_set_get(&o->merge->facts, *(const uint32_t *)a),
                          *y = key_set_get(&o->merge->facts, *(const uint32_t *)b);
    uint32_t first = place_of(o, x), second = place_of(o, y);
    if (x->scope != y->scope)
        return x->scope < y->scope ? -1 : 1;
    if (first != second)
        return first < second ? -1 : 1;
    int names = strcmp(merge_text(o->merge, x->key), merge_text(o->merge, y->key));
    return names ? names : (x->type > y->type) - (x->type < y->type);
}

/* In order, so that the strings of the file are in the same order too. */
void merge_write_facts(const struct merge *m, struct profile_writer *w,
                       uint32_t *const ranks[CTP_SCOPE_END])
{
    struct fact_order order = {m, ranks};
    uint32_t *numbers = must_calloc((size_t)m->facts.count + 1, sizeof *numbers);
    for (uint32_t i = 0; i < m->facts.count; i++)
        numbers[i] = i;
    qsort_r(numbers, m->facts.count, sizeof *numbers, compare_facts, &order);
    for (uint32_t i = 0; i < m->facts.count; i++)
        write_fact(m, w, numbers[i], place_of(&order, key_set_get(&m->facts, numbers[i])));
    free(numbers);
}
