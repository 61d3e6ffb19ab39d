#include "query/snapshots.h"

#include "encoding/context_key.h"

#include <stdlib.h>
#include <string.h>

/* --- dictionaries ----------------------------------------------------------------------------- */

int snapshots_begin(struct snapshots *s, const struct profile *profile, struct ct_error *err)
{
    *s = (struct snapshots){.profile = profile};
    return profile_verify_dictionaries(profile, err);
}

static void forget(struct read_dictionary *r)
{
    for (size_t i = 0; i < r->memory.count; i++)
        free(r->memory.items[i]);
    vec_free(&r->memory);
    *r = (struct read_dictionary){0};
}

void snapshots_end(struct snapshots *s)
{
    for (unsigned i = 0; i < READ_DICTIONARIES; i++)
        forget(&s->read[i]);
}

static void *take(struct dictionary_memory *memory, size_t bytes)
{
    struct read_dictionary *r = memory->context;
    void *taken = calloc(1, bytes);
    if (taken)
        vec_push(&r->memory, taken);
    return taken;
}

/* The dictionary of a thread; NULL: `why` says what is missing. */
static const struct ctp_dictionary *find(const struct profile *p, uint64_t run, uint64_t number,
                                         const char **why)
{
    const struct ctp_dictionary *d;
    uint64_t at = 0;
    bool has_run = false;
    while ((d = profile_next_dictionary(p, &at)) != NULL) {
        if (d->run == run && d->number == number)
            return d;
        has_run |= d->run == run;
    }
    *why = has_run ? "it has no dictionary of the snapshot's thread"
           : at    ? "the snapshot is of another run"
                : "it has no dictionaries: with --engine encode no snapshot was taken, or it was "
                  "merged";
    return NULL;
}

static struct read_dictionary *dictionary_of(struct snapshots *s, const struct snapshot_text *text,
                                             struct ct_error *err)
{
    const char *why;
    const struct ctp_dictionary *of = find(s->profile, text->run, text->thread, &why);
    if (!of) {
        ct_fail(err, "%s: %s", s->profile->name, why);
        return NULL;
    }
    struct read_dictionary *r = NULL;
    for (unsigned i = 0; i < READ_DICTIONARIES && !r; i++)
        if (s->read[i].of == of && s->read[i].numbering == text->numbering)
            r = &s->read[i];
    if (!r) {
        r = &s->read[s->next++ % READ_DICTIONARIES];
        forget(r);
        const uint8_t *bytes = (const uint8_t *)(of + 1);
        const struct dictionary_bytes all = {.at = bytes, .end = bytes + of->size};
        struct dictionary_memory memory = {take, r};
        r->of = of;
        r->numbering = (uint32_t)text->numbering;
        r->status = dictionary_read(&r->dictionary, &all, r->numbering, &memory);
    }
    if (r->status == DICTIONARY_OK)
        return r;
    ct_fail(err, "%s: %s", s->profile->name, dictionary_status_texts[r->status]);
    return NULL;
}

/* --- places ----------------------------------------------------------------------------------- */

static uint32_t frame_of(const struct profile *p, uint64_t key)
{
    return key < profile_frame_count(p) ? (uint32_t)key : CTP_NONE;
}

/* The place in a function that was printed; the frame of the function where it was not noted. */
static struct snapshot_call here(const struct profile *p, uint32_t function, uint64_t bytes)
{
    const struct ctp_frame *f = profile_frame(p, function);
    for (uint64_t i = 0; i < profile_frame_count(p) && bytes; i++) {
        const struct ctp_frame *other = profile_frame(p, (uint32_t)i);
        if (other->module == f->module && other->offset == f->offset + bytes && !other->gap &&
            !(other->flags & CTP_FRAME_RETURN))
            return (struct snapshot_call){PLACE_HERE, (uint32_t)i, 0};
    }
    return (struct snapshot_call){PLACE_HERE, function, bytes};
}

static uint64_t key_with(const struct profile *p, uint64_t key, uint32_t frame)
{
    const struct ctp_frame *f = profile_frame(p, frame);
    if (frame == CTP_NONE) /* the thread itself */
        return key;
    if (f->gap)
        return context_key_add(key, CONTEXT_KEY_GAP, f->gap);
    if (f->module == CTP_NONE)
        return context_key_add(key, CONTEXT_KEY_NO_MODULE, f->offset);
    const char *path = profile_string(p, profile_module(p, f->module)->path);
    return context_key_add(key, context_key_module(path), f->offset);
}

/* --- decoding --------------------------------------------------------------------------------- */

/* What keys are made of, innermost first. */
struct decoding {
    struct snapshots *snapshots;
    struct snapshot_path *path;
    VEC(uint32_t) frames;
};

/* More calls than a stack has are none. */
enum { MOST_CALLS = DICTIONARY_MOST_CALLS, MOST_TASKS = 1024 };

static void add_call(struct decoding *d, enum snapshot_place place, uint32_t frame)
{
    vec_push(&d->path->calls, (struct snapshot_call){place, frame, 0});
}

static enum snapshot_place place_of(const struct profile *p, const struct dictionary_edge *e,
                                    uint32_t frame)
{
    return e->is_tail                                          ? PLACE_TAIL
           : profile_frame(p, frame)->flags & CTP_FRAME_RETURN ? PLACE_CALL
                                                               : PLACE_SIGNAL;
}

/* The calls of one thread. False: it is no context. */
static bool add_calls(struct decoding *d, const struct dictionary *dictionary, uint64_t word)
{
    const struct profile *p = d->snapshots->profile;
    for (;;) {
        uint32_t edge;
        uint64_t caller = 0;
        if (d->path->calls.count > MOST_CALLS ||
            dictionary_leave(dictionary, word, &edge, &caller) != DICTIONARY_OK)
            return false;
        if (edge == UINT32_MAX)
            return true;
        const struct dictionary_edge *e = &dictionary->edges[edge];
        uint32_t callee = frame_of(p, dictionary->functions[e->callee].key);
        uint32_t site = frame_of(p, e->site_key);
        vec_push(&d->frames, callee);
        vec_push(&d->frames, site);
        if (profile_frame(p, site)->gap)
            add_call(d, PLACE_GAP, site);
        else if (site != CTP_NONE)
            add_call(d, place_of(p, e, site), site);
        word = caller;
    }
}

static uint64_t make_key(const struct decoding *d)
{
    uint64_t key = CONTEXT_KEY_THREAD;
    for (size_t i = d->frames.count; i-- > 0;)
        key = key_with(d->snapshots->profile, key, d->frames.items[i]);
    return key;
}

/* Goes on with the calls of the thread that handed the work over. */
static int follow_task(struct decoding *d, struct read_dictionary **r, struct snapshot_text *text,
                       uint64_t *word, struct ct_error *err)
{
    const struct profile *p = d->snapshots->profile;
    if (text->task == UINT32_MAX) {
        d->path->key = 0;
        add_call(d, PLACE_GAP, CTP_NONE);
        *r = NULL;
        return CT_OK;
    }
    if (text->task >= (*r)->dictionary.task_count)
        return ct_fail(err, "%s: %s", p->name, dictionary_status_texts[DICTIONARY_NO_TASK]);
    struct dictionary_snapshot from = (*r)->dictionary.tasks[text->task];
    uint32_t frame = frame_of(p, from.place);
    add_call(d, PLACE_TASK, frame);
    vec_push(&d->frames, frame);
    *text = (struct snapshot_text){.run = from.run,
                                   .thread = from.stamp >> 32,
                                   .numbering = (uint32_t)from.stamp,
                                   .word = from.word,
                                   .task = from.task};
    *word = from.word;
    *r = dictionary_of(d->snapshots, text, err);
    return *r ? CT_OK : CT_ERROR;
}

static int decode_all(struct decoding *d, struct snapshot_text text, struct ct_error *err)
{
    const struct profile *p = d->snapshots->profile;
    struct read_dictionary *r = dictionary_of(d->snapshots, &text, err);
    if (!r)
        return CT_ERROR;
    uint64_t word = text.word;
    uint32_t function = dictionary_function_of(&r->dictionary, word);
    uint32_t frame =
        function == UINT32_MAX ? CTP_NONE : frame_of(p, r->dictionary.functions[function].key);
    if (frame == CTP_NONE || profile_frame(p, frame)->offset != text.function)
        return ct_fail(err, "%s: the snapshot's word is not of its function", p->name);
    vec_push(&d->path->calls, here(p, frame, text.bytes));
    d->path->key = 1;
    for (unsigned tasks = 0; r; tasks++) {
        if (!add_calls(d, &r->dictionary, word))
            return ct_fail(err, "%s: %s", p->name, dictionary_status_texts[DICTIONARY_NO_CONTEXT]);
        if (!text.task)
            break;
        if (tasks == MOST_TASKS)
            return ct_fail(err, "%s: the snapshot has no end of tasks", p->name);
        CT_TRY(follow_task(d, &r, &text, &word, err));
    }
    if (d->path->key)
        d->path->key = make_key(d);
    return CT_OK;
}

int snapshot_decode(struct snapshots *s, const struct snapshot_text *text,
                    struct snapshot_path *path, struct ct_error *err)
{
    struct decoding d = {.snapshots = s, .path = path};
    path->calls.count = 0;
    path->key = 0;
    int status = decode_all(&d, *text, err);
    vec_free(&d.frames);
    return status;
}
