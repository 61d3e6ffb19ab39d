#include "export/stacks.h"

#include <inttypes.h>
#include <string.h>

/*
 * The frames that a frame of the profile stands for, outermost first: a run in `chain_frames`.
 * Where that is one frame for all that was inlined there, `alone` is one for the function that
 * holds it; CTP_NONE otherwise.
 */
struct chain {
    uint32_t first, count, alone;
};

struct stack_maker {
    struct stacks *stacks;
    struct chain *chains; /* by frame of the profile */
    VEC(uint32_t) chain_frames;
    VEC(uint32_t) of_label; /* frame by label, where the place does not matter */
    uint32_t *slots;        /* frames by what they are; open addressing, frame + 1, 0 is free */
    size_t slot_count;
    struct tree_index index;
    uint32_t *targets; /* by node of the profile */
    uint64_t **grown;  /* values by node of the tree as it grows */
    bool any_of_calls; /* some metric is */
};

/* ---- Frames ---------------------------------------------------------------------------------- */

static bool same_frame(const struct stack_frame *a, const struct stack_frame *b)
{
    return a->label == b->label && a->module == b->module && a->offset == b->offset &&
           a->line == b->line && a->column == b->column && a->inlined == b->inlined &&
           a->is_alone == b->is_alone && (a->file == b->file || strcmp(a->file, b->file) == 0);
}

static uint64_t frame_hash(const struct stack_frame *frame)
{
    uint64_t parts[5] = {frame->label, frame->module, frame->offset,
                         (uint64_t)frame->line << 32 | frame->column,
                         (uint64_t)frame->is_alone << 1 | frame->inlined};
    return hash_bytes(parts, sizeof parts);
}

static void place_frame(struct stack_maker *m, uint32_t frame)
{
    size_t at = frame_hash(&m->stacks->frames.items[frame]) & (m->slot_count - 1);
    while (m->slots[at])
        at = (at + 1) & (m->slot_count - 1);
    m->slots[at] = frame + 1;
}

static uint32_t intern_frame(struct stack_maker *m, const struct stack_frame *frame)
{
    struct stacks *s = m->stacks;
    if ((s->frames.count + 1) * 2 > m->slot_count) {
        free(m->slots);
        m->slot_count = m->slot_count ? m->slot_count * 2 : 1024;
        m->slots = must_calloc(m->slot_count, sizeof *m->slots);
        for (uint32_t i = 0; i < s->frames.count; i++)
            place_frame(m, i);
    }
    size_t at = frame_hash(frame) & (m->slot_count - 1);
    for (; m->slots[at]; at = (at + 1) & (m->slot_count - 1))
        if (same_frame(&s->frames.items[m->slots[at] - 1], frame))
            return m->slots[at] - 1;
    vec_push(&s->frames, *frame);
    m->slots[at] = (uint32_t)s->frames.count;
    return m->slots[at] - 1;
}

/* By function and by name there is one frame for each label; the first that is met describes it. */
static uint32_t frame_of_label(struct stack_maker *m, const struct stack_frame *frame)
{
    while (m->of_label.count <= frame->label)
        vec_push(&m->of_label, CTP_NONE);
    uint32_t *found = &m->of_label.items[frame->label];
    if (*found == CTP_NONE) {
        *found = (uint32_t)m->stacks->frames.count;
        vec_push(&m->stacks->frames, *frame);
    }
    return *found;
}

/* One of the functions that are at the place of the frame `source`. */
static uint32_t add_frame(struct stack_maker *m, uint32_t source, uint32_t label,
                          const struct ctp_line *line, struct stack_frame kind)
{
    struct stacks *s = m->stacks;
    const struct ctp_frame *record = profile_frame(s->profile, source);
    const struct ctp_function *f = stack_function(s, label);
    struct stack_frame frame = {.label = label,
                                .module = s->labels.items.items[label].module,
                                .file = profile_string(s->profile, f->file),
                                .line = f->line,
                                .source = source};
    if (s->options.identity != STACK_BY_PLACE)
        return frame_of_label(m, &frame);
    if (record->module < profile_module_count(s->profile))
        frame.module = s->labels.modules[record->module];
    bool returns = record->flags & CTP_FRAME_RETURN;
    frame.offset = record->gap ? 0 : record->offset - (returns && record->offset > 0);
    if (line && *profile_string(s->profile, line->file))
        frame.file = profile_string(s->profile, line->file);
    frame.line = line ? line->line : 0;
    frame.column = line ? line->column : 0;
    frame.inlined = kind.inlined;
    frame.is_alone = kind.is_alone;
    return intern_frame(m, &frame);
}

/* Frames and lines know their functions by number; of those with the same label, one is kept. */
static void keep_function(struct stacks *s, uint32_t label, uint32_t function)
{
    while (s->functions.count <= label)
        vec_push(&s->functions, CTP_NONE);
    if (s->functions.items[label] == CTP_NONE)
        s->functions.items[label] = function;
}

/* The labels of what was inlined into a frame, outermost first, belong to its lines, of which those
 * without a name have none. */
static void label_lines(struct stacks *s)
{
    const struct profile *p = s->profile;
    size_t count = (size_t)profile_line_count(p) + 1;
    s->line_labels = must_realloc(NULL, count, sizeof *s->line_labels);
    memset(s->line_labels, 0xff, count * sizeof *s->line_labels);
    for (uint32_t i = 0; i < profile_frame_count(p); i++) {
        const struct ctp_frame *frame = profile_frame(p, i);
        struct label_run run = labels_of_frame(&s->labels, i);
        uint32_t next = 1;
        for (uint32_t k = frame->gap ? 0 : frame->line_count; k-- > 1 && next < run.count;) {
            const struct ctp_line *line = profile_frame_line(p, frame, k - 1);
            if (!line || line->function >= profile_function_count(p) ||
                !s->labels.function_names[line->function])
                continue;
            s->line_labels[frame->first_line + k - 1] = run.labels[next];
            keep_function(s, run.labels[next++], line->function);
        }
    }
}

static void add_chain(struct stack_maker *m, uint32_t source)
{
    struct stacks *s = m->stacks;
    const struct ctp_frame *frame = profile_frame(s->profile, source);
    uint32_t lines = frame->gap ? 0 : frame->line_count,
             label = *labels_of_frame(&s->labels, source).labels;
    m->chains[source].first = (uint32_t)m->chain_frames.count;
    if (!frame->gap)
        keep_function(s, label, frame->function);
    const struct ctp_line *own = lines ? profile_frame_line(s->profile, frame, lines - 1) : NULL;
    struct stack_frame plain = {0}, inlined = {.inlined = true}, alone = {.is_alone = true};
    vec_push(&m->chain_frames, add_frame(m, source, label, own, plain));
    m->chains[source].alone = CTP_NONE;
    for (uint32_t i = lines; s->options.inlined && i-- > 1;) {
        const struct ctp_line *line = profile_frame_line(s->profile, frame, i - 1);
        uint32_t inner = line ? s->line_labels[frame->first_line + i - 1] : CTP_NONE;
        if (inner != CTP_NONE && s->options.expand)
            vec_push(&m->chain_frames, add_frame(m, source, inner, line, inlined));
        else if (inner != CTP_NONE && m->any_of_calls)
            m->chains[source].alone = add_frame(m, source, label, own, alone);
    }
    m->chains[source].count = (uint32_t)m->chain_frames.count - m->chains[source].first;
}

static uint32_t special_frame(struct stack_maker *m, enum label_kind kind, uint32_t number,
                              const char *name)
{
    struct stack_frame frame = {.label = labels_special(&m->stacks->labels, kind, number, name),
                                .module = CTP_NONE,
                                .file = "",
                                .source = CTP_NONE};
    return m->stacks->options.identity == STACK_BY_PLACE ? intern_frame(m, &frame)
                                                         : frame_of_label(m, &frame);
}

/* ---- The tree ---------------------------------------------------------------------------------
 */

/* To the place, and to the function that holds it. */
static void charge(struct stack_maker *m, uint32_t node, uint32_t place, uint32_t function)
{
    struct stacks *s = m->stacks;
    for (uint32_t i = 0; i < s->metric_count; i++) {
        uint64_t value = profile_value(s->profile, s->metrics[i], node);
        m->grown[i][s->is_of_calls[i] ? function : place] += value;
        s->totals[i] += value;
    }
}

static bool has_calls(const struct stacks *s, uint32_t node)
{
    for (uint32_t i = 0; i < s->metric_count; i++)
        if (s->is_of_calls[i] && profile_value(s->profile, s->metrics[i], node))
            return true;
    return false;
}

static bool has_value(const struct stacks *s, uint32_t node)
{
    for (uint32_t i = 0; i < s->metric_count; i++)
        if (profile_value(s->profile, s->metrics[i], node))
            return true;
    return false;
}

static void grow_stacks(struct stack_maker *m, const struct ctp_root *root, uint32_t top)
{
    struct stacks *s = m->stacks;
    uint32_t nothing = special_frame(m, LABEL_NOTHING, 0, NULL);
    for (uint32_t i = root->first_node; i < root->first_node + root->node_count; i++) {
        uint32_t parent = profile_parent(s->profile, i), frame = profile_node_frame(s->profile, i);
        uint32_t caller =
            parent != CTP_NONE && parent >= root->first_node ? m->targets[parent] : top;
        uint32_t at = caller, function = caller;
        const struct chain *chain =
            parent != CTP_NONE && frame != CTP_NONE ? &m->chains[frame] : NULL;
        for (uint32_t k = 0; chain && k < chain->count; k++) {
            at = tree_child(&s->tree, &m->index, at, m->chain_frames.items[chain->first + k]);
            function = k == 0 ? at : function;
        }
        m->targets[i] = at;
        if (chain && chain->alone != CTP_NONE && has_calls(s, i))
            function = tree_child(&s->tree, &m->index, caller, chain->alone);
        if (at == top && has_value(s, i))
            function = at = tree_child(&s->tree, &m->index, top, nothing);
        if (s->places)
            s->places[i] = at;
        if (has_value(s, i))
            charge(m, i, at, function);
    }
}

/* The nodes that the tree can have at most. */
static uint64_t room_needed(const struct stack_maker *m)
{
    const struct profile *p = m->stacks->profile;
    uint64_t room = 1 + UINT64_C(2) * profile_root_count(p);
    for (uint32_t i = 0; i < p->node_count; i++) {
        uint32_t frame = profile_node_frame(p, i);
        if (frame != CTP_NONE)
            room += m->chains[frame].count + (m->chains[frame].alone != CTP_NONE);
    }
    return room;
}

/* Preorder changes the numbers of nodes; each takes its old one along. */
static void arrange(struct stack_maker *m)
{
    struct stacks *s = m->stacks;
    for (uint32_t i = 0; i < s->tree.count; i++)
        s->tree.nodes[i].self = i;
    tree_arrange(&s->tree, &m->index);
    for (uint32_t k = 0; k < s->metric_count; k++) {
        s->values[k] = must_realloc(NULL, s->tree.count, sizeof *s->values[k]);
        for (uint32_t i = 0; i < s->tree.count; i++)
            s->values[k][i] = m->grown[k][s->tree.nodes[i].self];
        free(m->grown[k]);
    }
    if (!s->places)
        return;
    uint32_t *numbers = must_realloc(NULL, s->tree.count, sizeof *numbers);
    for (uint32_t i = 0; i < s->tree.count; i++)
        numbers[s->tree.nodes[i].self] = i;
    for (uint32_t i = 0; i < s->profile->node_count; i++)
        s->places[i] = numbers[s->places[i]];
    free(numbers);
}

static int grow_tree(struct stack_maker *m, struct ct_error *err)
{
    struct stacks *s = m->stacks;
    const struct profile *p = s->profile;
    uint64_t room = room_needed(m);
    if (room >= TREE_NONE)
        return ct_fail(err,
                       "%s: has too many contexts once inlined functions are frames; try "
                       "--no-inline",
                       p->name);
    if (profile_time_run_count(p))
        s->places = must_calloc((size_t)p->node_count + 1, sizeof *s->places);
    m->targets = must_realloc(NULL, (size_t)p->node_count + 1, sizeof *m->targets);
    for (uint32_t i = 0; i < s->metric_count; i++)
        m->grown[i] = must_calloc(room, sizeof *m->grown[i]);
    tree_begin(&s->tree, &m->index, (uint32_t)room);
    for (uint32_t i = 0; i < profile_root_count(p); i++) {
        const struct ctp_root *root = profile_root(p, i);
        uint32_t top = 0;
        if (s->options.threads) {
            char text[32];
            const char *name = view_group_name(p, GROUP_THREAD, root->thread, text, sizeof text);
            top = tree_child(&s->tree, &m->index, 0,
                             special_frame(m, LABEL_GROUP, root->thread, name));
        }
        grow_stacks(m, root, top);
    }
    arrange(m);
    return CT_OK;
}

static void measure_depth(struct stacks *s)
{
    uint32_t *depths = must_calloc(s->tree.count, sizeof *depths);
    for (uint32_t i = 1; i < s->tree.count; i++) {
        depths[i] = depths[s->tree.nodes[i].parent] + 1;
        if (depths[i] > s->max_depth)
            s->max_depth = depths[i];
    }
    s->max_depth -= s->options.threads && s->max_depth > 0;
    free(depths);
}

static int choose_metrics(struct stacks *s, struct ct_error *err)
{
    uint32_t chosen;
    CT_TRY(view_choose_metric(s->profile, s->options.metric, &chosen, err));
    CT_TRY(profile_verify_values(s->profile, s->options.all_metrics ? CTP_NONE : chosen, err));
    s->metrics = must_calloc(s->profile->metric_count, sizeof *s->metrics);
    s->is_of_calls = must_calloc(s->profile->metric_count, sizeof *s->is_of_calls);
    s->metrics[s->metric_count++] = chosen;
    for (uint32_t i = 0; s->options.all_metrics && i < s->profile->metric_count; i++)
        if (i != chosen)
            s->metrics[s->metric_count++] = i;
    for (uint32_t i = 0; i < s->metric_count; i++)
        s->is_of_calls[i] = profile_metric_is_of_calls(s->profile, s->metrics[i]);
    return CT_OK;
}

int stacks_open(const struct profile *profile, const struct stack_options *options,
                struct stacks *out, struct ct_error *err)
{
    *out = (struct stacks){.profile = profile, .options = *options};
    struct stack_maker m = {.stacks = out};
    CT_TRY(view_check_roots(profile, err));
    CT_TRY(choose_metrics(out, err));
    for (uint32_t i = 0; i < out->metric_count; i++)
        m.any_of_calls |= out->is_of_calls[i];
    struct label_options label_options = {
        .identity = options->identity == STACK_BY_NAME ? LABEL_BY_NAME : LABEL_BY_CODE,
        .keep_mangled = options->keep_mangled,
        .fold_inlined = !options->inlined,
    };
    labels_init(&out->labels, profile, &label_options);
    out->values = must_calloc(out->metric_count, sizeof *out->values);
    out->totals = must_calloc(out->metric_count, sizeof *out->totals);
    m.grown = must_calloc(out->metric_count, sizeof *m.grown);
    m.chains = must_calloc((size_t)profile_frame_count(profile) + 1, sizeof *m.chains);
    if (options->inlined)
        label_lines(out);
    for (uint32_t i = 0; i < profile_frame_count(profile); i++)
        add_chain(&m, i);
    int status = grow_tree(&m, err);
    if (status == CT_OK)
        measure_depth(out);
    else
        stacks_close(out);
    free(m.chains);
    free(m.slots);
    free(m.targets);
    free(m.grown);
    vec_free(&m.chain_frames);
    vec_free(&m.of_label);
    return status;
}

void stacks_close(struct stacks *s)
{
    for (uint32_t i = 0; i < s->metric_count; i++)
        free(s->values[i]);
    free(s->values);
    free(s->totals);
    free(s->places);
    free(s->metrics);
    free(s->is_of_calls);
    free(s->line_labels);
    vec_free(&s->functions);
    vec_free(&s->frames);
    labels_free(&s->labels);
    tree_free(&s->tree);
}

/* ---- Names and sums ----------------------------------------------------------------------------
 */

enum label_kind stack_kind(const struct stacks *s, const struct stack_frame *frame)
{
    return (enum label_kind)s->labels.items.items[frame->label].kind;
}

const struct ctp_function *stack_function(const struct stacks *s, uint32_t label)
{
    return label < s->functions.count ? profile_function(s->profile, s->functions.items[label])
                                      : &profile_no_function;
}

const char *stack_label_name(const struct stacks *s, uint32_t label, char *text)
{
    const struct label *item = &s->labels.items.items[label];
    if (item->kind == LABEL_GROUP)
        return view_group_name(s->profile, GROUP_THREAD, (uint32_t)item->number, text,
                               STACK_NAME_ROOM);
    return label_name(&s->labels, label, text, STACK_NAME_ROOM);
}

const char *stack_name(const struct stacks *s, const struct stack_frame *frame, char *text)
{
    return stack_label_name(s, frame->label, text);
}

const char *stack_metric_name(const struct stacks *s, uint32_t metric)
{
    return profile_string(s->profile, profile_metric(s->profile, s->metrics[metric])->name);
}

const char *stack_metric_unit(const struct stacks *s, uint32_t metric)
{
    return profile_string(s->profile, profile_metric(s->profile, s->metrics[metric])->unit);
}

const char *stack_module_path(const struct stacks *s, uint32_t module)
{
    return profile_string(s->profile, profile_module(s->profile, module)->path);
}

const char *stack_build_id(const struct ctp_module *module, char *text)
{
    *text = '\0';
    for (uint32_t i = 0; i < module->build_id_size && i < CTP_BUILD_ID_ROOM; i++)
        sprintf(text + 2 * (size_t)i, "%02x", module->build_id[i]);
    return text;
}

uint64_t *stack_sums(const struct stacks *s, uint32_t metric)
{
    uint64_t *sums = must_realloc(NULL, s->tree.count, sizeof *sums);
    memcpy(sums, s->values[metric], s->tree.count * sizeof *sums);
    for (uint32_t i = s->tree.count - 1; i > 0; i--)
        sums[s->tree.nodes[i].parent] += sums[i];
    return sums;
}

uint32_t stack_thread(const struct stacks *s, uint32_t after)
{
    if (!s->options.threads)
        return after == TREE_NONE ? 0 : TREE_NONE;
    uint32_t next = after == TREE_NONE ? 1 : after + s->tree.sizes[after];
    return next < s->tree.count ? next : TREE_NONE;
}

uint32_t stack_thread_index(const struct stacks *s, uint32_t thread)
{
    return thread == 0 ? CTP_NONE
                       : (uint32_t)s->labels.items.items[stack_frame(s, thread)->label].number;
}

const struct ctp_thread *stack_thread_record(const struct stacks *s, uint32_t thread)
{
    return profile_thread(s->profile, stack_thread_index(s, thread));
}

const char *stack_thread_name(const struct stacks *s, uint32_t thread, char *text)
{
    if (thread)
        return stack_name(s, stack_frame(s, thread), text);
    const char *name =
        path_file(profile_string(s->profile, profile_process(s->profile, 0)->command));
    return *name ? name : "all threads";
}
