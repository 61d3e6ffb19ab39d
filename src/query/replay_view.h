/*
 * A trace as a view: its calls are the metric, its functions (or call sites) the labels. What is
 * kept of the contexts is the innermost k callers of every call, so only questions about so many
 * make sense.
 */
#ifndef QUERY_REPLAY_VIEW_H
#define QUERY_REPLAY_VIEW_H

#include "query/view.h"
#include "trace/replay.h"

/* The profile that the view refers to, made by hand, and what it is made of. */
struct replay_view {
    struct view view;
    struct profile profile;
    struct string_pool strings;
    VEC(struct ctp_module) modules;
    VEC(struct ctp_function) functions;
    VEC(struct ctp_frame) frames;
    struct ctp_metric metric;
};

int replay_view_open(const char *path, const struct replay_options *options,
                     struct replay_view *out, struct ct_error *err);
void replay_view_close(struct replay_view *replay_view);

#endif
