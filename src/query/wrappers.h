/*
 * Wrappers: functions that pass a call on and say nothing about where it comes from, such as
 * operator new and the stubs of the PLT.
 */
#ifndef QUERY_WRAPPERS_H
#define QUERY_WRAPPERS_H

#include "query/label.h"

/* For every label whether it is one. The caller frees it. */
bool *labels_that_wrap(const struct labels *labels);

#endif
