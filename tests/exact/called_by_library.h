/* What both programs that load short.S have for it: something to call, and a function of its name.
 */
#ifndef CALLED_BY_LIBRARY_H
#define CALLED_BY_LIBRARY_H

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

#endif
