/*
 * What the kernel writes into the rings of perf events, record by record. The bytes are checked as
 * if any program had written them: a record that is not what it should be is no record.
 */
#ifndef RECORD_OUTSIDE_RECORDS_H
#define RECORD_OUTSIDE_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum outside_kind {
    OUTSIDE_SAMPLE,
    OUTSIDE_MAPPING, /* code was mapped */
    OUTSIDE_NAME,    /* a thread has a name, or another program runs now */
    OUTSIDE_FORK,    /* a thread, or a process, was made */
    OUTSIDE_EXIT,    /* a thread has ended */
    OUTSIDE_LOST     /* records for which the ring had no room */
};

enum { OUTSIDE_NAME_BYTES = 16, OUTSIDE_REGISTERS = 17 };

/* The registers of a sample: asm/perf_regs.h's numbers, without the segments. */
enum outside_abi { OUTSIDE_ABI_NONE, OUTSIDE_ABI_32, OUTSIDE_ABI_64 };

struct outside_sample {
    uint64_t ip;
    bool in_kernel;            /* that is where it was taken */
    uint64_t abi;              /* enum outside_abi; none: a thread without a user context */
    const uint64_t *registers; /* of user mode; NULL: there are none that are known here */
    const char *stack;         /* from the stack pointer on, */
    uint64_t stack_bytes;      /* as far as it could be read, */
    uint64_t window_bytes;     /* and as far as it would have been */
    const uint64_t *chain;     /* the kernel's calls, innermost first; markers among them */
    uint64_t chain_count;
};

struct outside_mapping {
    uint64_t start, bytes, file_offset;
    uint32_t major, minor;
    uint64_t inode;      /* 0: no file */
    uint64_t generation; /* a number of the inode is used again, with another one of these */
    bool has_generation; /* /proc/PID/maps does not say it */
    const char *path;
};

struct outside_record {
    enum outside_kind kind;
    uint32_t pid, tid;
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint64_t id;      /* of the event */
    union {
        struct outside_sample sample;
        struct outside_mapping mapping;
        struct {
            const char *text;
            bool is_exec;
        } name;
        struct {
            uint32_t parent_pid, parent_tid;
        } fork;
        uint64_t lost;
    };
};

/*
 * Reads one record of `size` bytes, header included; it refers to them. `has_chain`: samples have
 * the kernel's calls. False: it is none of the kinds above, or damaged.
 */
bool outside_record_read(const void *bytes, size_t size, bool has_chain,
                         struct outside_record *out);

#endif
