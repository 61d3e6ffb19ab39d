/*
 * same_tick_compare FILE: walks what same_tick.c has written, each sample once as from outside, by
 * the kernel's record, and once as from inside, by the registers and the whole stack of the same
 * tick. Prints how many there were, how many were cut by the window, how many differ otherwise; and
 * how many had no record of the same registers, since the signal came later.
 */
#include "same_tick_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct counts {
    uint64_t samples, other_tick, cut, differ, complete, frames;
};

static const char *outermost(const struct outside_walked *w)
{
    static char text[64];
    snprintf(text, sizeof text, "%u frames, end %u, last %" PRIx64, w->count, w->end,
             w->count ? w->frames[w->count - 1].pc : 0);
    return text;
}

static void compare(void *context, const struct same_tick_pair *pair)
{
    static struct outside_walked seen, truth;
    struct counts *n = context;
    outside_walk(pair->process, pair->outside, true, &seen);
    same_tick_walk_whole(pair, &truth);
    n->samples++;
    n->frames += truth.count;
    n->complete += truth.end == WALK_COMPLETE;
    uint32_t common = seen.count < truth.count ? seen.count : truth.count;
    bool same = true;
    for (uint32_t i = 0; i < common; i++)
        same &= seen.frames[i].pc == truth.frames[i].pc &&
                seen.frames[i].module == truth.frames[i].module;
    if (seen.end == ARENA_GAP_WINDOW && same && seen.count <= truth.count) {
        n->cut++;
    } else if (!same || seen.count != truth.count || seen.end != truth.end) {
        n->differ++;
        printf("differ: outside %s", outermost(&seen));
        printf("; inside %s\n", outermost(&truth));
    }
}

int main(int argc, char **argv)
{
    struct counts n = {0};
    if (argc != 2)
        return 2;
    bool is_read = same_tick_each(argv[1], compare, &n, &n.other_tick);
    printf("%" PRIu64 " samples, %" PRIu64 " of other ticks, %" PRIu64 " cut, %" PRIu64
           " differ, %" PRIu64 " complete, %" PRIu64 " frames\n",
           n.samples, n.other_tick, n.cut, n.differ, n.complete, n.frames);
    return is_read && !n.differ ? 0 : 1;
}
