/*
 * Row 14: code made at run time. With a frame pointer, as run-time compilers keep it, the walk goes
 * through it; a function without a frame at the top of the stack is stepped out of; one without a
 * frame further down ends the walk: rbp is another frame's there, whose caller would be skipped.
 */
#include "torture.h"

#include <sys/mman.h>

typedef void (*run_fn)(void (*work)(void));

static NOINLINE void in_framed(void)
{
    burn_ms(150);
}

static NOINLINE void in_frameless(void)
{
    burn_ms(150);
}

/* All of these have frame pointers (the case is built with them), so that rbp leads somewhere. */
static NOINLINE void calls_framed(run_fn code)
{
    code(in_framed);
    __asm__ volatile("");
}

static NOINLINE void calls_frameless(run_fn code)
{
    code(in_frameless);
    __asm__ volatile("");
}

static NOINLINE void calls_leaf(void (*code)(long))
{
    for (int i = 0; i < 2000; i++)
        code(200000);
    __asm__ volatile("");
}

int main(void)
{
    static const unsigned char framed[] = {0x55,                      /* push %rbp */
                                           0x48, 0x89, 0xe5,          /* mov %rsp,%rbp */
                                           0x48, 0x83, 0xec, 0x20,    /* sub $32,%rsp */
                                           0xff, 0xd7,                /* call *%rdi */
                                           0xc9, 0xc3};               /* leave, ret */
    static const unsigned char frameless[] = {0x48, 0x83, 0xec, 0x28, /* sub $40,%rsp */
                                              0xff, 0xd7,             /* call *%rdi */
                                              0x48, 0x83, 0xc4, 0x28, 0xc3};
    static const unsigned char leaf[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3}; /* dec, jnz, ret */
    char *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, framed, sizeof framed);
    memcpy(page + 1024, frameless, sizeof frameless);
    memcpy(page + 2048, leaf, sizeof leaf);
    calls_framed((run_fn)page);
    calls_frameless((run_fn)(page + 1024));
    calls_leaf((void (*)(long))(page + 2048));
    printf("came back from all\n");
    return torture_end();
}
