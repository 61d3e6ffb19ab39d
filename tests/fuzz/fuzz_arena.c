/*
 * Any bytes as an arena that a process has left: a profile is made of it, and a trace, or it is
 * said why not. The first byte says which engine and which events it is of.
 */
#include "../made_arena.h"
#include "profile/profile.h"

#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *profile_path, *trace_path;

static void remove_outputs(void)
{
    unlink(profile_path);
    unlink(trace_path);
    *strrchr(profile_path, '/') = '\0';
    rmdir(profile_path);
}

static void make_paths(void)
{
    char folder[] = "/tmp/fuzz-arena-XXXXXX";
    if (!mkdtemp(folder))
        abort();
    profile_path = must_format("%s/made.ctp", folder);
    trace_path = must_format("%s/made.trace", folder);
    atexit(remove_outputs);
}

/* No file that a module names is opened: those are other readers' inputs. */
static void hide_files(const struct fenced *arena)
{
    struct arena_view view = {.bytes = arena->bytes, .size = arena->size};
    struct module_walk walk = module_walk_begin(&view);
    while (module_walk_next(&walk))
        ((struct arena_module *)(uintptr_t)walk.module)->kind = MADE_KIND;
}

static void check_profile(void)
{
    struct profile p;
    struct ct_error err;
    if (profile_open(profile_path, &p, &err) != CT_OK || profile_validate(&p, &err) != CT_OK) {
        fprintf(stderr, "the profile is not valid: %s\n", err.text);
        abort();
    }
    profile_close(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 + sizeof(struct arena_header)) /* the supervisor has checked that much */
        return 0;
    if (!profile_path)
        make_paths();
    bool is_exact = data[0] & 1;
    struct arena_events events = {.mask = EVENT_CPU | (data[0] & 0x3eu), .memory_period_bytes = 1};
    struct ct_error err;
    struct fenced arena = fence(data + 1, (size - 1) & ~(size_t)7);
    hide_files(&arena);
    if (collect_bytes(&arena, record_engine_at(is_exact ? ENGINE_exact : ENGINE_sample), &events,
                      profile_path, &err) == CT_OK)
        check_profile();
    if (is_exact)
        trace_bytes(&arena, trace_path, &err);
    unfence(&arena);
    return 0;
}
