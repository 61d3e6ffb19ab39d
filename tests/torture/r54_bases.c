/*
 * Row 54: two libraries that are linked to begin at the same address, which is not 0: one gets its
 * place, the other another. Time in both is seen.
 */
#include "torture.h"

unsigned work_of_a(unsigned rounds);
unsigned work_of_b(unsigned rounds);

int main(void)
{
    for (int i = 0; i < 2; i++) {
        uint64_t end = thread_cpu_ns() + 100 * UINT64_C(1000000);
        while (thread_cpu_ns() < end)
            i ? work_of_a(20000) : work_of_b(20000);
    }
    printf("worked\n");
    return torture_end();
}
