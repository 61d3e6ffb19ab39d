/* Row 35: a program that looks at its own code, or changes it.
 *   same      compares its text in memory with its file; says which functions differ
 *   changes   makes its text writable, changes an instruction in it, and calls on
 *   patches   makes its text writable, points a call of its own elsewhere, and back
 */
#include "truth.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>

static volatile long sink;

NOINLINE long leaf(long n)
{
    sink += n;
    return n + 1;
}

NOINLINE long other(long n)
{
    sink -= n;
    return n + 1000;
}

/* With a constant that is changed, and a call before it. */
long adds(long n);
long calls_leaf(long n);
extern unsigned char adds_constant[], the_call[];
__asm__(".text\n.globl adds, adds_constant\n.type adds, @function\nadds:\n.cfi_startproc\n"
        " sub $8, %rsp\n.cfi_adjust_cfa_offset 8\n call leaf\n .byte 0x48, 0x83, 0xc0\n" /* add $5,
                                                                                            %rax */
        "adds_constant: .byte 5\n add $8, %rsp\n.cfi_adjust_cfa_offset -8\n ret\n.cfi_endproc\n"
        ".size adds, . - adds\n"
        ".globl calls_leaf, the_call\n.type calls_leaf, @function\ncalls_leaf:\n.cfi_startproc\n"
        " sub $8, %rsp\n.cfi_adjust_cfa_offset 8\nthe_call: call leaf\n add $8, %rsp\n"
        ".cfi_adjust_cfa_offset -8\n ret\n.cfi_endproc\n.size calls_leaf, . - calls_leaf\n");

static int find_text(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && (p->p_flags & PF_X)) {
            ((uintptr_t *)data)[0] = info->dlpi_addr + p->p_vaddr;
            ((uintptr_t *)data)[1] = p->p_offset;
            ((uintptr_t *)data)[2] = p->p_filesz;
        }
    }
    return 1; /* the first is the program */
}

static void compare_with_file(void)
{
    uintptr_t text[3];
    dl_iterate_phdr(find_text, text);
    int file = open("/proc/self/exe", O_RDONLY);
    unsigned char *bytes = malloc(text[2]);
    CHECK(pread(file, bytes, text[2], (off_t)text[1]) == (ssize_t)text[2]);
    close(file);
    puts(memcmp(bytes, (void *)text[0], text[2]) ? "the code is not that of the file"
                                                 : "the code is that of the file");
}

static void unprotect(const void *at)
{
    uintptr_t page = (uintptr_t)at & ~(uintptr_t)4095;
    CHECK(mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
}

static void change_instruction(void)
{
    long sum = 0;
    unprotect(adds_constant);
    for (int i = 0; i < 1000; i++) {
        *(volatile unsigned char *)adds_constant = (unsigned char)(i % 100);
        sum += adds(i);
        CHECK(adds(i) == i + 1 + i % 100);
    }
    printf("%ld\ncalls adds 2000\ncalls leaf 2000\n", sum);
}

/* Puts a distance of its own there, as a hot patch does; the call goes where it says. */
static void point_elsewhere(void)
{
    CHECK(calls_leaf(1) == 2);
    int32_t before, distance;
    unprotect(the_call);
    memcpy(&before, the_call + 1, 4);
    distance = (int32_t)((intptr_t)other - (intptr_t)(the_call + 5));
    memcpy(the_call + 1, &distance, 4);
    CHECK(calls_leaf(1) == 1001);
    memcpy(the_call + 1, &before, 4);
    CHECK(calls_leaf(1) == 2);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "same") == 0)
        compare_with_file();
    else if (argc > 1 && strcmp(argv[1], "changes") == 0)
        change_instruction();
    else
        point_elsewhere();
    return torture_end();
}
