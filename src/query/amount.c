#include "query/amount.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct amount_scale amount_scale(const char *unit, uint64_t greatest)
{
    static const struct {
        const char *of;
        uint64_t from;
        struct amount_scale scale;
    } scales[] = {
        {"ns", 100000000, {1e9, 3, "s"}},   {"ns", 100000, {1e6, 3, "ms"}},
        {"ns", 1000, {1e3, 3, "us"}},       {"bytes", 1000000000, {1e9, 3, "GB"}},
        {"bytes", 1000000, {1e6, 3, "MB"}}, {"bytes", 10000, {1e3, 1, "kB"}},
    };
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        if (strcmp(unit, scales[i].of) == 0 && greatest >= scales[i].from)
            return scales[i].scale;
    return (struct amount_scale){.unit = unit};
}

const char *count_text(uint64_t count, char *text)
{
    char digits[24];
    size_t length = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, count), used = 0;
    for (size_t i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = '\0';
    return text;
}

const char *amount_text(const struct amount_scale *scale, uint64_t value, char *text)
{
    if (scale->divisor > 0) {
        snprintf(text, AMOUNT_ROOM, "%.*f %s", scale->decimals, (double)value / scale->divisor,
                 scale->unit);
        return text;
    }
    char number[AMOUNT_ROOM];
    size_t length = strnlen(scale->unit, 12);
    if (value == 1 && length >= 4 && scale->unit[length - 1] == 's') /* "1 call"; but "1 ns" */
        length--;
    /* A unit comes from the file; one that is no word is not repeated in every row. */
    snprintf(text, AMOUNT_ROOM, "%s %.*s", count_text(value, number), (int)length, scale->unit);
    return text;
}

double share_percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * ((double)part / (double)whole) : 0;
}
