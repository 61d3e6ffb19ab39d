#include "names/name_cache.h"

#include "map/cache.h"
#include "profile/profile.h"

#include <string.h>
#include <xxhash.h>

/* A million places are some 50 MB; no program has that many hot ones. */
enum { PLACES_MAX = 1 << 20 };
static const uint64_t CACHE_MOST_BYTES = UINT64_C(512) << 20;

void name_cache_open(struct name_cache *cache)
{
    struct ct_error why;
    cache->folder = cache_folder("names-1", &why);
}

void name_cache_close(struct name_cache *cache)
{
    free(cache->folder);
}

char *name_cache_entry(const struct name_cache *cache, const struct debug_module *module,
                       const char *debug_path)
{
    struct stat status;
    char hex[2 * CACHE_BUILD_ID_MAX + 1];
    if (!cache->folder || !module->build_id_size || stat(debug_path, &status) != 0)
        return NULL;
    uint64_t identity[] = {XXH3_64bits(debug_path, strlen(debug_path)), (uint64_t)status.st_size,
                           (uint64_t)status.st_mtim.tv_sec, (uint64_t)status.st_mtim.tv_nsec,
                           status.st_ino};
    return must_format("%s/%s-%016lx.names", cache->folder,
                       build_id_hex(module->build_id, module->build_id_size, hex),
                       (unsigned long)XXH3_64bits(identity, sizeof identity));
}

static void take_profile(const struct profile *p, struct sources *out)
{
    for (uint32_t i = 0; i < profile_function_count(p); i++) {
        struct ctp_function function = *profile_function(p, i);
        function.name = strings_add(&out->strings, profile_string(p, function.name));
        function.file = strings_add(&out->strings, profile_string(p, function.file));
        vec_push(&out->functions, function);
    }
    for (uint32_t i = 0; i < profile_line_count(p); i++) {
        struct ctp_line line = *profile_line(p, i);
        line.file = strings_add(&out->strings, profile_string(p, line.file));
        vec_push(&out->lines, line);
    }
    for (uint32_t i = 0; i < profile_frame_count(p); i++) {
        const struct ctp_frame *frame = profile_frame(p, i);
        vec_push(&out->places,
                 (struct source_place){frame->offset, frame->first_line, frame->line_count});
    }
}

/* Only calltrail writes there; but a damaged entry must not name things wrongly. */
static bool is_sound(const struct profile *p, const struct debug_module *module)
{
    const struct ctp_module *m = profile_module(p, 0);
    if (profile_validate(p, NULL) != CT_OK || m->build_id_size != module->build_id_size ||
        memcmp(m->build_id, module->build_id, m->build_id_size) != 0)
        return false;
    for (uint32_t i = 1; i < profile_frame_count(p); i++)
        if (profile_frame(p, i - 1)->offset >= profile_frame(p, i)->offset)
            return false;
    return true;
}

void name_cache_read(const char *entry, const struct debug_module *module, struct sources *out)
{
    struct profile p;
    if (profile_open(entry, &p, NULL) != CT_OK)
        return;
    if (is_sound(&p, module)) {
        take_profile(&p, out);
        cache_mark_used(entry, &p.file.status);
    }
    profile_close(&p);
}

void name_cache_write(const struct name_cache *cache, const char *entry,
                      const struct debug_module *module, const struct sources *sources)
{
    struct profile_writer *w;
    if (sources->places.count > PLACES_MAX || profile_writer_open(entry, &w, NULL) != CT_OK)
        return;
    struct ctp_module m = {.path = profile_add_string(w, module->path),
                           .kind = CTP_MODULE_FILE,
                           .build_id_size = module->build_id_size};
    memcpy(m.build_id, module->build_id, module->build_id_size);
    profile_add_module(w, &m);
    for (size_t i = 0; i < sources->functions.count; i++) {
        struct ctp_function f = sources->functions.items[i];
        f.name = profile_add_string(w, strings_get(&sources->strings, f.name));
        f.file = profile_add_string(w, strings_get(&sources->strings, f.file));
        profile_add_function(w, &f);
    }
    for (size_t i = 0; i < sources->lines.count; i++) {
        struct ctp_line line = sources->lines.items[i];
        line.file = profile_add_string(w, strings_get(&sources->strings, line.file));
        profile_add_line(w, &line);
    }
    for (size_t i = 0; i < sources->places.count; i++) {
        const struct source_place *place = &sources->places.items[i];
        profile_add_frame(w, &(struct ctp_frame){.offset = place->offset,
                                                 .function = CTP_NONE,
                                                 .first_line = place->first_line,
                                                 .line_count = place->line_count});
    }
    if (profile_writer_commit(w, NULL) == CT_OK)
        cache_tidy(cache->folder, ".names", CACHE_MOST_BYTES);
}
