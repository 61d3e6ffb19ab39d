/*
 * The stub of a call before which the stack grows by n times 16 bytes:
 *
 *     lea rsp, [rsp - (16 n - 8)]
 *     call the callee             its return address makes it 16 n
 *     lea rsp, [rsp + (16 n - 8)]
 *     ret                         behind the call in the program
 *
 * No register changes but rsp, and no flags. Each call has its return, for the processor's
 * predictor. The callee never looks above its frame (edit/above.h), and does not see a difference;
 * who walks the stack finds the stub's frame, of which the tables say that it is the site itself
 * (rows.h).
 */
#include "runtime/infer/growing.h"

#include "runtime/edit/emit.h"

enum { STUB_BYTES = 5 + 5 + 5 + 1, STEP_WORDS = 2, MOST_STEPS = 8 };

static uint32_t most_bytes(const struct plan_site *s)
{
    (void)s;
    return STUB_BYTES;
}

static bool is_left_alone(const struct plan_site *s)
{
    return s->kind != SITE_CALL || s->tier != TIER_RETARGET || s->got || !s->grow ||
           s->grow > MOST_STEPS;
}

/* Stubs share nothing. */
static void write_common(struct emitter *e)
{
    EMIT(e, "\xcc");
}

static void write_site(struct emitter *e, const struct edited_module *m, const struct plan_site *s)
{
    const int words = STEP_WORDS * s->grow - 1, behind = s->length - 1;
    EMIT(e, "\x48\x8d\x64\x24"); /* lea rsp, [rsp - …] */
    emit_u8(e, (unsigned)(-8 * words));
    emit_words(e, words);
    EMIT(e, "\xe8"); /* call */
    emit_relative(e, (const uint8_t *)m->base + s->target);
    emit_row(e, row_of(1 + (unsigned)words, behind, ROW_RETURNS));
    EMIT(e, "\x48\x8d\x64\x24"); /* lea rsp, [rsp + …] */
    emit_u8(e, (unsigned)(8 * words));
    emit_row(e, row_of(1, behind, ROW_RETURNS));
    EMIT(e, "\xc3"); /* ret */
}

const struct stub_writer growing_stubs = {.most_bytes = most_bytes,
                                          .leaves_alone = is_left_alone,
                                          .common = write_common,
                                          .site = write_site};
