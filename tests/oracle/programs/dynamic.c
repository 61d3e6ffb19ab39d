/* Modules that come and go: dlopen, dlsym, calls into the module, dlclose, and back again. */
#include "checksum.h"

#include <dlfcn.h>
#include <stdlib.h>

typedef double (*function)(double);

NOINLINE static int use(const char *library, const char *name, double x)
{
    void *module = dlopen(library, RTLD_LAZY);
    if (!module)
        return 1;
    function f = (function)(uintptr_t)dlsym(module, name);
    double result = f ? f(x) : 0;
    int closed = dlclose(module);
    return (int)(result * 1000) + closed;
}

int main(void)
{
    check((unsigned)use("libm.so.6", "cos", 0.5));
    check((unsigned)use("libm.so.6", "cbrt", 5));
    check((unsigned)use("libnonexistent.so", "nothing", 5));
    return print_checksum("dynamic");
}
