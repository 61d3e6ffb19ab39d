/* A library that vanish.c loads: IN is the name of its function. */
unsigned IN(unsigned x);

unsigned IN(unsigned x)
{
    for (long i = 0; i < 20000000; i++)
        x = x * 1103515245u + 12345u;
    return x;
}
