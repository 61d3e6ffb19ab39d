/* Modules that are loaded after a thread has ended, and that run in one that goes on with what it
 * left: `later LIBRARY` ends with 0. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

enum { MANY = 1100 }; /* so many have records of their own */

static void *call(void *function)
{
    for (int i = 0; function && i < 1000; i++)
        ((int (*)(int))function)(i);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t id;
    for (int i = 0; i < MANY; i++) {
        pthread_create(&id, NULL, call, NULL);
        pthread_join(id, NULL);
    }
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    void *function = library ? dlsym(library, "sign") : NULL;
    for (int i = 0; function && i < 300; i++) {
        pthread_create(&id, NULL, call, function);
        pthread_join(id, NULL);
    }
    puts(function ? "called" : "not there");
    return 0;
}
