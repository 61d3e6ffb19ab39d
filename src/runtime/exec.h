/* Programs that the program starts. */
#ifndef RUNTIME_EXEC_H
#define RUNTIME_EXEC_H

#include <stdbool.h>

void exec_prepare(void); /* finds the functions that ours stand in for; before all else */

/* The variables to put back, as they stood in the environment. */
void exec_put_back(const char *preload_variable, const char *channel_variable);
void exec_follow(bool wanted); /* are the programs that it starts recorded, too? */

/* execveat, which is execve with more words: a negative errno, if it returns. */
long exec_at(int folder, const char *path, char *const arguments[], char *const environment[],
             int flags);

#endif
