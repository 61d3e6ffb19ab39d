#include "record/outside/outside_switches.h"

#include "base/clock.h"

#include <stdio.h>
#include <unistd.h>

enum { EVERY_NS = 200000000, MOST_THREADS = 32 }; /* a limit for the recorder's own time */

/* How often it was given a processor; 0: that is not known. */
static uint64_t switches_to(uint32_t pid, uint32_t tid)
{
    char path[64];
    unsigned long long times = 0;
    snprintf(path, sizeof path, "/proc/%u/task/%u/schedstat", pid, tid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%*u %*u %llu", &times) != 1)
        times = 0;
    fclose(file);
    return times;
}

/* In each second since it was looked at the last time; 0 for one that has not worked since. */
static double look_at_thread(const struct outside_process *p, struct outside_thread *t,
                             uint64_t now)
{
    uint64_t before = t->switches, since_ns = now - t->looked_ns;
    t->worked = t->tree.record->samples;
    t->looked_ns = now;
    t->switches = switches_to(p->pid, t->tid);
    return before && t->switches > before ? (double)(t->switches - before) * 1e9 / (double)since_ns
                                          : 0;
}

static double switches_a_second(struct outside *o, uint64_t now)
{
    double sum = 0;
    unsigned seen = 0;
    for (size_t i = 0; i < o->processes.count; i++) {
        const struct outside_process *p = o->processes.items[i];
        for (size_t k = 0; k < p->threads.count && seen < MOST_THREADS; k++) {
            struct outside_thread *t = p->threads.items[k];
            if (!t->has_tree || t->tree.record->samples == t->worked)
                continue;
            sum += look_at_thread(p, t, now);
            seen++;
        }
    }
    return sum;
}

/*
 * A sample takes 16 us, a switch 9 with events of threads, none with those of processors: so from
 * two switches for each period of each processor on, these cost all that runs on the machine less.
 */
void outside_switches_adapt(struct outside *o)
{
    enum { FOR_A_SAMPLE = 2 };
    struct outside_switches *s = &o->switches;
    uint64_t now = now_ns();
    if (s->is_over || o->events.samples_are_wide || now - s->looked_ns < EVERY_NS)
        return;
    double samples = 1e9 / (double)(o->events.wanted.period_ns | 1);
    double most = samples * FOR_A_SAMPLE * (double)sysconf(_SC_NPROCESSORS_ONLN);
    bool are_many = switches_a_second(o, now) > most;
    s->looked_ns = now;
    if (are_many && s->were_many) /* not for a moment alone */
        s->is_over = !outside_events_spread(&o->events);
    s->were_many = are_many;
}
