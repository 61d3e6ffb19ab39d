/*
 * What speaks against a walk, apart from the rows that it was walked by: for --verify. Two walks
 * that read the same wrong row agree with each other.
 */
#ifndef RUNTIME_WALK_CHECK_H
#define RUNTIME_WALK_CHECK_H

#include "runtime/walk.h"

/*
 * Frame pointers. A function that begins with push %rbp; mov %rsp,%rbp has its return address above
 * the word that rbp points at, at each of its calls, whatever the tables say. Only frames that are
 * at a call, and whose rule does not count from rbp anyway, are looked at. False: one of them is
 * not where it should be.
 */
bool walk_agrees_with_frame_pointers(const struct walk_modules *modules, struct walk_memory memory,
                                     const struct walk_frame *frames, uint32_t count);

/* Was a correction used, which takes the place of what the file's CFI says? */
bool walk_was_corrected(const struct walk_modules *modules, const struct walk_frame *frames,
                        uint32_t count);

/*
 * Of two walks of one stack, the second without corrections: is there reason to believe the second
 * rather than the first? It must be complete, and each of its return addresses behind a call; the
 * first must not be that.
 */
bool walk_is_refuted(struct walk_memory memory, struct walk_result first,
                     const struct walk_frame *first_frames, struct walk_result second,
                     const struct walk_frame *second_frames);

#endif
