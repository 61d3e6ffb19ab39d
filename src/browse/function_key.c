#include "browse/function_key.h"

#include <string.h>

static const char *file_of(const struct labels *labels, const struct label *label)
{
    bool is_declared = label->kind == LABEL_FUNCTION && label->number & LABEL_DECLARED;
    return is_declared
               ? strings_get(&labels->texts, (uint32_t)((label->number & ~LABEL_DECLARED) >> 32))
               : "";
}

static uint64_t number_of(const struct label *label)
{
    return label->kind == LABEL_FUNCTION && label->number & LABEL_DECLARED
               ? LABEL_DECLARED | (uint32_t)label->number
               : label->number;
}

static const char *name_of(const struct labels *labels, const struct label *label)
{
    return label->kind == LABEL_FUNCTION ? strings_get(&labels->texts, label->name) : "";
}

struct function_key function_key_of(const struct labels *labels, uint32_t index)
{
    const struct label *label = &labels->items.items[index];
    return (struct function_key){.kind = label->kind,
                                 .module = label->module,
                                 .number = number_of(label),
                                 .name = must_strdup(name_of(labels, label)),
                                 .file = must_strdup(file_of(labels, label))};
}

void function_key_free(struct function_key *key)
{
    free(key->name);
    free(key->file);
}

static bool is_it(const struct labels *labels, uint32_t index, const struct function_key *key)
{
    const struct label *label = &labels->items.items[index];
    return label->kind == key->kind && label->module == key->module &&
           number_of(label) == key->number && strcmp(name_of(labels, label), key->name) == 0 &&
           strcmp(file_of(labels, label), key->file) == 0;
}

uint32_t function_key_find(const struct labels *labels, const struct function_key *key)
{
    for (uint32_t i = 0; i < labels->items.count; i++)
        if (is_it(labels, i, key))
            return i;
    return TREE_NONE;
}

bool *function_key_labels(const struct labels *labels, const struct function_key *key)
{
    bool *wanted = must_calloc(labels->items.count + 1, sizeof *wanted);
    for (uint32_t i = 0; i < labels->items.count; i++)
        wanted[i] = is_it(labels, i, key);
    return wanted;
}
