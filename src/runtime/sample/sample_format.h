/* The options of engine `sample`, in the arena's settings. */
#ifndef SAMPLE_FORMAT_H
#define SAMPLE_FORMAT_H

#include "runtime/engine_format.h"

#include <assert.h>
#include <stdint.h>

struct sample_settings {
    uint64_t trampoline; /* return addresses may be replaced: cheaper walks, and returns */
};

static_assert(sizeof(struct sample_settings) <= 8 * ENGINE_SETTINGS, "it has its place");

static inline const struct sample_settings *sample_settings_in(const uint64_t *settings)
{
    return (const void *)settings;
}

#endif
