/* Code that no file holds: the clock functions of the vdso. */
#include "checksum.h"

#include <sched.h>
#include <sys/time.h>
#include <time.h>

int main(void)
{
    struct timespec now, then = {0, 0};
    struct timeval day;
    unsigned forward = 0;
    for (int i = 0; i < 20; i++) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        forward +=
            now.tv_sec > then.tv_sec || (now.tv_sec == then.tv_sec && now.tv_nsec >= then.tv_nsec);
        then = now;
        clock_gettime(CLOCK_REALTIME, &now);
        clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
        clock_gettime(CLOCK_BOOTTIME, &now);
        clock_getres(CLOCK_MONOTONIC, &now);
        gettimeofday(&day, NULL);
        forward += time(NULL) != 0;
        forward += sched_getcpu() >= 0;
    }
    check(forward);
    return print_checksum("vdso");
}
