#include "record/outside/outside_arena.h"

#include "runtime/channel_format.h"

#include <string.h>
#include <unistd.h>

struct outside_arena outside_arena_make(struct server *server, uint32_t pid, uint32_t parent_pid,
                                        uint64_t start_ns, uint32_t window_bytes)
{
    struct channel_message hello = {.pid = pid, .parent_pid = parent_pid};
    struct outside_arena a = {.server = server};
    int fd = server_make_arena(server, &hello, pid, true);
    if (fd < 0)
        return a;
    close(fd);
    const struct server_arena *made = &server->arenas.items[server->arenas.count - 1];
    struct arena_header *h = made->header;
    a.header = h;
    a.number = made->number;
    h->start_ns = start_ns;
    h->source = SOURCE_OUTSIDE;
    h->window_bytes = window_bytes;
    return a;
}

/* Zeroed memory of the arena; NULL: there is no room. */
static void *take(const struct outside_arena *a, uint64_t bytes)
{
    struct arena_header *h = outside_header(a);
    uint64_t at = h->used, size = (bytes + 7) & ~UINT64_C(7);
    if (!server_arena_reserve(a->server, a->number, at + size))
        return NULL;
    h->used = at + size;
    return (char *)h + at;
}

static uint32_t place_of(const struct outside_arena *a, const void *item)
{
    return (uint32_t)((uint64_t)((const char *)item - (const char *)outside_header(a)) / 8);
}

uint32_t outside_arena_add_module(const struct outside_arena *a,
                                  const struct outside_module_fields *f)
{
    struct arena_header *h = outside_header(a);
    size_t length = strlen(f->path);
    struct arena_module *m = take(a, sizeof *m + length);
    if (!m)
        return 0;
    const struct arena_module *newest =
        h->first_module ? (const void *)((const char *)h + (uint64_t)h->first_module * 8) : NULL;
    *m = (struct arena_module){.next = h->first_module,
                               .id = newest ? newest->id + 1 : 1,
                               .start = f->start,
                               .end = f->end,
                               .base = f->base,
                               .kind = f->kind,
                               .path_bytes = (uint32_t)length,
                               .device = f->device,
                               .inode = f->inode};
    memcpy(m + 1, f->path, length);
    h->first_module = place_of(a, m);
    return m->id;
}

static uint32_t add_node(const struct outside_arena *a, struct outside_tree *t, uint32_t parent,
                         uint64_t key)
{
    uint32_t node_bytes = outside_header(a)->node_bytes;
    if (!t->chunk || t->chunk->count == chunk_nodes(node_bytes)) {
        struct arena_chunk *chunk = take(a, chunk_bytes(node_bytes));
        if (!chunk)
            return 0;
        chunk->next = t->record->first_chunk;
        t->record->first_chunk = place_of(a, chunk);
        t->chunk = chunk;
    }
    struct arena_node *node = chunk_node(t->chunk, node_bytes, t->chunk->count);
    node->key = key;
    node->parent = parent;
    t->chunk->count++;
    return place_of(a, node);
}

struct arena_thread *outside_arena_add_thread(const struct outside_arena *a, uint32_t tid,
                                              const char *name, uint64_t start_ns, uint64_t end_ns)
{
    struct arena_header *h = outside_header(a);
    struct arena_thread *record = take(a, sizeof *record);
    if (!record)
        return NULL;
    record->tid = tid;
    record->start_ns = start_ns;
    record->end_ns = end_ns;
    strncpy(record->name, name, sizeof record->name - 1);
    record->next = h->first_thread;
    h->first_thread = place_of(a, record);
    return record;
}

bool outside_tree_begin(const struct outside_arena *a, struct outside_tree *t, uint32_t tid,
                        const char *name, uint64_t start_ns)
{
    *t = (struct outside_tree){.record = outside_arena_add_thread(a, tid, name, start_ns, 0)};
    if (!t->record)
        return false;
    key_set_init(&t->nodes, 2 * sizeof(uint64_t));
    t->record->root = add_node(a, t, 0, KEY_MAKE(0, KEY_ROOT, 0));
    if (!t->record->root)
        outside_tree_end(t);
    return t->record != NULL;
}

void outside_tree_end(struct outside_tree *t)
{
    if (!t->record)
        return;
    key_set_free(&t->nodes);
    vec_free(&t->places);
    t->record = NULL;
}

uint32_t outside_tree_child(const struct outside_arena *a, struct outside_tree *t, uint32_t parent,
                            uint64_t key)
{
    const uint64_t both[2] = {parent, key};
    uint32_t number;
    if (!parent)
        return 0;
    if (key_set_find(&t->nodes, both, &number))
        return t->places.items[number];
    uint32_t place = add_node(a, t, parent, key);
    if (place) { /* what had no room this time may have some the next time */
        key_set_add(&t->nodes, both);
        vec_push(&t->places, place);
    }
    return place;
}

static void keep_time(const struct outside_arena *a, struct outside_tree *t, uint32_t node,
                      uint64_t time_ns)
{
    struct arena_header *h = outside_header(a);
    bool has_room = t->times && t->times->count < TIME_CHUNK_ENTRIES &&
                    time_ns >= t->times->stamp &&
                    (time_ns - t->times->stamp) >> TIME_SHIFT <= UINT32_MAX;
    if (!h->clock_stamp)
        return;
    if (!has_room) {
        bool leaves_room = h->used + sizeof *t->times + TIME_LEAVES_BYTES <=
                           server_arena_numbered(a->server, a->number)->room;
        t->times = h->time_chunks_left && leaves_room ? take(a, sizeof *t->times) : NULL;
        if (t->times) {
            h->time_chunks_left--;
            t->times->stamp = time_ns;
            t->times->next = t->record->first_times;
            t->record->first_times = place_of(a, t->times);
        }
    }
    if (!t->times) {
        t->record->times_lost++;
        return;
    }
    t->times->items[t->times->count++] =
        (struct arena_time){node, (uint32_t)((time_ns - t->times->stamp) >> TIME_SHIFT)};
}

void outside_tree_count(const struct outside_arena *a, struct outside_tree *t, uint32_t node,
                        unsigned end, uint64_t time_ns)
{
    struct arena_header *h = outside_header(a);
    if (!node) {
        h->lost[LOST_NO_ROOM]++;
        return;
    }
    ((struct arena_node *)((char *)h + (uint64_t)node * 8))->count++;
    t->record->samples++;
    t->record->ends[end]++;
    keep_time(a, t, node, time_ns);
}

void outside_tree_note_height(const struct outside_arena *a, uint32_t node, uint32_t words)
{
    struct arena_node *n = (struct arena_node *)((char *)outside_header(a) + (uint64_t)node * 8);
    if (!node || !words || words >= OUTSIDE_HEIGHT_VARIES)
        return;
    uint32_t known = n->returns & ~OUTSIDE_HEIGHT_VARIES;
    n->returns = !known ? words : known != words ? n->returns | OUTSIDE_HEIGHT_VARIES : n->returns;
}
