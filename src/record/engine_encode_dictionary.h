/* Dictionaries of threads that took snapshots: from the arena to the profile. */
#ifndef RECORD_ENGINE_ENCODE_DICTIONARY_H
#define RECORD_ENGINE_ENCODE_DICTIONARY_H

#include "record/frames.h"

/* As in struct record_engine. */
void encode_write_process(const struct arena_view *view, struct frames *frames,
                          struct profile_writer *writer, uint32_t process);

#endif
