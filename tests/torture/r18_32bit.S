# Row 18: a 32-bit program; it does nothing but end.
        .text
        .globl  _start
_start:
        movl    $1, %eax
        xorl    %ebx, %ebx
        int     $0x80
        .section .note.GNU-stack,"",@progbits
