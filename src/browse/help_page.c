#include "browse/pages.h"

static const char *const help[] = {
    "calltrail top: keys",
    "",
    "  Up, Down, PgUp, PgDn, Space, Home, End     move",
    "  Enter, +      open or fold the row, on to where it branches",
    "  Right, Left   open; fold, or go to the row above it in the tree",
    "  e, E, C       open all below the row; open all; fold all",
    "  z             zoom into the function: only what it called, and who called it",
    "  Esc           zoom out",
    "  a             source of the function, with the cost of each line",
    "  1, 2, 3, 4    functions; callees (top down); callers (bottom up); threads",
    "  v             the next of these",
    "  Tab, S-Tab    the next metric, the one before",
    "  s             functions by self, or by total",
    "  /, n, N       search for a part of a name or an expression; next; previous",
    "  F             full names, or as much of them as there is room for",
    "  h, ?, F1      this sheet         Ctrl-L   draw the screen again",
    "  q             leave; leave the source or this sheet",
    "",
    "  + there are rows below, - they are shown. Rows with less than 0.5% stay",
    "  folded by e and E. Shares are of everything that was chosen on the command",
    "  line. In red: 5% and more; in green: 0.5% and more.",
};

uint32_t help_page(struct screen *screen)
{
    for (;;) {
        screen_begin(screen);
        uint32_t lines = sizeof help / sizeof *help;
        for (uint32_t i = 0; i < lines; i++)
            screen_put(screen, i, 0, help[i], i ? STYLE_PLAIN : STYLE_TITLE);
        screen_put(screen, screen->lines - 1, 0, "any key: back", STYLE_TITLE);
        screen_end();
        uint32_t press = screen_key();
        if (press != PRESS_REDRAW)
            return press == PRESS_GONE ? press : 0;
    }
}
