#include "view/page_data.h"

#include "base/json.h"
#include "query/count.h"
#include "query/flat.h"
#include "query/view.h"
#include "query/wrappers.h"
#include "view/page_code.h"
#include "view/page_sources.h"
#include "view/page_times.h"

#include <inttypes.h>
#include <string.h>

/* All that is written of one profile. */
struct page {
    const struct profile *profile;
    const struct page_options *options;
    struct labels labels; /* functions */
    struct labels lines;  /* the same with every line apart, entry by entry */
    struct page_cut cut;
    struct page_times times;
    VEC(struct page_place) places; /* of source, by entry */
    FILE *out;
};

static void write_metrics(struct json *j, const struct profile *p)
{
    json_open(j, "metrics", '[');
    for (uint32_t i = 0; i < p->metric_count; i++) {
        const struct ctp_metric *metric = profile_metric(p, i);
        const struct count_kind *count = count_find(p, i);
        json_open(j, NULL, '{');
        json_string(j, "name", profile_string(p, metric->name));
        json_string(j, "unit", profile_string(p, metric->unit));
        json_string(j, "about", profile_string(p, metric->description));
        json_string(j, "kind", profile_metric_kind_name(metric->kind));
        json_unsigned(j, "period", metric->period);
        json_bool(j, "ofCalls", profile_metric_is_of_calls(p, i));
        if (count) {
            json_string(j, "countMetric", count->metric);
            json_string(j, "perCount", count->per_heading);
            json_bool(j, "countIsInclusive", count->is_inclusive);
            json_bool(j, "countIsAtLeast", count->is_at_least);
        }
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void write_labels(struct json *j, const struct labels *labels)
{
    json_open(j, "labels", '[');
    for (uint32_t i = 0; i < labels->items.count; i++) {
        const struct label *label = &labels->items.items[i];
        char text[1024];
        json_open(j, NULL, '[');
        json_unsigned(j, NULL, label->kind);
        json_string(j, NULL, label_name(labels, i, text, sizeof text));
        json_signed(j, NULL, label->module == CTP_NONE ? -1 : (int64_t)label->module);
        json_close(j, ']');
    }
    json_close(j, ']');
    bool *wraps = labels_that_wrap(labels);
    json_open(j, "wrappers", '[');
    for (uint32_t i = 0; i < labels->items.count; i++)
        if (wraps[i])
            json_unsigned(j, NULL, i);
    json_close(j, ']');
    free(wraps);
    json_open(j, "modules", '[');
    for (uint32_t i = 0; i < profile_module_count(labels->profile); i++) {
        const struct ctp_module *module = profile_module(labels->profile, i);
        char build_id[2 * CTP_BUILD_ID_ROOM + 1] = "";
        for (uint32_t k = 0; k < module->build_id_size && k < CTP_BUILD_ID_ROOM; k++)
            snprintf(build_id + 2 * (size_t)k, 3, "%02x", module->build_id[k]);
        json_open(j, NULL, '[');
        json_string(j, NULL, profile_string(labels->profile, module->path));
        json_string(j, NULL, build_id);
        json_close(j, ']');
    }
    json_close(j, ']');
}

static void write_command(struct json *j, const struct profile *p, uint32_t index)
{
    const struct ctp_process *process = profile_process(p, index);
    const char *argument;
    json_open(j, "arguments", '[');
    for (uint32_t i = 0; (argument = profile_argument(p, process, i)) != NULL; i++)
        json_string(j, NULL, argument);
    json_close(j, ']');
}

/* What can be chosen: threads, processes, phases, by the names that `report` knows them by. */
static void write_groups(struct json *j, const struct profile *p)
{
    char text[32];
    json_open(j, "threads", '[');
    for (uint32_t i = 0; i < profile_thread_count(p); i++) {
        const struct ctp_thread *thread = profile_thread(p, i);
        json_open(j, NULL, '[');
        json_string(j, NULL, view_group_name(p, GROUP_THREAD, i, text, sizeof text));
        json_unsigned(j, NULL, thread->tid);
        json_signed(j, NULL, thread->process == CTP_NONE ? -1 : (int64_t)thread->process);
        json_close(j, ']');
    }
    json_close(j, ']');
    json_open(j, "processes", '[');
    for (uint32_t i = 0; i < profile_process_count(p); i++) {
        const struct ctp_process *process = profile_process(p, i);
        json_open(j, NULL, '{');
        json_string(j, "command", profile_string(p, process->command));
        json_string(j, "name", view_group_name(p, GROUP_PROCESS, i, text, sizeof text));
        json_unsigned(j, "pid", process->pid);
        json_double(j, "seconds",
                    process->end_ns > process->start_ns && process->start_ns
                        ? (double)(process->end_ns - process->start_ns) / 1e9
                        : 0);
        write_command(j, p, i);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_open(j, "phases", '[');
    for (uint32_t i = 0; i < profile_epoch_count(p); i++)
        json_string(j, NULL, view_group_name(p, GROUP_PHASE, i, text, sizeof text));
    json_close(j, ']');
}

/* What is known of the whole profile, and of each metric, for the page on quality. */
static void write_facts(struct json *j, const struct profile *p)
{
    json_open(j, "facts", '[');
    for (uint32_t i = 0; i < profile_fact_count(p); i++) {
        const struct ctp_fact *fact = profile_fact(p, i);
        if (fact->scope != CTP_SCOPE_PROFILE && fact->scope != CTP_SCOPE_METRIC)
            continue;
        json_open(j, NULL, '[');
        json_signed(j, NULL, fact->scope == CTP_SCOPE_METRIC ? (int64_t)fact->index : -1);
        json_string(j, NULL, profile_string(p, fact->key));
        switch (fact->type) {
        case CTP_U64:
            json_unsigned(j, NULL, fact->value);
            break;
        case CTP_I64:
            json_signed(j, NULL, (int64_t)fact->value);
            break;
        case CTP_F64:
            json_double(j, NULL, profile_fact_double(fact));
            break;
        default:
            json_string(j, NULL, profile_string(p, fact->value));
            break;
        }
        json_close(j, ']');
    }
    json_close(j, ']');
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

struct array {
    const char *name, *type;
    const void *items;
    size_t count, size_bytes;
    void *owned; /* freed when it is written */
};

typedef VEC(struct array) array_list;

static uint32_t *own_u32(array_list *list, const char *name, size_t count)
{
    uint32_t *items = must_calloc(count + 1, sizeof *items);
    vec_push(list, (struct array){name, "u32", items, count, sizeof *items, items});
    return items;
}

static double *own_f64(array_list *list, const char *name, size_t count)
{
    double *items = must_calloc(count + 1, sizeof *items);
    vec_push(list, (struct array){name, "f64", items, count, sizeof *items, items});
    return items;
}

/* Frames: what each stands for, outermost first, and where that is in the source and the code. The
 * last frame and label are those of what was cut. `files` gets the offsets of their names. */
static void frame_arrays(struct page *page, array_list *list, struct string_pool *files)
{
    const struct profile *p = page->profile;
    uint32_t frames = profile_frame_count(p), entries = (uint32_t)page->labels.of_frames.count;
    uint32_t *first = own_u32(list, "frameFirst", (size_t)frames + 2);
    uint32_t *label = own_u32(list, "entryLabel", (size_t)entries + 1);
    uint32_t *file = own_u32(list, "entryFile", (size_t)entries + 1);
    uint32_t *line = own_u32(list, "entryLine", (size_t)entries + 1);
    uint32_t *module = own_u32(list, "frameModule", (size_t)frames + 1);
    double *place = own_f64(list, "framePlace", (size_t)frames + 1);
    memcpy(first, page->labels.first_of_frame, ((size_t)frames + 1) * sizeof *first);
    first[frames + 1] = entries + 1;
    memcpy(label, page->labels.of_frames.items, entries * sizeof *label);
    label[entries] = (uint32_t)page->labels.items.count;
    for (uint32_t i = 0; i < entries; i++) {
        uint32_t of_line = page->lines.of_frames.items[i];
        uint64_t at = page->lines.items.items[of_line].place;
        const char *name = strings_get(&page->lines.texts, (uint32_t)(at >> 32));
        file[i] = strings_add(files, name);
        line[i] = (uint32_t)at;
        vec_push(&page->places, (struct page_place){file[i], line[i]});
    }
    for (uint32_t i = 0; i < frames; i++) {
        const struct ctp_frame *frame = profile_frame(p, i);
        module[i] = frame->module < profile_module_count(p) ? page->labels.modules[frame->module]
                                                            : CTP_NONE;
        place[i] = (double)(frame->offset - (frame->flags & CTP_FRAME_RETURN ? 1 : 0));
    }
    module[frames] = CTP_NONE;
}

static void node_arrays(struct page *page, array_list *list)
{
    const struct profile *p = page->profile;
    uint32_t roots = profile_root_count(p);
    size_t count = page->cut.parents.count;
    uint32_t *thread = own_u32(list, "rootThread", roots);
    uint32_t *phase = own_u32(list, "rootPhase", roots);
    for (uint32_t i = 0; i < roots; i++) {
        thread[i] = profile_root(p, i)->thread;
        phase[i] = profile_root(p, i)->epoch;
    }
    vec_push(list, (struct array){"rootFirst", "u32", page->cut.first_nodes, (size_t)roots + 1,
                                  sizeof(uint32_t), NULL});
    vec_push(list, (struct array){"nodeParent", "u32", page->cut.parents.items, count,
                                  sizeof(uint32_t), NULL});
    vec_push(list, (struct array){"nodeFrame", "u32", page->cut.frames.items, count,
                                  sizeof(uint32_t), NULL});
    for (uint32_t metric = 0; metric < p->metric_count; metric++) {
        double *values = own_f64(list, "values", count);
        for (uint32_t i = 0; i < p->node_count; i++)
            values[page->cut.targets[i]] += (double)p->values[metric][i];
    }
}

static void time_arrays(const struct page *page, array_list *list)
{
    size_t count = page->times.items.count;
    uint32_t *node = own_u32(list, "timeNode", count);
    uint32_t *at = own_u32(list, "timeAt", count);
    uint32_t *samples = own_u32(list, "timeSamples", count);
    for (size_t i = 0; i < count; i++) {
        node[i] = page->times.items.items[i].node;
        at[i] = page->times.items.items[i].at;
        samples[i] = page->times.items.items[i].samples;
    }
}

/*
 * Functions as they are in the whole profile, where the page does not have all of it: "flatSelf"
 * and "flatTotal" by label, for each metric. Behind the profile's labels the page has two more,
 * that of what was cut and that of cost without a context; a view has only the latter.
 */
static int flat_arrays(struct page *page, array_list *list, struct ct_error *err)
{
    const struct profile *p = page->profile;
    size_t labels = page->labels.items.count;
    for (uint32_t metric = 0; metric < p->metric_count; metric++) {
        struct view_options options = {.metric = profile_string(p, profile_metric(p, metric)->name),
                                       .thread = page->options->thread,
                                       .process = page->options->process,
                                       .phase = page->options->phase,
                                       .labels = page->labels.options};
        struct view view;
        CT_TRY(view_open(p, &options, &view, err));
        double *self = own_f64(list, "flatSelf", labels + 2);
        double *total = own_f64(list, "flatTotal", labels + 2);
        uint32_t count;
        struct flat_row *rows = flat_rows(&view, &count);
        for (uint32_t i = 0; i < count; i++) {
            size_t at = rows[i].label < labels ? rows[i].label : labels + 1;
            self[at] = (double)rows[i].self;
            total[at] = (double)rows[i].total;
        }
        free(rows);
        view_close(&view);
    }
    return CT_OK;
}

static void write_array_list(struct json *j, const array_list *list)
{
    json_open(j, "arrays", '[');
    for (size_t i = 0; i < list->count; i++) {
        json_open(j, NULL, '[');
        json_string(j, NULL, list->items[i].name);
        json_string(j, NULL, list->items[i].type);
        json_unsigned(j, NULL, list->items[i].count);
        json_close(j, ']');
    }
    json_close(j, ']');
}

static void write_files(struct json *j, const struct string_pool *files)
{
    /* By offset in the pool, as the entries have it; 0 is "". */
    json_open(j, "files", '[');
    for (size_t at = 1; at < files->bytes.count; at += strlen(files->bytes.items + at) + 1) {
        json_open(j, NULL, '[');
        json_unsigned(j, NULL, at);
        json_string(j, NULL, files->bytes.items + at);
        json_close(j, ']');
    }
    json_close(j, ']');
}

static char *header_text(struct page *page, const array_list *list, const struct string_pool *files,
                         size_t *size)
{
    const struct profile *p = page->profile;
    char *text = NULL;
    FILE *memory = open_memstream(&text, size);
    if (!memory)
        abort(); /* no memory */
    struct json j = json_to(memory);
    json_open(&j, NULL, '{');
    json_string(&j, "version", CALLTRAIL_VERSION);
    json_string(&j, "file", p->name);
    json_open(&j, "cut", '{');
    json_double(&j, "share", page->cut.share);
    json_unsigned(&j, "leftOut", page->cut.left_out);
    json_unsigned(&j, "nodes", p->node_count);
    json_close(&j, '}');
    write_metrics(&j, p);
    write_groups(&j, p);
    write_labels(&j, &page->labels);
    write_files(&j, files);
    if (page->options->with_sources)
        page_code_write(&j, &page->labels);
    if (page->options->with_sources)
        page_sources_write(&j, page->places.items, page->places.count, files,
                           &page->options->sources);
    write_facts(&j, p);
    page_times_write(&j, &page->times);
    write_array_list(&j, list);
    json_close(&j, '}');
    fclose(memory);
    return text;
}

/* All parts begin at multiples of 8, as typed arrays must. */
static void write_padded(FILE *out, const void *bytes, size_t size)
{
    static const char zeros[8];
    if (size)
        fwrite(bytes, 1, size, out);
    fwrite(zeros, 1, -size % 8, out);
}

/* The header, its length before it, and the arrays, which are freed, unless nothing is to be
 * written. */
static void write_parts(FILE *out, const char *header, size_t size, array_list *list)
{
    if (header) {
        uint64_t length = size;
        fwrite(&length, sizeof length, 1, out);
        write_padded(out, header, size);
    }
    for (size_t i = 0; i < list->count; i++) {
        const struct array *array = &list->items[i];
        if (header)
            write_padded(out, array->items, array->count * array->size_bytes);
        free(array->owned);
    }
    vec_free(list);
}

static int write_page(struct page *page, struct ct_error *err)
{
    array_list list = {0};
    struct string_pool files;
    size_t size = 0;
    char *header = NULL;
    strings_init(&files);
    frame_arrays(page, &list, &files);
    node_arrays(page, &list);
    page_times_find(page->profile, page->cut.targets, page->options->times_max, &page->times);
    time_arrays(page, &list);
    int status =
        page->cut.left_out && !page->options->without_flat ? flat_arrays(page, &list, err) : CT_OK;
    if (status == CT_OK)
        header = header_text(page, &list, &files, &size);
    write_parts(page->out, header, size, &list);
    strings_free(&files);
    free(header);
    return status;
}

int page_data_write(const struct profile *p, const struct page_options *options, FILE *out,
                    struct ct_error *err)
{
    CT_TRY(view_check_roots(p, err));
    CT_TRY(profile_verify_values(p, CTP_NONE, err));
    CT_TRY(profile_verify_times(p, err));
    struct page page = {.profile = p, .options = options, .out = out};
    struct label_options by_code = {.keep_mangled = options->keep_mangled};
    struct label_options by_line = by_code;
    by_line.identity = LABEL_BY_LINE;
    labels_init(&page.labels, p, &by_code);
    labels_init(&page.lines, p, &by_line);
    page_cut(&page.labels, &options->cut, &page.cut);
    int status = write_page(&page, err);
    page_times_free(&page.times);
    page_cut_free(&page.cut);
    vec_free(&page.places);
    labels_free(&page.lines);
    labels_free(&page.labels);
    return status;
}

int page_flat_write(const struct profile *p, const struct page_options *options, FILE *out,
                    struct ct_error *err)
{
    CT_TRY(view_check_roots(p, err));
    CT_TRY(profile_verify_values(p, CTP_NONE, err));
    struct page page = {.profile = p, .options = options, .out = out};
    array_list list = {0};
    char *header = NULL;
    size_t size = 0;
    labels_init(&page.labels, p, &(struct label_options){.keep_mangled = options->keep_mangled});
    int status = flat_arrays(&page, &list, err);
    if (status == CT_OK) {
        FILE *memory = open_memstream(&header, &size);
        if (!memory)
            abort(); /* no memory */
        struct json j = json_to(memory);
        json_open(&j, NULL, '{');
        write_array_list(&j, &list);
        json_close(&j, '}');
        fclose(memory);
    }
    write_parts(out, header, size, &list);
    free(header);
    labels_free(&page.labels);
    return status;
}
