/*
 * Row 14: code that no table describes. Assembly without unwind information, with rbp and rsp used
 * for other things, and code in anonymous memory: the walk ends with a reason, and nothing crashes.
 */
#include "torture.h"

#include <sys/mman.h>

/* Counts rdi down, with rbp as an ordinary register that points nowhere. */
__asm__(".text\n"
        "bad_rbp:\n"
        "  push %rbp\n"
        "  mov $0x1234567, %rbp\n"
        "1: dec %rdi\n"
        "  jnz 1b\n"
        "  pop %rbp\n"
        "  ret\n"
        /* rbp points just below the end of the address space, then to unmapped memory. */
        "wild_rbp:\n"
        "  push %rbp\n"
        "  mov $-8, %rbp\n"
        "1: dec %rdi\n"
        "  jnz 1b\n"
        "  pop %rbp\n"
        "  ret\n"
        /* rsp is another register for a while: it points into a buffer of the program's. */
        "own_rsp:\n"
        "  mov %rsp, %rax\n"
        "  mov %rsi, %rsp\n"
        "1: dec %rdi\n"
        "  jnz 1b\n"
        "  mov %rax, %rsp\n"
        "  ret\n");

void bad_rbp(long count);
void wild_rbp(long count);
void own_rsp(long count, void *memory);

static void (*make_code(void))(long)
{
    static const unsigned char code[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3}; /* dec, jnz, ret */
    void *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    return (void (*)(long))page;
}

int main(void)
{
    enum { ROUNDS = 200000000 };
    void (*anonymous)(long) = make_code();
    bad_rbp(ROUNDS);
    wild_rbp(ROUNDS);
    /* Signals of the kernel go below this rsp: it needs the room, as every stack does. */
    char *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    own_rsp(ROUNDS, memory + (1 << 20));
    anonymous(ROUNDS);
    burn_ms(100);
    printf("came back from all\n");
    return torture_end();
}
