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

/* Memory for the environment of a program that a child of vfork starts (exec_environment.c). */
struct exec_room {
    uint32_t owner; /* the thread that is in it; the kernel clears this */
    void *memory;
    size_t bytes;
};

enum { EXEC_ROOMS = 4 };

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
    uint32_t threads_apart; /* that have ended; see threads_ended.c */
    struct heap_state heap;
    struct exec_room exec_rooms[EXEC_ROOMS];
    /* Room in the arena was waited for once, and none came: it is not waited for again. */
    bool no_room_for_calls, no_room_for_threads;
    /* Here, since the thread that holds one may be one that a child has not got: of channel.c, and
     * of who puts code back or changes it again (detach.c, pause.c). */
    _Atomic uint32_t message_lock, arena_lock, code_lock;
    _Atomic uint32_t action_lock, wish_lock; /* of masks.c, and of threads_other.c */
};

/* Writes the process's CPU time into the arena (start.c). */
void say_cpu_time(void);

/* Does this process run in the memory of another, as a child of vfork does (start.c)? */
bool has_borrowed_memory(void);

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

/* How many filters for system calls the supervisor itself has, by the same value. */
unsigned channel_filters(const char *value);

/* Says hello and maps the arena. False: not to be recorded, or nobody is there. */
bool channel_attach(void);

/* Maps so many bytes of the arena. False: not now, or never. Behind a filter for system calls that
 * cannot be done any more: so much is mapped before. */
enum { ARENA_WITH_FILTER_BYTES = 256 << 20 };
bool channel_map_more(uint64_t least);

/* Does an arena that is low lie in this range? And it moves to where the kernel has room. */
bool channel_has_low(uint64_t start, uint64_t end);
bool channel_move_arena(uint64_t *by);

/* Before a mapping at a place of the program's choice: false, with errno, if that cannot be
 * (give_way.c). */
bool arena_give_way(const void *place, size_t bytes, int flags);

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
 * its stack only. Nobody is there, or answers: no.
 */
bool channel_may_host(int file, bool in_own_memory);
void channel_say_not_run(void);

/* --- modules (modules.c) ------------------------------------------------------------------- */

/* Makes the set of modules new from what the dynamic linker has loaded. */
void modules_refresh(void);

/* Has the dynamic linker call modules_refresh whenever it has loaded or unloaded something. */
void modules_watch(void);

/* The linker's code is its own again; what is loaded from now on is not known. Who holds the code
 * calls this last: a thread that unloads a module must not get past. */
void modules_unwatch(void);

/* Holds the code of all modules as it is: none comes or goes meanwhile, and nobody else puts it
 * back. False: not now; the linker is at work, or somebody else. */
bool modules_hold(void);
void modules_let_go(void);

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

/* The program's handler for our signal (NULL: none), how far its frame has been moved, and what is
 * to be blocked while it runs. sample_entry.S knows where these are. */
struct forwarded {
    uint64_t distance;
    void *handler;
    uint64_t mask;
};
struct own_stack;
void masks_forward(uint64_t frame, const struct own_stack *own, const siginfo_t *info,
                   struct forwarded *to) __attribute__((visibility("hidden")));

/* Notes the action that our signal has without us. */
void masks_begin(void);

int masks_real_sigaction(int number, const struct sigaction *action, struct sigaction *old);

/* rt_sigprocmask as the program means it; a negative errno on failure. */
long masks_change(int how, const uint64_t *set, uint64_t *old);

/* In a thread that libc made, which may block all signals: ours comes nevertheless. */
void masks_thread_begins(void);

/* --- waits with another mask (waits.c) -------------------------------------------------------- */

void waits_prepare(void);

/* --- system calls by number (syscalls.c) ---------------------------------------------------- */

void syscalls_prepare(void);

/* Have time stamps been seen to be forbidden (PR_SET_TSC)? Then none is taken, nor is libc asked.
 */
extern bool time_stamps_are_forbidden;

/* The time stamp counter; 0 where the program has forbidden it. */
uint64_t time_stamp_or_0(void);

/* --- filters for system calls (confined.c) --------------------------------------------------- */

/* How many there are without any of the program's. */
void confined_expect(unsigned filters);

/* Are there more than we know of? And the same with what follows from it. */
bool confined_by_others(void);
bool confined_look(void);

/* Was a debugger there at the start? It sees every signal, and stops at it: there are no samples.
 */
bool is_debugged(void);

/* Has the program installed a filter for system calls? Then we make no more than we must. */
bool is_confined(void);

/* And does it forbid even that? There are no samples then. Stubs ask, which call no function. */
extern bool calls_are_forbidden;

static inline bool may_call_nothing(void)
{
    return calls_are_forbidden;
}

/* prctl or seccomp, by which the program installs one; a negative errno on failure. */
long confined_install(long number, long a, long b, long c, long d, long e);

/* --- libc behind all who stand in for it (libc_own.c) -------------------------------------- */

/* Where libc's own function of that name begins; NULL: not known. */
void *libc_own(const char *name);

/* --- programs that are started (exec.c) ----------------------------------------------------- */

void exec_prepare(void); /* finds the functions that ours stand in for; before all else */

/* The variables to put back, as they stood in the environment. */
void exec_put_back(const char *preload_variable, const char *channel_variable);
void exec_follow(bool wanted); /* are the programs that it starts recorded, too? */

/* --- ticks (tick.c) -------------------------------------------------------------------------- */

enum { SAMPLE_SIGNAL = SIGVTALRM };

/* A system call that the program's own use of the signal interrupts goes on, or not. */
void tick_install(bool restarts);

/* Ticks for which there is no time or no room now; and how many the next sample stands for, too. */
void tick_owe(struct thread *thread, enum arena_loss why, uint64_t ticks);
uint64_t tick_settle(struct thread *thread);

/* --- what makes samples (event.c) ----------------------------------------------------------- */

/* The calling thread's event begins. False, and counted, where none can be had. */
bool event_start(struct thread *thread);
void event_stop(struct thread *thread);

/* The same, and none of its signals is pending any more. */
void event_stop_and_drain(struct thread *thread);

/* Another thread's event ends; the thread may be looking at its records at this moment. */
void event_silence(struct thread *thread);

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
