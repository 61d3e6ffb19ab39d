#include "exact_layout.h"

#include "runtime/exact/mirror.h"

const struct exact_layout exact_layout = {
    .mirror = offsetof(struct exact_state, mirror),
    .arena = offsetof(struct exact_state, arena),
    .others = offsetof(struct exact_state, others),
    .mirror_mask = MIRROR_MASK,
    .mirror_records = MIRROR_RECORDS,
};
