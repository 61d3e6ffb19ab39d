/*
 * Where cost is by how the program is built: module, file, function, line. Only what was charged to
 * a place itself counts, so that the parts of a place are its whole.
 *
 * The view has a label for every line. Places are a tree of texts, each with a letter for its kind
 * in front: m, f, n or l.
 */
#include "report/report.h"

#include <inttypes.h>
#include <string.h>

enum { INDENT = 2, LEVELS = 4 };

struct structure {
    const struct view *view;
    struct string_pool texts;
    struct tree tree; /* labels are offsets of texts */
    struct tree_index index;
    uint64_t shown, left_out; /* rows */
};

static void add(struct structure *s, uint32_t *at, char kind, const char *text, uint64_t identity)
{
    char *key = must_format("%c%" PRIx64 " %s", kind, identity, text);
    *at = tree_child(&s->tree, &s->index, *at, strings_add(&s->texts, key));
    free(key);
}

/* The place of a label, from its module to its line. */
static uint32_t place_of(struct structure *s, uint32_t label)
{
    const struct labels *labels = &s->view->labels;
    const struct label *l = &labels->items.items[label];
    char text[1024];
    uint32_t at = 0, line = (uint32_t)l->place;
    const char *name = label_name(labels, label, text, sizeof text);
    if (!label_is_code(labels, label)) {
        add(s, &at, 'm', name, 0);
        return at;
    }
    const char *module = label_module_file(labels, label);
    const char *file = strings_get(&labels->texts, (uint32_t)(l->place >> 32));
    add(s, &at, 'm', *module ? module : name, l->module);
    add(s, &at, 'f', *file ? file : "(file not known)", 0);
    add(s, &at, 'n', name, l->number);
    if (line) {
        char *number = must_format("line %" PRIu32, line);
        add(s, &at, 'l', number, line);
        free(number);
    }
    return at;
}

static void grow(struct structure *s)
{
    const struct tree *tree = &s->view->tree;
    size_t count = s->view->labels.items.count;
    uint64_t *self = must_calloc(count + 1, sizeof *self);
    for (uint32_t i = 1; i < tree->count; i++)
        self[tree->nodes[i].label] += tree->nodes[i].self;
    tree_begin(&s->tree, &s->index, (uint32_t)(LEVELS * count + 1));
    for (uint32_t i = 0; i < count; i++)
        if (self[i])
            s->tree.nodes[place_of(s, i)].self += self[i];
    tree_arrange(&s->tree, &s->index);
    tree_sum(&s->tree);
    free(self);
}

static const char *key_of(const struct structure *s, uint32_t node)
{
    return strings_get(&s->texts, s->tree.nodes[node].label);
}

static int by_weight(const void *a, const void *b, void *context)
{
    const struct structure *s = context;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const char *first = key_of(s, x), *second = key_of(s, y);
    if (*first == 'l' && *second == 'l') {
        unsigned long line = strtoul(first + 1, NULL, 16), other = strtoul(second + 1, NULL, 16);
        return (line > other) - (line < other);
    }
    if (s->tree.totals[x] != s->tree.totals[y])
        return s->tree.totals[x] > s->tree.totals[y] ? -1 : 1;
    return strcmp(strchr(first, ' '), strchr(second, ' '));
}

static void print_below(struct sheet *sheet, struct structure *s, uint32_t node, uint32_t depth,
                        const struct report_options *options)
{
    static const char *const kinds[] = {"module", "file", "function", "line"};
    VEC(uint32_t) children = {0};
    uint32_t end = node + s->tree.sizes[node];
    for (uint32_t i = node + 1; i < end; i += s->tree.sizes[i])
        vec_push(&children, i);
    if (children.count)
        qsort_r(children.items, children.count, sizeof *children.items, by_weight, s);
    for (size_t i = 0; i < children.count; i++) {
        uint32_t child = children.items[i];
        uint64_t total = s->tree.totals[child];
        if (total < report_min_total(s->view, options) ||
            (options->limit && s->shown >= options->limit)) {
            s->left_out++;
            continue;
        }
        const char *key = key_of(s, child);
        int indent = sheet->format == SHEET_TEXT ? (int)depth * INDENT : 0;
        char *text = must_format("%*s%s", indent, "", strchr(key, ' ') + 1);
        const char *kind = kinds[*key == 'm' ? 0 : *key == 'f' ? 1 : *key == 'n' ? 2 : 3];
        sheet_row(sheet, (struct cell[]){{.number = depth},
                                         {.number = total},
                                         {.number = total},
                                         {.text = kind},
                                         {.text = text}});
        free(text);
        s->shown++;
        if (!options->depth_max || depth + 1 < options->depth_max)
            print_below(sheet, s, child, depth + 1, options);
    }
    vec_free(&children);
}

void report_structure(struct sheet *sheet, const struct report_options *options)
{
    static const struct column columns[] = {
        {COLUMN_HIDDEN, "", "depth"},
        {COLUMN_SHARE, "self", "self_share"},
        {COLUMN_VALUE, "value", "self"},
        {COLUMN_MACHINE_TEXT, "", "kind"},
        {COLUMN_CODE, "module, file, function, line", "name"},
    };
    struct structure s = {.view = sheet->view};
    strings_init(&s.texts);
    grow(&s);
    sheet_begin(sheet, "rows", NULL, columns, sizeof columns / sizeof *columns);
    print_below(sheet, &s, 0, 0, options);
    sheet_end(sheet, s.left_out);
    tree_free(&s.tree);
    strings_free(&s.texts);
}
