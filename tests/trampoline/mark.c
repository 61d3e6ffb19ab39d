/* marks.h for programs that are not C. */
#include "marks.h"

void mark_begin(void)
{
    marks_begin();
}

void mark(int level)
{
    sample_level(level + 1);
}
