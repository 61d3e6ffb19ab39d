/*
 * What samples need to know of engine exact: how to get out of a stub, and, for --verify, whether
 * the records agree with a walk of the stack.
 */
#include "runtime/exact/agrees.h"

#include "arch/x86_64/code_bytes.h"
#include "runtime/arena.h"
#include "runtime/edit/called.h"
#include "runtime/exact/exact.h"
#include "runtime/exact/mirror.h"
#include "runtime/exact/records.h"
#include "runtime/modules.h"

/* The sample came in the stub of a tail jump: either function is right. */
static __thread bool was_jumping __attribute__((tls_model("initial-exec")));

enum walk_left exact_leave_code(struct walk_registers *r, uint64_t *restored_below)
{
    const struct edited_left left = edited_leave(r);
    if (left.by_return)
        return WALK_LEFT_BY_RETURN;
    was_jumping = left.site && left.site->kind >= SITE_TAIL;
    if (was_jumping)
        *restored_below = r->value[X86_RSP];
    return left.is_lost ? WALK_NOT_LEFT : WALK_LEFT;
}

/* The PLT, and the binder behind it, are on their way to the function that was called; of code
 * without a module it is not known where functions begin. */
static bool is_on_its_way(const struct walk_modules *modules, const struct walk_frame *f)
{
    if (modules_role(modules, f->module) == ROLE_LINKER || f->module == UINT32_MAX)
        return true;
    if (!(f->flags & FRAME_IS_PC))
        return false;
    const uint8_t *code = code_skip_endbr64((const uint8_t *)f->pc);
    code += *code == 0xf2; /* bnd */
    return code_is_slot_jump(code) || code_is_binder_push(code);
}

static uint64_t function_of(const struct walk_modules *modules, const struct walk_frame *f)
{
    return modules_function(modules, f->pc - !(f->flags & FRAME_IS_PC));
}

static uint64_t function_key(const struct walk_modules *modules, const struct walk_frame *f)
{
    return code_function_key(modules, f->pc - !(f->flags & FRAME_IS_PC));
}

/* May a function have gone on to another one by a tail jump that is not counted? */
static bool may_go_on(const struct walk_modules *modules, uint64_t callee_key)
{
    for (uint32_t i = 0; i < modules->count; i++)
        if (modules_id(modules, i) == KEY_MODULE(callee_key))
            return edited_has_gaps(modules->items[i].base, KEY_OFFSET(callee_key));
    return true;
}

/* Is this the record of the frame's function, or of one that it is about to jump to? */
static bool is_record_of(const struct walk_modules *modules, const struct arena_record *record,
                         const struct walk_frame *f)
{
    uint64_t key = function_key(modules, f);
    /* A function without an end goes on with the one behind it (libc's strcasecmp). */
    uint64_t before = code_function_key(modules, function_of(modules, f) - 1);
    for (;; record = arena_at(record->parent)) {
        if (record->callee == key || record->callee == before || may_go_on(modules, record->callee))
            return true;
        if (!(record->flags & RECORD_TAIL))
            return is_on_its_way(modules, f);
    }
}

/* The context of a record against the frames up to and with `last`. */
static bool is_same_path(const struct records *records, const struct walk_modules *modules,
                         const struct arena_record *record, const struct walk_frame *frames,
                         uint32_t last)
{
    for (uint32_t i = last + 1; i-- > 0;) {
        if (modules_role(modules, frames[i].module) == ROLE_OURS)
            continue;
        if (KEY_FLAGS(record->callee) & KEY_GAP)
            return true;    /* the frames further out were too many */
        uint32_t above = i; /* the next frame that is not ours */
        while (above-- > 0 && modules_role(modules, frames[above].module) == ROLE_OURS)
            ;
        if (!is_record_of(modules, record, &frames[i]))
            return false;
        while (record->flags & RECORD_TAIL)
            record = arena_at(record->parent);
        if (KEY_FLAGS(((const struct arena_record *)arena_at(record->parent))->callee) & KEY_GAP)
            return true; /* the frames further out were too many */
        /* Where a handler interrupted, or code that is not edited called, may have changed. */
        if (i && above != UINT32_MAX && !(frames[above].flags & FRAME_IS_PC) &&
            edited_site_behind(frames[above].pc) &&
            record->site != code_key(modules, frames[above].pc, 0))
            return false;
        record = arena_at(record->parent);
    }
    return record == records->root;
}

static bool is_unwinder(const struct walk_modules *modules, const struct walk_frame *f)
{
    if (f->module == UINT32_MAX || !modules->items[f->module].tables)
        return false;
    const struct walk_module *m = &modules->items[f->module];
    const struct map_range *range = map_find_unmarkable(m->tables, f->pc - m->base);
    return modules_role(modules, f->module) == ROLE_UNWINDER || (range && range->value);
}

/* Has a frame inside taken its place of the mirror? On a stack that is not aligned, or is deep. */
static bool shares_entry(const struct walk_frame *frames, uint32_t count, uint32_t of)
{
    for (uint32_t i = of + 1; i < count; i++)
        if (frames[i].slot && ((frames[i].slot ^ frames[of].slot) & MIRROR_MASK) == 0)
            return true;
    return false;
}

/*
 * Do the records agree with a walked stack? Its frames are outermost first. Calls from code that is
 * not edited are not in the mirror: inside the last frame that is, there may be only such. Tail
 * callers, which no walk can see, are left out.
 */
bool exact_agrees(const struct walk_modules *modules, const struct walk_frame *frames,
                  uint32_t count)
{
    const struct records *records = exact_records();
    if (!records || was_jumping || (exact_settings()->flags & EXACT_FOLDS))
        return true; /* there is nothing to compare with */
    exact_resolve_unbound();
    enum { NEAR = 4 };
    for (uint32_t i = count; i-- > 0 && count - i <= NEAR;)
        if (is_unwinder(modules, &frames[i]))
            return true; /* it may be changing return addresses at this moment */
    for (uint32_t i = count; i-- > 0;) {
        if (modules_role(modules, frames[i].module) == ROLE_OURS)
            continue;
        if (frames[i].flags & FRAME_GUESSED)
            continue; /* it is not known where its return address lies */
        const struct arena_record *record = mirror_find(frames[i].slot);
        if (record == records->overflow)
            return true;
        if (record && is_record_of(modules, record, &frames[i]))
            return is_same_path(records, modules, record, frames, i);
        uint32_t first, sites;
        if (!edited_sites_of(function_of(modules, &frames[i]), &first, &sites))
            continue; /* of such the mirror is not told */
        if (i && !(frames[i - 1].flags & FRAME_IS_PC) && edited_site_behind(frames[i - 1].pc) &&
            !shares_entry(frames, count, i))
            return false; /* that call was counted, and must be known */
    }
    return true;
}
