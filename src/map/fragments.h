/*
 * Cold parts of functions in stripped files, where no symbol names them.
 */
#ifndef MAP_FRAGMENTS_H
#define MAP_FRAGMENTS_H

#include "map/functions.h"

/*
 * A piece of code with an FDE of its own but no name, or with a name that does not tell whose part
 * it is, which begins with a frame already set up, cannot be called: it is a part of the function
 * that jumps to it. Marks such pieces as fragments when exactly one function does.
 *
 * The other way round, what is called is no fragment, whatever its name says: clang's hot-cold
 * splitting makes functions called f.cold.1.
 */
void fragments_join(const struct elf_file *file, const struct map_tables *tables,
                    struct functions *functions);

#endif
