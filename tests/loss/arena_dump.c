/*
 * arena_dump: what an arena holds, as text, one line for each thing; for comparing with the profile
 * that was made of it. It shares the layout with calltrail, and no code.
 *
 *   arena PID PERIOD_NS LOST         one line
 *   thread TID SAMPLES               oldest first
 *   context TID COUNT FRAME;FRAME    innermost frame first, of every node whose count is not zero
 *
 * A frame is MODULE+OFFSET, the address of code outside every module, or gap:REASON.
 */
#include "runtime/arena_format.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *bytes;
static uint64_t size;

static const void *at(uint32_t place, uint64_t needed)
{
    uint64_t offset = (uint64_t)place * 8;
    return place && offset + needed <= size ? bytes + offset : NULL;
}

/* A module for which the arena had no room left is not known: nothing is printed of it. */
static void print_module(uint32_t id)
{
    const struct arena_header *h = (const void *)bytes;
    const struct arena_module *m;
    for (uint32_t place = h->first_module; (m = at(place, sizeof *m)); place = m->next) {
        if (m->id != id)
            continue;
        const char *path = (const char *)(m + 1);
        if (m->path_bytes == 14 && memcmp(path, "/proc/self/exe", 14) == 0)
            printf("%s+", h->program);
        else
            printf("%.*s+", (int)m->path_bytes, path);
        return;
    }
}

static void print_frame(uint64_t key)
{
    uint32_t flags = KEY_FLAGS(key);
    if (flags & KEY_GAP) {
        printf("gap:%" PRIu32, KEY_OFFSET(key));
    } else if (flags & KEY_ADDRESS) {
        printf("%" PRIx64, (uint64_t)KEY_MODULE(key) << 32 | KEY_OFFSET(key));
    } else {
        print_module(KEY_MODULE(key));
        printf("%" PRIx32, KEY_OFFSET(key));
    }
}

static void print_context(uint32_t tid, const struct arena_node *n)
{
    printf("context %" PRIu32 " %" PRIu32 " ", tid, n->count);
    for (const char *separator = ""; n && n->parent; separator = ";") {
        printf("%s", separator);
        print_frame(n->key);
        n = at(n->parent, sizeof *n);
    }
    putchar('\n');
}

static void print_contexts(const struct arena_thread *t)
{
    const struct arena_chunk *c;
    uint32_t node_bytes = ((const struct arena_header *)(const void *)bytes)->node_bytes;
    for (uint32_t place = t->first_chunk; (c = at(place, chunk_bytes(node_bytes))); place = c->next)
        for (uint32_t i = 0; i < c->count && i < chunk_nodes(node_bytes); i++)
            if (chunk_node(c, node_bytes, i)->count)
                print_context(t->tid, chunk_node(c, node_bytes, i));
}

static void print_arena(void)
{
    const struct arena_header *h = (const void *)bytes;
    uint64_t lost = 0;
    for (unsigned i = 0; i < ARENA_LOSSES; i++)
        lost += h->lost[i];
    printf("arena %" PRIu32 " %" PRIu64 " %" PRIu64 "\n", h->pid, h->period_ns, lost);
    const struct arena_thread *t;
    for (uint32_t place = h->first_thread; (t = at(place, sizeof *t)); place = t->next) {
        printf("thread %" PRIu32 " %" PRIu64 "\n", t->tid, t->samples);
        print_contexts(t);
    }
}

int main(int argc, char **argv)
{
    int fd = argc == 2 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0 || status.st_size < (off_t)sizeof(struct arena_header)) {
        fprintf(stderr, "usage: arena_dump ARENA\n");
        return 2;
    }
    size = (uint64_t)status.st_size;
    void *mapped = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        return 2;
    bytes = mapped;
    print_arena();
    munmap(mapped, size);
    close(fd);
    return 0;
}
