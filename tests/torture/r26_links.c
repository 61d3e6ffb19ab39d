/* Row 26: what compilers and linkers do to functions: cold parts, functions that were folded into
 * one, functions that are chosen at run time, the PLT in its forms, endbr64, data that is copied.
 */
#include "torture.h"

extern int library_table[16];
extern const char *library_name;
int library_double(int n), library_twice(int n), library_back(int (*back)(int), int n);
int library_chosen(int n), library_tail(int n);

static long counts[8];
enum { COLD, SAME, OWN, BACK };

/* The compiler moves what is unlikely to a part of its own, with calls in it. */
__attribute__((cold)) NOINLINE static int complain(int n)
{
    counts[COLD]++;
    return -n;
}

NOINLINE static int mostly(int n)
{
    if (__builtin_expect(n % 50 == 0, 0)) {
        int sum = 0;
        for (int i = 0; i < 3; i++)
            sum += complain(n + i) * 3;
        return sum + complain(library_double(n));
    }
    return n + library_table[n & 7];
}

/* The same bytes: --icf=all makes one function of these. */
#define SAME_AS_OTHERS(NAME)                                                                       \
    NOINLINE int NAME(int n)                                                                       \
    {                                                                                              \
        counts[SAME]++;                                                                            \
        return library_double(n ^ 0x55) + 7;                                                       \
    }
SAME_AS_OTHERS(same_a)
SAME_AS_OTHERS(same_b)
SAME_AS_OTHERS(same_c)

static int own_first(int n)
{
    counts[OWN]++;
    return library_twice(n);
}

static int (*own_choice(void))(int)
{
    return own_first;
}

int own_chosen(int n) __attribute__((ifunc("own_choice")));

NOINLINE static int called_back(int n)
{
    counts[BACK]++;
    return same_b(n);
}

static int (*volatile pointers[])(int) = {same_a,     same_b,         same_c,
                                          own_chosen, library_chosen, library_tail};

/* With protection of branches, what is called through pointers still begins with endbr64. */
NOINLINE static void look_at_entries(void)
{
#if defined(__CET__) && __CET__ & 1
    for (unsigned i = 0; i < sizeof pointers / sizeof *pointers; i++) {
        unsigned first;
        memcpy(&first, (const void *)pointers[i], sizeof first);
        CHECK(first == 0xfa1e0ff3);
    }
#endif
}

int main(void)
{
    long sum = 0;
    look_at_entries();
    library_table[7] = 60; /* a copied table is one for both */
    CHECK(library_double(7) == 7 * 2 + 60 + 1 && strcmp(library_name, "library") == 0);
    for (int i = 0; i < 20000; i++) {
        sum += mostly(i) + same_a(i) + same_b(i) + same_c(i);
        sum += own_chosen(i) + library_chosen(i) + library_tail(i);
        sum += library_back(called_back, i) + library_back(library_chosen, i);
        sum += pointers[i % 6](i);
    }
    look_at_entries();
    long rest[6] = {0};
    for (int i = 0; i < 20000; i++)
        rest[i % 6]++;
    long twice = 20000 + rest[3], tail = 20000 + rest[5];
    printf("%ld\ncalls mostly 20000\ncalls complain %ld\n", sum, counts[COLD]);
    printf("calls same_a|same_b|same_c %ld\ncalls own_first %ld\n", counts[SAME], counts[OWN]);
    printf("calls called_back %ld\ncalls library_twice %ld\ncalls library_tail %ld\n", counts[BACK],
           twice, tail);
    printf("calls chosen_first|chosen_second %ld\n", 20000 * 3 + rest[4]);
    printf("calls library_double|inner %ld\n", 2 * (1 + 400 + counts[SAME] + 2 * twice + tail));
    return torture_end();
}
