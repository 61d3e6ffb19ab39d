/*
 * Gathering: samples of any origin become a profile.
 *
 * Everything is kept once: names, modules, functions, frames, threads and contexts. Numbers that
 * these functions give are for the other functions here. Memory grows with what is different in
 * the samples, not with their number.
 */
#ifndef IMPORT_GATHER_H
#define IMPORT_GATHER_H

#include "base/strings.h"
#include "profile/profile.h"

enum { GATHER_METRICS_MAX = 64 };

/* Records of one size, each kept once. */
struct record_set {
    size_t size;
    VEC(uint8_t) bytes;
    uint32_t count;
    uint32_t *slots; /* open addressing; record + 1, 0 is free */
    size_t slot_count;
};

struct gather_module {
    uint32_t path; /* text */
    uint32_t build_id;
    uint64_t base, size;
};

struct gather_function {
    uint32_t name, file; /* texts */
    uint32_t module;     /* or CTP_NONE */
    uint32_t line;
    uint64_t offset, size; /* in the module, where they are known */
};

/* A list of source positions, the innermost first: this one and the next. */
struct gather_line {
    uint32_t function; /* or CTP_NONE */
    uint32_t file;     /* text */
    uint32_t line;
    uint32_t next; /* the line that this one is inlined into, or CTP_NONE */
};

struct gather_frame {
    uint64_t offset;
    uint32_t module, function;
    uint32_t lines; /* the first of a list, or CTP_NONE */
    uint32_t flags; /* enum ctp_frame_flags */
    uint32_t gap;
    uint32_t reserved; /* no hidden bytes: records are compared as they are */
};

struct gather_thread {
    uint32_t process, tid;
    uint32_t name; /* text */
};

struct gather_node {
    uint32_t parent; /* CTP_NONE for a thread itself */
    uint32_t frame;  /* then the thread */
};

/* The i-th of a set of `struct type`. They lie at multiples of their size, and so of their
 * alignment. */
#define GATHER_RECORD(set, type, i) ((const struct type *)(const void *)(set).bytes.items + (i))

struct gather_metric {
    uint32_t name, unit; /* texts */
    uint32_t kind;
    uint64_t period;  /* 0: that of the samples, on average, when it is sampled */
    uint64_t samples; /* that were counted */
    uint64_t total;
    VEC(uint64_t) values; /* by node */
};

struct gather {
    struct string_pool texts;
    struct record_set modules, functions, lines, frames, threads, nodes;
    struct record_set pids; /* processes: uint32_t */
    VEC(uint32_t) commands; /* texts: the name of the first thread of each */
    VEC(uint32_t) roots;    /* by node: its thread */
    struct gather_metric metrics[GATHER_METRICS_MAX];
    uint32_t metric_count;
    uint32_t command; /* text: of a process of which nothing else is known */
    uint64_t start_ns, duration_ns;
    const char *origin; /* for people: "perf script" */
    uint64_t skipped;   /* lines of the input that were not understood */
    bool overflow;      /* a total that does not fit */
};

void gather_init(struct gather *g, const char *origin, const char *command);
void gather_free(struct gather *g);

/* The number of a text of `length` bytes, which ends at a zero byte if there is one. */
uint32_t gather_text(struct gather *g, const char *text, size_t length);

/* The number of a metric, its name and unit being texts; CTP_NONE when there are too many. */
uint32_t gather_metric(struct gather *g, uint32_t name, uint32_t unit, enum ctp_metric_kind kind,
                       uint64_t period);

uint32_t gather_module(struct gather *g, const struct gather_module *module);
uint32_t gather_function(struct gather *g, const struct gather_function *function);
uint32_t gather_line(struct gather *g, const struct gather_line *line);
uint32_t gather_frame(struct gather *g, const struct gather_frame *frame);

/* A frame that is known by its name only. Names that stand for missing callers in our own exports
 * become that again. */
uint32_t gather_named_frame(struct gather *g, const char *name, size_t length);

/* Whether the name is what our own exports call the cost of a thread whose context is not known. */
bool gather_is_nothing(const char *name, size_t length);

/* The context of a thread itself; pid and tid are 0 when they are not known. */
uint32_t gather_thread(struct gather *g, uint32_t pid, uint32_t tid, const char *name,
                       size_t length);

/* The context of a frame that is called in the context `parent`. */
uint32_t gather_node(struct gather *g, uint32_t parent, uint32_t frame);

void gather_add(struct gather *g, uint32_t node, uint32_t metric, uint64_t value);

/* Writes the profile. */
int gather_write(const struct gather *g, const char *path, struct ct_error *err);

#endif
