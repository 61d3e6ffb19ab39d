#include "report/label.h"

#include <inttypes.h>
#include <string.h>

const char *path_file(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static const char *string_of(const struct labels *labels, const struct label *label)
{
    return label->kind == LABEL_TEXT ? strings_get(&labels->texts, label->name)
                                     : profile_string(labels->profile, label->name);
}

static bool same(const struct labels *labels, const struct label *a, const struct label *b)
{
    return a->kind == b->kind && a->module == b->module && a->number == b->number &&
           (a->name == b->name || strcmp(string_of(labels, a), string_of(labels, b)) == 0);
}

static uint64_t hash_of(const struct labels *labels, const struct label *label)
{
    const char *name = string_of(labels, label);
    uint64_t parts[4] = {label->kind, label->module, label->number, hash_bytes(name, strlen(name))};
    return hash_bytes(parts, sizeof parts);
}

static void grow_slots(struct labels *labels)
{
    free(labels->slots);
    labels->slot_count = labels->slot_count ? labels->slot_count * 2 : 1024;
    labels->slots = must_calloc(labels->slot_count, sizeof *labels->slots);
    for (uint32_t i = 0; i < labels->items.count; i++) {
        size_t at = hash_of(labels, &labels->items.items[i]) & (labels->slot_count - 1);
        while (labels->slots[at])
            at = (at + 1) & (labels->slot_count - 1);
        labels->slots[at] = i + 1;
    }
}

static uint32_t intern(struct labels *labels, const struct label *label)
{
    if ((labels->items.count + 1) * 2 > labels->slot_count)
        grow_slots(labels);
    size_t at = hash_of(labels, label) & (labels->slot_count - 1);
    for (; labels->slots[at]; at = (at + 1) & (labels->slot_count - 1))
        if (same(labels, &labels->items.items[labels->slots[at] - 1], label))
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

static struct label function_label(const struct labels *labels, const struct ctp_function *function,
                                   uint32_t frame_module)
{
    uint32_t count = profile_module_count(labels->profile);
    uint32_t module = function->module < count ? function->module : frame_module;
    return (struct label){.kind = LABEL_FUNCTION,
                          .module = module < count ? labels->modules[module] : CTP_NONE,
                          .name = function->name,
                          .number = function->offset};
}

static struct label frame_label(const struct labels *labels, const struct ctp_frame *frame)
{
    const struct profile *p = labels->profile;
    const struct ctp_function *function = profile_function(p, frame->function);
    uint32_t count = profile_module_count(p);
    if (frame->gap != CTP_GAP_NONE)
        return (struct label){.kind = LABEL_GAP, .module = CTP_NONE, .number = frame->gap};
    if (*profile_string(p, function->name))
        return function_label(labels, function, frame->module);
    return (struct label){.kind = LABEL_PLACE,
                          .module =
                              frame->module < count ? labels->modules[frame->module] : CTP_NONE,
                          .number = frame->offset};
}

static const char *name_of(const struct labels *labels, const struct label *label, char *text,
                           size_t room)
{
    const struct profile *p = labels->profile;
    switch (label->kind) {
    case LABEL_FUNCTION:
    case LABEL_TEXT:
        return string_of(labels, label);
    case LABEL_GAP:
        snprintf(text, room, "(walk ended: %s)", profile_gap_name((uint32_t)label->number));
        return text;
    case LABEL_NOTHING:
        return "(context not known)";
    case LABEL_FOLDED:
        return "(other modules)";
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

static uint32_t intern_by_identity(struct labels *labels, const struct label *label)
{
    char text[1024];
    return labels->identity == LABEL_BY_CODE
               ? intern(labels, label)
               : intern_text(labels, name_of(labels, label, text, sizeof text));
}

void labels_init(struct labels *labels, const struct profile *profile, enum label_identity identity)
{
    *labels = (struct labels){.profile = profile, .identity = identity};
    strings_init(&labels->texts);
    join_modules(labels);
    uint32_t count = profile_frame_count(profile);
    labels->of_frame = must_realloc(NULL, (size_t)count + 1, sizeof *labels->of_frame);
    for (uint32_t i = 0; i < count; i++) {
        struct label label = frame_label(labels, profile_frame(profile, i));
        labels->of_frame[i] = intern_by_identity(labels, &label);
    }
}

void labels_free(struct labels *labels)
{
    vec_free(&labels->items);
    free(labels->of_frame);
    free(labels->modules);
    free(labels->slots);
    strings_free(&labels->texts);
}

uint32_t labels_function(struct labels *labels, uint32_t function)
{
    const struct ctp_function *record = profile_function(labels->profile, function);
    if (!*profile_string(labels->profile, record->name))
        return CTP_NONE;
    struct label label = function_label(labels, record, CTP_NONE);
    return intern_by_identity(labels, &label);
}

uint32_t labels_special(struct labels *labels, enum label_kind kind, uint64_t number,
                        const char *name)
{
    struct label label = {.kind = kind, .module = CTP_NONE, .number = number};
    if (labels->identity == LABEL_BY_CODE)
        return intern(labels, &label);
    char text[64];
    return intern_text(labels, name ? name : name_of(labels, &label, text, sizeof text));
}

const char *label_name(const struct labels *labels, uint32_t label, char *text, size_t room)
{
    return label < labels->items.count ? name_of(labels, &labels->items.items[label], text, room)
                                       : "";
}

const char *label_module(const struct labels *labels, uint32_t label)
{
    const struct profile *p = labels->profile;
    if (label >= labels->items.count || labels->items.items[label].kind != LABEL_FUNCTION)
        return "";
    uint32_t module = labels->items.items[label].module;
    return path_file(profile_string(p, profile_module(p, module)->path));
}

bool label_is_code(const struct labels *labels, uint32_t label)
{
    return label < labels->items.count && (labels->items.items[label].kind == LABEL_FUNCTION ||
                                           labels->items.items[label].kind == LABEL_PLACE);
}
