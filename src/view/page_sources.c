#include "view/page_sources.h"

#include <string.h>

enum { CONTEXT_LINES = 4, LINE_BYTES_MAX = 400, ALL_BYTES_MAX = 8 << 20 };

static int compare(const void *a, const void *b)
{
    const struct page_place *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return (x->line > y->line) - (x->line < y->line);
}

static size_t write_line(struct json *j, const struct source_text *text, uint32_t line)
{
    char *source = source_text_line(text, line);
    if (!source)
        return 0;
    size_t length = strlen(source);
    if (length > LINE_BYTES_MAX)
        source[length = LINE_BYTES_MAX] = '\0';
    json_open(j, NULL, '[');
    json_unsigned(j, NULL, line);
    json_string(j, NULL, source);
    json_close(j, ']');
    free(source);
    return length;
}

/* The lines of one file around its places, each once. Returns how many bytes they are. */
static size_t write_file(struct json *j, const struct page_place *places, size_t count,
                         const struct source_text *text)
{
    uint32_t written = 0; /* the last line that was */
    size_t bytes = 0;
    json_open(j, NULL, '[');
    json_unsigned(j, NULL, places->file);
    json_open(j, NULL, '[');
    for (size_t i = 0; i < count; i++) {
        uint32_t at = places[i].line, from = at > CONTEXT_LINES ? at - CONTEXT_LINES : 1;
        uint64_t end = (uint64_t)at + CONTEXT_LINES;
        for (uint64_t line = from > written ? from : written + UINT64_C(1);
             at && line <= end && line < text->lines.count; line++) {
            bytes += write_line(j, text, (uint32_t)line);
            written = (uint32_t)line;
        }
    }
    json_close(j, ']');
    json_close(j, ']');
    return bytes;
}

void page_sources_write(struct json *j, struct page_place *places, size_t count,
                        const struct string_pool *files, const struct source_folders *folders)
{
    size_t bytes = 0;
    if (count)
        qsort(places, count, sizeof *places, compare);
    json_open(j, "sources", '[');
    for (size_t i = 0, end; i < count && bytes < ALL_BYTES_MAX; i = end) {
        struct source_text text;
        for (end = i + 1; end < count && places[end].file == places[i].file;)
            end++;
        if (!places[i].file)
            continue;
        source_text_open(strings_get(files, places[i].file), folders, &text);
        if (text.path)
            bytes += write_file(j, places + i, end - i, &text);
        source_text_close(&text);
    }
    json_close(j, ']');
}
