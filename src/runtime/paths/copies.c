/*
 * Applies the plan of a module: its copies become a region near it, and jumps in the old code lead
 * there. Nobody runs the module's code meanwhile. What a place in the copies stands for is found by
 * their pieces.
 */
#include "runtime/paths/paths.h"

#include "arch/x86_64/syscall.h"
#include "base/search.h"
#include "runtime/edit/edit.h"
#include "runtime/edit/emit.h"
#include "runtime/guest.h"

#include <stdatomic.h>
#include <sys/syscall.h>

static struct copied_module copied[COPIES_MOST];
static _Atomic bool is_loaded[COPIES_MOST];
static _Atomic uint32_t copied_count; /* those that have ever been */

const struct copied_module *copies_at(uint32_t number)
{
    return number < copied_count && is_loaded[number] ? &copied[number] : NULL;
}

/* --- applying --------------------------------------------------------------------------------- */

struct sections {
    const struct plan_header *header;
    const uint8_t *code;
    const uint32_t *fixes;
    const struct plan_piece *pieces;
    const struct plan_hook *hooks;
    const struct plan_routine *routines;
    uint64_t code_bytes, fix_count, piece_count, hook_count, routine_count;
};

static bool take_sections(const struct edit_request *r, struct sections *s)
{
    const struct plan_header *h = r->plan;
    if (!edit_is_plan(r))
        return false;
    *s = (struct sections){.header = h,
                           .code = edit_section(r, PLAN_COPIES, 1, 1),
                           .fixes = edit_section(r, PLAN_COPY_FIXES, sizeof *s->fixes, 1),
                           .pieces = edit_section(r, PLAN_COPY_PIECES, sizeof *s->pieces, 1),
                           .hooks = edit_section(r, PLAN_COPY_HOOKS, sizeof *s->hooks, 1),
                           .routines = edit_section(r, PLAN_ROUTINES, sizeof *s->routines, 1),
                           .routine_count = h->sections[PLAN_ROUTINES].count,
                           .code_bytes = h->sections[PLAN_COPIES].count,
                           .fix_count = h->sections[PLAN_COPY_FIXES].count,
                           .piece_count = h->sections[PLAN_COPY_PIECES].count,
                           .hook_count = h->sections[PLAN_COPY_HOOKS].count};
    return s->code && s->fixes && s->pieces && s->hooks && s->routines &&
           s->piece_count < UINT32_MAX && s->code_bytes < UINT32_MAX >> COPY_FIX_BITS;
}

/* All that the plan leads to is where it should be. */
static bool is_sound(const struct edit_request *r, const struct sections *s)
{
    enum { JUMP_BYTES = 5 };
    bool good = s->header->path_count <= s->header->lost_counter &&
                s->header->lost_counter < s->header->counter_count;
    for (uint64_t i = 0; i < s->fix_count; i++)
        good &= (s->fixes[i] >> COPY_FIX_BITS) + 4ul <= s->code_bytes;
    for (uint64_t i = 0; i < s->piece_count; i++)
        good &= (uint64_t)s->pieces[i].start + s->pieces[i].bytes <= s->code_bytes;
    for (uint64_t i = 0; i < s->hook_count; i++) {
        const struct plan_hook *h = &s->hooks[i];
        good &= (h->bytes == JUMP_BYTES && h->target < s->code_bytes) || h->bytes == 2;
        good &= edit_is_code(r, r->base + h->offset, r->base + h->offset + h->bytes);
    }
    return good;
}

static uint64_t from_fs(const void *variable)
{
    uint64_t fs;
    __asm__("mov %%fs:0, %0" : "=r"(fs));
    return (uint64_t)(uintptr_t)variable - fs;
}

static void write_copies(const struct copied_module *m, const struct sections *s, uint32_t number)
{
    const uint64_t what[] = {[FIX_MODULE] = m->base - (uint64_t)m->region.code,
                             [FIX_BASE] = m->base,
                             [FIX_TABLE] = from_fs(&paths_table),
                             [FIX_MIRROR] = from_fs(&paths_mirror),
                             [FIX_SLOT] = number * sizeof(uint64_t)};
    uint8_t *to = m->region.code;
    const uint8_t *from = s->code;
    uint64_t count = s->code_bytes;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
    for (uint64_t i = 0; i < s->fix_count; i++) {
        unsigned kind = s->fixes[i] & ((1u << COPY_FIX_BITS) - 1);
        uint8_t *at = m->region.code + (s->fixes[i] >> COPY_FIX_BITS);
        uint32_t value;
        __builtin_memcpy(&value, at, sizeof value);
        value += kind <= FIX_SLOT ? (uint32_t)what[kind] : 0;
        __builtin_memcpy(at, &value, sizeof value);
    }
}

static void write_hooks(const struct copied_module *m)
{
    for (uint32_t i = 0; i < m->hook_count; i++) {
        const struct plan_hook *h = &m->hooks[i];
        struct emitter e = {.at = (uint8_t *)m->base + h->offset};
        if (h->bytes == 2) {
            emit_u8(&e, 0xeb);
            emit_u8(&e, (h->target - (h->offset + 2)) & 255u);
        } else {
            emit_jump(&e, m->region.code + h->target);
        }
    }
}

/* What stands for the module's code, for all who walk stacks. */
static bool describe(const struct copied_module *m, struct stub_layout *layouts, uint32_t *offsets)
{
    const struct stub_row moved = {.flags = ROW_MOVES}, inserted = {0};
    uint32_t shapes[] = {rows_shape(&inserted, 1, 1), rows_shape(&moved, 1, 2)};
    if (shapes[0] == ROWS_NO_SHAPE || shapes[1] == ROWS_NO_SHAPE)
        return false;
    for (uint32_t i = 0; i < m->piece_count; i++) {
        const struct plan_piece *p = &m->pieces[i];
        layouts[i] = (struct stub_layout){p->start, (uint16_t)shapes[p->moves != 0], p->bytes};
        offsets[i] = p->offset;
    }
    return true;
}

static uint32_t free_number(void)
{
    uint32_t i = 0;
    while (i < copied_count && is_loaded[i])
        i++;
    return i;
}

static bool map_copies(struct copied_module *m, const struct sections *s)
{
    uint64_t data =
        s->piece_count * sizeof(struct stub_layout) + (s->piece_count + 1) * sizeof(uint32_t);
    uint64_t last = s->hooks[s->hook_count - 1].offset;
    return region_map(&m->region, m->base, m->base + last, s->code_bytes, data, 0);
}

static void count_functions(const struct edit_request *r)
{
    struct paths_process *said = paths_process_in(guest->arena);
    const struct plan_header *h = r->plan;
    uint64_t count = h->sections[PLAN_ROUTINES].count;
    const struct plan_routine *routines = edit_section(r, PLAN_ROUTINES, sizeof *routines, 1);
    for (uint64_t i = 0; routines && i < count; i++)
        *(routines[i].paths ? &said->functions : &said->others) += 1;
    said->bytes += h->sections[PLAN_COPIES].count;
}

static bool apply(struct edit_request *r)
{
    struct sections s;
    uint32_t number = free_number();
    if (number == COPIES_MOST || !take_sections(r, &s) || !is_sound(r, &s))
        return false;
    struct copied_module m = {.base = r->base,
                              .module_id = r->module_id,
                              .counter_count = s.header->counter_count,
                              .plan = r->plan,
                              .plan_bytes = r->plan_bytes,
                              .pieces = s.pieces,
                              .piece_count = (uint32_t)s.piece_count,
                              .hooks = s.hooks,
                              .hook_count = (uint32_t)s.hook_count,
                              .routines = s.routines,
                              .routine_count = (uint32_t)s.routine_count,
                              .lost_counter = s.header->lost_counter};
    if (!map_copies(&m, &s))
        return false;
    struct stub_layout *layouts = (void *)m.region.data;
    uint32_t *offsets = (uint32_t *)(layouts + m.piece_count);
    if (!describe(&m, layouts, offsets) || !counters_add(number, m.counter_count, m.module_id) ||
        !edit_protect(r, true)) {
        region_unmap(&m.region);
        return false;
    }
    copied[number] = m;
    write_copies(&m, &s, number);
    region_publish(&m.region, &(struct region_tables){.base = m.base,
                                                      .offsets = offsets,
                                                      .layouts = layouts,
                                                      .site_count = m.piece_count,
                                                      .shapes = rows_shapes,
                                                      .rows = rows_all});
    is_loaded[number] = true;
    if (number == copied_count)
        copied_count = number + 1;
    write_hooks(&m);
    edit_protect(r, false);
    return true;
}

void copies_edit(struct edit_request *r)
{
    if (guest->arena->detach || guest->arena->not_resumed || !edit_ask_plan(r))
        return;
    const struct plan_header *h = r->plan;
    bool is_wanted = edit_is_plan(r) && h->sections[PLAN_COPIES].count;
    bool is_edited = is_wanted && apply(r);
    if (edit_is_plan(r))
        count_functions(r);
    if (is_wanted && !is_edited)
        guest->arena->modules_not_edited++;
    edit_forget_plan(r, is_edited);
}

void copies_unload(uint64_t start, uint64_t end)
{
    for (uint32_t i = 0; i < copied_count; i++) {
        struct copied_module *m = &copied[i];
        if (!is_loaded[i] || m->base < start || m->base >= end)
            continue;
        is_loaded[i] = false;
        counters_remove(i);
        struct copied_module gone = *m;
        region_unmap(&gone.region);
        raw_syscall3(SYS_munmap, (long)gone.plan, (long)gone.plan_bytes, 0);
    }
}

/* --- finding ---------------------------------------------------------------------------------- */

/* A jump to the copies stands for where it leads. */
static uint64_t behind_hook(const struct copied_module *m, uint64_t pc)
{
    uint32_t i;
    uint64_t offset = pc - m->base;
    SEARCH(i, m->hook_count, m->hooks[i].offset < offset);
    bool is_one = i < m->hook_count && m->hooks[i].offset == offset && m->hooks[i].bytes > 2;
    return is_one ? (uint64_t)m->region.code + m->hooks[i].target : pc;
}

enum walk_left copies_leave(struct walk_registers *r, uint64_t *restored_below)
{
    (void)restored_below;
    for (uint32_t n = 0; n < copied_count; n++) {
        const struct copied_module *m = copies_at(n);
        if (!m)
            continue;
        uint64_t at = behind_hook(m, r->value[X86_RIP]) - (uint64_t)m->region.code;
        if (at >= m->region.code_bytes)
            continue;
        uint32_t i;
        SEARCH(i, m->piece_count, m->pieces[i].start <= at);
        if (!i)
            return WALK_NOT_LEFT;
        const struct plan_piece *p = &m->pieces[i - 1];
        r->value[X86_RIP] = m->base + p->offset + (p->moves ? at - p->start : 0);
        return WALK_LEFT;
    }
    return WALK_LEFT;
}

/* The piece of the copies that stands for a place of the module; UINT32_MAX: none does. */
static uint32_t piece_of(const struct copied_module *m, uint64_t offset)
{
    uint32_t moved = UINT32_MAX;
    for (uint32_t i = 0; i < m->piece_count; i++) {
        const struct plan_piece *p = &m->pieces[i];
        if (p->offset == offset && !p->moves)
            return i;
        if (p->moves && offset >= p->offset && offset - p->offset < p->bytes)
            moved = i;
    }
    return moved;
}

/*
 * Control goes on at a place in the old code of a function that is relocated: it is at the same
 * place of the copy, on a path whose beginning is not known.
 */
static void enter(const struct copied_module *m, uint32_t number, ucontext_t *context)
{
    static const uint8_t general[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                      REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11};
    uint64_t offset = (uint64_t)context->uc_mcontext.gregs[REG_RIP] - m->base;
    uint32_t piece = piece_of(m, offset), i;
    const uint64_t *counters = paths_table[number];
    SEARCH(i, m->routine_count, m->routines[i].first_piece <= piece);
    while (i && !m->routines[i - 1].paths)
        i--;
    if (piece == UINT32_MAX || !i || !counters)
        return;
    const struct plan_piece *p = &m->pieces[piece];
    uint64_t value = (uint64_t)(counters + m->lost_counter);
    uint8_t to = m->routines[i - 1].number;
    if (to < sizeof general)
        context->uc_mcontext.gregs[general[to]] = (greg_t)value;
    else if (to >= 16 && to < 32 && context->uc_mcontext.fpregs)
        __builtin_memcpy(&context->uc_mcontext.fpregs->_xmm[to - 16], &value, sizeof value);
    else
        return;
    context->uc_mcontext.gregs[REG_RIP] =
        (greg_t)(m->region.code + p->start + (p->moves ? offset - p->offset : 0));
}

void copies_enter(ucontext_t *context)
{
    uint64_t pc = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
    for (uint32_t n = 0; n < copied_count; n++) {
        const struct copied_module *m = copies_at(n);
        if (m && pc >= m->base && pc - m->base <= m->hooks[m->hook_count - 1].offset + 16ul) {
            enter(m, n, context);
            return;
        }
    }
}
