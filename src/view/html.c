#include "view/html.h"

#include "view/page_assets.h"

#include <string.h>
#include <zlib.h>

static void write_base64(FILE *out, const unsigned char *bytes, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        unsigned group = (unsigned)bytes[i] << 16;
        group |= i + 1 < size ? (unsigned)bytes[i + 1] << 8 : 0;
        group |= i + 2 < size ? bytes[i + 2] : 0;
        putc_unlocked(digits[group >> 18], out);
        putc_unlocked(digits[group >> 12 & 63], out);
        putc_unlocked(i + 1 < size ? digits[group >> 6 & 63] : '=', out);
        putc_unlocked(i + 2 < size ? digits[group & 63] : '=', out);
    }
}

/* Compressed, in the format of gzip, which browsers read by themselves. */
static int write_compressed(FILE *out, char *bytes, size_t size, struct ct_error *err)
{
    enum { GZIP = 16 };
    z_stream stream = {0};
    if (deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + GZIP, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return ct_fail(err, "the page's data cannot be compressed: no memory");
    /* Whole groups of three bytes are written at once, so that they are one text. */
    enum { ROOM = 3 << 16 };
    unsigned char *room = must_realloc(NULL, ROOM, 1);
    size_t given = 0;
    int status = Z_OK;
    while (status != Z_STREAM_END) {
        stream.next_out = room;
        stream.avail_out = ROOM;
        while (status != Z_STREAM_END && stream.avail_out) {
            size_t part = size - given > 1 << 30 ? 1 << 30 : size - given;
            stream.next_in = (unsigned char *)bytes + given;
            stream.avail_in = (unsigned)part;
            status = deflate(&stream, given + part == size ? Z_FINISH : Z_NO_FLUSH);
            given += part - stream.avail_in;
        }
        write_base64(out, room, ROOM - stream.avail_out);
    }
    deflateEnd(&stream);
    free(room);
    return CT_OK;
}

static int write_data(const struct profile *profile, const struct page_options *options, FILE *out,
                      struct ct_error *err)
{
    char *bytes = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&bytes, &size);
    if (!memory)
        return ct_fail(err, "%s: no memory for the page", profile->name);
    int status = page_data_write(profile, options, memory, err);
    if (fclose(memory) != 0 && status == CT_OK)
        status = ct_fail(err, "%s: no memory for the page", profile->name);
    if (status == CT_OK)
        status = write_compressed(out, bytes, size, err);
    free(bytes);
    return status;
}

int html_write(const struct profile *profiles, size_t count, const struct page_options *options,
               FILE *out, struct ct_error *err)
{
    fwrite(page_file_head.bytes, 1, page_file_head.size, out);
    for (size_t i = 0; i < count; i++) {
        fputs("<script type=\"application/octet-stream\" class=\"data\">", out);
        CT_TRY(write_data(&profiles[i], options, out, err));
        fputs("</script>\n", out);
    }
    fwrite(page_file_tail.bytes, 1, page_file_tail.size, out);
    return CT_OK;
}
