/*
 * Any bytes as the profile of another tool: nothing may crash or take more memory than the bytes
 * suggest, and what was understood must make a profile that our own checks accept.
 */
#ifndef FUZZ_IMPORT_H
#define FUZZ_IMPORT_H

#include "import/import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline int fuzz_import(const uint8_t *data, size_t size, enum import_format format)
{
    static char path[64];
    if (!*path)
        snprintf(path, sizeof path, "/tmp/calltrail-fuzz-%d.ctp", (int)getpid());
    /* Exactly as long as the input, so that the sanitizer sees one byte too many. */
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, data, size);
    struct gather g;
    struct ct_error err;
    struct import_options options = {.format = format};
    if (import_bytes(copy, size, "input", &options, &g, &err) == CT_OK && !g.overflow) {
        struct profile profile;
        if (gather_write(&g, path, &err) != CT_OK || profile_open(path, &profile, &err) != CT_OK ||
            profile_validate(&profile, &err) != CT_OK) {
            fprintf(stderr, "%s\n", err.text);
            abort();
        }
        profile_close(&profile);
        unlink(path);
    }
    gather_free(&g);
    free(copy);
    return 0;
}

#endif
