/* Prints names for people, as `c++filt -i` does: one on each line of the standard input. */
#include "names/demangle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *readable = demangle(line);
        puts(readable ? readable : line);
        free(readable);
    }
    free(line);
    return 0;
}
