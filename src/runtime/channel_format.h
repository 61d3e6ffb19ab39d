/*
 * What the runtime and the supervisor say to each other.
 *
 * The supervisor listens on an abstract Unix socket with a random name, and on one in its folder;
 * the name, a secret and the folder are in the environment of the processes that it starts. A
 * process connects when it has something to ask, and closes at once: it keeps no descriptor that
 * the program could see, close, or inherit. The abstract name is found from a chroot, the folder
 * from another network namespace. Each message is this structure, with a descriptor or, where maps
 * are asked for, several.
 */
#ifndef CHANNEL_FORMAT_H
#define CHANNEL_FORMAT_H

#include <stdint.h>

/* In the environment: the socket's name, the secret, both 32 hexadecimal digits, the folder, and
 * how many filters for system calls the supervisor has, with commas between them. */
#define CHANNEL_VARIABLE "CALLTRAIL_CHANNEL"

#define CHANNEL_SOCKET   "socket" /* its name in the folder */

/* How many files may come with one message: the program may have few descriptors left. */
enum { CHANNEL_MOST_FILES = 8 };

enum { CHANNEL_NAME_BYTES = 32, CHANNEL_TEXT_BYTES = 4096 };

/* How long an answer may take: what has to be made of a large module takes long. When the
 * supervisor has ended, its end is seen at once. */
enum { CHANNEL_TIMEOUT_MS = 20000, CHANNEL_MAKING_TIMEOUT_MS = 600000 };

enum channel_kind {
    CHANNEL_HELLO = 1, /* a process asks for its arena */
    CHANNEL_WELCOME,   /* settings; the descriptor is the arena */
    CHANNEL_MAP,       /* asks for the map of the file whose descriptor comes along */
    CHANNEL_MAP_IS,    /* the map's descriptor */
    CHANNEL_PLAN,      /* asks for the edit plan of the file whose descriptor comes along */
    CHANNEL_PLAN_IS,   /* the plan's descriptor */
    CHANNEL_REFUSED,   /* not to be recorded, or there is no map */
    CHANNEL_MAPS,      /* asks for the maps of several files; refused when one has to be made */
    CHANNEL_MAPS_ARE,  /* their descriptors; text has a byte for each file: has it a map? */
    CHANNEL_VDSO,      /* asks for the map of the vdso, of which there is no file */
    /* Of the program that the process is about to run: */
    CHANNEL_RUN,         /* the file's descriptor comes along. The answer is */
    CHANNEL_RUN_WITH,    /* with the runtime in it, */
    CHANNEL_RUN_WITHOUT, /* or that it could not live there: it is expected, to be recorded from
                            outside */
    CHANNEL_NOT_RUN,     /* it did not come to be after all; the answer is CHANNEL_NOT_RUN, too */
};

enum channel_flags {
    CHANNEL_FOLLOW = 1,
    CHANNEL_VERIFY = 2,
    CHANNEL_DETACHES = 4, /* measuring ends before the program does: its code must be put back */
    CHANNEL_APART = 8     /* each thread has its record to itself, however many there are */
};

/* The beginning of a message, and all of one about a program: it may lie on a small stack. */
struct channel_note {
    uint32_t kind;
    uint32_t text_bytes;
    char secret[CHANNEL_NAME_BYTES];
    uint64_t pid;
};

struct channel_message {
    uint32_t kind;
    uint32_t text_bytes;
    char secret[CHANNEL_NAME_BYTES];
    uint64_t pid, parent_pid;
    uint64_t arena_bytes; /* of the mapping to make; more than is allocated yet */
    uint64_t period_ns;
    uint64_t module_bytes;         /* of the vdso that is asked for */
    uint32_t flags;                /* enum channel_flags */
    uint32_t engine;               /* enum engine_number */
    char text[CHANNEL_TEXT_BYTES]; /* a path */
};

#endif
