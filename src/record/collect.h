/* Arenas to profile: what was measured, with names, as one .ctp. */
#ifndef RECORD_COLLECT_H
#define RECORD_COLLECT_H

#include "record/record.h"
#include "record/server.h"

#include <sys/resource.h>

struct recording {
    const struct record_options *options;
    struct server *server;
    const char *program; /* path */
    int wait_status;     /* of the first process */
    struct rusage usage; /* of it and the children it waited for */
};

int collect_profile(const struct recording *recording, struct ct_error *err);

#endif
