/*
 * Code that the tests of src/runtime/edit/live.c change while it runs.
 *
 *   call_N      long (long x): callee(x) + N, by a direct call at a site that is listed
 *   range_N     long (long x, long (*f)(long)): a few instructions that are listed as one site
 *
 * Two of each lie across the end of a page.
 */
        .section .data.rel.calls, "aw"
        .balign 8
        .globl  calls_table
calls_table:
        .section .data.rel.ranges, "aw"
        .balign 8
        .globl  ranges_table
ranges_table:

        .text
        .balign 4096, 0xcc
        .skip   256, 0xcc

        /* One is 0x203 bytes behind the other: half of a distance leads to no instruction. */
        .globl callee_a, callee_b
callee_a:
        lea     7(%rdi), %rax
        incq    %fs:calls_a@tpoff
        ret
        .skip   0x203 - (. - callee_a), 0xcc
callee_b:
        mov     %rdi, %rax
        incq    %fs:calls_b@tpoff
        add     $7, %rax
        ret

        .macro DIRECT number, shift
        .balign 64, 0xcc
        .if \shift
        .balign 4096, 0xcc
        .skip   4096 - \shift, 0xcc
        .endif
call_\number:
        .cfi_startproc
        sub     $8, %rsp                /* 4 bytes */
        .cfi_adjust_cfa_offset 8
1:      call    callee_a
2:      add     $\number, %rax
        add     $8, %rsp
        .cfi_adjust_cfa_offset -8
        ret
        .cfi_endproc
        .pushsection .data.rel.calls, "aw"
        .quad   call_\number, 1b
        .popsection
        .endm

        .altmacro
        .macro DIRECTS from, to
        DIRECT \from, 0
        .if \to - \from
        DIRECTS %(\from + 1), \to
        .endif
        .endm
        DIRECTS 0, 19
        DIRECT 20, 6
        DIRECTS 21, 40
        .balign 4096, 0xcc
        DIRECTS 41, 62
        DIRECT 63, 8

        /* In front of a range: where it begins; behind it: its end, and of how many bytes its first
         * instruction is. All of it is right at any address. */
        .macro RANGE number
        .pushsection .data.rel.ranges, "aw"
        .quad   range_\number, begin_\number, end_\number - begin_\number
        .quad   second_\number - begin_\number
        .popsection
        .endm

        .balign 4096, 0xcc
range_0:                                /* the first one is longer than a jump */
        .cfi_startproc
begin_0:
        lea     0x11223344(%rdi), %rax
second_0:
        xor     %rdi, %rax
        add     $3, %rax
end_0:
        ret
        .cfi_endproc
        RANGE 0

        .balign 64, 0xcc
range_1:                                /* the first one is shorter */
        .cfi_startproc
begin_1:
        mov     %rdi, %rax
second_1:
        add     $0x11, %rax
        xor     $0x5a, %rax
end_1:
        ret
        .cfi_endproc
        RANGE 1

        .balign 64, 0xcc
range_2:                                /* a short call, with what is in front of it */
        .cfi_startproc
        push    %rbx
        .cfi_adjust_cfa_offset 8
        .cfi_offset %rbx, -16
begin_2:
        mov     %rdi, %rbx
second_2:
        lea     1(%rbx), %rdi
        call    *%rsi
end_2:
        add     %rbx, %rax
        pop     %rbx
        .cfi_adjust_cfa_offset -8
        ret
        .cfi_endproc
        RANGE 2

        .balign 4096, 0xcc
        .skip   4096 - 5, 0xcc
range_3:                                /* on two pages */
        .cfi_startproc
begin_3:
        mov     %rdi, %rax
second_3:
        add     $0x21, %rax
        xor     $0x3c, %rax
end_3:
        ret
        .cfi_endproc
        RANGE 3

        .balign 64, 0xcc
range_4:                                /* most of the time, a thread is inside */
        .cfi_startproc
        mov     %rdi, %rax
        mov     $50, %ecx
1:
begin_4:
        imul    $5, %rax
second_4:
        rol     $3, %rax
        add     $1, %rax
        xor     %rdi, %rax
        ror     $1, %rax
end_4:
        dec     %ecx
        jnz     1b
        ret
        .cfi_endproc
        RANGE 4

        .section .tbss, "awT", @nobits
        .balign 8
        .globl  calls_a, calls_b
calls_a: .skip  8
calls_b: .skip  8

        .section .note.GNU-stack, "", @progbits
