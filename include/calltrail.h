/*
 * calltrail.h: what a program can say to calltrail about itself.
 *
 *     ct_phase("loading");      everything from here on, in all threads, is of this phase
 *     ct_phase(NULL);           of no phase
 *     ct_pause(); ct_resume();  nothing is measured in between
 *
 * `calltrail report --view phases` and `--phase NAME` show what each phase cost. Where the program
 * is not recorded, the calls do nothing: each is a test of a pointer. There is no library to link
 * with; the functions are looked up in the recorded process the first time.
 *
 * Phases are of the whole process. A name is at most 200 bytes long, and is copied. All may be
 * called from any thread, but not from signal handlers.
 *
 * Under `calltrail record --engine encode` a program can also ask for its calling context, at any
 * moment and as often as it likes:
 *
 *     struct ct_snapshot here;
 *     ct_here(&here);           the context of this place, in nanoseconds
 *     ct_key(&here)             64 bits: the same calls have the same key
 *     ct_print(&here, text, sizeof text)   for logs; `calltrail decode` makes calls of it
 *     ct_decode(&here, frames, count)      the calls, now
 *
 * These may be called from any thread and from signal handlers; they take no lock and no memory
 * from malloc. Where the program is not recorded so, ct_here and all others return 0 at once.
 */
#ifndef CALLTRAIL_H
#define CALLTRAIL_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The function of that name in the recorded process; NULL outside. The null handle is RTLD_DEFAULT,
 * which needs _GNU_SOURCE. */
static inline void *ct_find(const char *name, void **function, int *looked_up)
{
    if (!__atomic_load_n(looked_up, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(function, dlsym((void *)0, name), __ATOMIC_RELAXED);
        __atomic_store_n(looked_up, 1, __ATOMIC_RELEASE);
    }
    return __atomic_load_n(function, __ATOMIC_RELAXED);
}

/* The rest of the run, up to the next call, belongs to the phase of this name. */
static inline void ct_phase(const char *name)
{
    static void *function;
    static int looked_up;
    void *found = ct_find("calltrail_phase", &function, &looked_up);
    if (found)
        (*(void (**)(const char *)) & found)(name);
}

/*
 * From here on nothing is measured, in all threads, until ct_resume. They do not nest. A child that
 * is forked in between is paused, too, until it calls ct_resume itself.
 */
static inline void ct_pause(void)
{
    static void *function;
    static int looked_up;
    void *found = ct_find("calltrail_pause", &function, &looked_up);
    if (found)
        (*(void (**)(void)) & found)();
}

static inline void ct_resume(void)
{
    static void *function;
    static int looked_up;
    void *found = ct_find("calltrail_resume", &function, &looked_up);
    if (found)
        (*(void (**)(void)) & found)();
}

/* --- contexts --------------------------------------------------------------------------------- */

/* A context, to be copied and kept as one likes. It is of the process that took it. */
struct ct_snapshot {
    uint64_t run;   /* the process; 0: nothing is known */
    uint64_t stamp; /* the thread, and how its contexts were numbered then */
    uint64_t word;  /* the calls that led to the function */
    uint64_t pc;    /* where in that function */
    uint64_t task;  /* where the thread's work came from; 0: it is its own */
};

/* What ct_decode says of a call. */
struct ct_frame {
    const char *module;   /* path; NULL: not known */
    const char *function; /* as the linker knows it; NULL: it has no name, `calltrail decode` may
                             find one */
    uint64_t offset;      /* in the module */
    uint32_t flags;       /* enum ct_frame_flags */
    uint32_t reserved;
};

enum ct_frame_flags {
    CT_FRAME_CALL = 1,   /* a return address: the call is what ends just before it */
    CT_FRAME_TAIL = 2,   /* a jump that was its function's last call */
    CT_FRAME_SIGNAL = 4, /* a signal interrupted it here */
    CT_FRAME_TASK = 8,   /* work was handed over: from here on outwards another thread's calls */
    CT_FRAME_GAP = 16    /* the calls further out are not known */
};

/* What ct_decode returns instead of a number of calls. */
enum ct_status {
    CT_EMPTY = -1,         /* the snapshot was not taken: nothing was known */
    CT_OTHER_RUN = -2,     /* it is of another process */
    CT_NO_DICTIONARY = -3, /* what is needed to decode it is not there */
    CT_DAMAGED = -4,       /* it is no context */
    CT_BUSY = -5           /* not now: a handler has interrupted the engine in this thread */
};

/* Room for the text of a snapshot. */
enum { CT_TEXT_BYTES = 128 };

/* The functions of the recorded process, looked up before main. */
struct ct_functions {
    int (*here)(struct ct_snapshot *to, const void *frame, long *place);
    int (*at)(struct ct_snapshot *to, const void *context);
    uint64_t (*key)(const struct ct_snapshot *snapshot);
    int (*decode)(const struct ct_snapshot *snapshot, struct ct_frame *frames, size_t room);
    int (*print)(const struct ct_snapshot *snapshot, char *text, size_t room);
    int (*task_begin)(const struct ct_snapshot *from);
    void (*task_end)(void);
};

/* One for all that is linked together. */
__attribute__((weak, visibility("hidden"))) const struct ct_functions *ct_functions_found;

static __attribute__((constructor, unused)) void ct_find_functions(void)
{
    void *found = ct_functions_found ? NULL : dlsym((void *)0, "calltrail_api");
    if (found)
        ct_functions_found = (*(const struct ct_functions *(**)(unsigned)) & found)(1);
}

#if defined __x86_64__ && defined __LP64__

/* The fields of the thread's reader, which the recorded process keeps at fs + place. */
#define CT_READ(place, field, to)                                                                  \
    __asm__ volatile("movq %%fs:" #field "(%1), %0" : "=r"(to) : "r"(place) : "memory")

/*
 * The fast way: the mirror of the thread's stack has the word of this function's frame, if it is
 * for the return address that is there now. The numbers cannot change in between but by a call.
 */
static inline __attribute__((always_inline)) int ct_here_fast(struct ct_snapshot *to, long place,
                                                              const char *frame)
{
    enum { CT_MIRROR_MASK = (4 << 20) - 8, CT_MIRROR_WORDS = (4 << 20) + 1024 + 64 };
    const char *mirror;
    uint64_t stamp, again, word, slot = (uint64_t)(uintptr_t)frame + 8;
    CT_READ(place, 0, mirror);
    CT_READ(place, 16, stamp);
    mirror += slot & CT_MIRROR_MASK;
    if (*(const volatile uint64_t *)mirror != slot + *(const volatile uint64_t *)(uintptr_t)slot)
        return 0;
    word = *(const volatile uint64_t *)(mirror + CT_MIRROR_WORDS);
    CT_READ(place, 16, again);
    if (!word || again != stamp)
        return 0;
    to->stamp = stamp;
    to->word = word;
    CT_READ(place, 8, to->run);
    CT_READ(place, 24, to->task);
    __asm__("leaq 0(%%rip), %0" : "=r"(to->pc));
    return 1;
}

/*
 * The calling context of this place: 1, or 0 where none is known. Each place notes for itself
 * whether the fast way is open to it: that needs a frame pointer which lies below the return
 * address.
 */
static inline __attribute__((always_inline)) int ct_here(struct ct_snapshot *to)
{
    const char *frame = (const char *)__builtin_frame_address(0);
    long *place;
    __asm__("leaq 77f(%%rip), %0\n\t"
            ".pushsection .data.calltrail, \"aw\", @progbits\n\t"
            ".balign 8\n"
            "77:\t.quad 0\n\t"
            ".popsection"
            : "=r"(place));
    if (__builtin_expect(*place != 0, 1) && __builtin_expect(ct_here_fast(to, *place, frame), 1))
        return 1;
    if (ct_functions_found)
        return ct_functions_found->here(to, frame, place);
    to->run = 0;
    return 0;
}

#else

static inline int ct_here(struct ct_snapshot *to)
{
    to->run = 0;
    return 0;
}

#endif

/* The same of what a signal has interrupted: the third argument of a handler with SA_SIGINFO. */
static inline int ct_at(struct ct_snapshot *to, const void *context)
{
    to->run = 0;
    return ct_functions_found ? ct_functions_found->at(to, context) : 0;
}

/*
 * The same calls have the same key: in each thread, whenever it was taken, and in other runs of the
 * same files. The place in the last function does not count. 0: not known. Keys of contexts that a
 * thread asks for again take a few nanoseconds; those of other threads' snapshots, and of ones that
 * are older than the thread's numbers, up to milliseconds.
 */
static inline uint64_t ct_key(const struct ct_snapshot *snapshot)
{
    return ct_functions_found ? ct_functions_found->key(snapshot) : 0;
}

/* The place and the calls that led to it, innermost first: how many there are, of which the first
 * ones are put into `frames`; or an enum ct_status. */
static inline int ct_decode(const struct ct_snapshot *snapshot, struct ct_frame *frames,
                            size_t room)
{
    return ct_functions_found ? ct_functions_found->decode(snapshot, frames, room) : CT_EMPTY;
}

/* A text of less than CT_TEXT_BYTES, which `calltrail decode PROFILE` reads: its length, or 0 and
 * an empty text. */
static inline int ct_print(const struct ct_snapshot *snapshot, char *text, size_t room)
{
    if (room)
        *text = 0;
    return ct_functions_found ? ct_functions_found->print(snapshot, text, room) : 0;
}

/*
 * What the calling thread does until ct_task_end is done for whoever took the snapshot: its
 * contexts begin with that one. Tasks can be nested. Threads that pthread_create makes begin as
 * tasks of the call that made them.
 */
static inline int ct_task_begin(const struct ct_snapshot *from)
{
    return ct_functions_found ? ct_functions_found->task_begin(from) : 0;
}

static inline void ct_task_end(void)
{
    if (ct_functions_found)
        ct_functions_found->task_end();
}

#ifdef __cplusplus
}
#endif

#endif
