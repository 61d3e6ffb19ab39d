/*
 * A library for r23_without_rules.c, linked without unwind information. Nothing but `anchor` says
 * where in it functions are: they begin 64 bytes and 16384 bytes behind it.
 *
 * void NAME(const struct registers *in, struct registers *out, void (*callee)(void)): fills
 * registers, calls, and stores them; at many places, with nops that are looked at on the way from
 * each to the beginning of the function.
 */
#define PROBE(load, store)                                                                         \
    " push %rbp\n mov %rsp, %rbp\n push %rsi\n push %rdx\n" load                                   \
    ".rept 64\n .p2align 4\n nopl 0(%rax,%rax,1)\n nopl 0(%rax,%rax,1)\n call *-16(%rbp)\n "       \
    ".endr\n"                                                                                      \
    " mov -8(%rbp), %rsi\n" store " vzeroupper\n leave\n ret\n"

#define LOW                        "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15"
#define HIGH                       "16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31"
#define EACH(numbers, instruction) ".irp i," numbers "\n " instruction "\n .endr\n"

__asm__(
    ".text\n.globl anchor\n.type anchor, @function\n.p2align 14\nanchor:\n ret\n.size anchor, 1\n"
    ".org anchor + 64, 0xcc\n" PROBE(
        EACH(LOW, "vmovdqu 64*\\i(%rdi), %ymm\\i"),
        EACH(
            LOW,
            "vmovdqu %ymm\\i, 64*\\i(%rsi)")) ".org anchor + 16384, 0xcc\n" PROBE(EACH(LOW "," HIGH,
                                                                                       "vmovdqu64 "
                                                                                       "64*\\i(%"
                                                                                       "rdi), "
                                                                                       "%zmm\\i")
                                                                                      EACH(
                                                                                          "1,2,3,4,"
                                                                                          "5,6,7",
                                                                                          "kmovq "
                                                                                          "32*64+8*"
                                                                                          "\\i(%"
                                                                                          "rdi), "
                                                                                          "%k\\i"),
                                                                                  EACH(LOW "," HIGH,
                                                                                       "vmovdqu64 "
                                                                                       "%zmm\\i, "
                                                                                       "64*\\i(%"
                                                                                       "rsi)")
                                                                                      EACH(
                                                                                          "1,2,3,4,"
                                                                                          "5,6,7",
                                                                                          "kmovq "
                                                                                          "%k\\i, "
                                                                                          "32*64+8*"
                                                                                          "\\i(%"
                                                                                          "rsi)")));
