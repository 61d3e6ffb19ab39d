/*
 * The dictionary of a thread's contexts, as bytes in the arena. What is there is never changed, so
 * that other threads may read it at any time, and the supervisor when the process has died.
 */
#include "arch/x86_64/syscall.h"
#include "runtime/arena.h"
#include "runtime/encode/here.h"

#include <sys/mman.h>
#include <time.h>

enum { FIRST_CHUNK = 4096, LARGEST_CHUNK = 1 << 18 };

/* The supervisor makes the arena larger when it looks, every few milliseconds. */
static void *take_memory(size_t bytes)
{
    enum { PATIENCE = 200 };
    static const struct timespec a_moment = {.tv_nsec = 1000000};
    void *memory = arena_take(bytes);
    for (unsigned i = 0; !memory && i < PATIENCE && !guest->no_room_for_calls; i++) {
        raw_syscall3(SYS_nanosleep, (long)&a_moment, 0, 0);
        memory = arena_take(bytes);
    }
    guest->no_room_for_calls |= !memory;
    return memory;
}

static bool new_chunk(struct log_state *l)
{
    uint32_t room = l->chunk ? 2 * l->chunk->room : FIRST_CHUNK;
    room = room > LARGEST_CHUNK ? LARGEST_CHUNK : room;
    struct encode_chunk *chunk = take_memory(sizeof *chunk + room);
    if (!chunk) {
        l->is_full = true;
        return false;
    }
    chunk->room = room;
    if (l->chunk)
        l->chunk->next = arena_place(chunk);
    else
        l->log->first_chunk = arena_place(chunk);
    l->chunk = chunk;
    l->used = 0;
    return true;
}

/* --- records ---------------------------------------------------------------------------------- */

static void put_byte(struct log_state *l, uint8_t byte)
{
    if (l->is_full || ((!l->chunk || l->used == l->chunk->room) && !new_chunk(l)))
        return;
    ((uint8_t *)(l->chunk + 1))[l->used++] = byte;
    l->bytes++;
}

static void put_number(struct log_state *l, uint32_t number)
{
    for (; number > 127; number >>= 7)
        put_byte(l, (uint8_t)(number | 128));
    put_byte(l, (uint8_t)number);
}

static void put_word(struct log_state *l, uint64_t word)
{
    for (unsigned i = 0; i < 8; i++)
        put_byte(l, (uint8_t)(word >> (8 * i)));
}

/* Readers see whole records. */
static void end_record(struct log_state *l)
{
    if (!l->is_full)
        __atomic_store_n((uint64_t *)&l->log->bytes, l->bytes, __ATOMIC_RELEASE);
    else
        encode_reader_forget(); /* what cannot be decoded is not given out */
}

void encode_log_follow(struct encode_thread *t)
{
    struct log_state *l = &t->here->log;
    const struct graph *g = &t->contexts.graph;
    for (; l->functions < g->function_count && !l->is_full; l->functions++) {
        put_byte(l, DICTIONARY_FUNCTION);
        put_word(l, g->functions[l->functions].key);
        end_record(l);
    }
    for (; l->edges < g->edge_count && !l->is_full; l->edges++) {
        const struct graph_edge *e = &g->edges[l->edges];
        put_byte(l, DICTIONARY_EDGE);
        put_word(l, e->site_key);
        put_number(l, e->caller);
        put_number(l, e->callee);
        put_byte(l, (e->flags & EDGE_TAIL) != 0);
        end_record(l);
    }
    for (; l->entries < t->contexts.entry_count && !l->is_full; l->entries++) {
        const struct entry *e = entry_at(&t->contexts, l->entries);
        put_byte(l, DICTIONARY_ENTRY);
        put_word(l, e->caller);
        put_number(l, e->edge);
        end_record(l);
    }
}

/* --- numbers ---------------------------------------------------------------------------------- */

/* Where a function was in the order of before; new ones stand behind all others. */
static uint32_t place_before(const struct log_state *l, uint32_t function)
{
    return function < l->numbered ? l->ranks[function] : function;
}

static uint32_t run_from(const struct log_state *l, const struct graph *g, uint32_t i)
{
    uint32_t first = place_before(l, g->order[i]), length = 1;
    while (i + length < g->numbered && place_before(l, g->order[i + length]) == first + length)
        length++;
    return length;
}

static void put_order(struct log_state *l, const struct graph *g)
{
    uint32_t runs = 0;
    for (uint32_t i = 0; i < g->numbered; i += run_from(l, g, i))
        runs++;
    put_number(l, runs);
    for (uint32_t i = 0, length; i < g->numbered; i += length) {
        length = run_from(l, g, i);
        put_number(l, place_before(l, g->order[i]));
        put_number(l, length);
    }
    for (uint32_t i = 0; i < g->numbered; i++)
        l->ranks[g->order[i]] = i;
}

/* Of no edges it is 0. */
static uint64_t hash_coded(const struct graph *g, uint32_t function, uint32_t *count)
{
    uint64_t hash = 0;
    *count = 0;
    for (uint32_t k = g->functions[function].first_in; k != GRAPH_NONE; k = g->edges[k].next_in) {
        if (!(g->edges[k].flags & EDGE_CODED))
            continue;
        hash = (hash ^ (k + 1ul)) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
        ++*count;
    }
    return hash;
}

static void put_coded(struct log_state *l, const struct graph *g)
{
    uint32_t changed = 0, count, next = 0;
    for (uint32_t i = 0; i < g->numbered; i++)
        changed += hash_coded(g, i, &count) != l->hashes[i];
    put_number(l, changed);
    for (uint32_t i = 0; i < g->numbered; i++) {
        uint64_t hash = hash_coded(g, i, &count);
        if (hash == l->hashes[i])
            continue;
        l->hashes[i] = hash;
        put_number(l, i - next);
        put_number(l, count);
        next = i + 1;
        for (uint32_t k = g->functions[i].first_in; k != GRAPH_NONE; k = g->edges[k].next_in)
            if (g->edges[k].flags & EDGE_CODED)
                put_number(l, k);
    }
}

void encode_log_numbers(struct encode_thread *t)
{
    struct log_state *l = &t->here->log;
    const struct graph *g = &t->contexts.graph;
    encode_log_follow(t);
    put_byte(l, DICTIONARY_NUMBERS);
    put_number(l, (uint32_t)t->counts->numberings);
    put_number(l, g->numbered);
    put_order(l, g);
    put_coded(l, g);
    l->numbered = g->numbered;
    end_record(l);
}

bool encode_log_task(struct encode_thread *t, const struct dictionary_snapshot *task)
{
    struct log_state *l = &t->here->log;
    put_byte(l, DICTIONARY_TASK);
    put_word(l, task->run);
    put_word(l, task->stamp);
    put_word(l, task->word);
    put_word(l, task->place);
    put_word(l, task->task);
    end_record(l);
    return !l->is_full;
}

/* Places are few, and there may be one twice. */
void encode_log_place(struct encode_thread *t, uint64_t key)
{
    struct log_state *l = &t->here->log;
    enum { KEPT = sizeof l->last_places / sizeof l->last_places[0] };
    for (uint32_t i = 0; i < KEPT && i < l->places; i++)
        if (l->last_places[i] == key)
            return;
    l->last_places[l->places++ % KEPT] = key;
    put_byte(l, DICTIONARY_PLACE);
    put_word(l, key);
    end_record(l);
}

/* --- beginning and end ------------------------------------------------------------------------ */

static uint64_t ranks_bytes(const struct graph *g)
{
    return g->function_room * (sizeof(uint32_t) + sizeof(uint64_t));
}

bool encode_log_begin(struct encode_thread *t)
{
    struct log_state *l = &t->here->log;
    struct encode_process *p = encode_process_in(guest->arena);
    l->hashes = raw_mmap(ranks_bytes(&t->contexts.graph), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    struct encode_log *log = l->hashes ? take_memory(sizeof *log) : NULL;
    if (!log)
        return false;
    l->ranks = (uint32_t *)(void *)(l->hashes + t->contexts.graph.function_room);
    l->entries = 1; /* the first is none */
    l->log = log;
    log->tid = t->thread->tid;
    log->number = __atomic_add_fetch((uint32_t *)&p->log_count, 1, __ATOMIC_RELAXED);
    encode_log_numbers(t);
    log->next = p->first_log;
    while (!__atomic_compare_exchange_n((uint32_t *)&p->first_log, &log->next, arena_place(log),
                                        false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        ;
    return !l->is_full;
}

void encode_log_end(struct encode_thread *t)
{
    struct log_state *l = &t->here->log;
    if (l->hashes)
        raw_syscall3(SYS_munmap, (long)l->hashes, (long)ranks_bytes(&t->contexts.graph), 0);
}

/* --- reading ---------------------------------------------------------------------------------- */

struct encode_log *encode_log_find(uint32_t number)
{
    uint32_t place = encode_process_in(guest->arena)->first_log;
    while (place) {
        struct encode_log *log = arena_at(place);
        if (log->number == number)
            return log;
        place = log->next;
    }
    return NULL;
}

static bool next_chunk(struct dictionary_bytes *b)
{
    const struct encode_chunk *chunk = b->place && b->left ? arena_at((uint32_t)b->place) : NULL;
    if (!chunk)
        return false;
    uint64_t bytes = chunk->room < b->left ? chunk->room : b->left;
    b->at = (const uint8_t *)(chunk + 1);
    b->end = b->at + bytes;
    b->left -= bytes;
    b->place = chunk->next;
    return true;
}

struct dictionary_bytes encode_log_bytes(const struct encode_log *log)
{
    return (struct dictionary_bytes){
        .more = next_chunk,
        .left = __atomic_load_n((const uint64_t *)&log->bytes, __ATOMIC_ACQUIRE),
        .place = log->first_chunk};
}
