#include "runtime/edit/rows.h"

#include "unwind/walk.h"

#include <stdbool.h>
#include <stddef.h>

enum { MOST_ROWS = 1 << 17, MOST_IN_SHAPE = 256, MOST_SHAPES = 1 << 13, PLACES = 1 << 14 };

static struct stub_row
    rows[MOST_ROWS + MOST_IN_SHAPE]; /* comparing may look beyond a short shape */
static struct stub_shape shapes[MOST_SHAPES];
static uint32_t row_count, shape_count;
static uint16_t by_hash[PLACES]; /* a shape's number plus one; 0: free */

const struct stub_row *const rows_all = rows;
const struct stub_shape *const rows_shapes = shapes;

/* A row in two words: half a million stubs are looked up at the start of a large program. */
struct two_words {
    uint64_t low;
    uint32_t high;
};

static struct two_words words_of(const struct stub_row *row)
{
    struct two_words words;
    __builtin_memcpy(&words.low, row, sizeof words.low);
    __builtin_memcpy(&words.high, (const char *)row + sizeof words.low, sizeof words.high);
    return words;
}

static uint64_t hash_of(const struct stub_row *wanted, uint32_t count)
{
    uint64_t h = count;
    for (uint32_t i = 0; i < count; i++) {
        struct two_words w = words_of(&wanted[i]);
        uint64_t both = w.low ^ (uint64_t)w.high << 40;
        __asm__("crc32q %1, %0" : "+r"(h) : "r"(both));
    }
    return h;
}

static bool is_same(const struct stub_row *a, const struct stub_row *b, uint32_t count)
{
    uint64_t differ = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct two_words x = words_of(&a[i]), y = words_of(&b[i]);
        differ |= (x.low ^ y.low) | (x.high ^ y.high);
    }
    return !differ && a[count].at == ROW_LAST;
}

/* Stubs of the same length mostly have the same rows as the last one had: that is looked at first.
 */
enum { GUESSES = 1024 };
static uint16_t guesses[GUESSES];

static uint32_t find_shape(const struct stub_row *wanted, uint32_t count)
{
    uint32_t place = (uint32_t)hash_of(wanted, count) & (PLACES - 1);
    for (; by_hash[place]; place = (place + 1) & (PLACES - 1)) {
        uint32_t shape = by_hash[place] - 1u;
        if (is_same(&rows[shapes[shape].first_row], wanted, count))
            return shape;
    }
    if (shape_count == MOST_SHAPES || MOST_ROWS - row_count < count + 1)
        return ROWS_NO_SHAPE;
    struct stub_row *new = &rows[row_count];
    for (uint32_t i = 0; i < count; i++)
        new[i] = wanted[i];
    new[count].at = ROW_LAST;
    shapes[shape_count].first_row = row_count;
    row_count += count + 1;
    by_hash[place] = (uint16_t)++shape_count;
    return shape_count - 1;
}

uint32_t rows_shape(const struct stub_row *wanted, uint32_t count, uint32_t bytes)
{
    uint16_t *guess = &guesses[bytes % GUESSES];
    if (*guess < shape_count && is_same(&rows[shapes[*guess].first_row], wanted, count))
        return *guess;
    uint32_t shape = find_shape(wanted, count);
    if (shape != ROWS_NO_SHAPE)
        *guess = (uint16_t)shape;
    return shape;
}

void rows_leave(uint32_t shape, uint32_t at, uint64_t site, struct walk_registers *r)
{
    const struct stub_row *row = &rows[shapes[shape].first_row];
    while (row[1].at <= at && row[1].at != ROW_LAST)
        row++;
    const uint64_t *top = (const uint64_t *)r->value[X86_RSP];
    if (row->rax)
        r->value[X86_RAX] = top[row->words - row->rax];
    if (row->rcx)
        r->value[X86_RCX] = top[row->words - row->rcx];
    if (row->rdx)
        r->value[X86_RDX] = top[row->words - row->rdx];
    r->value[X86_RSP] += 8ul * row->words;
    if (row->flags & ROW_CALLED) {
        r->value[X86_RIP] = top[row->words];
        r->value[X86_RSP] += 8;
        return;
    }
    uint64_t moved = row->flags & ROW_MOVES ? at - row->at : 0;
    r->value[X86_RIP] = site + (uint64_t)(int64_t)row->pc + moved;
    r->value[X86_RIP] += row->flags & ROW_RETURNS ? 1 : 0;
}

uint32_t rows_return(uint32_t shape)
{
    for (const struct stub_row *row = &rows[shapes[shape].first_row]; row->at != ROW_LAST; row++)
        if (row->flags & ROW_RETURNS)
            return row->at;
    return 0;
}

const struct stub_row *rows_enter(uint32_t shape, int64_t from_site, uint32_t *at)
{
    for (const struct stub_row *row = &rows[shapes[shape].first_row]; row->at != ROW_LAST; row++) {
        int64_t moved = from_site - row->pc;
        if (!(row->flags & ROW_MOVES) || row[1].at == ROW_LAST || moved < 0 ||
            moved > row[1].at - row->at)
            continue;
        *at = row->at + (uint32_t)moved;
        return row;
    }
    return NULL;
}
