/*
 * Every rare form of call frame information in one shared object, for cfi_oracle: what compilers
 * write once in a million rows, what only hand-written assembly has, and what should not be written.
 * The code is never run; only its description counts.
 *
 *     cc -shared -nostdlib -Wl,--no-eh-frame-hdr -o cfi_forms.so cfi_forms.S
 *
 * The linker's sorted index is left out because some FDEs here overlap on purpose.
 *
 * `.cfi_escape` gives the bytes of a program as they are. The assembler does not look into them, so
 * a function that advances its position in escapes has no other directives that would.
 */

/* DWARF's numbers, for the escapes. */
#define CFA_set_loc            0x01
#define CFA_advance_loc1       0x02
#define CFA_advance_loc2       0x03
#define CFA_advance_loc4       0x04
#define CFA_offset_extended    0x05
#define CFA_restore_extended   0x06
#define CFA_def_cfa            0x0c
#define CFA_def_cfa_offset     0x0e
#define CFA_def_cfa_expression 0x0f
#define CFA_expression         0x10
#define CFA_offset_extended_sf 0x11
#define CFA_def_cfa_sf         0x12
#define CFA_def_cfa_offset_sf  0x13
#define CFA_val_offset         0x14
#define CFA_val_offset_sf      0x15
#define CFA_val_expression     0x16
#define CFA_args_size          0x2e
#define CFA_negative_offset    0x2f
#define CFA_advance_loc        0x40 /* + delta */
#define CFA_offset             0x80 /* + register */
#define CFA_restore            0xc0 /* + register */

#define OP_addr        0x03
#define OP_deref       0x06
#define OP_const1u     0x08
#define OP_dup         0x12
#define OP_swap        0x16
#define OP_and         0x1a
#define OP_minus       0x1c
#define OP_mul         0x1e
#define OP_plus        0x22
#define OP_plus_uconst 0x23
#define OP_shl         0x24
#define OP_ge          0x2a
#define OP_lit         0x30 /* + value */
#define OP_breg        0x70 /* + register */
#define OP_bregx       0x92
#define OP_nop         0x96

#define RAX 0
#define RDX 1
#define RCX 2
#define RBX 3
#define RBP 6
#define RSP 7
#define R9  9
#define R10 10
#define R12 12
#define R13 13
#define R14 14
#define R15 15
#define RIP 16

        .text

        .macro  form name
        .p2align 4
        .type   \name, @function
\name:
        .cfi_startproc
        nop
        .endm

        .macro  end_form name
        ret
        .cfi_endproc
        .size   \name, . - \name
        .endm

/*
 * Rules before the first byte, which the assembler puts into a CIE of its own (the first `simple`
 * function gets one); restoring goes back to those.
 */
        .p2align 4
        .type   own_cie, @function
own_cie:
        .cfi_startproc simple
        .cfi_def_cfa %rbp, 16
        .cfi_offset %rip, -8
        .cfi_offset %rbp, -16
        .cfi_offset %rbx, -24
        nop
        .cfi_same_value %rbp
        .cfi_offset %rbx, -32
        nop
        .cfi_restore %rbp
        nop
        .cfi_restore %rbx
        nop
        .cfi_def_cfa %rsp, 8
        end_form own_cie

/* The CFA counted from each register but rsp. */
        form    cfa_in_register
        .cfi_def_cfa %rax, 16
        nop
        .cfi_def_cfa %rdx, 24
        nop
        .cfi_def_cfa %rcx, 8
        nop
        .cfi_def_cfa %rbx, 0
        nop
        .cfi_def_cfa %rsi, 32
        nop
        .cfi_def_cfa %rdi, 0
        nop
        .cfi_def_cfa %rbp, 16
        nop
        .cfi_def_cfa %r8, 40
        nop
        .cfi_def_cfa %r9, 8
        nop
        .cfi_def_cfa %r10, 0
        nop
        .cfi_def_cfa %r11, 8
        nop
        .cfi_def_cfa %r12, 16
        nop
        .cfi_def_cfa %r13, 0
        nop
        .cfi_def_cfa %r14, 48
        nop
        .cfi_def_cfa %r15, 8
        nop
        .cfi_def_cfa_register %rax
        nop
        .cfi_def_cfa_offset 56
        end_form cfa_in_register

/* A realigned frame as GCC makes it: the caller's CFA is kept in a slot below rbp. */
        form    realigned_frame
        .cfi_def_cfa %r10, 0
        nop
        .cfi_escape CFA_expression, RBP, 2, OP_breg + RBP, 0
        nop
        .cfi_escape CFA_def_cfa_expression, 3, OP_breg + RBP, 0x78, OP_deref /* *(rbp - 8) */
        .cfi_escape CFA_expression, R15, 2, OP_breg + RBP, 0x70
        .cfi_escape CFA_expression, R14, 2, OP_breg + RBP, 0x68
        .cfi_escape CFA_expression, R13, 2, OP_breg + RBP, 0x60
        .cfi_escape CFA_expression, R12, 2, OP_breg + RBP, 0x58
        nop
        .cfi_escape CFA_expression, RBX, 2, OP_breg + RBP, 0x50
        nop
        .cfi_escape CFA_def_cfa_expression, 4, OP_breg + RBP, 0xb8, 0x7f, OP_deref /* -72 */
        nop
        .cfi_def_cfa %r10, 0
        nop
        .cfi_def_cfa %rsp, 8
        end_form realigned_frame

/* The stack pointer was kept in a slot, as in the lazy binder and in libcrypto. */
        form    cfa_behind_slot
        .cfi_escape CFA_def_cfa_expression, 5, OP_breg + RSP, 40, OP_deref, OP_plus_uconst, 8
        nop
        .cfi_escape CFA_def_cfa_expression, 5, OP_breg + RSP, 0x78, OP_deref, OP_plus_uconst, 8
        nop
        .cfi_escape CFA_def_cfa_expression, 5, OP_breg + RBP, 0, OP_deref, OP_plus_uconst, 16
        nop
        .cfi_escape CFA_def_cfa_expression, 4, OP_breg + R13, 0x88, 1, OP_deref /* 136 */
        nop
        .cfi_escape CFA_def_cfa_expression, 7, OP_breg + RSP, 0x80, 0x80, 1, OP_deref
        .cfi_escape OP_plus_uconst, 8 /* behind 16384 */
        nop
        .cfi_escape CFA_def_cfa_expression, 10, OP_breg + RSP, 8, OP_breg + R9, 0, OP_lit + 8
        .cfi_escape OP_mul, OP_plus, OP_deref, OP_plus_uconst, 8 /* *(rsp + r9 * 8 + 8) + 8 */
        nop
        .cfi_escape CFA_def_cfa_expression, 10, OP_breg + RSP, 0x70, OP_breg + R10, 0, OP_lit + 8
        .cfi_escape OP_mul, OP_plus, OP_deref, OP_plus_uconst, 24
        end_form cfa_behind_slot

/* What the linker says of a PLT: eight bytes more from the push on. */
        .p2align 4
        form    plt_entries
        .cfi_escape CFA_def_cfa_expression, 11, OP_breg + RSP, 8, OP_breg + RIP, 0, OP_lit + 15
        .cfi_escape OP_and, OP_lit + 11, OP_ge, OP_lit + 3, OP_shl, OP_plus
        .skip   15, 0x90
        .cfi_escape CFA_def_cfa_expression, 11, OP_breg + RSP, 8, OP_breg + RIP, 0, OP_lit + 15
        .cfi_escape OP_and, OP_lit + 10, OP_ge, OP_lit + 3, OP_shl, OP_plus
        .skip   15, 0x90
        end_form plt_entries

/* Registers that are kept in other registers; the return address too, as in longjmp. */
        form    register_in_register
        .cfi_register %rip, %rcx
        nop
        .cfi_register %rbp, %r8
        nop
        .cfi_register %rsp, %rdx
        nop
        .cfi_register %rbx, %r9
        .cfi_register %r12, %rax
        nop
        .cfi_register %r15, %rdi
        .cfi_offset %rip, -8
        nop
        .cfi_restore %rbp
        .cfi_restore %rsp
        nop
        .cfi_def_cfa %rdi, 0
        .cfi_offset %rip, 56
        .cfi_offset %rsp, 48
        .cfi_offset %rbp, 8
        end_form register_in_register

/* Values that are computed and not loaded. */
        form    computed_values
        .cfi_val_offset %rbp, -16
        nop
        .cfi_val_offset %rsp, 0
        nop
        .cfi_val_offset %rsp, 8
        nop
        .cfi_escape CFA_val_offset, RBX, 3, CFA_val_offset_sf, R12, 0x7d
        nop
        .cfi_escape CFA_val_expression, RBX, 2, OP_breg + RSP, 8
        nop
        .cfi_escape CFA_val_expression, RBP, 3, OP_breg + RSP, 0, OP_deref
        nop
        .cfi_escape CFA_val_expression, RSP, 2, OP_breg + RBX, 0
        end_form computed_values

/* GHC's way: the CFA is rsp itself, and everything is found from there, the caller's rsp too. */
        form    rsp_apart_from_cfa
        .cfi_def_cfa %rsp, 0
        .cfi_offset %rbx, 16384
        .cfi_offset %rbp, 16392
        .cfi_offset %rip, 16400
        .cfi_escape CFA_val_expression, RSP, 4, OP_breg + RSP, 0x98, 0x80, 1 /* rsp + 16408 */
        end_form rsp_apart_from_cfa

/* Expressions that are out of reach for any rule. */
        form    beyond_rules
        .cfi_escape CFA_def_cfa_expression, 5, OP_breg + RSP, 0, OP_breg + RBP, 0, OP_plus
        nop
        .cfi_escape CFA_def_cfa_expression, 4, OP_breg + RAX, 0, OP_deref, OP_deref
        nop
        .cfi_escape CFA_def_cfa_expression, 2, OP_const1u, 64
        nop
        .cfi_escape CFA_def_cfa_expression, 10, OP_breg + RSP, 8, OP_breg + R9, 0, OP_lit + 4
        .cfi_escape OP_mul, OP_plus, OP_deref, OP_plus_uconst, 8 /* the factor is not 8 */
        nop
        .cfi_escape CFA_def_cfa_expression, 5, OP_breg + RSP, 8, OP_lit + 15, OP_and, OP_nop
        nop
        .cfi_def_cfa %rsp, 8
        .cfi_escape CFA_expression, RBP, 4, OP_breg + RSP, 8, OP_deref, OP_deref
        .cfi_escape CFA_expression, RBX, 5, OP_breg + RSP, 8, OP_breg + RCX, 0, OP_plus
        nop
        .cfi_escape CFA_expression, R12, 3, OP_breg + RBX, 8, OP_deref
        .cfi_escape CFA_expression, RIP, 3, OP_breg + RBX, 8, OP_deref
        end_form beyond_rules

/* Other ways to write what rules can say: a map may know them or call them unknown. */
        form    unusual_spelling
        .cfi_escape CFA_def_cfa_expression, 2, OP_breg + RSP, 16
        nop
        .cfi_escape CFA_def_cfa_expression, 4, OP_bregx, RBP, 0x70, OP_deref
        nop
        .cfi_escape CFA_def_cfa_expression, 5, OP_breg + RBP, 0x70, OP_deref, OP_lit + 8, OP_plus
        nop
        .cfi_escape CFA_def_cfa_expression, 10, OP_breg + RSP, 8, OP_breg + R9, 0, OP_lit + 3
        .cfi_escape OP_shl, OP_plus, OP_deref, OP_plus_uconst, 8
        nop
        .cfi_def_cfa %rsp, 64
        .cfi_escape CFA_expression, RBX, 2, OP_lit + 24, OP_minus /* the CFA is on the stack */
        .cfi_escape CFA_expression, RBP, 4, OP_breg + RSP, 8, OP_plus_uconst, 8
        end_form unusual_spelling

/* States within states, with an expression in the middle one. */
        form    nested_states
        .cfi_def_cfa_offset 16
        .cfi_offset %rbx, -16
        nop
        .cfi_remember_state
        .cfi_escape CFA_def_cfa_expression, 5, OP_breg + RSP, 32, OP_deref, OP_plus_uconst, 8
        .cfi_offset %rbp, -24
        nop
        .cfi_remember_state
        .cfi_def_cfa %rbp, 32
        .cfi_restore %rbx
        .cfi_undefined %rip
        nop
        .cfi_remember_state
        .cfi_def_cfa %r10, 0
        .cfi_same_value %rbp
        .cfi_offset %rip, -8
        nop
        .cfi_restore_state
        nop
        .cfi_restore_state
        nop
        .cfi_restore_state
        nop
        .cfi_remember_state
        .cfi_restore_state
        end_form nested_states

/* The position moved in all sizes, by nothing, to the end and past it. */
        form    advances
        .cfi_escape CFA_advance_loc + 1, CFA_def_cfa_offset, 16
        .cfi_escape CFA_advance_loc1, 1, CFA_def_cfa_offset, 24
        .cfi_escape CFA_advance_loc2, 1, 0, CFA_def_cfa_offset, 32
        .cfi_escape CFA_advance_loc4, 1, 0, 0, 0, CFA_def_cfa_offset, 40
        .cfi_escape CFA_advance_loc + 1, CFA_def_cfa_offset, 48
        .cfi_escape CFA_advance_loc + 0, CFA_def_cfa_offset, 56
        .cfi_escape CFA_advance_loc1, 0, CFA_def_cfa_offset, 64
        .cfi_escape CFA_advance_loc1, 57, CFA_def_cfa_offset, 72 /* the last byte */
        .cfi_escape CFA_advance_loc + 1, CFA_def_cfa_offset, 80  /* the end */
        .cfi_escape CFA_advance_loc2, 0, 1, CFA_def_cfa_offset, 88
        .skip   62, 0x90
        end_form advances

        form    long_way /* far enough for the assembler to need two and four bytes */
        .cfi_def_cfa_offset 16
        .skip   300, 0x90
        .cfi_def_cfa_offset 24
        .skip   70000, 0x90
        .cfi_def_cfa_offset 8
        end_form long_way

/* Instructions with another encoding of the same thing, and those that change nothing. */
        form    other_encodings
        .cfi_escape CFA_offset_extended, RBX, 2
        nop
        .cfi_escape CFA_offset_extended_sf, RBP, 3
        nop
        .cfi_escape CFA_offset_extended_sf, R12, 0x7f /* at CFA + 8 */
        nop
        .cfi_escape CFA_def_cfa_sf, RBP, 0x7e /* rbp + 16 */
        nop
        .cfi_escape CFA_def_cfa_offset_sf, 0x7c /* 32 */
        nop
        .cfi_escape CFA_def_cfa_sf, RSP, 2 /* rsp - 16 */
        nop
        .cfi_escape CFA_def_cfa, RSP, 8, CFA_args_size, 0x80, 1
        nop
        .cfi_escape CFA_negative_offset, R13, 4 /* at CFA + 32 */
        nop
        .cfi_escape CFA_restore + RBX
        nop
        .cfi_escape CFA_restore_extended, RBP, CFA_restore_extended, R12
        nop
        .cfi_undefined %rbp
        .cfi_undefined %rbx
        nop
        .cfi_same_value %rbp
        .cfi_same_value %r14
        nop
        .cfi_undefined %xmm8
        .cfi_offset %xmm9, -64
        nop
        .cfi_undefined %rip
        nop
        .cfi_restore %rip
        end_form other_encodings

/* CFA offsets at and over the limits of a direct rule. */
        form    cfa_offsets
        .cfi_def_cfa_offset 8388600 /* 0xfffff words */
        nop
        .cfi_def_cfa_offset 8388608
        nop
        .cfi_def_cfa_offset 16777224
        nop
        .cfi_def_cfa_offset 2147483640
        nop
        .cfi_def_cfa_offset 12
        nop
        .cfi_def_cfa_offset 1
        nop
        .cfi_def_cfa_offset 0
        nop
        .cfi_def_cfa_offset -8
        nop
        .cfi_def_cfa %rbp, -16
        nop
        .cfi_def_cfa %rbp, 8388608
        nop
        .cfi_def_cfa %rbp, 4
        end_form cfa_offsets

/* Saved registers at and over the limits of a direct rule. */
        form    slots
        .cfi_def_cfa_offset 512
        .cfi_offset %rbp, -248
        nop
        .cfi_offset %rbx, -248
        nop
        .cfi_offset %rbp, -256
        nop
        .cfi_offset %rbp, -16
        .cfi_offset %rbx, -256
        nop
        .cfi_offset %rbx, 0
        nop
        .cfi_offset %rbx, 16
        nop
        .cfi_offset %rbx, -24
        .cfi_escape CFA_expression, RBP, 3, OP_breg + RSP, 0xe4, 0 /* rsp + 100 */
        nop
        .cfi_offset %rbp, -32
        .cfi_offset %r12, -112
        .cfi_offset %r13, -120
        .cfi_offset %r14, -128
        .cfi_offset %r15, 8
        nop
        .cfi_offset %r12, -8
        .cfi_escape CFA_expression, R13, 2, OP_breg + RBP, 8
        .cfi_register %r14, %rax
        .cfi_undefined %r15
        nop
        .cfi_offset %rip, -16
        nop
        .cfi_offset %rip, 0
        nop
        .cfi_restore %rip
        end_form slots

/* No program at all: the CIE's rules hold everywhere. */
        .p2align 4
        .type   no_program, @function
no_program:
        .cfi_startproc
        nop
        end_form no_program

/* Nothing is described, then the CFA, then the return address. */
        .p2align 4
        .type   bare, @function
bare:
        .cfi_startproc simple
        nop
        .cfi_def_cfa %rsp, 24
        nop
        .cfi_offset %rip, -8
        nop
        .cfi_undefined %rip
        end_form bare

        .p2align 4
        .type   outermost, @function
outermost:
        .cfi_startproc simple
        .cfi_undefined %rip
        nop
        end_form outermost

/* Augmentation "zPLR". */
        form    with_handler
        .cfi_personality 0x1b, personality
        .cfi_lsda 0x1b, handler_table
        .cfi_def_cfa_offset 16
        nop
        .cfi_offset %rbp, -16
        .cfi_def_cfa_register %rbp
        end_form with_handler

        form    personality
        end_form personality

/* Augmentation "zRS": the kernel's signal frame, one that is nearly that, and an ordinary one. */
        .macro  in_context reg, low, high
        .cfi_escape CFA_expression, \reg, 3, OP_breg + RSP, \low, \high
        .endm

        .macro  kernel_context
        .cfi_escape CFA_def_cfa_expression, 4, OP_breg + RSP, 0xa0, 1, OP_deref /* rsp at 160 */
        in_context R12, 0xc8, 0 /* 72 */
        in_context R13, 0xd0, 0
        in_context R14, 0xd8, 0
        in_context R15, 0xe0, 0
        in_context RBX, 0x80, 1 /* 128 */
        in_context RSP, 0xa0, 1 /* 160 */
        in_context RIP, 0xa8, 1 /* 168 */
        .endm

        .p2align 4
        .type   signal_return, @function
        .cfi_startproc
        .cfi_signal_frame
        kernel_context
        in_context RBP, 0xf8, 0 /* 120 */
        nop
signal_return:
        nop
        nop
        end_form signal_return

        form    other_signal_frame
        .cfi_signal_frame
        kernel_context
        in_context RBP, 0x80, 2 /* 256: not where the kernel puts it */
        nop
        end_form other_signal_frame

        form    plain_signal_frame
        .cfi_signal_frame
        .cfi_def_cfa_offset 32
        .cfi_offset %rbx, -32
        nop
        end_form plain_signal_frame

/*
 * What the assembler would not write: a CIE of version 3 with other factors, positions that are set
 * and not advanced, an FDE about no code of this module, two about the same code that do not agree,
 * and a CIE that restores what it has set.
 */
        .p2align 4
        .type   by_hand, @function
by_hand:
        .skip   63, 0x90
        ret
        .size   by_hand, . - by_hand

        .section .eh_frame, "a", @unwind
        .macro  fde cie, start, length
        .long   2f - 1f /* length of this entry */
1:      .long   . - \cie
        .long   \start - .
        .long   \length
        .uleb128 0 /* bytes of augmentation data */
        .endm

        .macro  end_entry
        .p2align 3
2:
        .endm

        .macro  cie name, code_factor, data_factor
        .p2align 3
\name:
        .long   2f - 1f
1:      .long   0
        .byte   3 /* version */
        .string "zR"
        .uleb128 \code_factor
        .sleb128 \data_factor
        .uleb128 RIP
        .uleb128 1
        .byte   0x1b /* pc-relative, 4 bytes */
        .endm

        cie     other_factors, 2, -4
        .byte   CFA_def_cfa, RSP, 8, CFA_offset + RIP, 2, CFA_offset + R15, 4
        end_entry

        fde     other_factors, by_hand, 16
        .byte   CFA_advance_loc + 1, CFA_def_cfa_offset, 16, CFA_offset + RBX, 4
        .byte   CFA_advance_loc1, 2, CFA_offset + RBP, 3 /* CFA - 12 */
        .byte   CFA_advance_loc + 1, CFA_def_cfa_sf, RBP, 0x7c, CFA_offset + R15, 6
        .byte   CFA_advance_loc + 1, CFA_restore + R15
        end_entry

        fde     other_factors, by_hand + 16, 16
        .byte   CFA_set_loc
        .long   by_hand + 20 - .
        .byte   CFA_def_cfa_offset, 24, CFA_set_loc
        .long   by_hand + 28 - .
        .byte   CFA_def_cfa_offset, 32
        end_entry

        fde     other_factors, by_hand + 0x10000000, 16
        .byte   CFA_def_cfa_offset, 48
        end_entry

        fde     other_factors, by_hand + 32, 16
        .byte   CFA_advance_loc + 4, CFA_def_cfa_offset, 16
        end_entry
        fde     other_factors, by_hand + 32, 16
        .byte   CFA_advance_loc + 4, CFA_def_cfa_offset, 48
        end_entry

        cie     restoring, 1, -8
        .byte   CFA_def_cfa, RSP, 8, CFA_offset + RIP, 1, CFA_offset + RBX, 2, CFA_offset + R12, 3
        .byte   CFA_restore + RBX
        end_entry

        fde     restoring, by_hand + 48, 16
        .byte   CFA_advance_loc + 2, CFA_offset + RBX, 4, CFA_restore + R12
        .byte   CFA_advance_loc + 2, CFA_restore + RBX
        end_entry

        .section .rodata, "a", @progbits
handler_table:
        .byte   0xff, 0xff, 0x01, 0

        .section .note.GNU-stack, "", @progbits
