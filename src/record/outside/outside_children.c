#include "record/outside/outside_children.h"

#include "base/clock.h"
#include "record/outside/outside_attach.h"

#include <stdio.h>

static int need_rings(struct outside_children *c, struct ct_error *err)
{
    if (c->has_begun)
        return CT_OK;
    struct server *server = c->outside.server;
    uint64_t from_ns = c->outside.from_ns, until_ns = c->outside.until_ns;
    int status = outside_begin(&c->outside, server, &c->wanted, c->verify, err);
    c->outside.server = server;
    c->outside.from_ns = from_ns;
    c->outside.until_ns = until_ns;
    c->has_begun = status == CT_OK;
    return status;
}

/* One that has ended meanwhile is no loss. */
static void note_failure(struct outside_children *c, uint32_t pid)
{
    if (outside_parent_of(pid))
        c->not_taken++;
}

static void expect(void *context, uint32_t pid)
{
    struct outside_children *c = context;
    if (c->has_begun)
        outside_unfollow(&c->outside, (pid_t)pid);
    if (need_rings(c, &c->why) != CT_OK ||
        outside_follow(&c->outside, (pid_t)pid, outside_parent_of(pid), &c->why) != CT_OK)
        note_failure(c, pid);
}

static void unexpect(void *context, uint32_t pid)
{
    struct outside_children *c = context;
    if (c->has_begun)
        outside_unfollow(&c->outside, (pid_t)pid);
}

/* CPU time is what can be had from outside; of the rest such a process has nothing. */
static bool can_be_outside(const struct server *server, const struct record_options *options)
{
    return options->follow && !engine_edits(options->engine, options->engine_options) &&
           !options->perf.count && (server->events.mask & EVENT_CPU);
}

void outside_children_begin(struct outside_children *c, struct server *server,
                            const struct record_options *options)
{
    *c = (struct outside_children){.hooks = {.expect = expect, .unexpect = unexpect, .context = c},
                                   .wanted = {.period_ns = server->period_ns,
                                              .in_user = true,
                                              .follow = true,
                                              .window_bytes = options->window_bytes,
                                              .has_window = options->has_window,
                                              .by_height = options->engine->by_height},
                                   .outside = {.server = server,
                                               .from_ns = server->paused ? UINT64_MAX : 0,
                                               .until_ns = UINT64_MAX},
                                   .verify = options->verify};
    if (can_be_outside(server, options))
        server->outsiders = &c->hooks;
}

void outside_children_read(struct outside_children *c, bool all)
{
    if (!c->has_begun)
        return;
    if (all)
        outside_events_stop(&c->outside.events);
    outside_read(&c->outside, all);
}

void outside_children_pause(struct outside_children *c, bool paused)
{
    if (paused && c->outside.until_ns == UINT64_MAX)
        c->outside.until_ns = now_ns();
    else if (!paused)
        c->outside.from_ns = now_ns();
}

void outside_children_say_what_is_missing(const struct outside_children *c)
{
    if (c->not_taken)
        fprintf(stderr, "calltrail: %u process%s not recorded, which cannot host calltrail: %s\n",
                c->not_taken, c->not_taken == 1 ? " was" : "es were", c->why.text);
    if (c->has_begun)
        outside_say_what_is_missing(&c->outside);
}

void outside_children_end(struct outside_children *c)
{
    c->outside.server->outsiders = NULL;
    if (c->has_begun)
        outside_end(&c->outside);
}
