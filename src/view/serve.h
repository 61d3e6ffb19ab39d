/*
 * The page as a server gives it: on this machine only, to those who know its address.
 *
 * The address has a random token; whatever does not have it is refused, as is what was sent to
 * another name of this machine (a page elsewhere could have made one). Nothing is ever asked of any
 * other host.
 */
#ifndef VIEW_SERVE_H
#define VIEW_SERVE_H

#include "view/page_data.h"

struct page_server;

/* Serves `count` profiles, which outlive the server, on a port of 127.0.0.1; 0: a free one. What
 * the page begins with is made here: it takes as long as reading the profiles. */
int page_server_open(const struct profile *profiles, size_t count,
                     const struct page_options *options, uint16_t port, struct page_server **out,
                     struct ct_error *err);

/* With the token, to be given to people; it lives as long as the server. */
const char *page_server_address(const struct page_server *server);

void page_server_close(struct page_server *server);

#endif
