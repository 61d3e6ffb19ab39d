#include "step_report.h"

#include "step_decode.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES_SHOWN = 24 };

bool true_frame(const struct comparison *c, size_t index, struct walk_frame *out)
{
    size_t count = c->truth->entries.count;
    if (index > count)
        return false;
    *out = (struct walk_frame){.pc = c->regs->rip, .flags = FRAME_IS_PC};
    if (index > 0) {
        const struct truth_entry *entry = &c->truth->entries.items[count - index];
        out->pc = entry->pc;
        out->flags = entry->is_signal ? FRAME_IS_PC : 0;
    }
    if (index < count) {
        const struct truth_entry *next = &c->truth->entries.items[count - index - 1];
        out->slot = next->is_signal || next->in_register ? 0 : next->slot;
    }
    return true;
}

static void print_place(FILE *out, const struct step_modules *modules, uint64_t pc, bool is_pc)
{
    struct module_place place = modules_place(modules, pc, !is_pc);
    fprintf(out, "%#" PRIx64 " %s+%#" PRIx64, pc, place.module, place.offset);
    if (place.function[0])
        fprintf(out, " <%s+%#" PRIx64 ">", place.function, place.function_offset);
}

/* The last right frame is where the walk went wrong or stopped. */
static struct walk_frame last_good(const struct comparison *c)
{
    struct walk_frame frame = {.pc = c->regs->rip, .flags = FRAME_IS_PC};
    if (c->good_count > 0)
        true_frame(c, c->good_count - 1, &frame);
    return frame;
}

static char *describe(const struct comparison *c)
{
    char *text = NULL, insn[128];
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return must_strdup("");
    struct walk_frame last = last_good(c);
    print_place(out, c->modules, last.pc, last.flags & FRAME_IS_PC);
    decode_text(c->pid, last.pc, insn, sizeof insn);
    fprintf(out, ": %s", insn);
    if (c->good_count > 1)
        fprintf(out, " (frame %u)", c->good_count - 1);
    fclose(out);
    return text;
}

struct finding finding_make(enum finding_kind kind, const struct comparison *c)
{
    struct walk_frame last = last_good(c);
    struct module_place place = modules_place(c->modules, last.pc, !(last.flags & FRAME_IS_PC));
    struct finding finding = {.kind = kind, .end = c->end, .first_step = c->step};
    finding.module = must_strdup(place.module);
    finding.function =
        place.function[0] ? must_strdup(place.function) : must_format("at %#" PRIx64, place.offset);
    finding.example = describe(c);
    return finding;
}

void finding_free(struct finding *finding)
{
    free(finding->module);
    free(finding->function);
    free(finding->example);
}

static struct finding *find(struct findings *findings, const struct finding *like)
{
    for (size_t i = 0; i < findings->items.count; i++) {
        struct finding *item = &findings->items.items[i];
        if (item->kind == like->kind && item->end == like->end &&
            strcmp(item->module, like->module) == 0 && strcmp(item->function, like->function) == 0)
            return item;
    }
    return NULL;
}

void findings_add_more(struct findings *findings, const struct finding *like, uint64_t count)
{
    findings->totals[like->kind] += count;
    struct finding *known = find(findings, like);
    if (!known) {
        struct finding copy = *like;
        copy.module = must_strdup(like->module);
        copy.function = must_strdup(like->function);
        copy.example = must_strdup(like->example);
        copy.count = 0;
        vec_push(&findings->items, copy);
        known = &findings->items.items[findings->items.count - 1];
    }
    known->count += count;
}

bool findings_add(struct findings *findings, enum finding_kind kind, const struct comparison *c)
{
    uint64_t pc = last_good(c).pc;
    size_t at = pc % RECENT_FINDINGS;
    size_t item = findings->recent[at].item;
    struct finding *known = item < findings->items.count ? &findings->items.items[item] : NULL;
    if (known && findings->recent[at].pc == pc && known->kind == kind && known->end == c->end) {
        known->count++;
        findings->totals[kind]++;
        return false;
    }
    struct finding finding = finding_make(kind, c);
    bool is_new = !find(findings, &finding);
    findings_add_more(findings, &finding, 1);
    findings->recent[at].pc = pc;
    findings->recent[at].item = (size_t)(find(findings, &finding) - findings->items.items);
    finding_free(&finding);
    return is_new;
}

static void print_frame(FILE *out, const struct comparison *c, size_t index,
                        const struct walk_frame *frame, bool differs)
{
    fprintf(out, "    %c %3zu %s ", differs ? '*' : ' ', index,
            frame->flags & FRAME_IS_PC ? "pc" : "ra");
    print_place(out, c->modules, frame->pc, frame->flags & FRAME_IS_PC);
    if (frame->slot)
        fprintf(out, " [slot %#" PRIx64 "]", frame->slot);
    fprintf(out, "\n");
}

void report_wrong(FILE *out, const struct comparison *c)
{
    char insn[128];
    decode_text(c->pid, c->regs->rip, insn, sizeof insn);
    fprintf(out, "wrong walk: %s, step %" PRIu64 ", at ", c->program, c->step);
    print_place(out, c->modules, c->regs->rip, true);
    fprintf(out, ": %s\n", insn);
    fprintf(out, "    rsp %#llx rbp %#llx rbx %#llx rax %#llx r10 %#llx r13 %#llx\n", c->regs->rsp,
            c->regs->rbp, c->regs->rbx, c->regs->rax, c->regs->r10, c->regs->r13);
    size_t from = c->good_count > FRAMES_SHOWN / 2 ? c->good_count - FRAMES_SHOWN / 2 : 0;
    fprintf(out, "  expected, %zu frames:\n", c->truth->entries.count + 1);
    struct walk_frame frame;
    for (size_t i = from; i < from + FRAMES_SHOWN && true_frame(c, i, &frame); i++)
        print_frame(out, c, i, &frame, false);
    fprintf(out, "  walked, %u frames, %s:\n", c->count, walk_end_names[c->end]);
    for (size_t i = from; i < from + FRAMES_SHOWN && i < c->count; i++)
        print_frame(out, c, i, &c->frames[i], i >= c->good_count);
}

static int by_count(const void *a, const void *b)
{
    const struct finding *x = a, *y = b;
    return x->count < y->count ? 1 : x->count > y->count ? -1 : 0;
}

void report_findings(FILE *out, const struct findings *findings, enum finding_kind kind,
                     uint64_t compared)
{
    static const char *const titles[FOUND_KINDS] = {
        [FOUND_WRONG] = "wrong walks, by the frame where they left the truth",
        [FOUND_INCOMPLETE] = "incomplete walks, by the frame where they ended",
        [FOUND_FAST] = "faster walks that differ from the plain one, by their innermost frame",
        [FOUND_AHEAD] = "walks that named the frames about to be jumped to",
        [FOUND_REPLACED] = "walks through frames that the program had overwritten",
    };
    if (findings->totals[kind] == 0)
        return;
    fprintf(out, "%s: %" PRIu64 " of %" PRIu64 "\n", titles[kind], findings->totals[kind],
            compared);
    struct finding *sorted = must_calloc(findings->items.count, sizeof *sorted);
    size_t count = 0;
    for (size_t i = 0; i < findings->items.count; i++) {
        if (findings->items.items[i].kind == kind)
            sorted[count++] = findings->items.items[i];
    }
    qsort(sorted, count, sizeof *sorted, by_count);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "  %10" PRIu64 "  %s: %s %s; first at step %" PRIu64 ", %s\n", sorted[i].count,
                walk_end_names[sorted[i].end], sorted[i].module, sorted[i].function,
                sorted[i].first_step, sorted[i].example);
    free(sorted);
}

void findings_free(struct findings *findings)
{
    for (size_t i = 0; i < findings->items.count; i++)
        finding_free(&findings->items.items[i]);
    vec_free(&findings->items);
}
