#include "base/late.h"

#include <dlfcn.h>
#include <string.h>

int late_load(const char *library, const char *package, const char *const *names, size_t count,
              void *functions, struct ct_error *err)
{
    void *first, *handle = NULL;
    memcpy(&first, functions, sizeof first);
    if (first)
        return CT_OK;
    handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return ct_fail(err, "%s cannot be loaded (package %s): %s", library, package, dlerror());
    /* The first is set last: it says that all are there. */
    for (size_t i = count; i-- > 0;) {
        void *function = dlsym(handle, names[i]);
        if (!function)
            return ct_fail(err, "%s has no function %s", library, names[i]);
        memcpy((char *)functions + i * sizeof function, &function, sizeof function);
    }
    return CT_OK;
}
