/*
 * A library with thousands of functions that go on to another one by a short jump, in the place of
 * which a longer one has no room: an editor takes the room between functions for it, and to put
 * that back takes its time. (r03_detached.c) The jump of the first one is 6 bytes behind
 * hops_begin.
 */
__asm__(".text\n"
        ".macro pair\n"
        ".p2align 4, 0xcc\n"
        ".type first\\@, @function\nfirst\\@:\n.cfi_startproc\n"
        " test %edi, %edi\n jz 1f\n dec %edi\n1: jmp second\\@\n"
        ".cfi_endproc\n.size first\\@, . - first\\@\n"
        ".type second\\@, @function\nsecond\\@:\n.cfi_startproc\n ret\n.cfi_endproc\n"
        ".size second\\@, . - second\\@\n"
        ".endm\n.globl hops_begin\n.p2align 4\nhops_begin:\n.rept 20000\n pair\n.endr\n");

int hops_here(int x);
int hops_here(int x)
{
    return x + 1;
}
