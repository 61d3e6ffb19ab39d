/*
 * Go's table of functions in each of its layouts, by hand, for tests and as a seed for the fuzzer: the
 * smallest program that Go's linker makes has a megabyte, and only the layout of its own release.
 *
 *     cc -shared -nostdlib -DLAYOUT=2 -o go_forms.so go_forms.S       2, 16, 18 or 20: since Go 1.N
 *     -DNO_TEXT_START     functions are counted from what moduledata says (since Go 1.26)
 *
 * The code is never run. The rows that it must come to are in tests/cli/test_go.sh.
 */
#ifndef LAYOUT
#define LAYOUT 20
#endif
#if LAYOUT == 2
#define MAGIC 0xfffffffb
#elif LAYOUT == 16
#define MAGIC 0xfffffffa
#elif LAYOUT == 18
#define MAGIC 0xfffffff0
#else
#define MAGIC 0xfffffff1
#endif

    .text
    .p2align 5, 0xcc
text_start:

/* Since Go 1.7: room first, then rbp is saved. */
old_frame:
    sub $24, %rsp
    mov %rbp, 16(%rsp)
    lea 16(%rsp), %rbp
old_frame_made:
    mov 16(%rsp), %rbp
    add $24, %rsp
old_frame_gone:
    ret
old_frame_end:
    .p2align 5, 0xcc

/* Since Go 1.21: as C has it. */
new_frame:
    push %rbp
new_frame_pushed:
    mov %rsp, %rbp
    sub $32, %rsp
new_frame_made:
    add $32, %rsp
new_frame_cut:
    pop %rbp
new_frame_gone:
    ret
new_frame_end:
    .p2align 5, 0xcc

goexit:
    nop
    call new_frame
    nop
goexit_end:
    .p2align 5, 0xcc

/* Goes to another stack, and back by a register. */
clock:
    sub $24, %rsp
    mov %rbp, 16(%rsp)
clock_saved:
    lea 16(%rsp), %rbp
    mov %rsp, %r12
    mov 56(%rdx), %rsp
    and $-16, %rsp
    call *%rax
    mov %r12, %rsp
    mov 16(%rsp), %rbp
    add $24, %rsp
clock_gone:
    ret
clock_end:
    .p2align 5, 0xcc

/* Goes to another stack, and nothing of it says from where. */
switches:
    mov 56(%rdx), %rsp
switches_left:
    call *%rdi
    mov 56(%rax), %rsp
    ret
switches_end:
    .p2align 5, 0xcc

mcall:
    mov 56(%r14), %rsp
    push %rax
    call *%r12
    pop %rax
mcall_end:
    .p2align 5, 0xcc

preempt:
    push %rbp
preempt_pushed:
    pop %rbp
preempt_gone:
    ret
preempt_end:
    .p2align 5, 0xcc

sigreturn:
    mov $15, %rax
    syscall
sigreturn_end:
    .p2align 5, 0xcc

/* C code that Go's linker has put here: it is in the table, but without heights. */
c_code:
    sub $8, %rsp
    add $8, %rsp
    ret
    .p2align 5, 0xcc
text_end:

/* A difference of values (twice it, odd for one that goes down: the complement), and how long it
   holds. The first value counts from -1. */
#define UP(by, from, to)   .byte (by) * 2, (to) - (from);
#define DOWN(by, from, to) .byte (by) * 2 - 1, (to) - (from);

#if LAYOUT >= 18
#define START(label) .long label - text_start
#define ADDRESS_OF(label) .long label - records
#else
#define START(label) .quad label
#define ADDRESS_OF(label) .quad label - COUNTED_FROM
#endif
#if LAYOUT == 2
#define COUNTED_FROM table
#define NAME_OF(label) .long label - table
#define VALUES_OF(label) .long label - table
#else
#define COUNTED_FROM records
#define NAME_OF(label) .long label - names
#define VALUES_OF(label) .long label - values
#endif

    .section .gopclntab, "aw"
    .p2align 5
table:
    .long MAGIC
    .byte 0, 0, 1, 8
    .quad 9 /* functions */
#if LAYOUT == 16
    .quad 0, names - table, 0, 0, values - table, records - table
#elif LAYOUT >= 18
    .quad 0
#ifdef NO_TEXT_START
    .quad 0
#else
    .quad text_start
#endif
    .quad names - table, 0, 0, values - table, records - table
#endif
records:
#define PAIR(function) START(function); ADDRESS_OF(record_##function);
    PAIR(old_frame) PAIR(new_frame) PAIR(goexit) PAIR(clock) PAIR(switches) PAIR(mcall)
    PAIR(preempt) PAIR(sigreturn) PAIR(c_code)
    START(text_end)
    .long 0, 0 /* the number of files, where the oldest layout has it */

/* Start, name, arguments, defers, heights, files, lines, number of data, (unit, first line,) what
   function it is, flags, and so on. */
#if LAYOUT == 2
#define REST(flags) .long 0, 0, 0; .byte 0, 0, 0, 0
#elif LAYOUT == 20
#define REST(flags) .long 0, 0, 0, 0, 0; .byte 0, flags, 0, 0
#else
#define REST(flags) .long 0, 0, 0, 0; .byte 0, flags, 0, 0
#endif
#define RECORD(function, flags) \
    .p2align 3; record_##function: START(function); NAME_OF(name_##function); .long 0, 0; \
    VALUES_OF(values_##function); REST(flags)
    RECORD(old_frame, 0)
    RECORD(new_frame, 0)
    RECORD(goexit, 1)
    RECORD(clock, 2)
    RECORD(switches, 2)
    RECORD(mcall, 2)
    RECORD(preempt, 0)
    RECORD(sigreturn, 0)
    .p2align 3
record_c_code: START(c_code); NAME_OF(name_c_code); .long 0, 0, 0; REST(0)

names:
    .byte 0
name_old_frame: .asciz "main.old"
name_new_frame: .asciz "main.new"
name_goexit: .asciz "runtime.goexit"
name_clock: .asciz "time.now"
name_switches: .asciz "runtime.systemstack"
name_mcall: .asciz "runtime.mcall"
name_preempt: .asciz "runtime.asyncPreempt"
name_sigreturn: .asciz "runtime.sigreturn"
name_c_code: .asciz "c_code"

values:
    .byte 0
values_old_frame:
    UP(1, old_frame, old_frame + 4) UP(24, old_frame + 4, old_frame_gone)
    DOWN(24, old_frame_gone, old_frame_end) .byte 0
values_new_frame:
    UP(1, new_frame, new_frame_pushed) UP(8, new_frame_pushed, new_frame_made)
    UP(32, new_frame_made, new_frame_cut) DOWN(32, new_frame_cut, new_frame_gone)
    DOWN(8, new_frame_gone, new_frame_end) .byte 0
values_goexit: UP(1, goexit, goexit_end) .byte 0
values_clock:
    UP(1, clock, clock + 4) UP(24, clock + 4, clock_gone) DOWN(24, clock_gone, clock_end) .byte 0
values_switches: UP(1, switches, switches_end) .byte 0
values_mcall: UP(1, mcall, mcall_end) .byte 0
values_preempt:
    UP(1, preempt, preempt_pushed) UP(8, preempt_pushed, preempt_gone)
    DOWN(8, preempt_gone, preempt_end) .byte 0
values_sigreturn: UP(1, sigreturn, sigreturn_end) .byte 0

/* How a Go program is known without section headers. */
    .section .note.go.buildid, "a", @note
    .p2align 2
    .long 4, 4, 4
    .asciz "Go\0"
    .ascii "form"

/* What Go says of itself: this table first; its lowest and highest address. */
    .data
    .p2align 5
    .quad table
    .fill 19, 8, 0
    .quad text_start, text_end
