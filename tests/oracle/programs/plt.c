/* First calls of library functions through the PLT, where the dynamic linker's resolver runs. */
#include "checksum.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t bits(double value)
{
    uint64_t out;
    memcpy(&out, &value, sizeof out);
    return out;
}

NOINLINE static double with_vectors(double a, double b, double c, double d, float e, long n)
{
    /* All of these are live in vector registers over the first call of each. */
    return pow(a, b) + fmod(c, d) + ldexp(a, (int)n) + (double)powf(e, 2.5f) + hypot(b, c) +
           atan2(a, d) + strtod("2.5", NULL) * (double)n;
}

int main(int argc, char **argv)
{
    volatile double x = 1.5 + argc;
    char buffer[32] = "some text";
    (void)argv;
    check(bits(with_vectors(x, 2.0, 7.5, 2.0, 1.25f, 3)));
    check(bits(sin(x)));
    check(bits(exp(x) + log(x) + cbrt(x)));
    check(strlen(buffer));
    check((unsigned)atoi("1234"));
    check((unsigned)abs(-argc));
    check((uint64_t)(strchr(buffer, 't') - buffer));
    check((unsigned)(isalpha('q') != 0));
    check((unsigned)toupper('q'));
    check((uint64_t)labs(-argc * 7L));
    div_t quotient = div(1000 + argc, 7);
    check((unsigned)quotient.quot * 16 + (unsigned)quotient.rem);
    char *copy = strdup(buffer);
    check((unsigned char)copy[2]);
    free(copy);
    return print_checksum("plt");
}
