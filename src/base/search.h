/* The search in what is sorted, for the runtime: no calls, and it may stand in any function. */
#ifndef BASE_SEARCH_H
#define BASE_SEARCH_H

#include <stdint.h>

/* Sets `i` to the first of so many for which `is_before`, which speaks of `i`, does not hold. */
#define SEARCH(i, count, is_before)                                                                \
    do {                                                                                           \
        uint32_t low_ = 0, high_ = (count);                                                        \
        while (low_ < high_) {                                                                     \
            (i) = low_ + (high_ - low_) / 2;                                                       \
            if (is_before)                                                                         \
                low_ = (i) + 1;                                                                    \
            else                                                                                   \
                high_ = (i);                                                                       \
        }                                                                                          \
        (i) = low_;                                                                                \
    } while (0)

#endif
