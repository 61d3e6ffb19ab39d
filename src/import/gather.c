#include "import/gather.h"

#include <inttypes.h>
#include <string.h>

/* ---- Records ------------------------------------------------------------------------------------
 */

static size_t slot_of(const struct record_set *set, const void *record)
{
    size_t at = hash_bytes(record, set->size);
    while (set->slots[at &= set->slot_count - 1]) {
        if (memcmp(set->bytes.items + (set->slots[at] - 1) * set->size, record, set->size) == 0)
            break;
        at++;
    }
    return at;
}

static uint32_t record_number(struct record_set *set, const void *record)
{
    if (((size_t)set->count + 1) * 2 > set->slot_count) {
        free(set->slots);
        set->slot_count = set->slot_count ? set->slot_count * 2 : 64;
        set->slots = must_calloc(set->slot_count, sizeof *set->slots);
        for (uint32_t i = 0; i < set->count; i++)
            set->slots[slot_of(set, set->bytes.items + i * set->size)] = i + 1;
    }
    size_t at = slot_of(set, record);
    if (!set->slots[at]) {
        vec_reserve(&set->bytes, set->bytes.count + set->size);
        memcpy(set->bytes.items + set->bytes.count, record, set->size);
        set->bytes.count += set->size;
        set->slots[at] = ++set->count;
    }
    return set->slots[at] - 1;
}

void gather_init(struct gather *g, const char *origin, const char *command)
{
    *g = (struct gather){
        .origin = origin,
        .modules.size = sizeof(struct gather_module),
        .functions.size = sizeof(struct gather_function),
        .lines.size = sizeof(struct gather_line),
        .frames.size = sizeof(struct gather_frame),
        .threads.size = sizeof(struct gather_thread),
        .nodes.size = sizeof(struct gather_node),
        .pids.size = sizeof(uint32_t),
    };
    strings_init(&g->texts);
    g->command = strings_add(&g->texts, command);
}

void gather_free(struct gather *g)
{
    struct record_set *sets[] = {&g->modules, &g->functions, &g->lines, &g->frames,
                                 &g->threads, &g->nodes,     &g->pids};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        vec_free(&sets[i]->bytes);
        free(sets[i]->slots);
    }
    for (uint32_t i = 0; i < g->metric_count; i++)
        vec_free(&g->metrics[i].values);
    vec_free(&g->roots);
    vec_free(&g->commands);
    strings_free(&g->texts);
}

/* ---- Samples ------------------------------------------------------------------------------------
 */

uint32_t gather_text(struct gather *g, const char *text, size_t length)
{
    char room[256], *copy = length < sizeof room ? room : must_realloc(NULL, length + 1, 1);
    memcpy(copy, text, length);
    copy[length] = '\0';
    uint32_t number = strings_add(&g->texts, copy);
    if (copy != room)
        free(copy);
    return number;
}

uint32_t gather_metric(struct gather *g, uint32_t name, uint32_t unit, enum ctp_metric_kind kind,
                       uint64_t period)
{
    for (uint32_t i = 0; i < g->metric_count; i++)
        if (g->metrics[i].name == name)
            return i;
    if (g->metric_count == GATHER_METRICS_MAX)
        return CTP_NONE;
    g->metrics[g->metric_count] =
        (struct gather_metric){.name = name, .unit = unit, .kind = kind, .period = period};
    return g->metric_count++;
}

uint32_t gather_module(struct gather *g, const struct gather_module *module)
{
    return record_number(&g->modules, module);
}

uint32_t gather_function(struct gather *g, const struct gather_function *function)
{
    return record_number(&g->functions, function);
}

uint32_t gather_line(struct gather *g, const struct gather_line *line)
{
    return record_number(&g->lines, line);
}

uint32_t gather_frame(struct gather *g, const struct gather_frame *frame)
{
    return record_number(&g->frames, frame);
}

static bool is_text(const char *name, size_t length, const char *text)
{
    return strlen(text) == length && memcmp(name, text, length) == 0;
}

uint32_t gather_named_frame(struct gather *g, const char *name, size_t length)
{
    struct gather_frame frame = {.module = CTP_NONE, .function = CTP_NONE, .lines = CTP_NONE};
    for (uint32_t gap = CTP_GAP_NONE + 1; gap < CTP_GAP_END && *name == '('; gap++) {
        char text[128];
        snprintf(text, sizeof text, "(walk ended: %s)", profile_gap_name(gap));
        if (is_text(name, length, text))
            frame.gap = gap;
    }
    if (!frame.gap)
        frame.function = gather_function(
            g, &(struct gather_function){.name = gather_text(g, name, length), .module = CTP_NONE});
    return gather_frame(g, &frame);
}

bool gather_is_nothing(const char *name, size_t length)
{
    return is_text(name, length, "(context not known)");
}

static uint32_t add_node(struct gather *g, uint32_t parent, uint32_t frame, uint32_t thread)
{
    uint32_t node = record_number(&g->nodes, &(struct gather_node){parent, frame});
    if (node == g->roots.count)
        vec_push(&g->roots, thread);
    return node;
}

uint32_t gather_thread(struct gather *g, uint32_t pid, uint32_t tid, const char *name,
                       size_t length)
{
    uint32_t text = gather_text(g, name, length);
    struct gather_thread record = {record_number(&g->pids, &pid), tid, text};
    if (record.process == g->commands.count)
        vec_push(&g->commands, text);
    uint32_t thread = record_number(&g->threads, &record);
    return add_node(g, CTP_NONE, thread, thread);
}

uint32_t gather_node(struct gather *g, uint32_t parent, uint32_t frame)
{
    return add_node(g, parent, frame, g->roots.items[parent]);
}

void gather_add(struct gather *g, uint32_t node, uint32_t metric, uint64_t value)
{
    struct gather_metric *m = &g->metrics[metric];
    m->samples += value > 0;
    if (!value)
        return;
    g->overflow |= __builtin_add_overflow(m->total, value, &m->total);
    while (m->values.count <= node)
        vec_push(&m->values, 0);
    m->values.items[node] += value;
}
