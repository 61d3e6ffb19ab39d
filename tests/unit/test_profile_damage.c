/*
 * Damaged and hostile profiles: they are noticed, the message says where, and they cannot hurt.
 */
#include "../ctp_rehash.h"
#include "small_profile.h"

static void every_flipped_bit_is_noticed(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = small_bytes(&size);
    assert_true(survives(bytes, size));
    for (size_t i = 0; i < size; i++) {
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (uint8_t)(1 << bit);
            if (survives(bytes, size))
                fail_msg("bit %d of byte %zu was flipped and was not noticed", bit, i);
            bytes[i] ^= (uint8_t)(1 << bit);
        }
    }
    free(bytes);
}

/* With the hashes put right: some of these are valid, none may hurt. */
static void flipped_bits_behind_good_hashes_do_no_harm(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = small_bytes(&size);
    uint8_t *copy = must_realloc(NULL, size, 1);
    for (size_t i = 0; i < size; i++) {
        for (int value = 0; value < 256; value += 51) {
            memcpy(copy, bytes, size);
            copy[i] = (uint8_t)value;
            ctp_rehash(copy, size);
            survives(copy, size);
        }
    }
    free(copy);
    free(bytes);
}

static void every_truncation_is_noticed(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = small_bytes(&size);
    for (size_t length = 0; length < size; length++) {
        uint8_t *part = must_realloc(NULL, length, 1); /* so that a sanitizer sees the end */
        memcpy(part, bytes, length);
        struct profile p;
        struct ct_error err;
        assert_int_equal(profile_from_bytes(part, length, "x", &p, &err), CT_ERROR);
        assert_non_null(strstr(err.text, length ? "is truncated" : "is not a calltrail profile"));
        ctp_rehash(part, length); /* the size is right now, the contents end too early */
        assert_false(survives(part, length));
        free(part);
    }
    free(bytes);
}

static struct ctp_section *find_section(uint8_t *bytes, uint32_t kind, uint32_t aux)
{
    const struct ctp_header *header = (const void *)bytes;
    struct ctp_section *sections = (void *)(bytes + header->toc_offset);
    for (uint32_t i = 0; i < header->toc_count; i++)
        if (sections[i].kind == kind && sections[i].aux == aux)
            return &sections[i];
    fail_msg("no section of kind %u", kind);
    return NULL;
}

static void expect_open_error(uint8_t *bytes, size_t size, const char *expected)
{
    struct profile p;
    struct ct_error err;
    ctp_rehash(bytes, size);
    assert_int_equal(profile_from_bytes(bytes, size, "file.ctp", &p, &err), CT_ERROR);
    assert_string_equal(err.text, expected);
}

static void versions_are_told_apart(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = small_bytes(&size);
    struct ctp_header *header = (void *)bytes;
    header->major = 2;
    expect_open_error(bytes, size,
                      "file.ctp: written by a newer calltrail (format 2.2, this one reads up to "
                      "1.2)");
    header->major = 0;
    expect_open_error(bytes, size,
                      "file.ctp: written by an older calltrail (format 0.2, this one reads 1.0 to "
                      "1.2)");
    header->major = 1;
    header->minor = 9;
    find_section(bytes, CTP_EPOCHS, 0)->kind = 77;
    expect_open_error(bytes, size,
                      "file.ctp: has a section of kind 77, which this calltrail does not know "
                      "(the file has format 1.9, this one reads up to 1.2)");
    find_section(bytes, 77, 0)->flags = CTP_OPTIONAL;
    ctp_rehash(bytes, size);
    struct profile p;
    struct ct_error err;
    assert_int_equal(profile_from_bytes(bytes, size, "file.ctp", &p, &err), CT_OK);
    assert_int_equal(profile_epoch_count(&p), 0);
    profile_close(&p);
    free(bytes);
}

/* A newer minor version may have longer records: two epochs of 8 bytes become one of 16. */
static void longer_records_are_stepped_over(void **state)
{
    (void)state;
    struct profile_writer *w = begin();
    for (int i = 0; i < 4; i++)
        profile_add_epoch(w, i % 2 ? "skipped" : "seen");
    commit(w);
    size_t size;
    uint8_t *bytes = read_back(&size);
    struct ctp_section *section = find_section(bytes, CTP_EPOCHS, 0);
    section->element_size = 16;
    section->count = 2;
    ctp_rehash(bytes, size);
    struct profile p;
    struct ct_error err;
    assert_int_equal(profile_from_bytes(bytes, size, "x", &p, &err), CT_OK);
    assert_int_equal(profile_validate(&p, &err), CT_OK);
    assert_int_equal(profile_epoch_count(&p), 2);
    assert_string_equal(profile_string(&p, profile_epoch(&p, 1)->name), "seen");
    profile_close(&p);
    free(bytes);
}

static void bad_sections_are_refused(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = small_bytes(&size);
    struct ctp_section *metrics = find_section(bytes, CTP_METRICS, 0);
    struct ctp_section *parents = find_section(bytes, CTP_PARENTS, 0);
    struct ctp_section *values = find_section(bytes, CTP_VALUES, 1);
    struct ctp_section kept = *metrics, kept_parents = *parents, kept_values = *values;

    metrics->offset += 4;
    expect_open_error(bytes, size, "file.ctp: is damaged: section 12 (metrics) is not aligned");
    *metrics = kept;
    metrics->element_size = 16;
    expect_open_error(
        bytes, size, "file.ctp: is damaged: section 12 (metrics) has elements of 16 bytes, not 24");
    metrics->element_size = 28;
    expect_open_error(
        bytes, size, "file.ctp: is damaged: section 12 (metrics) has elements of 28 bytes, not 24");
    *metrics = kept;
    metrics->count = UINT64_MAX / 24 + 2; /* times 24 is a small number again */
    expect_open_error(bytes, size, "file.ctp: is damaged: section 12 (metrics) is not in the file");
    metrics->count = 100000;
    expect_open_error(bytes, size, "file.ctp: is damaged: section 12 (metrics) is not in the file");
    metrics->count = 1;
    expect_open_error(bytes, size,
                      "file.ctp: is damaged: section 3 has values of metric 1, which does not "
                      "exist");
    *metrics = kept;
    metrics->offset -= 8;
    char overlap[96];
    snprintf(overlap, sizeof overlap, "file.ctp: is damaged: two sections overlap at byte %u",
             (unsigned)metrics->offset);
    expect_open_error(bytes, size, overlap);
    *metrics = kept;

    parents->count = 5;
    expect_open_error(bytes, size,
                      "file.ctp: is damaged: there are parents for 5 nodes, but frames for 6");
    *parents = kept_parents;
    values->count = 5;
    expect_open_error(bytes, size, "file.ctp: is damaged: metric 1 has 5 values for 6 nodes");
    *values = kept_values;
    values->aux = 0;
    expect_open_error(bytes, size,
                      "file.ctp: is damaged: section 3 has values of metric 0, which has them "
                      "already");
    values->kind = 99;
    values->flags = CTP_OPTIONAL;
    expect_open_error(bytes, size, "file.ctp: is damaged: metric 1 has no values");
    *values = kept_values;
    metrics->kind = CTP_ROOTS;
    expect_open_error(bytes, size, "file.ctp: is damaged: it has two sections of kind roots");
    *metrics = kept;
    bytes[find_section(bytes, CTP_STRINGS, 0)->offset] = 'x';
    expect_open_error(bytes, size,
                      "file.ctp: is damaged: the strings do not begin and end with a zero byte");
    free(bytes);
}

/* One field of one record set to a value that breaks a rule, and what the full check says. */
static const struct rule {
    uint32_t kind, aux;
    size_t at; /* byte in the section */
    uint64_t value;
    size_t width;
    const char *expected;
} rules[] = {
#define FIELD(type, i, field) 0, (i) * sizeof(struct type) + offsetof(struct type, field)
    {CTP_MODULES, FIELD(ctp_module, 0, path), 9999, 4, "modules 0: its path is 9999, but"},
    {CTP_MODULES, FIELD(ctp_module, 0, kind), 5, 4, "modules 0: its kind is 5, which is not def"},
    {CTP_MODULES, FIELD(ctp_module, 0, build_id_size), 33, 4, "modules 0: its build-id is too"},
    {CTP_MODULES, FIELD(ctp_module, 0, build_id_size), 1, 4, "modules 0: its build-id goes on"},
    {CTP_FUNCTIONS, FIELD(ctp_function, 1, module), 1, 4,
     "functions 1: its module is 1, but there are only 1"},
    {CTP_FUNCTIONS, FIELD(ctp_function, 1, name), 9999, 4, "functions 1: its name is 9999"},
    {CTP_FUNCTIONS, FIELD(ctp_function, 1, file), 9999, 4, "functions 1: its file is 9999"},
    {CTP_LINES, FIELD(ctp_line, 0, function), 2, 4, "lines 0: its function is 2"},
    {CTP_LINES, FIELD(ctp_line, 1, file), 9999, 4, "lines 1: its file is 9999"},
    {CTP_FRAMES, FIELD(ctp_frame, 0, module), 1, 4, "frames 0: its module is 1"},
    {CTP_FRAMES, FIELD(ctp_frame, 0, function), 2, 4, "frames 0: its function is 2"},
    {CTP_FRAMES, FIELD(ctp_frame, 0, first_line), 1, 4, "frames 0: its last line is 2"},
    {CTP_FRAMES, FIELD(ctp_frame, 0, line_count), CTP_NONE, 4, "frames 0: its last line is 4294"},
    {CTP_FRAMES, FIELD(ctp_frame, 2, flags), 8, 4, "frames 2: its flags is 8"},
    {CTP_FRAMES, FIELD(ctp_frame, 2, gap), CTP_GAP_END, 4, "frames 2: its gap is 14"},
    {CTP_ARGUMENTS, 0, 4, 9999, 4, "arguments 1: its text is 9999"},
    {CTP_PROCESSES, FIELD(ctp_process, 1, parent), 1, 4, "processes 1: its parent does not come"},
    {CTP_PROCESSES, FIELD(ctp_process, 1, command), 9999, 4, "processes 1: its command is 9999"},
    {CTP_PROCESSES, FIELD(ctp_process, 1, first_argument), 0, 4,
     "processes 1: its arguments do not follow"},
    {CTP_PROCESSES, FIELD(ctp_process, 1, argument_count), 2, 4,
     "processes 1: its last argument is 4, but there are only 4"},
    {CTP_PROCESSES, FIELD(ctp_process, 1, argument_count), 0, 4,
     "arguments 3: it belongs to no process"},
    {CTP_PROCESSES, FIELD(ctp_process, 1, flags), 4, 4, "processes 1: its flags is 4"},
    {CTP_PROCESSES, FIELD(ctp_process, 1, exit_kind), 4, 4, "processes 1: its exit kind is 4"},
    {CTP_THREADS, FIELD(ctp_thread, 0, process), CTP_NONE, 4, "threads 0: its process is 4294967"},
    {CTP_THREADS, FIELD(ctp_thread, 0, name), 9999, 4, "threads 0: its name is 9999"},
    {CTP_THREADS, FIELD(ctp_thread, 1, creator), 6, 4, "threads 1: its creator is 6, but there ar"},
    {CTP_EPOCHS, FIELD(ctp_epoch, 0, name), 9999, 4, "epochs 0: its name is 9999"},
    {CTP_METRICS, FIELD(ctp_metric, 0, name), 9999, 4, "metrics 0: its name is 9999"},
    {CTP_METRICS, FIELD(ctp_metric, 0, unit), 9999, 4, "metrics 0: its unit is 9999"},
    {CTP_METRICS, FIELD(ctp_metric, 0, description), 9999, 4, "metrics 0: its description is 999"},
    {CTP_METRICS, FIELD(ctp_metric, 0, kind), 3, 4, "metrics 0: its kind is 3"},
    {CTP_ROOTS, FIELD(ctp_root, 0, first_node), 1, 4, "roots 0: its nodes do not follow those"},
    {CTP_ROOTS, FIELD(ctp_root, 0, node_count), 0, 4, "roots 0: it has no nodes"},
    {CTP_ROOTS, FIELD(ctp_root, 0, node_count), 3, 4, "roots 1: its nodes do not follow those"},
    {CTP_ROOTS, FIELD(ctp_root, 1, node_count), 1, 4, "roots 1: it is the last one, but there"},
    {CTP_ROOTS, FIELD(ctp_root, 1, node_count), 3, 4, "roots 1: its last node is 6, but there are"},
    {CTP_ROOTS, FIELD(ctp_root, 1, thread), 2, 4, "roots 1: its thread is 2"},
    {CTP_ROOTS, FIELD(ctp_root, 1, epoch), 1, 4, "roots 1: its epoch is 1"},
    {CTP_FACTS, FIELD(ctp_fact, 0, scope), 5, 4, "facts 0: its scope is 5"},
    {CTP_FACTS, FIELD(ctp_fact, 0, type), 4, 4, "facts 0: its type is 4"},
    {CTP_FACTS, FIELD(ctp_fact, 0, index), 1, 4, "facts 0: it is about the whole profile, but"},
    {CTP_FACTS, FIELD(ctp_fact, 2, index), 2, 4, "facts 2: its index is 2, but there are only 2"},
    {CTP_FACTS, FIELD(ctp_fact, 0, key), 9999, 4, "facts 0: its key is 9999"},
    {CTP_FACTS, FIELD(ctp_fact, 0, key), 0, 4, "facts 0: its key is empty"},
    {CTP_FACTS, FIELD(ctp_fact, 2, value), 9999, 8, "facts 2: its value is 9999"},
    {CTP_PARENTS, 0, 3 * 4, 3, 4, "nodes 3: its parent does not come before it"},
    {CTP_PARENTS, 0, 3 * 4, CTP_NONE - 1, 4, "nodes 3: its parent does not come before it"},
    {CTP_PARENTS, 0, 5 * 4, 3, 4, "nodes 5: its parent belongs to another root"},
    {CTP_PARENTS, 0, 1 * 4, CTP_NONE, 4, "nodes 1: it is a root, but has a frame"},
    {CTP_PARENTS, 0, 4 * 4, 3, 4, "nodes 4: it has no frame, but is not a root"},
    {CTP_NODE_FRAMES, 0, 5 * 4, 3, 4, "nodes 5: its frame is 3, but there are only 3"},
    {CTP_TIME_RUNS, FIELD(ctp_time_run, 0, metric), 2, 4,
     "time runs 0: its metric is 2, but there"},
    {CTP_TIME_RUNS, FIELD(ctp_time_run, 0, value), 3, 8, "time runs 1: it is out of order"},
    {CTP_TIME_RUNS, FIELD(ctp_time_run, 0, count), 0, 4, "time runs 0: it has no times"},
    {CTP_TIME_RUNS, FIELD(ctp_time_run, 1, first), 2, 4, "time runs 1: its times do not follow"},
    {CTP_TIME_RUNS, FIELD(ctp_time_run, 1, count), 2, 4, "time runs 1: its last time is 4, but th"},
    {CTP_TIMES, 0, 3 * 8, 6, 4, "times 3: its node does not exist"},
    {CTP_TIMES, 0, 2 * 8 + 4, 4, 4, "times 2: it is out of order"},
    {CTP_TIMES, 0, 1 * 8, 0, 4, "times 1: it is out of order"},
    {CTP_VALUES, 1, 3 * 8, UINT64_MAX, 8, "metric values 1: the total does not fit in 64 bits"},
#undef FIELD
};

static void every_rule_is_checked(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = small_bytes(&size);
    uint8_t *copy = must_realloc(NULL, size, 1);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const struct rule *rule = &rules[i];
        memcpy(copy, bytes, size);
        const struct ctp_section *section = find_section(copy, rule->kind, rule->aux);
        memcpy(copy + section->offset + rule->at, &rule->value, rule->width);
        ctp_rehash(copy, size);
        struct profile p;
        struct ct_error err;
        assert_int_equal(profile_from_bytes(copy, size, "f", &p, &err), CT_OK);
        assert_int_equal(profile_validate(&p, &err), CT_ERROR);
        if (strncmp(err.text, "f: ", 3) != 0 ||
            strncmp(err.text + 3, rule->expected, strlen(rule->expected)) != 0)
            fail_msg("rule %zu: expected '%s', got '%s'", i, rule->expected, err.text);
        profile_close(&p);
        survives(copy, size);
    }
    free(copy);
    free(bytes);
}

static void expect_invalid(uint8_t *bytes, size_t size, const char *expected)
{
    ctp_rehash(bytes, size);
    struct profile p;
    struct ct_error err;
    assert_int_equal(profile_from_bytes(bytes, size, "f", &p, &err), CT_OK);
    assert_int_equal(profile_validate(&p, &err), CT_ERROR);
    assert_string_equal(err.text, expected);
    profile_close(&p);
}

static void facts_out_of_order_are_noticed(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = small_bytes(&size);
    struct ctp_fact *facts = (void *)(bytes + find_section(bytes, CTP_FACTS, 0)->offset);
    struct ctp_fact kept[3] = {facts[0], facts[1], facts[2]};
    facts[0] = kept[1]; /* the same scope, other keys */
    facts[1] = kept[0];
    expect_invalid(bytes, size, "f: facts 1: it is out of order");
    facts[0] = kept[0]; /* other scopes */
    facts[1] = kept[2];
    facts[2] = kept[1];
    expect_invalid(bytes, size, "f: facts 2: it is out of order");
    facts[1] = kept[0];
    facts[2] = kept[2];
    expect_invalid(bytes, size, "f: facts 1: its key is there already");
    free(bytes);
}

static void roots_match_their_nodes(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = small_bytes(&size);
    struct ctp_root *roots = (void *)(bytes + find_section(bytes, CTP_ROOTS, 0)->offset);
    uint32_t *parents = (void *)(bytes + find_section(bytes, CTP_PARENTS, 0)->offset);
    uint32_t *frames = (void *)(bytes + find_section(bytes, CTP_NODE_FRAMES, 0)->offset);
    roots[0].node_count = 3;
    roots[1].first_node = 3;
    roots[1].node_count = 3;
    expect_invalid(bytes, size, "f: roots 1: its first node is not a root");
    parents[3] = frames[3] = CTP_NONE;
    expect_invalid(bytes, size, "f: roots: there are 2, but 3 nodes without a parent");
    free(bytes);
}

/* What a reader sees of numbers that point nowhere, before the file has been checked. */
static void hostile_numbers_are_not_followed(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = small_bytes(&size);
    struct ctp_process *processes = (void *)(bytes + find_section(bytes, CTP_PROCESSES, 0)->offset);
    struct ctp_root *roots = (void *)(bytes + find_section(bytes, CTP_ROOTS, 0)->offset);
    uint32_t *parents = (void *)(bytes + find_section(bytes, CTP_PARENTS, 0)->offset);
    uint32_t *frames = (void *)(bytes + find_section(bytes, CTP_NODE_FRAMES, 0)->offset);
    uint64_t *values = (void *)(bytes + find_section(bytes, CTP_VALUES, 1)->offset);
    processes[0].parent = 1;
    processes[1].parent = 1;
    roots[1].node_count = 1000;
    parents[2] = 3;
    parents[3] = 3;
    frames[5] = 3;
    values[0] = values[1] = UINT64_MAX; /* add up to more than fits */
    ctp_rehash(bytes, size);
    struct profile p;
    struct ct_error err;
    assert_int_equal(profile_from_bytes(bytes, size, "f", &p, &err), CT_OK);
    assert_int_equal(profile_process_parent(&p, 0), CTP_NONE);
    assert_int_equal(profile_process_parent(&p, 1), CTP_NONE);
    assert_int_equal(profile_root_of(&p, 5), 1);
    assert_int_equal(profile_root_of(&p, 6), CTP_NONE);
    assert_int_equal(profile_parent(&p, 2), CTP_NONE);
    assert_int_equal(profile_parent(&p, 3), CTP_NONE);
    assert_int_equal(profile_node_frame(&p, 5), CTP_NONE);
    struct profile_stats stats;
    profile_stats(&p, &stats);
    assert_true(stats.metrics[1].total == UINT64_MAX);
    profile_stats_free(&stats);
    profile_close(&p);
    free(bytes);
}

/* Strings that fill their section to the last byte before other contents. */
static void strings_end_with_their_section(void **state)
{
    (void)state;
    char text[8] = "a";
    for (size_t length = 1; length < sizeof text; length++) {
        memset(text, 'a', length);
        struct profile_writer *w = begin();
        profile_add_epoch(w, text);
        commit(w);
        struct profile p;
        struct ct_error err;
        assert_int_equal(profile_open(path, &p, &err), CT_OK);
        assert_string_equal(profile_string(&p, p.strings_size - length - 1), text);
        assert_string_equal(profile_string(&p, p.strings_size), "");
        assert_string_equal(profile_string(&p, UINT64_MAX), "");
        profile_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_flipped_bit_is_noticed),    TEST(flipped_bits_behind_good_hashes_do_no_harm),
        TEST(every_truncation_is_noticed),     TEST(versions_are_told_apart),
        TEST(longer_records_are_stepped_over), TEST(bad_sections_are_refused),
        TEST(every_rule_is_checked),           TEST(facts_out_of_order_are_noticed),
        TEST(roots_match_their_nodes),         TEST(hostile_numbers_are_not_followed),
        TEST(strings_end_with_their_section),
    };
    return cmocka_run_group_tests_name("profile damage", tests, NULL, NULL);
}
