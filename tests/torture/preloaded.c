/* A library that the program preloads: it says in the environment that it was there. */
#include <stdlib.h>

static __attribute__((constructor)) void start(void)
{
    setenv("PRELOADED_HERE", "yes", 1);
}
