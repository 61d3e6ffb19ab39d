#include "encoding/dictionary.h"

#include "base/search.h"

const char *const dictionary_status_texts[DICTIONARY_STATUS_COUNT] = {
    [DICTIONARY_OK] = "decoded",
    [DICTIONARY_DAMAGED] = "the dictionary of its thread is damaged",
    [DICTIONARY_NO_NUMBERING] = "the dictionary of its thread does not have its numbering",
    [DICTIONARY_NO_CONTEXT] = "it is no context of its numbering",
    [DICTIONARY_NO_TASK] = "the dictionary of its thread does not have its task",
    [DICTIONARY_NO_MEMORY] = "out of memory",
};

/* --- bytes ------------------------------------------------------------------------------------ */

static bool at_end(struct dictionary_bytes *b)
{
    while (b->at == b->end)
        if (!b->more || !b->more(b))
            return true;
    return false;
}

/* What is missing at the end makes all that follows 0, and is noted. */
struct reader {
    struct dictionary_bytes bytes;
    bool is_bad;
};

static uint8_t read_byte(struct reader *r)
{
    if (!r->is_bad && at_end(&r->bytes))
        r->is_bad = true;
    return r->is_bad ? 0 : *r->bytes.at++;
}

static uint64_t read_word(struct reader *r)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < 8; i++)
        word |= (uint64_t)read_byte(r) << (8 * i);
    return word;
}

static uint32_t read_number(struct reader *r)
{
    uint64_t number = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = read_byte(r);
        number |= (uint64_t)(byte & 127) << shift;
        if (number > UINT32_MAX || (shift > 28 && byte & 128))
            r->is_bad = true;
        if (!(byte & 128) || r->is_bad)
            return (uint32_t)number;
    }
}

static uint32_t read_below(struct reader *r, uint32_t end)
{
    uint32_t number = read_number(r);
    if (number >= end)
        r->is_bad = true;
    return r->is_bad ? 0 : number;
}

/* --- numberings ------------------------------------------------------------------------------- */

/* The new order, of runs of the one before. Each function must be in it once. */
static void read_order(struct reader *r, struct dictionary *d, uint32_t count)
{
    uint32_t *order = d->other_order, filled = 0;
    for (uint32_t i = d->numbered; i < count; i++)
        d->order[i] = i;
    for (uint32_t runs = read_number(r); runs && !r->is_bad; runs--) {
        uint32_t from = read_below(r, count), length = read_number(r);
        if (!length || length > count - from || length > count - filled)
            r->is_bad = true;
        for (uint32_t i = 0; i < length && !r->is_bad; i++)
            order[filled++] = d->order[from + i];
    }
    if (filled != count)
        r->is_bad = true;
    for (uint32_t i = 0; i < count && !r->is_bad; i++)
        d->functions[order[i]].rank = UINT32_MAX;
    for (uint32_t i = 0; i < count && !r->is_bad; i++) {
        struct dictionary_function *f = &d->functions[order[i]];
        r->is_bad |= f->rank != UINT32_MAX; /* it is there twice */
        f->rank = i;
    }
    d->other_order = d->order;
    d->order = order;
}

static void read_coded(struct reader *r, struct dictionary *d, uint32_t count, uint32_t edges)
{
    uint32_t function = 0;
    for (uint32_t left = read_number(r); left && !r->is_bad; left--) {
        uint32_t gap = read_below(r, count - function), length;
        function += gap;
        length = read_number(r);
        if (length > d->coded_room - d->coded_count)
            r->is_bad = true;
        if (r->is_bad)
            return;
        struct dictionary_function *f = &d->functions[function++];
        f->first = d->coded_count;
        f->count = length;
        for (uint32_t i = 0; i < length && !r->is_bad; i++)
            d->coded[d->coded_count++] = read_below(r, edges);
        if (left > 1 && function == count)
            r->is_bad = true;
    }
}

static void read_numbers(struct reader *r, struct dictionary *d, uint32_t functions, uint32_t edges)
{
    uint32_t count = read_number(r);
    if (count > functions || count < d->numbered)
        r->is_bad = true;
    if (r->is_bad)
        return;
    read_order(r, d, count);
    if (!r->is_bad)
        read_coded(r, d, count, edges);
    d->numbered = count;
}

/* Ranges, as graph_number gives them to functions whose edges are known. */
static bool give_ranges(struct dictionary *d)
{
    uint64_t next = 1;
    for (uint32_t i = 0; i < d->numbered; i++) {
        struct dictionary_function *f = &d->functions[d->order[i]];
        uint64_t numbers = 0;
        for (uint32_t k = 0; k < f->count; k++) {
            struct dictionary_edge *e = &d->edges[d->coded[f->first + k]];
            const struct dictionary_function *caller = &d->functions[e->caller];
            if (e->callee != d->order[i] || e->caller >= d->numbered || caller->rank >= i)
                return false;
            e->code = (uint32_t)numbers;
            numbers += caller->numbers;
            if (numbers > INT32_MAX)
                return false;
        }
        f->base = (uint32_t)next;
        f->numbers = (uint32_t)(numbers ? numbers : 1);
        next += f->numbers;
        if (next > UINT32_MAX)
            return false;
    }
    return true;
}

/* --- all records ------------------------------------------------------------------------------ */

/* How many there are of each, in sound bytes; what they say is looked at when they are read. */
static bool count_records(struct dictionary *d, struct reader r)
{
    d->entry_count = d->task_count = 1;
    while (!at_end(&r.bytes) && !r.is_bad) {
        switch (read_byte(&r)) {
        case DICTIONARY_FUNCTION:
            read_word(&r);
            d->function_count++;
            break;
        case DICTIONARY_EDGE:
            read_word(&r);
            read_number(&r);
            read_number(&r);
            read_byte(&r);
            d->edge_count++;
            break;
        case DICTIONARY_ENTRY:
            read_word(&r);
            read_number(&r);
            d->entry_count++;
            break;
        case DICTIONARY_TASK:
            for (unsigned i = 0; i < 5; i++)
                read_word(&r);
            d->task_count++;
            break;
        case DICTIONARY_PLACE:
            read_word(&r);
            break;
        case DICTIONARY_NUMBERS:
            read_number(&r);
            read_number(&r);
            for (uint32_t runs = read_number(&r); runs && !r.is_bad; runs--) {
                read_number(&r);
                read_number(&r);
            }
            for (uint32_t left = read_number(&r); left && !r.is_bad; left--) {
                read_number(&r);
                for (uint32_t edges = read_number(&r); edges && !r.is_bad; edges--) {
                    read_number(&r);
                    d->coded_room++;
                }
            }
            break;
        default:
            return false;
        }
    }
    return !r.is_bad;
}

static bool take_memory(struct dictionary *d, struct dictionary_memory *m)
{
    d->functions = m->take(m, (d->function_count + 1ul) * sizeof *d->functions);
    d->edges = m->take(m, (d->edge_count + 1ul) * sizeof *d->edges);
    d->entries = m->take(m, (d->entry_count + 1ul) * sizeof *d->entries);
    d->tasks = m->take(m, (d->task_count + 1ul) * sizeof *d->tasks);
    d->order = m->take(m, (d->function_count + 1ul) * sizeof *d->order);
    d->other_order = m->take(m, (d->function_count + 1ul) * sizeof *d->other_order);
    d->coded = m->take(m, (d->coded_room + 1ul) * sizeof *d->coded);
    return d->functions && d->edges && d->entries && d->tasks && d->order && d->other_order &&
           d->coded;
}

static struct dictionary_snapshot read_task(struct reader *r)
{
    struct dictionary_snapshot s;
    s.run = read_word(r);
    s.stamp = read_word(r);
    s.word = read_word(r);
    s.place = read_word(r);
    s.task = read_word(r);
    return s;
}

/* What comes with the numbers behind the wanted ones does not belong to them. */
struct seen {
    uint32_t functions, edges, entries, tasks;
    bool is_found;
};

static void read_edge(struct reader *r, struct dictionary *d, struct seen *seen)
{
    struct dictionary_edge *e = &d->edges[seen->edges++];
    e->site_key = read_word(r);
    e->caller = read_below(r, seen->functions);
    e->callee = read_below(r, seen->functions);
    e->is_tail = read_byte(r) & 1;
}

/* Entries lead to those before them alone. */
static void read_entry(struct reader *r, struct dictionary *d, struct seen *seen)
{
    struct dictionary_entry *e = &d->entries[seen->entries];
    e->caller = read_word(r);
    e->edge = read_below(r, seen->edges);
    if ((uint32_t)e->caller >= seen->entries)
        r->is_bad = true;
    seen->entries++;
}

/* False: the wanted numbers end here. */
static bool read_record(struct reader *r, struct dictionary *d, struct seen *seen, uint32_t wanted)
{
    switch (read_byte(r)) {
    case DICTIONARY_FUNCTION:
        d->functions[seen->functions++].key = read_word(r);
        return true;
    case DICTIONARY_EDGE:
        read_edge(r, d, seen);
        return true;
    case DICTIONARY_ENTRY:
        read_entry(r, d, seen);
        return true;
    case DICTIONARY_TASK:
        d->tasks[seen->tasks++] = read_task(r);
        return true;
    case DICTIONARY_PLACE:
        read_word(r);
        return true;
    default: /* DICTIONARY_NUMBERS: others have been refused */
        if (seen->is_found)
            return false;
        seen->is_found = read_number(r) == wanted;
        read_numbers(r, d, seen->functions, seen->edges);
        if (seen->is_found && !r->is_bad && !give_ranges(d))
            r->is_bad = true;
        return true;
    }
}

enum dictionary_status dictionary_read(struct dictionary *d, const struct dictionary_bytes *bytes,
                                       uint32_t numbering, struct dictionary_memory *memory)
{
    struct reader r = {.bytes = *bytes};
    struct seen seen = {.entries = 1, .tasks = 1};
    *d = (struct dictionary){0};
    if (!count_records(d, r))
        return DICTIONARY_DAMAGED;
    if (!take_memory(d, memory))
        return DICTIONARY_NO_MEMORY;
    while (!r.is_bad && !at_end(&r.bytes) && read_record(&r, d, &seen, numbering))
        ;
    d->function_count = seen.functions;
    d->edge_count = seen.edges;
    d->entry_count = seen.entries;
    d->task_count = seen.tasks;
    if (r.is_bad || (seen.is_found && !d->numbered))
        return DICTIONARY_DAMAGED;
    return seen.is_found ? DICTIONARY_OK : DICTIONARY_NO_NUMBERING;
}

/* --- decoding --------------------------------------------------------------------------------- */

enum { ROOT_FUNCTION = 0 };

uint32_t dictionary_function_of(const struct dictionary *d, uint64_t word)
{
    uint32_t id = (uint32_t)(word >> 32), entry = (uint32_t)word, i;
    if (entry >= d->entry_count)
        return UINT32_MAX;
    if (!id) /* of a function that has no number yet */
        return entry ? d->edges[d->entries[entry].edge].callee : UINT32_MAX;
    SEARCH(i, d->numbered, d->functions[d->order[i]].base <= id);
    if (!i)
        return UINT32_MAX;
    const struct dictionary_function *f = &d->functions[d->order[i - 1]];
    return id - f->base < f->numbers ? d->order[i - 1] : UINT32_MAX;
}

/* Where a path of coded edges began: with the first number of its function. */
static enum dictionary_status leave_entry(const struct dictionary *d, uint64_t word,
                                          uint32_t function, uint32_t *edge, uint64_t *caller)
{
    uint32_t id = (uint32_t)(word >> 32), entry = (uint32_t)word;
    if (id != (function < d->numbered ? d->functions[function].base : 0))
        return DICTIONARY_NO_CONTEXT;
    if (!entry)
        return DICTIONARY_OK; /* the thread begins here */
    *edge = d->entries[entry].edge;
    *caller = d->entries[entry].caller;
    if (dictionary_function_of(d, *caller) != d->edges[*edge].caller)
        return DICTIONARY_NO_CONTEXT;
    return DICTIONARY_OK;
}

enum dictionary_status dictionary_leave(const struct dictionary *d, uint64_t word, uint32_t *edge,
                                        uint64_t *caller)
{
    uint32_t id = (uint32_t)(word >> 32), entry = (uint32_t)word;
    uint32_t function = dictionary_function_of(d, word);
    *edge = UINT32_MAX;
    if (function == UINT32_MAX)
        return DICTIONARY_NO_CONTEXT;
    if (function == (entry ? d->edges[d->entries[entry].edge].callee : ROOT_FUNCTION))
        return leave_entry(d, word, function, edge, caller);
    const struct dictionary_function *f = &d->functions[function];
    for (uint32_t i = 0; i < f->count; i++) {
        uint32_t k = d->coded[f->first + i], place = id - f->base - d->edges[k].code;
        const struct dictionary_function *from = &d->functions[d->edges[k].caller];
        if (id - f->base < d->edges[k].code || place >= from->numbers)
            continue;
        *edge = k;
        *caller = (uint64_t)(from->base + place) << 32 | entry;
        return DICTIONARY_OK;
    }
    return DICTIONARY_NO_CONTEXT;
}
