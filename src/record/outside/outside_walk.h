/* One sample: its stack, walked, and counted in the tree of its thread. */
#ifndef RECORD_OUTSIDE_WALK_H
#define RECORD_OUTSIDE_WALK_H

#include "record/outside/outside.h"

enum { OUTSIDE_MOST_FRAMES = 8192 };

struct outside_walked {
    struct walk_frame frames[OUTSIDE_MOST_FRAMES];
    uint32_t count;
    uint32_t end;     /* enum walk_end, or ARENA_GAP_WINDOW */
    uint64_t slot;    /* where the window ended: of the last frame's return address; 0: not known */
    bool reads_alive; /* code was read from the process, which goes on meanwhile, or ends */
};

/* Walks a stack with registers; `remembering`: in the other of two ways, with the same result. */
void outside_walk(struct outside_process *process, const struct outside_sample *sample,
                  bool remembering, struct outside_walked *out);

void outside_count(struct outside *outside, struct outside_process *process,
                   struct outside_thread *thread, const struct outside_sample *sample,
                   uint64_t time_ns);

#endif
