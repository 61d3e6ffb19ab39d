#include "report/sheet.h"

#include <string.h>

void sheet_csv_text(FILE *out, const char *text)
{
    bool plain = strpbrk(text, ",\"\r\n") == NULL;
    if (!plain)
        putc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            putc('"', out);
        putc(*text, out);
    }
    if (!plain)
        putc('"', out);
}
