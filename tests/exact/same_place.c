/*
 * Loads a library, calls it through pointers, unloads it, and does the same with another one, which
 * then lies at the same place: the calls are those of the one that was there.
 *
 *     same_place LIBRARY ANOTHER
 */
#include <dlfcn.h>
#include <stdio.h>

#define OUT __attribute__((noinline, noclone))

enum { FIRST_CALLS = 5, NEXT_CALLS = 3 };

typedef unsigned work_fn(unsigned);

static volatile unsigned sum;

OUT static unsigned of_program(unsigned n)
{
    return n + 1;
}

/* The library's function is the first that this calls, */
OUT static void as_first(work_fn *work, int times)
{
    for (int i = 0; i < times; i++)
        sum += work(1);
}

/* and here it comes after another. */
OUT static void as_next(work_fn *work, int times)
{
    work_fn *volatile own = of_program;
    for (int i = -1; i < times; i++)
        sum += (i < 0 ? own : work)(1);
}

int main(int count, char **arguments)
{
    void *place = NULL;
    int same = 0;
    for (int i = 1; i < count; i++) {
        void *library = dlopen(arguments[i], RTLD_NOW);
        if (!library)
            return 2;
        work_fn *work = (work_fn *)dlsym(library, "plugin_work");
        as_first(work, FIRST_CALLS - i);
        as_next(work, NEXT_CALLS - i);
        same += place == (void *)work;
        place = (void *)work;
        dlclose(library);
    }
    puts(same == count - 2 ? "the same place" : "elsewhere");
    return 0;
}
