/*
 * The bytes of a profile file (.ctp). docs/format.md describes the same for people who write a
 * reader of their own; when this file changes, that one does.
 *
 * A header, sections that are plain little-endian arrays, and a table of contents that says where
 * they are. A file is mapped and used as it is, so everything here is aligned to 8 bytes and no
 * record has hidden padding.
 *
 * How it may grow: a new minor version may append fields to a record (readers step by the element
 * size that the file states), add sections marked CTP_OPTIONAL, and add values to the enumerations.
 * Everything else is a new major version, which older readers refuse.
 */
#ifndef PROFILE_CTP_FORMAT_H
#define PROFILE_CTP_FORMAT_H

#include <assert.h>
#include <stdint.h>

/* As in PNG: the first byte is no text, and a transfer that changes line ends damages the rest. */
#define CTP_MAGIC                                                                                  \
    "\x89"                                                                                         \
    "CTP\r\n\x1a\n"

enum { CTP_MAJOR = 1, CTP_MINOR = 2 };

/* An index that points at nothing. */
#define CTP_NONE UINT32_MAX

enum {
    CTP_ALIGNMENT = 8,
    CTP_BUILD_ID_ROOM = 32,
    CTP_KEY_MAX = 255,       /* bytes in the key of a fact */
    CTP_SECTIONS_MAX = 4096, /* opening is linear in this, and only in this */
};

struct ctp_header {
    uint8_t magic[8];
    uint16_t major;
    uint16_t minor;
    uint32_t header_size; /* of this struct */
    uint64_t file_size;
    uint64_t toc_offset;
    uint32_t toc_count;
    uint32_t toc_entry_size; /* of struct ctp_section */
    uint64_t toc_hash;       /* XXH3-64 of the table of contents */
    uint64_t reserved;
    uint64_t hash; /* XXH3-64 of the 56 bytes before it */
};

enum ctp_section_flags {
    CTP_OPTIONAL = 1, /* a reader that does not know the kind may go on without it */
};

struct ctp_section {
    uint32_t kind;
    uint32_t flags;
    uint32_t element_size;
    uint32_t aux; /* CTP_VALUES: the metric's index; otherwise 0 */
    uint64_t offset;
    uint64_t count; /* of elements */
    uint64_t hash;  /* XXH3-64 of the element_size * count bytes */
};

/* A section that is not there has no elements. */
enum ctp_kind {
    CTP_STRINGS = 1, /* bytes; every string ends with a zero byte, offset 0 is the empty string */
    CTP_MODULES,
    CTP_FUNCTIONS,
    CTP_LINES,
    CTP_FRAMES,
    CTP_ARGUMENTS, /* uint32_t: strings, the arguments of all processes */
    CTP_PROCESSES,
    CTP_THREADS,
    CTP_EPOCHS,
    CTP_METRICS,
    CTP_ROOTS,
    CTP_FACTS,
    CTP_PARENTS,      /* uint32_t for each node */
    CTP_NODE_FRAMES,  /* uint32_t for each node */
    CTP_VALUES,       /* uint64_t for each node; one such section for each metric */
    CTP_TIME_RUNS,    /* optional, as the next one: profiles may have no times */
    CTP_TIMES,        /* when each sample came: the entries of the runs, one run behind the other */
    CTP_DICTIONARIES, /* optional: bytes, by which snapshots of contexts are decoded */
    CTP_KIND_END
};

/* In what follows, a field named after a table is an index in it, and names are string offsets. */

enum ctp_module_kind {
    CTP_MODULE_UNKNOWN,
    CTP_MODULE_FILE,
    CTP_MODULE_VDSO,
    CTP_MODULE_JIT,
    CTP_MODULE_KERNEL
};

struct ctp_module {
    uint32_t path;
    uint32_t kind;
    uint64_t base; /* offset + base is the address that the module's own ELF headers use */
    uint64_t size; /* bytes of address space */
    uint8_t build_id[CTP_BUILD_ID_ROOM]; /* zero behind its end */
    uint32_t build_id_size;
    uint32_t reserved;
};

struct ctp_function {
    uint64_t offset; /* in the module; 0 with size 0 for one that exists only inlined */
    uint64_t size;
    uint32_t name;   /* mangled: views demangle it */
    uint32_t module; /* or CTP_NONE */
    uint32_t file;
    uint32_t line; /* 0: not known */
};

struct ctp_line {
    uint32_t function; /* or CTP_NONE */
    uint32_t file;
    uint32_t line; /* 0: not known */
    uint32_t column;
};

enum ctp_frame_flags {
    CTP_FRAME_RETURN = 1,  /* a return address: the call is what ends just before it */
    CTP_FRAME_GUESSED = 2, /* found by decoding instructions, not by the compiler's tables */
    CTP_FRAME_SIGNAL = 4,  /* where the kernel enters a signal handler */
    CTP_FRAME_FLAGS_ALL = 7
};

/*
 * Why the callers of a frame are not known. The walker's endings have the same numbers, so a
 * recorder stores them as they are.
 */
enum ctp_gap {
    CTP_GAP_NONE, /* an ordinary frame */
    CTP_GAP_LIMIT,
    CTP_GAP_NO_MODULE,
    CTP_GAP_NO_MAP,
    CTP_GAP_NO_RULE,
    CTP_GAP_UNKNOWN_RULE,
    CTP_GAP_REGISTER,
    CTP_GAP_MEMORY,
    CTP_GAP_NO_PROGRESS,
    CTP_GAP_OTHER,
    CTP_GAP_CUT, /* only the last callers were to be kept */
    CTP_GAP_SWITCHED,
    CTP_GAP_WINDOW, /* the part of the stack that was copied did not reach so far */
    CTP_GAP_HEIGHT, /* the same; the frame's offset is the height of the stack there */
    CTP_GAP_END
};

struct ctp_frame {
    uint64_t offset;     /* in the module; an address when there is no module */
    uint32_t module;     /* or CTP_NONE */
    uint32_t function;   /* or CTP_NONE */
    uint32_t first_line; /* a run in the lines, innermost inlined function first */
    uint32_t line_count;
    uint32_t flags;
    uint32_t gap; /* enum ctp_gap: this node stands for callers that are missing, and why */
};

enum ctp_process_flags {
    CTP_PROCESS_EXEC = 1,       /* the same process as `parent`, after exec */
    CTP_PROCESS_UNATTACHED = 2, /* seen, but nothing was measured in it */
    CTP_PROCESS_FLAGS_ALL = 3
};

enum ctp_exit_kind { CTP_EXIT_UNKNOWN, CTP_EXIT_STATUS, CTP_EXIT_SIGNAL, CTP_EXIT_EXEC };

struct ctp_process {
    uint32_t pid;
    uint32_t parent;         /* lower than its own index, or CTP_NONE */
    uint32_t command;        /* path of the program */
    uint32_t first_argument; /* a run in the arguments */
    uint32_t argument_count;
    uint32_t flags;
    uint64_t start_ns; /* since 1970; 0: not known */
    uint64_t end_ns;
    uint32_t exit_kind;
    uint32_t exit_value; /* the status or the signal */
};

struct ctp_thread {
    uint32_t process;
    uint32_t tid;
    uint32_t name;
    uint32_t creator; /* the node that created the thread, or CTP_NONE */
    uint64_t start_ns;
    uint64_t end_ns;
};

struct ctp_epoch {
    uint32_t name;
    uint32_t reserved;
};

enum ctp_metric_kind {
    CTP_METRIC_EXACT,   /* every event was counted */
    CTP_METRIC_SAMPLED, /* one event in `period` units was seen and stands for them all */
    CTP_METRIC_AT_LEAST /* some events were not seen: the true value may be higher */
};

struct ctp_metric {
    uint32_t name;
    uint32_t unit; /* "ns", "bytes", "calls"…: what the values count */
    uint32_t description;
    uint32_t kind;
    uint64_t period; /* units that one sample stands for on average; 0 when not sampled */
};

struct ctp_root {
    uint32_t first_node;
    uint32_t node_count;
    uint32_t thread; /* or CTP_NONE */
    uint32_t epoch;  /* or CTP_NONE */
};

enum ctp_scope {
    CTP_SCOPE_PROFILE,
    CTP_SCOPE_PROCESS,
    CTP_SCOPE_METRIC,
    CTP_SCOPE_THREAD,
    CTP_SCOPE_MODULE,
    CTP_SCOPE_END
};

enum ctp_fact_type { CTP_U64, CTP_I64, CTP_F64, CTP_STRING };

struct ctp_fact {
    uint32_t scope;
    uint32_t index; /* in the scope's table; 0 for the whole profile */
    uint32_t key;
    uint32_t type;
    uint64_t value; /* the number's bits, or the string */
};

/*
 * When samples came. Runs are in order of metric, value and span, each of these once; the entries
 * of a run in order of their time, then of their nodes. A sample that stands for several has as
 * many entries. Times are since the start of the recording, so that merging has nothing to move.
 */
struct ctp_time_run {
    uint32_t metric;
    uint32_t span;  /* upper half of the times, in microseconds */
    uint64_t value; /* what each entry is of its node's value of the metric */
    uint32_t first; /* entry */
    uint32_t count;
};

struct ctp_time {
    uint32_t node;
    uint32_t us; /* lower half of the time */
};

/*
 * The dictionary of a thread that took snapshots of its context (encoding/dictionary_format.h),
 * whose keys are frames. One follows the other: this, and so many bytes, and zeros up to a multiple
 * of 8.
 */
struct ctp_dictionary {
    uint64_t run;    /* the process, in snapshots */
    uint64_t size;   /* bytes */
    uint32_t number; /* the thread, in snapshots of that process */
    uint32_t tid;
    uint32_t process;
    uint32_t reserved;
};

#define CTP_LAYOUT(type, size)                                                                     \
    static_assert(sizeof(struct type) == (size) && (size) % CTP_ALIGNMENT == 0, "layout")

CTP_LAYOUT(ctp_header, 64);
CTP_LAYOUT(ctp_section, 40);
CTP_LAYOUT(ctp_module, 64);
CTP_LAYOUT(ctp_function, 32);
CTP_LAYOUT(ctp_line, 16);
CTP_LAYOUT(ctp_frame, 32);
CTP_LAYOUT(ctp_process, 48);
CTP_LAYOUT(ctp_thread, 32);
CTP_LAYOUT(ctp_epoch, 8);
CTP_LAYOUT(ctp_metric, 24);
CTP_LAYOUT(ctp_root, 16);
CTP_LAYOUT(ctp_fact, 24);
CTP_LAYOUT(ctp_time_run, 24);
CTP_LAYOUT(ctp_time, 8);
CTP_LAYOUT(ctp_dictionary, 32);
static_assert(sizeof(CTP_MAGIC) - 1 == 8, "layout");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are used as they are mapped");

#endif
