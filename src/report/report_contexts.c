/*
 * The hottest contexts: full call paths, by what was charged to exactly them.
 */
#include "report/report.h"

struct chosen {
    uint64_t self;
    uint32_t node;
};

static bool is_lighter(struct chosen a, struct chosen b)
{
    return a.self != b.self ? a.self < b.self : a.node > b.node;
}

/* A heap with the lightest on top, which goes when a heavier one comes. */
struct choice {
    VEC(struct chosen) heap;
    uint32_t limit;
};

static void sink(struct chosen *heap, size_t count, size_t at)
{
    struct chosen moved = heap[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && is_lighter(heap[child + 1], heap[child]))
            child++;
        if (!is_lighter(heap[child], moved))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static void offer(struct choice *choice, struct chosen item)
{
    struct chosen *heap = choice->heap.items;
    if (choice->limit && choice->heap.count == choice->limit) {
        if (!is_lighter(heap[0], item))
            return;
        heap[0] = item;
        sink(heap, choice->heap.count, 0);
        return;
    }
    vec_push(&choice->heap, item);
    heap = choice->heap.items;
    size_t at = choice->heap.count - 1;
    for (; at && is_lighter(item, heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = item;
}

/* Heaviest first. */
static void sort(struct choice *choice)
{
    struct chosen *heap = choice->heap.items;
    for (size_t count = choice->heap.count; count > 1; count--) {
        struct chosen lightest = heap[0];
        heap[0] = heap[count - 1];
        heap[count - 1] = lightest;
        sink(heap, count - 1, 0);
    }
}

void report_contexts(struct sheet *sheet, const struct report_options *options, const char *key,
                     const char *heading)
{
    static const struct column columns[] = {
        {COLUMN_SHARE, "self", "self_share"},
        {COLUMN_VALUE, "value", "self"},
        {COLUMN_HIDDEN, "", "depth"},
        {COLUMN_LABEL, "context", ""},
        {COLUMN_PATH, "", "path"},
    };
    const struct tree *tree = &sheet->view->tree;
    struct choice choice = {.limit = options->limit};
    uint64_t min = report_min_total(sheet->view, options), seen = 0;
    for (uint32_t i = 1; i < tree->count; i++) {
        if (tree->nodes[i].self == 0)
            continue;
        seen++;
        if (tree->nodes[i].self >= min)
            offer(&choice, (struct chosen){tree->nodes[i].self, i});
    }
    sort(&choice);
    sheet_begin(sheet, key, heading, columns, 5);
    VEC(uint32_t) path = {0};
    for (size_t i = 0; i < choice.heap.count; i++) {
        struct chosen item = choice.heap.items[i];
        path.count = 0;
        for (uint32_t at = item.node; at != 0; at = tree->nodes[at].parent)
            vec_push(&path, tree->nodes[at].label);
        for (size_t a = 0, b = path.count - 1; a < b; a++, b--) {
            uint32_t label = path.items[a];
            path.items[a] = path.items[b];
            path.items[b] = label;
        }
        sheet_row(sheet, (struct cell[]){
                             {.number = item.self},
                             {.number = item.self},
                             {.number = path.count},
                             {.number = tree->nodes[item.node].label},
                             {.labels = path.items, .label_count = (uint32_t)path.count},
                         });
    }
    sheet_end(sheet, options->kind == REPORT_CONTEXTS ? seen - choice.heap.count : 0);
    vec_free(&path);
    vec_free(&choice.heap);
}
