/*
 * The paths that engine `paths` counted, hottest first: each is a row, with its blocks.
 *
 * Below each function of the view are the blocks of its paths, and the view tells instructions
 * apart. A path is a node that has executions of its own; the blocks are its ancestors.
 */
#include "base/search.h"
#include "report/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_OF_ALL_PERCENT = 90 };

struct paths_view {
    const struct sheet *sheet;
    VEC(uint32_t) nodes;  /* of paths */
    VEC(uint32_t) frames; /* of the profile that are one instruction, by module and offset */
};

static int compare_frames(const void *a, const void *b, void *profile)
{
    const struct ctp_frame *x = profile_frame(profile, *(const uint32_t *)a),
                           *y = profile_frame(profile, *(const uint32_t *)b);
    if (x->module != y->module)
        return x->module < y->module ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* The source line of a place in the function itself, whatever was inlined there; 0: not known. */
static uint32_t line_of(const struct paths_view *v, uint32_t module, uint64_t offset)
{
    const struct profile *p = v->sheet->view->profile;
    size_t i;
    SEARCH(i, v->frames.count,
           profile_frame(p, v->frames.items[i])->module < module ||
               (profile_frame(p, v->frames.items[i])->module == module &&
                profile_frame(p, v->frames.items[i])->offset < offset));
    const struct ctp_frame *f = i < v->frames.count ? profile_frame(p, v->frames.items[i]) : NULL;
    if (!f || f->module != module || f->offset != offset || !f->line_count)
        return 0;
    return profile_line(p, f->first_line + f->line_count - 1)->line;
}

static const struct label *label_of(const struct paths_view *v, uint32_t node)
{
    const struct view *view = v->sheet->view;
    return &view->labels.items.items[view->tree.nodes[node].label];
}

/* The function of a path: its node, below the root. */
static uint32_t function_of(const struct paths_view *v, uint32_t node)
{
    const struct tree_node *nodes = v->sheet->view->tree.nodes;
    while (nodes[node].parent && nodes[node].parent != TREE_NONE)
        node = nodes[node].parent;
    return node;
}

static uint32_t blocks_of(const struct paths_view *v, uint32_t node)
{
    uint32_t count = 0;
    for (; node != function_of(v, node); node = v->sheet->view->tree.nodes[node].parent)
        count++;
    return count;
}

/* The blocks as source lines, or as they lie from the function's start; to be freed. */
static char *text_of(const struct paths_view *v, uint32_t node)
{
    const uint32_t function = function_of(v, node), count = blocks_of(v, node);
    uint32_t *blocks = must_calloc(count + 1, sizeof *blocks), before = 0;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    for (uint32_t k = count; out && k-- > 0; node = v->sheet->view->tree.nodes[node].parent)
        blocks[k] = node;
    for (uint32_t k = 0; out && k < count; k++) {
        const struct label *l = label_of(v, blocks[k]);
        uint32_t line = line_of(v, l->module, l->place);
        if (!line)
            fprintf(out, "%s+%" PRIx64, k ? " " : "", l->place - label_of(v, function)->place);
        else if (line != before)
            fprintf(out, "%s%" PRIu32, k ? " " : "", line);
        before = line;
    }
    free(blocks);
    if (out)
        fclose(out);
    return text ? text : must_strdup("");
}

static int by_count(const void *a, const void *b, void *view)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const struct tree_node *nodes = ((const struct view *)view)->tree.nodes;
    if (nodes[x].self != nodes[y].self)
        return nodes[x].self > nodes[y].self ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void collect(struct paths_view *v)
{
    const struct view *view = v->sheet->view;
    for (uint32_t i = 1; i < view->tree.count; i++)
        if (view->tree.nodes[i].self && view->tree.nodes[i].parent)
            vec_push(&v->nodes, i);
    if (v->nodes.count)
        qsort_r(v->nodes.items, v->nodes.count, sizeof *v->nodes.items, by_count, (void *)view);
    for (uint32_t i = 0; i < profile_frame_count(view->profile); i++)
        if (profile_frame(view->profile, i)->module != CTP_NONE)
            vec_push(&v->frames, i);
    if (v->frames.count)
        qsort_r(v->frames.items, v->frames.count, sizeof *v->frames.items, compare_frames,
                (void *)view->profile);
}

/* How few paths, in how few functions, have most of all executions. */
static void note_hot(struct sheet *sheet, const struct paths_view *v)
{
    const struct tree *tree = &sheet->view->tree;
    bool *is_hot = must_calloc(tree->count + 1, sizeof *is_hot);
    uint64_t sum = 0, all = tree->totals[0];
    uint32_t hot = 0, functions = 0;
    for (; hot < v->nodes.count && sum < all - all / 100 * (100 - MOST_OF_ALL_PERCENT); hot++) {
        uint32_t function = function_of(v, v->nodes.items[hot]);
        sum += tree->nodes[v->nodes.items[hot]].self;
        functions += !is_hot[function];
        is_hot[function] = true;
    }
    sheet_note(sheet,
               "%zu paths; %" PRIu32 " of them, in %" PRIu32 " function%s, have %d%% of all "
               "executions",
               v->nodes.count, hot, functions, functions == 1 ? "" : "s", MOST_OF_ALL_PERCENT);
    free(is_hot);
}

void report_paths(struct sheet *sheet, const struct report_options *options)
{
    static const struct column columns[] = {
        {COLUMN_SHARE, "share", "share"},
        {COLUMN_VALUE, "paths", "count"},
        {COLUMN_VALUE, "function", "total"},
        {COLUMN_COUNT, "blocks", "blocks"},
        {COLUMN_LABEL, "in", ""},
        {COLUMN_CODE, "lines", "path"},
    };
    struct paths_view v = {.sheet = sheet};
    const struct tree *tree = &sheet->view->tree;
    uint64_t least = report_min_total(sheet->view, options), left_out = 0;
    collect(&v);
    note_hot(sheet, &v);
    sheet_begin(sheet, "rows", NULL, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < v.nodes.count; i++) {
        uint32_t node = v.nodes.items[i], function = function_of(&v, node);
        uint64_t count = tree->nodes[node].self;
        if (count < least || (options->limit && i >= options->limit)) {
            left_out = v.nodes.count - i;
            break;
        }
        char *text = text_of(&v, node);
        sheet_row(sheet, (struct cell[]){{.number = count},
                                         {.number = count},
                                         {.number = tree->totals[function]},
                                         {.number = blocks_of(&v, node)},
                                         {.number = tree->nodes[function].label},
                                         {.text = text}});
        free(text);
    }
    sheet_end(sheet, left_out);
    vec_free(&v.nodes);
    vec_free(&v.frames);
}
