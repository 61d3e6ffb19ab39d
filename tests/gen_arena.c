/* Arenas made by hand, each behind the byte that says what it is of: see fuzz/fuzz_arena.c. */
#include "made_arena.h"

int main(int argc, char **argv)
{
    static const unsigned char kinds[] = {0, 1, 0x3e, 0x3f};
    if (argc != 2)
        return fprintf(stderr, "usage: gen_arena FOLDER\n"), 2;
    for (size_t i = 0; i < sizeof kinds; i++) {
        struct arena_events events = {.mask = EVENT_CPU | (kinds[i] & 0x3eu)};
        struct made_arena a = made_arena(&events, kinds[i] & 1);
        char *path = must_format("%s/%02x.arena", argv[1], kinds[i]);
        FILE *file = fopen(path, "wb");
        if (!file || putc(kinds[i], file) == EOF || fwrite(a.words, 8, a.place, file) != a.place ||
            fclose(file) != 0)
            return perror(path), 1;
        free(path);
        free(a.words);
    }
    return 0;
}
