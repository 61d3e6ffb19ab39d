/*
 * Loads a library (short.S) where no memory is free that a jump of it could reach, and calls it.
 *
 *     no_room LIBRARY
 */
#include "called_by_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <sys/mman.h>

int main(int count, char **arguments)
{
    const size_t around = (size_t)3 << 30, hole = 512 << 10;
    if (count != 2)
        return 2;
    char *all =
        mmap(NULL, 2 * around, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    /* Other holes are filled; the highest is then the one in the middle. */
    for (size_t bytes = 4 << 20; bytes >= 16 << 10; bytes /= 2)
        for (int i = 0; i < 16; i++)
            mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED || munmap(all + around, hole) != 0)
        return 2;
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (!library) {
        puts(dlerror());
        return 1;
    }
    void (*loop_call)(long (*)(long, long), int);
    *(void **)&loop_call = dlsym(library, "loop_call");
    loop_call(tick, 3);
    printf("%ld calls\n", calls);
    return 0;
}
