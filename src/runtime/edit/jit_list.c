/*
 * gdb's interface for code that is made at run time: it has a breakpoint in a function of this
 * name, looks at a variable of that name, and reads the images in its list; one that comes later,
 * or has a core file, reads the list as it finds it.
 *
 * A program that makes code itself has a function and a list of the same names. gdb looks for them
 * in each module, among all symbols, local ones too. So ours are hidden: neither binds to the
 * other's. (A library that was stripped of its symbols has none for gdb to find.)
 */
#include "runtime/edit/jit_list.h"

#include <stddef.h>

enum { VERSION = 1, NO_ACTION = 0, REGISTERED = 1, UNREGISTERED = 2 };

#define FOR_DEBUGGERS __attribute__((visibility("hidden"), used))

struct jit_descriptor {
    uint32_t version;
    uint32_t action;
    struct jit_code_entry *relevant;
    struct jit_code_entry *first;
};

FOR_DEBUGGERS struct jit_descriptor __jit_debug_descriptor = {.version = VERSION};

void __jit_debug_register_code(void);

FOR_DEBUGGERS __attribute__((noinline)) void __jit_debug_register_code(void)
{
    __asm__ volatile("" : : : "memory");
}

static void tell(struct jit_code_entry *entry, uint32_t action)
{
    __jit_debug_descriptor.relevant = entry;
    __jit_debug_descriptor.action = action;
    __jit_debug_register_code();
    __jit_debug_descriptor.action = NO_ACTION;
    __jit_debug_descriptor.relevant = NULL;
}

void jit_list_add(struct jit_code_entry *entry)
{
    entry->previous = NULL;
    entry->next = __jit_debug_descriptor.first;
    if (entry->next)
        entry->next->previous = entry;
    __jit_debug_descriptor.first = entry;
    tell(entry, REGISTERED);
}

void jit_list_remove(struct jit_code_entry *entry)
{
    if (entry->next)
        entry->next->previous = entry->previous;
    if (entry->previous)
        entry->previous->next = entry->next;
    else
        __jit_debug_descriptor.first = entry->next;
    tell(entry, UNREGISTERED);
}
