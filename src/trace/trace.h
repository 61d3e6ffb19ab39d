/*
 * Traces: every call and return of a program, in a few bits each. docs/trace.md has the format.
 *
 * A call has a label: which function was called, and from where (its site; 0 when that is not
 * known). Labels are numbered as they turn up. Events belong to threads; a trace is one sequence of
 * them all.
 */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include "base/error.h"
#include "base/file.h"
#include "base/strings.h"
#include "trace/trace_format.h"

#include <stdbool.h>

struct trace_function {
    uint32_t name, module; /* strings of the trace */
};

struct trace_label {
    uint32_t function;
    uint64_t site;
};

/* What a caller called last, the most recent first. */
struct trace_recent {
    uint32_t labels[TRACE_RECENT];
    uint32_t count;
};

struct trace_thread {
    VEC(uint32_t) stack; /* labels */
};

/* What reader and writer know alike at every point of a trace. */
struct trace_state {
    VEC(struct trace_function) functions;
    VEC(struct trace_label) labels;
    VEC(struct trace_recent) recent; /* by label of the caller + 1; 0 is outside of every call */
    VEC(struct trace_thread) threads;
    struct string_pool strings;
    uint32_t thread; /* whose events these are */
    uint64_t events;
};

/* ---- Reading -------------------------------------------------------------------------------- */

struct trace {
    struct trace_state state; /* as it is after the last event */
    char *name;               /* of the file, for messages */
    struct mapped_file file;
    const uint8_t *bytes; /* of the stream */
    uint64_t bit, bit_count;
    uint64_t event_count; /* as the header has it */
    bool overrun;         /* the stream ended within something */
};

enum trace_kind { TRACE_CALL, TRACE_RETURN, TRACE_END };

struct trace_event {
    enum trace_kind kind;
    uint32_t label;  /* of a call */
    uint32_t thread; /* counted from 0 as they turn up */
};

/* Maps the file, and checks the header and the hash of the stream. On success the caller ends with
 * trace_close. */
int trace_open(const char *path, struct trace *out, struct ct_error *err);

/* The same for bytes in memory that outlive the trace. `name` is for messages. */
int trace_from_bytes(const void *bytes, size_t size, const char *name, struct trace *out,
                     struct ct_error *err);
void trace_close(struct trace *trace);

/* The next event. Whatever the bytes are, a call's label exists, and a return has a call. */
int trace_next(struct trace *trace, struct trace_event *event, struct ct_error *err);

/* ---- Writing --------------------------------------------------------------------------------- */

/* The first error is remembered, and trace_writer_commit says it. */
struct trace_writer;

int trace_writer_open(const char *path, struct trace_writer **out, struct ct_error *err);
int trace_writer_commit(struct trace_writer *writer, struct ct_error *err); /* frees it */

/* Each gives a new number; the same function or label twice is the caller's business. */
uint32_t trace_add_function(struct trace_writer *writer, const char *name, const char *module);
uint32_t trace_add_label(struct trace_writer *writer, uint32_t function, uint64_t site);

/* The events that follow are of this thread: one that there is already, or the next number. The
 * first is 0 and need not be chosen. */
void trace_choose_thread(struct trace_writer *writer, uint32_t thread);
void trace_write_call(struct trace_writer *writer, uint32_t label);
void trace_write_return(struct trace_writer *writer);

/* ---- For both -------------------------------------------------------------------------------- */

void trace_state_begin(struct trace_state *state);
void trace_state_free(struct trace_state *state);

/* What the current caller called last. */
struct trace_recent *trace_state_recent(struct trace_state *state);

/* Takes note of a call; of a return, which is false if there is no call to return from. */
void trace_state_call(struct trace_state *state, uint32_t label);
bool trace_state_return(struct trace_state *state);

void trace_state_add_label(struct trace_state *state, struct trace_label label);
void trace_state_choose_thread(struct trace_state *state, uint32_t thread);

/* Bits of the number of a label, as there are now. */
unsigned trace_state_label_bits(const struct trace_state *state);

#endif
