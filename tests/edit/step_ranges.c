/*
 * Runs a program in single steps and looks whether anything jumps into the middle of what an edit
 * would write over: the instructions that move with a site, or out of its way. The program itself
 * is not edited.
 *
 *     step_ranges RANGES MS STEPS PROGRAM [ARGUMENTS]
 *
 * RANGES has a line "PATH START END" for each range of a file's addresses, sorted. The program runs
 * for MS milliseconds, wherever that leads to, before the first step. A range may be run through
 * from its start to its end; so a thread inside it must have been there, further up, one step
 * before.
 */
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

struct range {
    uint64_t start, end;
};

struct file {
    char path[256];
    struct range *ranges;
    size_t count;
    uint64_t base; /* what is added to the file's addresses; 0: not loaded */
};

static struct file files[64];
static size_t file_count;

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "step_ranges: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void read_ranges(const char *path)
{
    FILE *in = fopen(path, "r");
    char name[256];
    struct range r;
    if (!in)
        fail(path);
    while (fscanf(in, "%255s %lx %lx", name, &r.start, &r.end) == 3) {
        struct file *f = file_count ? &files[file_count - 1] : NULL;
        if (!f || strcmp(f->path, name) != 0) {
            if (file_count == 64)
                break;
            f = &files[file_count++];
            strcpy(f->path, name);
        }
        f->ranges = realloc(f->ranges, (f->count + 1) * sizeof r);
        f->ranges[f->count++] = r;
    }
    fclose(in);
}

/* The address of the lowest segment in the file. */
static uint64_t lowest_address(const char *path)
{
    ElfW(Ehdr) header;
    ElfW(Phdr) segment;
    FILE *in = fopen(path, "r");
    uint64_t lowest = UINT64_MAX;
    if (!in || fread(&header, sizeof header, 1, in) != 1)
        fail(path);
    for (unsigned i = 0; i < header.e_phnum; i++) {
        fseek(in, (long)(header.e_phoff + i * sizeof segment), SEEK_SET);
        if (fread(&segment, sizeof segment, 1, in) == 1 && segment.p_type == PT_LOAD &&
            segment.p_vaddr < lowest)
            lowest = segment.p_vaddr;
    }
    fclose(in);
    return lowest & ~UINT64_C(4095);
}

static void find_modules(pid_t pid)
{
    char name[64], line[512], path[256];
    snprintf(name, sizeof name, "/proc/%d/maps", pid);
    FILE *in = fopen(name, "r");
    uint64_t start, offset;
    while (in && fgets(line, sizeof line, in))
        if (sscanf(line, "%lx-%*x %*s %lx %*s %*s %255s", &start, &offset, path) == 3 && !offset)
            for (size_t i = 0; i < file_count; i++)
                if (!files[i].base && strcmp(files[i].path, path) == 0)
                    files[i].base = start - lowest_address(path) + 1; /* never 0 */
    if (in)
        fclose(in);
}

/* The range that holds an address behind its start, or NULL. */
static const struct range *range_around(uint64_t pc, uint64_t *base)
{
    for (size_t i = 0; i < file_count; i++) {
        const struct file *f = &files[i];
        uint64_t at = pc - (f->base - 1);
        if (!f->base || at < f->ranges[0].start || at >= f->ranges[f->count - 1].end)
            continue;
        size_t low = 0, high = f->count;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (f->ranges[middle].end <= at)
                low = middle + 1;
            else
                high = middle;
        }
        *base = f->base - 1;
        return low < f->count && at > f->ranges[low].start ? &f->ranges[low] : NULL;
    }
    return NULL;
}

static bool step(pid_t pid, int *signal_to_pass)
{
    int status;
    if (ptrace(PTRACE_SINGLESTEP, pid, 0, *signal_to_pass) != 0)
        fail("PTRACE_SINGLESTEP");
    if (waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status))
        return false;
    *signal_to_pass = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
    return true;
}

static pid_t start(char **command, unsigned milliseconds)
{
    pid_t pid = fork();
    if (pid == 0) {
        personality(ADDR_NO_RANDOMIZE);
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execvp(command[0], command);
        fail(command[0]);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
        fail("no program");
    if (!milliseconds)
        return pid;
    ptrace(PTRACE_CONT, pid, 0, 0);
    usleep(milliseconds * 1000);
    kill(pid, SIGSTOP);
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) != SIGSTOP)
        ptrace(PTRACE_CONT, pid, 0, WSTOPSIG(status));
    if (!WIFSTOPPED(status))
        fail("the program ended too early");
    return pid;
}

int main(int count, char **arguments)
{
    if (count < 5) {
        fprintf(stderr, "usage: step_ranges RANGES MS STEPS PROGRAM [ARGUMENTS]\n");
        return 2;
    }
    read_ranges(arguments[1]);
    uint64_t most = strtoull(arguments[3], NULL, 10);
    pid_t pid = start(arguments + 4, (unsigned)strtoul(arguments[2], NULL, 10));
    int signal_to_pass = 0;
    uint64_t steps = 0, inside = 0, wrong = 0, before = 0;
    while (steps < most && step(pid, &signal_to_pass)) {
        struct user_regs_struct r;
        steps++;
        if (steps % 65536 == 1)
            find_modules(pid);
        if (ptrace(PTRACE_GETREGS, pid, 0, &r) != 0)
            fail("PTRACE_GETREGS");
        uint64_t base = 0;
        const struct range *range = range_around(r.rip, &base);
        inside += range != NULL;
        if (range && before && !(before - base >= range->start && before < r.rip)) {
            if (wrong++ < 5)
                printf("%#lx leads to %#lx, which is inside %#lx to %#lx\n", before - base,
                       (unsigned long)r.rip - base, range->start, range->end);
        }
        before = r.rip;
    }
    kill(pid, SIGKILL);
    printf("%lu steps, %lu in ranges, %lu wrong\n", steps, inside, wrong);
    return wrong != 0;
}
