/*
 * Prints what names/dwarf_lookup says of addresses, as `addr2line -i -f -a` does, for comparison.
 *
 *     sources_dump FILE < ADDRESSES (hexadecimal, one on a line)
 */
#include "names/dwarf_lookup.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void print_place(const struct sources *s, uint64_t address)
{
    const struct source_place *place = sources_find(s, address);
    printf("0x%016" PRIx64 "\n", address);
    if (!place || !place->line_count)
        puts("??\n??:0");
    for (uint32_t i = 0; place && i < place->line_count; i++) {
        const struct ctp_line *line = &s->lines.items[place->first_line + i];
        const char *file = strings_get(&s->strings, line->file);
        puts(line->function == CTP_NONE
                 ? "??"
                 : strings_get(&s->strings, s->functions.items[line->function].name));
        printf("%s:%" PRIu32 "\n", *file ? file : "??", line->line);
    }
}

int main(int argc, char **argv)
{
    int fd = argc == 2 ? open(argv[1], O_RDONLY) : -1;
    Dwarf *dwarf = fd >= 0 ? dwarf_begin(fd, DWARF_C_READ) : NULL;
    if (!dwarf) {
        fputs("usage: sources_dump FILE-WITH-DWARF < ADDRESSES\n", stderr);
        return 2;
    }
    VEC(uint64_t) asked = {0}, sorted = {0};
    for (uint64_t address; scanf("%" SCNx64, &address) == 1;)
        vec_push(&asked, address);
    for (size_t i = 0; i < asked.count; i++)
        vec_push(&sorted, asked.items[i]);
    qsort(sorted.items, sorted.count, sizeof *sorted.items, compare);
    size_t count = 0;
    for (size_t i = 0; i < sorted.count; i++)
        if (!count || sorted.items[count - 1] != sorted.items[i])
            sorted.items[count++] = sorted.items[i];
    struct sources sources;
    sources_init(&sources);
    dwarf_lookup(dwarf, 0, sorted.items, count, NULL, &sources);
    for (size_t i = 0; i < asked.count; i++)
        print_place(&sources, asked.items[i]);
    sources_free(&sources);
    vec_free(&asked);
    vec_free(&sorted);
    dwarf_end(dwarf);
    return 0;
}
