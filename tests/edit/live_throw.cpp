/* Exceptions through a call whose target changes meanwhile. */
extern "C" {
long throws_through(long (*function)(long, long (*)(long)), long x);
}

static long thrower(long x)
{
    throw x;
}

/* A range that ends in a call, through which the exception comes. */
long throws_through(long (*function)(long, long (*)(long)), long x)
{
    try {
        return function(x, thrower);
    } catch (long thrown) {
        return thrown;
    }
}
