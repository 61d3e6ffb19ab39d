#include "runtime/edit/called.h"

#include "arch/x86_64/code_bytes.h"
#include "runtime/arena_format.h"
#include "runtime/modules.h"

#include <string.h>

uint64_t code_key(const struct walk_modules *modules, uint64_t address, uint32_t flags)
{
    uint32_t index = modules_find(modules, address);
    if (index == UINT32_MAX)
        return KEY_MAKE(address >> 32 & 0xffffff, flags | KEY_ADDRESS, address);
    return KEY_MAKE(modules_id(modules, index), flags, address - modules->items[index].base);
}

uint64_t code_function_key(const struct walk_modules *modules, uint64_t address)
{
    return code_key(modules, modules_function(modules, address), KEY_IS_PC);
}

/* Not bound yet, the slot points back to the PLT, which pushes a number for the binder. */
bool is_plt_binder(uint64_t callee)
{
    return code_is_binder_push(code_skip_endbr64((const uint8_t *)callee));
}

uint64_t code_function_behind(const struct walk_modules *modules, uint64_t target, bool *is_final)
{
    uint32_t module = modules_find(modules, target);
    *is_final = true;
    if (module != UINT32_MAX && modules_role(modules, module) == ROLE_PROGRAM) {
        const uint8_t *code = code_skip_endbr64((const uint8_t *)target);
        code += *code == 0xf2; /* bnd */
        if (code_is_slot_jump(code)) {
            int32_t away;
            memcpy(&away, code + 2, sizeof away);
            uint64_t bound = *(const uint64_t *)(code + 6 + away);
            *is_final = !is_plt_binder(bound);
            if (*is_final)
                target = bound;
        } else if (is_plt_binder(target)) {
            *is_final = false;
        }
    }
    return modules_function(modules, target);
}

struct walk_registers registers_at_site(const struct slow_frame *f, uint64_t pc, uint64_t sp)
{
    struct walk_registers r = {{0}};
    r.value[X86_RAX] = f->rax;
    r.value[X86_RCX] = f->rcx;
    r.value[X86_RDX] = f->rdx;
    r.value[X86_RBX] = f->rbx;
    r.value[X86_RSI] = f->rsi;
    r.value[X86_RDI] = f->rdi;
    r.value[X86_RBP] = f->rbp;
    r.value[X86_RSP] = sp;
    r.value[X86_R8] = f->r8;
    r.value[X86_R9] = f->r9;
    r.value[X86_R10] = f->r10;
    r.value[X86_R11] = f->r11;
    r.value[X86_R12] = f->r12;
    r.value[X86_R13] = f->r13;
    r.value[X86_R14] = f->r14;
    r.value[X86_R15] = f->r15;
    r.value[X86_RIP] = pc;
    return r;
}
