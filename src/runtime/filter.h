/*
 * What a filter for system calls would say to a call: the program's own filter, run here before it
 * is installed. A sample needs some calls, and a filter that does not know of us may kill at each.
 */
#ifndef RUNTIME_FILTER_H
#define RUNTIME_FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>

/* The filter's answer (SECCOMP_RET_...); SECCOMP_RET_KILL_PROCESS for what the kernel would refuse.
 */
uint32_t filter_run(const struct sock_filter *program, uint32_t count,
                    const struct seccomp_data *data);

/* Does the call go through as if there were no filter? */
bool filter_allows(const struct sock_filter *program, uint32_t count, long number, uint64_t a,
                   uint64_t b, uint64_t c, uint64_t d);

#endif
