/*
 * Any bytes as a profile: open, walk every accessor, check, print, make a page of it. Nothing may
 * crash, hang or take more memory than the bytes suggest. The bytes are tried as they are, and with
 * the hashes put right, so that what a mutation changed is looked at rather than refused.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined … tests/fuzz/fuzz_profile.c
 *     ./fuzz_profile -max_len=65536 CORPUS      (seeds: gen_profile --nodes 20 …)
 */
#include "../ctp_rehash.h"
#include "profile/profile.h"
#include "view/page_data.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Uses a value so that the read is not optimized away. */
static volatile uint64_t sink;

static void use(uint64_t value)
{
    sink += value;
}

static void use_string(const struct profile *p, uint64_t offset)
{
    /* Bounded: many records may point at one long string. */
    use(strnlen(profile_string(p, offset), 64));
}

static void walk_records(const struct profile *p)
{
    for (uint32_t i = 0; i <= profile_module_count(p); i++)
        use_string(p, profile_module(p, i)->path);
    for (uint32_t i = 0; i <= profile_function_count(p); i++)
        use_string(p, profile_function(p, i)->name);
    for (uint32_t i = 0; i <= profile_frame_count(p); i++) {
        const struct ctp_frame *frame = profile_frame(p, i);
        const struct ctp_line *line;
        use_string(p, profile_module(p, frame->module)->path);
        for (uint32_t k = 0; k < 100 && (line = profile_frame_line(p, frame, k)); k++)
            use_string(p, profile_function(p, line->function)->name);
        use((uintptr_t)profile_frame_line(p, frame, UINT32_MAX));
    }
    for (uint32_t i = 0; i <= profile_process_count(p); i++) {
        const struct ctp_process *process = profile_process(p, i);
        const char *argument;
        for (uint32_t k = 0; k < 100 && (argument = profile_argument(p, process, k)); k++)
            use(strnlen(argument, 64));
        uint32_t at = i;
        for (int k = 0; k < 1000 && at != CTP_NONE; k++)
            at = profile_process_parent(p, at);
    }
    for (uint32_t i = 0; i <= profile_thread_count(p); i++)
        use(profile_process(p, profile_thread(p, i)->process)->pid);
    for (uint32_t i = 0; i <= profile_root_count(p); i++)
        use(profile_thread(p, profile_root(p, i)->thread)->tid);
    for (uint32_t scope = 0; scope <= CTP_SCOPE_END; scope++)
        use((uintptr_t)profile_find_fact(p, (enum ctp_scope)scope, 0, "samples"));
}

static void walk_nodes(const struct profile *p)
{
    uint64_t steps_left = 1000000;
    for (uint32_t i = 0; i < p->node_count + 1; i++) {
        uint32_t steps = 0;
        for (uint32_t at = i; at != CTP_NONE && steps_left; at = profile_parent(p, at)) {
            if (steps++ > i)
                abort(); /* more ancestors than lower numbers: a loop */
            steps_left--;
        }
        char name[64];
        if (i < 1000)
            use((unsigned char)*profile_node_name(p, i, name, sizeof name));
        use(profile_root_of(p, i));
        for (uint32_t m = 0; m < p->metric_count + 1; m++)
            use(profile_value(p, m, i));
    }
}

/* All of it, and cut; as the commands do, when the tables are valid. */
static void make_pages(const struct profile *p, FILE *out)
{
    struct ct_error err;
    static const struct page_options all, cut = {.cut = {.min_share = 2, .nodes_max = 10}};
    if (profile_validate_tables(p, &err) != CT_OK)
        return;
    page_data_write(p, &all, out, &err);
    page_data_write(p, &cut, out, &err);
}

static void try_bytes(const void *bytes, size_t size)
{
    static FILE *nowhere;
    if (!nowhere)
        nowhere = fopen("/dev/null", "w");
    struct profile profile;
    struct ct_error err;
    if (profile_from_bytes(bytes, size, "input", &profile, &err) != CT_OK)
        return;
    walk_records(&profile);
    walk_nodes(&profile);
    profile_validate_tables(&profile, &err);
    profile_validate(&profile, &err);
    profile_print_text(&profile, false, nowhere);
    profile_print_text(&profile, true, nowhere);
    profile_print_json(&profile, nowhere);
    make_pages(&profile, nowhere);
    profile_close(&profile);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Exactly as long as the input, so that the sanitizer sees one byte too many. */
    void *copy = NULL;
    if (posix_memalign(&copy, CTP_ALIGNMENT, size ? size : 1) != 0)
        return 0;
    memcpy(copy, data, size);
    try_bytes(copy, size);
    ctp_rehash(copy, size);
    try_bytes(copy, size);
    free(copy);
    return 0;
}
