/*
 * Row 21: a library in a folder of its own loads its plugin by a bare name, through its own RUNPATH
 * of $ORIGIN; the program itself would not find it.
 */
#include "torture.h"

#include <dlfcn.h>

int main(int argc, char **argv)
{
    char path[4200];
    (void)argc;
    snprintf(path, sizeof path, "%.*s/loader.so", (int)(strrchr(argv[0], '/') - argv[0]), argv[0]);
    void *loader = dlopen(path, RTLD_NOW);
    CHECK(loader != NULL);
    if (!loader)
        return torture_end();
    void *(*load)(const char *) = (void *(*)(const char *))dlsym(loader, "load_plugin");
    void *plugin = load("plugin_a.so");
    printf("by the library: %s\n", plugin ? "found" : "not found");
    printf("by the program: %s\n",
           dlopen("plugin_a.so", RTLD_NOW | RTLD_NOLOAD) || dlopen("plugin_b.so", RTLD_NOW)
               ? "found"
               : "not found");
    unsigned (*work)(unsigned) =
        plugin ? (unsigned (*)(unsigned))dlsym(plugin, "plugin_work") : NULL;
    uint64_t end = thread_cpu_ns() + 300000000;
    while (work && thread_cpu_ns() < end)
        work(20000);
    /* Who the caller is also decides in dlsym(RTLD_NEXT) and dladdr. */
    Dl_info info;
    CHECK(dladdr((void *)work, &info) && strcmp(info.dli_sname, "plugin_work") == 0);
    CHECK(dlsym(RTLD_NEXT, "malloc") != NULL);
    return torture_end();
}
