/*
 * Loads and unloads a library with puns (short.S) many times. The pages that they lead to go with
 * it: prints how many more pieces of code without a file there are after the last time than after
 * the first, and the calls.
 *
 *     reload LIBRARY TIMES
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long calls;

static long tick(long a, long b)
{
    calls++;
    return a + b;
}

long add_value(long a, long b);
long add_value(long a, long b) /* the library's */
{
    return a + b;
}

static int count_code(void)
{
    FILE *in = fopen("/proc/self/maps", "r");
    char line[512];
    int count = 0;
    while (fgets(line, sizeof line, in))
        count += strstr(line, " r-xp 00000000 00:00 0 \n") != NULL;
    fclose(in);
    return count;
}

int main(int count, char **arguments)
{
    int first = 0;
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
            first = count_code();
    }
    printf("%d more, %ld calls\n", count_code() - first, calls);
    return 0;
}
