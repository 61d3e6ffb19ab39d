/* A comparison before a switch, of which the cases use the flags, as gcc makes it where all cases
 * begin with the same comparison. Prints how often each of them found the first number less. */
#include <stdio.h>

int less(unsigned way, int a, int b);
__asm__(".text\n"
        ".globl less\n"
        ".type less, @function\n"
        "less: .cfi_startproc\n"
        "      mov %edi, %eax\n"
        "      cmp $2, %eax\n"
        "      ja 4f\n"
        "      cmp %edx, %esi\n"
        "      jmp *5f(,%rax,8)\n"
        "1:    jl 3f\n"
        "      xor %eax, %eax\n"
        "      ret\n"
        "2:    setl %al\n"
        "      movzbl %al, %eax\n"
        "      ret\n"
        "3:    mov $1, %eax\n"
        "      ret\n"
        "4:    mov $-1, %eax\n"
        "      ret\n"
        "      .cfi_endproc\n"
        "      .size less, . - less\n"
        ".section .rodata\n"
        ".balign 8\n"
        "5:    .quad 1b, 2b, 1b\n"
        ".text\n");

int main(void)
{
    int found[4] = {0};
    for (int i = 0; i < 1000; i++)
        found[i % 4] += less((unsigned)i % 4, i * 7 % 10, 5);
    printf("%d %d %d %d\n", found[0], found[1], found[2], found[3]);
    return 0;
}
