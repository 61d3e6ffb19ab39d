/*
 * Where text goes: how wide it may be, whether it may have colours, and through which pager.
 */
#ifndef REPORT_TERMINAL_H
#define REPORT_TERMINAL_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum color_choice { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

struct terminal {
    FILE *out;
    size_t columns;
    size_t rows; /* 0: it is no terminal */
    bool color;
    bool unicode;    /* box drawing may be used */
    bool full_names; /* however wide they are */
    bool paged;
};

/* Standard output: the terminal's width, else COLUMNS, else 80; colours and the pager only on a
 * terminal. The pager starts when there is more to see than the terminal has room for. End with
 * terminal_close, which waits for it. */
struct terminal terminal_open(enum color_choice color, bool want_pager);
void terminal_close(struct terminal *terminal);

#endif
