#define NCURSES_WIDECHAR 1
#include "browse/screen.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <ncurses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

/* Escape alone is told from the start of another key by what follows within this time. */
enum { ESCAPE_MS = 100 };

enum { PAIR_HOT = 1, PAIR_WARM };

static bool colored;
static SCREEN *terminal;

int screen_open(bool with_colors, struct screen *out, struct ct_error *err)
{
    const char *name = getenv("TERM");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return ct_fail(err, "there is no terminal here: calltrail report prints the same");
    /* Numbers stay as they are everywhere else: of the locale, only its characters are taken. */
    setlocale(LC_CTYPE, "");
    terminal = newterm(NULL, stdout, stdin);
    const char *move = terminal ? tigetstr("cup") : NULL;
    if (!move || move == (char *)-1) {
        screen_close();
        return ct_fail(err,
                       "the terminal '%s' (TERM) is not known, or cannot place its cursor: "
                       "calltrail report prints the same",
                       name ? name : "");
    }
    colored = with_colors && has_colors() && start_color() == OK;
    if (colored) {
        use_default_colors();
        init_pair(PAIR_HOT, COLOR_RED, -1);
        init_pair(PAIR_WARM, COLOR_GREEN, -1);
    }
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    set_escdelay(ESCAPE_MS);
    curs_set(0);
    *out = (struct screen){.unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0};
    return CT_OK;
}

void screen_close(void)
{
    if (!terminal)
        return;
    endwin();
    delscreen(terminal);
    terminal = NULL;
}

void screen_begin(struct screen *screen)
{
    int lines, columns;
    getmaxyx(stdscr, lines, columns);
    screen->lines = lines > 0 ? (uint32_t)lines : 1;
    screen->columns = columns > 0 ? (uint32_t)columns : 1;
    erase();
}

void screen_end(void)
{
    refresh();
}

static attr_t begin_style(enum screen_style style)
{
    attr_t attributes = style == STYLE_TITLE      ? A_BOLD
                        : style == STYLE_SELECTED ? A_REVERSE
                                                  : A_NORMAL;
    if (colored && style == STYLE_HOT)
        attributes = (attr_t)COLOR_PAIR(PAIR_HOT);
    if (colored && style == STYLE_WARM)
        attributes = (attr_t)COLOR_PAIR(PAIR_WARM);
    attrset((int)attributes);
    return attributes;
}

/* One character and what it is shown as. Returns its bytes. */
static size_t take(const char *text, size_t left, mbstate_t *state, wchar_t *out)
{
    size_t bytes = mbrtowc(out, text, left, state);
    if (bytes == 0 || bytes > left) {
        *state = (mbstate_t){0};
        *out = L'?';
        return 1;
    }
    if (!iswprint((wint_t)*out) && wcwidth(*out) != 0)
        *out = L'?';
    return bytes;
}

uint32_t screen_put(const struct screen *screen, uint32_t line, uint32_t column, const char *text,
                    enum screen_style style)
{
    mbstate_t state = {0};
    size_t left = strlen(text);
    begin_style(style);
    while (left && line < screen->lines) {
        wchar_t character;
        size_t bytes = take(text, left, &state, &character);
        int width = wcwidth(character);
        text += bytes;
        left -= bytes;
        if (width <= 0)
            continue;
        if (column + (uint32_t)width > screen->columns)
            break;
        mvaddnwstr((int)line, (int)column, &character, 1);
        column += (uint32_t)width;
    }
    attrset(A_NORMAL);
    return column;
}

void screen_fill(const struct screen *screen, uint32_t line, uint32_t column,
                 enum screen_style style)
{
    begin_style(style);
    for (; line < screen->lines && column < screen->columns; column++)
        mvaddch((int)line, (int)column, ' ');
    attrset(A_NORMAL);
}

void screen_point(uint32_t line, uint32_t column)
{
    move((int)line, (int)column);
}

static uint32_t press_of(int key)
{
    static const struct {
        int key;
        enum press press;
    } presses[] = {
        {KEY_UP, PRESS_UP},         {KEY_DOWN, PRESS_DOWN},     {KEY_LEFT, PRESS_LEFT},
        {KEY_RIGHT, PRESS_RIGHT},   {KEY_PPAGE, PRESS_PAGE_UP}, {KEY_NPAGE, PRESS_PAGE_DOWN},
        {KEY_HOME, PRESS_HOME},     {KEY_END, PRESS_END},       {KEY_ENTER, PRESS_ENTER},
        {KEY_BTAB, PRESS_BACK_TAB}, {KEY_F(1), PRESS_HELP},     {KEY_BACKSPACE, PRESS_ERASE},
        {KEY_RESIZE, PRESS_REDRAW},
    };
    for (size_t i = 0; i < sizeof presses / sizeof *presses; i++)
        if (presses[i].key == key)
            return presses[i].press;
    return PRESS_OTHER;
}

uint32_t screen_key(void)
{
    wint_t key;
    errno = 0;
    int kind = get_wch(&key);
    if (kind == ERR)
        return errno == EINTR ? PRESS_REDRAW : PRESS_GONE;
    if (kind == KEY_CODE_YES)
        return press_of((int)key);
    switch (key) {
    case '\r':
    case '\n':
        return PRESS_ENTER;
    case '\t':
        return PRESS_TAB;
    case '\b':
    case 0x7f:
        return PRESS_ERASE;
    case 0x1b:
        return PRESS_ESCAPE;
    case 'L' & 0x1f:
        clearok(stdscr, TRUE);
        return PRESS_REDRAW;
    default:
        return (uint32_t)key;
    }
}
