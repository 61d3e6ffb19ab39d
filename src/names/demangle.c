#include "names/demangle.h"

#include <libiberty/demangle.h>
#include <string.h>

/* Compilers do not write longer ones; the demangler's time is not linear in the length. */
enum { MANGLED_MAX_BYTES = 64 * 1024 };

char *demangle(const char *name)
{
    /* "_Z" is C++ and old Rust, "_R" is Rust. All others are spared the call. */
    if (name[0] != '_' || (name[1] != 'Z' && name[1] != 'R') ||
        strnlen(name, MANGLED_MAX_BYTES) == MANGLED_MAX_BYTES)
        return NULL;
    return cplus_demangle(name, DMGL_PARAMS | DMGL_ANSI | DMGL_AUTO);
}
