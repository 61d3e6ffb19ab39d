/*
 * What exports are made of: the contexts of a profile as a tree of the frames that other tools
 * know.
 *
 * A frame of a profile is a place in code where several functions can be, one inlined into the
 * other. Here each of them is a frame of its own, called by the one that it is inlined into.
 * Threads are merged or are the children of the root. Nodes are in preorder, parents first.
 */
#ifndef EXPORT_STACKS_H
#define EXPORT_STACKS_H

#include "query/view.h"

enum stack_identity {
    STACK_BY_PLACE,    /* each place in code is a frame */
    STACK_BY_FUNCTION, /* each function */
    STACK_BY_NAME,     /* each name, as folded stacks need */
};

struct stack_options {
    enum stack_identity identity;
    const char *metric; /* name; NULL: the first */
    bool all_metrics;   /* then `metric` comes first, and the others behind it */
    bool threads;       /* apart, each a child of the root */
    bool inlined;       /* functions that were inlined are shown */
    bool keep_mangled;  /* mangled names */
    bool expand;        /* as frames of their own; else `line_labels` has them */
};

struct stack_frame {
    uint32_t label;   /* what it is and what it is called */
    uint32_t module;  /* or CTP_NONE */
    uint64_t offset;  /* in the module; of the call, where the profile has the return address */
    const char *file; /* "" when it is not known */
    uint32_t line;    /* by place that of the place, else that of the function; 0: not known */
    uint32_t column;  /* 0: not known */
    uint32_t source;  /* one of the profile's frames at this place, or CTP_NONE */
    bool inlined;     /* into the frame that is its parent */
    bool is_alone;    /* for its function, not for what was inlined there: see is_of_calls */
};

struct stacks {
    const struct profile *profile;
    struct stack_options options;
    struct labels labels;
    VEC(uint32_t) functions; /* of the profile, by label; CTP_NONE for what is none */
    uint32_t *line_labels;   /* by line of the profile: what was inlined there, or CTP_NONE */
    VEC(struct stack_frame) frames;
    struct tree tree; /* labels of its nodes are indices of frames; `self` is not used */
    uint32_t metric_count;
    uint32_t *metrics;  /* of the profile, in the order of the export */
    bool *is_of_calls;  /* by metric: not of what was inlined (profile_metric_is_of_calls) */
    uint64_t **values;  /* by metric, then node: what was charged to exactly this context */
    uint64_t *totals;   /* by metric */
    uint32_t *places;   /* nodes of the tree, by node of the profile, of one that has times */
    uint32_t max_depth; /* frames of the longest stack; threads do not count */
};

/* The profile must outlive the stacks. A metric that does not exist is an error. */
int stacks_open(const struct profile *profile, const struct stack_options *options,
                struct stacks *out, struct ct_error *err);
void stacks_close(struct stacks *stacks);

/* The frame of a node that is not the root. */
static inline const struct stack_frame *stack_frame(const struct stacks *s, uint32_t node)
{
    return &s->frames.items[s->tree.nodes[node].label];
}

/*
 * The name of a frame or of a thread, as every export has it, except that formats with characters
 * of their own replace these. `text` is room for a name that must be made.
 */
enum { STACK_NAME_ROOM = 512 };
const char *stack_name(const struct stacks *stacks, const struct stack_frame *frame, char *text);

/* The same for any label, and the record of its function, which is empty for what is none. */
const char *stack_label_name(const struct stacks *stacks, uint32_t label, char *text);
const struct ctp_function *stack_function(const struct stacks *stacks, uint32_t label);

/* What a frame is, where formats must tell code from what stands for it. */
enum label_kind stack_kind(const struct stacks *stacks, const struct stack_frame *frame);

/* The name, unit and path of records that exports refer to. */
const char *stack_metric_name(const struct stacks *stacks, uint32_t metric);
const char *stack_metric_unit(const struct stacks *stacks, uint32_t metric);
const char *stack_module_path(const struct stacks *stacks, uint32_t module);

/* The build-id in hexadecimal, into room for CTP_BUILD_ID_ROOM * 2 + 1 bytes. */
const char *stack_build_id(const struct ctp_module *module, char *text);

/* The values of whole subtrees, by node; the caller frees it. */
uint64_t *stack_sums(const struct stacks *stacks, uint32_t metric);

/* The threads: children of the root, or the root itself when threads are merged. `after` is
 * TREE_NONE to begin with, and TREE_NONE says that there are no more. */
uint32_t stack_thread(const struct stacks *stacks, uint32_t after);

/* The thread's index in the profile, CTP_NONE when it is not known or threads are merged, and its
 * record, which is empty then. */
uint32_t stack_thread_index(const struct stacks *stacks, uint32_t thread);
const struct ctp_thread *stack_thread_record(const struct stacks *stacks, uint32_t thread);

/* What a thread of an export is called: its own name, or that of the program for merged ones. */
const char *stack_thread_name(const struct stacks *stacks, uint32_t thread, char *text);

#endif
