/* A process that is recorded from outside: what it has mapped, its threads, its arena. */
#ifndef RECORD_OUTSIDE_PROCESS_H
#define RECORD_OUTSIDE_PROCESS_H

#include "record/outside/outside_arena.h"
#include "record/outside/outside_files.h"
#include "unwind/walk.h"

#include <stdio.h>

/* Beside each walk_module. */
struct outside_module {
    const struct outside_file *file; /* NULL: there is none, or it cannot be had */
    uint64_t bias;                   /* of the addresses of its headers */
    enum arena_module_kind kind;
    char *path;
    uint32_t id; /* in the arena; 0: not there yet */
};

struct outside_range {
    uint64_t start, end;
};

/* Where a stack begins (outside_base.h). */
struct outside_base {
    uint64_t slot; /* of the outermost return address; 0: it was not found */
    uint64_t word; /* that address */
    uint64_t low, high;
    uint64_t checked;  /* all words from here up have been looked at */
    bool is_uncertain; /* there are several */
};

struct outside_thread {
    uint32_t tid;
    char name[OUTSIDE_NAME_BYTES];
    uint64_t start_ns;
    uint32_t own; /* generation + 1 of the events that were opened for it: of these, what it has
                   * inherited besides does not count; 0: none */
    uint32_t heir_own;  /* the same of the thread that it has inherited all of its events from, */
    uint32_t heir_of;   /* and which that is: it may have had such, too */
    uint64_t looked_ns; /* when it was looked at: */
    uint64_t switches;  /* to it until then, */
    uint64_t worked;    /* and samples of it */
    bool has_tree;
    struct outside_tree tree;
    struct outside_base base;
};

struct outside_process {
    uint32_t pid, parent_pid;
    uint64_t start_ns;    /* of the program that runs in it */
    uint64_t listed_ns;   /* what was mapped before is known */
    uint64_t begin_ns;    /* samples from before cannot be attributed with certainty */
    uint32_t origin;      /* whose events its threads have: that process's, or what it inherited */
    bool awaits_exec;     /* its events sleep until then: nothing is known of it */
    bool has_called_exec; /* and what runs now is not known yet */
    bool has_arena;
    struct outside_arena arena;
    VEC(struct walk_module) walked;     /* sorted by address, and */
    VEC(struct outside_module) modules; /* what else is known of each */
    VEC(struct outside_range) made;     /* code without a file, newest last */
    uint32_t kernel_id;                 /* of the module of kernel code in the arena */
    uint32_t generation;
    struct walk_cache cache;
    VEC(struct outside_thread *) threads; /* that have not ended */
};

struct outside_process *outside_process_new(uint32_t pid, uint32_t parent_pid, uint64_t start_ns);
void outside_process_free(struct outside_process *process);

/* What a new process has mapped is what its parent had. */
void outside_process_copy(struct outside_process *to, const struct outside_process *from);

/* Another program runs in it: nothing of what was mapped is there any more. */
void outside_process_forget(struct outside_process *process);

/* Whether there is code without a file at an address. */
bool outside_process_has_made(const struct outside_process *process, uint64_t address);

/* Something was mapped: replaces what was there. */
void outside_process_map(struct outside_process *process, struct outside_files *files,
                         const struct outside_mapping *mapping);

/* Reads what is mapped from text in the form of /proc/PID/maps. */
void outside_process_read(struct outside_process *process, struct outside_files *files, FILE *maps);

/* Reads what a process has mapped now from /proc. False: it is gone, or may not be looked at. */
bool outside_process_list(struct outside_process *process, struct outside_files *files);

/* Gives it an arena, with the modules that it has. False: there is none. */
bool outside_process_need_arena(struct outside_process *process, struct server *server,
                                uint64_t window_bytes);

struct outside_thread *outside_thread_find(const struct outside_process *process, uint32_t tid);
struct outside_thread *outside_thread_add(struct outside_process *process, uint32_t tid,
                                          const char *name, uint64_t start_ns);
void outside_thread_end(struct outside_process *process, uint32_t tid, uint64_t end_ns);

struct walk_modules outside_process_modules(const struct outside_process *process);

#endif
