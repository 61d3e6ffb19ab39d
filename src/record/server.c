#include "record/server.h"

#include "base/clock.h"
#include "base/page.h"
#include "base/search.h"
#include "record/process_state.h"
#include "runtime/channel_format.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <x86intrin.h>

/*
 * Address space that the program may have a limit on: a quarter of a gigabyte is ten million nodes.
 */
uint64_t server_arena_most(const struct server *s)
{
    const uint64_t usual = UINT64_C(256) << 20;
    return s->engine->most_arena_bytes ? s->engine->most_arena_bytes : usual;
}

static const uint64_t ARENA_STEP = UINT64_C(2) << 20;
static const uint64_t ARENA_FIRST = UINT64_C(1) << 18; /* most processes are short */

/* Events come as fast as the program makes calls: it must not be faster than its arena grows. */
static uint64_t first_bytes(const struct server *s)
{
    uint64_t first = s->engine->first_arena_bytes ? s->engine->first_arena_bytes : ARENA_FIRST;
    return s->events.mask & ~(uint32_t)EVENT_CPU ? 2 * ARENA_STEP : first;
}

static bool random_name(char *text)
{
    uint8_t bytes[CHANNEL_NAME_BYTES / 2];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return false; /* a secret that can be guessed is none */
    for (unsigned i = 0; i < sizeof bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

static int listen_at(const struct sockaddr_un *address, socklen_t size)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 &&
        (bind(fd, (const struct sockaddr *)address, size) != 0 || listen(fd, 1024) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

static char *socket_path(const struct server *s)
{
    return must_format("%s/" CHANNEL_SOCKET, s->folder.path);
}

char *server_runtime_link(const struct server *s)
{
    return must_format("%s/libcalltrail.so", s->folder.path);
}

static bool open_listeners(struct server *s, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path + 1, name, CHANNEL_NAME_BYTES);
    s->listeners[0] =
        listen_at(&address, offsetof(struct sockaddr_un, sun_path) + 1 + CHANNEL_NAME_BYTES);
    char *path = socket_path(s);
    if (strlen(path) < sizeof address.sun_path) {
        strcpy(address.sun_path, path);
        s->listeners[1] = listen_at(&address, sizeof address);
    }
    free(path);
    return s->listeners[0] >= 0;
}

/* Filters for system calls that this process has: those that it starts have them, too. */
static unsigned own_filters(void)
{
    char line[256];
    unsigned count = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "Seccomp_filters:", 16) == 0)
            count = (unsigned)strtoul(line + 16, NULL, 10);
    if (file)
        fclose(file);
    return count;
}

int server_open(struct server *s, uint64_t period_ns, uint32_t flags, struct ct_error *err)
{
    *s = (struct server){.listeners = {-1, -1},
                         .period_ns = period_ns,
                         .engine = record_engine_at(0),
                         .flags = flags};
    CT_TRY(folder_make(&s->folder, err));
    char name[CHANNEL_NAME_BYTES + 1] = "", secret[CHANNEL_NAME_BYTES + 1] = "";
    bool listens = random_name(name) && random_name(secret) && open_listeners(s, name);
    s->address = must_format("%s,%s,%s,%u", name, secret,
                             s->listeners[1] >= 0 ? s->folder.path : "-", own_filters());
    if (!listens) {
        int status = ct_fail_errno(err, errno, "no socket for the recorded processes");
        server_close(s, false);
        return status;
    }
    open_maps_begin(&s->maps);
    return CT_OK;
}

/* `room`: bytes, however many of them the file has yet. */
static bool map_arena(struct server_arena *a, int fd, uint64_t room)
{
    a->room = room;
    a->header = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (a->header == MAP_FAILED)
        a->header = NULL;
    return a->header != NULL;
}

static int reopen_arena(struct server *s, const char *path, uint32_t number, struct ct_error *err)
{
    struct server_arena a = {.number = number};
    struct stat status;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return ct_fail_errno(err, errno, "%s: cannot be opened", path);
    bool mapped = fstat(fd, &status) == 0 && status.st_size >= (off_t)sizeof *a.header &&
                  map_arena(&a, fd, (uint64_t)status.st_size);
    close(fd);
    if (!mapped || a.header->magic != ARENA_MAGIC || a.header->version != ARENA_VERSION ||
        !record_engine_at(a.header->engine)) {
        if (mapped)
            munmap(a.header, a.room);
        return ct_fail(err, "%s: is not an arena of this version", path);
    }
    a.allocated = (uint64_t)status.st_size;
    a.pid = a.header->outer_pid;
    a.process_start = a.header->process_start;
    a.parent_pid = a.header->parent_pid;
    a.header->program[ARENA_PROGRAM_BYTES - 1] = '\0';
    a.path = must_strdup(path);
    s->period_ns = a.header->period_ns;
    s->flags = a.header->flags;
    s->engine = record_engine_at(a.header->engine);
    memcpy(s->settings, a.header->settings, sizeof s->settings);
    s->events = a.header->events;
    s->is_outside |= a.header->source == SOURCE_OUTSIDE;
    vec_push(&s->arenas, a);
    return CT_OK;
}

/* An arena that its supervisor was still making has no header; no runtime has written to it. */
static bool is_unborn(const char *path)
{
    uint64_t magic = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool unborn = fd >= 0 && pread(fd, &magic, sizeof magic, 0) >= 0 && magic == 0;
    if (fd >= 0)
        close(fd);
    return unborn;
}

struct arena_numbers {
    VEC(uint32_t) items;
};

static int compare_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The numbers of the arenas in a folder, in the order in which they were made. */
static void list_arenas(const char *path, struct arena_numbers *out)
{
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        char behind[8];
        uint32_t number;
        if (sscanf(entry->d_name, "%" SCNu32 "%7s", &number, behind) == 2 &&
            strcmp(behind, ".arena") == 0)
            vec_push(&out->items, number);
    }
    if (folder)
        closedir(folder);
    if (out->items.count)
        qsort(out->items.items, out->items.count, sizeof *out->items.items, compare_numbers);
}

int server_reopen(struct server *s, const char *folder, struct ct_error *err)
{
    *s = (struct server){.listeners = {-1, -1}, .engine = record_engine_at(0)};
    CT_TRY(folder_take(&s->folder, folder, err));
    int status = CT_OK;
    struct arena_numbers numbers = {0};
    list_arenas(folder, &numbers);
    for (size_t i = 0; status == CT_OK && i < numbers.items.count; i++) {
        char *path = must_format("%s/%" PRIu32 ".arena", folder, numbers.items.items[i]);
        if (is_unborn(path))
            unlink(path);
        else
            status = reopen_arena(s, path, numbers.items.items[i], err);
        free(path);
    }
    vec_free(&numbers.items);
    bool empty = status == CT_OK && !s->arenas.count;
    if (empty)
        status = ct_fail(err, "%s: nothing was measured; the folder is gone now", folder);
    if (status != CT_OK)
        server_close(s, !empty);
    else
        open_maps_begin(&s->maps);
    return status;
}

static void let_go(struct server_arena *a, bool keep)
{
    munmap(a->header, a->room);
    free(a->before.bytes);
    free(a->after.bytes);
    if (!keep)
        unlink(a->path);
    free(a->path);
}

void server_drop_folded(struct server *s)
{
    size_t left = 0;
    uint32_t *places = must_calloc(s->arenas.count + 1, sizeof *places);
    for (size_t i = 0; i < s->arenas.count; i++) {
        struct server_arena *a = &s->arenas.items[i];
        places[i] = a->is_folding ? UINT32_MAX : (uint32_t)left;
        if (a->is_folding)
            let_go(a, false);
        else
            s->arenas.items[left++] = *a;
    }
    for (size_t i = 0; i < s->strangers.count; i++) {
        struct server_stranger *stranger = &s->strangers.items[i];
        if (stranger->parent < s->arenas.count)
            stranger->parent = places[stranger->parent];
        stranger->is_exec &= stranger->parent != UINT32_MAX;
    }
    s->arenas.count = left;
    free(places);
}

void server_close(struct server *s, bool keep_arenas)
{
    for (size_t i = 0; i < s->arenas.count; i++)
        let_go(&s->arenas.items[i], keep_arenas);
    vec_free(&s->arenas);
    vec_free(&s->strangers);
    for (size_t i = 0; i < s->programs.count; i++) {
        free(s->programs.items[i].path);
        free(s->programs.items[i].why);
    }
    vec_free(&s->programs);
    for (unsigned i = 0; i < 2; i++)
        if (s->listeners[i] >= 0)
            close(s->listeners[i]);
    if (!keep_arenas && s->folder.path) {
        char *socket = socket_path(s), *runtime = server_runtime_link(s);
        unlink(socket);
        unlink(runtime);
        folder_remove_files(s->folder.path, KEPT_PREFIX);
        free(socket);
        free(runtime);
    }
    if (keep_arenas)
        folder_leave(&s->folder);
    else
        folder_remove(&s->folder);
    free(s->address);
    server_stop_making(s);
    open_maps_end(&s->maps);
}

/* Blocks are allocated, not only promised: the process must never meet SIGBUS. */
static bool allocate(struct server_arena *a, uint64_t bytes)
{
    /* No descriptor is kept for each arena: there may be more processes than descriptors. */
    int fd = bytes <= a->room ? open(a->path, O_RDWR | O_CLOEXEC) : -1;
    bool done = fd >= 0 && posix_fallocate(fd, 0, (off_t)bytes) == 0;
    if (fd >= 0)
        close(fd);
    if (done) {
        a->allocated = bytes;
        a->header->allocated = bytes;
    }
    return done;
}

/* Numbers are used again: the process may be another that has got it since. */
static bool is_the_same(const struct server_arena *a, const struct process_state *p)
{
    return !a->process_start || a->process_start == p->start;
}

/*
 * In doubt it is: /proc may hide a process that is there, and the first thread may have ended
 * before the others.
 */
bool server_arena_in_use(const struct server *s, size_t index)
{
    const struct server_arena *a = &s->arenas.items[index];
    uint64_t pid = a->pid;
    struct process_state p;
    for (size_t i = index + 1; i < s->arenas.count; i++) /* another program runs in it now */
        if (s->arenas.items[i].pid == pid)
            return false;
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH)
        return false;
    if (!process_read_state(pid, &p))
        return true;
    return is_the_same(a, &p) && !(p.threads <= 1 && (p.state == 'Z' || !process_has_memory(pid)));
}

/* Thousands of short processes must not take megabytes each. */
static void give_back(struct server_arena *a)
{
    uint64_t used = a->header->used; /* as the program says; the header stays in any case */
    used = used < sizeof *a->header ? sizeof *a->header : used;
    used = page_round_up(used);
    if (used && used < a->allocated && truncate(a->path, (off_t)used) == 0)
        a->allocated = used;
    madvise(a->header, a->allocated, MADV_DONTNEED); /* the file has it until the profile is made */
}

/* Its CPU time, for processes that end without a word. */
static void look_at(struct server *s, size_t index)
{
    struct server_arena *a = &s->arenas.items[index];
    struct process_state p;
    if (process_read_state(a->pid, &p) && is_the_same(a, &p)) {
        double tick_s = 1.0 / (double)sysconf(_SC_CLK_TCK);
        a->utime_s = (double)p.utime * tick_s - a->utime_before_s;
        a->stime_s = (double)p.stime * tick_s - a->stime_before_s;
    }
    if (!server_arena_in_use(s, index)) {
        a->is_gone = true;
        a->gone_ns = s->listeners[0] >= 0 ? now_ns() : 0; /* recovered: long ago, perhaps */
        give_back(a);
    }
}

bool server_is_same_process(const struct server_arena *a, const struct server_arena *later)
{
    if (a->process_start && later->process_start && a->process_start != later->process_start)
        return false;
    return a->pid == later->pid && !(a->header->source == SOURCE_OUTSIDE && a->header->said_ns &&
                                     a->header->said_ns < later->header->start_ns);
}

const struct server_arena *server_successor(const struct server *s, size_t i)
{
    for (size_t k = i + 1; k < s->arenas.count; k++)
        if (server_is_same_process(&s->arenas.items[i], &s->arenas.items[k]))
            return &s->arenas.items[k];
    return NULL;
}

static bool is_known(const struct server *s, uint32_t pid)
{
    for (size_t i = 0; i < s->arenas.count; i++)
        if (s->arenas.items[i].pid == pid)
            return true;
    for (size_t i = 0; i < s->strangers.count; i++)
        if (s->strangers.items[i].pid == pid)
            return true;
    return false;
}

uint64_t server_parent_of(uint64_t pid)
{
    struct process_state p;
    return process_read_state(pid, &p) ? p.parent : 0;
}

static void look_for_strangers(struct server *s, size_t arena)
{
    char path[64];
    unsigned pid = (unsigned)s->arenas.items[arena].pid;
    snprintf(path, sizeof path, "/proc/%u/task/%u/children", pid, pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    struct server_stranger found = {.parent = (uint32_t)arena, .count = 1};
    while (fscanf(file, "%u", &found.pid) == 1) {
        if (is_known(s, found.pid))
            continue;
        process_program(found.pid, found.program);
        vec_push(&s->strangers, found);
    }
    fclose(file);
}

/* They go on over exec: the last arena of a process has them. */
void server_look_at_io(struct server *s, uint64_t pid)
{
    char path[64];
    unsigned long long read, written;
    size_t i = s->arenas.count;
    while (i && s->arenas.items[i - 1].pid != pid)
        i--;
    if (!i || !(s->events.mask & EVENT_IO))
        return;
    snprintf(path, sizeof path, "/proc/%llu/io", (unsigned long long)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    if (fscanf(file, "rchar: %llu wchar: %llu", &read, &written) == 2) {
        s->arenas.items[i - 1].has_io = true;
        s->arenas.items[i - 1].io_read = read;
        s->arenas.items[i - 1].io_written = written;
    }
    fclose(file);
}

void server_look_around(struct server *s)
{
    for (size_t i = 0; i < s->arenas.count; i++) {
        if (s->arenas.items[i].is_gone)
            continue;
        look_at(s, i);
        server_look_at_io(s, s->arenas.items[i].pid);
        if ((s->flags & CHANNEL_FOLLOW) && !s->is_outside) /* otherwise they were not asked for */
            look_for_strangers(s, i);
    }
}

static void take_image(const struct server_arena *a, struct arena_image *out)
{
    uint64_t size = a->header->used < a->allocated ? a->header->used : a->allocated;
    *out = (struct arena_image){.bytes = must_calloc(1, size), .size = size};
    memcpy(out->bytes, a->header, size);
}

void server_pause(struct server *s, bool paused)
{
    const uint64_t now = now_ns();
    bool ends = paused && s->has_begun;
    if (ends && !s->paused)
        s->window_end_ns = now;
    else if (!paused)
        s->window_start_ns = now;
    s->paused = paused;
    s->has_begun |= !paused;
    s->is_over = ends;
    for (size_t i = 0; i < s->arenas.count; i++) {
        struct server_arena *a = &s->arenas.items[i];
        struct arena_image *image = paused ? &a->after : &a->before;
        /* --duration may have ended before all; and what has ended counts no more. */
        if (s->engine->counts_always && !image->bytes && !(paused && !server_arena_in_use(s, i)))
            take_image(a, image);
        a->header->paused_since_ns = now;
        a->header->paused = paused;
        a->header->detach = ends;
    }
}

void server_grow_arenas(struct server *s)
{
    for (size_t i = 0; i < s->arenas.count; i++) {
        struct server_arena *a = &s->arenas.items[i];
        if (a->is_gone)
            continue;
        uint64_t used = a->header->used, wanted = a->header->wanted;
        /* Far ahead: a busy program may keep this process from the processor for long. */
        uint64_t ahead = a->allocated / 2 > ARENA_STEP ? a->allocated / 2 : ARENA_STEP;
        bool is_little =
            a->allocated == ARENA_FIRST ? used > ARENA_FIRST / 4 : used + ahead > a->allocated;
        uint64_t least = wanted > a->allocated ? wanted : is_little ? a->allocated : a->room;
        bool has_grown = least < a->room &&
                         (allocate(a, least + 2 * ahead <= a->room ? least + 2 * ahead : a->room) ||
                          allocate(a, least + ARENA_FIRST));
        a->is_full |= !has_grown && (least < a->room || wanted > a->allocated);
        a->header->is_full = !has_grown && wanted > a->allocated;
    }
}

struct server_arena *server_arena_numbered(const struct server *s, uint32_t number)
{
    size_t at;
    SEARCH(at, s->arenas.count, s->arenas.items[at].number < number);
    return &s->arenas.items[at];
}

/* It has said hello. What it was before an exec stays known. */
static void forget_stranger(struct server *s, uint32_t pid)
{
    for (size_t i = 0; i < s->strangers.count; i++) {
        if (s->strangers.items[i].pid == pid && !s->strangers.items[i].is_exec) {
            s->strangers.items[i] = s->strangers.items[--s->strangers.count];
            return;
        }
    }
}

bool server_arena_reserve(struct server *s, uint32_t number, uint64_t bytes)
{
    struct server_arena *a = server_arena_numbered(s, number);
    if (bytes <= a->allocated)
        return true;
    uint64_t ahead = a->allocated < ARENA_STEP ? ARENA_STEP / 8 : ARENA_STEP;
    bool done = allocate(a, bytes + ahead <= a->room ? bytes + ahead : bytes);
    a->is_full |= !done;
    return done;
}

int server_make_arena(struct server *s, const struct channel_message *m, uint64_t pid,
                      bool from_outside)
{
    /* In a namespace of its own the process does not know the numbers by which it is known here. */
    struct server_arena a = {.pid = pid, .parent_pid = m->parent_pid, .allocated = first_bytes(s)};
    struct process_state state;
    bool is_seen = process_read_state(pid, &state);
    if (is_seen)
        a.process_start = state.start;
    if (pid != m->pid && is_seen)
        a.parent_pid = state.parent;
    a.number = s->arenas_made;
    a.path = must_format("%s/%" PRIu32 ".arena", s->folder.path, a.number);
    int fd = open(a.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int why = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)a.allocated);
    if (why == ENOSPC && a.allocated > ARENA_FIRST) { /* less is better than nothing */
        a.allocated = ARENA_FIRST;
        why = posix_fallocate(fd, 0, (off_t)a.allocated);
    }
    if (why == 0 && !map_arena(&a, fd, server_arena_most(s)))
        why = errno;
    if (why) {
        if (fd >= 0) {
            close(fd);
            unlink(a.path);
        }
        free(a.path);
        errno = why;
        return -1;
    }
    bool has_run = s->is_attached || is_known(s, (uint32_t)pid);
    if (from_outside && has_run && is_seen) {
        double tick_s = 1.0 / (double)sysconf(_SC_CLK_TCK);
        a.utime_before_s = (double)state.utime * tick_s;
        a.stime_before_s = (double)state.stime * tick_s;
    }
    uint64_t start_ns = now_ns();
    *a.header = (struct arena_header){.version = ARENA_VERSION,
                                      .header_bytes = sizeof *a.header,
                                      .allocated = a.allocated,
                                      .used = (sizeof *a.header + 63) & ~(uint64_t)63,
                                      .pid = (uint32_t)m->pid,
                                      .parent_pid = (uint32_t)m->parent_pid,
                                      .outer_pid = (uint32_t)pid,
                                      .start_ns = start_ns,
                                      .realtime_at_zero_ns = clock_ns(CLOCK_REALTIME) - start_ns,
                                      .period_ns = s->period_ns,
                                      .flags = s->flags,
                                      .engine = s->engine->number,
                                      .tick_cost_ns = s->tick_cost_ns,
                                      .paused = s->paused,
                                      .process_start = a.process_start,
                                      .detach = s->is_over,
                                      .events = s->events};
    if (s->keeps_times) {
        a.header->clock_ns = start_ns;
        a.header->clock_stamp = from_outside ? start_ns : __rdtsc();
        a.header->time_chunks_left = TIME_MOST_CHUNKS;
    }
    memcpy(a.header->settings, s->settings, sizeof s->settings);
    arena_lay_out(a.header);
    process_program(pid, a.header->program);
    __atomic_store_n(&a.header->magic, ARENA_MAGIC, __ATOMIC_RELEASE); /* complete from here on */
    s->arenas_made++;
    vec_push(&s->arenas, a);
    forget_stranger(s, (uint32_t)pid);
    return fd;
}
