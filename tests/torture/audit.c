/* Row 17: a library that audits all calls between modules, before and behind them (LD_AUDIT). */
#define _GNU_SOURCE
#include <link.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

enum { MOST_ARGUMENT_BYTES = 256 };

unsigned la_version(unsigned version);
unsigned la_objopen(struct link_map *module, Lmid_t list, uintptr_t *cookie);
Elf64_Addr la_x86_64_gnu_pltenter(Elf64_Sym *symbol, unsigned number, uintptr_t *from,
                                  uintptr_t *to, La_x86_64_regs *registers, unsigned *flags,
                                  const char *name, long *frame_bytes);
unsigned la_x86_64_gnu_pltexit(Elf64_Sym *symbol, unsigned number, uintptr_t *from, uintptr_t *to,
                               const La_x86_64_regs *before, La_x86_64_retval *after,
                               const char *name);

EXPORTED unsigned la_version(unsigned version)
{
    (void)version;
    return LAV_CURRENT;
}

EXPORTED unsigned la_objopen(struct link_map *module, Lmid_t list, uintptr_t *cookie)
{
    (void)module;
    (void)list;
    (void)cookie;
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

EXPORTED Elf64_Addr la_x86_64_gnu_pltenter(Elf64_Sym *symbol, unsigned number, uintptr_t *from,
                                           uintptr_t *to, La_x86_64_regs *registers,
                                           unsigned *flags, const char *name, long *frame_bytes)
{
    (void)number;
    (void)from;
    (void)to;
    (void)registers;
    (void)flags;
    (void)name;
    *frame_bytes = MOST_ARGUMENT_BYTES; /* so that the call returns to the linker */
    return symbol->st_value;
}

EXPORTED unsigned la_x86_64_gnu_pltexit(Elf64_Sym *symbol, unsigned number, uintptr_t *from,
                                        uintptr_t *to, const La_x86_64_regs *before,
                                        La_x86_64_retval *after, const char *name)
{
    (void)symbol;
    (void)number;
    (void)from;
    (void)to;
    (void)before;
    (void)after;
    (void)name;
    return 0;
}
