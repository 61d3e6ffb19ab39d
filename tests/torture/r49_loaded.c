/*
 * Row 49: a library in OCaml that is loaded while the program runs, and has been sampled: its
 * collector must not meet a mark, and what was marked before returns as ever.
 */
#include "torture.h"

#include <dlfcn.h>

static NOINLINE long before(int depth)
{
    long sum = depth;
    for (int i = 0; i < 10; i++)
        sum += spin(20000) & 1;
    return depth ? before(depth - 1) + sum : sum;
}

static NOINLINE int load_and_run(void)
{
    void *library = dlopen("../r49_library.so", RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        return puts(dlerror());
    void (*start)(char **) = (void (*)(char **))dlsym(library, "caml_startup");
    long *(*named)(const char *) = (long *(*)(const char *))dlsym(library, "caml_named_value");
    long (*call)(long, long) = (long (*)(long, long))dlsym(library, "caml_callback");
    char *words[] = {"r49_loaded", NULL};
    start(words);
    long *work = named("work");
    CHECK(work != NULL);
    printf("total %ld\n", call(*work, 400 * 2 + 1) / 2);
    return 0;
}

int main(void)
{
    for (int i = 0; i < 20; i++)
        before(40);
    CHECK(load_and_run() == 0);
    for (int i = 0; i < 20; i++)
        before(40);
    return torture_end();
}
