/*
 * Ranks of an MPI job: which one is the slow one, and where. A job waits for its slowest rank, so
 * what a context costs all of them is its maximum over the ranks, and what could be gained there by
 * a better balance is the maximum less the mean.
 */
#include "base/search.h"
#include "report/report.h"

#include <inttypes.h>
#include <string.h>

struct rank_row {
    uint32_t rank;    /* CTP_NONE: of processes without one */
    uint32_t process; /* the first of them */
    uint64_t total;
};

struct ranks {
    VEC(struct rank_row) rows; /* all ranks that the profile has a process of */
    uint64_t sum;              /* of those that have a number */
    uint32_t count;            /* of those that have a number */
};

/* A context in all ranks together. */
struct balance {
    uint64_t sum, most;
    uint32_t slowest; /* rank */
    uint32_t node;
};

static double mean_of(uint64_t sum, const struct ranks *ranks)
{
    return ranks->count ? (double)sum / ranks->count : 0;
}

/* 1.00: all have the same. */
static const char *ratio_text(uint64_t value, double mean, char text[16])
{
    snprintf(text, 16, mean > 0 ? "%.2f" : "-", (double)value / mean);
    return text;
}

static int by_rank(const void *a, const void *b)
{
    const struct rank_row *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->process > y->process) - (x->process < y->process);
}

static int slowest_first(const void *a, const void *b)
{
    const struct rank_row *x = a, *y = b;
    if (x->total != y->total)
        return x->total > y->total ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static struct rank_row *find_row(const struct ranks *ranks, uint32_t rank)
{
    size_t i;
    SEARCH(i, ranks->rows.count, ranks->rows.items[i].rank < rank);
    return i < ranks->rows.count && ranks->rows.items[i].rank == rank ? &ranks->rows.items[i]
                                                                      : NULL;
}

static uint32_t rank_of_group(const struct view *view, uint32_t node)
{
    return (uint32_t)view->labels.items.items[view->tree.nodes[node].label].number;
}

static struct ranks collect(const struct view *view)
{
    const struct profile *p = view->profile;
    const struct tree *tree = &view->tree;
    struct ranks ranks = {0};
    for (uint32_t i = 0; i < profile_process_count(p); i++)
        vec_push(&ranks.rows, (struct rank_row){profile_process_rank(p, i), i, 0});
    if (ranks.rows.count)
        qsort(ranks.rows.items, ranks.rows.count, sizeof *ranks.rows.items, by_rank);
    size_t kept = 0;
    for (size_t i = 0; i < ranks.rows.count; i++)
        if (!kept || ranks.rows.items[kept - 1].rank != ranks.rows.items[i].rank)
            ranks.rows.items[kept++] = ranks.rows.items[i];
    ranks.rows.count = kept;
    for (uint32_t i = 1; i < tree->count; i += tree->sizes[i]) {
        struct rank_row *row = find_row(&ranks, rank_of_group(view, i));
        if (row)
            row->total += tree->totals[i];
    }
    for (size_t i = 0; i < kept; i++) {
        ranks.count += ranks.rows.items[i].rank != CTP_NONE;
        ranks.sum += ranks.rows.items[i].rank != CTP_NONE ? ranks.rows.items[i].total : 0;
    }
    return ranks;
}

bool report_has_ranks(const struct profile *p)
{
    for (uint32_t i = 0; i < profile_process_count(p); i++)
        if (profile_process_rank(p, i) != CTP_NONE)
            return true;
    return false;
}

/* ---- By rank --------------------------------------------------------------------------------- */

static const char *host_of(const struct profile *p, uint32_t process)
{
    const struct ctp_fact *host = profile_find_fact(p, CTP_SCOPE_PROCESS, process, "host");
    return host && host->type == CTP_STRING ? profile_string(p, host->value) : "";
}

static void print_ranks(struct sheet *sheet, const struct report_options *options,
                        const struct ranks *ranks)
{
    static const struct column columns[] = {
        {COLUMN_SHARE, "share", "share"},    {COLUMN_VALUE, "value", "value"},
        {COLUMN_TEXT, "of mean", "of_mean"}, {COLUMN_TEXT, "rank", "rank"},
        {COLUMN_TEXT, "host", "host"},
    };
    const struct profile *p = sheet->view->profile;
    uint32_t shown = 0;
    sheet_begin(sheet, "rows", NULL, columns, 5);
    for (size_t i = 0; i < ranks->rows.count; i++) {
        const struct rank_row *row = &ranks->rows.items[i];
        char ratio[16], number[32];
        if (options->limit && shown == options->limit)
            break;
        bool known = row->rank != CTP_NONE;
        sheet_row(
            sheet,
            (struct cell[]){
                {.number = row->total},
                {.number = row->total},
                {.text = known ? ratio_text(row->total, mean_of(ranks->sum, ranks), ratio) : "-"},
                {.text = view_group_name(p, GROUP_RANK, row->rank, number, sizeof number)},
                {.text = host_of(p, row->process)},
            });
        shown++;
    }
    sheet_end(sheet, ranks->rows.count - shown);
}

/* ---- By context ------------------------------------------------------------------------------ */

static int most_to_gain_first(const void *a, const void *b, void *context)
{
    const struct ranks *ranks = context;
    const struct balance *x = a, *y = b;
    double first = (double)x->most - mean_of(x->sum, ranks),
           second = (double)y->most - mean_of(y->sum, ranks);
    if (first != second)
        return first > second ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

/* The contexts of all ranks as one tree, and how each is spread over them. */
static struct balance *join(const struct view *view, const struct ranks *ranks, struct tree *joined)
{
    const struct tree *tree = &view->tree;
    struct tree_index index;
    uint32_t *targets = must_calloc(tree->count, sizeof *targets);
    struct balance *balances = must_calloc(tree->count, sizeof *balances);
    uint32_t rank = CTP_NONE, group_end = 1;
    tree_begin(joined, &index, tree->count);
    for (uint32_t i = 1; i < tree->count; i++) {
        if (i == group_end) { /* the node of a rank: targets[i] stays the root */
            rank = rank_of_group(view, i);
            group_end = i + tree->sizes[i];
            continue;
        }
        uint64_t self = tree->nodes[i].self;
        targets[i] =
            tree_child(joined, &index, targets[tree->nodes[i].parent], tree->nodes[i].label);
        struct balance *b = &balances[targets[i]];
        b->node = targets[i];
        if (rank == CTP_NONE)
            continue;
        b->sum += self;
        if (self > b->most || (self && self == b->most && rank < b->slowest)) {
            b->most = self;
            b->slowest = rank;
        }
    }
    free(index.slots);
    free(targets);
    qsort_r(balances, joined->count, sizeof *balances, most_to_gain_first,
            (void *)(uintptr_t)ranks);
    return balances;
}

static void print_context(struct sheet *sheet, const struct ranks *ranks, const struct tree *joined,
                          const struct balance *b)
{
    char ratio[16];
    double mean = mean_of(b->sum, ranks);
    VEC(uint32_t) path = {0};
    for (uint32_t at = b->node; at != 0; at = joined->nodes[at].parent)
        vec_push(&path, joined->nodes[at].label);
    for (size_t i = 0, k = path.count - 1; i < k; i++, k--) {
        uint32_t label = path.items[i];
        path.items[i] = path.items[k];
        path.items[k] = label;
    }
    sheet_row(sheet, (struct cell[]){
                         {.number = b->most},
                         {.number = (uint64_t)(mean + 0.5)},
                         {.text = ratio_text(b->most, mean, ratio)},
                         {.number = b->slowest},
                         {.number = joined->nodes[b->node].label},
                         {.labels = path.items, .label_count = (uint32_t)path.count},
                     });
    vec_free(&path);
}

static void print_contexts(struct sheet *sheet, const struct report_options *options,
                           const struct ranks *ranks)
{
    static const struct column columns[] = {
        {COLUMN_VALUE, "max", "max"},         {COLUMN_VALUE, "mean", "mean"},
        {COLUMN_TEXT, "max/mean", "of_mean"}, {COLUMN_ID, "rank", "slowest_rank"},
        {COLUMN_LABEL, "context", ""},        {COLUMN_PATH, "", "path"},
    };
    struct tree joined = {0};
    struct balance *balances = join(sheet->view, ranks, &joined);
    uint32_t shown = 0, left_out = 0;
    sheet_begin(sheet, "contexts", "Imbalance by context, what could be gained first", columns, 6);
    for (uint32_t i = 0; i < joined.count; i++) {
        if (balances[i].most == 0)
            continue;
        bool is_even = (double)balances[i].most <= mean_of(balances[i].sum, ranks);
        if (is_even || (options->limit && shown == options->limit)) {
            left_out++;
            continue;
        }
        print_context(sheet, ranks, &joined, &balances[i]);
        shown++;
    }
    sheet_end(sheet, left_out);
    free(balances);
    tree_free(&joined);
}

void report_ranks(struct sheet *sheet, const struct report_options *options)
{
    struct ranks ranks = collect(sheet->view);
    qsort(ranks.rows.items, ranks.rows.count, sizeof *ranks.rows.items, slowest_first);
    for (size_t i = 0; i < ranks.rows.count && ranks.sum; i++) {
        const struct rank_row *row = &ranks.rows.items[i];
        char most[AMOUNT_ROOM], mean[AMOUNT_ROOM];
        if (row->rank == CTP_NONE)
            continue;
        sheet_note(sheet, "Slowest of %u ranks: rank %u with %s, %.2f times the mean of %s.",
                   ranks.count, row->rank, amount_text(&sheet->scale, row->total, most),
                   (double)row->total / mean_of(ranks.sum, &ranks),
                   amount_text(&sheet->scale, (uint64_t)mean_of(ranks.sum, &ranks), mean));
        sheet_note(sheet, "%s", "");
        break;
    }
    print_ranks(sheet, options, &ranks);
    print_contexts(sheet, options, &ranks);
    vec_free(&ranks.rows);
}
