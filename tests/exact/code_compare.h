/* Compares all code of the process with the files that it came from. */
#ifndef CODE_COMPARE_H
#define CODE_COMPARE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many bytes of a mapping differ from its file. What goes away meanwhile cannot be read. */
static long differing(const char *path, unsigned long start, unsigned long end, long offset)
{
    long differ = 0;
    FILE *file = fopen(path, "r"), *memory = fopen("/proc/self/mem", "r");
    if (!file || fseek(file, offset, SEEK_SET) != 0 || !memory ||
        fseek(memory, (long)start, SEEK_SET) != 0)
        exit(2);
    for (; start < end; start++) {
        int byte = getc(file), here = getc(memory);
        differ += byte != EOF && here != EOF && byte != here;
    }
    fclose(file);
    fclose(memory);
    return differ;
}

static long all_differing(void)
{
    long differ = 0;
    char line[1024];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long start, end, offset;
        char access[8], path[512] = "";
        if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %511s", &start, &end, access, &offset, path) >=
                5 &&
            access[2] == 'x' && path[0] == '/' && !strstr(path, "libcalltrail"))
            differ += differing(path, start, end, (long)offset);
    }
    fclose(maps);
    return differ;
}

#endif
