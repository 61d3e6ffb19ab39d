/* Tail calls: direct, through pointers, mutual, and with stack arguments. */
#include "checksum.h"

typedef unsigned (*step_function)(unsigned count, unsigned total);

NOINLINE static unsigned finish(unsigned count, unsigned total)
{
    return total * 7 + count;
}

NOINLINE static unsigned ping(unsigned count, unsigned total);

NOINLINE static unsigned pong(unsigned count, unsigned total)
{
    return count == 0 ? finish(count, total) : ping(count - 1, total * 3 + 1);
}

NOINLINE static unsigned ping(unsigned count, unsigned total)
{
    return count == 0 ? finish(count, total + 1) : pong(count - 1, total + count);
}

static step_function volatile table[3] = {finish, ping, pong};

NOINLINE static unsigned through_pointer(unsigned count, unsigned total)
{
    return table[count % 3](count, total);
}

/* Saves registers, so that the tail call comes after an epilogue. */
NOINLINE static unsigned after_epilogue(unsigned count, unsigned total)
{
    unsigned a = finish(count, total), b = finish(total, count), c = finish(a, b);
    for (unsigned i = 0; i < 3; i++)
        a += finish(b, c + i);
    return through_pointer(count + a % 2, a + b + c);
}

NOINLINE static unsigned wide(unsigned a, unsigned b, unsigned c, unsigned d, unsigned e,
                              unsigned f, unsigned g, unsigned h)
{
    if (a == 0)
        return b + c + d + e + f + g + h;
    return wide(a - 1, c, d, e, f, g, h, b + a);
}

int main(void)
{
    for (unsigned i = 0; i < 20; i++) {
        check(ping(i, 1));
        check(through_pointer(i, 2));
        check(after_epilogue(i, 3));
        check(wide(i, 1, 2, 3, 4, 5, 6, 7));
    }
    return print_checksum("tail");
}
