#include "runtime/exact/timing.h"

#include "runtime/edit/stubs.h"
#include "runtime/exact/mirror.h"
#include "runtime/modules.h"
#include "runtime/time_stamps.h"

/* The first thread comes when the program has not been loaded yet. */
void timing_thread_begins(struct thread *thread)
{
    if (timing_is_on() && thread->next)
        exact_state.last = time_stamp_or_0();
}

void timing_begin(struct exact_thread *t)
{
    exact_state.current = NULL;
    if (!exact_state.last && timing_is_on())
        exact_state.last = time_stamp_or_0();
    t->is_timed = exact_state.last != 0;
}

void timing_end(struct exact_thread *t)
{
    if (t->is_timed && exact_state.current)
        time_passes(exact_state.current);
    exact_state.current = NULL;
    exact_state.last = 0;
    t->is_timed = false;
}

void timing_time_stamps_go(void)
{
    exact_state.current = NULL; /* no stub reads them, since none finds what it looks for */
    exact_state.last = 0;
    if (exact_mine)
        exact_mine->is_timed = false;
}

/* Has a function a tail jump that is not edited? */
static bool jumps_unseen(uint64_t function)
{
    uint32_t first, count;
    if (!edited_sites_of(function, &first, &count))
        return true;
    const struct edited_module *m = edited_by_site(first);
    for (uint32_t i = 0; i < count; i++) {
        const struct plan_site *s = edited_site(m, first + i);
        if (s->kind >= SITE_TAIL && !m->layouts[s - m->sites].bytes)
            return true;
    }
    return false;
}

/* Does a function begin with nothing but its return address on the stack, as far as is said? That
 * of libgcc's __morestack, by which it finds the code to go on with, does not. */
static bool begins_as_usual(const struct map_tables *tables, uint64_t offset)
{
    int64_t row = map_find_row(tables, offset);
    uint32_t rule = row < 0 ? RULE_SPECIAL : tables->rows[row].rule;
    return RULE_KIND(rule) == RULE_RSP && RULE_CFA_WORDS(rule) == 1;
}

/*
 * A function that jumps on to others, which may look, is no trouble: the return address is put back
 * when it jumps. Of code whose unwind information is a guess nobody knows what it looks at.
 */
bool timing_must_not(uint64_t target, uint64_t function, bool is_final)
{
    const struct walk_modules *modules = guest->modules;
    if (!timing_is_on())
        return false;
    uint32_t index = modules_find(modules, function);
    if (!is_final || index == UINT32_MAX || !modules->items[index].tables)
        return true;
    if (target != function && modules_function(modules, target) == function)
        return true; /* it begins in its midst */
    const struct walk_module *m = &modules->items[index];
    if (!begins_as_usual(m->tables, function - m->base))
        return true;
    const struct map_range *range = map_find_unmarkable(m->tables, function - m->base);
    return range && (range->value || jumps_unseen(function));
}

/* --- returns ---------------------------------------------------------------------------------- */

/* The site whose callee has come back: behind rax lie the flags, and the real rax. */
ALWAYS_INLINE void returned_to(const struct slow_frame *f, struct call *c)
{
    const uint32_t number = (uint32_t)f->site & ~TIMING_RETURN;
    c->module = edited_by_site(number);
    c->site = edited_site(c->module, number);
    c->is_tail = false;
    c->how.site = number;
    c->sp = (uint64_t)(uintptr_t)&f->above[1];
    c->new_slot = c->sp - 8;
    c->slot = slot_at(c->site, c->sp, f->rbp);
}

/* What has come back from a call of `own`; NULL: that is not known any more. */
ALWAYS_INLINE struct arena_record *returned(const struct call *c, struct arena_record *own)
{
    struct arena_record *callee = *record_of(c->new_slot);
    if (c->site->flags & SITE_TO_LEAF) /* the mirror is not told of such */
        callee = (struct arena_record *)(uintptr_t)
                     own->child_by_site[RECORD_TIME_PLACES + c->how.site - own->first_site];
    struct arena_record *at = callee;
    while (at && at->flags & RECORD_TAIL)
        at = record_above(at);
    return at && record_above(at) == own ? callee : NULL;
}

ALWAYS_INLINE void come_back_to(const struct call *c, struct arena_record *own)
{
    bool has_places = c->how.site - own->first_site < own->site_count;
    struct arena_record *callee = has_places ? returned(c, own) : NULL;
    if (!callee)
        callee = exact_state.current ? exact_state.current : own;
    time_passes(callee);
    exact_state.current = own;
    time_skips();
}

void timing_come_back(struct exact_thread *t, const struct slow_frame *f)
{
    struct call c = {0};
    enum slow_reason why;
    if (!t->is_timed)
        return;
    returned_to(f, &c);
    come_back_to(&c, find_own(t, f, &c, &why));
}

/* --- calls ------------------------------------------------------------------------------------ */

/*
 * The stub could have done it, if the record of its function had been the current one: it is now,
 * and the stub begins again.
 */
ALWAYS_INLINE bool begin_again(struct slow_frame *f)
{
    struct call c;
    call_at(f, &c);
    struct arena_record *own = c.slot ? find_in_mirror(c.slot) : NULL;
    if (!own || own == exact_state.current || !c.comes_back ||
        c.how.site - own->first_site >= own->site_count)
        return false;
    time_passes(own);
    exact_state.current = own;
    time_skips();
    f->stub -= STUB_AGAIN;
    return true;
}

STUB_TEXT bool timing_quickly(struct exact_thread *t, struct slow_frame *f)
{
    const bool is_return = f->site & TIMING_RETURN;
    if (!t->is_timed)
        return is_return;
    if (!is_return)
        return begin_again(f);
    struct call c;
    returned_to(f, &c);
    struct arena_record *own = c.slot ? find_in_mirror(c.slot) : NULL;
    if (!own || c.how.site - own->first_site >= own->site_count)
        return false;
    come_back_to(&c, own);
    return true;
}

void timing_put_back(const struct call *c, struct arena_record *own, struct arena_record *entered)
{
    uint64_t *slot = (uint64_t *)c->new_slot, real = edited_real_return(*slot);
    exact_state.current = own;
    if (real == *slot)
        return;
    while (own->flags & RECORD_TAIL)
        own = record_above(own);
    *slot = real;
    mirror_put(c->new_slot, entered, real);
    exact_state.current = own->parent ? record_above(own) : own;
}
