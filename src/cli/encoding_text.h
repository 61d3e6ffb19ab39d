/* What calltrail info --encoding prints. */
#ifndef CLI_ENCODING_TEXT_H
#define CLI_ENCODING_TEXT_H

#include "profile/profile.h"

#include <stdio.h>

/* How contexts were encoded while a program ran; of a profile in which calls were counted, how they
 * would be by who knows all of them. */
int encoding_print(const struct profile *profile, FILE *out, struct ct_error *err);

#endif
