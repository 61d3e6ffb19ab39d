/*
 * Calls and jumps that are too short to be changed alone, with nothing near them that could help:
 * something jumps to them, or they are the first instruction of their function, no padding is
 * within reach, and what is around them cannot be moved. lea with a distance of 0x60 behind a site
 * gives a pun in a program at a low address a place above its heap.
 */
	.text

/* Out of reach for a short jump, and nothing in it can be moved. */
	.macro fence
	.rept 70
	jz 1f
1:
	.endr
	.endm

	.macro begin name
	.globl \name
	.type \name, @function
\name:
	.cfi_startproc
	.endm

	.macro end name
	.cfi_endproc
	.size \name, . - \name
	.endm

	.macro save register
	push %\register
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset \register, 0
	.endm

	.macro restore register
	pop %\register
	.cfi_adjust_cfa_offset -8
	.cfi_restore \register
	.endm

begin before_all
	fence
	ret
end before_all

/* (function): the call is the first instruction */
begin call_first
	call *%rdi
	lea 0x60(%rax), %eax
	ret
end call_first

/* (function): so is the jump, and another function is right behind it */
begin jump_first
	jmp *%rdi
end jump_first

begin behind_jump
	lea 0x60(%rax), %eax
	ret
end behind_jump

/* (function, times): two bytes, and a loop leads to them */
begin loop_call
	save rbx
	save rbp
	mov %rdi, %rbx
	mov %esi, %ebp
1:	call *%rbx
	lea 0x60(%rax), %eax
	dec %ebp
	jnz 1b
	restore rbp
	restore rbx
	ret
end loop_call

/* (function, times, where to begin): one call behind the other */
begin back_to_back
	save rbx
	save rbp
	mov %rdi, %rbx
	mov %esi, %ebp
	test %edx, %edx
	jz 2f
1:	call *%rbx
2:	call *%rbx
	lea 0x60(%rax), %edi
	dec %ebp
	jnz 1b
	restore rbp
	restore rbx
	ret
end back_to_back

begin middle1
	fence
	ret
end middle1

/* (function, times): three bytes */
begin loop_r12
	save r12
	save rbp
	mov %rdi, %r12
	mov %esi, %ebp
1:	call *%r12
	lea 0x60(%rax), %eax
	dec %ebp
	jnz 1b
	restore rbp
	restore r12
	ret
end loop_r12

/* (functions, times): three bytes, through memory */
begin loop_memory
	save rbx
	save rbp
	mov %rdi, %rbx
	mov %esi, %ebp
1:	call *8(%rbx)
	lea 0x60(%rax), %eax
	dec %ebp
	jnz 1b
	restore rbp
	restore rbx
	ret
end loop_memory

/* (function, times): three and four bytes, through the stack */
begin loop_stack
	save rbx
	save rdi
	mov %esi, %ebx
1:	call *(%rsp)
	lea 0x60(%rax), %eax
	jz 2f
2:	save rdi
	call *8(%rsp)
	lea 0x60(%rax), %eax
	restore rdi
	dec %ebx
	jnz 1b
	restore rdi
	restore rbx
	ret
end loop_stack

begin middle2
	fence
	ret
end middle2

/*
 * (function, times): right behind the indirect call there is a direct one, which is changed, too.
 * Where a pun leads then depends on where the stubs are: below a program at a low address, if that
 * is backwards, there is nothing. There, something else is behind it.
 */
begin before_direct
	save rbx
	save rbp
	mov %rdi, %rbx
	mov %esi, %ebp
1:	call *%rbx
#ifndef __PIE__
	lea 0x60(%rax), %eax
#endif
	call behind_jump
	dec %ebp
	jnz 1b
	restore rbp
	restore rbx
	ret
end before_direct

begin shared_tail
.Lshared:
	lea 1(%rdi), %eax
	ret
end shared_tail

/* (number): a short jump to another function, first of all */
begin short_first
	jmp .Lshared
end short_first

/* (number, ., ., condition): the same on a condition that needs no flags */
begin short_if
	jrcxz .Lshared
	lea 0x60(%rdi), %esi
	mov %esi, %eax
	ret
end short_if

/* (number): the comparison moves with the jump, which are four bytes then */
begin short_with_test
	test %edi, %edi
	jz .Lshared
	lea 0x60(%rdi), %eax
	ret
end short_with_test

/* (function, number): what something jumps to is a jump of three bytes, through a register */
begin jump_r11
	mov %rdi, %r11
	test %esi, %esi
	jz 1f
	lea 0x60(%rsi), %edi
1:	jmp *%r11
end jump_r11

begin after_jump_r11
	lea 0x60(%rdi), %eax
	ret
end after_jump_r11

begin middle3
	fence
	ret
end middle3

/*
 * (which, value): a jump that stays in the function or leaves it. What lies below the stack
 * pointer, and the flags, belong to the function as long as it stays.
 */
begin stays_or_leaves
	mov %rsi, -8(%rsp)
	mov %rsi, -128(%rsp)
	lea ways(%rip), %rdx
	mov (%rdx, %rdi, 8), %rdx
	mov $1, %eax
	cmp $2, %eax
	jmp *%rdx
.Lfirst:
	jnc .Lwrong
	mov -8(%rsp), %rax
	add -128(%rsp), %rax
	ret
.Lsecond:
	jnc .Lwrong
	mov -128(%rsp), %rax
	ret
.Lwrong:
	mov $-1, %rax
	ret
end stays_or_leaves

begin middle4
	fence
	ret
end middle4

/* (which, value): the same where the jump is the target of another, and two bytes long */
begin stays_or_leaves_short
	mov %rsi, -16(%rsp)
	jz 2f
2:	lea short_ways(%rip), %rdx
	jz 3f
3:	mov (%rdx, %rdi, 8), %rdx
	test %esi, %esi
	jz 1f
	clc
1:	jmp *%rdx
	lea 0x60(%rdi), %eax
.Lonly:
	jc .Lwrong
	mov -16(%rsp), %rax
	ret
end stays_or_leaves_short

/* (function, times): what could move out of the way is jumped into */
begin crowded_call
	save rbx
	save rbp
	mov %rdi, %rbx
	mov %esi, %ebp
1:	call *%rbx
	lea 0x60(%rax), %eax
	test $1, %bpl
	jz 2f
	lea 0x11(%rax), %eax
	lea 0x12(%rax), %eax
2:	lea 0x13(%rax), %eax
	lea 0x14(%rax), %eax
	dec %ebp
	jnz 1b
	restore rbp
	restore rbx
	ret
end crowded_call

begin after_all
	fence
	ret
end after_all

/* Where there is room to make: what is near the site can be moved out of the way. */

/* (function, times) */
begin roomy_call
	save rbx
	save rbp
	mov %rdi, %rbx
	mov %esi, %ebp
1:	call *%rbx
	mov %eax, %ecx
	add $0x12345678, %eax
	xor roomy_number(%rip), %eax
	imul $0x1234567, %ecx, %ecx
	add %ecx, roomy_sum(%rip)
	add %eax, roomy_sum(%rip)
	dec %ebp
	jnz 1b
	restore rbp
	restore rbx
	mov roomy_sum(%rip), %eax
	ret
end roomy_call

begin very_last
	fence
	ret
end very_last

	.section .text.unlikely, "ax", @progbits
	.type stays_or_leaves.cold, @function
stays_or_leaves.cold:
	.cfi_startproc
.Lcold:
	mov -8(%rsp), %rax
	sub $1, %rax
	ret
	.cfi_endproc
	.size stays_or_leaves.cold, . - stays_or_leaves.cold

	.section .data.rel.ro, "aw", @progbits
	.balign 8
ways:
	.quad .Lfirst, .Lsecond, .Lcold, add_value
short_ways:
	.quad .Lonly, add_value

	.data
	.balign 4
roomy_number:
	.long 77
roomy_sum:
	.long 0

	.section .note.GNU-stack, "", @progbits
