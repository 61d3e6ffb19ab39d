#include "record/engine.h"

#include "edit/plan.h"

#include <string.h>

#define ENGINE_DECLARED(name) extern const struct record_engine record_##name;
ENGINE_LIST(ENGINE_DECLARED)

#define ENGINE_ROW(name) [ENGINE_##name] = &record_##name,
static const struct record_engine *const engines[] = {ENGINE_LIST(ENGINE_ROW)};

const struct record_engine *record_engine_at(uint32_t number)
{
    return number < ENGINE_COUNT ? engines[number] : NULL;
}

const struct record_engine *record_engine_named(const char *name)
{
    for (uint32_t i = 0; i < ENGINE_COUNT; i++)
        if (strcmp(engines[i]->name, name) == 0)
            return engines[i];
    return NULL;
}

const struct plan_kind *record_engine_plans(const struct record_engine *e)
{
    return !e->edits ? NULL : e->plans ? e->plans : &edit_plans;
}

const struct engine_option *record_engine_option(const struct record_engine *engine,
                                                 const char *name)
{
    for (const struct engine_option *o = engine->options; o && o->name; o++)
        if (strcmp(o->name, name) == 0)
            return o;
    return NULL;
}
