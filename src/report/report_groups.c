/*
 * Threads, processes and phases: who used how much.
 */
#include "query/idle.h"
#include "report/report.h"

#include <inttypes.h>
#include <string.h>

struct group_row {
    uint32_t index; /* of the thread, process or phase; CTP_NONE when it is not known */
    uint32_t contexts;
    uint64_t total;
};

static struct group_row *collect(const struct view *view, uint32_t *count)
{
    const struct tree *tree = &view->tree;
    VEC(struct group_row) rows = {0};
    for (uint32_t i = 1; i < tree->count; i += tree->sizes[i]) {
        struct group_row row = {.index =
                                    (uint32_t)view->labels.items.items[tree->nodes[i].label].number,
                                .total = tree->totals[i]};
        for (uint32_t k = i; k < i + tree->sizes[i]; k++)
            row.contexts += tree->nodes[k].self != 0;
        vec_push(&rows, row);
    }
    *count = (uint32_t)rows.count;
    return rows.items;
}

static int heaviest_first(const void *a, const void *b)
{
    const struct group_row *x = a, *y = b;
    if (x->total != y->total)
        return x->total > y->total ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* A phase has no more to it than its name; the order of the program is the best one for them. */
static int in_order(const void *a, const void *b)
{
    const struct group_row *x = a, *y = b;
    return (x->index > y->index) - (x->index < y->index);
}

/* Threads that only waited become one row, behind the others. Returns how many they are. */
static uint32_t join_idle(const struct view *view, struct group_row *rows, uint32_t *count,
                          struct group_row *joined)
{
    struct idle idle;
    struct ct_error err;
    uint32_t kept = 0, taken = 0;
    *joined = (struct group_row){.index = CTP_NONE};
    if (idle_find(view->profile, view->metric, &idle, &err) != CT_OK || !idle.threads)
        return 0;
    for (uint32_t i = 0; i < *count; i++) {
        if (rows[i].index == CTP_NONE || !idle.threads[rows[i].index]) {
            rows[kept++] = rows[i];
            continue;
        }
        joined->total += rows[i].total;
        joined->contexts += rows[i].contexts;
        taken++;
    }
    idle_free(&idle);
    *count = kept;
    return taken;
}

static void print_idle(struct sheet *sheet, const struct group_row *row, uint32_t threads)
{
    char text[64];
    snprintf(text, sizeof text, "(%" PRIu32 " only waited)", threads);
    sheet_row(sheet, (struct cell[]){{.number = row->total},
                                     {.number = row->total},
                                     {.number = row->contexts},
                                     {.same = true},
                                     {.text = text},
                                     {.text = "(--idle shows them)"}});
}

static void print_row(struct sheet *sheet, const struct group_row *row)
{
    const struct profile *p = sheet->view->profile;
    enum view_grouping grouping = sheet->view->grouping;
    char text[32];
    struct cell cells[6] = {
        {.number = row->total}, {.number = row->total}, {.number = row->contexts}};
    cells[3].text = view_group_name(p, grouping, row->index, text, sizeof text);
    if (grouping == GROUP_PHASE) {
        sheet_row(sheet, cells);
        return;
    }
    char other[32];
    const struct ctp_thread *thread = profile_thread(p, row->index);
    uint32_t process = grouping == GROUP_THREAD ? thread->process : row->index;
    const char *command = profile_string(p, profile_process(p, process)->command);
    cells[4].number = grouping == GROUP_THREAD ? thread->tid : profile_process(p, process)->pid;
    cells[5].text = grouping == GROUP_PROCESS
                        ? command
                        : view_group_name(p, GROUP_PROCESS, process, other, sizeof other);
    /* The name comes last, where it has room. */
    struct cell name = cells[3];
    cells[3] = cells[4];
    cells[4] = name;
    sheet_row(sheet, cells);
}

void report_groups(struct sheet *sheet, const struct report_options *options)
{
    static const struct column threads[] = {
        {COLUMN_SHARE, "share", "share"},       {COLUMN_VALUE, "value", "value"},
        {COLUMN_COUNT, "contexts", "contexts"}, {COLUMN_ID, "tid", "tid"},
        {COLUMN_TEXT, "thread", "thread"},      {COLUMN_TEXT, "process", "process"},
    };
    static const struct column processes[] = {
        {COLUMN_SHARE, "share", "share"},       {COLUMN_VALUE, "value", "value"},
        {COLUMN_COUNT, "contexts", "contexts"}, {COLUMN_ID, "pid", "pid"},
        {COLUMN_TEXT, "process", "process"},    {COLUMN_TEXT, "program", "program"},
    };
    static const struct column phases[] = {
        {COLUMN_SHARE, "share", "share"},
        {COLUMN_VALUE, "value", "value"},
        {COLUMN_COUNT, "contexts", "contexts"},
        {COLUMN_TEXT, "phase", "phase"},
    };
    uint32_t count, shown = 0, left_out = 0;
    struct group_row *rows = collect(sheet->view, &count);
    bool phase = options->kind == REPORT_PHASES;
    if (count)
        qsort(rows, count, sizeof *rows, phase ? in_order : heaviest_first);
    sheet_begin(sheet, "rows", NULL,
                phase                             ? phases
                : options->kind == REPORT_THREADS ? threads
                                                  : processes,
                phase ? 4 : 6);
    struct group_row joined;
    uint32_t waited =
        options->kind == REPORT_THREADS && sheet->format == SHEET_TEXT && !options->with_idle
            ? join_idle(sheet->view, rows, &count, &joined)
            : 0;
    uint64_t min = options->min_share > 0 ? report_min_total(sheet->view, options) : 0;
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].total < min || (options->limit && shown == options->limit)) {
            left_out++;
            continue;
        }
        print_row(sheet, &rows[i]);
        shown++;
    }
    if (waited)
        print_idle(sheet, &joined, waited);
    sheet_end(sheet, left_out);
    free(rows);
}
