#include "query/noise.h"

#include <math.h>

/* How much the cost of one function varies from run to run beside the sampling: measured with
 * scripts/check-diff on a busy machine. It matters for large functions only. */
static const double RUN_TO_RUN = 0.02;

/* Effects from which on growth by half can be seen at all, and what part of the budget is theirs.
 */
static const double VISIBLE = 2, VISIBLE_PART = 0.9;

/* The variance of rate_b - rate_a when both rates are `rate`, each known from `weight` units. */
static double variance(const struct measured *a, const struct measured *b, const double weights[2],
                       double rate, int shares)
{
    if (a->period <= 0 && b->period <= 0)
        return 0;
    double rest = shares ? 1 - rate : 1;
    double sampling = rate * rest * (a->period / weights[0] + b->period / weights[1]);
    double runs = RUN_TO_RUN * rate * rest;
    return sampling + 2 * runs * runs;
}

/* What the rate is if nothing changed: all samples over all that they are samples of. */
static double common_rate(const struct measured *a, const struct measured *b,
                          const double weights[2])
{
    if (a->period <= 0)
        return a->value / weights[0];
    if (b->period <= 0)
        return b->value / weights[1];
    return (a->value / a->period + b->value / b->period) /
           (weights[0] / a->period + weights[1] / b->period);
}

static double score(const struct measured *a, const struct measured *b, const double weights[2],
                    int shares)
{
    double change = b->value / weights[1] - a->value / weights[0];
    double square = variance(a, b, weights, common_rate(a, b, weights), shares);
    return change == 0 ? 0 : square > 0 ? change / sqrt(square) : copysign(INFINITY, change);
}

double noise_amount_score(const struct measured *a, const struct measured *b)
{
    return score(a, b, (double[2]){1, 1}, 0);
}

double noise_share_score(const struct measured *a, const struct measured *b)
{
    if (a->whole <= 0 || b->whole <= 0)
        return noise_amount_score(a, b);
    return score(a, b, (double[2]){a->whole, b->whole}, 1);
}

double noise_error(const struct measured *a, const struct measured *b, int shares)
{
    double square = 0;
    const struct measured *sides[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        const struct measured *m = sides[i];
        double whole = shares && m->whole > 0 ? m->whole : 1, rate = m->value / whole;
        double rest = shares ? fmax(1 - rate, 0) : 1;
        if (m->period > 0)
            square += rate * rest * m->period / whole + pow(RUN_TO_RUN * rate * rest, 2);
    }
    return sqrt(square);
}

double noise_effect(const struct measured *a, const struct measured *b)
{
    if (a->period <= 0 && b->period <= 0)
        return INFINITY;
    if (a->whole <= 0 || b->whole <= 0)
        return 0;
    double weights[2] = {a->whole, b->whole}, rate = common_rate(a, b, weights);
    double square = variance(a, b, weights, rate, 1);
    /* If `rate` is the middle of x and 1.5 x, they are 0.4 of it apart. */
    return square > 0 ? 0.4 * rate * (1 - rate) / sqrt(square) : 0;
}

static double chance(double threshold)
{
    return erfc(threshold / M_SQRT2); /* in both directions */
}

/* The risk of all effects that can be seen, at a price. */
static double risk(const double *effects, size_t count, double price)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        if (effects[i] >= VISIBLE && !isinf(effects[i]))
            sum += chance(effects[i] / 2 + price / effects[i]);
    return sum;
}

struct noise_limits noise_limits(const double *effects, size_t count, double budget)
{
    double low = 0, high = 1;
    while (high < 1e6 && risk(effects, count, high) > budget * VISIBLE_PART)
        high *= 2;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (risk(effects, count, middle) > budget * VISIBLE_PART)
            low = middle;
        else
            high = middle;
    }
    size_t small = 0;
    for (size_t i = 0; i < count; i++)
        small += effects[i] < VISIBLE;
    struct noise_limits limits = {.price = high};
    while (chance(limits.small) * (double)small > budget * (1 - VISIBLE_PART))
        limits.small += 0.01;
    return limits;
}

double noise_threshold(const struct noise_limits *limits, double effect)
{
    if (isinf(effect))
        return 0;
    return effect < VISIBLE ? limits->small : effect / 2 + limits->price / effect;
}
