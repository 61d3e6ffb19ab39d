/*
 * Row 4: a plugin is unloaded, and another is loaded at the same address; each burns as long as the
 * other. The time belongs to the one that was there.
 */
#include "torture.h"

#include <dlfcn.h>

static unsigned (*load(const char *folder, const char *name, void **plugin))(unsigned)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    *plugin = dlopen(path, RTLD_NOW);
    CHECK(*plugin != NULL);
    return *plugin ? (unsigned (*)(unsigned))dlsym(*plugin, "plugin_work") : NULL;
}

static void burn_in(unsigned (*work)(unsigned), unsigned ms)
{
    uint64_t end = thread_cpu_ns() + ms * UINT64_C(1000000);
    while (work && thread_cpu_ns() < end)
        work(20000);
}

int main(int argc, char **argv)
{
    void *plugin, *was = NULL;
    int same = 0;
    (void)argc;
    *strrchr(argv[0], '/') = '\0';
    for (int i = 0; i < 10; i++) {
        unsigned (*work)(unsigned) = load(argv[0], i % 2 ? "plugin_b.so" : "plugin_a.so", &plugin);
        same += (void *)work == was;
        was = (void *)work;
        burn_in(work, i % 2 ? 20 : 60);
        CHECK(dlclose(plugin) == 0);
    }
    printf("at the same address: %s\n", same >= 5 ? "yes" : "no");
    return torture_end();
}
