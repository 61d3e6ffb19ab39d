/*
 * What others see of a marked stack: backtrace(), _Unwind_Backtrace, libunwind's unw_step and
 * unw_backtrace. A mark is one entry more, in the runtime; without it the names are the same.
 * With an argument it stops in `stopped`, marked at that level, for a debugger.
 */
#include "marks.h"

#define UNW_LOCAL_ONLY
#include <execinfo.h>
#include <libunwind.h>

static volatile int sink;
static int level = -1, stops;
static char seen[4][2048];
static unsigned extra;

static void add(char *text, uintptr_t pc)
{
    Dl_info info;
    if (is_runtime(pc - 1)) {
        extra++;
        return;
    }
    const char *name = dladdr((void *)(pc - 1), &info) && info.dli_sname ? info.dli_sname : "?";
    snprintf(text + strlen(text), sizeof seen[0] - strlen(text), " %s", name);
}

static _Unwind_Reason_Code one(struct _Unwind_Context *c, void *text)
{
    if (_Unwind_GetIP(c))
        add(text, _Unwind_GetIP(c));
    return _URC_NO_REASON;
}

NOINLINE void stopped(void)
{
    if (stops)
        raise(SIGINT);
}

NOINLINE int leaf(int x)
{
    void *pcs[64];
    memset(seen, 0, sizeof seen);
    if (level >= 0)
        sample_level(level);
    stopped();
    int n = backtrace(pcs, 64);
    for (int i = 0; i < n; i++)
        add(seen[0], (uintptr_t)pcs[i]);
    _Unwind_Backtrace(one, seen[1]);
    n = unw_backtrace(pcs, 64);
    for (int i = 0; i < n; i++)
        add(seen[2], (uintptr_t)pcs[i]);
    unw_context_t context;
    unw_cursor_t cursor;
    unw_word_t pc;
    unw_getcontext(&context);
    unw_init_local(&cursor, &context);
    do {
        unw_get_reg(&cursor, UNW_REG_IP, &pc);
        add(seen[3], pc);
    } while (unw_step(&cursor) > 0);
    return x + 1;
}

NOINLINE int inner(int x)
{
    x = leaf(x) + 1;
    sink = x;
    return x;
}

NOINLINE int with_alloca(int x)
{
    char *room = __builtin_alloca((size_t)x * 64 + 64);
    room[0] = 1;
    __asm__ volatile("" : : "r"(room) : "memory");
    x = inner(x) + room[0];
    sink = x;
    return x;
}

NOINLINE int outer(int x)
{
    x = with_alloca(x) + 1;
    sink = x;
    return x;
}

int main(int argc, char **argv)
{
    static char expected[4][2048];
    unsigned bad = 0, total = 0;
    marks_begin();
    stops = argc > 1;
    if (stops) {
        level = atoi(argv[1]);
        return outer(2) != 6;
    }
    outer(2);
    memcpy(expected, seen, sizeof seen);
    extra = 0;
    for (level = 0; level < 6; level++) {
        int result = outer(2);
        for (unsigned i = 0; i < 4; i++, total++)
            bad += result != 6 || strcmp(expected[i], seen[i]) != 0 || !strstr(seen[i], "main");
    }
    printf("%u of %u as without marks\n", total - bad, total);
    if (sample_handler && !extra)
        fprintf(stderr, "no mark was seen\n");
    return bad != 0 || (sample_handler && !extra);
}
