/*
 * Functions with one site each, and the stubs of these sites. Each function has its frame in
 * another way; each stub does to the stack what some stub of an engine does. A stub is copied to
 * the region, and reaches what is outside through words of its own.
 */
    .macro function name
    .globl \name
    .type \name, @function
    .p2align 4
\name:
    .cfi_startproc
    .endm

    .macro end name
    .cfi_endproc
    .size \name, . - \name
    .endm

    .macro slot name
    .pushsection .data
    .p2align 3
    .globl slot_\name
slot_\name: .quad 0
    .popsection
    .endm

    .macro stub name
    .globl stub_\name, stub_\name\()_end
stub_\name:
    .endm

    .macro word name
    .globl \name
\name: .quad 0
    .endm

    .text
    .globl direct_site, indirect_site, moved_code, moved_site, encoded_site, encoded_back, tail_site
    .globl moved_back

/* A call; the frame by rsp. */
    slot direct
    function direct
    pushq %rbx
    .cfi_def_cfa_offset 16
    .cfi_offset %rbx, -16
    movl $0x11, %eax
    movl $0x22, %ecx
    movl $0x33, %edx
    movl $0x44, %ebx
direct_site:
    call *slot_direct(%rip)
    popq %rbx
    .cfi_def_cfa_offset 8
    ret
    end direct

/* A call; the frame by rcx, which the stub uses for something else. (By rax would be too much for
 * LLVM's libunwind, in any code.) */
    slot indirect
    function indirect
    movq %rsp, %rcx
    .cfi_def_cfa %rcx, 8
    subq $24, %rsp
    movl $0x11, %eax
    movl $0x33, %edx
    movq leaf_pointer(%rip), %r11
indirect_site:
    call *slot_indirect(%rip)
    .cfi_def_cfa %rsp, 32
    addq $24, %rsp
    .cfi_def_cfa_offset 8
    ret
    end indirect

/* Two instructions have moved with the call: what is there instead jumps to the stub. */
    slot moved
    function moved
    pushq %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    jmp *slot_moved(%rip)
moved_code:
    movl $5, %eax
    leal 1(%rax), %ecx
moved_site:
    call leaf
moved_back:
    popq %rbp
    .cfi_def_cfa %rsp, 8
    ret
    end moved

/* The callee comes back to the stub. */
    slot encoded
    function encoded
    subq $40, %rsp
    .cfi_def_cfa_offset 48
    nop /* LLVM's unwinder, up to 14, looks up the byte before the site */
encoded_site:
    jmp *slot_encoded(%rip)
encoded_back:
    addq $40, %rsp
    .cfi_def_cfa_offset 8
    ret
    end encoded

/* A jump from a function that has nothing on the stack; the frame by rdx. */
    slot tail
    function tail
    leaq 8(%rsp), %rdx
    .cfi_def_cfa %rdx, 0
tail_site:
    jmp *slot_tail(%rip)
    end tail

/* --- stubs; tests/edit/regions.c has their rows ------------------------------------------------ */

    stub direct
    pushq %rax                        /* 0 */
    pushq %rcx                        /* 1 */
    xorl %eax, %eax                   /* 2 */
    xorl %ecx, %ecx                   /* 4 */
    popq %rcx                         /* 6 */
    popq %rax                         /* 7 */
    jmp *direct_to(%rip)              /* 8 */
    word direct_to
stub_direct_end:

    stub indirect
    pushq %r11                        /* 0 */
    pushq %rax                        /* 2 */
    pushq %rcx                        /* 3 */
    pushq %rdx                        /* 4 */
    xorl %eax, %eax                   /* 5 */
    xorl %edx, %edx                   /* 7 */
    movl $7, %ecx                     /* 9 */
    call *indirect_common(%rip)       /* 14 */
    popq %rdx                         /* 20 */
    popq %rcx                         /* 21 */
    popq %rax                         /* 22 */
    leaq 8(%rsp), %rsp                /* 23 */
    jmp *-8(%rsp)                     /* 28 */
    word indirect_common
stub_indirect_end:

    stub moved
    movl $5, %eax                     /* 0 */
    leal 1(%rax), %ecx                /* 5 */
    pushq moved_return(%rip)          /* 8 */
    pushq %rcx                        /* 14 */
    popq %rcx                         /* 15 */
    jmp *moved_to(%rip)               /* 16 */
    word moved_to
    word moved_return
stub_moved_end:

    stub encoded
    nop                               /* 0 */
    call *encoded_to(%rip)            /* 1 */
    nop                               /* 7 */
    jmp *encoded_return(%rip)         /* 8 */
    word encoded_to
    word encoded_return
stub_encoded_end:

    stub tail
    leaq -128(%rsp), %rsp             /* 0: what a red zone takes */
    pushq %rdx                        /* 5 */
    xorl %edx, %edx                   /* 6 */
    popq %rdx                         /* 8 */
    leaq 128(%rsp), %rsp              /* 9 */
    jmp *tail_to(%rip)                /* 17 */
    word tail_to
stub_tail_end:
    .section .note.GNU-stack, "", @progbits
