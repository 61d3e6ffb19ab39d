#include "browse/pages.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The start of the last character of a text in UTF-8. */
static size_t last_character(const char *text)
{
    size_t at = strlen(text);
    while (at > 0 && ((unsigned char)text[--at] & 0xc0) == 0x80)
        continue;
    return at;
}

static void append(char *text, size_t room, uint32_t character)
{
    char bytes[MB_LEN_MAX + 1];
    int length = wctomb(bytes, (wchar_t)character);
    if (length > 0 && strlen(text) + (size_t)length < room)
        strncat(text, bytes, (size_t)length);
}

bool prompt_line(struct screen *screen, const char *prompt, char *text, size_t room)
{
    *text = '\0';
    for (;;) {
        uint32_t line = screen->lines - 1;
        screen_fill(screen, line, 0, STYLE_PLAIN);
        uint32_t at = screen_put(screen, line, 0, prompt, STYLE_TITLE);
        screen_point(line, screen_put(screen, line, at, text, STYLE_PLAIN));
        screen_end();
        uint32_t press = screen_key();
        if (press == PRESS_ENTER)
            return *text != '\0';
        if (press == PRESS_ESCAPE || press == PRESS_GONE || press == PRESS_REDRAW)
            return false;
        if (press == PRESS_ERASE)
            text[last_character(text)] = '\0';
        else if (press == ('U' & 0x1f))
            *text = '\0';
        else if (press >= ' ' && press < PRESS_UP)
            append(text, room, press);
    }
}
