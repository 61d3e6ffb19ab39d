/* Signal masks and actions, as the program means them and as they are. */
#ifndef RUNTIME_MASKS_H
#define RUNTIME_MASKS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

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

/* The handler of ticks (sample_entry.S). A system call that the program's own use of the signal
 * interrupts goes on, or not. */
void masks_install_handler(bool restarts);
void sample_entry(int number, siginfo_t *info, void *context) __attribute__((visibility("hidden")));

int masks_real_sigaction(int number, const struct sigaction *action, struct sigaction *old);

/* rt_sigprocmask as the program means it; a negative errno on failure. */
long masks_change(int how, const uint64_t *set, uint64_t *old);

/* In a thread that libc made, which may block all signals: ours comes nevertheless. */
void masks_thread_begins(void);

#endif
