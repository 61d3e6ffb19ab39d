#include "names/demangle.h"

#include "base/vec.h"

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
    const int style = DMGL_PARAMS | DMGL_ANSI | DMGL_AUTO;
    const char *version = strchr(name, '@'); /* symbol tables of libraries have name@@VERSION */
    if (!version)
        return cplus_demangle(name, style);
    char *bare = must_strdup(name);
    bare[version - name] = '\0';
    char *readable = cplus_demangle(bare, style), *out = NULL;
    if (readable)
        out = must_format("%s%s", readable, version);
    free(readable);
    free(bare);
    return out;
}
