/*
 * The calling context of a crash, without walking the stack: the thread's numbers say which calls
 * led to the function that failed, also where the stack is too deep to be walked.
 *
 *     cc -O2 -shared -fPIC -o context_crash.so context_crash.c $(pkg-config --cflags calltrail)
 *     LD_PRELOAD=./context_crash.so calltrail record --engine encode ./server 2>server.log
 *
 * The program dies of its signal as it would without this. The calls are printed at once, by the
 * names that the linker knows; `calltrail decode <server.log` has the others, and lines.
 */
#include <calltrail.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_CALLS = 64, STACK_BYTES = 64 << 10 };

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

/* stdio may be what has crashed. */
static void put(const char *text)
{
    if (write(2, text, strlen(text)) < 0)
        return;
}

static void put_hex(uint64_t number)
{
    char text[20] = "0x0", *to = text + 2;
    int digits = 1;
    while (digits < 16 && number >> (4 * digits))
        digits++;
    while (digits-- > 0)
        *to++ = "0123456789abcdef"[number >> (4 * digits) & 15];
    put(text);
}

static void put_calls(const struct ct_snapshot *s)
{
    static struct ct_frame frames[MOST_CALLS];
    int count = ct_decode(s, frames, MOST_CALLS);
    for (int i = 0; i < count && i < MOST_CALLS; i++) {
        const struct ct_frame *f = &frames[i];
        put("    ");
        put(f->function               ? f->function
            : f->module               ? f->module
            : f->flags & CT_FRAME_GAP ? "(callers are not known)"
                                      : "(code without a module)");
        if (!f->function && f->module) {
            put("+");
            put_hex(f->offset);
        }
        put("\n");
    }
}

static void on_crash(int number, siginfo_t *info, void *context)
{
    struct ct_snapshot s;
    char text[CT_TEXT_BYTES];
    (void)info;
    if (ct_at(&s, context)) {
        ct_print(&s, text, sizeof text);
        put("crashed in ");
        put(text);
        put("\n");
        put_calls(&s);
    }
    signal(number, SIG_DFL); /* when this returns, it happens again; an abort goes on */
}

static __attribute__((constructor)) void install(void)
{
    static char stack[STACK_BYTES]; /* of the first thread: its own may be what is full */
    const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaltstack(&alternate, NULL);
    for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, NULL);
}
