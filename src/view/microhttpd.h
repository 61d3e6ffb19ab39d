/* libmicrohttpd, loaded when a page is served. */
#ifndef VIEW_MICROHTTPD_H
#define VIEW_MICROHTTPD_H

#include "base/late.h"

#include <microhttpd.h>

#define LIBMICROHTTPD_FUNCTIONS(X)                                                                 \
    X(MHD_add_response_header)                                                                     \
    X(MHD_create_response_from_buffer)                                                             \
    X(MHD_destroy_response)                                                                        \
    X(MHD_get_connection_info)                                                                     \
    X(MHD_get_daemon_info)                                                                         \
    X(MHD_lookup_connection_value)                                                                 \
    X(MHD_queue_response)                                                                          \
    X(MHD_start_daemon)                                                                            \
    X(MHD_stop_daemon)

struct libmicrohttpd {
    LIBMICROHTTPD_FUNCTIONS(LATE_MEMBER)
};
extern struct libmicrohttpd libmicrohttpd;

/* Before any of the functions. */
int libmicrohttpd_load(struct ct_error *err);

#define MHD_add_response_header         libmicrohttpd.MHD_add_response_header
#define MHD_create_response_from_buffer libmicrohttpd.MHD_create_response_from_buffer
#define MHD_destroy_response            libmicrohttpd.MHD_destroy_response
#define MHD_get_connection_info         libmicrohttpd.MHD_get_connection_info
#define MHD_get_daemon_info             libmicrohttpd.MHD_get_daemon_info
#define MHD_lookup_connection_value     libmicrohttpd.MHD_lookup_connection_value
#define MHD_queue_response              libmicrohttpd.MHD_queue_response
#define MHD_start_daemon                libmicrohttpd.MHD_start_daemon
#define MHD_stop_daemon                 libmicrohttpd.MHD_stop_daemon

#endif
