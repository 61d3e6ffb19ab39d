/*
 * The modules of the process: taken from the dynamic linker's own list, at its own hook.
 *
 * The linker calls r_debug's r_brk, an empty function, whenever it has changed the list; debuggers
 * put a breakpoint there, and this puts a jump. Interposing dlopen instead would make calltrail its
 * caller, and a plugin's $ORIGIN and RUNPATH would be looked up in the wrong place (pitfall 21).
 *
 * Handlers read a set that never changes. A new set is made in the other of two buffers; it is only
 * written over when no handler can be using it any more.
 */
#include "runtime/modules.h"

#include "arch/x86_64/syscall.h"
#include "base/search.h"
#include "runtime/arena.h"
#include "runtime/channel.h"
#include "runtime/channel_format.h"
#include "runtime/confined.h"
#include "runtime/edit/edit.h"
#include "runtime/edit/edited.h"
#include "runtime/edit/live.h"
#include "runtime/engine.h"
#include "runtime/loaded.h"
#include "runtime/thread.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* Pages of the arrays are only there when they are used. */
enum { MOST_MODULES = 16384 };

struct known_module {
    uint64_t path_hash, bias;
    uint64_t since; /* bytes of the arena that were in use when it was loaded */
    struct walk_module walk;
    struct map_tables tables;
    const void *map;
    size_t map_bytes;
    uint32_t id;
    uint32_t languages;
    enum module_role role;
};

struct function_table {
    const struct map_function *items;
    uint32_t count;
    const char *strings; /* the last byte is zero */
    uint64_t string_bytes;
};

struct module_set {
    struct walk_modules set;
    struct walk_module items[MOST_MODULES];
    struct map_tables tables[MOST_MODULES];
    uint32_t ids[MOST_MODULES];
    enum module_role roles[MOST_MODULES];
    struct function_table functions[MOST_MODULES];
};

static struct known_module known[MOST_MODULES]; /* sorted by start */
static uint32_t known_count;
static struct module_set sets[2];
static unsigned current;
_Atomic uint32_t modules_generation;
static uint32_t known_in; /* the guest's number, in whose arena the known modules have their ids */

uint32_t modules_id(const struct walk_modules *set, uint32_t index)
{
    return ((const struct module_set *)set)->ids[index];
}

enum module_role modules_role(const struct walk_modules *set, uint32_t index)
{
    return index < set->count ? ((const struct module_set *)set)->roles[index] : ROLE_PROGRAM;
}

/* Unwinders and the dynamic linker look at return addresses of their own functions. */
static enum module_role role_of(const char *path, uint64_t start, uint64_t end)
{
    uint64_t here = (uint64_t)(uintptr_t)role_of;
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    if (here >= start && here < end)
        return ROLE_OURS;
    if (strncmp(name, "libgcc_s.", 9) == 0 || strncmp(name, "libunwind", 9) == 0)
        return ROLE_UNWINDER;
    if (strncmp(name, "ld-linux", 8) == 0 || strncmp(name, "ld-2.", 5) == 0)
        return ROLE_LINKER;
    return ROLE_PROGRAM;
}

/* The tables inside a map file; the supervisor has checked the contents, this checks the frame. */
static bool find_tables(const void *map, size_t bytes, struct map_tables *t)
{
    const struct map_header *h = map;
    const char *b = map;
    if (bytes < sizeof *h || h->magic != MAP_MAGIC || h->version != MAP_VERSION ||
        h->file_size != bytes)
        return false;
    static const uint8_t sizes[] = {[MAP_INDEX] = 4,
                                    [MAP_ROWS] = sizeof(struct map_row),
                                    [MAP_SAVES] = 2,
                                    [MAP_SPECIALS] = sizeof(struct map_special),
                                    [MAP_CORRECTIONS] = sizeof(struct map_range),
                                    [MAP_UNMARKABLE] = sizeof(struct map_range),
                                    [MAP_FUNCTIONS] = sizeof(struct map_function)};
    for (unsigned i = 0; i < sizeof sizes; i++)
        if (h->sections[i].offset > bytes ||
            h->sections[i].count > (bytes - h->sections[i].offset) / sizes[i])
            return false;
    const struct map_section *s = h->sections;
    if (!s[MAP_INDEX].count || s[MAP_SAVES].count != s[MAP_ROWS].count)
        return false;
    *t = (struct map_tables){.index = (const void *)(b + s[MAP_INDEX].offset),
                             .rows = (const void *)(b + s[MAP_ROWS].offset),
                             .saves = (const void *)(b + s[MAP_SAVES].offset),
                             .specials = (const void *)(b + s[MAP_SPECIALS].offset),
                             .corrections = (const void *)(b + s[MAP_CORRECTIONS].offset),
                             .correction_count = (uint32_t)s[MAP_CORRECTIONS].count,
                             .unmarkable = (const void *)(b + s[MAP_UNMARKABLE].offset),
                             .unmarkable_count = (uint32_t)s[MAP_UNMARKABLE].count,
                             .functions = (const void *)(b + s[MAP_FUNCTIONS].offset),
                             .function_count = (uint32_t)s[MAP_FUNCTIONS].count,
                             .bucket_count = (uint32_t)s[MAP_INDEX].count - 1,
                             .row_count = (uint32_t)s[MAP_ROWS].count,
                             .special_count = (uint32_t)s[MAP_SPECIALS].count};
    return true;
}

static uint64_t hash_of(const char *path)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *path; path++)
        h = (h ^ (uint8_t)*path) * UINT64_C(0x100000001b3);
    return h;
}

/* While the program pauses, one may have taken the place of another. */
static struct known_module *find_known(const struct loaded *l)
{
    uint32_t i;
    SEARCH(i, known_count, known[i].walk.start <= l->start);
    struct known_module *m = i ? &known[i - 1] : NULL;
    return m && m->walk.start == l->start && m->walk.end == l->end &&
                   m->path_hash == hash_of(l->path)
               ? m
               : NULL;
}

/* Writes a module into the arena, which gives it its id. */
static void record_module(struct known_module *m, const char *path, uint32_t kind)
{
    size_t length = strlen(path);
    struct arena_module *r = arena_take(sizeof *r + length + 1);
    const struct map_header *map = m->map;
    m->id = ++guest->next_module_id;
    guest->arena->languages |= m->languages;
    if (!r)
        return;
    *r = (struct arena_module){.next = guest->arena->first_module,
                               .id = m->id,
                               .start = m->walk.start,
                               .end = m->walk.end,
                               .base = m->walk.base,
                               .kind = kind,
                               .path_bytes = (uint32_t)length,
                               .map_hash = map ? map->header_hash : 0};
    memcpy(r + 1, path, length); /* the zero byte behind it is there */
    guest->arena->first_module = arena_place(r);
}

static uint32_t languages_of(const struct map_header *map)
{
    return (map->flags & MAP_IS_GO ? LANGUAGE_GO : 0u) |
           (map->flags & MAP_IS_OCAML ? LANGUAGE_OCAML : 0u);
}

static void add_module(struct known_module *out, const struct loaded *l, const void *map,
                       size_t map_bytes)
{
    *out = (struct known_module){.walk = {.start = l->start, .end = l->end, .base = l->start},
                                 .map = map,
                                 .map_bytes = map_bytes};
    if (out->map && !find_tables(out->map, out->map_bytes, &out->tables)) {
        raw_syscall3(SYS_munmap, (long)out->map, (long)out->map_bytes, 0);
        out->map = NULL;
    }
    out->languages = out->map ? languages_of(out->map) : 0;
    out->role = role_of(l->path, l->start, l->end);
    out->path_hash = hash_of(l->path);
    record_module(out, l->path, l->kind);
}

/* The linker binds in ways of its own and is left alone, as we are. */
static void tell_engine(const struct known_module *m, const struct loaded *l)
{
    struct edit_request request = {.base = m->walk.base,
                                   .module_id = m->id,
                                   .headers = l->headers,
                                   .header_count = l->header_count,
                                   .bias = l->bias,
                                   .path = l->path,
                                   .languages = m->languages};
    if (l->kind == MODULE_FILE && m->map && m->role != ROLE_LINKER && m->role != ROLE_OURS)
        ENGINE_CALL(module_loaded, &request);
}

/* The vdso has no file: its image is copied into one. */
static int vdso_file(uint64_t start, uint64_t end)
{
    long fd = raw_syscall3(SYS_memfd_create, (long)"vdso", MFD_CLOEXEC, 0);
    if (fd >= 0)
        raw_syscall3(SYS_write, fd, (long)start, (long)(end - start));
    return (int)fd;
}

static int open_module(const struct loaded *l)
{
    if (l->kind == MODULE_VDSO)
        return vdso_file(l->start, l->end);
    return (int)raw_syscall4(SYS_openat, AT_FDCWD, (long)l->path, O_RDONLY | O_CLOEXEC, 0);
}

/* --- a new set ------------------------------------------------------------------------------ */

static struct loaded loaded[MOST_MODULES]; /* as the linker has them now */
static struct known_module fresh[MOST_MODULES];

/*
 * The maps of the next modules that are not known, asked for at once: a process that does nothing
 * must not spend its time on questions.
 */
static struct {
    struct channel_file files[CHANNEL_MOST_FILES];
    uint32_t modules[CHANNEL_MOST_FILES]; /* their places in `loaded` */
    uint32_t count, next;
    struct channel_vdso vdso; /* it is asked for along with them */
} ahead;

static void ask_ahead(uint32_t from, uint32_t count)
{
    ahead.count = ahead.next = 0;
    ahead.vdso = (struct channel_vdso){0};
    for (uint32_t i = from; i < count; i++)
        if (loaded[i].kind == MODULE_VDSO && !find_known(&loaded[i]))
            ahead.vdso.bytes = loaded[i].end - loaded[i].start;
    for (uint32_t i = from; i < count && ahead.count < CHANNEL_MOST_FILES; i++) {
        if (loaded[i].kind != MODULE_FILE || find_known(&loaded[i]))
            continue;
        int file = open_module(&loaded[i]);
        if (file < 0)
            break;
        ahead.modules[ahead.count] = i;
        ahead.files[ahead.count++] = (struct channel_file){.file = file};
    }
    bool is_answered = ahead.count > 1 && channel_ask_maps(ahead.files, ahead.count, &ahead.vdso);
    for (uint32_t i = 0; i < ahead.count; i++)
        raw_syscall3(SYS_close, ahead.files[i].file, 0, 0);
    if (!is_answered)
        ahead.count = 0;
}

static const void *ask_alone(const struct loaded *l, size_t *bytes)
{
    const void *map = NULL;
    if (l->kind == MODULE_VDSO && ahead.vdso.map && l->end - l->start == ahead.vdso.bytes) {
        map = ahead.vdso.map;
        *bytes = ahead.vdso.map_bytes;
        ahead.vdso = (struct channel_vdso){0};
        return map;
    }
    if (l->kind == MODULE_VDSO && (map = channel_ask_vdso(l->end - l->start, bytes)))
        return map;
    int file = open_module(l);
    if (file < 0)
        return NULL;
    map = channel_ask_map(file, l->path, bytes);
    raw_syscall3(SYS_close, file, 0, 0);
    return map;
}

/* The map of a module that is not known. */
static const void *find_map(uint32_t place, uint32_t count, size_t *bytes)
{
    if (loaded[place].kind == MODULE_FILE && ahead.next == ahead.count)
        ask_ahead(place, count);
    if (ahead.next == ahead.count || ahead.modules[ahead.next] != place)
        return ask_alone(&loaded[place], bytes);
    const struct channel_file *answer = &ahead.files[ahead.next++];
    *bytes = answer->map_bytes;
    return answer->map;
}

static void take(uint32_t n, uint32_t count)
{
    const struct loaded *l = &loaded[n];
    const struct known_module *old = find_known(l);
    if (old) {
        fresh[n] = *old;
        if (known_in != guest->number) { /* a child's arena does not know what its parent loaded */
            record_module(&fresh[n], l->path, l->kind);
            edited_renumber(fresh[n].walk.base, fresh[n].id);
            fresh[n].since = 0;
        }
        return;
    }
    size_t bytes = 0;
    const void *map = find_map(n, count, &bytes);
    add_module(&fresh[n], l, map, bytes);
    fresh[n].bias = l->bias;
    fresh[n].since = guest->arena->used;
    tell_engine(&fresh[n], l);
}

/* Asked when they are sorted. */
static bool stays(const struct known_module *m, uint32_t count)
{
    uint32_t i;
    SEARCH(i, count, fresh[i].walk.start <= m->walk.start);
    return i && fresh[i - 1].walk.start == m->walk.start && fresh[i - 1].map == m->map;
}

static void hide_unloaded(uint32_t count)
{
    static uint64_t bases[MOST_MODULES];
    uint32_t gone = 0;
    for (uint32_t i = 0; i < known_count; i++) {
        if (stays(&known[i], count))
            continue;
        bases[gone++] = known[i].walk.base;
        ENGINE_CALL(module_unloaded, known[i].walk.start, known[i].walk.end, known[i].since);
    }
    if (gone)
        edit_hide_modules(bases, gone);
}

static void forget_unloaded(uint32_t count)
{
    edit_forget_hidden();
    for (uint32_t i = 0; i < known_count; i++) {
        const void *map = known[i].map;
        if (!map || stays(&known[i], count))
            continue;
        known[i].map = NULL; /* first: as in edit_forget_hidden */
        raw_syscall3(SYS_munmap, (long)map, (long)known[i].map_bytes, 0);
    }
}

/* By insertion with falling gaps (Shell): the linker maps one below the other, so that the list is
 * about the wrong way round, and there may be thousands. */
static void sort_fresh(uint32_t count)
{
    uint32_t gap = 1;
    while (gap < count / 3)
        gap = gap * 3 + 1;
    for (; gap; gap /= 3) {
        for (uint32_t i = gap; i < count; i++) {
            struct known_module m = fresh[i];
            uint32_t k = i;
            for (; k >= gap && fresh[k - gap].walk.start > m.walk.start; k -= gap)
                fresh[k] = fresh[k - gap];
            fresh[k] = m;
        }
    }
}

static struct function_table functions_of(const struct known_module *m)
{
    const struct map_header *h = m->map;
    if (!h || h->sections[MAP_FUNCTIONS].offset > m->map_bytes ||
        h->sections[MAP_FUNCTIONS].count >
            (m->map_bytes - h->sections[MAP_FUNCTIONS].offset) / sizeof(struct map_function))
        return (struct function_table){0};
    struct function_table t = {
        .items = (const void *)((const char *)m->map + h->sections[MAP_FUNCTIONS].offset),
        .count = (uint32_t)h->sections[MAP_FUNCTIONS].count};
    const struct map_section *strings = &h->sections[MAP_STRINGS];
    if (strings->offset <= m->map_bytes && strings->count <= m->map_bytes - strings->offset) {
        t.strings = (const char *)m->map + strings->offset;
        t.string_bytes = strings->count;
    }
    return t;
}

uint32_t modules_find(const struct walk_modules *set, uint64_t address)
{
    uint32_t i;
    SEARCH(i, set->count, set->items[i].start <= address);
    return i && address < set->items[i - 1].end ? i - 1 : UINT32_MAX;
}

/* What is known of the function that holds an address of a module; NULL: nothing. */
static const struct map_function *function_at(const struct walk_modules *set, uint32_t index,
                                              uint64_t address)
{
    const struct function_table *t = &((const struct module_set *)set)->functions[index];
    uint64_t offset = address - set->items[index].base;
    uint32_t i;
    SEARCH(i, t->count, t->items[i].start <= offset);
    if (!i || offset - t->items[i - 1].start >= t->items[i - 1].size)
        return NULL;
    return map_whole_function(t->items, t->count, &t->items[i - 1]);
}

uint64_t modules_function(const struct walk_modules *set, uint64_t address)
{
    uint32_t index = modules_find(set, address);
    const struct map_function *f = index == UINT32_MAX ? NULL : function_at(set, index, address);
    return f ? set->items[index].base + f->start : address;
}

const char *modules_function_name(const struct walk_modules *set, uint64_t address)
{
    uint32_t index = modules_find(set, address);
    const struct map_function *f = index == UINT32_MAX ? NULL : function_at(set, index, address);
    if (!f)
        return NULL;
    const struct function_table *t = &((const struct module_set *)set)->functions[index];
    return f->name && f->name < t->string_bytes ? t->strings + f->name : NULL;
}

static void publish(uint32_t count)
{
    struct module_set *next = &sets[current ^= 1];
    modules_generation++;
    for (uint32_t i = 0; i < count; i++) {
        next->items[i] = fresh[i].walk;
        next->tables[i] = fresh[i].tables;
        next->items[i].tables = fresh[i].map ? &next->tables[i] : NULL;
        next->ids[i] = fresh[i].id;
        next->roles[i] = fresh[i].role;
        next->functions[i] = functions_of(&fresh[i]);
    }
    next->set = (struct walk_modules){
        .count = count, .generation = modules_generation, .items = next->items};
    guest->modules = &next->set;
}

/*
 * In the child of a fork the linker may have been at work, in a thread that the child has not got:
 * what is in its list need not be in memory any more, or not yet. What the parent knew is taken
 * as it was, and nothing is read.
 */
static bool was_known(struct loaded *m)
{
    for (uint32_t i = 0; i < known_count; i++) {
        if (known[i].bias != m->bias || known[i].path_hash != hash_of(m->path))
            continue;
        m->start = known[i].walk.start;
        m->end = known[i].walk.end;
        return true;
    }
    return false;
}

static bool is_changing; /* the linker's lists may differ from what is known */

void modules_refresh(void)
{
    if (!guest->arena)
        return;
    bool may_read = loaded_is_settled() || !known_count;
    uint32_t n = loaded_list(loaded, MOST_MODULES, may_read ? NULL : was_known);
    ahead.count = ahead.next = 0;
    for (uint32_t i = 0; i < n; i++)
        take(i, n);
    sort_fresh(n);
    publish(n);
    hide_unloaded(n);
    /* The set before this one, the maps and the plans that are about to go may be in use. */
    threads_wait_for_handlers();
    forget_unloaded(n);
    memcpy(known, fresh, n * sizeof *known);
    known_count = n;
    known_in = guest->number;
    __atomic_store_n(&is_changing, !loaded_is_settled(), __ATOMIC_RELEASE);
}

/*
 * Who puts code back must not meet a module that is coming or going. The linker calls this hook
 * when it has said that it begins, and has not unmapped anything yet: it waits here for who holds
 * the code, and no other thread gets hold of it from then on, until what has come and gone is
 * known.
 */
static void on_change(void)
{
    if (!guest || !guest->arena || is_confined())
        return;
    __atomic_store_n(&is_changing, true, __ATOMIC_SEQ_CST);
    while (__atomic_load_n((uint32_t *)&guest->code_lock, __ATOMIC_SEQ_CST))
        raw_syscall3(SYS_sched_yield, 0, 0, 0);
    if (loaded_is_settled())
        modules_refresh();
}

bool modules_hold(void)
{
    if (__atomic_exchange_n((uint32_t *)&guest->code_lock, 1, __ATOMIC_SEQ_CST))
        return false;
    if (!__atomic_load_n(&is_changing, __ATOMIC_SEQ_CST) && loaded_is_settled())
        return true;
    modules_let_go();
    return false;
}

void modules_let_go(void)
{
    __atomic_store_n((uint32_t *)&guest->code_lock, 0, __ATOMIC_RELEASE);
}

enum { WATCH_BYTES = 14 };
static uint8_t linkers_own[WATCH_BYTES],
    ours[WATCH_BYTES]; /* its bytes before, and with our jump */

/* The hook's bytes become others. No thread stands behind its first instruction. */
static bool replace_hook(const uint8_t *before, const uint8_t *bytes)
{
    struct live_site hook = {(uint64_t)loaded_linker->r_brk, before, bytes, WATCH_BYTES,
                             WATCH_BYTES};
    return live_replace(NULL, &hook, 1, 0);
}

void modules_watch(void)
{
    loaded_find_linker();
    /* An empty function: ret, and padding up to the next 16 bytes. */
    uint8_t *at = (uint8_t *)loaded_linker->r_brk;
    void (*target)(void) = on_change;
    if (!at || (uint64_t)at % 16 != 0 || at[0] != 0xc3)
        return;
    for (unsigned i = 1; i + 1 < 8; i++)
        if (at[i] == 0x55 || at[i] == 0x48) /* code of another function */
            return;
    uint8_t before[WATCH_BYTES];
    memcpy(before, at, sizeof before);
    memcpy(ours, "\xff\x25\0\0\0\0", 6); /* jmp *0(%rip); the address follows */
    memcpy(ours + WATCH_BYTES - sizeof target, &target, sizeof target);
    if (replace_hook(before, ours))
        memcpy(linkers_own, before, sizeof before);
}

void modules_unwatch(void)
{
    if (linkers_own[0] && replace_hook(ours, linkers_own))
        linkers_own[0] = 0;
}
