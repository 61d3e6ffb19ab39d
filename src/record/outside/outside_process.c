#include "record/outside/outside_process.h"

#include "base/page.h"

#include <stdio.h>
#include <string.h>

struct outside_process *outside_process_new(uint32_t pid, uint32_t parent_pid, uint64_t start_ns)
{
    struct outside_process *p = must_calloc(1, sizeof *p);
    p->pid = p->origin = pid;
    p->parent_pid = parent_pid;
    p->start_ns = start_ns;
    return p;
}

static void remove_module(struct outside_process *p, size_t index)
{
    size_t behind = p->walked.count - index - 1;
    free(p->modules.items[index].path);
    memmove(&p->walked.items[index], &p->walked.items[index + 1], behind * sizeof *p->walked.items);
    memmove(&p->modules.items[index], &p->modules.items[index + 1],
            behind * sizeof *p->modules.items);
    p->walked.count--;
    p->modules.count--;
    p->generation++;
}

void outside_process_forget(struct outside_process *p)
{
    while (p->walked.count)
        remove_module(p, p->walked.count - 1);
    p->made.count = 0;
    p->kernel_id = 0;
}

void outside_process_free(struct outside_process *p)
{
    outside_process_forget(p);
    vec_free(&p->walked);
    vec_free(&p->modules);
    vec_free(&p->made);
    for (size_t i = 0; i < p->threads.count; i++) {
        if (p->threads.items[i]->has_tree)
            outside_tree_end(&p->threads.items[i]->tree);
        free(p->threads.items[i]);
    }
    vec_free(&p->threads);
    free(p);
}

/* --- what is mapped ----------------------------------------------------------------------------
 */

static void write_module(struct outside_process *p, size_t index)
{
    struct outside_module *m = &p->modules.items[index];
    const struct walk_module *w = &p->walked.items[index];
    if (!p->has_arena || m->id)
        return;
    bool has_map = m->file && m->file->map;
    m->id = outside_arena_add_module(
        &p->arena, &(struct outside_module_fields){.start = w->start,
                                                   .end = w->end,
                                                   .base = w->base,
                                                   .device = has_map ? m->file->device : 0,
                                                   .inode = has_map ? m->file->inode : 0,
                                                   .kind = m->kind,
                                                   .path = m->path});
}

static void insert_module(struct outside_process *p, const struct walk_module *w,
                          const struct outside_module *m)
{
    vec_push(&p->walked, *w);
    vec_push(&p->modules, *m);
    size_t i = p->walked.count - 1;
    for (; i && p->walked.items[i - 1].start > w->start; i--) {
        p->walked.items[i] = p->walked.items[i - 1];
        p->modules.items[i] = p->modules.items[i - 1];
    }
    p->walked.items[i] = *w;
    p->modules.items[i] = *m;
    p->generation++;
    write_module(p, i);
}

void outside_process_copy(struct outside_process *to, const struct outside_process *from)
{
    for (size_t i = 0; i < from->walked.count; i++) {
        struct outside_module m = from->modules.items[i];
        m.path = must_strdup(m.path);
        m.id = 0;
        insert_module(to, &from->walked.items[i], &m);
    }
    for (size_t i = 0; i < from->made.count; i++)
        vec_push(&to->made, from->made.items[i]);
}

static bool is_file_path(const char *path)
{
    return *path == '/' && strncmp(path, "//", 2) != 0;
}

/* A further part of a module that is there already? */
static bool is_part_of(const struct outside_process *p, const struct walk_module *w,
                       const struct outside_module *m)
{
    for (size_t i = 0; i < p->walked.count && m->file; i++)
        if (p->modules.items[i].file == m->file && p->modules.items[i].bias == m->bias &&
            w->start >= p->walked.items[i].start && w->end <= p->walked.items[i].end)
            return true;
    return false;
}

bool outside_process_has_made(const struct outside_process *p, uint64_t address)
{
    for (size_t i = p->made.count; i-- > 0;)
        if (address >= p->made.items[i].start && address < p->made.items[i].end)
            return true;
    return false;
}

/* What compilers have made at run time, in memory that is mapped as code: no module. */
static void note_made(struct outside_process *p, const struct walk_module *w, bool is_made)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->made.count; i++)
        if (p->made.items[i].start >= w->end || w->start >= p->made.items[i].end)
            p->made.items[kept++] = p->made.items[i];
    p->made.count = kept;
    if (is_made)
        vec_push(&p->made, (struct outside_range){w->start, w->end});
}

void outside_process_map(struct outside_process *p, struct outside_files *files,
                         const struct outside_mapping *mapping)
{
    struct walk_module w = {.start = mapping->start,
                            .end = mapping->start + mapping->bytes,
                            .base = mapping->start - mapping->file_offset};
    struct outside_module m = {.kind = MODULE_OUTSIDE};
    bool is_named =
        *mapping->path == '[' ? strcmp(mapping->path, "[vdso]") == 0 : is_file_path(mapping->path);
    if (strcmp(mapping->path, "[vdso]") == 0) {
        const struct open_map *vdso = open_maps_vdso(files->maps, mapping->bytes);
        m.kind = MODULE_VDSO;
        w.base = w.start;
        w.tables = vdso ? &vdso->map.tables : NULL;
    } else if (is_file_path(mapping->path)) {
        m.file = outside_file_of(files, p->pid, mapping);
    }
    if (m.file && m.file->map && outside_file_bias(m.file, mapping, &m.bias)) {
        const struct map_header *h = m.file->map->header;
        w.base = m.bias + h->base;
        w.tables = &m.file->map->tables;
        if (w.base <= w.start && w.end <= page_round_up(w.base + h->span)) {
            w.start = w.base;
            w.end = page_round_up(w.base + h->span);
        }
    } else {
        m.file = NULL; /* its offsets could not be told */
    }
    if (is_part_of(p, &w, &m))
        return;
    for (size_t i = p->walked.count; i-- > 0;)
        if (p->walked.items[i].start < w.end && w.start < p->walked.items[i].end)
            remove_module(p, i);
    note_made(p, &w, !is_named);
    if (!is_named)
        return;
    m.path = must_strdup(mapping->path);
    insert_module(p, &w, &m);
}

void outside_process_read(struct outside_process *p, struct outside_files *files, FILE *maps)
{
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, maps) > 0) {
        struct outside_mapping m = {0};
        uint64_t end;
        char rights[5];
        int name = 0;
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %n", &m.start, &end, rights, &m.file_offset,
                   &m.major, &m.minor, &m.inode, &name) < 7 ||
            rights[2] != 'x' || end <= m.start)
            continue;
        m.bytes = end - m.start;
        m.path = name && line[name] ? line + name : "//anon";
        outside_process_map(p, files, &m);
    }
    free(line);
}

bool outside_process_list(struct outside_process *p, struct outside_files *files)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/maps", p->pid);
    FILE *maps = fopen(path, "re");
    if (!maps)
        return false;
    outside_process_read(p, files, maps);
    fclose(maps);
    return true;
}

bool outside_process_need_arena(struct outside_process *p, struct server *server,
                                uint64_t window_bytes)
{
    if (p->has_arena)
        return p->arena.header != NULL;
    p->arena =
        outside_arena_make(server, p->pid, p->parent_pid, p->start_ns, (uint32_t)window_bytes);
    if (!p->arena.header) {
        server->without_arena++;
        return false;
    }
    p->has_arena = true;
    for (size_t i = 0; i < p->walked.count; i++)
        write_module(p, i);
    return true;
}

struct walk_modules outside_process_modules(const struct outside_process *p)
{
    return (struct walk_modules){
        .count = (uint32_t)p->walked.count, .generation = p->generation, .items = p->walked.items};
}

/* --- threads -----------------------------------------------------------------------------------
 */

struct outside_thread *outside_thread_find(const struct outside_process *p, uint32_t tid)
{
    for (size_t i = p->threads.count; i-- > 0;)
        if (p->threads.items[i]->tid == tid)
            return p->threads.items[i];
    return NULL;
}

struct outside_thread *outside_thread_add(struct outside_process *p, uint32_t tid, const char *name,
                                          uint64_t start_ns)
{
    struct outside_thread *t = must_calloc(1, sizeof *t);
    t->tid = tid;
    t->start_ns = start_ns;
    strncpy(t->name, name, sizeof t->name - 1);
    vec_push(&p->threads, t);
    return t;
}

void outside_thread_end(struct outside_process *p, uint32_t tid, uint64_t end_ns)
{
    for (size_t i = 0; i < p->threads.count; i++) {
        struct outside_thread *t = p->threads.items[i];
        if (t->tid != tid)
            continue;
        if (t->has_tree) {
            t->tree.record->end_ns = end_ns;
            outside_tree_end(&t->tree);
        } else if (p->has_arena) { /* it was there, if nothing else is known of it */
            outside_arena_add_thread(&p->arena, tid, t->name, t->start_ns, end_ns);
        }
        free(t);
        p->threads.items[i] = p->threads.items[--p->threads.count];
        return;
    }
}
