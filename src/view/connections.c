#include "view/connections.h"

#include "base/vec.h"

#include <sys/socket.h>

static struct connection *oldest(const struct connections *all, bool has_asked)
{
    for (struct connection *one = all->oldest; one; one = one->newer)
        if (!one->is_ended && one->has_asked == has_asked)
            return one;
    return NULL;
}

/* libmicrohttpd sees the end of the connection as if the browser had gone. */
static void end_oldest(struct connections *all)
{
    struct connection *one = oldest(all, false);
    if (!one)
        one = oldest(all, true);
    shutdown(one->fd, SHUT_RDWR);
    one->is_ended = true;
    all->count--;
}

static void begin(struct connections *all, struct MHD_Connection *connection, void **own)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (!info)
        return;
    if (all->count >= CONNECTIONS_KEPT)
        end_oldest(all);
    struct connection *one = must_calloc(1, sizeof *one);
    *one = (struct connection){.older = all->newest, .fd = info->connect_fd};
    if (one->older)
        one->older->newer = one;
    else
        all->oldest = one;
    all->newest = one;
    all->count++;
    *own = one;
}

static void finish(struct connections *all, struct connection *one)
{
    if (one->older)
        one->older->newer = one->newer;
    else
        all->oldest = one->newer;
    if (one->newer)
        one->newer->older = one->older;
    else
        all->newest = one->older;
    all->count -= !one->is_ended;
    free(one);
}

void connections_notify(void *context, struct MHD_Connection *connection, void **own,
                        enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        begin(context, connection, own);
    else if (*own)
        finish(context, *own);
}

void connections_asked(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct connection *one = info ? info->socket_context : NULL;
    if (one)
        one->has_asked = true;
}
