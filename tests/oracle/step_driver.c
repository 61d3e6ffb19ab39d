#include "step_driver.h"

#include <stdlib.h>
#include <time.h>

uint64_t driver_number(const char *text, void (*usage)(const char *what))
{
    char *end;
    uint64_t value = strtoull(text, &end, 0);
    if (end == text || *end != '\0' || text[0] == '-')
        usage("a number was expected");
    return value;
}

double driver_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

uint64_t driver_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}
