#include "query/label.h"

#include "names/demangle.h"

#include <inttypes.h>
#include <string.h>

const char *path_file(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static bool same(const struct label *a, const struct label *b)
{
    return a->kind == b->kind && a->module == b->module && a->name == b->name &&
           a->number == b->number && a->place == b->place;
}

static uint64_t hash_of(const struct label *label)
{
    uint64_t parts[5] = {label->kind, label->module, label->name, label->number, label->place};
    return hash_bytes(parts, sizeof parts);
}

static void grow_slots(struct labels *labels)
{
    free(labels->slots);
    labels->slot_count = labels->slot_count ? labels->slot_count * 2 : 1024;
    labels->slots = must_calloc(labels->slot_count, sizeof *labels->slots);
    for (uint32_t i = 0; i < labels->items.count; i++) {
        size_t at = hash_of(&labels->items.items[i]) & (labels->slot_count - 1);
        while (labels->slots[at])
            at = (at + 1) & (labels->slot_count - 1);
        labels->slots[at] = i + 1;
    }
}

static uint32_t intern(struct labels *labels, const struct label *label)
{
    if ((labels->items.count + 1) * 2 > labels->slot_count)
        grow_slots(labels);
    size_t at = hash_of(label) & (labels->slot_count - 1);
    for (; labels->slots[at]; at = (at + 1) & (labels->slot_count - 1))
        if (same(&labels->items.items[labels->slots[at] - 1], label))
            return labels->slots[at] - 1;
    labels->slots[at] = (uint32_t)labels->items.count + 1;
    vec_push(&labels->items, *label);
    return labels->slots[at] - 1;
}

/* Replaced before names are compared, so that what looks the same in the end is the same. */
static uint32_t intern_text(struct labels *labels, const char *name)
{
    char *clean = must_strdup(name);
    for (char *c = clean; *c; c++)
        if (*c == ';')
            *c = ':';
        else if ((unsigned char)*c < 0x20)
            *c = ' ';
    uint32_t label = intern(labels, &(struct label){.kind = LABEL_TEXT,
                                                    .module = CTP_NONE,
                                                    .name = strings_add(&labels->texts, clean)});
    free(clean);
    return label;
}

static bool same_module(const struct profile *p, uint32_t a, uint32_t b)
{
    const struct ctp_module *m = profile_module(p, a), *n = profile_module(p, b);
    return m->kind == n->kind && m->build_id_size == n->build_id_size &&
           memcmp(m->build_id, n->build_id, sizeof m->build_id) == 0 &&
           strcmp(profile_string(p, m->path), profile_string(p, n->path)) == 0;
}

/* Every process brings its own record of the same library: the first of them stands for all. */
static void join_modules(struct labels *labels)
{
    const struct profile *p = labels->profile;
    uint32_t count = profile_module_count(p);
    size_t slot_count = 16;
    while (slot_count < (size_t)count * 2)
        slot_count *= 2;
    uint32_t *slots = must_calloc(slot_count, sizeof *slots);
    labels->modules = must_calloc(count, sizeof *labels->modules);
    for (uint32_t i = 0; i < count; i++) {
        const char *path = profile_string(p, profile_module(p, i)->path);
        size_t at = hash_bytes(path, strlen(path)) & (slot_count - 1);
        while (slots[at] && !same_module(p, slots[at] - 1, i))
            at = (at + 1) & (slot_count - 1);
        if (!slots[at])
            slots[at] = i + 1;
        labels->modules[i] = slots[at] - 1;
    }
    free(slots);
}

static uint32_t module_of(const struct labels *labels, uint32_t module)
{
    return module < profile_module_count(labels->profile) ? labels->modules[module] : CTP_NONE;
}

/* Declared where, if that is known: an inlined function has no offset, and copies of one function
 * have several. */
static uint64_t identity_of(struct labels *labels, const struct ctp_function *function)
{
    const char *file = profile_string(labels->profile, function->file);
    if (!*file || !function->line)
        return function->offset;
    return LABEL_DECLARED | (uint64_t)strings_add(&labels->texts, file) << 32 | function->line;
}

static struct label function_label(struct labels *labels, uint32_t index, uint32_t module)
{
    const struct ctp_function *function = profile_function(labels->profile, index);
    uint32_t own = module_of(labels, function->module);
    return (struct label){.kind = LABEL_FUNCTION,
                          .module = own != CTP_NONE ? own : module_of(labels, module),
                          .name = labels->function_names[index],
                          .number = identity_of(labels, function)};
}

static bool has_name(const struct labels *labels, uint32_t function)
{
    return function < profile_function_count(labels->profile) && labels->function_names[function];
}

static struct label frame_label(struct labels *labels, const struct ctp_frame *frame)
{
    const struct ctp_function *function = profile_function(labels->profile, frame->function);
    if (frame->gap != CTP_GAP_NONE)
        return (struct label){.kind = LABEL_GAP, .module = CTP_NONE, .number = frame->gap};
    if (has_name(labels, frame->function))
        return function_label(labels, frame->function, frame->module);
    /* The bounds of a function are known more often than its name. */
    bool bounded = function->size && function->module == frame->module;
    return (struct label){.kind = LABEL_PLACE,
                          .module = module_of(labels, frame->module),
                          .number = bounded ? function->offset : frame->offset};
}

static const char *name_of(const struct labels *labels, const struct label *label, char *text,
                           size_t room)
{
    const struct profile *p = labels->profile;
    switch (label->kind) {
    case LABEL_FUNCTION:
    case LABEL_TEXT:
        return strings_get(&labels->texts, label->name);
    case LABEL_GAP:
        if (label->number == CTP_GAP_CUT)
            return "(earlier callers, not kept)";
        snprintf(text, room, "(walk ended: %s)", profile_gap_name((uint32_t)label->number));
        return text;
    case LABEL_NOTHING:
        return "(context not known)";
    case LABEL_FOLDED:
        return "(other modules)";
    case LABEL_IDLE:
        snprintf(text, room, "(%" PRIu64 " thread%s that only waited)", label->number,
                 label->number == 1 ? "" : "s");
        return text;
    case LABEL_WAITING:
        return "(threads waiting for work)";
    case LABEL_GROUP:
        snprintf(text, room, "(group %" PRIu64 ")", label->number);
        return text;
    default:
        if (label->module == CTP_NONE)
            snprintf(text, room, "0x%" PRIx64, label->number);
        else
            snprintf(text, room, "%s+0x%" PRIx64,
                     path_file(profile_string(p, profile_module(p, label->module)->path)),
                     label->number);
        return text;
    }
}

/* `line` is where in the source the frame is, in this function; it may be NULL. */
static void add_label(struct labels *labels, struct label label, const struct ctp_frame *frame,
                      const struct ctp_line *line)
{
    char text[1024];
    uint32_t added;
    switch (labels->options.identity) {
    case LABEL_BY_NAME:
        added = intern_text(labels, name_of(labels, &label, text, sizeof text));
        break;
    case LABEL_BY_LINE:
        if (line)
            label.place =
                (uint64_t)strings_add(&labels->texts, profile_string(labels->profile, line->file))
                    << 32 |
                line->line;
        added = intern(labels, &label);
        break;
    case LABEL_BY_ADDRESS:
        label.place = frame->offset - (frame->flags & CTP_FRAME_RETURN ? 1 : 0);
        added = intern(labels, &label);
        break;
    default:
        added = intern(labels, &label);
        break;
    }
    vec_push(&labels->of_frames, added);
}

static void add_frame(struct labels *labels, const struct ctp_frame *frame)
{
    const struct profile *p = labels->profile;
    uint32_t lines = frame->gap == CTP_GAP_NONE ? frame->line_count : 0;
    const struct ctp_line *own = lines ? profile_frame_line(p, frame, lines - 1) : NULL;
    add_label(labels, frame_label(labels, frame), frame, own);
    if (labels->options.fold_inlined)
        return;
    for (uint32_t i = lines; i-- > 1;) {
        const struct ctp_line *line = profile_frame_line(p, frame, i - 1);
        if (line && has_name(labels, line->function))
            add_label(labels, function_label(labels, line->function, frame->module), frame, line);
    }
}

static void name_functions(struct labels *labels)
{
    const struct profile *p = labels->profile;
    uint32_t count = profile_function_count(p);
    labels->function_names = must_calloc((size_t)count + 1, sizeof *labels->function_names);
    for (uint32_t i = 0; i < count; i++) {
        const char *name = profile_string(p, profile_function(p, i)->name);
        char *readable = labels->options.keep_mangled ? NULL : demangle(name);
        labels->function_names[i] = strings_add(&labels->texts, readable ? readable : name);
        free(readable);
    }
}

void labels_init(struct labels *labels, const struct profile *profile,
                 const struct label_options *options)
{
    *labels = (struct labels){.profile = profile, .options = *options};
    strings_init(&labels->texts);
    join_modules(labels);
    name_functions(labels);
    uint32_t count = profile_frame_count(profile);
    labels->first_of_frame = must_realloc(NULL, (size_t)count + 1, sizeof *labels->first_of_frame);
    for (uint32_t i = 0; i < count; i++) {
        labels->first_of_frame[i] = (uint32_t)labels->of_frames.count;
        add_frame(labels, profile_frame(profile, i));
    }
    labels->first_of_frame[count] = (uint32_t)labels->of_frames.count;
}

void labels_free(struct labels *labels)
{
    vec_free(&labels->items);
    free(labels->first_of_frame);
    vec_free(&labels->of_frames);
    free(labels->function_names);
    free(labels->modules);
    free(labels->slots);
    strings_free(&labels->texts);
}

uint32_t labels_special(struct labels *labels, enum label_kind kind, uint64_t number,
                        const char *name)
{
    struct label label = {.kind = kind, .module = CTP_NONE, .number = number};
    if (labels->options.identity != LABEL_BY_NAME)
        return intern(labels, &label);
    char text[64];
    return intern_text(labels, name ? name : name_of(labels, &label, text, sizeof text));
}

const char *label_name(const struct labels *labels, uint32_t label, char *text, size_t room)
{
    return label < labels->items.count ? name_of(labels, &labels->items.items[label], text, room)
                                       : "";
}

const char *label_module_file(const struct labels *labels, uint32_t label)
{
    const struct profile *p = labels->profile;
    if (!label_is_code(labels, label))
        return "";
    uint32_t module = labels->items.items[label].module;
    return path_file(profile_string(p, profile_module(p, module)->path));
}

const char *label_module(const struct labels *labels, uint32_t label)
{
    if (label >= labels->items.count || labels->items.items[label].kind != LABEL_FUNCTION)
        return "";
    return label_module_file(labels, label);
}

const char *label_neighbour(const struct labels *labels, uint32_t label)
{
    const struct profile *p = labels->profile;
    if (label >= labels->items.count || labels->items.items[label].kind != LABEL_PLACE)
        return "";
    const struct label *place = &labels->items.items[label];
    uint32_t nearest = 0;
    uint64_t offset = 0;
    for (uint32_t i = 0; i < profile_function_count(p); i++) {
        const struct ctp_function *function = profile_function(p, i);
        if (!function->size || !labels->function_names[i] ||
            module_of(labels, function->module) != place->module || place->module == CTP_NONE)
            continue;
        if (function->offset <= place->number && function->offset >= offset) {
            nearest = labels->function_names[i];
            offset = function->offset;
        }
    }
    return strings_get(&labels->texts, nearest);
}

bool label_is_code(const struct labels *labels, uint32_t label)
{
    return label < labels->items.count && (labels->items.items[label].kind == LABEL_FUNCTION ||
                                           labels->items.items[label].kind == LABEL_PLACE);
}

/* Cuts off the module behind a name, in brackets or as it is. False: it is not there. */
static bool cut_end(char *text, bool in_brackets, const char *module)
{
    char *behind = must_format(in_brackets ? " [%s]" : " %s", module);
    size_t length = strlen(text), behind_length = strlen(behind);
    bool is_there = length > behind_length && strcmp(text + length - behind_length, behind) == 0;
    if (is_there)
        text[length - behind_length] = '\0';
    free(behind);
    return is_there;
}

/* Cuts off " [module]" where the module has been shortened: without ".so.6", or with an ellipsis.
 */
static bool cut_short_end(char *text, const char *module)
{
    char *behind = strrchr(text, '['), *end = text + strlen(text) - 1;
    if (!behind || behind < text + 2 || behind[-1] != ' ' || *end != ']')
        return false;
    char *plain = must_strdup(module), *version = strstr(plain, ".so");
    if (version && version > plain)
        *version = '\0';
    *end = '\0';
    bool is_it = name_fits(behind + 1, plain) || name_fits(behind + 1, module);
    *end = ']';
    is_it |= name_fits(behind, module);
    if (is_it)
        behind[-1] = '\0';
    free(plain);
    return is_it;
}

enum name_match label_match(const struct labels *labels, uint32_t label, const char *typed)
{
    char text[1024];
    if (!label_is_code(labels, label))
        return NAME_OTHER;
    const char *name = label_name(labels, label, text, sizeof text);
    const char *module = label_module(labels, label);
    /* "name [module]", as it is shown, or "place (after name)". Some modules, such as [vdso], bring
     * their own brackets, and may have more. */
    char *alone = must_strdup(typed), *after = strstr(alone, " (after ");
    if (labels->items.items[label].kind == LABEL_PLACE && after)
        *after = '\0';
    else if (*module && !cut_end(alone, true, module) && !cut_short_end(alone, module) &&
             *module == '[')
        cut_end(alone, false, module);
    enum name_match match = name_match(name, alone);
    free(alone);
    return match;
}
