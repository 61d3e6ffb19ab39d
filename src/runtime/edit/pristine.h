/* The code of a module as it is in the file. */
#ifndef RUNTIME_EDIT_PRISTINE_H
#define RUNTIME_EDIT_PRISTINE_H

#include "runtime/edit/edited_module.h"

void pristine_map(struct edited_module *m, const struct edit_request *r);
void pristine_unmap(struct edited_module *m);

/* A mapping of the file as it is; NULL: could not be had. */
uint8_t *pristine_copy(const struct pristine *p, int file);

/* One of the copies takes the place of the code. */
bool pristine_put_back(struct pristine *p, unsigned copy);

/* The rooms of short sites, as they are now, go into the first copy. Is there any? */
bool pristine_keep_rooms(const struct edited_module *m, struct pristine *p);

/* Does a thread of this process wait in the kernel? */
bool thread_sleeps(uint32_t tid);

#endif
