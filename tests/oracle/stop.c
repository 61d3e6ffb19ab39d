/*
 * stop: walks the threads of a process that another one has stopped, with the walker that samples
 * use.
 *
 *   stop PID
 *
 * For each thread id on standard input it prints one line and lets go of the thread, which stays
 * stopped, so that others can look at the very same stop:
 *
 *   TID END RSP FRAME FRAME …       innermost first; END is complete, or why the walk ended
 *
 * A frame is PC,MODULE,FUNCTION. The line begins with "differ" instead of the thread id if the two
 * ways of walking (through the tables, and remembering) do not agree, with "gone" if the thread is
 * not there.
 */
#include "step_memory.h"
#include "step_modules.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

enum { MOST_FRAMES = 100000, WINDOW_BYTES = 65536 };

/* A part of the process's memory, from the address that the walk asked for upwards. */
struct window {
    pid_t pid;
    uint8_t bytes[WINDOW_BYTES];
};

static bool find_memory(struct walk_memory *memory, uint64_t address)
{
    struct window *window = memory->context;
    if (address > UINT64_MAX - WINDOW_BYTES)
        return false;
    size_t got = read_tracee(window->pid, address, window->bytes, sizeof window->bytes);
    memory->start = address;
    memory->end = address + got;
    memory->bias = (uint64_t)(uintptr_t)window->bytes - address;
    return got >= 8;
}

static struct walk_registers walk_registers_of(const struct user_regs_struct *r)
{
    struct walk_registers out = {.value = {[X86_RAX] = r->rax,
                                           [X86_RDX] = r->rdx,
                                           [X86_RCX] = r->rcx,
                                           [X86_RBX] = r->rbx,
                                           [X86_RSI] = r->rsi,
                                           [X86_RDI] = r->rdi,
                                           [X86_RBP] = r->rbp,
                                           [X86_RSP] = r->rsp,
                                           [X86_R8] = r->r8,
                                           [X86_R9] = r->r9,
                                           [X86_R10] = r->r10,
                                           [X86_R11] = r->r11,
                                           [X86_R12] = r->r12,
                                           [X86_R13] = r->r13,
                                           [X86_R14] = r->r14,
                                           [X86_R15] = r->r15,
                                           [X86_RIP] = r->rip}};
    return out;
}

/* The registers of a thread that is stopped already; it is let go in the same state. */
static bool get_registers(pid_t tid, struct user_regs_struct *registers)
{
    int status;
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) != 0)
        return false;
    ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
    while (waitpid(tid, &status, __WALL) < 0)
        if (errno != EINTR)
            return false;
    bool got = WIFSTOPPED(status) && ptrace(PTRACE_GETREGS, tid, NULL, registers) == 0;
    if (WIFSTOPPED(status))
        ptrace(PTRACE_DETACH, tid, NULL, NULL);
    return got;
}

static bool same_walk(const struct walk_frame *a, struct walk_result of_a,
                      const struct walk_frame *b, struct walk_result of_b)
{
    bool same = of_a.count == of_b.count && of_a.end == of_b.end;
    for (uint32_t i = 0; same && i < of_a.count; i++)
        same = a[i].pc == b[i].pc;
    return same;
}

/* Names may hold anything: what separates the fields of the line is left out. */
static void print_name(const char *name)
{
    putchar(',');
    for (; *name; name++)
        if (*name != ' ' && *name != ',' && *name != '\n')
            putchar(*name);
}

static void print_walk(const struct step_modules *modules, const struct user_regs_struct *registers,
                       const struct walk_frame *frames, struct walk_result result)
{
    char end[64];
    snprintf(end, sizeof end, "%s", walk_end_names[result.end]);
    for (char *c = end; *c; c++)
        *c = *c == ' ' ? '-' : *c;
    printf(" %s %" PRIx64, end, (uint64_t)registers->rsp);
    for (uint32_t i = 0; i < result.count; i++) {
        bool is_return = !(frames[i].flags & FRAME_IS_PC);
        struct module_place place = modules_place(modules, frames[i].pc, is_return);
        printf(" %" PRIx64, frames[i].pc);
        print_name(place.module);
        print_name(place.function);
    }
    putchar('\n');
}

static void walk_thread(struct step_modules *modules, struct window *window, pid_t tid)
{
    static struct walk_frame frames[MOST_FRAMES], again[MOST_FRAMES];
    static struct walk_cache cache;
    struct user_regs_struct registers;
    struct ct_error err;
    if (modules_refresh(modules, window->pid, &err) != CT_OK || !get_registers(tid, &registers)) {
        puts("gone");
        return;
    }
    struct walk_modules table = modules_table(modules);
    struct walk_registers r = walk_registers_of(&registers);
    struct walk_memory memory = {.find_memory = find_memory, .context = window};
    struct walk_result plain = walk_frames(&table, &r, &memory, frames, MOST_FRAMES);
    memory = (struct walk_memory){.find_memory = find_memory, .context = window};
    struct walk_result cached = walk_frames_cached(&cache, &table, &r, &memory, again, MOST_FRAMES);
    if (same_walk(frames, plain, again, cached))
        printf("%d", (int)tid);
    else
        printf("differ");
    print_walk(modules, &registers, frames, plain);
}

int main(int argc, char **argv)
{
    static struct window window;
    struct step_modules modules = {0};
    char line[64];
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: stop PID [MAP_CACHE_FOLDER] < THREAD_IDS\n");
        return 2;
    }
    window.pid = atoi(argv[1]);
    modules.cache_folder = argc == 3 ? argv[2] : NULL;
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin))
        walk_thread(&modules, &window, atoi(line));
    modules_free(&modules);
    return 0;
}
