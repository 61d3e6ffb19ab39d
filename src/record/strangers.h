/* Children that were seen, and of which nothing was measured. */
#ifndef RECORD_STRANGERS_H
#define RECORD_STRANGERS_H

struct profile_writer;
struct server;

/* Of those that have ended, when there are many, those of a program become one. */
void strangers_fold(struct server *server);

/* Lists them in the profile, behind all others, with the reason where it is known. */
void strangers_write(const struct server *server, struct profile_writer *writer);

#endif
