#include "report/terminal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS_DEFAULT = 80, COLUMNS_LEAST = 40, COLUMNS_MOST = 1000 };

static size_t width(bool tty)
{
    struct winsize size;
    if (tty && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= COLUMNS_LEAST)
        return size.ws_col;
    const char *text = getenv("COLUMNS");
    long columns = text ? strtol(text, NULL, 10) : 0;
    if (columns <= 0)
        return COLUMNS_DEFAULT;
    return columns < COLUMNS_LEAST  ? COLUMNS_LEAST
           : columns > COLUMNS_MOST ? COLUMNS_MOST
                                    : (size_t)columns;
}

/* The first of these that is set decides, as in setlocale. */
static bool is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

struct terminal terminal_open(enum color_choice color, bool want_pager)
{
    bool tty = isatty(STDOUT_FILENO);
    const char *no_color = getenv("NO_COLOR"), *pager = getenv("PAGER");
    struct terminal t = {.out = stdout, .columns = width(tty), .unicode = is_utf8()};
    t.color = color == COLOR_ALWAYS || (color == COLOR_AUTO && tty && !(no_color && *no_color));
    if (!tty || !want_pager || (pager && (!*pager || strcmp(pager, "cat") == 0)))
        return t;
    fflush(stdout);
    FILE *pipe = popen(pager ? pager : "less -FRX", "w");
    if (pipe) {
        /* Who leaves the pager early has seen enough: that is no failure. */
        signal(SIGPIPE, SIG_IGN);
        t.out = pipe;
        t.paged = true;
    }
    return t;
}

void terminal_close(struct terminal *terminal)
{
    if (terminal->paged)
        pclose(terminal->out);
    terminal->out = stdout;
}
