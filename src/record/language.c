#include "record/language.h"

#include "runtime/arena_format.h"

#include <stddef.h>

const char *language_consequence(uint32_t languages)
{
    if (languages & LANGUAGE_GO)
        return "not sampled: the runtime of Go has signals and stacks of its own";
    if (languages & LANGUAGE_OCAML)
        return "sampled without the trampoline: OCaml finds its frames by return address";
    return NULL;
}
