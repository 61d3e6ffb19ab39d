/* As bare.c, with a function in which the caller cannot be known for a while: never a wrong one. */
#define LOSSY 1
#include "bare.c"
