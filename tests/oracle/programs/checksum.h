/*
 * What every program prints at its end: one number that depends on all that it did, so that a run
 * under the stepper can be compared with a plain one.
 */
#ifndef CHECKSUM_H
#define CHECKSUM_H

#include <stdint.h>
#include <stdio.h>

static uint64_t checksum = 1469598103934665603u;

static inline void check(uint64_t value)
{
    checksum = (checksum ^ value) * 1099511628211u;
}

static inline int print_checksum(const char *name)
{
    printf("%s %016llx\n", name, (unsigned long long)checksum);
    return 0;
}

#define NOINLINE __attribute__((noinline))

#endif
