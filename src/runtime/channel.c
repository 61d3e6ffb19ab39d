#include "runtime/channel.h"

#include "arch/x86_64/syscall.h"
#include "runtime/arena_map.h"
#include "runtime/channel_format.h"
#include "runtime/confined.h"
#include "runtime/engine.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

static char socket_name[CHANNEL_NAME_BYTES], secret[CHANNEL_NAME_BYTES];
static struct sockaddr_un in_folder = {.sun_family = AF_UNIX};
static bool has_address;

/* One at a time: the structure is too large for a small stack. */
static struct channel_message message;

unsigned channel_filters(const char *value)
{
    const char *at = strrchr(value, ',');
    unsigned number = 0;
    for (at = at ? at + 1 : ""; *at >= '0' && *at <= '9'; at++)
        number = number * 10 + (unsigned)(*at - '0');
    return number;
}

bool channel_set_address(const char *value)
{
    enum { BOTH_NAMES = 2 * (CHANNEL_NAME_BYTES + 1) };
    static const char name[] = "/" CHANNEL_SOCKET;
    const char *end = strrchr(value, ',');
    size_t length = end ? (size_t)(end - value) : 0;
    if (length <= BOTH_NAMES || length - BOTH_NAMES + sizeof name > sizeof in_folder.sun_path ||
        value[CHANNEL_NAME_BYTES] != ',' || value[BOTH_NAMES - 1] != ',')
        return false;
    memcpy(socket_name, value, CHANNEL_NAME_BYTES);
    memcpy(secret, value + CHANNEL_NAME_BYTES + 1, CHANNEL_NAME_BYTES);
    memcpy(in_folder.sun_path, value + BOTH_NAMES, length - BOTH_NAMES);
    memcpy(in_folder.sun_path + length - BOTH_NAMES, name, sizeof name);
    return has_address = true;
}

/* Some descriptors; those that are not there are -1. */
struct descriptors {
    int items[CHANNEL_MOST_FILES];
    uint32_t count;
};

/*
 * The descriptors of the request that is under way: the connection, or -1, and the files that it is
 * about. A child that is forked meanwhile has copies of them, which it closes. They are noted last
 * and forgotten first, so that none is closed that has become the program's.
 */
static struct {
    int connection;
    struct descriptors files;
} held = {.connection = -1};

static void close_all(struct descriptors d)
{
    for (uint32_t i = 0; i < d.count; i++)
        raw_syscall3(SYS_close, d.items[i], 0, 0);
}

static void close_held(void)
{
    int connection = held.connection;
    struct descriptors files = held.files;
    held.connection = -1;
    held.files.count = 0;
    if (connection >= 0)
        raw_syscall3(SYS_close, connection, 0, 0);
    close_all(files);
}

static int connect_channel(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path + 1, socket_name, CHANNEL_NAME_BYTES);
    long size = (long)(offsetof(struct sockaddr_un, sun_path) + 1 + CHANNEL_NAME_BYTES);
    long fd = raw_syscall3(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 && raw_syscall3(SYS_connect, fd, (long)&address, size) < 0 &&
        raw_syscall3(SYS_connect, fd, (long)&in_folder, sizeof in_folder) < 0) {
        raw_syscall3(SYS_close, fd, 0, 0);
        return -1;
    }
    return (int)fd;
}

union descriptor_room {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int[CHANNEL_MOST_FILES]))];
};

static bool send_bytes(int fd, void *bytes, size_t size, const struct descriptors *files)
{
    union descriptor_room room;
    struct iovec part = {bytes, size};
    struct msghdr h = {.msg_iov = &part, .msg_iovlen = 1};
    if (files->count) {
        size_t file_bytes = files->count * sizeof files->items[0];
        memset(&room, 0, sizeof room);
        h.msg_control = &room;
        h.msg_controllen = CMSG_SPACE(file_bytes);
        room.header.cmsg_level = SOL_SOCKET;
        room.header.cmsg_type = SCM_RIGHTS;
        room.header.cmsg_len = CMSG_LEN(file_bytes);
        memcpy(CMSG_DATA(&room.header), files->items, file_bytes);
    }
    return raw_syscall3(SYS_sendmsg, fd, (long)&h, MSG_NOSIGNAL) == (long)size;
}

static bool send_message(int fd, const struct descriptors *files)
{
    memcpy(message.secret, secret, sizeof secret);
    return send_bytes(fd, &message, sizeof message, files);
}

/* Is there an answer, before patience is at its end? */
static bool wait_for_answer(int fd, int patience_ms)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    long came;
    while ((came = raw_syscall3(SYS_poll, (long)&wait, 1, patience_ms)) == -EINTR)
        ; /* a signal of the program's own */
    return came > 0;
}

/* Waits for the answer; returns the descriptors that came along. */
static struct descriptors receive_message(int fd)
{
    union descriptor_room room;
    struct descriptors came = {.count = 0};
    struct iovec part = {&message, sizeof message};
    struct msghdr h = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof room};
    int patience = message.kind == CHANNEL_HELLO ? CHANNEL_TIMEOUT_MS : CHANNEL_MAKING_TIMEOUT_MS;
    message.kind = 0;
    if (!wait_for_answer(fd, patience) ||
        raw_syscall3(SYS_recvmsg, fd, (long)&h, MSG_CMSG_CLOEXEC) != sizeof message ||
        h.msg_controllen < CMSG_LEN(sizeof(int)) || room.header.cmsg_type != SCM_RIGHTS)
        return came;
    size_t bytes = room.header.cmsg_len - CMSG_LEN(0);
    came.count = (uint32_t)(bytes / sizeof came.items[0]);
    memcpy(came.items, CMSG_DATA(&room.header), bytes);
    return came;
}

/* Sends the message and gives back the descriptors of the answer, if it is of that kind. */
static struct descriptors ask(const struct descriptors *files, uint32_t expected)
{
    int fd = has_address ? connect_channel() : -1;
    struct descriptors answer = {.count = 0};
    held.connection = fd;
    held.files = *files;
    if (fd >= 0 && send_message(fd, files))
        answer = receive_message(fd);
    held.connection = -1;
    held.files.count = 0;
    if (fd >= 0)
        raw_syscall3(SYS_close, fd, 0, 0);
    if (message.kind != expected) {
        close_all(answer);
        answer.count = 0;
    }
    return answer;
}

/* The same where one is expected; -1: none. */
static int ask_for_one(int file, uint32_t expected)
{
    struct descriptors files = {.items = {file}, .count = file >= 0};
    struct descriptors answer = ask(&files, expected);
    return answer.count ? answer.items[0] : -1;
}

static void lock_message(void)
{
    while (__atomic_exchange_n((uint32_t *)&guest->message_lock, 1, __ATOMIC_ACQUIRE))
        raw_syscall3(SYS_sched_yield, 0, 0, 0);
    memset(&message, 0, sizeof message);
}

static void unlock_message(void)
{
    __atomic_store_n((uint32_t *)&guest->message_lock, 0, __ATOMIC_RELEASE);
}

/* Maps all of a file; NULL when that cannot be done. */
static void *map_descriptor(int fd, uint64_t bytes, int protection)
{
    void *memory = raw_mmap(bytes, protection, MAP_SHARED, fd);
    raw_syscall3(SYS_close, fd, 0, 0);
    return memory;
}

bool channel_attach(void)
{
    close_held();
    lock_message();
    message.kind = CHANNEL_HELLO;
    message.pid = (uint64_t)raw_syscall3(SYS_getpid, 0, 0, 0);
    message.parent_pid = (uint64_t)raw_syscall3(SYS_getppid, 0, 0, 0);
    int fd = ask_for_one(-1, CHANNEL_WELCOME);
    struct arena_header *arena = NULL;
    if (fd >= 0)
        arena = arena_map(fd, message.arena_bytes, engine_wants_low_arena(message.engine));
    if (arena) {
        static uint32_t attached;
        guest->number = ++attached;
        guest->flags = message.flags;
        guest->arena = arena;
        memcpy(guest->settings, arena->settings, sizeof guest->settings);
    }
    uint32_t engine = message.engine;
    unlock_message();
    if (arena)
        engine_begin(engine);
    return arena != NULL;
}

static const void *map_answer(int fd, size_t *bytes)
{
    struct stat status;
    if (fd < 0)
        return NULL;
    if (raw_syscall3(SYS_fstat, fd, (long)&status, 0) < 0) {
        raw_syscall3(SYS_close, fd, 0, 0);
        return NULL;
    }
    *bytes = (size_t)status.st_size;
    return map_descriptor(fd, (uint64_t)status.st_size, PROT_READ);
}

static const void *ask_for(uint32_t kind, uint32_t expected, int file, const char *path,
                           size_t *bytes)
{
    lock_message();
    message.kind = kind;
    size_t length = strnlen(path, sizeof message.text - 1);
    memcpy(message.text, path, length);
    message.text_bytes = (uint32_t)length;
    int fd = ask_for_one(file, expected);
    unlock_message();
    return map_answer(fd, bytes);
}

const void *channel_ask_map(int file, const char *path, size_t *bytes)
{
    return ask_for(CHANNEL_MAP, CHANNEL_MAP_IS, file, path, bytes);
}

const void *channel_ask_plan(int file, const char *path, size_t *bytes)
{
    return ask_for(CHANNEL_PLAN, CHANNEL_PLAN_IS, file, path, bytes);
}

const void *channel_ask_vdso(uint64_t vdso_bytes, size_t *bytes)
{
    lock_message();
    message.kind = CHANNEL_VDSO;
    message.module_bytes = vdso_bytes;
    int fd = ask_for_one(-1, CHANNEL_MAP_IS);
    unlock_message();
    return map_answer(fd, bytes);
}

bool channel_ask_maps(struct channel_file *files, uint32_t count, struct channel_vdso *vdso)
{
    struct descriptors sent = {.count = count};
    bool has_map[CHANNEL_MOST_FILES];
    for (uint32_t i = 0; i < count; i++)
        sent.items[i] = files[i].file;
    lock_message();
    message.kind = CHANNEL_MAPS;
    message.module_bytes = vdso && count < CHANNEL_MOST_FILES ? vdso->bytes : 0;
    struct descriptors came = ask(&sent, CHANNEL_MAPS_ARE);
    bool is_answered = message.kind == CHANNEL_MAPS_ARE;
    uint32_t expected = 0;
    for (uint32_t i = 0; i < count; i++)
        expected += has_map[i] = is_answered && message.text[i];
    bool has_vdso = is_answered && message.module_bytes;
    expected += has_vdso;
    unlock_message();
    if (!is_answered || came.count != expected) { /* there were not enough descriptors left */
        close_all(came);
        return false;
    }
    uint32_t k = 0;
    for (uint32_t i = 0; i < count; i++)
        files[i].map = has_map[i] ? map_answer(came.items[k++], &files[i].map_bytes) : NULL;
    if (has_vdso && k < came.count)
        vdso->map = map_answer(came.items[k], &vdso->map_bytes);
    return true;
}

/* --- programs that are started ------------------------------------------------------------------
 */

static_assert(offsetof(struct channel_message, pid) == offsetof(struct channel_note, pid),
              "a note is the beginning of a message");

/* Sends a note; its kind is then that of the answer, or 0. */
static void exchange_note(struct channel_note *note, const struct descriptors *files)
{
    int fd = has_address ? connect_channel() : -1;
    memcpy(note->secret, secret, sizeof secret);
    bool is_sent = fd >= 0 && send_bytes(fd, note, sizeof *note, files);
    note->kind = 0;
    if (is_sent && wait_for_answer(fd, CHANNEL_TIMEOUT_MS))
        raw_syscall6(SYS_recvfrom, fd, (long)note, sizeof *note, 0, 0, 0);
    if (fd >= 0)
        raw_syscall3(SYS_close, fd, 0, 0);
}

bool channel_may_host(int file, bool in_own_memory)
{
    struct channel_note note = {.kind = CHANNEL_RUN};
    struct descriptors files = {.count = 1, .items = {file}};
    if (in_own_memory) { /* a child that another thread makes meanwhile closes its copies */
        lock_message();
        held.files = files;
    }
    exchange_note(&note, &files);
    if (in_own_memory) {
        held.files.count = 0;
        unlock_message();
    }
    return note.kind == CHANNEL_RUN_WITH;
}

void channel_say_not_run(void)
{
    struct channel_note note = {.kind = CHANNEL_NOT_RUN};
    exchange_note(&note, &(struct descriptors){.count = 0});
}
