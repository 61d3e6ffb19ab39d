#include "infer/path_module.h"

#include <string.h>

void path_module_open(const struct profile *p, uint32_t module, struct map_cache *cache,
                      struct path_module *m)
{
    const struct ctp_module *from = profile_module(p, module);
    const char *path = profile_string(p, from->path);
    if (from->kind != CTP_MODULE_FILE || !from->build_id_size ||
        elf_open(path, &m->file, NULL) != CT_OK)
        return;
    bool is_it = m->file.build_id_size == from->build_id_size &&
                 memcmp(m->file.build_id, from->build_id, from->build_id_size) == 0;
    if (!is_it || map_for_file(cache, path, &m->map, NULL, NULL) != CT_OK) {
        elf_close(&m->file);
        return;
    }
    if (plan_for_file(cache, path, &m->plan, NULL) != CT_OK) {
        map_close(&m->map);
        elf_close(&m->file);
        return;
    }
    above_begin(&m->finder, &m->file, &m->map, &m->plan);
    m->is_there = true;
}

void path_module_close(struct path_module *m)
{
    if (!m->is_there)
        return;
    above_end(&m->finder);
    plan_close(&m->plan);
    map_close(&m->map);
    elf_close(&m->file);
}
