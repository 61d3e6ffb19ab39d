/*
 * What processes ask for: an arena, the map of a module, its edit plan.
 *
 * A map or a plan that is not in the cache takes long to make: 20 seconds for the largest modules.
 * A child process makes it, and the process that asked is answered from the cache when that has
 * ended; the others get their answers, and their arenas grow, meanwhile.
 */
#include "record/server.h"

#include "base/clock.h"
#include "edit/plan.h"
#include "record/target.h"
#include "runtime/channel_format.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_BYTES = 64 };

static const char *path_of(int file, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "/proc/self/fd/%d", file);
    return path;
}

/* A descriptor of the map of the file that came along; -1 when there is none. */
static int find_map(struct server *s, int file)
{
    char path[PATH_BYTES];
    struct open_map *map = open_maps_find(&s->maps, path_of(file, path));
    return map ? open_map_fd(map) : -1;
}

/* The vdso is the same for all processes, and has no file. */
static int find_vdso(struct server *s, uint64_t bytes)
{
    struct open_map *map = open_maps_vdso(&s->maps, bytes);
    return map ? open_map_fd(map) : -1;
}

/* Is this module's code to be edited? */
static bool is_wanted(const struct server *s, const char *link)
{
    char path[4096];
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    return engine_edits(s->engine, s->engine_options) &&
           (length <= 0 || s->engine->edits(s->engine_options, path));
}

static int find_plan(struct server *s, int file)
{
    char path[PATH_BYTES];
    static const struct plan_header nothing = {
        .magic = PLAN_MAGIC, .version = PLAN_VERSION, .file_bytes = sizeof nothing};
    struct plan plan = {.header = &nothing};
    bool wanted = is_wanted(s, path_of(file, path));
    if (wanted &&
        (s->engine->choose_plan ? s->engine->choose_plan(s->engine_options, s, path, &plan)
                                : plan_of_kind(record_engine_plans(s->engine), &s->maps.cache, path,
                                               &plan, NULL)) != CT_OK)
        return -1;
    int fd = plan_descriptor(&plan);
    if (wanted)
        plan_close(&plan);
    return fd;
}

/* Descriptors that come with a message, or go with one. */
struct descriptors {
    int items[CHANNEL_MOST_FILES];
    uint32_t count;
};

union descriptor_room {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int[CHANNEL_MOST_FILES]))];
};

static bool receive(int fd, struct channel_message *m, struct descriptors *came)
{
    union descriptor_room room;
    struct iovec part = {m, sizeof *m};
    struct msghdr h = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof room};
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    came->count = 0;
    if (poll(&wait, 1, 1000) <= 0)
        return false;
    ssize_t size = recvmsg(fd, &h, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (size > 0 && h.msg_controllen >= CMSG_LEN(sizeof(int)) &&
        room.header.cmsg_type == SCM_RIGHTS) {
        size_t bytes = room.header.cmsg_len - CMSG_LEN(0);
        came->count = (uint32_t)(bytes / sizeof came->items[0]);
        memcpy(came->items, CMSG_DATA(&room.header), bytes);
    }
    return size == sizeof *m || size == sizeof(struct channel_note);
}

static void reply(int fd, struct channel_message *m, const struct descriptors *sent)
{
    union descriptor_room room = {0};
    struct iovec part = {m, sizeof *m};
    struct msghdr h = {.msg_iov = &part, .msg_iovlen = 1};
    if (sent->count) {
        size_t bytes = sent->count * sizeof sent->items[0];
        h.msg_control = &room;
        h.msg_controllen = CMSG_SPACE(bytes);
        room.header.cmsg_level = SOL_SOCKET;
        room.header.cmsg_type = SCM_RIGHTS;
        room.header.cmsg_len = CMSG_LEN(bytes);
        memcpy(CMSG_DATA(&room.header), sent->items, bytes);
    }
    sendmsg(fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void reply_with(int fd, struct channel_message *m, int descriptor)
{
    struct descriptors one = {.items = {descriptor}, .count = descriptor >= 0};
    reply(fd, m, &one);
}

/* The kernel's word for who is asking: the pid in this process's own namespace. */
static uint64_t peer_pid(int fd)
{
    struct ucred who = {0};
    socklen_t size = sizeof who;
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size);
    return (uint64_t)who.pid;
}

/* --- what is made first ------------------------------------------------------------------------
 */

static bool is_in_cache(struct server *s, uint32_t kind, const char *path)
{
    if (kind == CHANNEL_MAP)
        return open_maps_has(&s->maps, path) || map_is_cached(&s->maps.cache, path);
    return !is_wanted(s, path) ||
           plan_of_kind_is_cached(record_engine_plans(s->engine), &s->maps.cache, path);
}

/* In a child process. */
static void make_in_cache(struct server *s, uint32_t kind, const char *path)
{
    struct map map;
    struct plan plan;
    if (kind == CHANNEL_MAP && map_for_file(&s->maps.cache, path, &map, NULL, NULL) == CT_OK)
        map_close(&map);
    else if (kind == CHANNEL_PLAN && plan_of_kind(record_engine_plans(s->engine), &s->maps.cache,
                                                  path, &plan, NULL) == CT_OK)
        plan_close(&plan);
    _exit(0);
}

/* The process that makes the same already, or a new one; -1: there is none. */
static pid_t find_maker(struct server *s, uint32_t kind, const struct stat *file, const char *path)
{
    for (size_t i = 0; i < s->waiting.count; i++) {
        const struct server_waiting *w = &s->waiting.items[i];
        if (w->kind == kind && w->device == file->st_dev && w->inode == file->st_ino)
            return w->maker;
    }
    fflush(NULL);
    pid_t maker = fork();
    if (maker == 0)
        make_in_cache(s, kind, path);
    s->maps.cache.is_tidy = true; /* the first one sees to it */
    return maker;
}

/* Does the process that asked for this have to wait? Then both descriptors are kept until the
 * answer. */
static bool waits(struct server *s, uint32_t kind, int file, int fd)
{
    char path[PATH_BYTES];
    struct stat status;
    if (!s->maps.cache.folder || fstat(file, &status) != 0 ||
        is_in_cache(s, kind, path_of(file, path)))
        return false;
    struct server_waiting w = {.kind = kind,
                               .fd = fd,
                               .file = file,
                               .device = status.st_dev,
                               .inode = status.st_ino,
                               .since_s = now_s(),
                               .maker = find_maker(s, kind, &status, path)};
    if (w.maker < 0)
        return false;
    vec_push(&s->waiting, w);
    return true;
}

/* On a terminal it is said what takes so long. */
static void say_what_takes_long(struct server_waiting *w)
{
    enum { PATIENCE_S = 2 };
    char path[PATH_BYTES], name[4096];
    if (w->is_said || now_s() - w->since_s < PATIENCE_S || !isatty(2))
        return;
    w->is_said = true;
    ssize_t length = readlink(path_of(w->file, path), name, sizeof name - 1);
    if (length > 0)
        fprintf(stderr, "calltrail: the program waits: %.*s is read for the first time\n",
                (int)length, name);
}

/* --- answers ------------------------------------------------------------------------------------
 */

static void answer(struct server *s, struct channel_message *m, int fd, int came)
{
    int sent = -1;
    uint32_t kind = CHANNEL_REFUSED;
    if (m->kind == CHANNEL_HELLO && ((s->flags & CHANNEL_FOLLOW) || !s->arenas.count)) {
        sent = server_make_arena(s, m, peer_pid(fd), false);
        if (sent < 0) {
            s->without_arena++;
            s->why_without = errno;
        }
        kind = CHANNEL_WELCOME;
    } else if (m->kind == CHANNEL_MAP && came >= 0) {
        sent = find_map(s, came);
        kind = CHANNEL_MAP_IS;
    } else if (m->kind == CHANNEL_VDSO) {
        sent = find_vdso(s, m->module_bytes);
        kind = CHANNEL_MAP_IS;
    } else if (m->kind == CHANNEL_PLAN && came >= 0) {
        sent = find_plan(s, came);
        kind = CHANNEL_PLAN_IS;
    }
    m->kind = sent >= 0 ? kind : CHANNEL_REFUSED;
    m->arena_bytes = server_arena_most(s);
    m->period_ns = s->period_ns;
    m->flags = s->flags;
    m->engine = s->engine->number;
    reply_with(fd, m, sent);
    if (sent >= 0 && kind != CHANNEL_MAP_IS) /* the maps keep theirs */
        close(sent);
}

/* Several maps at once, if none of them has to be made. */
static void answer_several(struct server *s, struct channel_message *m, int fd,
                           const struct descriptors *files)
{
    char path[PATH_BYTES];
    struct descriptors sent = {.count = 0};
    bool are_there = true;
    for (uint32_t i = 0; i < files->count && are_there; i++)
        are_there = is_in_cache(s, CHANNEL_MAP, path_of(files->items[i], path));
    m->kind = are_there ? CHANNEL_MAPS_ARE : CHANNEL_REFUSED;
    for (uint32_t i = 0; i < files->count && are_there; i++) {
        int map = find_map(s, files->items[i]);
        m->text[i] = map >= 0;
        if (map >= 0)
            sent.items[sent.count++] = map;
    }
    int vdso = are_there && m->module_bytes && sent.count < CHANNEL_MOST_FILES
                   ? find_vdso(s, m->module_bytes)
                   : -1;
    m->module_bytes = vdso >= 0;
    if (vdso >= 0)
        sent.items[sent.count++] = vdso;
    reply(fd, m, &sent);
}

/* --- programs that are started -------------------------------------------------------------------
 */

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mode == b->st_mode && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* In doubt the runtime gets in, as it does into what is no program but has an interpreter. */
static struct server_program program_of_file(struct server *s, int file)
{
    struct server_program found = {.is_host = true, .is_inside = true};
    struct ct_error why;
    char path[PATH_BYTES], name[ARENA_PROGRAM_BYTES];
    struct target_ways ways;
    if (fstat(file, &found.file) != 0)
        return found;
    for (size_t i = 0; i < s->programs.count; i++)
        if (is_same_file(&s->programs.items[i].file, &found.file))
            return s->programs.items[i];
    bool is_good = target_check_host(path_of(file, path), &ways, &why) == CT_OK;
    found.is_host = is_good || !ways.outside;
    found.is_inside = is_good || ways.inside;
    if (!is_good) { /* "/proc/self/fd/7: is statically linked" */
        const char *reason = strstr(why.text, ": ");
        ssize_t length = readlink(path, name, sizeof name - 1);
        found.path = must_format("%.*s", (int)(length > 0 ? length : 0), name);
        found.why = must_strdup(reason ? reason + 2 : why.text);
    }
    vec_push(&s->programs, found);
    return found;
}

static void forget_stranger(struct server *s, uint32_t pid)
{
    for (size_t i = 0; i < s->strangers.count; i++) {
        if (s->strangers.items[i].pid == pid) {
            s->strangers.items[i] = s->strangers.items[--s->strangers.count];
            return;
        }
    }
}

/* Notes what is about to run without being measured, which may be over before it is looked for. */
static void note_stranger(struct server *s, uint32_t pid, const struct server_program *program)
{
    struct server_stranger found = {
        .pid = pid, .parent = UINT32_MAX, .count = 1, .why = program->why};
    uint64_t parent = server_parent_of(pid);
    for (size_t i = 0; i < s->arenas.count; i++) {
        bool is_itself = s->arenas.items[i].pid == pid;
        if (is_itself || (!found.is_exec && s->arenas.items[i].pid == parent)) {
            found.parent = (uint32_t)i;
            found.is_exec = is_itself;
        }
    }
    snprintf(found.program, sizeof found.program, "%s", program->path);
    forget_stranger(s, pid);
    vec_push(&s->strangers, found);
}

/* Is it about a program that is started? */
static bool take_note(struct server *s, struct channel_message *m, int fd, int came)
{
    const struct server_outsiders *o = s->outsiders;
    uint32_t pid = (uint32_t)peer_pid(fd);
    struct server_program program = {.is_host = true, .is_inside = true};
    bool is_host = true;
    switch (m->kind) {
    case CHANNEL_RUN:
        program = came < 0 ? program : program_of_file(s, came);
        is_host = program.is_host;
        if (!program.is_inside && (!o || is_host))
            note_stranger(s, pid, &program);
        if (o)
            (is_host ? o->unexpect : o->expect)(o->context, pid);
        m->kind = is_host ? CHANNEL_RUN_WITH : CHANNEL_RUN_WITHOUT;
        break;
    case CHANNEL_NOT_RUN:
        forget_stranger(s, pid);
        if (o)
            o->unexpect(o->context, pid);
        break;
    default:
        return false;
    }
    send(fd, m, sizeof(struct channel_note), MSG_NOSIGNAL | MSG_DONTWAIT);
    return true;
}

static void take_question(struct server *s, int fd)
{
    static struct channel_message m;
    struct descriptors files;
    bool is_ours = receive(fd, &m, &files) &&
                   memcmp(m.secret, s->address + CHANNEL_NAME_BYTES + 1, sizeof m.secret) == 0;
    int came = files.count == 1 ? files.items[0] : -1;
    if (is_ours && came >= 0 && (m.kind == CHANNEL_MAP || m.kind == CHANNEL_PLAN) &&
        waits(s, m.kind, came, fd))
        return;
    if (is_ours && m.kind == CHANNEL_MAPS)
        answer_several(s, &m, fd, &files);
    else if (is_ours && !take_note(s, &m, fd, came))
        answer(s, &m, fd, came);
    for (uint32_t i = 0; i < files.count; i++)
        close(files.items[i]);
    close(fd);
}

static void answer_waiting(struct server *s)
{
    static struct channel_message m;
    size_t left = 0;
    for (size_t i = 0; i < s->waiting.count; i++) {
        struct server_waiting w = s->waiting.items[i];
        int status = waitpid(w.maker, NULL, WNOHANG);
        if (status == 0) {
            say_what_takes_long(&w);
            s->waiting.items[left++] = w;
            continue;
        }
        /* It has ended; for the second one that waits for it, it is not there any more. */
        m = (struct channel_message){.kind = w.kind};
        answer(s, &m, w.fd, w.file);
        close(w.file);
        close(w.fd);
    }
    s->waiting.count = left;
}

void server_answer(struct server *s)
{
    for (unsigned i = 0; i < 2; i++) {
        int fd;
        // cppcheck-suppress nullPointer
        while ((fd = accept4(s->listeners[i], NULL, NULL, SOCK_CLOEXEC)) >= 0)
            take_question(s, fd);
    }
    answer_waiting(s);
}

void server_stop_making(struct server *s)
{
    for (size_t i = 0; i < s->waiting.count; i++) {
        struct server_waiting w = s->waiting.items[i];
        if (waitpid(w.maker, NULL, WNOHANG) == 0) { /* the first one that waits for it sees to it */
            kill(w.maker, SIGKILL);
            waitpid(w.maker, NULL, 0);
        }
        close(w.file);
        close(w.fd);
    }
    vec_free(&s->waiting);
}
