#include "record/arena_view.h"

#include <string.h>

struct arena_view arena_view_now(const struct server_arena *a)
{
    return (struct arena_view){(const char *)a->header, a->allocated, a->before};
}

struct arena_view arena_view_at_end(const struct server_arena *a)
{
    return a->after.bytes ? (struct arena_view){a->after.bytes, a->after.size, a->before}
                          : arena_view_now(a);
}

struct module_walk module_walk_begin(const struct arena_view *view)
{
    return (struct module_walk){.view = view,
                                .next = view_header(view)->first_module,
                                .left = view->size / sizeof(struct arena_module)};
}

bool module_walk_next(struct module_walk *w)
{
    const struct arena_module *m = w->left ? view_at(w->view, w->next, sizeof *m) : NULL;
    uint32_t bytes = m ? m->path_bytes : UINT32_MAX;
    if (!m || bytes >= sizeof w->path || !view_holds(w->view, m, sizeof *m + bytes))
        return false;
    w->left--;
    w->module = m;
    w->next = m->next;
    memcpy(w->path, m + 1, bytes);
    w->path[bytes] = 0;
    if (strcmp(w->path, "/proc/self/exe") == 0)
        snprintf(w->path, sizeof w->path, "%.*s", ARENA_PROGRAM_BYTES - 1,
                 view_header(w->view)->program);
    return true;
}

const struct map *module_walk_map(const struct module_walk *w, struct open_maps *maps)
{
    const struct arena_module *m = w->module;
    const struct open_map *opened = NULL;
    if (m->kind == MODULE_VDSO)
        opened = open_maps_vdso(maps, m->end - m->start);
    else if (m->kind == MODULE_OUTSIDE)
        opened = open_maps_of(maps, w->path, m->device, m->inode);
    else if (m->kind == MODULE_FILE)
        opened = open_maps_known(maps, w->path, m->map_hash);
    return opened ? &opened->map : NULL;
}
