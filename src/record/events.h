/* The events that a user asks for: -e EVENT[,EVENT…]. */
#ifndef RECORD_EVENTS_H
#define RECORD_EVENTS_H

#include "base/error.h"
#include "record/perf_names.h"
#include "runtime/arena_format.h"

/* Adds the events of a list to those that are there. The error is one line for the user. */
int events_parse(const char *list, struct arena_events *events, struct perf_wanted *perf,
                 struct ct_error *err);

/* When all are there: what was not given is as usual. */
void events_complete(struct arena_events *events);

#endif
