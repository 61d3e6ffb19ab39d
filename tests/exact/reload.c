/*
 * Loads and unloads a library with puns (short.S) many times. The pages that they lead to, and all
 * else that is mapped for it, go with it: prints how many more pieces of code without a file there
 * are after the last time than after the first, whether there are many more mappings in all (two
 * that touch may be one or two), and the calls.
 *
 *     reload LIBRARY TIMES
 */
#include "called_by_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mapped {
    int code, all;
};

static struct mapped count_mappings(void)
{
    FILE *in = fopen("/proc/self/maps", "r");
    char line[512];
    struct mapped count = {0};
    while (fgets(line, sizeof line, in)) {
        count.code += strstr(line, " r-xp 00000000 00:00 0 \n") != NULL;
        count.all++;
    }
    fclose(in);
    return count;
}

int main(int count, char **arguments)
{
    enum { FEW = 5 };
    struct mapped first = {0}, last;
    if (count != 3)
        return 2;
    for (int i = 0; i < atoi(arguments[2]); i++) {
        void *library = dlopen(arguments[1], RTLD_NOW);
        if (!library) {
            puts(dlerror());
            return 1;
        }
        void (*loop_call)(long (*)(long, long), int);
        *(void **)&loop_call = dlsym(library, "loop_call");
        loop_call(tick, 3);
        dlclose(library);
        if (i == 0)
            first = count_mappings();
    }
    last = count_mappings();
    printf("%d more, %s in all, %ld calls\n", last.code - first.code,
           last.all - first.all > FEW ? "many" : "few", calls);
    return 0;
}
