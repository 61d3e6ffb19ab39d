/*
 * Engine `infer`: samples from outside, of two registers and as much of the stack as --window says.
 * What is above has the height of the stack in its place, and `calltrail infer` finds it in a map
 * of known paths.
 */
#include "record/engine.h"
#include "runtime/arena_format.h"

const struct record_engine record_infer = {
    ENGINE_IS(infer),
    .help = "from outside, by the height of the stack: callers that are\n"
            "not in the window are found later (calltrail infer)",
    .man = "From outside, by the height of the stack: callers that are not in the window\n"
           ".Pq Fl -window ; No 0\n"
           "are found later, by\n"
           ".Xr calltrail-infer 1 .\n",
    .events = EVENT_CPU,
    .by_height = true,
};
