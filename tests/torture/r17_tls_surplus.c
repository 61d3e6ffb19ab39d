/* Row 17: a library with static TLS is loaded late: the little room that there is, is still there.
 */
#include "torture.h"

#include <dlfcn.h>

int main(int argc, char **argv)
{
    char path[4200];
    (void)argc;
    burn_ms(100);
    snprintf(path, sizeof path, "%.*s/tls_library.so", (int)(strrchr(argv[0], '/') - argv[0]),
             argv[0]);
    void *library = dlopen(path, RTLD_NOW);
    printf("%s\n", library ? "loaded" : dlerror());
    if (library) {
        char *(*room)(void) = (char *(*)(void))dlsym(library, "tls_room");
        CHECK(room && room()[0] == 0);
    }
    burn_ms(100);
    return torture_end();
}
