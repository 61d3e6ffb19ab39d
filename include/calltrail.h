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
 */
#ifndef CALLTRAIL_H
#define CALLTRAIL_H

#include <dlfcn.h>
#include <stddef.h>

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

#ifdef __cplusplus
}
#endif

#endif
