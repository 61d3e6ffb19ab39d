#include "runtime/filter.h"

#include <linux/audit.h>
#include <stddef.h>
#include <string.h>

/* Division by zero is refused when a filter is installed, or ends it with 0: kill the thread. */
static bool calculate(uint32_t operation, uint32_t *a, uint32_t operand)
{
    switch (operation) {
    case BPF_ADD:
        *a += operand;
        break;
    case BPF_SUB:
        *a -= operand;
        break;
    case BPF_MUL:
        *a *= operand;
        break;
    case BPF_DIV:
        if (!operand)
            return false;
        *a /= operand;
        break;
    case BPF_AND:
        *a &= operand;
        break;
    case BPF_OR:
        *a |= operand;
        break;
    case BPF_XOR:
        *a ^= operand;
        break;
    case BPF_LSH:
        *a <<= operand & 31;
        break;
    case BPF_RSH:
        *a >>= operand & 31;
        break;
    case BPF_NEG:
        *a = 0 - *a;
        break;
    default:
        return false;
    }
    return true;
}

static bool compare(uint32_t operation, uint32_t a, uint32_t operand)
{
    switch (operation) {
    case BPF_JEQ:
        return a == operand;
    case BPF_JGT:
        return a > operand;
    case BPF_JGE:
        return a >= operand;
    default: /* BPF_JSET */
        return a & operand;
    }
}

struct machine {
    uint32_t a, x, memory[BPF_MEMWORDS];
};

/* Loads and stores; false: the kernel does not permit that in a filter. */
static bool move(struct machine *m, const struct sock_filter *f, const struct seccomp_data *data)
{
    uint32_t *to = BPF_CLASS(f->code) == BPF_LD ? &m->a : &m->x;
    bool is_in_memory = f->k < BPF_MEMWORDS;
    switch (f->code) {
    case BPF_LD | BPF_W | BPF_ABS:
        if (f->k % 4 || f->k > sizeof *data - 4)
            return false;
        memcpy(to, (const char *)data + f->k, sizeof *to);
        return true;
    case BPF_LD | BPF_W | BPF_LEN:
    case BPF_LDX | BPF_W | BPF_LEN:
        *to = sizeof *data;
        return true;
    case BPF_LD | BPF_IMM:
    case BPF_LDX | BPF_IMM:
        *to = f->k;
        return true;
    case BPF_LD | BPF_MEM:
    case BPF_LDX | BPF_MEM:
        if (is_in_memory)
            *to = m->memory[f->k];
        return is_in_memory;
    case BPF_ST:
    case BPF_STX:
        if (is_in_memory)
            m->memory[f->k] = f->code == BPF_ST ? m->a : m->x;
        return is_in_memory;
    case BPF_MISC | BPF_TAX:
        m->x = m->a;
        return true;
    case BPF_MISC | BPF_TXA:
        m->a = m->x;
        return true;
    default:
        return false;
    }
}

uint32_t filter_run(const struct sock_filter *program, uint32_t count,
                    const struct seccomp_data *data)
{
    struct machine m = {0};
    for (uint32_t at = 0; at < count; at++) { /* all jumps go on: it ends */
        const struct sock_filter *f = &program[at];
        uint32_t operand = BPF_SRC(f->code) == BPF_X ? m.x : f->k;
        switch (BPF_CLASS(f->code)) {
        case BPF_RET:
            return BPF_RVAL(f->code) == BPF_A ? m.a : f->k;
        case BPF_JMP:
            if (BPF_OP(f->code) == BPF_JA)
                at += f->k < count ? f->k : count;
            else
                at += compare(BPF_OP(f->code), m.a, operand) ? f->jt : f->jf;
            break;
        case BPF_ALU:
            if (!calculate(BPF_OP(f->code), &m.a, operand))
                return SECCOMP_RET_KILL_PROCESS;
            break;
        default:
            if (!move(&m, f, data))
                return SECCOMP_RET_KILL_PROCESS;
        }
    }
    return SECCOMP_RET_KILL_PROCESS;
}

bool filter_allows(const struct sock_filter *program, uint32_t count, long number, uint64_t a,
                   uint64_t b, uint64_t c, uint64_t d)
{
    struct seccomp_data data = {.nr = (int)number, .arch = AUDIT_ARCH_X86_64, .args = {a, b, c, d}};
    uint32_t answer = filter_run(program, count, &data) & SECCOMP_RET_ACTION_FULL;
    return answer == SECCOMP_RET_ALLOW || answer == SECCOMP_RET_LOG;
}
