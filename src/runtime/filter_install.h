/* Filters for system calls that the program installs. */
#ifndef RUNTIME_FILTER_INSTALL_H
#define RUNTIME_FILTER_INSTALL_H

/* prctl or seccomp, by which the program installs one; a negative errno on failure. */
long filter_install(long number, long a, long b, long c, long d, long e);

#endif
