/*
 * An engine inside the target: what it does when something happens to the process that it measures.
 *
 * Each is one `const struct engine engine_NAME`, and a row of ENGINE_LIST (engine_format.h).
 * Nothing else in the runtime knows one by name. What an engine leaves NULL is not done; most leave
 * most.
 */
#ifndef RUNTIME_ENGINE_H
#define RUNTIME_ENGINE_H

#include "runtime/guest.h"
#include "unwind/walk.h"

#include <ucontext.h>

struct edit_request;
struct thread;

struct engine {
    bool wants_low_arena; /* addresses in it are to take four bytes */

    /* The process has an arena, and its modules are not looked at yet; it ends in an orderly way;
     * it is a child, made by fork, and all that is known is its parent's. */
    void (*process_begins)(void);
    void (*process_ends)(void);
    void (*forked)(void);

    /* The program wanted the place of an arena that was low, and has it. There is one thread, with
     * all signals blocked. */
    void (*arena_moved)(void);

    /* The program has a limit for its memory now, or another one. */
    void (*limited)(void);

    /* The thread may read no time stamps from now on. */
    void (*time_stamps_go)(void);

    /* A module has been loaded, and no thread runs it yet. */
    void (*module_loaded)(struct edit_request *module);

    /* The one that was there has been unloaded, and another one may come in its place. `since`:
     * bytes of the arena that were in use when it was loaded. */
    void (*module_unloaded)(uint64_t start, uint64_t end, uint64_t since);

    /* The calling thread is about to make one. */
    void (*thread_made)(struct thread *made);

    void (*thread_begins)(struct thread *thread);
    void (*thread_ends)(struct thread *thread);

    /* Does it need ticks where no event is sampled? And one has come: true, if only for that. */
    bool (*wants_ticks)(void);
    bool (*tick)(struct thread *thread);

    /* Takes a sample that stands for so many ticks. False: there is no room for it yet. */
    bool (*sample)(struct thread *thread, const ucontext_t *context, uint64_t ticks);

    /*
     * For walks: changes registers inside code of the engine's own to those of the program's place
     * that led there. Not left: not now, it is at work. At a tail jump all registers of the caller
     * are back, and what the tables say of places where they were saved, below the stack pointer,
     * holds no more: the engine has been there (restored_below, as in struct walk_memory).
     */
    enum walk_left (*leave_code)(struct walk_registers *registers, uint64_t *restored_below);

    /* The other way round, for handlers that go on at a place of the program's: that may be in
     * code of the engine's now. */
    void (*enter_code)(struct walk_registers *registers);
    void (*enter_context)(
        ucontext_t *context); /* the same, where that takes other registers, too */

    /* For --verify: does it know the stack as a walk found it? Frames are outermost first. */
    bool (*agrees)(const struct walk_modules *modules, const struct walk_frame *frames,
                   uint32_t count);

    /* The program pauses its measurement, and goes on (ct_pause, ct_resume). */
    void (*pauses)(void);
    void (*goes_on)(void);

    /*
     * A tick has come while nothing is measured, because the program paused, or before --delay, or
     * after --duration. What was changed in the program is put back, a step at each tick.
     */
    void (*rests)(struct thread *thread, uint64_t sp);
};

/* The engine of that number is at work in this process from now on; NULL: there is none. */
void engine_begin(uint32_t number);

/* In a child that was forked, before it has an arena: what its parent's engine knew is not so. */
void engine_forked(void);

bool engine_wants_low_arena(uint32_t number);

static inline const struct engine *engine(void)
{
    static const struct engine none;
    return guest->engine ? guest->engine : &none;
}

/* Calls one of the engine's functions, if it has that. */
#define ENGINE_CALL(what, ...)                                                                     \
    do {                                                                                           \
        if (engine()->what)                                                                        \
            engine()->what(__VA_ARGS__);                                                           \
    } while (0)

/* The same, for those that answer. */
#define ENGINE_ASK(otherwise, what, ...)                                                           \
    (engine()->what ? engine()->what(__VA_ARGS__) : (otherwise))

#endif
