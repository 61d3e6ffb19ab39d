/* Regions with stubs that were written by hand, for tests. */
#ifndef REGION_MAKER_H
#define REGION_MAKER_H

#include "runtime/edit/rows.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A stub: code that can be copied, as it was assembled, and its rows. The site jumps or calls
 * through its slot.
 */
struct hand_stub {
    const uint8_t *code, *code_end;
    const uint8_t *site;
    uint8_t **slot;
    const struct stub_row *rows; /* the last one has at == UINT16_MAX */
    uint8_t *made;               /* where the stub is */
};

extern uint8_t *region_code, *region_code_end;
extern uint8_t *region_common; /* as the stubs of engine exact have it: it calls region_slow */

extern void (*region_slow)(void);

/* `finish` fills in what the stubs have in them, before they become executable. Fails with a
 * message. */
void make_region(struct hand_stub *stubs, unsigned count, void (*finish)(void));
void drop_region(void);

/* Makes and drops other regions, many times. */
void *churn_regions(void *unused);

/* How many regions debuggers are told of. */
unsigned count_for_debuggers(void);

#ifdef __cplusplus
}
#endif

#endif
