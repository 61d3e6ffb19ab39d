#include "record/strangers.h"

#include "profile/profile.h"
#include "record/server.h"

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
        bool is_known = false;
        for (size_t k = 0; k < s->arenas.count && !is_known && !stranger->is_exec; k++)
            is_known = s->arenas.items[k].pid == stranger->pid;
        if (is_known)
            continue;
        uint32_t process = profile_add_process(writer, &out, 0, NULL);
        if (!stranger->why)
            continue;
        char *why = must_format("not measured: it %s", stranger->why);
        profile_fact_string(writer, CTP_SCOPE_PROCESS, process, "restricted", why);
        free(why);
    }
}
