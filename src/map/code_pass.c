/*
 * The FDEs are cut into chunks of about the same number of bytes, whatever the number of threads.
 * A thread takes one chunk after the other. What was found is put together in the order of chunks.
 */
#include "map/code_pass.h"

#include "map/map.h"

#include <pthread.h>
#include <unistd.h>

/* A chunk takes a few milliseconds; a thread must have several, or it is not worth its start. */
enum { CHUNK_BYTES = 1 << 18, CHUNKS_PER_THREAD = 8, MOST_THREADS = 16 };

struct chunk {
    size_t first, past; /* FDEs */
    struct corrections_finder *corrections;
    struct unmarkable_finder *unmarkable;
};

struct pass {
    const struct elf_file *file;
    const struct cfi *cfi;
    const struct map_tables *tables;
    ZydisDecoder decoder;
    VEC(struct chunk) chunks;
    _Atomic size_t next;
};

static void cut_into_chunks(struct pass *p)
{
    const struct fde *fdes = p->cfi->fdes.items;
    size_t first = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < p->cfi->fdes.count; i++) {
        bytes += fdes[i].end - fdes[i].start;
        if (bytes >= CHUNK_BYTES || i + 1 == p->cfi->fdes.count) {
            vec_push(&p->chunks, (struct chunk){.first = first, .past = i + 1});
            first = i + 1;
            bytes = 0;
        }
    }
}

static void look_at_fde(const struct pass *p, struct chunk *chunk, size_t index)
{
    const struct fde *fde = &p->cfi->fdes.items[index];
    uint64_t start = p->file->base + fde->start;
    const struct code_range *code = elf_code_at(p->file, start);
    if (!code || fde->end - fde->start > code->end - start)
        return;
    const uint8_t *bytes = code->bytes + (start - code->start);
    bool overlaps = index && fde->start < p->cfi->fdes.items[index - 1].end;
    bool corrections = !overlaps && corrections_fde(chunk->corrections, fde, bytes);
    bool unmarkable = true;
    unmarkable_fde(chunk->unmarkable, index, fde, code);
    uint32_t row_end = 0;
    struct map_special rule = {0};
    struct instruction i;
    for (uint32_t pc = fde->start; pc < fde->end && (corrections || unmarkable); pc = i.next) {
        if (!instruction_read(&p->decoder, bytes + (pc - fde->start), fde->end - pc, pc, &i))
            return;
        if (pc >= row_end) { /* rows are long: look each up once */
            int64_t row = map_find_row(p->tables, pc);
            rule = map_spell_rule(p->tables, row < 0 ? UINT32_MAX : (uint32_t)row);
            row_end = row >= 0 && (uint32_t)row + 1 < p->tables->row_count
                          ? p->tables->rows[row + 1].pc
                          : fde->end;
        }
        if (corrections)
            corrections_take(chunk->corrections, &i, &rule);
        if (unmarkable)
            unmarkable = unmarkable_take(chunk->unmarkable, &i, &rule);
    }
}

static void *look_at_chunks(void *argument)
{
    struct pass *p = argument;
    for (size_t c; (c = p->next++) < p->chunks.count;) {
        struct chunk *chunk = &p->chunks.items[c];
        chunk->corrections = corrections_begin(p->tables, &p->decoder);
        chunk->unmarkable = unmarkable_begin(p->file);
        for (size_t i = chunk->first; i < chunk->past; i++)
            look_at_fde(p, chunk, i);
    }
    return NULL;
}

/* A thread that cannot be started is not missed: the others do its work. */
static void look_in_threads(struct pass *p)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t most = processors > 1 ? (size_t)processors : 1, started = 0;
    most = most < MOST_THREADS ? most : MOST_THREADS;
    pthread_t threads[MOST_THREADS] = {0};
    while (started + 1 < most && (started + 2) * CHUNKS_PER_THREAD <= p->chunks.count &&
           pthread_create(&threads[started], NULL, look_at_chunks, p) == 0)
        started++;
    look_at_chunks(p);
    while (started)
        pthread_join(threads[--started], NULL);
}

void code_pass(const struct elf_file *file, const struct cfi *cfi,
               const struct functions *functions, const struct map_tables *tables,
               struct unwind_table *table, struct corrections *corrections,
               struct unmarkable *unmarkable)
{
    struct pass p = {.file = file, .cfi = cfi, .tables = tables};
    VEC(struct unmarkable_finder *) finders = {0};
    ZydisDecoderInit(&p.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    cut_into_chunks(&p);
    look_in_threads(&p);
    for (size_t i = 0; i < p.chunks.count; i++) {
        corrections_end(p.chunks.items[i].corrections, table, corrections);
        vec_push(&finders, p.chunks.items[i].unmarkable);
    }
    corrections_sort(corrections);
    unmarkable_end(finders.items, finders.count, file, cfi, functions, unmarkable);
    vec_free(&finders);
    vec_free(&p.chunks);
}
