#include "report/terminal.h"

#include "base/vec.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS_DEFAULT = 80, COLUMNS_LEAST = 40, COLUMNS_MOST = 1000, ROWS_DEFAULT = 24 };

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

static size_t height(bool tty)
{
    struct winsize size;
    return !tty                                                          ? 0
           : ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row ? size.ws_row
                                                                         : ROWS_DEFAULT;
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

/*
 * What may go through the pager: it is held back until it is more than the screen has room for
 * above the next prompt. less -F would wait already when there is room for no more than that.
 */
struct screenful {
    const char *pager;
    char *text;
    size_t used, room;
    size_t lines, lines_most, column, columns;
    bool in_escape;
    FILE *pipe; /* the pager, when it runs */
};

static void count_lines(struct screenful *s, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (s->in_escape) {
            s->in_escape = c != 'm';
        } else if (c == '\033') {
            s->in_escape = true;
        } else if (c == '\n') {
            s->lines++;
            s->column = 0;
        } else if ((c & 0xc0) != 0x80 && ++s->column > s->columns) {
            s->lines++; /* the terminal goes on in the next one */
            s->column = 1;
        }
    }
}

static void let_go(struct screenful *s, FILE *to)
{
    fwrite(s->text, 1, s->used, to);
    s->used = 0;
}

static ssize_t hold(void *cookie, const char *text, size_t size)
{
    struct screenful *s = cookie;
    if (s->pipe) {
        fwrite(text, 1, size, s->pipe); /* who leaves the pager early has seen enough */
        return (ssize_t)size;
    }
    if (size > s->room - s->used) {
        s->room = s->used + size > 2 * s->room ? s->used + size : 2 * s->room;
        s->text = must_realloc(s->text, s->room, 1);
    }
    memcpy(s->text + s->used, text, size);
    s->used += size;
    count_lines(s, text, size);
    if (s->lines <= s->lines_most)
        return (ssize_t)size;
    s->pipe = popen(s->pager, "w");
    if (s->pipe) {
        signal(SIGPIPE, SIG_IGN);
        let_go(s, s->pipe);
    } else {
        s->lines_most = SIZE_MAX;
    }
    return (ssize_t)size;
}

static int end_hold(void *cookie)
{
    struct screenful *s = cookie;
    if (s->pipe)
        pclose(s->pipe);
    else
        let_go(s, stdout);
    free(s->text);
    free(s);
    return 0;
}

struct terminal terminal_open(enum color_choice color, bool want_pager)
{
    bool tty = isatty(STDOUT_FILENO);
    const char *no_color = getenv("NO_COLOR"), *pager = getenv("PAGER");
    struct terminal t = {
        .out = stdout, .columns = width(tty), .rows = height(tty), .unicode = is_utf8()};
    t.color = color == COLOR_ALWAYS || (color == COLOR_AUTO && tty && !(no_color && *no_color));
    if (!tty || !want_pager || (pager && (!*pager || strcmp(pager, "cat") == 0)))
        return t;
    fflush(stdout);
    struct screenful *held = must_calloc(1, sizeof *held);
    held->pager = pager ? pager : "less -FRX";
    held->lines_most = t.rows - 1;
    held->columns = t.columns;
    t.out = fopencookie(held, "w", (cookie_io_functions_t){.write = hold, .close = end_hold});
    t.paged = t.out != NULL;
    if (!t.paged) {
        free(held);
        t.out = stdout;
    }
    return t;
}

void terminal_close(struct terminal *terminal)
{
    if (terminal->paged)
        fclose(terminal->out);
    terminal->out = stdout;
}
