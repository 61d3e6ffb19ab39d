/* System calls that the program makes by number. */
#ifndef RUNTIME_SYSCALLS_H
#define RUNTIME_SYSCALLS_H

void syscalls_prepare(void);

#endif
