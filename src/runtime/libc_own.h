/* libc behind all who stand in for it. */
#ifndef RUNTIME_LIBC_OWN_H
#define RUNTIME_LIBC_OWN_H

/* Where libc's own function of that name begins; NULL: not known. */
void *libc_own(const char *name);

#endif
