/*
 * Row 41: functions that remember where they were called from (setjmp, getcontext, vfork, dlopen,
 * dlsym), called again and again with work around them, so that their frames and their callers' are
 * there when a sample is taken.
 */
#include "torture.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <sys/wait.h>
#include <ucontext.h>

static jmp_buf jump;
static int jumps, contexts, children, symbols;

static NOINLINE void leap(void)
{
    spin(3000);
    longjmp(jump, 1);
}

static NOINLINE void jumper(void)
{
    if (setjmp(jump) == 0)
        leap();
    jumps++;
    spin(3000);
}

static NOINLINE void context(void)
{
    ucontext_t here;
    volatile int again = 0;
    getcontext(&here);
    spin(3000);
    if (!again++)
        setcontext(&here);
    contexts++;
}

static NOINLINE void child(void)
{
    pid_t pid = vfork();
    if (pid == 0) {
        spin(20000);
        _exit(3);
    }
    int status;
    spin(20000);
    children += waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 3;
}

static NOINLINE void symbol(void)
{
    void *library = dlopen("libm.so.6", RTLD_NOW);
    symbols += library && dlsym(library, "cos") != NULL && dlsym(RTLD_NEXT, "malloc") != NULL;
    if (library)
        dlclose(library);
}

int main(void)
{
    for (int i = 0; i < 3000; i++) {
        jumper();
        context();
        if (i % 30 == 0)
            child();
        if (i % 30 == 1)
            symbol();
    }
    printf("jumps %d, contexts %d, children %d, symbols %d\n", jumps, contexts, children, symbols);
    return torture_end();
}
