/*
 * The dictionary of a thread's contexts: what engine encode needs to tell which calls a word stands
 * for (runtime/encode/encode.h), as bytes that only grow. The runtime writes them to its arena, and
 * a profile has them with other keys (docs/format.md).
 *
 * A record begins with one of the letters below. Numbers are in base 128, the lowest digit first,
 * with bit 7 set where another one follows; keys, words and snapshots are little-endian, of eight
 * bytes each.
 *
 *     DICTIONARY_FUNCTION   key
 *     DICTIONARY_EDGE       key of the call, caller, callee, 1 for a tail jump or 0
 *     DICTIONARY_ENTRY      word of the caller, edge
 *     DICTIONARY_TASK       run, stamp, word, key of the place, task: a snapshot that work of this
 *                           thread began with
 *     DICTIONARY_PLACE      key of a place in which a snapshot was printed: for its source line
 *     DICTIONARY_NUMBERS    how contexts are numbered from here on
 *
 * Each kind counts from 0, but for entries and tasks, which count from 1. Function 0 stands for the
 * thread.
 *
 * Numbers follow from the order of functions and from the edges with a code that lead to each, the
 * hottest first (runtime/encode/graph.h). Of both a record has what differs from the one before it:
 *
 *     numbering; functions;
 *     how many runs of the order follow, and for each its place in the order of before, which all
 *     functions that are new stand behind, and its length;
 *     how many functions have other edges than before, and for each how many functions lie between
 *     it and the last one, how many edges it has, and these.
 */
#ifndef DICTIONARY_FORMAT_H
#define DICTIONARY_FORMAT_H

#include <stdint.h>

enum dictionary_record {
    DICTIONARY_FUNCTION = 'F',
    DICTIONARY_EDGE = 'E',
    DICTIONARY_ENTRY = 'X',
    DICTIONARY_TASK = 'T',
    DICTIONARY_PLACE = 'P',
    DICTIONARY_NUMBERS = 'N'
};

/* A snapshot as it is in the program (include/calltrail.h). Its stamp has the dictionary's number
 * in the upper half and that of the numbering in the lower one. */
struct dictionary_snapshot {
    uint64_t run, stamp, word, place, task;
};

#endif
