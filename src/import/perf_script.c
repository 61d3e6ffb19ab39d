/*
 * What `perf script` prints: for each sample a line that says where and what,
 *
 *     comm pid/tid [cpu] time: period event: …
 *
 * of which all but comm, tid and event may be missing, then a line for each frame, innermost first,
 *
 *         address symbol+0xoffset (module)
 *
 * and an empty line. Without call chains the one frame is at the end of the first line. A function
 * that was inlined has a line of its own before that of the function it was inlined into, with
 * `(inlined)` for the module. Source positions, where asked for, have lines of their own.
 */
#include "import/import.h"

#include <inttypes.h>
#include <string.h>

enum { TOKENS_MAX = 64, FRAMES_MAX = 1 << 20 };

struct span {
    const char *text;
    size_t length;
};

struct perf_header {
    struct span comm, event;
    uint32_t pid, tid;
    uint64_t period;
    bool has_period;
    struct span rest; /* behind the event */
};

struct perf_frame {
    uint64_t address;
    struct span symbol, module; /* empty when they are not known */
    struct span file;
    uint32_t line;
    bool inlined;
};

struct perf_reader {
    struct gather *g;
    const char *name;
    bool in_sample;
    struct perf_header header; /* of the current sample */
    uint64_t header_line;
    VEC(struct perf_frame) frames;
    uint64_t first_skipped; /* line */
    VEC(uint64_t) samples;  /* by thread */
};

/* ---- The first line -----------------------------------------------------------------------------
 */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static struct span trim(struct span s)
{
    while (s.length && is_space(s.text[0])) {
        s.text++;
        s.length--;
    }
    while (s.length && is_space(s.text[s.length - 1]))
        s.length--;
    return s;
}

/* A decimal number that is all of the span. */
static bool span_number(struct span s, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < s.length; i++)
        if (!is_digit(s.text[i]) || __builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, (uint64_t)(s.text[i] - '0'), value))
            return false;
    return s.length > 0;
}

static bool is_time(struct span s)
{
    size_t dots = 0;
    if (s.length < 2 || s.text[s.length - 1] != ':')
        return false;
    for (size_t i = 0; i + 1 < s.length; i++) {
        dots += s.text[i] == '.';
        if (!is_digit(s.text[i]) && s.text[i] != '.')
            return false;
    }
    return dots <= 1;
}

static bool is_cpu(struct span s)
{
    uint64_t number;
    return s.length > 2 && s.text[0] == '[' && s.text[s.length - 1] == ']' &&
           span_number((struct span){s.text + 1, s.length - 2}, &number);
}

/* tid or pid/tid; perf prints -1 when it does not know them. */
static bool take_ids(struct span s, struct perf_header *out)
{
    uint64_t pid = 0, tid;
    if (s.length == 2 && memcmp(s.text, "-1", 2) == 0) {
        out->pid = out->tid = 0;
        return true;
    }
    const char *slash = memchr(s.text, '/', s.length);
    if (slash) {
        size_t before = (size_t)(slash - s.text);
        if (!span_number((struct span){s.text, before}, &pid))
            return false;
        s = (struct span){slash + 1, s.length - before - 1};
    }
    if (!span_number(s, &tid) || tid > UINT32_MAX || pid > UINT32_MAX)
        return false;
    out->pid = (uint32_t)pid;
    out->tid = (uint32_t)tid;
    return true;
}

/* What follows the ids at token `i`: [cpu] time: period event: or nothing at all. */
static bool take_rest(const struct span *tokens, size_t count, size_t i, const char *end,
                      struct perf_header *out)
{
    if (i == count)
        return true;
    i += is_cpu(tokens[i]);
    if (i < count && is_time(tokens[i]))
        i++;
    out->has_period = i < count && span_number(tokens[i], &out->period);
    i += out->has_period;
    if (i == count || is_time(tokens[i]) || tokens[i].length < 2 ||
        tokens[i].text[tokens[i].length - 1] != ':')
        return false;
    out->event = (struct span){tokens[i].text, tokens[i].length - 1};
    const char *rest = tokens[i].text + tokens[i].length;
    out->rest = trim((struct span){rest, (size_t)(end - rest)});
    return true;
}

/* The name of a command may have spaces and numbers in it: the ids are the first number from which
 * on the line makes sense. */
static bool parse_header(const char *line, size_t length, struct perf_header *out)
{
    struct span tokens[TOKENS_MAX];
    size_t count = 0;
    if (length == 0 || is_space(*line))
        return false;
    for (size_t i = 0; i < length && count < TOKENS_MAX;) {
        size_t start = i;
        while (i < length && !is_space(line[i]))
            i++;
        if (i > start)
            tokens[count++] = (struct span){line + start, i - start};
        while (i < length && is_space(line[i]))
            i++;
    }
    for (size_t i = 1; i < count; i++) {
        *out = (struct perf_header){0};
        if (take_ids(tokens[i], out) && take_rest(tokens, count, i + 1, line + length, out)) {
            out->comm = trim((struct span){line, (size_t)(tokens[i].text - line)});
            return true;
        }
    }
    return false;
}

/* ---- Frames -------------------------------------------------------------------------------------
 */

static bool take_address(struct span *s, uint64_t *address)
{
    size_t i = 0;
    *address = 0;
    for (; i < s->length && !is_space(s->text[i]); i++) {
        char c = s->text[i];
        int digit = is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0 || i == 16)
            return false;
        *address = *address << 4 | (uint64_t)digit;
    }
    *s = trim((struct span){s->text + i, s->length - i});
    return i > 0;
}

/* The module in parentheses at the end. Its path may have parentheses itself: ` (deleted)`. */
static struct span take_module(struct span *s)
{
    static const char deleted[] = " (deleted))";
    size_t at = s->length, mark = sizeof deleted - 1;
    if (at == 0 || s->text[at - 1] != ')')
        return (struct span){0};
    if (at > mark && memcmp(s->text + at - mark, deleted, mark) == 0)
        at -= mark;
    while (at > 0 && !(s->text[at - 1] == '(' && (at == 1 || is_space(s->text[at - 2]))))
        at--;
    if (at == 0)
        return (struct span){0};
    struct span module = {s->text + at, s->length - at - 1};
    *s = trim((struct span){s->text, at - 1});
    return module;
}

static void cut_offset(struct span *symbol)
{
    for (size_t i = symbol->length; i-- > 1;) {
        char c = symbol->text[i];
        if (c == 'x' && i >= 2 && symbol->text[i - 1] == '0' && symbol->text[i - 2] == '+') {
            symbol->length = i - 2;
            return;
        }
        if (!is_digit(c) && !(c >= 'a' && c <= 'f'))
            return;
    }
}

static bool is_unknown(struct span s)
{
    return s.length == 0 || (s.length == 9 && memcmp(s.text, "[unknown]", 9) == 0);
}

static bool parse_frame(struct span s, struct perf_frame *out)
{
    *out = (struct perf_frame){0};
    s = trim(s);
    if (!take_address(&s, &out->address))
        return false;
    out->module = take_module(&s);
    out->inlined = out->module.length == 7 && memcmp(out->module.text, "inlined", 7) == 0;
    if (out->inlined || is_unknown(out->module))
        out->module = (struct span){0};
    cut_offset(&s);
    if (!is_unknown(s))
        out->symbol = s;
    return true;
}

/* The kernel's marks between parts of a chain are no callers: PERF_CONTEXT_MAX and above. perf ends
 * chains that it unwinds from copies of stacks with one. */
static bool is_marker(const struct perf_frame *frame)
{
    return frame->address >= (uint64_t)-4095 && !frame->symbol.length && !frame->module.length;
}

bool perf_script_begins_with(const char *line, size_t length, const char *next, size_t next_length)
{
    struct perf_header header;
    struct perf_frame frame;
    return parse_header(line, length, &header) &&
           (header.event.length || (next_length && is_space(*next) &&
                                    parse_frame((struct span){next, next_length}, &frame)));
}

/* FILE:LINE, for the frame before it. */
static bool parse_source(struct span s, struct perf_frame *frame)
{
    s = trim(s);
    size_t colon = s.length;
    while (colon > 0 && s.text[colon - 1] != ':')
        colon--;
    uint64_t line;
    if (colon < 2 || !span_number((struct span){s.text + colon, s.length - colon}, &line) ||
        line > UINT32_MAX)
        return false;
    frame->file = (struct span){s.text, colon - 1};
    frame->line = (uint32_t)line;
    return true;
}

/* ---- Samples ------------------------------------------------------------------------------------
 */

static uint32_t module_of(struct gather *g, struct span path)
{
    if (!path.length)
        return CTP_NONE;
    return gather_module(g,
                         &(struct gather_module){.path = gather_text(g, path.text, path.length)});
}

/*
 * The frames from `first` on up to the one that is not inlined, as one frame; returns the next.
 * They are at one address. Where perf calls the function that holds it inlined, too, as it does
 * when its name in the debug information is another, nothing says which module that is in.
 */
static size_t add_frame(struct perf_reader *r, size_t first, uint32_t *out)
{
    struct gather *g = r->g;
    size_t last = first;
    while (last + 1 < r->frames.count && r->frames.items[last].inlined &&
           r->frames.items[last + 1].address == r->frames.items[first].address)
        last++;
    const struct perf_frame *own = &r->frames.items[last];
    uint32_t module = module_of(g, own->module), function = CTP_NONE, lines = CTP_NONE;
    bool has_lines = last > first || own->line;
    for (size_t i = last + 1; i-- > first;) {
        const struct perf_frame *frame = &r->frames.items[i];
        uint32_t at = CTP_NONE;
        if (frame->symbol.length)
            at = gather_function(
                g, &(struct gather_function){
                       .name = gather_text(g, frame->symbol.text, frame->symbol.length),
                       .module = module});
        if (i == last)
            function = at;
        if (has_lines)
            lines = gather_line(
                g, &(struct gather_line){
                       .function = at,
                       .file = gather_text(g, frame->file.length ? frame->file.text : "",
                                           frame->file.length),
                       .line = frame->line,
                       .next = lines});
    }
    *out = gather_frame(g, &(struct gather_frame){.offset = own->address,
                                                  .module = module,
                                                  .function = function,
                                                  .lines = lines,
                                                  .flags = first ? CTP_FRAME_RETURN : 0});
    return last + 1;
}

/* Events that count time say so by their name. */
static const char *event_unit(struct span event)
{
    static const char *const clocks[] = {"cpu-clock", "task-clock"};
    for (size_t i = 0; i < 2; i++)
        if (event.length >= strlen(clocks[i]) &&
            memcmp(event.text, clocks[i], strlen(clocks[i])) == 0)
            return "ns";
    return "events";
}

static int add_sample(struct perf_reader *r, struct ct_error *err)
{
    struct gather *g = r->g;
    const struct perf_header *h = &r->header;
    struct span event = h->event.length ? h->event : (struct span){"samples", 7};
    const char *unit = h->has_period ? event_unit(event) : "samples";
    uint32_t metric = gather_metric(g, gather_text(g, event.text, event.length),
                                    gather_text(g, unit, strlen(unit)),
                                    h->has_period ? CTP_METRIC_SAMPLED : CTP_METRIC_EXACT, 0);
    if (metric == CTP_NONE)
        return ct_fail(err, "%s: has more than %d events", r->name, GATHER_METRICS_MAX);
    VEC(uint32_t) frames = {0};
    for (size_t i = 0; i < r->frames.count;) {
        uint32_t frame;
        i = add_frame(r, i, &frame);
        vec_push(&frames, frame);
    }
    uint32_t node = gather_thread(g, h->pid, h->tid, h->comm.text, h->comm.length);
    while (r->samples.count < g->threads.count)
        vec_push(&r->samples, 0);
    r->samples.items[g->roots.items[node]]++;
    for (size_t i = frames.count; i-- > 0;)
        node = gather_node(g, node, frames.items[i]);
    vec_free(&frames);
    gather_add(g, node, metric, h->has_period ? h->period : 1);
    return CT_OK;
}

static void skip_line(struct perf_reader *r, uint64_t number)
{
    if (r->g->skipped++ == 0)
        r->first_skipped = number;
}

/* A name and a number with neither event nor frames can be anything. */
static int end_sample(struct perf_reader *r, struct ct_error *err)
{
    int status = CT_OK;
    if (r->in_sample && !r->header.event.length && r->frames.count == 0)
        skip_line(r, r->header_line);
    else if (r->in_sample)
        status = add_sample(r, err);
    r->in_sample = false;
    r->frames.count = 0;
    return status;
}

static int read_line(struct perf_reader *r, const struct text_lines *lines, struct ct_error *err)
{
    struct span line = {lines->line, lines->length};
    struct perf_frame frame;
    if (trim(line).length == 0)
        return end_sample(r, err);
    if (*line.text == '#')
        return CT_OK;
    if (!is_space(*line.text)) {
        CT_TRY(end_sample(r, err));
        if (!parse_header(line.text, line.length, &r->header)) {
            skip_line(r, lines->number);
            return CT_OK;
        }
        r->in_sample = true;
        r->header_line = lines->number;
        /* Behind a tracepoint's name are its fields, behind a sample's its only frame. */
        if (r->header.rest.length && parse_frame(r->header.rest, &frame) && frame.module.length)
            vec_push(&r->frames, frame);
        return CT_OK;
    }
    if (r->in_sample && parse_frame(line, &frame)) {
        if (is_marker(&frame))
            return CT_OK;
        if (r->frames.count == FRAMES_MAX)
            return ct_fail(err, "%s: line %" PRIu64 ": a stack of more than %d frames", r->name,
                           lines->number, FRAMES_MAX);
        vec_push(&r->frames, frame);
    } else if (!r->frames.count || !parse_source(line, &r->frames.items[r->frames.count - 1])) {
        skip_line(r, lines->number);
    }
    return CT_OK;
}

/* perf says the process of a sample only where it is asked to (-F +pid): otherwise the thread with
 * the most samples says best what ran. */
static void name_process(struct perf_reader *r)
{
    size_t best = 0;
    for (size_t i = 1; i < r->samples.count; i++)
        if (r->samples.items[i] > r->samples.items[best])
            best = i;
    if (r->samples.count)
        r->g->command = GATHER_RECORD(r->g->threads, gather_thread, best)->name;
}

/* The event with the most samples comes first: it is what people meant to measure. */
static int compare_metrics(const void *a, const void *b)
{
    const struct gather_metric *x = a, *y = b;
    return (x->samples < y->samples) - (x->samples > y->samples);
}

int import_perf_script(const char *text, size_t size, const char *name, struct gather *g,
                       struct ct_error *err)
{
    struct perf_reader r = {.g = g, .name = name};
    struct text_lines lines = {.at = text, .end = text + size};
    int status = CT_OK;
    g->origin = "perf script";
    while (status == CT_OK && next_line(&lines))
        status = read_line(&r, &lines, err);
    if (status == CT_OK)
        status = end_sample(&r, err);
    if (status == CT_OK && g->nodes.count == 0)
        status = ct_fail(err, "%s: has no samples as perf script prints them (line %" PRIu64 ")",
                         name, r.first_skipped ? r.first_skipped : lines.number);
    qsort(g->metrics, g->metric_count, sizeof *g->metrics, compare_metrics);
    name_process(&r);
    vec_free(&r.frames);
    vec_free(&r.samples);
    return status;
}
