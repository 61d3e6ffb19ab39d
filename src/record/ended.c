#include "record/ended.h"

#include "record/kept.h"
#include "record/strangers.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* So many have profiles of their own, with numbers, parents and what they ended with. */
enum { MOST_APART = 1000 };

/* Of whom nothing is to be said but what they measured. */
static bool is_plain(const struct server_arena *a)
{
    const struct arena_header *h = a->header;
    return h->source != SOURCE_OUTSIDE && !a->is_full && !h->modules_not_edited && !h->not_paused &&
           !h->not_resumed && !h->is_too_high;
}

/* It has ended, and slices, if there are any, have all of it. */
static bool is_over(const struct server_arena *a, bool in_slices)
{
    return a->is_gone && (a->is_in_slice || !in_slices);
}

/* As long as a process can be seen, if only as a zombie, it would be taken for another one. */
static bool is_no_more(const struct server_arena *a)
{
    return kill((pid_t)a->pid, 0) != 0 && errno == ESRCH;
}

/* Its successor, which says when it ended, goes along with it. */
static bool is_foldable(const struct server *s, size_t i, bool in_slices)
{
    const struct server_arena *a = &s->arenas.items[i], *successor = server_successor(s, i);
    return is_over(a, in_slices) && is_plain(a) && is_no_more(a) &&
           !server_is_same_process(&s->arenas.items[0], a) &&
           (!successor || (is_over(successor, in_slices) && is_plain(successor)));
}

static size_t mark(const struct recording *r)
{
    struct server *s = r->server;
    size_t count = 0;
    for (size_t i = 1; i < s->arenas.count; i++) {
        s->arenas.items[i].is_folding = is_foldable(s, i, r->slices != NULL);
        count += s->arenas.items[i].is_folding;
    }
    return count;
}

static void unmark(const struct server *s)
{
    for (size_t i = 0; i < s->arenas.count; i++)
        s->arenas.items[i].is_folding = false;
}

/* In the maker, whose server has no other arenas any more. */
static int make_part(const struct recording *recording, struct ct_error *err)
{
    struct server *s = recording->server;
    struct recording part = *recording;
    char *path = kept_path(s, "part");
    size_t count = 0;
    part.is_part = true;
    part.start_ns = s->arenas.items[0].header->start_ns;
    part.snapshot = path;
    for (size_t i = 0; i < s->arenas.count; i++)
        if (s->arenas.items[i].is_folding)
            s->arenas.items[count++] = s->arenas.items[i];
    s->arenas.count = count;
    int status = collect_profile(&part, err);
    if (status == CT_OK)
        status = kept_add(s, path, err);
    unlink(path);
    free(path);
    return status;
}

static void begin(struct ended *e, const struct recording *recording)
{
    struct ct_error err;
    fflush(NULL);
    e->maker = fork();
    if (e->maker == 0) {
        if (make_part(recording, &err) == CT_OK)
            _exit(0);
        fprintf(stderr, "calltrail: processes that have ended are kept apart: %s\n", err.text);
        _exit(1);
    }
    if (e->maker < 0) {
        e->maker = 0;
        unmark(recording->server);
    }
}

/* False: it goes on. */
static bool reap(struct ended *e, const struct recording *recording, bool wait)
{
    int status = 0;
    struct ct_error err;
    if (!e->maker)
        return true;
    pid_t ended = waitpid(e->maker, &status, wait ? 0 : WNOHANG);
    if (ended == 0)
        return false;
    e->maker = 0;
    if (ended > 0 && status == 0 && kept_put(recording->server, &err) == CT_OK) {
        server_drop_folded(recording->server);
    } else { /* nothing is lost: they stay as they are */
        unmark(recording->server);
        e->is_off = true;
    }
    return true;
}

void ended_look(struct ended *e, const struct recording *recording)
{
    const struct server *s = recording->server;
    size_t gone = 0;
    if (e->is_off || !reap(e, recording, false))
        return;
    strangers_fold(recording->server);
    for (size_t i = 0; i < s->arenas.count; i++)
        gone += is_over(&s->arenas.items[i], recording->slices != NULL);
    if (gone < e->not_ready + MOST_APART)
        return;
    size_t ready = mark(recording);
    e->not_ready = gone - ready;
    if (ready)
        begin(e, recording);
}

void ended_wait(struct ended *e, const struct recording *recording)
{
    reap(e, recording, true);
}
