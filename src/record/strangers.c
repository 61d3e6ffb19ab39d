#include "record/strangers.h"

#include "profile/profile.h"
#include "record/server.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

static bool has_arena(const struct server *s, uint32_t pid)
{
    for (size_t i = 0; i < s->arenas.count; i++)
        if (s->arenas.items[i].pid == pid)
            return true;
    return false;
}

static bool is_like(const struct server_stranger *a, const struct server_stranger *b)
{
    bool same_why = a->why == b->why || (a->why && b->why && strcmp(a->why, b->why) == 0);
    return same_why && strcmp(a->program, b->program) == 0;
}

void strangers_fold(struct server *s)
{
    enum { MOST_APART = 1000 };
    size_t left = 0;
    if (s->strangers.count <= MOST_APART)
        return;
    for (size_t i = 0; i < s->strangers.count; i++) {
        struct server_stranger x = s->strangers.items[i];
        if (!x.is_exec && x.pid && kill((pid_t)x.pid, 0) != 0 && errno == ESRCH) {
            if (has_arena(s, x.pid))
                continue; /* it has said hello since */
            x.pid = 0;
            x.parent = UINT32_MAX;
        }
        size_t same = x.pid ? left : 0;
        while (same < left &&
               (s->strangers.items[same].pid || !is_like(&s->strangers.items[same], &x)))
            same++;
        if (same < left)
            s->strangers.items[same].count += x.count;
        else
            s->strangers.items[left++] = x;
    }
    s->strangers.count = left;
}

void strangers_write(const struct server *s, struct profile_writer *writer)
{
    for (size_t i = 0; i < s->strangers.count; i++) {
        const struct server_stranger *stranger = &s->strangers.items[i];
        struct ctp_process out = {.pid = stranger->pid,
                                  .parent = stranger->parent,
                                  .command = profile_add_string(writer, stranger->program),
                                  .flags = CTP_PROCESS_UNATTACHED};
        if (stranger->is_exec)
            out.flags |= CTP_PROCESS_EXEC;
        if (!stranger->is_exec && has_arena(s, stranger->pid))
            continue;
        uint32_t process = profile_add_process(writer, &out, 0, NULL);
        if (stranger->count > 1)
            profile_fact_u64(writer, CTP_SCOPE_PROCESS, process, "processes", stranger->count);
        if (!stranger->why)
            continue;
        char *why = must_format("not measured: it %s", stranger->why);
        profile_fact_string(writer, CTP_SCOPE_PROCESS, process, "restricted", why);
        free(why);
    }
}
