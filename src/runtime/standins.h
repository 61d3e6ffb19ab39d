/* Stand-ins for libc's functions: each has a pointer to the real one, found at the start. */
#ifndef RUNTIME_STANDINS_H
#define RUNTIME_STANDINS_H

#include <dlfcn.h>

#define EXPORTED __attribute__((visibility("default")))

struct standin {
    const char *name;
    void **real;
};

/* Finds all of them (start.c); the linker gathers the list. */
void standins_prepare(void);

#define STANDS_IN_FOR(type, name, parameters)                                                      \
    static type(*real_##name) parameters;                                                          \
    static const struct standin standin_##name                                                     \
        __attribute__((used, section("standins"))) = {#name, (void **)&real_##name};

/* The function; one that is called before the start is looked for there and then. */
#define REAL(name)                                                                                 \
    (real_##name ? real_##name : ((*(void **)&real_##name = dlsym(RTLD_NEXT, #name)), real_##name))

#endif
