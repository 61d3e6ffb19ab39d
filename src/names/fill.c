#include "names/fill.h"

#include "base/progress.h"
#include "names/dwarf_lookup.h"
#include "names/name_cache.h"
#include "names/symbol_names.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* Modules are shared out to threads; a large one is cut into slices besides. */
enum { THREADS_MAX = 16, SLICES_MAX = 4, SLICE_LEAST = 2000 };

/* One file, which may be several modules of the profile: each process brings its own. */
struct job {
    uint32_t module; /* the first of them */
    char *path;      /* copies: the profile's strings move */
    struct debug_module identity;
    uint8_t build_id[CTP_BUILD_ID_ROOM];
    uint64_t base;
    VEC(uint64_t) offsets; /* sorted, each once, when the work begins */
    struct sources sources;
    struct symbol_names symbols;
    bool needs_symbols; /* some of its functions have no name */
    bool found;         /* debug information */
    int status;
    struct ct_error error;
};

struct filling {
    struct profile_writer *writer;
    const struct debug_folders *folders;
    struct name_cache cache;
    VEC(struct job) jobs;
    uint32_t *job_of_module; /* job + 1 */
    atomic_size_t next;
    size_t cores;
    struct progress progress;
};

/* ---- What is to be looked up ----------------------------------------------------------------- */

static bool is_same_file(const struct filling *f, const struct ctp_module *a, const struct job *b)
{
    return a->build_id_size == b->identity.build_id_size && a->base == b->base &&
           memcmp(a->build_id, b->build_id, sizeof b->build_id) == 0 &&
           strcmp(profile_added_string(f->writer, a->path), b->path) == 0;
}

static void make_jobs(struct filling *f)
{
    uint32_t count;
    const struct ctp_module *modules = profile_added_modules(f->writer, &count);
    f->job_of_module = must_calloc((size_t)count + 1, sizeof *f->job_of_module);
    for (uint32_t i = 0; i < count; i++) {
        if (modules[i].kind != CTP_MODULE_FILE)
            continue;
        size_t k = 0;
        while (k < f->jobs.count && !is_same_file(f, &modules[i], &f->jobs.items[k]))
            k++;
        if (k == f->jobs.count) {
            struct job job = {.module = i, .base = modules[i].base};
            job.path = must_strdup(profile_added_string(f->writer, modules[i].path));
            job.identity.build_id_size = modules[i].build_id_size;
            memcpy(job.build_id, modules[i].build_id, sizeof job.build_id);
            sources_init(&job.sources);
            vec_push(&f->jobs, job);
        }
        f->job_of_module[i] = (uint32_t)k + 1;
    }
    for (size_t i = 0; i < f->jobs.count; i++) { /* they stay where they are from here on */
        f->jobs.items[i].identity.path = f->jobs.items[i].path;
        f->jobs.items[i].identity.build_id = f->jobs.items[i].build_id;
    }
}

/* The job of a frame that has no lines yet, or NULL. */
static struct job *job_of(const struct filling *f, const struct ctp_frame *frame)
{
    uint32_t count;
    profile_added_modules(f->writer, &count);
    if (frame->gap != CTP_GAP_NONE || frame->module >= count || frame->line_count)
        return NULL;
    uint32_t job = f->job_of_module[frame->module];
    return job ? &f->jobs.items[job - 1] : NULL;
}

static uint64_t place_of(const struct ctp_frame *frame)
{
    return frame->offset - (frame->flags & CTP_FRAME_RETURN && frame->offset ? 1 : 0);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static size_t sort_once(uint64_t *items, size_t count)
{
    size_t kept = 0;
    if (count)
        qsort(items, count, sizeof *items, by_value);
    for (size_t i = 0; i < count; i++)
        if (!kept || items[kept - 1] != items[i])
            items[kept++] = items[i];
    return kept;
}

static uint64_t list_places(struct filling *f)
{
    uint32_t count, function_count;
    uint64_t sum = 0;
    const struct ctp_frame *frames = profile_added_frames(f->writer, &count);
    const struct ctp_function *functions = profile_added_functions(f->writer, &function_count);
    for (uint32_t i = 0; i < count; i++) {
        struct job *job = job_of(f, &frames[i]);
        if (!job)
            continue;
        vec_push(&job->offsets, place_of(&frames[i]));
        job->needs_symbols |=
            frames[i].function >= function_count || !functions[frames[i].function].name;
    }
    for (size_t i = 0; i < f->jobs.count; i++) {
        struct job *job = &f->jobs.items[i];
        job->offsets.count = sort_once(job->offsets.items, job->offsets.count);
        sum += job->offsets.count;
    }
    return sum;
}

/* ---- The work, in threads -------------------------------------------------------------------- */

static void note_done(void *progress, size_t places)
{
    progress_add(progress, places);
}

/* Neighbouring places of one file. Each slice reads the file for itself: libdw's handles are not to
 * be shared by threads. */
struct slice {
    struct filling *f;
    const char *path;
    uint64_t base;
    const uint64_t *offsets;
    size_t count;
    struct sources found;
};

static void *look_up_slice(void *context)
{
    struct slice *s = context;
    struct debug_info info;
    sources_init(&s->found);
    if (debug_info_open(s->path, &info, NULL) != CT_OK)
        return NULL;
    struct lookup_progress progress = {note_done, &s->f->progress};
    if (debug_info_dwarf(&info, s->f->folders))
        dwarf_lookup(info.dwarf, s->base, s->offsets, s->count, &progress, &s->found);
    debug_info_close(&info);
    return NULL;
}

static void look_up_missing(struct filling *f, struct job *job, const char *path,
                            const uint64_t *offsets, size_t count)
{
    struct slice slices[SLICES_MAX];
    pthread_t threads[SLICES_MAX];
    bool started[SLICES_MAX] = {false};
    size_t wanted = count / SLICE_LEAST + 1;
    wanted = wanted > f->cores ? f->cores : wanted;
    wanted = wanted > SLICES_MAX ? SLICES_MAX : wanted;
    for (size_t i = 0; i < wanted; i++) {
        size_t from = count * i / wanted, to = count * (i + 1) / wanted;
        slices[i] = (struct slice){f, path, job->base, offsets + from, to - from, {{{0}}}};
        started[i] = i && pthread_create(&threads[i], NULL, look_up_slice, &slices[i]) == 0;
    }
    for (size_t i = 0; i < wanted; i++) {
        if (started[i])
            pthread_join(threads[i], NULL);
        else
            look_up_slice(&slices[i]);
    }
    for (size_t i = 0; i < wanted; i++) {
        sources_join(&job->sources, &slices[i].found);
        sources_free(&slices[i].found);
    }
}

static void look_up(struct filling *f, struct job *job, const char *path)
{
    struct debug_info info;
    VEC(uint64_t) missing = {0};
    char *entry = name_cache_entry(&f->cache, &job->identity, path);
    if (entry)
        name_cache_read(entry, &job->identity, &job->sources);
    for (size_t i = 0; i < job->offsets.count; i++)
        if (!sources_find(&job->sources, job->offsets.items[i]))
            vec_push(&missing, job->offsets.items[i]);
    progress_add(&f->progress, job->offsets.count - missing.count);
    if (missing.count) {
        look_up_missing(f, job, path, missing.items, missing.count);
        if (entry)
            name_cache_write(&f->cache, entry, &job->identity, &job->sources);
    }
    if (job->needs_symbols && debug_info_open(path, &info, NULL) == CT_OK) {
        symbol_names_read(&job->symbols, info.elf, job->base);
        debug_info_close(&info);
    }
    vec_free(&missing);
    free(entry);
}

static void *work(void *context)
{
    struct filling *f = context;
    for (size_t i; (i = f->next++) < f->jobs.count;) {
        struct job *job = &f->jobs.items[i];
        char *path = NULL;
        if (job->offsets.count == 0)
            continue;
        job->status = debug_info_find(&job->identity, f->folders, &path, &job->error);
        if (path) {
            job->found = true;
            look_up(f, job, path);
        }
        free(path);
    }
    return NULL;
}

static void work_in_threads(struct filling *f)
{
    pthread_t threads[THREADS_MAX];
    size_t started = 0;
    while (started + 1 < f->cores && started + 1 < f->jobs.count &&
           pthread_create(&threads[started], NULL, work, f) == 0)
        started++;
    work(f);
    while (started)
        pthread_join(threads[--started], NULL);
}

/* ---- The answers into the profile ------------------------------------------------------------ */

/* The functions of one job, in the profile. */
struct adoption {
    struct filling *f;
    struct job *job;
    uint32_t *functions; /* by index in the sources: index in the profile + 1 */
    uint32_t *symbols;   /* by index in the symbols: the same */
};

static uint32_t copy_string(struct adoption *a, uint32_t offset)
{
    return profile_add_string(a->f->writer, strings_get(&a->job->sources.strings, offset));
}

static uint32_t adopt_function(struct adoption *a, uint32_t index)
{
    if (index >= a->job->sources.functions.count)
        return CTP_NONE;
    if (!a->functions[index]) {
        struct ctp_function f = a->job->sources.functions.items[index];
        f.name = copy_string(a, f.name);
        f.file = copy_string(a, f.file);
        f.module = a->job->module;
        a->functions[index] = profile_add_function(a->f->writer, &f) + 1;
    }
    return a->functions[index] - 1;
}

static uint32_t symbol_text(struct adoption *a, int64_t symbol)
{
    const struct symbol_names *names = &a->job->symbols;
    return profile_add_string(a->f->writer,
                              strings_get(&names->strings, names->items.items[symbol].name));
}

static uint32_t adopt_symbol(struct adoption *a, int64_t symbol)
{
    const struct symbol_name *s = &a->job->symbols.items.items[symbol];
    if (!a->symbols[symbol]) {
        struct ctp_function f = {.offset = s->offset,
                                 .size = s->size,
                                 .name = symbol_text(a, symbol),
                                 .module = a->job->module};
        a->symbols[symbol] = profile_add_function(a->f->writer, &f) + 1;
    }
    return a->symbols[symbol] - 1;
}

/* The function that holds the frame: what the profile has, or else by its symbol, or else what the
 * debug information says (`source`); completed with what it lacks. */
static uint32_t own_function(struct adoption *a, const struct ctp_frame *frame, uint32_t source)
{
    struct profile_writer *w = a->f->writer;
    const struct sources *s = &a->job->sources;
    uint32_t count, index = frame->function;
    profile_added_functions(w, &count);
    if (index >= count) {
        int64_t symbol = symbol_names_find(&a->job->symbols, place_of(frame));
        index = symbol >= 0 ? adopt_symbol(a, symbol) : adopt_function(a, source);
    }
    if (index == CTP_NONE)
        return index;
    struct ctp_function *own = &profile_added_functions(w, &count)[index];
    bool known = source < s->functions.count;
    if (!own->name) {
        int64_t symbol = symbol_names_find(&a->job->symbols, own->offset);
        own->name = symbol >= 0 ? symbol_text(a, symbol)
                    : known     ? copy_string(a, s->functions.items[source].name)
                                : 0;
    }
    if (!own->line && known) {
        own->file = copy_string(a, s->functions.items[source].file);
        own->line = s->functions.items[source].line;
    }
    return index;
}

static bool adopt_frame(struct adoption *a, uint32_t frame_index)
{
    struct profile_writer *w = a->f->writer;
    uint32_t count, source = CTP_NONE;
    const struct sources *s = &a->job->sources;
    struct ctp_frame frame = profile_added_frames(w, &count)[frame_index];
    const struct source_place *place = sources_find(s, place_of(&frame));
    if (place && place->line_count)
        source = s->lines.items[place->first_line + place->line_count - 1].function;
    frame.function = own_function(a, &frame, source);
    for (uint32_t i = 0; place && i < place->line_count; i++) {
        struct ctp_line line = s->lines.items[place->first_line + i];
        line.file = copy_string(a, line.file);
        line.function =
            i + 1 == place->line_count ? frame.function : adopt_function(a, line.function);
        uint32_t added = profile_add_line(w, &line);
        frame.first_line = frame.line_count++ ? frame.first_line : added;
    }
    profile_added_frames(w, &count)[frame_index] = frame;
    return frame.line_count != 0;
}

static void adopt_all(struct filling *f, struct fill_result *result)
{
    uint32_t count;
    const struct ctp_frame *frames = profile_added_frames(f->writer, &count);
    struct adoption *adoptions = must_calloc(f->jobs.count + 1, sizeof *adoptions);
    for (size_t i = 0; i < f->jobs.count; i++) {
        struct job *job = &f->jobs.items[i];
        adoptions[i] = (struct adoption){.f = f, .job = job};
        adoptions[i].functions =
            must_calloc(job->sources.functions.count + 1, sizeof *adoptions[i].functions);
        adoptions[i].symbols =
            must_calloc(job->symbols.items.count + 1, sizeof *adoptions[i].symbols);
        result->modules += job->offsets.count != 0;
        result->without += job->offsets.count && !job->found;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct job *job = job_of(f, &frames[i]);
        if (!job)
            continue;
        result->places++;
        result->located += adopt_frame(&adoptions[job - f->jobs.items], i);
    }
    for (size_t i = 0; i < f->jobs.count; i++) {
        free(adoptions[i].functions);
        free(adoptions[i].symbols);
    }
    free(adoptions);
}

int names_fill(struct profile_writer *writer, const struct debug_folders *folders,
               struct fill_result *result, struct ct_error *err)
{
    struct filling f = {.writer = writer, .folders = folders};
    int status = CT_OK;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    f.cores = cores > THREADS_MAX ? THREADS_MAX : cores > 1 ? (size_t)cores : 1;
    *result = (struct fill_result){0};
    elf_version(EV_CURRENT);
    name_cache_open(&f.cache);
    make_jobs(&f);
    progress_begin(&f.progress, "names", list_places(&f));
    work_in_threads(&f);
    progress_end(&f.progress);
    for (size_t i = 0; i < f.jobs.count && status == CT_OK; i++)
        if (f.jobs.items[i].status != CT_OK)
            status = ct_fail(err, "%s", f.jobs.items[i].error.text);
    if (status == CT_OK)
        adopt_all(&f, result);
    for (size_t i = 0; i < f.jobs.count; i++) {
        struct job *job = &f.jobs.items[i];
        free(job->path);
        vec_free(&job->offsets);
        sources_free(&job->sources);
        symbol_names_free(&job->symbols);
    }
    vec_free(&f.jobs);
    free(f.job_of_module);
    name_cache_close(&f.cache);
    return status;
}

int names_fill_file(const char *from, const char *to, const struct debug_folders *folders,
                    struct fill_result *result, struct ct_error *err)
{
    struct profile profile;
    struct profile_writer *writer;
    CT_TRY(profile_open(from, &profile, err));
    int status = profile_validate_tables(&profile, err);
    if (status == CT_OK)
        status = profile_verify_values(&profile, CTP_NONE, err);
    if (status == CT_OK) /* they are copied, too, and would get a hash that matches */
        status = profile_verify_times(&profile, err);
    if (status == CT_OK)
        status = profile_writer_open(to, &writer, err);
    if (status == CT_OK) {
        profile_copy(&profile, writer);
        status = names_fill(writer, folders, result, err);
        if (status == CT_OK)
            status = profile_writer_commit(writer, err);
        else
            profile_writer_abandon(writer);
    }
    profile_close(&profile);
    return status;
}
