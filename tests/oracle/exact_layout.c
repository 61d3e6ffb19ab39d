#include "exact_layout.h"

#include "runtime/exact/exact.h"

static_assert(offsetof(struct mirror_entry, tag) == 0 && sizeof(struct mirror_entry) == 16,
              "the tag, then the record");

const struct exact_layout exact_layout = {
    .mirror = offsetof(struct exact_state, mirror),
    .arena = offsetof(struct exact_state, arena),
    .others = offsetof(struct exact_state, others),
    .mirror_mask = MIRROR_MASK,
};
