#include "flow/flow_plan.h"

static void copy_functions(struct flow_module *m, struct flow_content *out)
{
    for (size_t k = 0; k < m->summaries.count; k++) {
        const struct flow_summary *s = &m->summaries.items[k];
        struct plan_routine entry = {.start = s->start,
                                     .first = out->counter_count,
                                     .reason = s->reason,
                                     .first_piece = (uint32_t)out->pieces.count};
        if (!s->reason) {
            struct routine r;
            routine_read(m, s->start, s->held, &r);
            entry.reason = (uint8_t)(r.reason ? r.reason : flow_copy(&r, out, &entry.number));
            entry.paths = entry.reason ? 0 : (uint32_t)r.graph.paths;
            routine_free(&r);
        }
        vec_push(&out->routines, entry);
    }
}

/* The counters of lost paths, behind all others. */
static void place_lost(struct flow_content *c)
{
    uint32_t counter = c->counter_count + c->lost_before;
    for (size_t k = 0; k < c->lost.count; k++)
        code_set_u32(&c->code, c->lost.items[k], counter * (uint32_t)sizeof(uint64_t));
}

static int compare_hooks(const void *a, const void *b)
{
    const struct plan_hook *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void make(const struct elf_file *file, const struct map *map, struct plan_content *out)
{
    struct flow_content *c = must_calloc(1, sizeof *c);
    struct flow_module m;
    if (!(map->header->flags & (MAP_IS_GO | MAP_IS_OCAML | MAP_READS_ITSELF))) {
        flow_module_begin(&m, file, map);
        copy_functions(&m, c);
        flow_module_end(&m);
    }
    place_lost(c);
    if (c->hooks.count)
        qsort(c->hooks.items, c->hooks.count, sizeof *c->hooks.items, compare_hooks);
    *out = (struct plan_content){
        .header = {.base = map->header->base,
                   .sections = {[PLAN_ROUTINES].count = c->routines.count,
                                [PLAN_COPIES].count = c->code.bytes.count,
                                [PLAN_COPY_FIXES].count = c->fixes.count,
                                [PLAN_COPY_PIECES].count = c->pieces.count,
                                [PLAN_COPY_HOOKS].count = c->hooks.count},
                   .function_count = (uint32_t)c->routines.count,
                   .counter_count = c->counter_count + c->lost_before + c->lost_behind,
                   .path_count = c->counter_count,
                   .lost_counter = c->counter_count + c->lost_before},
        .items = {[PLAN_ROUTINES] = c->routines.items,
                  [PLAN_COPIES] = c->code.bytes.items,
                  [PLAN_COPY_FIXES] = c->fixes.items,
                  [PLAN_COPY_PIECES] = c->pieces.items,
                  [PLAN_COPY_HOOKS] = c->hooks.items},
        .owned = c};
}

static void free_content(struct plan_content *content)
{
    struct flow_content *c = content->owned;
    vec_free(&c->code.bytes);
    vec_free(&c->fixes);
    vec_free(&c->pieces);
    vec_free(&c->hooks);
    vec_free(&c->routines);
    vec_free(&c->lost);
    free(c);
}

const struct plan_kind flow_plans = {".paths", make, free_content};

const char *flow_reason_name(unsigned reason)
{
    static const char *const names[FLOW_REASONS] = {
        "",
        "no code of its own",
        "it lies in another function",
        "not all of it are instructions that can be moved",
        "a branch leads into the middle of an instruction",
        "an indirect jump whose table is not found",
        "something has the address of a place inside, which may be data",
        "a call that may return to elsewhere",
        "it has too many paths",
        "no register is free for the number of the path",
        "two places where control gets in are too near to each other"};
    return reason < FLOW_REASONS ? names[reason] : "unknown";
}

void flow_plan_print(const struct plan *p, const char *name, FILE *out)
{
    uint32_t reasons[FLOW_REASONS] = {0};
    uint64_t paths = 0;
    for (uint32_t k = 0; k < p->routine_count; k++) {
        reasons[p->routines[k].reason < FLOW_REASONS ? p->routines[k].reason : 0]++;
        paths += p->routines[k].paths;
    }
    fprintf(out, "%s: %u of %u functions can be relocated, with %lu paths\n", name, reasons[0],
            p->routine_count, (unsigned long)paths);
    for (unsigned k = 1; k < FLOW_REASONS; k++)
        if (reasons[k])
            fprintf(out, "  %9u functions: %s\n", reasons[k], flow_reason_name(k));
}
