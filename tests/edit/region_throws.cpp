/*
 * Exceptions and cancellation that begin at every instruction of a stub: thrown by the handler of a
 * signal that comes there (the trap of a single step), and as pthread_cancel does it to a thread
 * that can be cancelled at any time. Destructors run, and the exception is caught where it should
 * be: in the function that the stub is for, or in its caller.
 */
#include "region_maker.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <signal.h>
#include <stdexcept>
#include <ucontext.h>

#define NOINLINE __attribute__((noinline))

/* Sites are calls through these: the compiler knows them as calls, with what is to be done when one
 * throws. */
typedef void function();
static function *volatile slot_call, *volatile slot_jump;

extern "C" {
extern const uint8_t stub_call[], stub_call_end[], stub_jump[], stub_jump_end[];
extern const uint8_t call_to[], jump_to[], jump_return[];
void callee();
}

/* The second stands for a stub that was jumped to: it has dropped what the call has pushed. */
__asm__(".text\n"
        "stub_call: push %rax\n push %rcx\n xor %eax, %eax\n pop %rcx\n pop %rax\n"
        " jmp *call_to(%rip)\n"
        "call_to: .quad 0\n"
        "stub_call_end:\n"
        "stub_jump: lea 8(%rsp), %rsp\n nop\n call *jump_to(%rip)\n nop\n"
        " jmp *jump_return(%rip)\n"
        "jump_to: .quad 0\n"
        "jump_return: .quad 0\n"
        "stub_jump_end:\n"
        ".globl stub_call, stub_call_end, stub_jump, stub_jump_end, call_to, jump_to, jump_return\n"
        ".globl callee\n"
        ".type callee, @function\n"
        "callee: .cfi_startproc\n ret\n .cfi_endproc\n"
        ".size callee, . - callee\n");

static stub_row row(uint16_t at, int16_t pc, uint8_t words, uint8_t rax, uint8_t rcx)
{
    stub_row r = {};
    r.at = at;
    r.pc = pc;
    r.words = words;
    r.rax = rax;
    r.rcx = rcx;
    r.flags = pc > 0 ? ROW_RETURNS : 0;
    return r;
}

static const stub_row call_rows[] = {row(0, 0, 1, 0, 0), row(1, 0, 2, 2, 0),
                                     row(2, 0, 3, 2, 3), row(5, 0, 2, 2, 0),
                                     row(6, 0, 1, 0, 0), row(UINT16_MAX, 0, 0, 0, 0)};
static const stub_row jump_rows[] = {row(0, 0, 1, 0, 0), row(5, 0, 0, 0, 0), row(12, 1, 0, 0, 0),
                                     row(UINT16_MAX, 0, 0, 0, 0)};

/* The compiler loads the slot into a register: call *%rax. */
enum { CALL_BYTES = 2 };

static uint8_t *made_call, *made_jump;
static hand_stub stubs[] = {{stub_call, stub_call_end, nullptr, &made_call, call_rows, nullptr},
                            {stub_jump, stub_jump_end, nullptr, &made_jump, jump_rows, nullptr}};

static void set_word(const hand_stub &s, const uint8_t *word, const void *value)
{
    memcpy(s.made + (word - s.code), &value, sizeof value);
}

static void set_words()
{
    set_word(stubs[0], call_to, (void *)callee);
    set_word(stubs[1], jump_to, (void *)callee);
    set_word(stubs[1], jump_return, stubs[1].site + CALL_BYTES);
}

/* --- the program ------------------------------------------------------------------------------ */

static __thread char seen[32];
static __thread unsigned seen_count;

static void say(char c)
{
    seen[seen_count++ % (sizeof seen - 1)] = c;
}

struct Noisy {
    char c;
    NOINLINE ~Noisy()
    {
        say(c);
    }
};

enum action { THROW, CANCEL };
static enum action action;
static __thread long step, wanted; /* counts the steps in stubs */

#define FLAGS(change) __asm__ volatile("pushfq\n " change ", (%%rsp)\n popfq" : : : "memory", "cc")

NOINLINE static void calls()
{
    Noisy inner{'i'};
    FLAGS("orq $0x100");
    slot_call();
    FLAGS("andq $~0x100");
}

/* The exception ends in the function that the stub belongs to. */
NOINLINE static void jumps()
{
    Noisy outer{'o'};
    try {
        Noisy inner{'j'};
        FLAGS("orq $0x100");
        slot_jump();
        FLAGS("andq $~0x100");
    } catch (std::runtime_error &) {
        say('C');
    }
}

NOINLINE static void run_both(bool does_jump)
{
    try {
        Noisy around{'a'};
        if (does_jump)
            jumps();
        else
            calls();
    } catch (std::runtime_error &) {
        say('c');
    }
}

/* In place of a stub: says where its site is. */
static unsigned found;
NOINLINE static void probe()
{
    stubs[found++].site = (const uint8_t *)__builtin_return_address(0) - CALL_BYTES;
}

static void on_trap(int, siginfo_t *, void *context)
{
    const uint8_t *pc = (const uint8_t *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    if (pc < region_code || pc >= region_code_end || ++step != wanted)
        return;
    if (action == THROW)
        throw std::runtime_error("from a handler");
    int before;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
    pthread_cancel(pthread_self());
}

struct run {
    bool does_jump;
    long at;
    char seen[32];
    long steps;
};

/* Also when the thread is cancelled. */
struct Report {
    run *r;
    ~Report()
    {
        memcpy(r->seen, ::seen, sizeof r->seen);
        r->steps = step;
    }
};

static void *thread(void *argument)
{
    run *r = (run *)argument;
    Report report{r};
    wanted = r->at;
    run_both(r->does_jump);
    return nullptr;
}

static run run_once(bool does_jump, long at)
{
    run r = {};
    r.does_jump = does_jump;
    r.at = at;
    pthread_t id;
    pthread_create(&id, nullptr, thread, &r);
    pthread_join(id, nullptr);
    return r;
}

/* With an argument there is no cancellation: that is libgcc's, and cannot be had with another
 * unwinder for exceptions. */
int main(int argc, char **)
{
    const int last = argc > 1 ? THROW : CANCEL;
    struct sigaction how;
    memset(&how, 0, sizeof how);
    how.sa_sigaction = on_trap;
    how.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGTRAP, &how, nullptr);
    slot_call = slot_jump = probe;
    run_once(false, 0);
    run_once(true, 0);
    for (const hand_stub &s : stubs)
        if (s.site[0] != 0xff || s.site[1] != 0xd0) {
            printf("a site is not call *%%rax\n");
            return 2;
        }
    make_region(stubs, 2, set_words);
    slot_call = (function *)made_call;
    slot_jump = (function *)made_jump;
    /* Without an exception; thrown in calls and in jumps; cancelled. */
    static const char *const expected[2][3] = {{"ia", "iac", "ia"}, {"joa", "jCoa", "joa"}};
    long bad = 0, total = 0;
    for (int does_jump = 0; does_jump < 2; does_jump++) {
        run plain = run_once(does_jump, 0);
        bad += strcmp(plain.seen, expected[does_jump][0]) != 0 || plain.steps < 4;
        for (int what = THROW; what <= last; what++)
            for (long at = 1; at <= plain.steps; at++, total++) {
                action = (enum action)what;
                run r = run_once(does_jump, at);
                if (strcmp(r.seen, expected[does_jump][1 + what]) == 0)
                    continue;
                printf("%s, %s at step %ld: '%s' instead of '%s'\n", does_jump ? "jumps" : "calls",
                       what == THROW ? "thrown" : "cancelled", at, r.seen,
                       expected[does_jump][1 + what]);
                bad++;
            }
    }
    printf("%ld runs, %ld wrong\n", total, bad);
    return bad || !total;
}
