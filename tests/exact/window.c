/*
 * Calls one function before --delay is over, another one until --duration is, and a third
 * afterwards. When that is, the arena says, which lies in the program's own memory.
 */
#include "runtime/arena_format.h"

#include <stdio.h>
#include <string.h>

#define ALONE __attribute__((noinline, noclone))

enum { CALLS = 1000 };

ALONE static void early(void)
{
    __asm__ volatile("");
}

ALONE static void within(void)
{
    __asm__ volatile("");
}

ALONE static void late(void)
{
    __asm__ volatile("");
}

static const struct arena_header *find_arena(void)
{
    char line[1024];
    unsigned long start = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "/0.arena\n") && sscanf(line, "%lx", &start) == 1)
            break;
    if (maps)
        fclose(maps);
    return (const struct arena_header *)start;
}

int main(void)
{
    const struct arena_header *arena = find_arena();
    if (!arena)
        return 2;
    for (int i = 0; i < CALLS; i++)
        early();
    int is_early = arena->paused;
    while (arena->paused)
        ;
    for (int i = 0; i < CALLS; i++)
        within();
    int is_within = !arena->paused;
    while (!arena->paused)
        ;
    for (int i = 0; i < CALLS; i++)
        late();
    puts(is_early && is_within ? "in time" : "too slow");
    return 0;
}
