#include "infer/path_resize.h"

#include "base/clock.h"
#include "infer/path_complete.h"
#include "infer/path_module.h"

#include <string.h>

enum {
    MOST_STEPS = GROWTH_MOST / GROWTH_STEP,
    MOST_CHOICES = 32, /* calls of one pair of paths */
    MOST_PAIRS = 8,    /* of one identifier */
    ROUNDS = 3,
    SLACK_BYTES = 256 /* that every path may grow by, however low it is */
};

/* What is looked up and changed in all, before it is enough. */
#define MOST_WORK UINT64_C(4000000000)

/* A context, in the order of the tree: those below a node are one behind the other. Functions of
 * threads that began in different places are different ones. */
struct item {
    uint32_t function, node;
    uint64_t height_bytes, weight, most_bytes; /* the last: how high it may get */
    uint32_t stamp;
};

/* How many contexts have an identifier. */
struct slot {
    uint32_t function, count;
    uint64_t height_bytes, weight;
};

struct range {
    uint32_t from, to;
};

struct resizing {
    const struct path_map *map;
    struct path_resize_result *out;
    struct path_module *modules;
    struct item *items;
    uint32_t count, stamp;
    struct key_set keys;   /* functions, with the outermost place of their thread */
    struct range *below;   /* the items below each node */
    uint32_t *frame_nodes; /* nodes by their frame, and */
    uint32_t *first_of;    /* where those of each begin */
    uint8_t *allowed;      /* of frames: 0 not asked, 1 no, 2 yes */
    uint8_t *steps;        /* of frames: how much the stack grows there, */
    uint8_t *most_steps;   /* and may, */
    uint64_t *called;      /* and the weight of what is called from there */
    struct slot *slots;
    uint32_t slot_mask, used;
    VEC(uint32_t) touched; /* items of the current change */
    uint64_t work;
    uint64_t paths, weight; /* precise now */
    uint64_t calls_weight;  /* of calls that grow now, */
    uint64_t most_calls;    /* and may */
    bool is_too_high;
};

/* --- identifiers -------------------------------------------------------------------------------
 */

static uint32_t place_of(const struct resizing *r, uint32_t function, uint64_t height)
{
    uint64_t h = (height ^ (uint64_t)function << 40) * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t i = (uint32_t)(h >> 32) & r->slot_mask;
    while (r->slots[i].function != CTP_NONE &&
           (r->slots[i].function != function || r->slots[i].height_bytes != height))
        i = (i + 1) & r->slot_mask;
    return i;
}

static void count_precise(struct resizing *r, const struct slot *s, int sign)
{
    if (s->count != 1)
        return;
    r->paths += (uint64_t)(int64_t)sign;
    r->weight += (uint64_t)((int64_t)s->weight * sign);
}

static void add_item(struct resizing *r, const struct item *i)
{
    struct slot *s = &r->slots[place_of(r, i->function, i->height_bytes)];
    if (s->function == CTP_NONE) {
        *s = (struct slot){.function = i->function, .height_bytes = i->height_bytes};
        r->used++;
    }
    count_precise(r, s, -1);
    s->count++;
    s->weight += i->weight;
    count_precise(r, s, 1);
    r->is_too_high |= i->height_bytes > i->most_bytes;
}

static void take_item(struct resizing *r, const struct item *i)
{
    struct slot *s = &r->slots[place_of(r, i->function, i->height_bytes)];
    count_precise(r, s, -1);
    s->count--;
    s->weight -= i->weight;
    count_precise(r, s, 1);
}

/* Identifiers that nobody has any more take up room. */
static void count_anew(struct resizing *r)
{
    for (uint32_t i = 0; i <= r->slot_mask; i++)
        r->slots[i] = (struct slot){.function = CTP_NONE};
    r->used = 0;
    r->paths = r->weight = 0;
    for (uint32_t i = 0; i < r->count; i++)
        add_item(r, &r->items[i]);
}

/* --- the tree ----------------------------------------------------------------------------------
 */

/* Numbers nodes so that those below a node follow it: `order` of each. */
static uint32_t *order_nodes(const struct profile *p)
{
    const uint32_t count = p->node_count;
    uint32_t *size = must_calloc((size_t)count + 1, sizeof *size);
    uint32_t *order = must_calloc((size_t)count + 1, sizeof *order);
    uint32_t *next = must_calloc((size_t)count + 1, sizeof *next);
    for (uint32_t i = count; i-- > 0;) {
        size[i]++;
        if (i)
            size[profile_parent(p, i)] += size[i];
    }
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i ? next[profile_parent(p, i)] : 0;
        next[i] = order[i] + 1;
        if (i)
            next[profile_parent(p, i)] += size[i];
    }
    free(size);
    free(next);
    return order;
}

struct ordered {
    uint32_t order, context;
};

static int by_order(const void *a, const void *b)
{
    const struct ordered *x = a, *y = b;
    return x->order < y->order ? -1 : x->order > y->order;
}

static void list_items(struct resizing *r)
{
    const struct path_map *map = r->map;
    const struct profile *p = &map->profile;
    uint32_t *order = order_nodes(p);
    struct ordered *sorted = must_calloc((size_t)map->count + 1, sizeof *sorted);
    for (uint32_t i = 0; i < map->count; i++)
        if (map->contexts[i].searched == PATH_BY_TRAINING)
            sorted[r->count++] = (struct ordered){order[map->contexts[i].node], i};
    if (r->count)
        qsort(sorted, r->count, sizeof *sorted, by_order);
    r->items = must_calloc((size_t)r->count + 1, sizeof *r->items);
    r->below = must_calloc((size_t)p->node_count + 1, sizeof *r->below);
    for (uint32_t i = 0; i < p->node_count; i++)
        r->below[i] = (struct range){UINT32_MAX, 0};
    for (uint32_t i = 0; i < r->count; i++) {
        const struct path_context *c = &map->contexts[sorted[i].context];
        const uint32_t key[2] = {c->function, map->outermost[c->node]};
        r->items[i] =
            (struct item){key_set_add(&r->keys, key), c->node, c->height_bytes, c->weight, 0};
        for (uint32_t n = c->node; n != CTP_NONE; n = profile_parent(p, n)) {
            struct range *b = &r->below[n];
            if (b->from == UINT32_MAX)
                b->from = i;
            b->to = i + 1;
        }
    }
    free(order);
    free(sorted);
}

/* The outermost frame lies above all that is counted. */
static bool can_grow(const struct profile *p, uint32_t node)
{
    return node && profile_parent(p, node) &&
           (profile_frame(p, profile_node_frame(p, node))->flags & CTP_FRAME_RETURN);
}

static void list_frames(struct resizing *r)
{
    const struct profile *p = &r->map->profile;
    const uint32_t frames = profile_frame_count(p);
    r->first_of = must_calloc((size_t)frames + 2, sizeof *r->first_of);
    r->frame_nodes = must_calloc((size_t)p->node_count + 1, sizeof *r->frame_nodes);
    r->allowed = must_calloc((size_t)frames + 1, 1);
    r->steps = must_calloc((size_t)frames + 1, 1);
    r->most_steps = must_calloc((size_t)frames + 1, 1);
    memset(r->most_steps, MOST_STEPS, frames);
    for (uint32_t i = 0; i < p->node_count; i++)
        if (can_grow(p, i))
            r->first_of[profile_node_frame(p, i) + 1]++;
    for (uint32_t i = 0; i < frames; i++)
        r->first_of[i + 1] += r->first_of[i];
    uint32_t *next = must_calloc((size_t)frames + 1, sizeof *next);
    memcpy(next, r->first_of, frames * sizeof *next);
    for (uint32_t i = 0; i < p->node_count; i++)
        if (can_grow(p, i))
            r->frame_nodes[next[profile_node_frame(p, i)]++] = i;
    free(next);
}

/* --- changes -----------------------------------------------------------------------------------
 */

/* The stack grows so much more at a place, or less. */
static void grow(struct resizing *r, uint32_t frame, int steps)
{
    r->stamp++;
    r->touched.count = 0;
    for (uint32_t k = r->first_of[frame]; k < r->first_of[frame + 1]; k++) {
        struct range b = r->below[r->frame_nodes[k]];
        for (uint32_t i = b.from; i < b.to; i++) {
            struct item *item = &r->items[i];
            if (item->stamp != r->stamp) {
                item->stamp = r->stamp;
                take_item(r, item);
                vec_push(&r->touched, i);
            }
            item->height_bytes += (uint64_t)((int64_t)steps * GROWTH_STEP);
        }
        r->work += b.to > b.from ? b.to - b.from : 0;
    }
    r->is_too_high = false;
    for (size_t i = 0; i < r->touched.count; i++)
        add_item(r, &r->items[r->touched.items[i]]);
    r->work += 4 * r->touched.count;
    const bool did_grow = r->steps[frame];
    r->steps[frame] = (uint8_t)(r->steps[frame] + steps);
    r->calls_weight -= did_grow ? r->called[frame] : 0;
    r->calls_weight += r->steps[frame] ? r->called[frame] : 0;
    if (r->used > r->slot_mask / 4 * 3) {
        bool was_too_high = r->is_too_high;
        count_anew(r);
        r->is_too_high = was_too_high;
    }
}

/* What it is worth: all weight, and a tenth of that for all paths. A call that grows takes time: if
 * all did, a tenth would be gone again. */
static double value_of(const struct resizing *r)
{
    const double all = (double)(r->out->weight ? r->out->weight : 1);
    return (double)r->weight / all +
           ((double)r->paths / (double)(r->count ? r->count : 1) - (double)r->calls_weight / all) /
               10;
}

static bool is_allowed(struct resizing *r, uint32_t frame)
{
    const struct ctp_frame *f = profile_frame(&r->map->profile, frame);
    struct path_module *m = &r->modules[f->module];
    if (r->allowed[frame])
        return r->allowed[frame] == 2;
    r->allowed[frame] =
        m->is_there && f->offset <= UINT32_MAX &&
                growth_allows(&m->finder, (uint32_t)f->offset, NULL, NULL) == GROWTH_ALLOWED
            ? 2
            : 1;
    return r->allowed[frame] == 2;
}

struct choice {
    uint32_t frame;
    int more; /* how often one path has it, less how often the other */
};

/* Calls that two paths do not have equally often. */
static unsigned list_choices(struct resizing *r, const struct item *a, const struct item *b,
                             struct choice choices[MOST_CHOICES])
{
    const struct profile *p = &r->map->profile;
    unsigned count = 0;
    for (unsigned k = 0; k < 2; k++)
        for (uint32_t n = profile_parent(p, k ? b->node : a->node); can_grow(p, n);
             n = profile_parent(p, n)) {
            const uint32_t frame = profile_node_frame(p, n);
            unsigned i = 0;
            while (i < count && choices[i].frame != frame)
                i++;
            if (i == MOST_CHOICES)
                continue;
            if (i == count)
                choices[count++] = (struct choice){frame, 0};
            choices[i].more += k ? -1 : 1;
        }
    unsigned kept = 0;
    for (unsigned i = 0; i < count; i++)
        if (choices[i].more && is_allowed(r, choices[i].frame))
            choices[kept++] = choices[i];
    return kept;
}

/* Takes the best of all choices, if it is better than none. */
static bool make_distinct(struct resizing *r, const struct item *a, const struct item *b)
{
    struct choice choices[MOST_CHOICES];
    const unsigned count = list_choices(r, a, b, choices);
    const double before = value_of(r);
    double best = before;
    uint32_t best_frame = 0;
    int best_steps = 0;
    for (unsigned i = 0; i < count && r->work < MOST_WORK; i++) {
        const int now = r->steps[choices[i].frame];
        for (int to = 0; to <= r->most_steps[choices[i].frame]; to++) {
            if (to == now)
                continue;
            grow(r, choices[i].frame, to - now);
            r->out->tried++;
            /* Of two that are as good, the one that takes less stack. */
            if (!r->is_too_high && r->calls_weight <= r->most_calls && value_of(r) > best + 1e-9) {
                best = value_of(r);
                best_frame = choices[i].frame;
                best_steps = to - now;
            }
            grow(r, choices[i].frame, now - to);
        }
    }
    if (!best_steps)
        return false;
    grow(r, best_frame, best_steps);
    return true;
}

/* --- in the order of weight --------------------------------------------------------------------
 */

struct group {
    uint32_t first, count; /* of the sorted items */
    uint64_t weight;
};

static const struct item *sorted_items;

static int by_identifier(const void *a, const void *b)
{
    const struct item *x = &sorted_items[*(const uint32_t *)a];
    const struct item *y = &sorted_items[*(const uint32_t *)b];
    if (x->function != y->function)
        return x->function < y->function ? -1 : 1;
    if (x->height_bytes != y->height_bytes)
        return x->height_bytes < y->height_bytes ? -1 : 1;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x < y ? -1 : x > y;
}

static int by_weight(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static bool is_same(const struct item *a, const struct item *b)
{
    return a->function == b->function && a->height_bytes == b->height_bytes;
}

struct groups {
    uint32_t *sorted;
    VEC(struct group) items;
};

static struct groups list_groups(const struct resizing *r)
{
    struct groups g = {.sorted = must_calloc((size_t)r->count + 1, sizeof(uint32_t))};
    for (uint32_t i = 0; i < r->count; i++)
        g.sorted[i] = i;
    sorted_items = r->items;
    if (r->count)
        qsort(g.sorted, r->count, sizeof *g.sorted, by_identifier);
    for (uint32_t i = 0, end; i < r->count; i = end) {
        struct group group = {i, 0, 0};
        for (end = i; end < r->count && is_same(&r->items[g.sorted[i]], &r->items[g.sorted[end]]);
             end++)
            group.weight += r->items[g.sorted[end]].weight;
        group.count = end - i;
        if (group.count > 1)
            vec_push(&g.items, group);
    }
    if (g.items.count)
        qsort(g.items.items, g.items.count, sizeof *g.items.items, by_weight);
    return g;
}

static bool go_round(struct resizing *r)
{
    struct groups g = list_groups(r);
    bool is_better = false;
    for (size_t i = 0; i < g.items.count; i++) {
        const uint32_t *own = g.sorted + g.items.items[i].first;
        for (uint32_t k = 1; k < g.items.items[i].count && k <= MOST_PAIRS; k++) {
            const struct item *a = &r->items[own[0]], *b = &r->items[own[k]];
            if (is_same(a, b) && r->work < MOST_WORK)
                is_better |= make_distinct(r, a, b);
        }
    }
    r->out->is_cut = r->work >= MOST_WORK;
    free(g.sorted);
    vec_free(&g.items);
    return is_better && !r->out->is_cut;
}

/* --- all ---------------------------------------------------------------------------------------
 */

static struct path_precision precision_now(const struct resizing *r)
{
    struct path_precision out = {.paths = r->paths, .weight = r->weight};
    double sum = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        const struct item *item = &r->items[i];
        const struct slot *s = &r->slots[place_of(r, item->function, item->height_bytes)];
        out.few_paths += s->count <= PATH_FEW;
        sum += (double)item->weight * (double)item->height_bytes;
        if (item->height_bytes > out.highest_bytes)
            out.highest_bytes = item->height_bytes;
    }
    out.calls_weight = r->calls_weight;
    out.mean_bytes = r->out->weight ? sum / (double)r->out->weight : 0;
    return out;
}

/* Of all places that training met, why the stack may grow there or not. */
static void count_places(struct resizing *r)
{
    const struct profile *p = &r->map->profile;
    for (uint32_t i = 0; i < profile_frame_count(p); i++) {
        const struct ctp_frame *f = profile_frame(p, i);
        enum above above = ABOVE_NOTHING;
        if (r->first_of[i] == r->first_of[i + 1])
            continue;
        if (!r->modules[f->module].is_there || f->offset > UINT32_MAX) {
            r->out->unread++;
            continue;
        }
        enum growth_reason reason =
            growth_allows(&r->modules[f->module].finder, (uint32_t)f->offset, NULL, &above);
        r->out->calls[reason]++;
        r->out->looks[above] += reason == GROWTH_LOOKS;
    }
}

static void list_growth(const struct resizing *r, struct growth *out)
{
    const struct profile *p = &r->map->profile;
    for (uint32_t i = 0; i < profile_frame_count(p); i++) {
        const struct ctp_frame *f = profile_frame(p, i);
        if (!r->steps[i])
            continue;
        const struct ctp_module *m = profile_module(p, f->module);
        struct growth_item item = {.build_id_size = m->build_id_size,
                                   .place = (uint32_t)f->offset,
                                   .bytes = (uint32_t)r->steps[i] * GROWTH_STEP};
        memcpy(item.build_id, m->build_id, m->build_id_size);
        vec_push(&out->items, item);
    }
    growth_sort(out);
}

/*
 * What calls itself, over others or not, may do so much more often than in training: there, a call
 * grows by no more than its share of the stack of one round.
 */
static void limit_recursions(struct resizing *r, double most_growth)
{
    const struct profile *p = &r->map->profile;
    uint64_t *heights = must_calloc((size_t)p->node_count + 1, sizeof *heights);
    for (uint32_t i = 0; i < r->count; i++)
        heights[profile_parent(p, r->items[i].node)] = r->items[i].height_bytes;
    for (uint32_t i = 0; i < p->node_count; i++) {
        uint32_t frame = profile_node_frame(p, i), above = i;
        do
            above = profile_parent(p, above);
        while (above != CTP_NONE && can_grow(p, above) && profile_node_frame(p, above) != frame);
        if (!can_grow(p, i) || above == CTP_NONE || !can_grow(p, above))
            continue;
        uint64_t round = heights[i] > heights[above] ? heights[i] - heights[above] : 0;
        double steps = (double)round * (most_growth - 1) / GROWTH_STEP;
        if (steps < r->most_steps[frame])
            r->most_steps[frame] = (uint8_t)steps;
    }
    free(heights);
}

static void begin(struct resizing *r, struct map_cache *cache,
                  const struct path_resize_limits *limits)
{
    const struct profile *p = &r->map->profile;
    uint64_t highest = 0, slots = 1024;
    r->modules = must_calloc((size_t)profile_module_count(p) + 1, sizeof *r->modules);
    for (uint32_t i = 0; i < profile_module_count(p); i++)
        path_module_open(p, i, cache, &r->modules[i]);
    key_set_init(&r->keys, 2 * sizeof(uint32_t));
    list_items(r);
    list_frames(r);
    r->called = must_calloc((size_t)profile_frame_count(p) + 1, sizeof *r->called);
    for (uint32_t i = 0; i < r->count; i++) {
        const uint32_t place = profile_parent(p, r->items[i].node);
        if (can_grow(p, place))
            r->called[profile_node_frame(p, place)] += r->items[i].weight;
        r->out->weight += r->items[i].weight;
        highest = r->items[i].height_bytes > highest ? r->items[i].height_bytes : highest;
    }
    r->out->paths = r->count;
    for (uint32_t i = 0; i < r->count; i++) {
        uint64_t own = (uint64_t)((double)r->items[i].height_bytes * limits->growth) + SLACK_BYTES;
        uint64_t most = (uint64_t)((double)highest * limits->growth);
        r->items[i].most_bytes = own < most ? own : most;
    }
    r->most_calls = (uint64_t)((double)r->out->weight * limits->calls);
    limit_recursions(r, limits->growth);
    while (slots < 4ul * r->count)
        slots *= 2;
    r->slot_mask = (uint32_t)slots - 1;
    r->slots = must_calloc(slots, sizeof *r->slots);
    count_anew(r);
}

static void end(struct resizing *r)
{
    for (uint32_t i = 0; i < profile_module_count(&r->map->profile); i++)
        path_module_close(&r->modules[i]);
    free(r->modules);
    key_set_free(&r->keys);
    free(r->items);
    free(r->below);
    free(r->frame_nodes);
    free(r->first_of);
    free(r->allowed);
    free(r->steps);
    free(r->most_steps);
    free(r->called);
    free(r->slots);
    vec_free(&r->touched);
}

void path_resize(const struct path_map *map, struct map_cache *cache,
                 const struct path_resize_limits *limits, struct path_resize_result *out)
{
    struct resizing r = {.map = map, .out = out};
    const uint64_t from = now_ns();
    *out = (struct path_resize_result){0};
    begin(&r, cache, limits);
    count_places(&r);
    out->before = precision_now(&r);
    for (unsigned round = 0; round < ROUNDS && go_round(&r); round++)
        ;
    out->after = precision_now(&r);
    list_growth(&r, &out->growth);
    end(&r);
    out->time_ns = now_ns() - from;
}
