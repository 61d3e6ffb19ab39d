/*
 * Which libraries a program will load is the dynamic linker's own business (RUNPATH, $ORIGIN,
 * LD_LIBRARY_PATH, its cache, LD_PRELOAD): it is asked, with `--list`, as ldd does. No code of the
 * program or its libraries runs.
 *
 * The maps are made by child processes that take one module after the other, the largest first.
 * They meet in the cache, where each file takes its place in one step.
 */
#include "record/prepare.h"

#include "base/clock.h"
#include "base/vec.h"
#include "edit/plan.h"
#include "elf/elf_file.h"
#include "map/cache.h"
#include "record/target.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct module {
    const char *path;
    off_t size;
};

struct preparation {
    struct map_cache cache;
    const struct plan_kind *plans; /* edit plans, too; NULL: none */
    VEC(struct module) missing;    /* modules without a map, largest first */
};

/* The dynamic linker that the program names, to be freed; NULL when it names none. */
static char *find_linker(const char *program)
{
    struct elf_file file;
    char *linker = NULL;
    GElf_Phdr p;
    size_t count = 0;
    if (elf_open_identity(program, &file, NULL) != CT_OK)
        return NULL;
    elf_getphdrnum(file.elf, &count);
    for (size_t i = 0; i < count && !linker; i++)
        if (gelf_getphdr(file.elf, (int)i, &p) && p.p_type == PT_INTERP &&
            p.p_offset < file.file.size && p.p_filesz <= file.file.size - p.p_offset)
            linker =
                must_format("%.*s", (int)p.p_filesz, (const char *)file.file.bytes + p.p_offset);
    elf_close(&file);
    return linker;
}

/* Starts `linker --list program`; the descriptor is its output, -1 when that fails. */
static int start_listing(char *linker, char *program, pid_t *child)
{
    int ends[2], status;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    char *arguments[] = {linker, "--list", program, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    status = posix_spawn(child, linker, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (status == 0)
        return ends[0];
    close(ends[0]);
    return -1;
}

/* Is a function for others in the module, by its dynamic symbols? */
static bool defines(const struct elf_file *file, const char *wanted)
{
    GElf_Shdr section;
    GElf_Sym symbol;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(file->elf, scn));) {
        if (!gelf_getshdr(scn, &section) || section.sh_type != SHT_DYNSYM || !section.sh_entsize)
            continue;
        Elf_Data *data = elf_getdata(scn, NULL);
        for (size_t i = 0; data && i < section.sh_size / section.sh_entsize; i++) {
            const char *name = gelf_getsym(data, (int)i, &symbol)
                                   ? elf_strptr(file->elf, section.sh_link, symbol.st_name)
                                   : NULL;
            if (name && symbol.st_shndx != SHN_UNDEF && strcmp(name, wanted) == 0)
                return true;
        }
    }
    return false;
}

struct program_memory prepare_memory(const struct program_modules *modules)
{
    struct program_memory memory = {0};
    for (size_t i = 0; i < modules->paths.count; i++) {
        struct elf_file file;
        if (elf_open_identity(modules->paths.items[i], &file, NULL) != CT_OK)
            continue;
        bool has_malloc = defines(&file, "malloc");
        if (i == 0)
            memory.has_malloc = has_malloc;
        else if (has_malloc && defines(&file, "_Znwm"))
            memory.has_new_operator = true;
        elf_close(&file);
    }
    return memory;
}

static void add_if_missing(struct preparation *p, const char *path)
{
    struct stat status;
    bool is_there = p->plans ? plan_of_kind_is_cached(p->plans, &p->cache, path)
                             : map_is_cached(&p->cache, path);
    if (stat(path, &status) == 0 && !is_there)
        vec_push(&p->missing, (struct module){path, status.st_size});
}

static void add_path(struct program_modules *modules, const char *path)
{
    for (size_t i = 0; i < modules->paths.count; i++)
        if (strcmp(modules->paths.items[i], path) == 0)
            return;
    vec_push(&modules->paths, must_strdup(path));
}

/* A line is "NAME => PATH (ADDRESS)" or "PATH (ADDRESS)", also of a path from here; the vdso has
 * none. */
static void take_line(struct program_modules *modules, char *line)
{
    char *arrow = strstr(line, " => "), *path = arrow ? arrow + 4 : line + strspn(line, " \t");
    char *address = strstr(path, " (0x");
    if (!address)
        return;
    *address = '\0';
    if (!strchr(path, '/'))
        return;
    add_path(modules, path);
}

static void list_libraries(struct program_modules *modules, char *linker, char *program)
{
    pid_t child;
    int fd = start_listing(linker, program, &child);
    FILE *lines = fd < 0 ? NULL : fdopen(fd, "r");
    char *line = NULL;
    size_t room = 0;
    while (lines && getline(&line, &room, lines) > 0)
        take_line(modules, line);
    free(line);
    if (lines)
        fclose(lines);
    if (fd >= 0)
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
            ;
}

static int larger_first(const void *a, const void *b)
{
    const struct module *x = a, *y = b;
    return x->size > y->size ? -1 : x->size < y->size;
}

/* In a child: makes maps until there is no module left, and writes a byte for each. */
static void make_maps(struct preparation *p, _Atomic size_t *next, int report)
{
    for (size_t i; (i = (*next)++) < p->missing.count;) {
        struct map map;
        struct plan plan;
        if (map_for_file(&p->cache, p->missing.items[i].path, &map, NULL, NULL) == CT_OK)
            map_close(&map);
        if (p->plans &&
            plan_of_kind(p->plans, &p->cache, p->missing.items[i].path, &plan, NULL) == CT_OK)
            plan_close(&plan);
        if (write(report, "", 1) != 1)
            break; /* the parent does not wait any more */
    }
    _exit(0);
}

/* Until all children have closed the pipe. On a terminal it is said what takes so long. */
static void wait_for_maps(size_t count, int report)
{
    enum { PATIENCE_MS = 1000 };
    struct pollfd wait = {.fd = report, .events = POLLIN};
    double start = now_s();
    size_t done = 0;
    bool shown = false;
    for (;;) {
        if (isatty(2) && (shown || now_s() - start > PATIENCE_MS / 1000.0)) {
            fprintf(stderr, "\rcalltrail: reading modules for the first time: %zu of %zu ", done,
                    count);
            shown = true;
        }
        char bytes[64];
        ssize_t size = poll(&wait, 1, PATIENCE_MS) > 0 ? read(report, bytes, sizeof bytes) : -1;
        if (size > 0)
            done += (size_t)size;
        if (size == 0)
            break;
    }
    if (shown)
        fprintf(stderr, "\r\033[K");
}

static void make_missing(struct preparation *p)
{
    enum { MOST_WORKERS = 16 };
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t workers = processors > 1 ? (size_t)processors : 1;
    pid_t children[MOST_WORKERS];
    int report[2];
    workers = workers < MOST_WORKERS ? workers : MOST_WORKERS;
    workers = workers < p->missing.count ? workers : p->missing.count;
    _Atomic size_t *next =
        mmap(NULL, sizeof *next, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (next == MAP_FAILED || pipe2(report, O_CLOEXEC) != 0)
        return;
    fflush(NULL);
    for (size_t i = 0; i < workers; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            close(report[0]);
            make_maps(p, next, report[1]);
        }
    }
    close(report[1]);
    wait_for_maps(p->missing.count, report[0]);
    close(report[0]);
    for (size_t i = 0; i < workers; i++)
        while (children[i] > 0 && waitpid(children[i], NULL, 0) < 0 && errno == EINTR)
            ;
    munmap(next, sizeof *next);
}

struct program_modules prepare_list(const char *path)
{
    struct program_modules modules = {0};
    char *program = target_elf(path), *linker = find_linker(program);
    add_path(&modules, program);
    if (linker)
        list_libraries(&modules, linker, program);
    free(linker);
    free(program);
    return modules;
}

void prepare_free(struct program_modules *modules)
{
    for (size_t i = 0; i < modules->paths.count; i++)
        free(modules->paths.items[i]);
    vec_free(&modules->paths);
}

void prepare_maps(const struct program_modules *modules, const struct plan_kind *plans)
{
    struct preparation p = {.plans = plans};
    map_cache_open(&p.cache);
    if (p.cache.folder) {
        for (size_t i = 0; i < modules->paths.count; i++)
            add_if_missing(&p, modules->paths.items[i]);
        if (p.missing.count) {
            qsort(p.missing.items, p.missing.count, sizeof *p.missing.items, larger_first);
            make_missing(&p);
        }
    }
    vec_free(&p.missing);
    map_cache_close(&p.cache);
}
