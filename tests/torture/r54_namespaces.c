/* Row 54: a library in a namespace of its own, with a libc of its own, calls back and is unloaded;
 * many times. */
#include "torture.h"

#include <dlfcn.h>

static void burn_in(unsigned (*work)(unsigned), unsigned ms)
{
    uint64_t end = thread_cpu_ns() + ms * UINT64_C(1000000);
    while (work && thread_cpu_ns() < end)
        work(20000);
}

int main(int argc, char **argv)
{
    char path[4200];
    (void)argc;
    *strrchr(argv[0], '/') = '\0';
    snprintf(path, sizeof path, "%s/plugin_a.so", argv[0]);
    for (int i = 0; i < 20; i++) {
        void *plugin = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
        CHECK(plugin != NULL);
        if (plugin) {
            burn_in((unsigned (*)(unsigned))dlsym(plugin, "plugin_work"), 20);
            CHECK(dlclose(plugin) == 0);
        }
    }
    printf("worked in namespaces\n");
    return torture_end();
}
