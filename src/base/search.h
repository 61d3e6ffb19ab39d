/*
 * The one way to search in what is sorted: no calls, so that it may stand in any function, those of
 * the runtime included.
 */
#ifndef BASE_SEARCH_H
#define BASE_SEARCH_H

/* Sets `i` to the first of `count` items for which `is_before`, an expression with `i` in it, does
 * not hold; to `count` where it holds for all. The search counts in the type of `i`. */
#define SEARCH(i, count, is_before)                                                                \
    do {                                                                                           \
        __typeof__(i) low_ = 0, high_ = (count);                                                   \
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
