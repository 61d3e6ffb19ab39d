#include "query/source_text.h"

#include <stdbool.h>
#include <string.h>

enum { TAB_COLUMNS = 8 };

static bool try_path(char *path, struct source_text *out)
{
    if (file_map(path, &out->file, NULL) == CT_OK) {
        out->path = path;
        return true;
    }
    free(path);
    return false;
}

static bool find_below(const char *folder, const char *path, struct source_text *out)
{
    for (const char *rest = path; rest; rest = strchr(rest, '/')) {
        while (*rest == '/')
            rest++;
        if (*rest && try_path(must_format("%s/%s", folder, rest), out))
            return true;
    }
    return false;
}

void source_text_open(const char *path, const struct source_folders *folders,
                      struct source_text *out)
{
    *out = (struct source_text){0};
    bool found = false;
    for (size_t i = 0; i < folders->count && !found && *path; i++)
        found = find_below(folders->paths[i], path, out);
    if (!found && (!*path || !try_path(must_strdup(path), out)))
        return;
    const char *at = (const char *)out->file.bytes, *end = at + out->file.size;
    while (at && at < end) {
        vec_push(&out->lines, at);
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        at = line_end ? line_end + 1 : end;
    }
    vec_push(&out->lines, end);
}

void source_text_close(struct source_text *text)
{
    if (text->path)
        file_unmap(&text->file);
    free(text->path);
    vec_free(&text->lines);
}

char *source_text_line(const struct source_text *text, uint32_t number)
{
    VEC(char) line = {0};
    if (number == 0 || number >= text->lines.count)
        return NULL;
    for (const char *c = text->lines.items[number - 1]; c < text->lines.items[number]; c++) {
        if (*c == '\n' || *c == '\r')
            continue;
        size_t columns = *c == '\t' ? TAB_COLUMNS - line.count % TAB_COLUMNS : 1;
        while (columns--)
            vec_push(&line, *c == '\t' ? ' ' : *c ? *c : '?');
    }
    vec_push(&line, '\0');
    return line.items;
}
