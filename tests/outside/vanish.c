/*
 * Loads libraries one after the other from one file, and works in each; while it does, the file is
 * gone, or has become that of the next, which is what it is at the end. Waits for a line on its
 * input before.
 *
 *   vanish FILE LIBRARY...     the libraries are copied to FILE; of library N the function is in_N
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void copy(const char *from, const char *to)
{
    static char bytes[1 << 20];
    FILE *in = fopen(from, "re"), *out = fopen(to, "we");
    if (!in || !out)
        abort();
    size_t count = fread(bytes, 1, sizeof bytes, in);
    if (fwrite(bytes, 1, count, out) != count)
        abort();
    fclose(in);
    fclose(out);
}

#define CALL(n)                                                                                    \
    __attribute__((noinline)) static unsigned calls_##n(unsigned (*work)(unsigned))                \
    {                                                                                              \
        return work(n) + 1;                                                                        \
    }
CALL(0)
CALL(1)
CALL(2)
CALL(3)

int main(int argc, char **argv)
{
    static unsigned (*const calls[])(unsigned (*)(unsigned)) = {calls_0, calls_1, calls_2, calls_3};
    char line[16], name[16];
    unsigned sum = 0;
    if (argc != 6 || !fgets(line, sizeof line, stdin))
        return 2;
    for (int i = 0; i < 12; i++) {
        copy(argv[2 + i % 4], argv[1]);
        void *library = dlopen(argv[1], RTLD_NOW);
        snprintf(name, sizeof name, "in_%d", i % 4);
        unsigned (*work)(unsigned) = library ? (unsigned (*)(unsigned))dlsym(library, name) : NULL;
        if (!work)
            return 1;
        unlink(argv[1]);
        if (i >= 4) /* another library under its name; the last one stays */
            copy(argv[2 + (i + 1) % 4], argv[1]);
        sum += calls[i % 4](work);
        dlclose(library);
        if (i < 11)
            unlink(argv[1]);
    }
    printf("%u\n", sum);
    return 0;
}
