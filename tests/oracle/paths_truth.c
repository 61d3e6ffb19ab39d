/*
 * paths_truth: runs a program that is not recorded, one instruction at a time, and counts the paths
 * through its functions by what a path is: the blocks from where control gets into a function, or
 * from the head of a loop, to where it leaves, or to the loop's end. Which edges end a path is read
 * from the functions' graphs; nothing else of what the engine does is used, neither numbers nor
 * copies. Only functions that the engine relocates are looked at.
 *
 *     paths_truth OUTPUT -- PROGRAM ARGUMENTS
 *
 * Writes a line for each path: the module, where the function begins, how often, and the blocks;
 * and for each function the paths whose beginning is not known ("lost"). The program has one
 * thread.
 */
#include "step_tracee.h"

#include "base/search.h"
#include "flow/flow_plan.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_MODULES = 256, FRAME_PLACES = 1 << 20, PATH_PLACES = 1 << 22 };

struct truth_routine {
    struct routine r;
    uint64_t lost;
};

struct module {
    uint64_t start, end, base;
    char path[512];
    bool is_followed;
    struct plan plan;
    struct map map;
    struct elf_file file;
    struct flow_module flow;
    struct truth_routine **routines; /* by their place in the plan; NULL: not read yet */
};

/* One activation of a function. */
struct frame {
    uint64_t cfa;
    struct module *module;
    uint32_t routine; /* its place in the plan, plus one; 0: free */
    uint32_t block;   /* that it is in */
    uint64_t pending; /* where the call that it waits for returns to; 0: it waits for none */
    bool is_open, is_lost;
    VEC(uint32_t) blocks;
};

struct path {
    struct module *module;
    uint32_t routine, length;
    uint32_t *blocks; /* NULL: a free place */
    uint64_t count;
};

static struct module modules[MOST_MODULES];
static unsigned module_count;
static struct frame *frames;
static struct path *paths;
static struct map_cache cache;
static bool has_begun; /* the linker has done its work: what it calls before is not relocated yet */

static bool is_of_libc(const char *path)
{
    static const char *const globs[] = {"*/libc.so.*", "*/ld-linux*", "*/libpthread*", "*/libdl*"};
    for (unsigned i = 0; i < sizeof globs / sizeof globs[0]; i++)
        if (fnmatch(globs[i], path, 0) == 0)
            return true;
    return false;
}

static void open_module(struct module *m)
{
    if (m->path[0] != '/' || is_of_libc(m->path) ||
        plan_of_kind(&flow_plans, &cache, m->path, &m->plan, NULL) != CT_OK)
        return;
    if (map_for_file(&cache, m->path, &m->map, NULL, NULL) != CT_OK ||
        elf_open(m->path, &m->file, NULL) != CT_OK)
        return;
    flow_module_open(&m->flow, &m->file, &m->map);
    m->routines = must_calloc(m->plan.routine_count + 1, sizeof(struct truth_routine *));
    m->is_followed = true;
}

/* The mapping that holds an address; the first mapping of its file has the base. */
static struct module *read_module(pid_t pid, uint64_t pc)
{
    char name[64], line[1024], path[512], first_path[512] = "";
    uint64_t start, end, base = 0;
    snprintf(name, sizeof name, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(name, "re");
    struct module *m = NULL;
    while (maps && !m && fgets(line, sizeof line, maps)) {
        path[0] = '\0';
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %*s %*s %511s", &start, &end, path) < 2)
            continue;
        if (strcmp(path, first_path) != 0) {
            base = start;
            snprintf(first_path, sizeof first_path, "%s", path);
        }
        if (pc < start || pc >= end || module_count == MOST_MODULES)
            continue;
        m = &modules[module_count++];
        *m = (struct module){.start = start, .end = end, .base = base};
        snprintf(m->path, sizeof m->path, "%s", path);
        open_module(m);
    }
    if (maps)
        fclose(maps);
    return m;
}

static struct module *module_at(pid_t pid, uint64_t pc)
{
    static struct module *last;
    if (last && pc >= last->start && pc < last->end)
        return last;
    for (unsigned i = 0; i < module_count; i++)
        if (pc >= modules[i].start && pc < modules[i].end)
            return last = &modules[i];
    struct module *m = read_module(pid, pc);
    return m ? last = m : NULL;
}

/* The function of a place, if it is relocated: its place in the plan plus one. */
static uint32_t routine_at(struct module *m, uint32_t offset)
{
    const struct map_function *f = map_find_function(&m->map, offset);
    if (!f)
        return 0;
    uint32_t start = map_whole_of(&m->map, f)->start, i;
    SEARCH(i, m->plan.routine_count, m->plan.routines[i].start < start);
    if (i == m->plan.routine_count || m->plan.routines[i].start != start ||
        !m->plan.routines[i].paths)
        return 0;
    if (!m->routines[i]) {
        struct truth_routine *t = must_calloc(1, sizeof *t);
        routine_read(&m->flow, start, 0, &t->r);
        routine_number(&t->r, PLAN_MOST_PATHS);
        m->routines[i] = t;
    }
    return i + 1;
}

static uint64_t hash_of(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ b * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
    return h ^ h >> 29;
}

static struct frame *frame_of(struct module *m, uint32_t routine, uint64_t cfa)
{
    uint64_t at = hash_of(cfa, routine + (uint64_t)(m - modules) * 1000003) % FRAME_PLACES;
    while (frames[at].routine &&
           (frames[at].cfa != cfa || frames[at].routine != routine || frames[at].module != m))
        at = (at + 1) % FRAME_PLACES;
    if (!frames[at].routine)
        frames[at] = (struct frame){.cfa = cfa, .module = m, .routine = routine};
    return &frames[at];
}

static void end_path(struct frame *f)
{
    uint64_t h = f->routine + (uint64_t)(f->module - modules) * 1000003;
    if (!f->is_open)
        return;
    f->is_open = false;
    if (f->is_lost) {
        f->module->routines[f->routine - 1]->lost++;
        return;
    }
    for (size_t k = 0; k < f->blocks.count; k++)
        h = hash_of(h, f->blocks.items[k] + 1);
    struct path *p;
    for (uint64_t at = h % PATH_PLACES;; at = (at + 1) % PATH_PLACES) {
        p = &paths[at];
        if (!p->blocks ||
            (p->module == f->module && p->routine == f->routine && p->length == f->blocks.count &&
             memcmp(p->blocks, f->blocks.items, p->length * sizeof(uint32_t)) == 0))
            break;
    }
    if (!p->blocks) {
        *p = (struct path){f->module, f->routine, (uint32_t)f->blocks.count, NULL, 0};
        p->blocks = must_calloc(p->length + 1, sizeof(uint32_t));
        memcpy(p->blocks, f->blocks.items, p->length * sizeof(uint32_t));
    }
    p->count++;
}

static void start_path(struct frame *f, uint32_t block, bool is_lost)
{
    f->is_open = true;
    f->is_lost = is_lost;
    f->blocks.count = 0;
    f->block = block;
    vec_push(&f->blocks, block);
}

static void take_edge(struct frame *f, const struct routine *r, uint32_t edge, uint32_t to)
{
    if (r->graph.edges.items[edge].kind == FLOW_CUT) {
        end_path(f);
        start_path(f, to, false);
        return;
    }
    f->block = to;
    vec_push(&f->blocks, to);
}

/* The instruction that ran before this one. */
static struct {
    struct module *module;
    uint32_t routine, insn;
    uint64_t cfa;
} before;

static bool ends_path(const struct flow_insn *i)
{
    return i->kind == INSN_RETURN || i->kind == INSN_INDIRECT;
}

/* At the first instruction of a block: how did control get there? */
static void enter_block(struct module *m, uint32_t routine, struct frame *f, uint32_t block,
                        uint32_t insn)
{
    const struct routine *r = &m->routines[routine - 1]->r;
    const struct flow_insn *here = &r->insns.items[insn];
    bool is_inside = before.module == m && before.routine == routine && before.cfa == f->cfa;
    const struct flow_insn *last = is_inside ? &r->insns.items[before.insn] : NULL;
    bool is_next = last && last->offset + last->length == here->offset;
    if (f->is_open && f->pending == here->offset) { /* a call has returned */
        take_edge(f, r, r->blocks.items[f->block].fall, block);
    } else if (last && f->is_open && !ends_path(last) && last->kind != INSN_CALL) {
        const struct flow_block *b = &r->blocks.items[f->block];
        bool is_taken = b->taken_block == block && (last->kind == INSN_JUMP || !is_next);
        if (is_taken || b->fall_block == block)
            take_edge(f, r, is_taken ? b->taken : b->fall, block);
        else
            start_path(f, block, !r->blocks.items[block].is_landing);
    } else {
        start_path(f, block, !r->blocks.items[block].is_landing);
    }
    f->pending = 0;
}

static uint32_t block_of(const struct routine *r, uint32_t insn)
{
    size_t i;
    SEARCH(i, r->blocks.count, r->blocks.items[i].end <= insn);
    return (uint32_t)i;
}

static bool find_cfa(const struct module *m, uint32_t offset, const struct user_regs_struct *regs,
                     uint64_t *cfa)
{
    int64_t row = map_find_row(&m->map.tables, offset);
    if (row < 0)
        return false;
    struct map_special s = map_spell_rule(&m->map.tables, (uint32_t)row);
    if (s.cfa_kind != CFA_REG || (s.reg != X86_RSP && s.reg != X86_RBP))
        return false;
    *cfa = (uint64_t)(s.reg == X86_RSP ? regs->rsp : regs->rbp) + (uint64_t)(int64_t)s.offset;
    return true;
}

/* A jump on a condition left its function: that is known when it has. */
static void look_back(uint64_t pc)
{
    if (!before.module || !before.routine)
        return;
    const struct routine *r = &before.module->routines[before.routine - 1]->r;
    const struct flow_insn *last = &r->insns.items[before.insn];
    bool is_branch =
        last->kind == INSN_JUMP || last->kind == INSN_BRANCH || last->kind == INSN_COUNTED;
    const struct flow_block *b = &r->blocks.items[block_of(r, before.insn)];
    if (is_branch && b->taken_block == FLOW_NONE && pc == before.module->base + last->target)
        end_path(frame_of(before.module, before.routine, before.cfa));
}

/* A library's or the program's first function. */
static bool begins(const struct module *m, uint64_t pc)
{
    uint64_t init = 0, at = pc - m->base + m->file.base;
    return (elf_dynamic_value(&m->file, DT_INIT, &init) && at == init) ||
           at == elf_program_entry(&m->file);
}

static void look(pid_t pid, const struct user_regs_struct *regs)
{
    uint64_t cfa;
    struct module *m = module_at(pid, regs->rip);
    if (!has_begun && !(has_begun = m && m->is_followed && begins(m, (uint64_t)regs->rip)))
        return;
    uint32_t offset = m ? (uint32_t)(regs->rip - m->base) : 0;
    uint32_t routine = m && m->is_followed ? routine_at(m, offset) : 0;
    look_back(regs->rip);
    if (!routine || !find_cfa(m, offset, regs, &cfa)) {
        before.routine = 0;
        return;
    }
    const struct routine *r = &m->routines[routine - 1]->r;
    uint32_t insn = routine_find(r, offset);
    if (insn == FLOW_NONE) {
        before.routine = 0;
        return;
    }
    struct frame *f = frame_of(m, routine, cfa);
    uint32_t block = block_of(r, insn);
    const struct flow_insn *i = &r->insns.items[insn];
    if (r->blocks.items[block].first == insn)
        enter_block(m, routine, f, block, insn);
    else if (f->pending && f->pending != offset)
        start_path(f, block, true); /* control has come from elsewhere into its midst */
    if (i->kind == INSN_CALL)
        f->pending = i->offset + i->length;
    else
        f->pending = 0;
    if (ends_path(i))
        end_path(f);
    before.module = m;
    before.routine = routine;
    before.insn = insn;
    before.cfa = cfa;
}

static void write_all(FILE *out)
{
    for (uint64_t k = 0; k < PATH_PLACES; k++) {
        const struct path *p = &paths[k];
        if (!p->blocks)
            continue;
        const struct routine *r = &p->module->routines[p->routine - 1]->r;
        fprintf(out, "%s %x %" PRIu64, p->module->path, r->start, p->count);
        for (uint32_t i = 0; i < p->length; i++)
            fprintf(out, " %x", r->blocks.items[p->blocks[i]].offset);
        fputc('\n', out);
    }
    for (unsigned i = 0; i < module_count; i++)
        for (uint32_t k = 0; modules[i].is_followed && k < modules[i].plan.routine_count; k++)
            if (modules[i].routines[k] && modules[i].routines[k]->lost)
                fprintf(out, "lost %s %x %" PRIu64 "\n", modules[i].path,
                        modules[i].routines[k]->r.start, modules[i].routines[k]->lost);
}

int main(int argc, char **argv)
{
    struct ct_error err;
    struct tracee t = {0};
    if (argc < 4 || strcmp(argv[2], "--") != 0) {
        fprintf(stderr, "usage: paths_truth OUTPUT -- PROGRAM ARGUMENTS\n");
        return 2;
    }
    frames = must_calloc(FRAME_PLACES, sizeof *frames);
    paths = must_calloc(PATH_PLACES, sizeof *paths);
    map_cache_open(&cache);
    if (tracee_launch(&t, &(struct launch){.argv = argv + 3, .cpu = -1}, &err) != CT_OK) {
        fprintf(stderr, "paths_truth: %s\n", err.text);
        return 2;
    }
    uint64_t steps = 0;
    enum stop_kind stop = STOP_STEP;
    for (; stop != STOP_GONE; steps++) {
        look(t.pid, &t.regs);
        stop = tracee_step(&t, false);
    }
    FILE *out = fopen(argv[1], "we");
    if (!out)
        return 2;
    write_all(out);
    fclose(out);
    fprintf(stderr, "paths_truth: %" PRIu64 " steps\n", steps);
    return 0;
}
