/*
 * The lines of a source file, found where it was when it was compiled or below folders that the
 * user names.
 */
#ifndef QUERY_SOURCE_TEXT_H
#define QUERY_SOURCE_TEXT_H

#include "base/file.h"
#include "base/vec.h"

struct source_folders {
    const char *const *paths;
    size_t count;
};

struct source_text {
    char *path; /* where it was found; NULL: nowhere */
    struct mapped_file file;
    VEC(const char *) lines; /* where each begins, and one more: the end */
};

/* Below a folder, the longest end of the path that exists there is taken. */
void source_text_open(const char *path, const struct source_folders *folders,
                      struct source_text *out);
void source_text_close(struct source_text *text);

/* Line `number`, from 1, with tabs as spaces; to be freed. NULL when there is none. */
char *source_text_line(const struct source_text *text, uint32_t number);

#endif
