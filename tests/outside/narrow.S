# A static 32-bit program that needs no library: half a second in `hot`, which `main` calls; status 7.
        .text
        .globl  _start, main, hot
        .type   hot, @function
hot:
        movl    $500000000, %ecx
1:      decl    %ecx
        jnz     1b
        ret
        .size   hot, . - hot
        .type   main, @function
main:
        call    hot
        ret
        .size   main, . - main
        .type   _start, @function
_start:
        call    main
        movl    $1, %eax
        movl    $7, %ebx
        int     $0x80
        .size   _start, . - _start
        .section .note.GNU-stack,"",@progbits
