/* --trace: the calls and returns of a recording, as docs/trace.md has them. */
#ifndef RECORD_TRACE_FILE_H
#define RECORD_TRACE_FILE_H

#include "record/server.h"

/* What was lost is said on stderr. */
int trace_file_write(struct server *server, const char *path, struct ct_error *err);

#endif
