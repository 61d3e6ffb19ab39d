/*
 * What the supervisor does for the processes that it records: gives each an arena and the maps that
 * it asks for, and keeps the arenas growing ahead of use.
 */
#ifndef RECORD_SERVER_H
#define RECORD_SERVER_H

#include "base/error.h"
#include "base/vec.h"
#include "record/engine.h"
#include "record/folder.h"
#include "record/maps.h"
#include "runtime/arena_format.h"

#include <sys/stat.h>

/* What was in an arena at some time. */
struct arena_image {
    char *bytes; /* NULL: there is none */
    uint64_t size;
};

struct server_arena {
    char *path;
    uint32_t number;             /* in its path; they count up */
    struct arena_header *header; /* mapped as far as it may ever grow */
    uint64_t room;               /* how far that is */
    uint64_t pid, parent_pid;
    uint64_t process_start; /* as in the header */
    uint64_t allocated;
    bool is_full;                          /* there was no more room for it */
    double utime_s, stime_s;               /* as last seen from outside, */
    double utime_before_s, stime_before_s; /* of which this was before it was recorded */
    bool has_io;                           /* the kernel's counters of its bytes are known: */
    uint64_t io_read, io_written;          /* as last seen from outside */
    struct arena_image before, after;      /* at both ends of --duration, if the engine counts on */
    bool is_gone;                          /* the process has ended or runs another program, */
    uint64_t gone_ns;                      /* seen at this time of CLOCK_MONOTONIC; 0: not seen */
    bool is_in_snapshot, is_in_slice;      /* all of it: it had ended before that was made */
    bool is_folding;                       /* what it measured is kept elsewhere, or soon */
};

/* A child of a process that is recorded, of which nothing is known, or why it is not measured. */
struct server_stranger {
    uint32_t pid;
    uint32_t parent; /* index of the parent's arena, or of its own, of before an exec */
    bool is_exec;
    uint32_t count; /* how many: those that have ended may be one */
    char program[ARENA_PROGRAM_BYTES];
    const char *why; /* "is statically linked: …"; NULL: not known */
};

/* A process that has asked for a map or a plan that is being made. */
struct server_waiting {
    uint32_t kind; /* CHANNEL_MAP or CHANNEL_PLAN */
    int fd;        /* where the answer goes */
    int file;      /* what it is about, */
    dev_t device;  /* which others may have asked for, too */
    ino_t inode;
    pid_t maker;
    double since_s;
    bool is_said;
};

struct channel_message;

/* Who records programs that the runtime cannot be in, while others have it. */
struct server_outsiders {
    void (*expect)(void *context, uint32_t pid);   /* the process is about to run such a program */
    void (*unexpect)(void *context, uint32_t pid); /* it does not, or runs another */
    void *context;
};

/* Whether the runtime can be in a program, by its file. */
struct server_program {
    struct stat file;
    bool is_host;
    bool is_inside;   /* the runtime gets in, though it may be able to do little */
    char *path, *why; /* why it is no host; NULL: it is one */
};

struct server {
    struct folder folder; /* holds the arenas */
    int listeners[2];     /* an abstract socket, and one in the folder */
    char *address;        /* the value of the environment variable */
    uint64_t period_ns;
    uint32_t tick_cost_ns;              /* as in the arenas */
    const struct record_engine *engine; /* never NULL */
    const void *engine_options;         /* its own; NULL: no process is served */
    uint64_t settings[ENGINE_SETTINGS]; /* what of them is in the arenas */
    uint32_t flags;                     /* enum channel_flags */
    struct arena_events events;
    bool keeps_times; /* of samples */
    bool is_outside;  /* processes do not say hello: the supervisor makes their arenas, */
    bool is_attached; /* and they ran before */
    bool paused, has_begun, is_over;         /* before, in and after --duration */
    uint64_t window_start_ns, window_end_ns; /* measuring began and ended; 0: with the program */
    unsigned without_arena; /* processes that asked for one, and there was no room */
    int why_without;        /* errno's value */
    struct open_maps maps;
    VEC(struct server_arena) arenas; /* in the order in which processes came */
    uint32_t arenas_made;            /* and those that are not there any more */
    VEC(struct server_stranger) strangers;
    VEC(struct server_waiting) waiting;
    const struct server_outsiders *outsiders; /* NULL: they are not recorded */
    VEC(struct server_program) programs;      /* that were asked for */
};

int server_open(struct server *server, uint64_t period_ns, uint32_t flags, struct ct_error *err);

/* Ends it. The arenas go, unless they hold what is nowhere else. */
void server_close(struct server *server, bool keep_arenas);

/* Takes up the arenas that a killed supervisor has left; no process is served. */
int server_reopen(struct server *server, const char *folder, struct ct_error *err);

/* Where the runtime is found by another name, if it has to be; to be freed. It goes with the
 * folder. */
char *server_runtime_link(const struct server *server);

/* Answers what is waiting, and goes on. To be called when a listener is readable, and every few
 * milliseconds. */
void server_answer(struct server *server);

/* What still waits gets no answer. */
void server_stop_making(struct server *server);

/*
 * A descriptor of a new arena, to be closed; -1: there is none, and errno says why. `from_outside`:
 * the process has not asked for it, and has no runtime in it.
 */
int server_make_arena(struct server *server, const struct channel_message *hello, uint64_t pid,
                      bool from_outside);
uint64_t server_arena_most(const struct server *server);

/*
 * Is the second arena of the process that the first is of, which runs another program now? From
 * outside it is known when a process has ended, and one of the same number is another.
 */
bool server_is_same_process(const struct server_arena *arena, const struct server_arena *later);

/* The arena of the program that the process of an arena became, or NULL. */
const struct server_arena *server_successor(const struct server *server, size_t index);

/* Lets go of the arenas that are marked as folding; the others move up. */
void server_drop_folded(struct server *server);

/* Makes sure that an arena has so many bytes: for the supervisor itself, which cannot wait. */
bool server_arena_reserve(struct server *server, uint32_t number, uint64_t bytes);

/* The arena of that number, which must be there. */
struct server_arena *server_arena_numbered(const struct server *server, uint32_t number);

/* Allocates more of each arena that needs it. To be called every few milliseconds. */
void server_grow_arenas(struct server *server);

/*
 * Notes the CPU time of the processes that are there, those that are gone, whose unused memory is
 * given back, and children that have not said hello. To be called a few times a second.
 */
void server_look_around(struct server *server);

/* Reads the kernel's counters of a process that is there, if only as a zombie (-e io). */
void server_look_at_io(struct server *server, uint64_t pid);

/* The number of a process's parent; 0: not known. */
uint64_t server_parent_of(uint64_t pid);

/* Whether the process that an arena belongs to is alive and may still write to it. */
bool server_arena_in_use(const struct server *server, size_t index);

/* Stops or goes on sampling, in all processes, also in those that come later. */
void server_pause(struct server *server, bool paused);

#endif
