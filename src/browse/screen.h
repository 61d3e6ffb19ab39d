/*
 * The screen of a terminal: lines of text, styles and keys. All of ncurses is behind this.
 *
 * What cannot be shown, or would act on the terminal, is shown as `?`; marks that combine with the
 * character before them are left out, so that a line is as wide as it says.
 */
#ifndef BROWSE_SCREEN_H
#define BROWSE_SCREEN_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum screen_style { STYLE_PLAIN, STYLE_TITLE, STYLE_HOT, STYLE_WARM, STYLE_SELECTED };

struct screen {
    uint32_t lines, columns;
    bool unicode; /* ellipses may be used */
};

/* Keys that are no character. */
enum press {
    PRESS_UP = 0x110000,
    PRESS_DOWN,
    PRESS_LEFT,
    PRESS_RIGHT,
    PRESS_PAGE_UP,
    PRESS_PAGE_DOWN,
    PRESS_HOME,
    PRESS_END,
    PRESS_ENTER,
    PRESS_TAB,
    PRESS_BACK_TAB,
    PRESS_ERASE,
    PRESS_ESCAPE,
    PRESS_HELP,
    PRESS_REDRAW, /* the size has changed, or it was asked for */
    PRESS_OTHER,  /* nothing that anything is done for */
    PRESS_GONE,   /* the terminal is not there any more */
};

/* Fails where there is no terminal, or one that cannot place its cursor. */
int screen_open(bool with_colors, struct screen *out, struct ct_error *err);
void screen_close(void);

/* A new picture of the size that the terminal has now; then its lines; then it is shown. */
void screen_begin(struct screen *screen);
void screen_end(void);

/* Writes from a column on what the line has room for. Returns the column behind it. */
uint32_t screen_put(const struct screen *screen, uint32_t line, uint32_t column, const char *text,
                    enum screen_style style);

/* The rest of the line in this style. */
void screen_fill(const struct screen *screen, uint32_t line, uint32_t column,
                 enum screen_style style);

/* Where the cursor stands, for terminals that have no styles. */
void screen_point(uint32_t line, uint32_t column);

/* A character, or one of enum press. */
uint32_t screen_key(void);

#endif
