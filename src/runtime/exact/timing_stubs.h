/* What is done at a site, and when what it calls comes back: in machine code. */
#ifndef RUNTIME_EXACT_TIMING_STUBS_H
#define RUNTIME_EXACT_TIMING_STUBS_H

struct stub_writer;

extern const struct stub_writer timing_stubs __attribute__((visibility("hidden")));

#endif
