/* Options of record for slices: --every, --keep, --keep-bytes, --store and --label. */
#ifndef CLI_SLICE_OPTIONS_H
#define CLI_SLICE_OPTIONS_H

#include "cli/carry.h"

struct slice_options {
    const char *every, *keep, *keep_bytes, *store;
    struct {
        VEC(char *) items; /* key=value; ends with NULL when they are taken */
    } labels;
    char *folder; /* chosen here, if it was not given */
};

/* Sets the slices of a recording whose other options are known. `output_given`: -o was. */
int slice_options_take(struct slice_options *given, bool output_given,
                       struct record_options *record, struct ct_error *err);
void slice_options_free(struct slice_options *given);

#endif
