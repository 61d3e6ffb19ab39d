/*
 * The instructions that are in the page: those of the functions that cost something themselves.
 */
#ifndef VIEW_PAGE_CODE_H
#define VIEW_PAGE_CODE_H

#include "base/json.h"
#include "query/label.h"

/* As "code", [[label, module, offset, size, [[offset, text], …]], …]. Functions whose module is not
 * on this machine, or is another build, are left out. */
void page_code_write(struct json *json, const struct labels *labels);

#endif
