/*
 * Noise: how far two measurements of the same thing may lie apart by chance.
 *
 * A sampled value of n samples has a standard error of about sqrt(n) samples. Two runs of one
 * program differ by a little more than that: the machine is not the same twice. And a
 * comparison of a thousand functions sees one of them off by three standard errors for nothing: so
 * the chance of a false alarm is a budget for the whole comparison, and each function gets a part.
 */
#ifndef QUERY_NOISE_H
#define QUERY_NOISE_H

#include <stddef.h>

/* One side of a comparison. */
struct measured {
    double value;
    double whole;  /* what the value is a part of */
    double period; /* units of one sample; 0: exact, without error */
};

/* The change from a to b in standard errors, as an amount or as a part of the whole. 0 when nothing
 * changed; infinite when exact values differ. */
double noise_amount_score(const struct measured *a, const struct measured *b);
double noise_share_score(const struct measured *a, const struct measured *b);

/* The standard error of b - a; of the difference of the shares if `shares`. */
double noise_error(const struct measured *a, const struct measured *b, int shares);

/* How many standard errors it would be if this grew by half: what a comparison can hope to see. */
double noise_effect(const struct measured *a, const struct measured *b);

/*
 * The budget is spent where it matters: little on what is so large that growth by half cannot be
 * missed; a tenth, in equal parts, on what is so small that it cannot be seen; the rest in between,
 * by the rule that finds the most for the same risk (Spjøtvoll 1972): the threshold of an effect e
 * is e/2 + price/e, with one price for all.
 */
struct noise_limits {
    double price;
    double small; /* threshold of what is small */
};

/* The limits that keep the chance of any false alarm among `count` effects below the budget. */
struct noise_limits noise_limits(const double *effects, size_t count, double budget);
double noise_threshold(const struct noise_limits *limits, double effect);

#endif
