/*
 * Comparing the map of one module with what readelf says.
 */
#ifndef ORACLE_MODULE_CHECK_H
#define ORACLE_MODULE_CHECK_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct check_counts {
    uint64_t files;
    uint64_t rows;        /* of readelf's tables that hold for at least one byte */
    uint64_t unknown;     /* of those, rows that no rule can say, and the map says so */
    uint64_t outside;     /* FDEs that are not about code of the module */
    uint64_t overlap;     /* rows where the map follows another FDE for the same code */
    uint64_t differences; /* and files that could not be compared */
    uint64_t broken;      /* rows of the map that were damaged on purpose */
    uint64_t noticed;     /* of those, rows that differ */
};

struct check_request {
    const char *path;
    const char *label;    /* what to call it in the report */
    unsigned break_every; /* damage every so many rows of the map first; 0 for none */
};

/* Is it an x86-64 program or shared object with an .eh_frame that has contents? */
bool check_applies(const char *path);

/*
 * Builds the map in memory and compares every byte of code that has an FDE, and that what has none
 * is not described but by guesses. Adds to `counts`; writes the first differences to `report`.
 */
int check_module(const struct check_request *request, FILE *report, struct check_counts *counts,
                 struct ct_error *err);

#endif
