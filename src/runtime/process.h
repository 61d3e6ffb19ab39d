/*
 * What the runtime knows of the process that it is a guest in, and the parts that work on it.
 *
 * `guest` lies in a page that is wiped in the child of a fork, however the fork was made: a child
 * finds nothing there, and leaves its parent's arena alone until it has one of its own.
 */
#ifndef RUNTIME_PROCESS_H
#define RUNTIME_PROCESS_H

#include "runtime/arena_format.h"
#include "unwind/walk.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

struct engine;
struct heap_block;
struct heap_map;
struct thread;

/* Memory with a point in it; see heap.c. */
struct heap_state {
    uint32_t lock;
    struct heap_block *blocks;
    uint64_t room, count;
    struct heap_map *maps; /* see heap_maps.c */
    uint64_t map_room, map_count;
};

struct guest {
    struct arena_header *arena;         /* NULL: not recording */
    uint64_t arena_mapped;              /* bytes of it */
    uint32_t number;                    /* another one in the child of a fork; 0: not recording */
    uint32_t flags;                     /* enum channel_flags */
    const struct engine *engine;        /* NULL: not recording */
    uint64_t settings[ENGINE_SETTINGS]; /* its options, as in the arena */
    uint32_t next_module_id;
    _Atomic(const struct walk_modules *) modules;
    _Atomic uint32_t thread_list_lock;
    struct thread *threads;
    struct heap_state heap;
    /* Room in the arena was waited for once, and none came: it is not waited for again. */
    bool no_room_for_calls, no_room_for_threads;
    /* Here, since the thread that holds one may be one that a child has not got: of channel.c, and
     * of who puts code back or changes it again (detach.c, pause.c). */
    _Atomic uint32_t message_lock, arena_lock, code_lock;
};

/* Writes the process's CPU time into the arena (start.c). */
void say_cpu_time(void);

/* In a child that was forked, after guest's page was wiped (start.c). */
void begin_in_child(void);

extern struct guest *guest; /* never NULL once the runtime has started */

/* --- the arena (arena.c) ------------------------------------------------------------------- */

/* Zeroed memory from the arena; NULL when there is none. Safe in a signal handler. */
void *arena_take(size_t bytes);
uint32_t arena_place(const void *memory);
void *arena_at(uint32_t place);
void arena_count_loss(enum arena_loss why);

/* --- the channel (channel.c) --------------------------------------------------------------- */

/* Remembers where the supervisor is, from the value of the environment variable. */
bool channel_set_address(const char *value);

/* Says hello and maps the arena. False: not to be recorded, or nobody is there. */
bool channel_attach(void);

/* Maps so many bytes of the arena. False: not now, or never. */
bool channel_map_more(uint64_t least);

/* The map of a file that is open here: its bytes, mapped read-only, or NULL. */
const void *channel_ask_map(int file, const char *path, size_t *bytes);

/* The same for its edit plan. */
const void *channel_ask_plan(int file, const char *path, size_t *bytes);

/*
 * Can the runtime be in the program of a file? CHANNEL_RUN: if not, the supervisor expects this
 * process to run it, until it hears that it did not. CHANNEL_SPAWN: a child will. `in_own_memory`:
 * not in a child of vfork, which may write to its stack only. Nobody is there, or answers: no.
 */
bool channel_may_host(uint32_t kind, int file, bool in_own_memory);
void channel_say_not_run(void);
void channel_say_spawned(int pid); /* such a program runs, in a child */

/* --- modules (modules.c) ------------------------------------------------------------------- */

/* Makes the set of modules new from what the dynamic linker has loaded. */
void modules_refresh(void);

/* Has the dynamic linker call modules_refresh whenever it has loaded or unloaded something. */
void modules_watch(void);

/* The linker's code is its own again; what is loaded from now on is not known. */
void modules_unwatch(void);

/* The dynamic linker's own list, once it is watched, and whether that is being changed. */
struct r_debug;
extern const struct r_debug *modules_linker;

/* Another number for another set of modules. */
extern _Atomic uint32_t modules_generation;

/* What a module is to us. Return addresses are only replaced in the program's functions. */
enum module_role { ROLE_PROGRAM, ROLE_OURS, ROLE_LINKER, ROLE_UNWINDER };
enum module_role modules_role(const struct walk_modules *set, uint32_t index);

/* The arena's id of a module of the current set. */
uint32_t modules_id(const struct walk_modules *set, uint32_t index);

/* The start of the function that holds an address, cold parts counting as their function's; the
 * address itself where nothing is known. */
uint64_t modules_function(const struct walk_modules *set, uint64_t address);

/* The index of the module that holds an address, or UINT32_MAX. */
uint32_t modules_find(const struct walk_modules *set, uint64_t address);

/* --- what the program says of itself (phases.c) ---------------------------------------------- */

void phases_begin(void); /* in a new arena: the parent of a forked child may have paused */

/* --- threads (threads.c) ------------------------------------------------------------------- */

void threads_prepare(void);        /* once, before the others */
void threads_forget(void);         /* in a child that was forked */
struct thread *thread_begin(void); /* the calling thread is known and sampled from now on */
void thread_end(void);
void thread_note_stack(uint64_t address); /* the first return address of the calling thread */
void threads_wait_for_handlers(void);     /* no handler that began before this is still running */
uint64_t thread_stack_top(uint32_t tid);  /* its first return address; 0: not known at this time */

/* --- signal masks and actions (masks.c) ----------------------------------------------------- */

int masks_real_sigaction(int number, const struct sigaction *action, struct sigaction *old);

/* rt_sigprocmask as the program means it; a negative errno on failure. */
long masks_change(int how, const uint64_t *set, uint64_t *old);

/* The thread's alternate stack goes with it. */
void masks_thread_ends(void);

/* In a child that was forked: those of all other threads have gone. */
void masks_forget(void);

/* --- waits with another mask (waits.c) -------------------------------------------------------- */

void waits_prepare(void);

/* --- system calls by number (syscalls.c) ---------------------------------------------------- */

void syscalls_prepare(void);

/* Has the program installed a filter for system calls? Then we make no more than we must. */
bool is_confined(void);

/* --- programs that are started (exec.c) ----------------------------------------------------- */

void exec_prepare(void); /* finds the functions that ours stand in for; before all else */

/* The variables to put back, as they stood in the environment. */
void exec_put_back(const char *preload_variable, const char *channel_variable);
void exec_follow(bool wanted); /* are the programs that it starts recorded, too? */

/* --- what they are (programs.c) --------------------------------------------------------------- */

/*
 * Can the runtime be in a program? As channel_may_host. `file` without a slash is looked for in
 * PATH if `searches`.
 */
bool program_may_host(uint32_t kind, const char *file, bool searches);
bool program_may_host_fd(uint32_t kind, int fd);

/* --- ticks (tick.c) -------------------------------------------------------------------------- */

enum { SAMPLE_SIGNAL = SIGSTKFLT };

void tick_install(void);

/* Ticks for which there is no time or no room now; and how many the next sample stands for, too. */
void tick_owe(struct thread *thread, enum arena_loss why, uint64_t ticks);
uint64_t tick_settle(struct thread *thread);

/* --- what makes samples (event.c) ----------------------------------------------------------- */

/* The calling thread's event begins. False, and counted, where none can be had. */
bool event_start(struct thread *thread);
void event_stop(struct thread *thread);

/* The first tick has come, after a random part of a period: does it count? */
bool event_first_tick(struct thread *thread);

/* One more tick, after so long. */
void event_once_more(struct thread *thread, uint64_t ns);

/* Now and then changes the event's period, so that the rate is that of samples per user time. */
void event_keep_rate(struct thread *thread);

/* From one tick to the next, by the CPU time of the thread. */
uint64_t event_period_ns(const struct thread *thread);

/* How many periods of user time the signal of a timer stands for. */
uint64_t event_timer_ticks(struct thread *thread, const siginfo_t *info);

/* Notes how often the event has fired, as far as that is known. */
void event_count_fired(const struct thread *thread);

#endif
