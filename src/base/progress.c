#include "base/progress.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum { BAR_COLUMNS = 30 };
static const uint64_t FIRST_NS = 500000000, EVERY_NS = 100000000;

void progress_begin(struct progress *p, const char *what, uint64_t total)
{
    *p = (struct progress){.what = what,
                           .total = total,
                           .next_ns = now_ns() + FIRST_NS,
                           .is_terminal = isatty(STDERR_FILENO)};
    pthread_mutex_init(&p->lock, NULL);
}

static void draw(struct progress *p)
{
    char bar[BAR_COLUMNS + 1];
    uint64_t done = p->done < p->total ? p->done : p->total;
    uint64_t filled = p->total ? done * BAR_COLUMNS / p->total : 0;
    for (unsigned i = 0; i < BAR_COLUMNS; i++)
        bar[i] = i < filled ? '#' : '.';
    bar[BAR_COLUMNS] = '\0';
    fprintf(stderr, "\r%s %s %3" PRIu64 "%%", p->what, bar, p->total ? done * 100 / p->total : 0);
    fflush(stderr);
    p->shown = true;
}

void progress_add(struct progress *p, uint64_t done)
{
    pthread_mutex_lock(&p->lock);
    p->done += done;
    if (p->is_terminal && now_ns() >= p->next_ns) {
        draw(p);
        p->next_ns = now_ns() + EVERY_NS;
    }
    pthread_mutex_unlock(&p->lock);
}

void progress_end(struct progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    pthread_mutex_destroy(&p->lock);
}
