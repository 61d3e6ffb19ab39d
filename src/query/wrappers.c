#include "query/wrappers.h"

#include <string.h>

/* Entries of libc that lead to the code that does the work, and the operators above them. */
static const char *const names[] = {
    "malloc",
    "calloc",
    "realloc",
    "free",
    "cfree",
    "__libc_malloc",
    "__libc_calloc",
    "__libc_realloc",
    "__libc_free",
    "aligned_alloc",
    "memalign",
    "memcpy",
    "memmove",
    "memset",
    "memcmp",
    "__memcpy_chk",
    "__memmove_chk",
    "__memset_chk",
    "strdup",
    "operator new",
    "operator new[]",
    "operator delete",
    "operator delete[]",
    "__GI___libc_malloc",
    "__GI___libc_free",
};

/* What C++ has between a container and operator new. */
static const char *const beginnings[] = {
    "std::allocator<",          "std::allocator_traits<",           "std::__new_allocator<",
    "std::_Vector_base<",       "__gnu_cxx::new_allocator<",        "__gnu_cxx::__alloc_traits<",
    "std::__allocate_guarded<", "std::__detail::_Hashtable_alloc<",
};

static bool is_wrapper(const char *name)
{
    struct name_parts parts = name_parts(name);
    const char *own = name + parts.start;
    size_t length = parts.parameters - parts.start, all = strlen(name);
    if (all > 4 && strcmp(name + all - 4, "@plt") == 0)
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && memcmp(own, names[i], length) == 0)
            return true;
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (strncmp(own, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

bool *labels_that_wrap(const struct labels *labels)
{
    bool *wraps = must_calloc(labels->items.count + 1, sizeof *wraps);
    for (uint32_t i = 0; i < labels->items.count; i++) {
        char text[1024];
        wraps[i] = label_is_code(labels, i) && is_wrapper(label_name(labels, i, text, sizeof text));
    }
    return wraps;
}
