/*
 * A library that is preloaded into a program. One perf event of each thread writes its samples into
 * a ring, with registers and a window of the stack, and also sends a signal for each: the same
 * tick, seen from outside and from inside. The handler writes both to the file SAME_TICK_FILE: the
 * kernel's record, and the registers and the whole stack that it finds. SAME_TICK_WINDOW is in
 * bytes.
 */
#include "same_tick.h"

#include <asm/perf_regs.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { RING = 1 << 20, MOST = 12 << 20, HIGH = 900 };
static __thread struct perf_event_mmap_page *page;
static __thread char *whole; /* what is written at once */
static int file = -1;
static uint32_t window;

static const int order[17] = {REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RSI, REG_RDI,
                              REG_RBP, REG_RSP, REG_RIP, REG_R8,  REG_R9,  REG_R10,
                              REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

/* The newest record, copied; the ring is empty then. */
static uint64_t take_record(char *to)
{
    const char *ring = (const char *)page + 4096;
    uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE), at = page->data_tail;
    struct perf_event_header h = {0};
    uint64_t size = 0;
    while (at < head) {
        memcpy(&h, ring + at % RING, sizeof h);
        size = h.type == PERF_RECORD_SAMPLE ? h.size : 0;
        for (uint64_t i = 0; i < size; i++)
            to[i] = ring[(at + i) % RING];
        at += h.size;
    }
    __atomic_store_n(&page->data_tail, head, __ATOMIC_RELEASE);
    return size;
}

static uint64_t read_maps(char *to, uint64_t room)
{
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    uint64_t size = 0;
    ssize_t got;
    while (fd >= 0 && size < room && (got = read(fd, to + size, room - size)) > 0)
        size += (uint64_t)got;
    close(fd);
    return size;
}

/* Where the mapping that holds an address ends. */
static uint64_t end_of_mapping(const char *maps, uint64_t size, uint64_t address)
{
    const char *at = maps, *end = maps + size;
    while (at && at < end) {
        char *rest;
        uint64_t start = strtoul(at, &rest, 16), stop = strtoul(rest + 1, NULL, 16);
        if (address >= start && address < stop)
            return stop;
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at + 1 : NULL;
    }
    return address;
}

static void on_tick(int number, siginfo_t *info, void *context)
{
    const ucontext_t *u = context;
    int before = errno;
    struct same_tick head = {0};
    (void)number;
    (void)info;
    for (int i = 0; i < 17; i++)
        head.registers[i] = (uint64_t)u->uc_mcontext.gregs[order[i]];
    uint64_t sp = head.registers[7];
    char *at = whole + sizeof head;
    head.record_bytes = take_record(at);
    at += head.record_bytes;
    char *maps = whole + MOST / 2;
    head.maps_bytes = read_maps(maps, MOST / 2);
    uint64_t end = end_of_mapping(maps, head.maps_bytes, sp);
    head.stack_bytes = end - sp < MOST / 4 ? end - sp : MOST / 4;
    memcpy(at, (const void *)sp, head.stack_bytes);
    at += head.stack_bytes;
    memmove(at, maps, head.maps_bytes);
    at += head.maps_bytes;
    memcpy(whole, &head, sizeof head);
    if (head.record_bytes && write(file, whole, (size_t)(at - whole)) != at - whole)
        abort();
    errno = before;
}

static int high(int fd)
{
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, HIGH);
    close(fd);
    return moved;
}

/* Of the calling thread. */
static void open_event(void)
{
    struct perf_event_attr a = {.size = sizeof a,
                                .type = PERF_TYPE_SOFTWARE,
                                .config = PERF_COUNT_SW_TASK_CLOCK,
                                .sample_period = 1001001,
                                .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP |
                                               PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
                                               PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
                                .sample_regs_user = 0x1ff | (UINT64_C(0xff) << PERF_REG_X86_R8),
                                .sample_stack_user = window,
                                .exclude_kernel = 1,
                                .disabled = 1,
                                .use_clockid = 1,
                                .clockid = CLOCK_MONOTONIC,
                                .wakeup_events = 1};
    struct f_owner_ex owner = {F_OWNER_TID, (pid_t)syscall(SYS_gettid)};
    int event = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (event < 0)
        abort();
    event = high(event);
    page = mmap(NULL, 4096 + RING, PROT_READ | PROT_WRITE, MAP_SHARED, event, 0);
    whole = mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || whole == MAP_FAILED)
        abort();
    fcntl(event, F_SETFL, O_ASYNC);
    fcntl(event, F_SETSIG, SIGSTKFLT);
    fcntl(event, F_SETOWN_EX, &owner);
    ioctl(event, PERF_EVENT_IOC_ENABLE, 0);
}

struct beginning {
    void *(*run)(void *);
    void *argument;
};

static void *begin_thread(void *context)
{
    struct beginning b = *(struct beginning *)context;
    free(context);
    open_event();
    return b.run(b.argument);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
        (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(
            RTLD_NEXT, "pthread_create");
    struct beginning *b = file < 0 ? NULL : malloc(sizeof *b);
    if (!b)
        return real(thread, attributes, run, argument);
    *b = (struct beginning){run, argument};
    return real(thread, attributes, begin_thread, b);
}

__attribute__((constructor)) static void start(void)
{
    const char *name = getenv("SAME_TICK_FILE"), *bytes = getenv("SAME_TICK_WINDOW");
    if (!name || !bytes)
        return;
    int opened = open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (opened < 0)
        abort();
    file = high(opened);
    window = (uint32_t)atoi(bytes);
    unsetenv("SAME_TICK_FILE"); /* of this process alone */
    struct sigaction act = {.sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGSTKFLT, &act, NULL);
    open_event();
}
