#include "query/tree.h"

#include "base/vec.h"

void tree_free(struct tree *tree)
{
    free(tree->nodes);
    free(tree->sizes);
    free(tree->totals);
    *tree = (struct tree){0};
}

void tree_begin(struct tree *tree, struct tree_index *index, uint32_t room)
{
    free(tree->sizes);
    tree->sizes = NULL;
    if (!tree->nodes)
        tree->nodes = must_realloc(NULL, room, sizeof *tree->nodes);
    /* At least a quarter of the slots stays free: 5 to 11 bytes for each node that may come, and
     * only the pages that are used count. */
    uint64_t slot_count = 16;
    while (slot_count * 3 / 4 < room)
        slot_count *= 2;
    index->slots = must_calloc(slot_count, sizeof *index->slots);
    index->mask = slot_count - 1;
    tree->nodes[0] = (struct tree_node){.parent = TREE_NONE, .label = TREE_NONE};
    tree->count = 1;
}

static uint64_t slot_of(const struct tree_index *index, uint32_t parent, uint32_t label)
{
    uint64_t key = ((uint64_t)parent << 32 | label) * UINT64_C(0x9e3779b97f4a7c15);
    return (key ^ key >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 20 & index->mask;
}

void tree_prefetch(const struct tree_index *index, uint32_t parent, uint32_t label)
{
    __builtin_prefetch(&index->slots[slot_of(index, parent, label)]);
}

uint32_t tree_child(struct tree *tree, struct tree_index *index, uint32_t parent, uint32_t label)
{
    uint64_t at = slot_of(index, parent, label);
    for (; index->slots[at]; at = (at + 1) & index->mask) {
        const struct tree_node *node = &tree->nodes[index->slots[at]];
        if (node->parent == parent && node->label == label)
            return index->slots[at];
    }
    index->slots[at] = tree->count;
    tree->nodes[tree->count] = (struct tree_node){.parent = parent, .label = label};
    return tree->count++;
}

uint32_t tree_find(const struct tree *tree, const struct tree_index *index, uint32_t parent,
                   uint32_t label)
{
    uint64_t at = slot_of(index, parent, label);
    for (; index->slots[at]; at = (at + 1) & index->mask) {
        const struct tree_node *node = &tree->nodes[index->slots[at]];
        if (node->parent == parent && node->label == label)
            break;
    }
    return index->slots[at];
}

static void count_sizes(struct tree *tree)
{
    for (uint32_t i = 0; i < tree->count; i++)
        tree->sizes[i] = 1;
    for (uint32_t i = tree->count - 1; i > 0; i--)
        tree->sizes[tree->nodes[i].parent] += tree->sizes[i];
}

void tree_arrange(struct tree *tree, struct tree_index *index)
{
    free(index->slots);
    index->slots = NULL;
    uint32_t count = tree->count;
    tree->nodes = must_realloc(tree->nodes, count, sizeof *tree->nodes);
    tree->sizes = must_realloc(tree->sizes, count, sizeof *tree->sizes);
    count_sizes(tree);

    /* ends[i] is where the room that i's children have not taken yet ends. When all of them have
     * taken theirs, that is just behind i itself. */
    uint32_t *ends = must_realloc(NULL, count, sizeof *ends);
    ends[0] = count;
    for (uint32_t i = 1; i < count; i++) {
        uint32_t *parent_end = &ends[tree->nodes[i].parent];
        ends[i] = *parent_end;
        *parent_end -= tree->sizes[i];
    }
    /* The sizes are counted again below: this is where memory is tightest. */
    free(tree->sizes);
    tree->sizes = NULL;
    struct tree_node *arranged = must_realloc(NULL, count, sizeof *arranged);
    arranged[0] = tree->nodes[0];
    for (uint32_t i = 1; i < count; i++) {
        struct tree_node node = tree->nodes[i];
        node.parent = ends[node.parent] - 1;
        arranged[ends[i] - 1] = node;
    }
    free(ends);
    free(tree->nodes);
    tree->nodes = arranged;
    tree->sizes = must_realloc(NULL, count, sizeof *tree->sizes);
    count_sizes(tree);
}

void tree_sum(struct tree *tree)
{
    tree->totals = must_realloc(tree->totals, tree->count, sizeof *tree->totals);
    for (uint32_t i = 0; i < tree->count; i++)
        tree->totals[i] = tree->nodes[i].self;
    for (uint32_t i = tree->count - 1; i > 0; i--)
        tree->totals[tree->nodes[i].parent] += tree->totals[i];
}
