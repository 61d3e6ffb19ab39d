/* The socket to the supervisor: what is asked, and what comes back. */
#ifndef RUNTIME_CHANNEL_H
#define RUNTIME_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Remembers where the supervisor is, from the value of the environment variable. */
bool channel_set_address(const char *value);

/* How many filters for system calls the supervisor itself has, by the same value. */
unsigned channel_filters(const char *value);

/* Says hello and maps the arena. False: not to be recorded, or no supervisor answered. */
bool channel_attach(void);

/* The map of a file that is open here: its bytes, mapped read-only, or NULL. */
const void *channel_ask_map(int file, const char *path, size_t *bytes);

/* The map of the vdso, of which there is no file. */
const void *channel_ask_vdso(uint64_t vdso_bytes, size_t *bytes);

/* The maps of several files (CHANNEL_MOST_FILES) at once. False: to be asked for one by one. */
struct channel_file {
    int file;
    const void *map;
    size_t map_bytes;
};
struct channel_vdso { /* that one, too, if there is a descriptor left for it */
    uint64_t bytes;   /* 0: not wanted */
    const void *map;
    size_t map_bytes;
};
bool channel_ask_maps(struct channel_file *files, uint32_t count, struct channel_vdso *vdso);

/* The edit plan of a file. */
const void *channel_ask_plan(int file, const char *path, size_t *bytes);

/*
 * Can the runtime be in the program of a file? If not, the supervisor expects this process to run
 * it, until it hears that it did not. `in_own_memory`: not in a child of vfork, which may write to
 * its stack only. No supervisor answers: no.
 */
bool channel_may_host(int file, bool in_own_memory);
void channel_say_not_run(void);

#endif
