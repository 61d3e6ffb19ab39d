#include "record/kernel_names.h"

#include <stdio.h>
#include <string.h>

/* Where addresses may not be seen they are all 0. */
static bool next_function(FILE *file, struct kernel_function *out, char name[256])
{
    char kind, line[512];
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%lx %c %255s", &out->start, &kind, name) == 3 && strchr("tTwW", kind) &&
            out->start >= KERNEL_BASE)
            return true;
    }
    return false;
}

bool kernel_names_are_readable(void)
{
    struct kernel_function f;
    char name[256];
    FILE *file = fopen("/proc/kallsyms", "re");
    bool readable = file && next_function(file, &f, name);
    if (file)
        fclose(file);
    return readable;
}

static int by_start(const void *a, const void *b)
{
    const struct kernel_function *x = a, *y = b;
    return x->start != y->start ? (x->start < y->start ? -1 : 1) : strcmp(x->name, y->name);
}

void kernel_names_read(struct kernel_names *names)
{
    struct kernel_function f = {0};
    char name[256];
    FILE *file = fopen("/proc/kallsyms", "re");
    *names = (struct kernel_names){0};
    if (!file)
        return;
    while (next_function(file, &f, name)) {
        f.name = must_strdup(name);
        vec_push(&names->functions, f);
    }
    fclose(file);
    size_t count = names->functions.count;
    if (count)
        qsort(names->functions.items, count, sizeof f, by_start);
    for (size_t i = count, next = 0; i-- > 0;) { /* several may have one address */
        struct kernel_function *k = &names->functions.items[i];
        if (i + 1 < count && names->functions.items[i + 1].start != k->start)
            next = i + 1;
        k->size = next ? names->functions.items[next].start - k->start : 0;
    }
}

void kernel_names_free(struct kernel_names *names)
{
    for (size_t i = 0; i < names->functions.count; i++)
        free(names->functions.items[i].name);
    vec_free(&names->functions);
}

const struct kernel_function *kernel_names_find(const struct kernel_names *names, uint64_t address)
{
    size_t low = 0, high = names->functions.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (names->functions.items[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    /* Of several names at one address, the first. */
    while (low > 1 &&
           names->functions.items[low - 2].start == names->functions.items[low - 1].start)
        low--;
    return low ? &names->functions.items[low - 1] : NULL;
}
