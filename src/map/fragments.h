/*
 * Cold parts of functions in stripped files, where no symbol names them.
 */
#ifndef MAP_FRAGMENTS_H
#define MAP_FRAGMENTS_H

#include "map/functions.h"

/*
 * A piece of code with an FDE of its own but no symbol, which begins with a frame already set up,
 * cannot be called: it is a part of the function that jumps to it. Marks such pieces as fragments
 * when exactly one function does.
 */
void fragments_join(const struct elf_file *file, const struct map_tables *tables,
                    struct functions *functions);

#endif
