#include "record/events.h"

#include "base/strings.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t MEMORY_PERIOD_BYTES = 512 << 10, MEMORY_PERIOD_MOST = UINT64_C(1) << 40;
static const uint64_t PERF_PERIOD_MOST = UINT64_C(1) << 40;

/* A number with K, M or G behind it. */
static bool read_amount(const char *text, uint64_t most, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (end == text || *text == '-' || *text == '+' || errno)
        return false;
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (end[shift != 0] || n < 1 || n > most >> shift)
        return false;
    *out = (uint64_t)n << shift;
    return true;
}

/* malloc and heap look at the same points of memory, so they have one period: whichever is given.
 */
static int set_memory_period(const char *name, const char *text, struct arena_events *events,
                             struct ct_error *err)
{
    uint64_t period;
    if (!text)
        return CT_OK;
    if (!read_amount(text, MEMORY_PERIOD_MOST, &period))
        return ct_fail(err, "the period of '%s' is a number of bytes from 1 to 1024G, not '%s'",
                       name, text);
    if (events->memory_period_bytes && events->memory_period_bytes != period)
        return ct_fail(err, "malloc and heap have one period: %llu and %llu bytes were given",
                       (unsigned long long)events->memory_period_bytes, (unsigned long long)period);
    events->memory_period_bytes = period;
    return CT_OK;
}

void events_complete(struct arena_events *events)
{
    if (!events->memory_period_bytes)
        events->memory_period_bytes = MEMORY_PERIOD_BYTES;
}

/* NAME[/PERIOD]; GROUP:NAME for a tracepoint. */
static int add_perf(char *name, const char *period, struct perf_wanted *perf, struct ct_error *err)
{
    struct perf_event_wanted e;
    CT_TRY(perf_name_find(name, &e, err));
    if (period && !read_amount(period, PERF_PERIOD_MOST, &e.period))
        return ct_fail(err, "the period of 'perf:%s' is a number from 1 to 1024G, not '%s'", name,
                       period);
    for (uint32_t i = 0; i < perf->count; i++) {
        const struct perf_event_wanted *other = &perf->items[i];
        if (strcmp(other->name, e.name) == 0)
            return ct_fail(err, "'perf:%s' is given twice", name);
        /* The kernel gives samples of both the number of one. */
        if (other->type == e.type && other->config == e.config)
            return ct_fail(err, "'perf:%s' and 'perf:%s' are the same event", other->name, name);
    }
    if (perf->count == PERF_MOST_EVENTS)
        return ct_fail(err, "there are at most %d perf events in one recording", PERF_MOST_EVENTS);
    perf->items[perf->count++] = e;
    return CT_OK;
}

static int add_event(char *text, struct arena_events *events, struct perf_wanted *perf,
                     struct ct_error *err)
{
    static const struct {
        const char *name;
        uint32_t event, cpu_modes;
    } names[] = {{"cpu", EVENT_CPU, CPU_USER},
                 {"cpu:u", EVENT_CPU, CPU_USER},
                 {"cpu:k", EVENT_CPU, CPU_KERNEL},
                 {"cpu:uk", EVENT_CPU, CPU_USER | CPU_KERNEL},
                 {"wall", EVENT_WALL, 0},
                 {"malloc", EVENT_MALLOC, 0},
                 {"heap", EVENT_HEAP, 0},
                 {"lock", EVENT_LOCK, 0},
                 {"io", EVENT_IO, 0}};
    char *period = strchr(text, '/');
    if (period)
        *period++ = '\0';
    if (strncmp(text, "perf:", 5) == 0)
        return add_perf(text + 5, period, perf, err);
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i].name) != 0)
            continue;
        if (names[i].event & EVENTS_OF_MEMORY)
            CT_TRY(set_memory_period(text, period, events, err));
        else if (period)
            return ct_fail(err, "'%s' has no period; malloc, heap and perf events have", text);
        events->mask |= names[i].event;
        events->cpu_modes |= names[i].cpu_modes;
        return CT_OK;
    }
    return ct_fail(
        err,
        "there is no event '%s'; there are: cpu, cpu:k, cpu:uk, wall, malloc, heap, lock, io, "
        "perf:NAME",
        text);
}

int events_parse(const char *list, struct arena_events *events, struct perf_wanted *perf,
                 struct ct_error *err)
{
    char *copy = must_strdup(list), *rest = copy, *one;
    int status = CT_OK;
    while (status == CT_OK && (one = strsep(&rest, ",")))
        status = add_event(one, events, perf, err);
    free(copy);
    return status;
}
