/*
 * Numbers for people: values with their unit, shares, counts. A column of values has one scale, so
 * that eyes can compare them.
 */
#ifndef QUERY_AMOUNT_H
#define QUERY_AMOUNT_H

#include <stddef.h>
#include <stdint.h>

enum { AMOUNT_ROOM = 64 };

struct amount_scale {
    double divisor; /* 0: whole numbers in groups of three digits */
    int decimals;
    const char *unit; /* as shown behind the number */
};

/* The scale in which `greatest` is easy to read: ns become s, ms or us; bytes kB, MB or GB. */
struct amount_scale amount_scale(const char *unit, uint64_t greatest);
const char *amount_text(const struct amount_scale *scale, uint64_t value, char *text);

/* 1234567 as 1,234,567. */
const char *count_text(uint64_t count, char *text);

/* Per cent of a whole that may be 0. Never above 100 for a part. */
double share_percent(uint64_t part, uint64_t whole);

#endif
