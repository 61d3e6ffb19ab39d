#include "runtime/edit/no_mirror.h"

char no_mirror[NO_MIRROR_BYTES];
