/* The library of r26_links.c: functions for the PLT, one that is chosen when it is first called,
 * and data that a program may have copied to itself. */
#include "torture.h"

int library_table[16] = {3, 1, 4, 1, 5, 9, 2, 6};
const char *library_name = "library";

NOINLINE static int inner(int n)
{
    return n * 2 + library_table[n & 7];
}

/* Through its own PLT: it could be replaced from outside. */
int library_double(int n)
{
    return inner(n) + 1;
}

int library_twice(int n)
{
    return library_double(n) + library_double(n + 1);
}

int library_back(int (*back)(int), int n)
{
    return back(n) + back(n + 1);
}

static int chosen_first(int n)
{
    return n + 100;
}

static int chosen_second(int n)
{
    return n + 200;
}

static int (*choose(void))(int)
{
    return library_table[0] == 3 ? chosen_first : chosen_second;
}

int library_chosen(int n) __attribute__((ifunc("choose")));

/* Nothing but another function of the library, by a jump through the PLT. */
int library_tail(int n)
{
    return library_double(n);
}
