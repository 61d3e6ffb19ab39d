/*
 * One function's instructions with what each cost: its own, and for calls all that they called.
 *
 * The view has a label for every place in the function; what was inlined is a part of it, as it is
 * in the code. Of several functions of the name, the heaviest is shown.
 */
#include "base/search.h"
#include "names/disassemble.h"
#include "report/report.h"

#include <inttypes.h>
#include <string.h>

enum { CONTEXT_INSTRUCTIONS = 8, TEXT_COLUMNS = 32 };

struct extent {
    uint64_t offset, size, weight;
    uint32_t module; /* the first that is the same */
};

static bool holds(const struct extent *e, const struct label *label)
{
    return label->module == e->module && label->place >= e->offset &&
           label->place - e->offset < e->size;
}

/* The heaviest of the functions that hold wanted places. */
static bool choose(const struct view *view, const bool *wanted, struct extent *best)
{
    const struct profile *p = view->profile;
    const struct labels *labels = &view->labels;
    uint64_t *self = must_calloc(labels->items.count + 1, sizeof *self);
    bool any = false;
    for (uint32_t i = 1; i < view->tree.count; i++)
        self[view->tree.nodes[i].label] += view->tree.totals[i];
    for (uint32_t i = 0; i < profile_function_count(p); i++) {
        const struct ctp_function *f = profile_function(p, i);
        struct extent e = {.offset = f->offset, .size = f->size};
        if (!f->size || f->module >= profile_module_count(p))
            continue;
        e.module = labels->modules[f->module];
        bool has = false;
        for (uint32_t k = 0; k < labels->items.count; k++)
            if (wanted[k] && holds(&e, &labels->items.items[k])) {
                e.weight += self[k];
                has = true;
            }
        if (has && (!any || e.weight > best->weight)) {
            *best = e;
            any = true;
        }
    }
    free(self);
    return any;
}

struct cost {
    uint64_t self, total;
    uint32_t end; /* of the subtree that was counted last */
};

static size_t instruction_at(const struct instructions *code, uint64_t offset)
{
    size_t i;
    SEARCH(i, code->items.count, code->items.items[i].offset <= offset);
    return i ? i - 1 : 0;
}

/* Costs of the instructions; `elsewhere` is the function's own cost in its other parts. */
static struct cost *sum_up(const struct view *view, const bool *wanted, const struct extent *e,
                           const struct instructions *code, struct cost *all, uint64_t *elsewhere)
{
    const struct tree *tree = &view->tree;
    struct cost *costs = must_calloc(code->items.count + 1, sizeof *costs);
    for (uint32_t i = 1; i < tree->count; i++) {
        if (!wanted[tree->nodes[i].label])
            continue;
        const struct label *label = &view->labels.items.items[tree->nodes[i].label];
        all->self += tree->nodes[i].self;
        if (i >= all->end) {
            all->total += tree->totals[i];
            all->end = i + tree->sizes[i];
        }
        if (!holds(e, label)) {
            *elsewhere += tree->nodes[i].self;
            continue;
        }
        struct cost *cost = &costs[instruction_at(code, label->place)];
        cost->self += tree->nodes[i].self;
        if (i >= cost->end) {
            cost->total += tree->totals[i];
            cost->end = i + tree->sizes[i];
        }
    }
    return costs;
}

/* "file.c:12" for the instructions of which the profile knows it; to be freed, with the array. */
static char **find_lines(const struct view *view, const struct extent *e,
                         const struct instructions *code)
{
    const struct profile *p = view->profile;
    char **lines = must_calloc(code->items.count + 1, sizeof *lines);
    for (uint32_t i = 0; i < profile_frame_count(p); i++) {
        const struct ctp_frame *frame = profile_frame(p, i);
        uint64_t place = frame->offset - (frame->flags & CTP_FRAME_RETURN ? 1 : 0);
        const struct ctp_line *line = profile_frame_line(p, frame, 0);
        if (!line || !line->line || frame->module >= profile_module_count(p) ||
            view->labels.modules[frame->module] != e->module || place < e->offset ||
            place - e->offset >= e->size)
            continue;
        char **text = &lines[instruction_at(code, place)];
        if (!*text)
            *text =
                must_format("%s:%" PRIu32, path_file(profile_string(p, line->file)), line->line);
    }
    return lines;
}

static void print_instruction(struct sheet *sheet, const struct instruction *instruction,
                              const struct cost *cost, const char *line)
{
    bool for_people = sheet->format == SHEET_TEXT;
    char *text = must_format("%7" PRIx64 "  %-*s%s%s", instruction->offset,
                             *line ? TEXT_COLUMNS : 0, instruction->text, *line ? "  " : "", line);
    sheet_row(sheet, (struct cell[]){{.number = cost->self},
                                     {.number = cost->total},
                                     {.number = cost->self},
                                     {.text = for_people ? text : instruction->text},
                                     {.text = line},
                                     {.number = instruction->offset},
                                     {.number = cost->total}});
    free(text);
}

/* All instructions for machines; for people those that cost something, and what is around them. */
static void print_code(struct sheet *sheet, const struct instructions *code,
                       const struct cost *costs, char **lines)
{
    static const struct column columns[] = {
        {COLUMN_SHARE, "self", "self_share"}, {COLUMN_SHARE, "total", "total_share"},
        {COLUMN_VALUE, "self", "self"},       {COLUMN_CODE, " offset  instruction", "instruction"},
        {COLUMN_MACHINE_TEXT, "", "line"},    {COLUMN_HIDDEN, "", "offset"},
        {COLUMN_HIDDEN, "", "total"},
    };
    bool for_people = sheet->format == SHEET_TEXT;
    sheet_begin(sheet, "rows", NULL, columns, 7);
    size_t near = 0, skipped = 0; /* near: up to here a cost is near enough */
    for (size_t i = 0; i < code->items.count; i++) {
        for (size_t k = i; k < code->items.count && k <= i + CONTEXT_INSTRUCTIONS; k++)
            if (costs[k].total)
                near = k + CONTEXT_INSTRUCTIONS;
        if (for_people && (near == 0 || i > near)) {
            skipped++;
            continue;
        }
        if (skipped)
            sheet_note(sheet, "... %zu instructions", skipped);
        skipped = 0;
        print_instruction(sheet, &code->items.items[i], &costs[i], lines[i] ? lines[i] : "");
    }
    if (skipped)
        sheet_note(sheet, "... %zu instructions", skipped);
    sheet_end(sheet, 0);
}

int report_asm_open(const struct view *view, const struct report_options *options,
                    const bool *wanted, struct asm_listing *out, struct ct_error *err)
{
    const struct profile *p = view->profile;
    struct extent e = {0};
    if (!choose(view, wanted, &e))
        return ct_fail(err, "%s: the bounds of '%s' are not known", p->name, options->function);
    const struct ctp_module *m = profile_module(p, e.module);
    struct debug_module module = {profile_string(p, m->path), m->build_id, m->build_id_size};
    struct instructions *code = must_calloc(1, sizeof *code);
    int status = disassemble(&module, e.offset, e.size, code, err);
    if (status != CT_OK) {
        free(code);
        return status;
    }
    *out =
        (struct asm_listing){.code = code, .offset = e.offset, .size = e.size, .module = e.module};
    return CT_OK;
}

void report_asm(struct sheet *sheet, const struct report_options *options, const bool *wanted,
                struct asm_listing *listing)
{
    const struct view *view = sheet->view;
    struct extent e = {.offset = listing->offset, .size = listing->size, .module = listing->module};
    struct cost all = {0};
    uint64_t elsewhere = 0;
    struct cost *costs = sum_up(view, wanted, &e, listing->code, &all, &elsewhere);
    char **lines = find_lines(view, &e, listing->code);
    report_note_function(sheet, options->function, all.self, all.total);
    sheet_note(sheet, "%s",
               profile_string(view->profile, profile_module(view->profile, e.module)->path));
    if (elsewhere)
        sheet_note(sheet, "%.1f%% are in other parts of it or in other functions of this name",
                   share_percent(elsewhere, view->total));
    print_code(sheet, listing->code, costs, lines);
    for (size_t i = 0; i < listing->code->items.count; i++)
        free(lines[i]);
    free(lines);
    free(costs);
    vec_free(&listing->code->items);
    free(listing->code);
}
