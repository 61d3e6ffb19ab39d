/*
 * From what readelf says of a row to the rule that a map must have for it.
 */
#ifndef ORACLE_FRAME_RULE_H
#define ORACLE_FRAME_RULE_H

#include "readelf_frames.h"

/*
 * The rule that a map must have. Where a description can be understood but is not one of the usual
 * forms, a map may also say that it is unknown or lost.
 */
struct expected_rule {
    struct map_special rule;
    bool cfa_may_be_unknown;
    bool may_be_lost[AT_COUNT];
    bool is_open; /* the table leaves it open: the FDE's details are needed to say */
};

/* The rule for a row of an FDE; detail is NULL as long as the programs have not been read. */
struct expected_rule rule_expected(const struct frames *frames, const struct frame_fde *fde,
                                   const struct frame_row *row, const struct frame_detail *detail);

enum verdict {
    RULE_AGREES,
    RULE_AGREES_UNKNOWN, /* the map says that it does not know, and rightly */
    RULE_DIFFERS,
};

/* What differs first: the CFA, the flags, or a place (AT_RIP and so on). */
enum { DIFFERS_CFA = AT_COUNT, DIFFERS_FLAGS };

enum verdict rule_compare(const struct expected_rule *expected, const struct map_tables *tables,
                          uint32_t row, unsigned *where);

/* For people. `where` as above; the text is cut off at the buffer's size. */
const char *where_name(unsigned where);
void rule_print(const struct map_special *rule, unsigned where, char *buffer, size_t size);

#endif
