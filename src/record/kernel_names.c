#include "record/kernel_names.h"

#include <stdio.h>
#include <string.h>

/* Where addresses may not be seen they are all 0. */
static bool next_function(FILE *file, struct named_range *out, char name[256])
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
    struct named_range f;
    char name[256];
    FILE *file = fopen("/proc/kallsyms", "re");
    bool readable = file && next_function(file, &f, name);
    if (file)
        fclose(file);
    return readable;
}

static int by_start(const void *a, const void *b)
{
    const struct named_range *x = a, *y = b;
    return x->start != y->start ? (x->start < y->start ? -1 : 1) : strcmp(x->name, y->name);
}

void kernel_names_read(struct named_ranges *names)
{
    struct named_range f = {0};
    char name[256];
    FILE *file = fopen("/proc/kallsyms", "re");
    *names = (struct named_ranges){0};
    if (!file)
        return;
    while (next_function(file, &f, name)) {
        f.name = must_strdup(name);
        vec_push(&names->items, f);
    }
    fclose(file);
    size_t count = names->items.count;
    if (count)
        qsort(names->items.items, count, sizeof f, by_start);
    for (size_t i = count, next = 0; i-- > 0;) { /* several may have one address */
        struct named_range *k = &names->items.items[i];
        if (i + 1 < count && names->items.items[i + 1].start != k->start)
            next = i + 1;
        k->size = next ? names->items.items[next].start - k->start : 0;
    }
}

const struct named_range *kernel_names_find(const struct named_ranges *names, uint64_t address)
{
    const struct named_range *found = named_ranges_find(names, address);
    /* Of several names at one address, the first. */
    while (found && found > names->items.items && found[-1].start == found->start)
        found--;
    return found;
}
