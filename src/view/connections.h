/*
 * The connections of the page's server, which must not run out of them: when libmicrohttpd has as
 * many as it may, it takes no more until some time out, and does not even notice those that end.
 * Before that comes to pass, the oldest one that has not asked for anything yet is ended, then the
 * oldest one at all. libmicrohttpd calls these functions in its one thread.
 */
#ifndef VIEW_CONNECTIONS_H
#define VIEW_CONNECTIONS_H

#include "view/microhttpd.h"

#include <stdbool.h>

enum {
    CONNECTIONS_MAX = 128,
    CONNECTIONS_KEPT = 96, /* fewer, since several may come before one that is ended is gone */
};

struct connection {
    struct connection *older, *newer;
    int fd;
    bool has_asked, is_ended;
};

struct connections {
    struct connection *oldest, *newest;
    unsigned count; /* that are not ended */
};

/* For MHD_OPTION_NOTIFY_CONNECTION; `context` is a struct connections. */
void connections_notify(void *context, struct MHD_Connection *connection, void **own,
                        enum MHD_ConnectionNotificationCode what);

/* A whole request came. */
void connections_asked(struct MHD_Connection *connection);

#endif
