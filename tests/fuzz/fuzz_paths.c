/*
 * Any bytes as a path map, and as a profile to train one with: open, look up, complete, score.
 * Nothing may crash, hang or take more memory than the bytes suggest. The bytes are tried as they
 * are, and with the hashes put right, so that what a mutation changed is looked at rather than
 * refused.
 */
#include "../ctp_rehash.h"
#include "infer/path_complete.h"
#include "infer/path_score.h"
#include "infer/path_train.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_up(const struct path_map *map)
{
    struct path_answer answer;
    path_answer_begin(&answer, map);
    for (uint32_t i = 0; i < map->count && i < 200; i++) {
        const struct path_context *c = &map->contexts[i];
        uint32_t caller = path_map_caller(map, c->node);
        struct path_query q = {.function = c->function,
                               .height_bytes = c->height_bytes,
                               .outermost = map->outermost[c->node],
                               .inner = &caller,
                               .inner_count = i % 2,
                               .leaf = c->function};
        path_answer_find(map, &q, &answer);
        for (size_t k = 0; k < answer.candidates.count; k++)
            if (answer.candidates.items[k]->function != c->function)
                abort();
    }
    path_answer_free(&answer);
}

static void visit(void *context, uint32_t node, uint64_t height_bytes, uint64_t weight)
{
    *(uint64_t *)context += node + height_bytes + weight;
}

/* The map of itself: each is also a profile. */
static void use_map(const struct path_map *map)
{
    struct path_summary summary;
    struct path_scores scores;
    struct path_unseen unseen;
    struct ct_error err;
    uint64_t sum = 0;
    look_up(map);
    path_each(map, &map->profile, NULL, NULL, &summary, &err);
    path_score(map, &map->profile, "weight", 64, &scores, &err);
    path_unseen(map, &map->profile, "weight", visit, &sum, &unseen, &err);
}

static void use_profile(const struct profile *p)
{
    struct ct_error err;
    struct path_trainer *t = path_train_begin(NULL);
    path_train_take(t, p, &err);
    path_train_count(t);
    path_train_free(t);
}

static void try_bytes(const uint8_t *bytes, size_t size)
{
    struct path_map map;
    struct profile p;
    struct ct_error err;
    if (path_map_from_bytes(bytes, size, "fuzz", &map, &err) == CT_OK) {
        use_map(&map);
        path_map_close(&map);
    }
    if (profile_from_bytes(bytes, size, "fuzz", &p, &err) != CT_OK)
        return;
    if (profile_validate(&p, &err) == CT_OK)
        use_profile(&p);
    profile_close(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Exactly as long as the input, so that the sanitizer sees one byte too many. */
    void *copy = NULL;
    if (posix_memalign(&copy, CTP_ALIGNMENT, size ? size : 1) != 0)
        return 0;
    memcpy(copy, data, size);
    try_bytes(copy, size);
    ctp_rehash(copy, size);
    try_bytes(copy, size);
    free(copy);
    return 0;
}
