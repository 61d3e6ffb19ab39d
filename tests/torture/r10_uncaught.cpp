/* Row 10: an exception that is not caught, after some time: terminate is called, and it aborts. */
#include "torture.h"

#include <exception>

static NOINLINE void thrower()
{
    burn_ms(200);
    throw 42;
}

static void on_terminate()
{
    printf("terminate\n");
    fflush(stdout);
    abort();
}

int main()
{
    std::set_terminate(on_terminate);
    thrower();
    return 0;
}
