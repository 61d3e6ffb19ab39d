#include "export/export.h"

#include <inttypes.h>
#include <string.h>

static int compare_names(const void *a, const void *b, void *context)
{
    const struct labels *labels = context;
    return strcmp(label_name(labels, *(const uint32_t *)a, NULL, 0),
                  label_name(labels, *(const uint32_t *)b, NULL, 0));
}

/* The nodes of the tree in the order of their labels' names, by counting. */
static uint32_t *nodes_by_name(const struct view *view)
{
    const struct tree *tree = &view->tree;
    uint32_t labels = (uint32_t)view->labels.items.count;
    uint32_t *names = must_realloc(NULL, (size_t)labels + 1, sizeof *names);
    uint32_t *places = must_calloc((size_t)labels + 1, sizeof *places); /* by label */
    for (uint32_t i = 0; i < labels; i++)
        names[i] = i;
    qsort_r(names, labels, sizeof *names, compare_names, (void *)(uintptr_t)&view->labels);
    for (uint32_t i = 1; i < tree->count; i++)
        places[tree->nodes[i].label]++;
    for (uint32_t i = 0, next = 0; i < labels; i++) {
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

static struct family family_by_name(const struct view *view)
{
    const struct tree *tree = &view->tree;
    struct family family = {must_calloc(tree->count, sizeof *family.first_child),
                            must_calloc(tree->count, sizeof *family.next_sibling)};
    uint32_t *nodes = nodes_by_name(view);
    for (uint32_t i = tree->count - 1; i-- > 0;) {
        uint32_t *first = &family.first_child[tree->nodes[nodes[i]].parent];
        family.next_sibling[nodes[i]] = *first;
        *first = nodes[i];
    }
    free(nodes);
    return family;
}

void export_folded(const struct view *view, FILE *out)
{
    const struct tree *tree = &view->tree;
    struct family family = family_by_name(view);
    VEC(char) stack = {0};    /* the names down to `at`, with `;` behind each */
    VEC(size_t) starts = {0}; /* where each of them begins */
    for (uint32_t at = family.first_child[0]; at != 0;) {
        const char *name = label_name(&view->labels, tree->nodes[at].label, NULL, 0);
        size_t length = strlen(name);
        vec_push(&starts, stack.count);
        vec_reserve(&stack, stack.count + length + 1);
        memcpy(stack.items + stack.count, name, length);
        stack.count += length;
        stack.items[stack.count++] = ';';
        if (tree->nodes[at].self) {
            fwrite(stack.items, 1, stack.count - 1, out);
            fprintf(out, " %" PRIu64 "\n", tree->nodes[at].self);
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
}
