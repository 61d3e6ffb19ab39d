/* A program of the golden outputs: recorded once, as the descriptions beside it say. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static unsigned table[4096];
__attribute__((noinline)) static unsigned hash(const char *s)
{
    unsigned h = 5381;
    while (*s)
        h = h * 33 + (unsigned char)*s++;
    return h;
}
__attribute__((noinline)) static void count(char *line)
{
    for (char *w = strtok(line, " "); w; w = strtok(NULL, " "))
        table[hash(w) % 4096]++;
}
__attribute__((noinline)) static int by_number(const void *a, const void *b)
{
    return (*(const unsigned *)a > *(const unsigned *)b) -
           (*(const unsigned *)a < *(const unsigned *)b);
}
__attribute__((noinline)) static void order(void)
{
    qsort(table, 4096, sizeof *table, by_number);
}
int main(void)
{
    char line[256];
    for (int i = 0; i < 1600000; i++) {
        snprintf(line, sizeof line, "word%d another%d third%d and more words here", i % 977, i % 13,
                 i);
        count(line);
        if (i % 2000 == 0)
            order();
    }
    printf("%u\n", table[4000]);
    return 0;
}
