#include "record/jit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_SYMBOLS = 4000000 };

static int by_start(const void *a, const void *b)
{
    const struct jit_symbol *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Anybody can put a file there: only one that the user owns is believed. */
static FILE *open_map(uint32_t pid)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/tmp/perf-%u.map", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid()) {
        close(fd);
        return NULL;
    }
    return fdopen(fd, "r");
}

void jit_read(struct jit_map *map, uint32_t pid)
{
    FILE *file = open_map(pid);
    char *line = NULL;
    size_t room = 0;
    if (!file)
        return;
    while (map->symbols.count < MOST_SYMBOLS && getline(&line, &room, file) > 0) {
        struct jit_symbol s;
        int name = 0;
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%lx %lx %n", &s.start, &s.size, &name) >= 2 && name && line[name]) {
            s.name = must_strdup(line + name);
            vec_push(&map->symbols, s);
        }
    }
    free(line);
    fclose(file);
    if (map->symbols.count)
        qsort(map->symbols.items, map->symbols.count, sizeof *map->symbols.items, by_start);
}

void jit_free(struct jit_map *map)
{
    for (size_t i = 0; i < map->symbols.count; i++)
        free(map->symbols.items[i].name);
    vec_free(&map->symbols);
}

const struct jit_symbol *jit_find(const struct jit_map *map, uint64_t address)
{
    size_t low = 0, high = map->symbols.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (map->symbols.items[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    const struct jit_symbol *s = low ? &map->symbols.items[low - 1] : NULL;
    return s && address - s->start < s->size ? s : NULL;
}
