/*
 * Engine `encode`: the calling context as one number, at any moment.
 *
 * A context is a word of 64 bits: in its upper half a number (graph.h), which says the function and
 * the path of coded edges that leads to it, and in its lower half an entry: where that path begins.
 * Entries are contexts that began with a call on an edge without a code, each made once: the
 * caller's word, and the edge. So an entry is what the paper has on its ccStack, and entries lead
 * from one to the next up to the thread's first function. All of this is of one thread: its graph,
 * its numbers, its entries. No lock is needed, and another thread can make its numbers anew at any
 * time.
 *
 * Each thread has a mirror of its stack: a table, indexed by the address of a return-address slot,
 * with the word of the frame that the slot belongs to, as in engine exact. At a site the stub knows
 * where its own function's return address lies, takes the word from there, adds the edge's
 * constant, and has the word of the frame that the call makes. Returns have no code, and return
 * addresses stay what they are: no unwinder, exception or longjmp meets anything of ours, and a
 * word is right if it is for this slot and for the return address in it. Where there is none, the
 * stack is walked to the first frame outside that has one.
 *
 * A call to a function that calls nothing is left as it is: its frame is known by its return
 * address, which leads to the caller's.
 *
 *   engine_encode.c  when what happens
 *   adding.c         what is done at a site: the fast path, in machine code
 *   encode.c         the slow path: edges that are new or have no code
 *   resync.c         contexts by walks
 *   graph.c          numbers
 *   numbering.c      numbers that are made anew
 *   words.c          words and entries, and the tables by which edges and functions are found
 *   snapshot.c       samples, and --verify
 *   here.h           contexts that the program asks for: here.c, log.c, tasks.c, path.c
 *
 * When enough calls have been made on edges that had no code yet, numbers are made anew. The mirror
 * is cleared then, but for the words of the frames on the stack, which are carried over.
 */
#ifndef RUNTIME_ENCODE_H
#define RUNTIME_ENCODE_H

#include "base/page.h"
#include "runtime/edit/called.h"
#include "runtime/encode/encode_format.h"
#include "runtime/encode/graph.h"
#include "runtime/modules.h"
#include "runtime/thread.h"

#include <ucontext.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

extern const struct engine engine_encode __attribute__((visibility("hidden")));

static inline const struct encode_settings *encode_settings(void)
{
    return encode_settings_in(guest->settings);
}

/* What is done at sites (adding.c). */
extern const struct stub_writer adding_stubs __attribute__((visibility("hidden")));

/* The mirror: see runtime/exact/mirror.h, which has the same one, with records. */
enum {
    WORDS_SPAN = 4 << 20, /* of the stack */
    WORDS_MASK = WORDS_SPAN - 8,
    WORDS_SHIFT = 2048 + 64,
    WORDS_PLACE = WORDS_SPAN + 1024 + 64,
    WORDS_MAPPED = 2 * WORDS_SPAN + PAGE_BYTES
};

static_assert(WORDS_SHIFT + WORDS_PLACE + WORDS_SPAN <= WORDS_MAPPED, "they fit");

ALWAYS_INLINE uint64_t word_make(uint32_t id, uint32_t entry)
{
    return (uint64_t)id << 32 | entry;
}

ALWAYS_INLINE uint32_t word_id(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

ALWAYS_INLINE uint32_t word_entry(uint64_t word)
{
    return (uint32_t)word;
}

/* What a stub knows of its site, as it is added to words and compared with them. Zeros: nothing, so
 * that the stub takes the slow path. */
struct site_code {
    uint64_t base, numbers; /* of the site's own function */
    uint64_t step;          /* from the start of that range to the callee's number */
    uint64_t target;        /* at an indirect site: what that is for */
};

/* The same for other targets of an indirect site, in a table by site and target. */
struct other_code {
    uint64_t site; /* 0: free */
    uint64_t target;
    uint64_t step;
    uint64_t unused;
};

static_assert(sizeof(struct site_code) == 32 && sizeof(struct other_code) == 32,
              "the stubs know that");

/* The number of a callee that needs none has this bit, whatever is added to it: no context has it.
 */
#define NO_NUMBER (UINT64_C(1) << 63)

/* Where calls on edges without a code led the last time: by the caller's word and the site. */
struct pushed_call {
    uint64_t caller;
    uint32_t site;
    uint32_t hits;
    uint64_t target;
    uint64_t word; /* of the callee */
    uint32_t edge;
    uint32_t unused[7];
};

static_assert(sizeof(struct pushed_call) == 64, "the stubs know that");

/* Sites beyond have no code. */
enum {
    CODED_SITES = 1 << 20,
    OTHER_CODES = 1 << 15,
    OTHER_CODES_BEYOND = 64,
    PUSHED_CALLS = 1 << 16
};

/*
 * The stub of a tail jump leaves so many words below the stack pointer as they are. The caller's
 * registers have been taken from there, but its unwind table still says that they are saved there,
 * and an unwinder that comes from a handler of a signal in the stub believes that.
 */
enum { TAIL_GAP_WORDS = 8 };

/* What stubs reach through %fs. */
struct encode_state {
    char *words; /* the mirror's first tag */
    struct site_code *codes;
    struct other_code *others;
    struct pushed_call *pushed;
};

extern __thread struct encode_state encode_state __attribute__((tls_model("initial-exec")));

/* --- words.c --------------------------------------------------------------------------------- */

/* A context that began with a call on an edge without a code. */
struct entry {
    uint64_t caller; /* word */
    uint32_t edge;
    uint32_t depth; /* entries in all, with this one */
    uint64_t stamp; /* of what is known of its node: when that was */
    uint32_t node;  /* of the samples' tree: that of the call */
    uint32_t unused;
};

/* The first function of a graph stands for the thread itself. */
enum { CHUNK_ENTRIES = 1 << 16, MOST_CHUNKS = 64, ROOT_FUNCTION = 0 };

/* Finds by hash; a larger one is another one, and the old one stays until the thread ends. */
struct index {
    uint32_t room, count; /* room: a power of two */
    struct index *before;
    uint32_t items[];
};

struct contexts {
    struct graph graph;
    struct index *functions, *edges, *entries;
    struct entry *chunks[MOST_CHUNKS];
    uint32_t entry_count; /* the first one, 0, is none */
};

bool contexts_begin(struct contexts *contexts);
void contexts_end(struct contexts *contexts);

ALWAYS_INLINE struct entry *entry_at(const struct contexts *c, uint32_t number)
{
    return &c->chunks[number / CHUNK_ENTRIES][number % CHUNK_ENTRIES];
}

/* All of these: GRAPH_NONE (0 for an entry) if there is no room. */
uint32_t contexts_function(struct contexts *contexts, uint64_t key);
uint32_t contexts_edge(struct contexts *contexts, const struct graph_edge *like);
uint32_t contexts_entry(struct contexts *contexts, uint64_t caller, uint32_t edge);

/* Those that are there already, for where no other may be made. */
ALWAYS_INLINE uint32_t entry_hash(uint64_t caller, uint32_t edge)
{
    uint64_t h = (caller ^ edge * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);
    return (uint32_t)(h >> 32);
}

ALWAYS_INLINE uint32_t entry_find(const struct contexts *c, const struct index *index,
                                  uint64_t caller, uint32_t edge)
{
    uint32_t mask = index->room - 1, i = entry_hash(caller, edge) & mask;
    for (; index->items[i]; i = (i + 1) & mask) {
        const struct entry *e = entry_at(c, index->items[i]);
        if (e->caller == caller && e->edge == edge)
            return index->items[i];
    }
    return 0;
}

ALWAYS_INLINE uint32_t edge_hash(uint64_t site_key, uint32_t callee)
{
    return entry_hash(site_key, callee);
}

ALWAYS_INLINE uint32_t edge_find(const struct contexts *c, const struct index *index,
                                 uint64_t site_key, uint32_t caller, uint32_t callee, uint32_t site)
{
    uint32_t mask = index->room - 1, i = edge_hash(site_key, callee) & mask;
    for (; index->items[i]; i = (i + 1) & mask) {
        const struct graph_edge *e = &c->graph.edges[index->items[i] - 1];
        if (e->site_key == site_key && e->callee == callee && e->caller == caller &&
            e->site == site)
            return index->items[i] - 1;
    }
    return GRAPH_NONE;
}

/* The function of a word; GRAPH_NONE: it is none. */
ALWAYS_INLINE uint32_t word_function(const struct contexts *c, uint64_t word)
{
    uint32_t entry = word_entry(word);
    if (word_id(word))
        return graph_function_of(&c->graph, word_id(word));
    if (!entry || entry >= c->entry_count) /* of a function that has no number yet */
        return GRAPH_NONE;
    return c->graph.edges[entry_at(c, entry)->edge].callee;
}

/* The word of what is entered by an edge from a word; 0: there is no room, or it needs none.
 * `is_pushed`: by an entry. */
uint64_t word_enter(struct contexts *contexts, uint64_t caller, uint32_t edge, bool *is_pushed);

/* How a word's function was entered: the edge, GRAPH_NONE where the thread begins; the word of its
 * caller; and the entry, or 0. */
struct left {
    uint32_t edge, entry;
    uint64_t caller;
};

struct left word_leave(const struct contexts *contexts, uint64_t word);

/* --- encode.c -------------------------------------------------------------------------------- */

enum { MOST_FRAMES = 1 << 16, ENCODE_STACK = 64 << 10, CALLEES = 1 << 13, MOST_CALLS = 1 << 20 };

/* A call of a context, and its entry, if it has one. */
struct decoded_call {
    uint64_t key;
    uint32_t entry;
    uint32_t unused;
};

/* What is known of the function at an address. */
struct known_callee {
    uint64_t target;
    uint32_t function;   /* number; behind a stub of the PLT, of what that is bound to */
    uint32_t generation; /* of the modules; 0: it is not known for good */
};

/* What else belongs to a thread; made when its first call comes. */
struct encode_thread {
    struct contexts contexts;
    struct encode_thread *next; /* in the list of all */
    char *mirror;               /* WORDS_SHIFT bytes before its first entry */
    struct site_code *codes;
    struct other_code *others;
    struct pushed_call *pushed;
    struct thread *thread;
    struct encode_counts *counts;
    struct encode_history *history; /* NULL: it has none */
    uint32_t number;                /* not the guest's: this is the child of a fork */
    uint64_t root_word;
    uint64_t pending;               /* calls on edges that may get a code, and have none yet */
    uint64_t slow;                  /* calls on the slow path since the last numbering */
    uint64_t crowded, crowded_most; /* calls on edges for which there were not enough numbers */
    struct walk_frame *frames;
    struct decoded_call *calls; /* of a sample */
    struct walk_cache cache;
    struct known_callee callees[CALLEES]; /* by a hash of the target */
    struct here_state *here;              /* for snapshots (here.h); NULL: none was taken yet */
    bool busy;
    volatile bool putting;                                    /* something into `pushed` */
    uint8_t stack[ENCODE_STACK] __attribute__((aligned(16))); /* the slow path's own */
};

/* The calling thread's; NULL: it has none, or is at work at it. */
struct encode_thread *encode_thread_now(void);

void encode_forget(void);  /* in a child that was forked */
void encode_limited(void); /* the program has a limit for its memory */
void encode_thread_ends(struct thread *thread);
void encode_forget_stacks(void); /* what mirrors say holds no more */

/* Calls are not seen from now on, or again: until then nothing is known of any stack. */
void encode_rest(bool rests);
bool encode_rests(void);

/* As in struct engine. */
void encode_module_unloaded(uint64_t start, uint64_t end, uint64_t since);

ALWAYS_INLINE uint64_t *word_tag(uint64_t slot)
{
    return (void *)(encode_state.words + (slot & WORDS_MASK));
}

ALWAYS_INLINE uint64_t *word_place(uint64_t slot)
{
    return (void *)(encode_state.words + WORDS_PLACE + (slot & WORDS_MASK));
}

/* The word that the mirror has for a slot, if it is that of the frame which is there now; 0: none.
 */
ALWAYS_INLINE uint64_t word_find(uint64_t slot)
{
    return slot && *word_tag(slot) == slot + *(const uint64_t *)slot ? *word_place(slot) : 0;
}

/* The word first, as the stubs do: a handler may come in between, and believes the tag. */
ALWAYS_INLINE void word_put(uint64_t slot, uint64_t word, uint64_t ret)
{
    *word_place(slot) = word;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    *word_tag(slot) = slot + ret;
}

/* The number of the function at a target; GRAPH_NONE: there is no room, or it is not bound yet. */
uint32_t encode_callee(struct encode_thread *thread, uint64_t target);

ALWAYS_INLINE struct known_callee *callee_place(struct encode_thread *t, uint64_t target)
{
    uint64_t h = 0;
    __asm__("crc32q %1, %0" : "+r"(h) : "r"(target));
    return &t->callees[h & (CALLEES - 1)];
}

/* --- numbering.c ----------------------------------------------------------------------------- */

enum {
    CODES_BYTES = CODED_SITES * sizeof(struct site_code),
    OTHERS_BYTES = (OTHER_CODES + OTHER_CODES_BEYOND) * sizeof(struct other_code),
    PUSHED_BYTES = PUSHED_CALLS * sizeof(struct pushed_call)
};

static inline bool site_is_indirect(const struct plan_site *s)
{
    return s->kind == SITE_CALL_INDIRECT || s->kind == SITE_TAIL_INDIRECT;
}

void encode_clear(void *memory, uint64_t bytes); /* to zeros */
void encode_set_root_word(struct encode_thread *thread);

/* The calls that a stub has found in its table belong to their edge. */
ALWAYS_INLINE void count_hits(struct encode_thread *t, struct pushed_call *p)
{
    struct graph_edge *e = &t->contexts.graph.edges[p->edge];
    e->calls = e->calls > UINT32_MAX - p->hits ? UINT32_MAX : e->calls + p->hits;
    t->counts->pushes += p->hits;
    if (!(e->flags & (EDGE_BACK | EDGE_FIXED)))
        t->crowded += p->hits;
    p->hits = 0;
}

/*
 * Where a call led on an edge that has no code, for the stub of its site. Edges that were there at
 * the last numbering, and got none, will have none for some time. A handler that comes in between
 * changes nothing here.
 */
ALWAYS_INLINE void encode_put_pushed(struct encode_thread *t, uint64_t caller, uint32_t edge,
                                     uint64_t word, bool by_target)
{
    const struct graph_edge *e = &t->contexts.graph.edges[edge];
    if (t->putting || !(e->flags & EDGE_SEEN))
        return;
    uint64_t h = e->site;
    __asm__("crc32q %1, %0" : "+r"(h) : "r"(caller));
    if (by_target)
        __asm__("crc32q %1, %0" : "+r"(h) : "r"(e->target));
    struct pushed_call *p = &t->pushed[h & (PUSHED_CALLS - 1)];
    t->putting = true;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    p->caller = 0; /* the stubs of a handler find nothing */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    count_hits(t, p);
    p->site = e->site;
    p->target = e->target;
    p->word = word;
    p->edge = edge;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    p->caller = caller;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    t->putting = false;
}

/* Makes numbers anew, if that can be done now. */
void encode_number_if_safe(struct encode_thread *thread, const struct walk_registers *registers,
                           uint64_t restored_below);

/* --- resync.c -------------------------------------------------------------------------------- */

/* Where a walk's frames and what the mirror knows meet. */
struct met {
    uint32_t count; /* frames, innermost first */
    enum walk_end end;
    uint32_t known; /* the innermost frame with a word; count: none */
    uint64_t word;
    bool is_interrupted; /* a handler of a signal runs */
};

enum walk_how { WALK_AT_CALL = 1, WALK_TO_THE_END = 2 };

struct met encode_walk(struct encode_thread *thread, const struct walk_registers *registers,
                       uint64_t restored_below, unsigned how);

/* The word of the innermost frame, and those of all frames up to what is known go to the mirror; 0:
 * there is no room. */
uint64_t encode_resync(struct encode_thread *thread, const struct walk_registers *registers,
                       uint64_t restored_below, unsigned how);

static inline uint64_t frame_function(const struct walk_modules *modules,
                                      const struct walk_frame *f)
{
    return modules_function(modules, f->pc - !(f->flags & FRAME_IS_PC));
}

/* --- snapshot.c ------------------------------------------------------------------------------ */

/* As in struct engine. */
enum walk_left encode_leave_code(struct walk_registers *registers, uint64_t *restored_below);
bool encode_agrees(const struct walk_modules *modules, const struct walk_frame *frames,
                   uint32_t count);
bool encode_sample(struct thread *thread, const ucontext_t *context, uint64_t ticks);

#endif
