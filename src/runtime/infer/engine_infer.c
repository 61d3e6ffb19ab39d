/* Engine `infer` works from outside: nothing of it runs in the program. */
#include "runtime/engine.h"

const struct engine engine_infer = {0};
