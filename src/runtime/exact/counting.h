/* What is done at a site: the fast path, in machine code. */
#ifndef RUNTIME_EXACT_COUNTING_H
#define RUNTIME_EXACT_COUNTING_H

struct stub_writer;

extern const struct stub_writer counting_stubs __attribute__((visibility("hidden")));

#endif
