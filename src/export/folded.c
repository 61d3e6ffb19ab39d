/*
 * Folded stacks, one line for each context whose own value is not zero: names from the outermost
 * frame on with `;` between them, a space, and the value. Frames are known by name alone, so no two
 * lines have the same stack. The order is that of the names, whatever the order of the profile was.
 */
#include "export/export.h"

#include <inttypes.h>
#include <string.h>

static const char *name_of_frame(const struct stacks *stacks, uint32_t frame)
{
    /* Names of STACK_BY_NAME are all there already. */
    return stack_name(stacks, &stacks->frames.items[frame], NULL);
}

static int compare_names(const void *a, const void *b, void *context)
{
    const struct stacks *stacks = context;
    return strcmp(name_of_frame(stacks, *(const uint32_t *)a),
                  name_of_frame(stacks, *(const uint32_t *)b));
}

/* The nodes of the tree in the order of their names, by counting. */
static uint32_t *nodes_by_name(const struct stacks *stacks)
{
    const struct tree *tree = &stacks->tree;
    uint32_t frames = (uint32_t)stacks->frames.count;
    uint32_t *names = must_realloc(NULL, (size_t)frames + 1, sizeof *names);
    uint32_t *places = must_calloc((size_t)frames + 1, sizeof *places); /* by frame */
    for (uint32_t i = 0; i < frames; i++)
        names[i] = i;
    qsort_r(names, frames, sizeof *names, compare_names, (void *)(uintptr_t)stacks);
    for (uint32_t i = 1; i < tree->count; i++)
        places[tree->nodes[i].label]++;
    for (uint32_t i = 0, next = 0; i < frames; i++) {
        uint32_t count = places[names[i]];
        places[names[i]] = next;
        next += count;
    }
    uint32_t *nodes = must_realloc(NULL, tree->count, sizeof *nodes);
    for (uint32_t i = 1; i < tree->count; i++)
        nodes[places[tree->nodes[i].label]++] = i;
    free(names);
    free(places);
    return nodes;
}

/* Children of every node in the order of their names. */
struct family {
    uint32_t *first_child;  /* 0: none */
    uint32_t *next_sibling; /* 0: none */
};

static struct family family_by_name(const struct stacks *stacks)
{
    const struct tree *tree = &stacks->tree;
    struct family family = {must_calloc(tree->count, sizeof *family.first_child),
                            must_calloc(tree->count, sizeof *family.next_sibling)};
    uint32_t *nodes = nodes_by_name(stacks);
    for (uint32_t i = tree->count - 1; i-- > 0;) {
        uint32_t *first = &family.first_child[tree->nodes[nodes[i]].parent];
        family.next_sibling[nodes[i]] = *first;
        *first = nodes[i];
    }
    free(nodes);
    return family;
}

int export_folded(const struct stacks *stacks, FILE *out, struct ct_error *err)
{
    (void)err;
    const struct tree *tree = &stacks->tree;
    struct family family = family_by_name(stacks);
    VEC(char) stack = {0};    /* the names down to `at`, with `;` behind each */
    VEC(size_t) starts = {0}; /* where each of them begins */
    for (uint32_t at = family.first_child[0]; at != 0;) {
        const char *name = name_of_frame(stacks, tree->nodes[at].label);
        size_t length = strlen(name);
        vec_push(&starts, stack.count);
        vec_reserve(&stack, stack.count + length + 1);
        memcpy(stack.items + stack.count, name, length);
        stack.count += length;
        stack.items[stack.count++] = ';';
        if (stacks->values[0][at]) {
            fwrite(stack.items, 1, stack.count - 1, out);
            fprintf(out, " %" PRIu64 "\n", stacks->values[0][at]);
        }
        if (family.first_child[at]) {
            at = family.first_child[at];
            continue;
        }
        stack.count = starts.items[--starts.count];
        while (at != 0 && !family.next_sibling[at]) {
            at = tree->nodes[at].parent;
            if (at != 0)
                stack.count = starts.items[--starts.count];
        }
        at = family.next_sibling[at];
    }
    free(family.first_child);
    free(family.next_sibling);
    vec_free(&stack);
    vec_free(&starts);
    return CT_OK;
}
