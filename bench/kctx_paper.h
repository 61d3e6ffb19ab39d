/*
 * What the paper of the k-calling-context forest has measured of programs that are measured here,
 * too: its tables 1 and 2.
 */
#ifndef BENCH_KCTX_PAPER_H
#define BENCH_KCTX_PAPER_H

#include <stddef.h>
#include <string.h>

struct published {
    const char *name;
    double functions, cct, cct_sites, calls, depth;
    double cct_s, slabs_s, indexed_slabs_s, indexed_cct_s; /* seconds to build: CCT, 1-SF, … */
    double siblings_k; /* from which on siblings are faster than indexed for a k-SF */
};

static inline const struct published *published_of(const char *name)
{
    static const struct published all[] = {
        {"audacity", 6880, 5264498, 13131115, 960243960, 305, 11.05, 118.84, 25.41, 13.36, 40},
        {"evince", 4869, 2003454, 6772430, 92775397, 226, 1.96, 8.76, 2.64, 2.28, 14},
        {"firefox", 6076, 12670331, 30294063, 617296926, 433, 5.33, 55.38, 7.07, 6.85, 38},
        {"gedit", 5934, 3927949, 4183946, 419970719, 263, 4.50, 34.85, 8.19, 5.78, 13},
        {"gimp", 5275, 11350729, 26107261, 819811432, 291, 9.61, 93.73, 30.45, 12.18, 15},
        {"inkscape", 6426, 5854809, 13896175, 624835038, 299, 4.89, 25.47, 6.82, 6.43, 5},
        {"libreoffice", 16541, 16371565, 41395182, 657189223, 268, 6.05, 38.21, 9.57, 7.56, 10},
        {"vlc", 5808, 1844857, 3295907, 122164908, 173, 1.11, 49.58, 1.60, 1.50, 28},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, name) == 0)
            return &all[i];
    return NULL;
}

#endif
