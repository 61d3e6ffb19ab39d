#include "runtime/faults.h"

#include "runtime/engine.h"
#include "runtime/thread.h"

#include "arch/x86_64/sample_layout.h"

#include <signal.h>
#include <ucontext.h>

static_assert(FAULT_SIGNALS == ((1u << SIGILL) | (1u << SIGTRAP) | (1u << SIGBUS) | (1u << SIGFPE) |
                                (1u << SIGSEGV)),
              "the assembly has these numbers");

/* The registers that stubs have something else in. */
static const struct {
    uint8_t place, here;
} changed[] = {{X86_RIP, REG_RIP},
               {X86_RSP, REG_RSP},
               {X86_RAX, REG_RAX},
               {X86_RCX, REG_RCX},
               {X86_RDX, REG_RDX}};

enum { CHANGED = sizeof changed / sizeof changed[0] };

bool faults_are_watched(int number)
{
    return number > 0 && number < 32 && ((unsigned)FAULT_SIGNALS >> (unsigned)number & 1u) &&
           engine()->leave_code;
}

/* Changes the context to that of the program's place. False: it is in no code of the engine's. */
static bool leave(ucontext_t *context, struct walk_registers *place)
{
    struct thread *t = thread_self();
    uint64_t below = 0;
    if (!t || t->of != guest || !engine()->leave_code)
        return false;
    greg_t *registers = context->uc_mcontext.gregs;
    for (unsigned i = 0; i < CHANGED; i++)
        place->value[changed[i].place] = (uint64_t)registers[changed[i].here];
    uint32_t was_busy = t->busy;
    t->busy = 1; /* the modules must not change now */
    bool is_known = engine()->leave_code(place, &below);
    t->busy = was_busy;
    if (!is_known || place->value[X86_RIP] == (uint64_t)registers[REG_RIP])
        return false;
    for (unsigned i = 0; i < CHANGED; i++)
        registers[changed[i].here] = (greg_t)place->value[changed[i].place];
    return true;
}

/* The handler may have chosen a place in code that has moved. */
static void enter(ucontext_t *context)
{
    greg_t *registers = context->uc_mcontext.gregs;
    struct walk_registers place = {
        .value = {
            [X86_RIP] = (uint64_t)registers[REG_RIP], [X86_RSP] = (uint64_t)registers[REG_RSP]}};
    struct thread *t = thread_self();
    if (!t || t->of != guest || !(engine()->enter_code || engine()->enter_context))
        return;
    uint32_t was_busy = t->busy;
    t->busy = 1;
    if (engine()->enter_context) {
        engine()->enter_context(context);
        t->busy = was_busy;
        return;
    }
    engine()->enter_code(&place);
    t->busy = was_busy;
    registers[REG_RIP] = (greg_t)place.value[X86_RIP];
    registers[REG_RSP] = (greg_t)place.value[X86_RSP];
}

static void go_back(ucontext_t *context, const struct walk_registers *place, const greg_t *before)
{
    greg_t *registers = context->uc_mcontext.gregs;
    if ((uint64_t)registers[REG_RIP] != place->value[X86_RIP] ||
        (uint64_t)registers[REG_RSP] != place->value[X86_RSP]) {
        enter(context);
        return;
    }
    for (unsigned i = 0; i < CHANGED; i++)
        if ((uint64_t)registers[changed[i].here] == place->value[changed[i].place])
            registers[changed[i].here] = before[i];
}

typedef void fault_handler(int, siginfo_t *, void *);

/* Runs the program's handler; handler_entry.S comes here in its place. */
void fault_run(int number, siginfo_t *info, ucontext_t *context, fault_handler *handler)
    __attribute__((visibility("hidden")));

void fault_run(int number, siginfo_t *info, ucontext_t *context, fault_handler *handler)
{
    struct walk_registers place = {{0}};
    greg_t before[CHANGED];
    for (unsigned i = 0; i < CHANGED; i++)
        before[i] = context->uc_mcontext.gregs[changed[i].here];
    bool is_left =
        info->si_code > 0 && leave(context, &place); /* the kernel's, not sent by a process */
    handler(number, info, context);
    if (is_left)
        go_back(context, &place, before);
}
