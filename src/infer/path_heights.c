#include "infer/path_heights.h"

struct own_key {
    uint32_t parent, function;
};

/* What is called by the outermost function has the height 0; elsewhere that is one not known. */
bool path_heights_has(const struct path_heights *h, uint32_t node)
{
    const struct profile *p = h->profile;
    const struct ctp_frame *f = profile_frame(p, profile_node_frame(p, node));
    uint32_t parent = profile_parent(p, node);
    if (parent == CTP_NONE || f->gap != CTP_GAP_NONE || f->function == CTP_NONE)
        return false;
    if (profile_value(p, h->metric, node))
        return true;
    uint32_t above = profile_parent(p, parent);
    return !(f->flags & CTP_FRAME_RETURN) && above != CTP_NONE &&
           profile_parent(p, above) == CTP_NONE;
}

uint32_t path_heights_own(const struct path_heights *h, uint32_t node)
{
    const struct profile *p = h->profile;
    struct own_key key = {profile_parent(p, node),
                          profile_frame(p, profile_node_frame(p, node))->function};
    uint32_t number;
    return key_set_find(&h->keys, &key, &number) ? h->nodes.items[number] : CTP_NONE;
}

bool path_heights_is_tail(const struct path_heights *h, uint32_t node)
{
    return h->tails[node];
}

void path_heights_begin(struct path_heights *h, const struct profile *p, uint32_t metric)
{
    *h = (struct path_heights){.profile = p, .metric = metric};
    key_set_init(&h->keys, sizeof(struct own_key));
    h->tails = must_calloc(p->node_count ? p->node_count : 1, sizeof *h->tails);
    for (uint32_t i = 0; i < p->node_count; i++) {
        struct own_key key = {profile_parent(p, i),
                              profile_frame(p, profile_node_frame(p, i))->function};
        uint32_t before = h->keys.count;
        if (path_heights_has(h, i) && key_set_add(&h->keys, &key) == before)
            vec_push(&h->nodes, i);
    }
    for (uint32_t i = 0; i < p->node_count; i++) {
        uint32_t parent = profile_parent(p, i);
        if (parent == CTP_NONE || profile_parent(p, parent) == CTP_NONE ||
            !path_heights_has(h, i) ||
            (profile_frame(p, profile_node_frame(p, parent))->flags & CTP_FRAME_RETURN))
            continue;
        uint32_t own = path_heights_own(h, parent);
        h->tails[parent] |=
            own != CTP_NONE && profile_value(p, metric, own) == profile_value(p, metric, i);
    }
}

void path_heights_end(struct path_heights *h)
{
    key_set_free(&h->keys);
    vec_free(&h->nodes);
    free(h->tails);
}
