#include "record/server.h"

#include "edit/plan.h"
#include "runtime/channel_format.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Address space that the program may have a limit on: a quarter of a gigabyte is ten million nodes.
 */
static const uint64_t ARENA_MOST = UINT64_C(256) << 20;
static const uint64_t ARENA_STEP = UINT64_C(2) << 20;
static const uint64_t ARENA_FIRST = UINT64_C(1) << 18; /* most processes are short */

static void random_name(char *text)
{
    uint8_t bytes[CHANNEL_NAME_BYTES / 2];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        memset(bytes, 0, sizeof bytes);
    for (unsigned i = 0; i < sizeof bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

/* For whoever finds the folder after this process was killed. */
static char *supervisor_file(const struct server *s)
{
    return must_format("%s/supervisor", s->folder);
}

static void name_supervisor(const struct server *s)
{
    char *path = supervisor_file(s);
    FILE *file = fopen(path, "wxe");
    if (file) {
        fprintf(file, "%d\n", getpid());
        fclose(file);
    }
    free(path);
}

static int make_folder(struct server *s, struct ct_error *err)
{
    static const char *const places[] = {"/dev/shm", NULL, "/tmp"};
    for (unsigned i = 0; i < 3; i++) {
        const char *place = places[i] ? places[i] : getenv("TMPDIR");
        if (!place)
            continue;
        s->folder = must_format("%s/calltrail-XXXXXX", place);
        if (mkdtemp(s->folder)) {
            name_supervisor(s);
            return CT_OK;
        }
        free(s->folder);
        s->folder = NULL;
    }
    return ct_fail_errno(err, errno, "no folder for what is measured (tried /dev/shm and /tmp)");
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
    return must_format("%s/" CHANNEL_SOCKET, s->folder);
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

int server_open(struct server *s, uint64_t period_ns, uint64_t flags, struct ct_error *err)
{
    *s = (struct server){.listeners = {-1, -1}, .period_ns = period_ns, .flags = flags};
    CT_TRY(make_folder(s, err));
    char name[CHANNEL_NAME_BYTES + 1], secret[CHANNEL_NAME_BYTES + 1];
    random_name(name);
    random_name(secret);
    bool listens = open_listeners(s, name);
    s->address = must_format("%s,%s,%s", name, secret, s->listeners[1] >= 0 ? s->folder : "-");
    if (!listens) {
        int status = ct_fail_errno(err, errno, "no socket for the recorded processes");
        server_close(s);
        return status;
    }
    open_maps_begin(&s->maps);
    return CT_OK;
}

static int reopen_arena(struct server *s, char *path, struct ct_error *err)
{
    struct server_arena a = {.path = path, .fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW)};
    struct stat status;
    if (a.fd < 0 || fstat(a.fd, &status) != 0 || status.st_size < (off_t)sizeof *a.header)
        return ct_fail(err, "%s: is not an arena", path);
    a.allocated = (uint64_t)status.st_size;
    a.header = mmap(NULL, ARENA_MOST, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, a.fd, 0);
    if (a.header == MAP_FAILED)
        return ct_fail_errno(err, errno, "%s: cannot be mapped", path);
    if (a.header->magic != ARENA_MAGIC || a.header->version != ARENA_VERSION) {
        munmap(a.header, ARENA_MOST);
        close(a.fd);
        return ct_fail(err, "%s: is not an arena of this version", path);
    }
    a.pid = a.header->pid;
    a.parent_pid = a.header->parent_pid;
    a.header->program[ARENA_PROGRAM_BYTES - 1] = '\0';
    s->period_ns = a.header->period_ns;
    vec_push(&s->arenas, a);
    return CT_OK;
}

int server_reopen(struct server *s, const char *folder, struct ct_error *err)
{
    *s = (struct server){.listeners = {-1, -1}, .folder = must_strdup(folder)};
    int status = CT_OK;
    for (size_t i = 0; status == CT_OK; i++) {
        char *path = must_format("%s/%zu.arena", folder, i);
        if (access(path, F_OK) != 0) {
            free(path);
            break;
        }
        status = reopen_arena(s, path, err);
    }
    if (status == CT_OK && !s->arenas.count)
        status = ct_fail(err, "%s: holds nothing that a recording has left", folder);
    if (status == CT_OK)
        open_maps_begin(&s->maps);
    return status;
}

void server_close(struct server *s)
{
    for (size_t i = 0; i < s->arenas.count; i++) {
        struct server_arena *a = &s->arenas.items[i];
        munmap(a->header, ARENA_MOST);
        close(a->fd);
        unlink(a->path);
        free(a->path);
    }
    vec_free(&s->arenas);
    vec_free(&s->strangers);
    for (unsigned i = 0; i < 2; i++)
        if (s->listeners[i] >= 0)
            close(s->listeners[i]);
    if (s->folder) {
        char *supervisor = supervisor_file(s), *socket = socket_path(s);
        unlink(supervisor);
        unlink(socket);
        free(supervisor);
        free(socket);
        rmdir(s->folder);
    }
    free(s->folder);
    free(s->address);
    open_maps_end(&s->maps);
}

/* Blocks are allocated, not only promised: the process must never meet SIGBUS. */
static bool allocate(struct server_arena *a, uint64_t bytes)
{
    if (bytes > ARENA_MOST || posix_fallocate(a->fd, 0, (off_t)bytes) != 0)
        return false;
    a->allocated = bytes;
    a->header->allocated = bytes;
    return true;
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* What runs in a process, as /proc has it now. */
static void program_of(uint64_t pid, char *out)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/%lu/exe", (unsigned long)pid);
    ssize_t length = readlink(link, out, ARENA_PROGRAM_BYTES - 1);
    out[length > 0 ? length : 0] = '\0';
}

/* What /proc/PID/stat says of a process, in this process's own namespace. */
struct process_state {
    char state;
    unsigned parent;
    unsigned long utime, stime; /* in clock ticks */
};

static bool read_state(uint64_t pid, struct process_state *out)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%lu/stat", (unsigned long)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    const char *behind_name = strrchr(text, ')');
    return behind_name &&
           sscanf(behind_name + 1, " %c %u %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                  &out->state, &out->parent, &out->utime, &out->stime) == 4;
}

/* Its CPU time, for processes that end without a word. */
static void look_at(struct server_arena *a)
{
    struct process_state p = {.state = 'X'};
    if (read_state(a->pid, &p)) {
        double tick_s = 1.0 / (double)sysconf(_SC_CLK_TCK);
        a->utime_s = (double)p.utime * tick_s;
        a->stime_s = (double)p.stime * tick_s;
    }
    if (p.state == 'X' || p.state == 'Z') {
        a->is_gone = true;
        a->gone_ns = clock_ns(CLOCK_MONOTONIC);
    }
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

static void look_for_strangers(struct server *s, size_t arena)
{
    char path[64];
    unsigned pid = (unsigned)s->arenas.items[arena].pid;
    snprintf(path, sizeof path, "/proc/%u/task/%u/children", pid, pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    struct server_stranger found = {.parent = (uint32_t)arena};
    while (fscanf(file, "%u", &found.pid) == 1) {
        if (is_known(s, found.pid))
            continue;
        program_of(found.pid, found.program);
        vec_push(&s->strangers, found);
    }
    fclose(file);
}

void server_look_around(struct server *s)
{
    for (size_t i = 0; i < s->arenas.count; i++) {
        if (s->arenas.items[i].is_gone)
            continue;
        look_at(&s->arenas.items[i]);
        look_for_strangers(s, i);
    }
}

void server_pause(struct server *s, bool paused)
{
    s->paused = paused;
    for (size_t i = 0; i < s->arenas.count; i++)
        s->arenas.items[i].header->paused = paused;
}

void server_grow_arenas(struct server *s)
{
    for (size_t i = 0; i < s->arenas.count; i++) {
        struct server_arena *a = &s->arenas.items[i];
        if (a->is_gone)
            continue;
        uint64_t used = a->header->used, wanted = a->header->wanted;
        uint64_t more = a->allocated / 2 > ARENA_STEP ? a->allocated / 2 : ARENA_STEP;
        if (wanted > a->allocated && a->allocated < ARENA_MOST)
            allocate(a, wanted + more <= ARENA_MOST ? wanted + more : ARENA_MOST);
        else if (used + a->allocated / 2 > a->allocated && used + ARENA_STEP / 2 > a->allocated)
            allocate(a, a->allocated + more <= ARENA_MOST ? a->allocated + more : ARENA_MOST);
    }
}

static int make_arena(struct server *s, const struct channel_message *m, uint64_t pid)
{
    /* In a namespace of its own the process does not know the numbers by which it is known here. */
    struct server_arena a = {.pid = pid, .parent_pid = m->parent_pid};
    struct process_state state;
    if (pid != m->pid && read_state(pid, &state))
        a.parent_pid = state.parent;
    a.path = must_format("%s/%zu.arena", s->folder, s->arenas.count);
    a.fd = open(a.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (a.fd < 0)
        goto failed;
    if (posix_fallocate(a.fd, 0, (off_t)ARENA_FIRST) != 0)
        goto failed;
    a.header = mmap(NULL, ARENA_MOST, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, a.fd, 0);
    if (a.header == MAP_FAILED)
        goto failed;
    uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
    *a.header = (struct arena_header){.magic = ARENA_MAGIC,
                                      .version = ARENA_VERSION,
                                      .header_bytes = sizeof *a.header,
                                      .allocated = ARENA_FIRST,
                                      .used = (sizeof *a.header + 63) & ~(uint64_t)63,
                                      .pid = (uint32_t)m->pid,
                                      .parent_pid = (uint32_t)m->parent_pid,
                                      .start_ns = start_ns,
                                      .realtime_at_zero_ns = clock_ns(CLOCK_REALTIME) - start_ns,
                                      .period_ns = s->period_ns,
                                      .paused = s->paused};
    a.allocated = ARENA_FIRST;
    program_of(pid, a.header->program);
    vec_push(&s->arenas, a);
    return a.fd;
failed:
    if (a.fd >= 0) {
        close(a.fd);
        unlink(a.path);
    }
    free(a.path);
    return -1;
}

/* A descriptor of the map of the file that came along; -1 when there is none. */
static int find_map(struct server *s, int file)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    struct open_map *map = open_maps_find(&s->maps, path);
    return map ? open_map_fd(map) : -1;
}

static int find_plan(struct server *s, int file)
{
    char path[64];
    struct plan plan;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (plan_for_file(&s->maps.cache, path, &plan, NULL) != CT_OK)
        return -1;
    int fd = memfd_create("plan", MFD_CLOEXEC);
    if (fd >= 0 &&
        write(fd, plan.header, plan.header->file_bytes) != (ssize_t)plan.header->file_bytes) {
        close(fd);
        fd = -1;
    }
    plan_close(&plan);
    return fd;
}

union descriptor_room {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static bool receive(int fd, struct channel_message *m, int *descriptor)
{
    union descriptor_room room;
    struct iovec part = {m, sizeof *m};
    struct msghdr h = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof room};
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    *descriptor = -1;
    if (poll(&wait, 1, 1000) <= 0)
        return false;
    ssize_t size = recvmsg(fd, &h, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (size > 0 && h.msg_controllen >= CMSG_LEN(sizeof(int)) &&
        room.header.cmsg_type == SCM_RIGHTS)
        memcpy(descriptor, CMSG_DATA(&room.header), sizeof *descriptor);
    return size == sizeof *m;
}

static void reply(int fd, struct channel_message *m, int descriptor)
{
    union descriptor_room room = {0};
    struct iovec part = {m, sizeof *m};
    struct msghdr h = {.msg_iov = &part, .msg_iovlen = 1};
    if (descriptor >= 0) {
        h.msg_control = &room;
        h.msg_controllen = sizeof room;
        room.header.cmsg_level = SOL_SOCKET;
        room.header.cmsg_type = SCM_RIGHTS;
        room.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&room.header), &descriptor, sizeof descriptor);
    }
    sendmsg(fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* The kernel's word for who is asking: the pid in this process's own namespace. */
static uint64_t peer_pid(int fd)
{
    struct ucred who = {0};
    socklen_t size = sizeof who;
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size);
    return (uint64_t)who.pid;
}

static void answer_one(struct server *s, int fd)
{
    static struct channel_message m;
    int came, sent = -1, plan = -1;
    if (!receive(fd, &m, &came) ||
        memcmp(m.secret, s->address + CHANNEL_NAME_BYTES + 1, sizeof m.secret) != 0) {
        if (came >= 0)
            close(came);
        return;
    }
    uint32_t kind = CHANNEL_REFUSED;
    if (m.kind == CHANNEL_HELLO && ((s->flags & CHANNEL_FOLLOW) || !s->arenas.count)) {
        sent = make_arena(s, &m, peer_pid(fd));
        kind = CHANNEL_WELCOME;
    } else if (m.kind == CHANNEL_MAP && came >= 0) {
        sent = find_map(s, came);
        kind = CHANNEL_MAP_IS;
    } else if (m.kind == CHANNEL_PLAN && came >= 0) {
        sent = plan = find_plan(s, came);
        kind = CHANNEL_PLAN_IS;
    }
    m.kind = sent >= 0 ? kind : CHANNEL_REFUSED;
    m.arena_bytes = ARENA_MOST;
    m.period_ns = s->period_ns;
    m.flags = s->flags;
    reply(fd, &m, sent);
    if (plan >= 0)
        close(plan);
    if (came >= 0)
        close(came);
}

void server_answer(struct server *s)
{
    for (unsigned i = 0; i < 2; i++) {
        int fd;
        // cppcheck-suppress nullPointer
        while ((fd = accept4(s->listeners[i], NULL, NULL, SOCK_CLOEXEC)) >= 0) {
            answer_one(s, fd);
            close(fd);
        }
    }
}
