/*
 * From snapshots to calls, to keys and to text. Those of the calling thread and its numbers of now
 * are decoded by what the engine has; others by the dictionary that their thread has left in the
 * arena, which takes longer, since all of it is read.
 */
#include "runtime/encode/here.h"

#include "arch/x86_64/syscall.h"
#include "encoding/context_key.h"
#include "encoding/snapshot_text.h"
#include "runtime/arena.h"
#include "runtime/sample/sample.h"

#include <string.h>
#include <sys/mman.h>

/* --- where words are looked up ---------------------------------------------------------------- */

struct source {
    const struct contexts *own; /* NULL: */
    const struct dictionary *read;
};

struct step {
    uint64_t site_key, callee_key;
    uint64_t caller; /* word */
    bool is_call;    /* false: the thread begins here */
    bool is_tail;
};

static void *take_memory(struct dictionary_memory *m, size_t bytes)
{
    struct here_state *h = m->context;
    void *memory =
        raw_mmap(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (memory)
        h->other_parts[h->other_count++] = (struct memory_part){memory, bytes};
    return memory;
}

void dictionary_memory_end(struct here_state *h)
{
    for (uint32_t i = 0; i < h->other_count; i++)
        raw_syscall3(SYS_munmap, (long)h->other_parts[i].at, (long)h->other_parts[i].bytes, 0);
    h->other_count = 0;
    h->other_stamp = 0;
}

/* The dictionary that a stamp asks for; the last one is kept while nothing is added to it. */
static int read_other(struct here_state *h, uint64_t stamp)
{
    const struct encode_log *log = encode_log_find((uint32_t)(stamp >> 32));
    if (!log)
        return SNAPSHOT_NO_DICTIONARY;
    struct dictionary_bytes bytes = encode_log_bytes(log);
    if (h->other_stamp == stamp && h->other_bytes == bytes.left)
        return 0;
    dictionary_memory_end(h);
    struct dictionary_memory memory = {take_memory, h};
    enum dictionary_status status = dictionary_read(&h->other, &bytes, (uint32_t)stamp, &memory);
    if (status != DICTIONARY_OK)
        return status == DICTIONARY_NO_MEMORY ? SNAPSHOT_BUSY : SNAPSHOT_NO_DICTIONARY;
    h->other_stamp = stamp;
    h->other_bytes = encode_log_bytes(log).left;
    return 0;
}

static int find_source(struct encode_thread *t, const struct dictionary_snapshot *s,
                       struct source *source)
{
    *source = (struct source){0};
    if (!s->run)
        return SNAPSHOT_EMPTY;
    if (s->run != encode_run(guest->arena))
        return SNAPSHOT_OTHER_RUN;
    if (!encode_here_ready(t))
        return SNAPSHOT_NO_DICTIONARY;
    if (s->stamp == stamp_of(t, t->here->log.log)) {
        source->own = &t->contexts;
        return 0;
    }
    source->read = &t->here->other;
    return read_other(t->here, s->stamp);
}

/* The key of the word's function; 0: it is none. */
static uint64_t function_key(const struct source *source, uint64_t word)
{
    uint32_t f =
        source->own ? word_function(source->own, word) : dictionary_function_of(source->read, word);
    if (f == GRAPH_NONE)
        return 0;
    return source->own ? source->own->graph.functions[f].key : source->read->functions[f].key;
}

/* One call outwards. */
static int leave(const struct source *source, uint64_t word, struct step *step)
{
    *step = (struct step){0};
    if (source->own) {
        struct left left = word_leave(source->own, word);
        if (left.edge == GRAPH_NONE)
            return word_function(source->own, word) == ROOT_FUNCTION ? 0 : SNAPSHOT_DAMAGED;
        const struct graph_edge *e = &source->own->graph.edges[left.edge];
        *step = (struct step){e->site_key, source->own->graph.functions[e->callee].key, left.caller,
                              true, (e->flags & EDGE_TAIL) != 0};
        return 0;
    }
    uint32_t edge;
    uint64_t caller = 0;
    if (dictionary_leave(source->read, word, &edge, &caller) != DICTIONARY_OK)
        return SNAPSHOT_DAMAGED;
    if (edge == UINT32_MAX)
        return 0;
    const struct dictionary_edge *e = &source->read->edges[edge];
    *step = (struct step){e->site_key, source->read->functions[e->callee].key, caller, true,
                          e->is_tail};
    return 0;
}

/* The snapshot that the task of another began with. False: it has none, or it is not known. */
static bool task_of(struct encode_thread *t, const struct source *source,
                    const struct dictionary_snapshot *s, struct dictionary_snapshot *from)
{
    if (source->own && s->task && s->task <= t->here->tasks.count) {
        *from = t->here->tasks.tasks[s->task].from;
        from->place = encode_place_key(from->place);
        return true;
    }
    if (!source->own && s->task && s->task < source->read->task_count) {
        *from = source->read->tasks[s->task];
        return true;
    }
    return false;
}

/* --- keys ------------------------------------------------------------------------------------- */

uint64_t encode_place_key(uint64_t address)
{
    return code_key(guest->modules, address, KEY_IS_PC);
}

static bool is_program(const char *path)
{
    static const char program[] = "/proc/self/exe";
    for (size_t i = 0; i < sizeof program; i++)
        if (path[i] != program[i])
            return false;
    return true;
}

static const char *module_path(uint32_t id)
{
    uint32_t place = guest->arena->first_module;
    while (place) {
        const struct arena_module *m = arena_at(place);
        const char *path = (const char *)(m + 1);
        if (m->id == id)
            return is_program(path) ? guest->arena->program : path;
        place = m->next;
    }
    return NULL;
}

/* Of the last modules: the hash of the name, and below that the id. */
static uint64_t module_hashes[64];
static uint32_t module_hashes_of; /* guest's number */

static uint64_t module_hash(uint32_t id)
{
    enum { ID_BITS = 24, ROOM = sizeof module_hashes / sizeof module_hashes[0] };
    if (module_hashes_of != guest->number) {
        memset(module_hashes, 0, sizeof module_hashes);
        module_hashes_of = guest->number;
    }
    uint64_t known = __atomic_load_n(&module_hashes[id % ROOM], __ATOMIC_RELAXED);
    if (!known || (known & ((1u << ID_BITS) - 1)) != id) {
        const char *path = module_path(id);
        known = (path ? context_key_module(path) : 0) << ID_BITS | id;
        __atomic_store_n(&module_hashes[id % ROOM], known, __ATOMIC_RELAXED);
    }
    return known >> ID_BITS;
}

static uint64_t add_place(uint64_t key, uint64_t place)
{
    if (!place) /* the thread itself */
        return key;
    if (KEY_FLAGS(place) & KEY_GAP)
        return context_key_add(key, CONTEXT_KEY_GAP, KEY_OFFSET(place));
    if (KEY_FLAGS(place) & KEY_ADDRESS)
        return context_key_add(key, CONTEXT_KEY_NO_MODULE,
                               (uint64_t)KEY_MODULE(place) << 32 | KEY_OFFSET(place));
    return context_key_add(key, module_hash(KEY_MODULE(place)), KEY_OFFSET(place));
}

/* The key of what lies in front of the thread's own calls. 0: not known. */
static uint64_t key_before(struct encode_thread *t, const struct source *source,
                           const struct dictionary_snapshot *s, unsigned depth);

static uint64_t key_of(struct encode_thread *t, const struct dictionary_snapshot *s, unsigned depth)
{
    struct source source;
    uint32_t count = 0;
    if (find_source(t, s, &source) != 0)
        return 0;
    uint64_t key = key_before(t, &source, s, depth), word = s->word;
    if (!key || find_source(t, s, &source) != 0 || !function_key(&source, word))
        return 0;
    for (struct step step; count + 1 < MOST_CALLS; count += 2, word = step.caller) {
        if (leave(&source, word, &step) != 0)
            return 0;
        if (!step.is_call)
            break;
        t->calls[count].key = step.callee_key;
        t->calls[count + 1].key = step.site_key;
    }
    while (count-- > 0)
        key = add_place(key, t->calls[count].key);
    return key;
}

static uint64_t key_before(struct encode_thread *t, const struct source *source,
                           const struct dictionary_snapshot *s, unsigned depth)
{
    enum { MOST_DEPTH = 32 };
    struct dictionary_snapshot from;
    if (!s->task)
        return CONTEXT_KEY_THREAD;
    if (depth == MOST_DEPTH || !task_of(t, source, s, &from))
        return 0;
    struct task *known = source->own ? &t->here->tasks.tasks[s->task] : NULL;
    if (known && known->key)
        return known->key;
    uint64_t key = key_of(t, &from, depth + 1);
    key = key ? add_place(key, from.place) : 0;
    if (known)
        known->key = key;
    return key;
}

struct key_request {
    const struct dictionary_snapshot *snapshot;
    uint64_t key;
};

static struct known_key *key_place(struct encode_thread *t, const struct dictionary_snapshot *s)
{
    uint64_t h = s->task;
    __asm__("crc32q %1, %0" : "+r"(h) : "r"(s->word));
    return &t->here->keys[h & (KNOWN_KEYS - 1)];
}

static void make_key(struct encode_thread *t, void *argument)
{
    struct key_request *q = argument;
    const struct dictionary_snapshot *s = q->snapshot;
    q->key = key_of(t, s, 0);
    if (q->key && t->here && s->stamp == stamp_of(t, t->here->log.log))
        *key_place(t, s) = (struct known_key){s->word, s->task, q->key, 0};
}

/* The table is written without signals alone: whoever looks at it finds it whole. */
__attribute__((visibility("default"))) uint64_t calltrail_key(const struct dictionary_snapshot *s)
{
    struct encode_thread *t = s->run ? encode_thread_now() : NULL;
    if (t && t->here && s->run == encode_reader.run && s->stamp == encode_reader.stamp) {
        const struct known_key *k = key_place(t, s);
        if (k->word == s->word && k->task == s->task)
            return k->key;
    }
    struct key_request q = {s, 0};
    return s->run && encode_at_work(make_key, &q) ? q.key : 0;
}

/* --- paths ------------------------------------------------------------------------------------ */

struct path_request {
    const struct dictionary_snapshot *snapshot;
    struct snapshot_frame *frames;
    size_t room, count;
    int status;
};

/* Where a module of the arena is now; 0: it is not loaded. */
static uint64_t base_of(uint32_t id)
{
    const struct walk_modules *modules = guest->modules;
    for (uint32_t i = 0; i < modules->count; i++)
        if (modules_id(modules, i) == id)
            return modules->items[i].base;
    return 0;
}

static void put_frame(struct path_request *q, uint64_t key, uint32_t flags)
{
    struct snapshot_frame *f = q->count < q->room ? &q->frames[q->count] : NULL;
    q->count++;
    if (!f)
        return;
    *f = (struct snapshot_frame){.offset = KEY_OFFSET(key), .flags = flags};
    if (KEY_FLAGS(key) & KEY_GAP) {
        f->flags |= SNAPSHOT_FRAME_GAP;
        f->offset = 0;
    } else if (KEY_FLAGS(key) & KEY_ADDRESS) {
        f->offset |= (uint64_t)KEY_MODULE(key) << 32;
    } else {
        uint64_t base = base_of(KEY_MODULE(key)), behind = flags & SNAPSHOT_FRAME_CALL ? 1 : 0;
        f->module = module_path(KEY_MODULE(key));
        f->function =
            base ? modules_function_name(guest->modules, base + KEY_OFFSET(key) - behind) : NULL;
    }
}

/* The calls of one thread, innermost first, behind the place itself. */
static int put_calls(struct path_request *q, const struct source *source, uint64_t word)
{
    uint64_t key = function_key(source, word);
    for (struct step step; q->count < MOST_CALLS; word = step.caller) {
        int status = leave(source, word, &step);
        if (status != 0)
            return status;
        if (!step.is_call)
            return 0;
        if (KEY_FLAGS(key) & KEY_GAP) {
            put_frame(q, key, 0);
            return 0;
        }
        key = function_key(source, step.caller);
        if (step.site_key && !(KEY_FLAGS(step.site_key) & KEY_GAP))
            put_frame(q, step.site_key,
                      step.is_tail                           ? SNAPSHOT_FRAME_TAIL
                      : KEY_FLAGS(step.site_key) & KEY_IS_PC ? SNAPSHOT_FRAME_SIGNAL
                                                             : SNAPSHOT_FRAME_CALL);
    }
    return SNAPSHOT_DAMAGED;
}

static void make_path(struct encode_thread *t, void *argument)
{
    enum { MOST_TASKS_BEFORE = 1024 };
    struct path_request *q = argument;
    struct dictionary_snapshot s = *q->snapshot, from;
    struct source source;
    q->status = find_source(t, &s, &source);
    if (q->status)
        return;
    uint64_t function = modules_function(guest->modules, s.place), key = encode_place_key(s.place);
    if (!(KEY_FLAGS(key) & KEY_ADDRESS) &&
        function_key(&source, s.word) != encode_place_key(function))
        q->status = SNAPSHOT_DAMAGED;
    uint32_t flags = 0;
    for (unsigned i = 0; !q->status && i < MOST_TASKS_BEFORE; i++) {
        put_frame(q, key, flags);
        q->status = put_calls(q, &source, s.word);
        if (q->status || !s.task)
            return;
        if (!task_of(t, &source, &s, &from)) {
            put_frame(q, KEY_MAKE(0, KEY_GAP, 0), SNAPSHOT_FRAME_TASK);
            return;
        }
        s = from;
        key = s.place;
        flags = SNAPSHOT_FRAME_TASK | SNAPSHOT_FRAME_CALL;
        q->status = find_source(t, &s, &source);
    }
}

__attribute__((visibility("default"))) int
calltrail_decode(const struct dictionary_snapshot *s, struct snapshot_frame *frames, size_t room)
{
    struct path_request q = {.snapshot = s, .frames = frames, .room = room};
    if (!s->run)
        return SNAPSHOT_EMPTY;
    if (!encode_at_work(make_path, &q))
        return SNAPSHOT_BUSY;
    return q.status ? q.status : (int)q.count;
}

/* --- text ------------------------------------------------------------------------------------- */

struct text_request {
    const struct dictionary_snapshot *snapshot;
    struct snapshot_text text;
};

/* Where it was taken is noted, so that the profile knows the line. */
static void make_text(struct encode_thread *t, void *argument)
{
    struct text_request *q = argument;
    const struct dictionary_snapshot *s = q->snapshot;
    uint64_t function = modules_function(guest->modules, s->place);
    q->text = (struct snapshot_text){.run = s->run,
                                     .thread = s->stamp >> 32,
                                     .numbering = (uint32_t)s->stamp,
                                     .word = s->word,
                                     .function = KEY_OFFSET(encode_place_key(function)),
                                     .bytes = s->place - function,
                                     .task = s->task};
    if (encode_here_ready(t))
        encode_log_place(t, encode_place_key(s->place));
}

__attribute__((visibility("default"))) int calltrail_print(const struct dictionary_snapshot *s,
                                                           char *to, size_t room)
{
    struct text_request q = {.snapshot = s};
    if (room)
        *to = 0;
    if (!s->run || room < SNAPSHOT_TEXT_BYTES || !encode_at_work(make_text, &q))
        return 0;
    return snapshot_text_write(&q.text, to);
}
