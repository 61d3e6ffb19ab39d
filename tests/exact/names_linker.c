/*
 * Loads a library and calls it. The program names the linker's list of modules itself, and so has a
 * copy of it, which the linker does not keep up to date.
 *
 *     names_linker LIBRARY
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

int main(int count, char **arguments)
{
    void *library = count == 2 ? dlopen(arguments[1], RTLD_NOW) : NULL;
    if (!library)
        return 2;
    unsigned (*work)(unsigned) = (unsigned (*)(unsigned))dlsym(library, "plugin_work");
    printf("%d %s\n", work(10) != 0, _r_debug.r_map ? "list" : "no list");
    return 0;
}
