#include "view/closer_look.h"

#include "query/view.h"

#include <string.h>

enum { PATH_LABELS_MAX = 10000, DIGITS_MAX = 7 }; /* 36 to the 7th is more than 32 bits have */

static int parse_path(const char *text, struct page_cut_options *out, struct ct_error *err)
{
    VEC(uint32_t) labels = {0};
    const char *at = text;
    bool valid = true;
    while (valid && *at) {
        char *end;
        size_t digits = strcspn(at, ".");
        unsigned long label = strtoul(at, &end, 36);
        bool is_digit = (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z');
        valid = is_digit && digits <= DIGITS_MAX && end == at + digits && label < UINT32_MAX &&
                labels.count < PATH_LABELS_MAX;
        vec_push(&labels, (uint32_t)label);
        at = *end == '.' ? end + 1 : end;
    }
    if (!valid) {
        vec_free(&labels);
        return ct_fail(err, "this is not a path of labels");
    }
    out->path = labels.items;
    out->path_count = labels.count;
    return CT_OK;
}

int closer_look_begin(const struct profile *p, const struct closer_look *wanted,
                      struct page_cut_options *out, struct ct_error *err)
{
    struct view_options options = {
        .thread = wanted->thread, .process = wanted->process, .phase = wanted->phase};
    out->path = NULL;
    out->path_count = 0;
    bool *roots = must_calloc((size_t)profile_root_count(p) + 1, sizeof *roots);
    int status = view_choose_roots(p, &options, roots, err);
    if (status == CT_OK && wanted->path)
        status = parse_path(wanted->path, out, err);
    if (status != CT_OK) {
        free(roots);
        return status;
    }
    out->roots = roots;
    return CT_OK;
}

void closer_look_end(struct page_cut_options *options)
{
    free((void *)(uintptr_t)options->roots);
    free((void *)(uintptr_t)options->path);
}
