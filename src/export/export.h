/*
 * Exports: profiles in the formats of other tools.
 */
#ifndef EXPORT_EXPORT_H
#define EXPORT_EXPORT_H

#include "report/view.h"

#include <stdio.h>

/*
 * Folded stacks, one line for each context whose own value is not zero: names from the outermost
 * frame on with `;` between them, a space, and the value. The view must be one of LABEL_BY_NAME, so
 * that no two lines have the same stack. The order is that of the names, whatever the order of the
 * profile was. Errors of the stream are the caller's to ask for.
 */
void export_folded(const struct view *view, FILE *out);

#endif
