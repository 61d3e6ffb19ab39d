#include "view/page_code.h"

#include "names/disassemble.h"

enum { FUNCTIONS_MAX = 60, FUNCTION_BYTES_MAX = 32768 };
static const double LEAST_SHARE = 0.005;

struct candidate {
    uint32_t function, label;
    double share; /* of its own cost in the total of any metric, the greatest */
};

/* By function of the profile, what was charged to its code, inlined or not, as a share. */
static struct candidate *weigh(const struct labels *labels)
{
    const struct profile *p = labels->profile;
    uint32_t count = profile_function_count(p);
    struct candidate *found = must_calloc((size_t)count + 1, sizeof *found);
    double *self = must_calloc((size_t)count + 1, sizeof *self);
    for (uint32_t metric = 0; metric < p->metric_count; metric++) {
        double total = 0;
        for (uint32_t i = 0; i < count; i++)
            self[i] = 0;
        for (uint32_t i = 0; i < p->node_count; i++) {
            double value = (double)p->values[metric][i];
            uint32_t function = profile_frame(p, profile_node_frame(p, i))->function;
            total += value;
            if (function < count)
                self[function] += value;
        }
        for (uint32_t i = 0; i < count && total > 0; i++)
            if (self[i] / total > found[i].share)
                found[i].share = self[i] / total;
    }
    for (uint32_t i = 0; i < profile_frame_count(p); i++) {
        uint32_t function = profile_frame(p, i)->function;
        if (function < count)
            found[function] = (struct candidate){function, labels_of_frame(labels, i).labels[0],
                                                 found[function].share};
    }
    free(self);
    return found;
}

static int heavier(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->share != y->share)
        return x->share > y->share ? -1 : 1;
    return (x->function > y->function) - (x->function < y->function);
}

static void write_function(struct json *j, const struct labels *labels,
                           const struct candidate *candidate)
{
    const struct profile *p = labels->profile;
    const struct ctp_function *f = profile_function(p, candidate->function);
    if (!f->size || f->size > FUNCTION_BYTES_MAX || f->module >= profile_module_count(p))
        return;
    const struct ctp_module *m = profile_module(p, f->module);
    struct debug_module module = {profile_string(p, m->path), m->build_id, m->build_id_size};
    struct instructions code = {0};
    struct ct_error err;
    if (disassemble(&module, f->offset, f->size, &code, &err) != CT_OK)
        return;
    json_open(j, NULL, '[');
    json_unsigned(j, NULL, candidate->label);
    json_unsigned(j, NULL, labels->modules[f->module]);
    json_unsigned(j, NULL, f->offset);
    json_unsigned(j, NULL, f->size);
    json_open(j, NULL, '[');
    for (size_t i = 0; i < code.items.count; i++) {
        json_open(j, NULL, '[');
        json_unsigned(j, NULL, code.items.items[i].offset);
        json_string(j, NULL, code.items.items[i].text);
        json_close(j, ']');
    }
    json_close(j, ']');
    json_close(j, ']');
    vec_free(&code.items);
}

void page_code_write(struct json *j, const struct labels *labels)
{
    uint32_t count = profile_function_count(labels->profile);
    struct candidate *found = weigh(labels);
    if (count)
        qsort(found, count, sizeof *found, heavier);
    json_open(j, "code", '[');
    for (uint32_t i = 0; i < count && i < FUNCTIONS_MAX && found[i].share >= LEAST_SHARE; i++)
        write_function(j, labels, &found[i]);
    json_close(j, ']');
    free(found);
}
