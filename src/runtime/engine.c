#include "runtime/engine.h"

#define ENGINE_DECLARED(name)                                                                      \
    extern const struct engine engine_##name __attribute__((visibility("hidden")));
ENGINE_LIST(ENGINE_DECLARED)

#define ENGINE_ROW(name) [ENGINE_##name] = &engine_##name,
static const struct engine *const engines[] = {ENGINE_LIST(ENGINE_ROW)};

/* Unlike the guest's page, this is not wiped in a child. */
static const struct engine *last;

static const struct engine *find(uint32_t number)
{
    return number < ENGINE_COUNT ? engines[number] : NULL;
}

void engine_begin(uint32_t number)
{
    guest->engine = last = find(number);
    ENGINE_CALL(process_begins);
}

void engine_forked(void)
{
    if (last && last->forked)
        last->forked();
}

bool engine_wants_low_arena(uint32_t number)
{
    return find(number) && find(number)->wants_low_arena;
}
