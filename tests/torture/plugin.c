/* A plugin. Two of the same size are made of it, NAME apart, so that one can lie where the other
 * lay. */
#include "torture.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)

NOINLINE unsigned JOIN(work_of_, NAME)(unsigned rounds)
{
    return spin(rounds) + 1;
}

unsigned plugin_work(unsigned rounds);

NOINLINE unsigned plugin_work(unsigned rounds)
{
    return JOIN(work_of_, NAME)(rounds) | 1;
}
