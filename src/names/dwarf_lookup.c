#include "names/dwarf_lookup.h"

#include "base/search.h"

#include <dwarf.h>
#include <string.h>

/* Inlining and nesting deeper than this is damage, not code. */
enum { DEPTH_MAX = 512 };

struct unit {
    Dwarf_Die die;  /* has the line table; a skeleton if the rest is in a file of its own */
    Dwarf_Die tree; /* has the functions */
};

struct unit_range {
    uint64_t start, end;
    uint64_t end_so_far; /* the greatest of this range and all before it */
    uint32_t unit;
};

/* A place that is looked up: which one, and what is known of it so far. */
struct wanted {
    uint64_t address;
    uint32_t place; /* in the order of the offsets */
    uint32_t unit;
    uint32_t scope; /* the innermost function or inlined function that holds it, or 0 */
};

/* A function, or an inlined one in it. Number 0 is none. */
struct scope {
    uint32_t function; /* of the sources */
    uint32_t outer;    /* scope that it is inlined in; 0: it is a function of its own */
    uint32_t call_file, call_line, call_column;
};

/* From entries to numbers: open addressing by the place of the entry in memory. */
struct die_table {
    struct die_slot {
        const void *die;
        uint32_t number;
    } * slots;
    size_t room, count;
};

struct lookup {
    Dwarf *dwarf;
    uint64_t base;
    struct sources *out;
    VEC(struct unit) units;
    VEC(struct unit_range) ranges;
    VEC(struct scope) scopes;
    struct die_table functions;
    struct die_table qualifiers; /* of the current unit: of functions and units, in the strings */
    Dwarf_Files *files;          /* of the current unit */
    size_t file_count;
    const char *folder; /* that it was compiled in */
};

/* ---- Units ----------------------------------------------------------------------------------- */

static void add_ranges(struct lookup *l, Dwarf_Die *die, uint32_t unit)
{
    Dwarf_Addr base, start, end;
    for (ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &start, &end)) > 0;)
        if (start < end)
            vec_push(&l->ranges, (struct unit_range){start, end, 0, unit});
}

static int by_start(const void *a, const void *b)
{
    const struct unit_range *x = a, *y = b;
    return x->start != y->start ? (x->start > y->start) - (x->start < y->start)
                                : (x->unit > y->unit) - (x->unit < y->unit);
}

static void list_units(struct lookup *l)
{
    Dwarf_CU *cu = NULL;
    struct unit unit;
    uint8_t type;
    while (dwarf_get_units(l->dwarf, cu, &cu, NULL, &type, &unit.die, &unit.tree) == 0) {
        if (type != DW_UT_compile && type != DW_UT_skeleton)
            continue;
        if (type != DW_UT_skeleton || !unit.tree.addr)
            unit.tree = unit.die;
        add_ranges(l, &unit.die, (uint32_t)l->units.count);
        vec_push(&l->units, unit);
    }
    if (l->ranges.count)
        qsort(l->ranges.items, l->ranges.count, sizeof *l->ranges.items, by_start);
    uint64_t most = 0;
    for (size_t i = 0; i < l->ranges.count; i++) {
        most = l->ranges.items[i].end > most ? l->ranges.items[i].end : most;
        l->ranges.items[i].end_so_far = most;
    }
}

/* The unit of an address, or UINT32_MAX. Ranges may overlap: what the linker threw away is left at
 * address 0 or so. The one that begins last is the real one. */
static uint32_t unit_at(const struct lookup *l, uint64_t address)
{
    size_t i;
    SEARCH(i, l->ranges.count, l->ranges.items[i].start <= address);
    while (i-- > 0 && l->ranges.items[i].end_so_far > address)
        if (address < l->ranges.items[i].end)
            return l->ranges.items[i].unit;
    return UINT32_MAX;
}

/* ---- Functions ------------------------------------------------------------------------------- */

static struct die_slot *find_slot(const struct die_table *t, const void *die)
{
    size_t i = hash_bytes(&die, sizeof die) & (t->room - 1);
    while (t->slots[i].die && t->slots[i].die != die)
        i = (i + 1) & (t->room - 1);
    return &t->slots[i];
}

/* The slot of an entry; without a `die` when it is new, which the caller then fills in. */
static struct die_slot *slot_for(struct die_table *t, const void *die)
{
    if (t->count * 2 >= t->room) {
        struct die_table bigger = {.room = t->room ? t->room * 2 : 1024, .count = t->count};
        bigger.slots = must_calloc(bigger.room, sizeof *bigger.slots);
        for (size_t i = 0; i < t->room; i++)
            if (t->slots[i].die)
                *find_slot(&bigger, t->slots[i].die) = t->slots[i];
        free(t->slots);
        *t = bigger;
    }
    struct die_slot *slot = find_slot(t, die);
    t->count += !slot->die;
    return slot;
}

/* Tables of split files leave out the folder, which their skeleton knows. */
static uint32_t add_file(struct lookup *l, const char *name)
{
    if (!name || *name == '/' || !*name || !l->folder)
        return strings_add(&l->out->strings, name ? name : "");
    char *path = must_format("%s/%s", l->folder, name);
    uint32_t added = strings_add(&l->out->strings, path);
    free(path);
    return added;
}

static const char *string_at(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    return dwarf_attr_integrate(die, name, &attribute) ? dwarf_formstring(&attribute) : NULL;
}

/* Notes for every function in namespaces and types what stands before its name. */
static void note_qualifiers(struct lookup *l, Dwarf_Die *parent, const char *qualifier,
                            unsigned depth)
{
    Dwarf_Die die;
    if (depth >= DEPTH_MAX || dwarf_child(parent, &die) != 0)
        return;
    do {
        int tag = dwarf_tag(&die);
        if (tag == DW_TAG_subprogram && *qualifier) {
            *slot_for(&l->qualifiers, die.addr) =
                (struct die_slot){die.addr, strings_add(&l->out->strings, qualifier)};
        } else if (tag == DW_TAG_namespace || tag == DW_TAG_class_type ||
                   tag == DW_TAG_structure_type || tag == DW_TAG_union_type) {
            const char *name = dwarf_diename(&die);
            if (!name)
                name = tag == DW_TAG_namespace ? "(anonymous namespace)" : "(unnamed)";
            char *inner = must_format("%s%s::", qualifier, name);
            note_qualifiers(l, &die, inner, depth + 1);
            free(inner);
        }
    } while (dwarf_siblingof(&die, &die) == 0);
}

/* "std::vector<int>::" and the like: entries do not say what holds them, so the unit that this one
 * was declared in is read once. */
static const char *qualifier_of(struct lookup *l, Dwarf_Die *die)
{
    Dwarf_Die declared = *die, unit;
    Dwarf_Attribute attribute;
    for (int i = 0; i < 8 && (dwarf_attr(&declared, DW_AT_abstract_origin, &attribute) ||
                              dwarf_attr(&declared, DW_AT_specification, &attribute));
         i++)
        if (!dwarf_formref_die(&attribute, &declared))
            return "";
    if (!dwarf_diecu(&declared, &unit, NULL, NULL))
        return "";
    struct die_slot *slot = slot_for(&l->qualifiers, unit.addr);
    if (!slot->die) {
        *slot = (struct die_slot){unit.addr, 0};
        note_qualifiers(l, &unit, "", 0);
    }
    slot = find_slot(&l->qualifiers, declared.addr);
    return slot->die ? strings_get(&l->out->strings, slot->number) : "";
}

/*
 * As the linker knows it, where the two differ. Compilers leave that out for what no linker sees,
 * such as members of anonymous namespaces; then it is as the source has it, without parameters.
 */
static uint32_t name_of(struct lookup *l, Dwarf_Die *die)
{
    const char *name = string_at(die, DW_AT_linkage_name);
    if (!name)
        name = string_at(die, DW_AT_MIPS_linkage_name);
    if (name)
        return strings_add(&l->out->strings, name);
    name = string_at(die, DW_AT_name);
    if (!name)
        return 0;
    char *full = must_format("%s%s", qualifier_of(l, die), name);
    uint32_t added = strings_add(&l->out->strings, full);
    free(full);
    return added;
}

static uint32_t function_for(struct lookup *l, Dwarf_Die *die, bool is_inlined)
{
    struct die_slot *slot = slot_for(&l->functions, die->addr);
    if (slot->die)
        return slot->number;
    uint32_t number = (uint32_t)l->out->functions.count;
    *slot = (struct die_slot){die->addr, number};
    struct ctp_function f = {.module = CTP_NONE};
    Dwarf_Addr base, start, end;
    if (!is_inlined && dwarf_ranges(die, 0, &base, &start, &end) > 0) {
        f.size = end - start;
        f.offset = start - l->base;
    }
    int line = 0;
    const char *file = dwarf_decl_file(die);
    f.name = name_of(l, die);
    if (file && dwarf_decl_line(die, &line) == 0 && line > 0) {
        f.file = add_file(l, file);
        f.line = (uint32_t)line;
    }
    vec_push(&l->out->functions, f);
    return number;
}

/* An inlined function is what it is an instance of: each has the same record. */
static uint32_t inlined_function(struct lookup *l, Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    Dwarf_Die origin;
    if (dwarf_attr(die, DW_AT_abstract_origin, &attribute) &&
        dwarf_formref_die(&attribute, &origin))
        return function_for(l, &origin, true);
    return function_for(l, die, true);
}

static uint32_t number_at(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    Dwarf_Word value;
    return dwarf_attr(die, name, &attribute) && dwarf_formudata(&attribute, &value) == 0 &&
                   value <= UINT32_MAX
               ? (uint32_t)value
               : 0;
}

static uint32_t file_name(struct lookup *l, uint32_t index)
{
    bool known = l->files && index < l->file_count;
    return add_file(l, known ? dwarf_filesrc(l->files, index, NULL, NULL) : NULL);
}

/* ---- The functions of a unit, and what is inlined in them ------------------------------------ */

/* Part of the wanted places, sorted by address. */
struct span {
    struct wanted *items;
    size_t count;
};

static size_t first_from(struct span span, uint64_t address)
{
    size_t i;
    SEARCH(i, span.count, span.items[i].address < address);
    return i;
}

/*
 * Whether the entry's code holds a place. With a scope, it becomes the scope of those places.
 * `hull` is the part of the span from the first to the last of them; what lies between need not be
 * held.
 */
static bool holds(Dwarf_Die *die, struct span span, uint32_t scope, struct span *hull)
{
    Dwarf_Addr base, start, end;
    size_t first = span.count, last = 0;
    for (ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &start, &end)) > 0;) {
        size_t from = first_from(span, start), to = first_from(span, end);
        if (from >= to)
            continue;
        first = from < first ? from : first;
        last = to > last ? to : last;
        for (size_t i = from; i < to && scope; i++)
            span.items[i].scope = scope;
    }
    *hull = (struct span){span.items + (first < last ? first : 0), first < last ? last - first : 0};
    return first < last;
}

static uint32_t add_scope(struct lookup *l, Dwarf_Die *die, uint32_t outer)
{
    struct scope scope = {.outer = outer};
    if (dwarf_tag(die) == DW_TAG_inlined_subroutine) {
        scope.function = inlined_function(l, die);
        scope.call_file = file_name(l, number_at(die, DW_AT_call_file));
        scope.call_line = number_at(die, DW_AT_call_line);
        scope.call_column = number_at(die, DW_AT_call_column);
    } else {
        scope.function = function_for(l, die, false);
    }
    vec_push(&l->scopes, scope);
    return (uint32_t)l->scopes.count - 1;
}

enum walk_extent {
    WALK_FUNCTIONS,  /* where compilers put functions */
    WALK_EVERYTHING, /* where the language allows them */
};

static void walk_children(struct lookup *l, Dwarf_Die *parent, struct span span, uint32_t outer,
                          enum walk_extent extent, unsigned depth);

static void walk_entry(struct lookup *l, Dwarf_Die *die, struct span span, uint32_t outer,
                       enum walk_extent extent, unsigned depth)
{
    struct span hull;
    int tag = dwarf_tag(die);
    switch (tag) {
    case DW_TAG_subprogram:
    case DW_TAG_inlined_subroutine:
        if (holds(die, span, 0, &hull)) {
            uint32_t scope = add_scope(l, die, tag == DW_TAG_subprogram ? 0 : outer);
            holds(die, span, scope, &hull);
            walk_children(l, die, hull, scope, extent, depth);
        } else if (tag == DW_TAG_subprogram && extent == WALK_EVERYTHING) {
            walk_children(l, die, span, outer, extent, depth);
        }
        break;
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
        /* A block may leave out its ranges; those within it then say what they hold. */
        if (!dwarf_hasattr(die, DW_AT_ranges) && !dwarf_hasattr(die, DW_AT_low_pc))
            walk_children(l, die, span, outer, extent, depth);
        else if (holds(die, span, 0, &hull))
            walk_children(l, die, hull, outer, extent, depth);
        break;
    case DW_TAG_namespace:
    case DW_TAG_module:
        walk_children(l, die, span, outer, extent, depth);
        break;
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
    case DW_TAG_enumeration_type:
    case DW_TAG_interface_type:
        if (extent == WALK_EVERYTHING)
            walk_children(l, die, span, outer, extent, depth);
        break;
    default:
        break;
    }
}

static void walk_children(struct lookup *l, Dwarf_Die *parent, struct span span, uint32_t outer,
                          enum walk_extent extent, unsigned depth)
{
    Dwarf_Die die;
    if (depth >= DEPTH_MAX || dwarf_child(parent, &die) != 0)
        return;
    do
        walk_entry(l, &die, span, outer, extent, depth + 1);
    while (dwarf_siblingof(&die, &die) == 0);
}

static void find_scopes(struct lookup *l, const struct unit *unit, struct span span)
{
    Dwarf_Die tree = unit->tree;
    l->files = NULL;
    l->file_count = 0;
    dwarf_getsrcfiles(&tree, &l->files, &l->file_count);
    walk_children(l, &tree, span, 0, WALK_FUNCTIONS, 0);
    for (size_t i = 0; i < span.count; i++)
        if (!span.items[i].scope) {
            walk_children(l, &tree, span, 0, WALK_EVERYTHING, 0);
            return;
        }
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static bool line_begins_by(Dwarf_Line *line, uint64_t address)
{
    Dwarf_Addr start;
    return dwarf_lineaddr(line, &start) == 0 && start <= address;
}

/* The row of a line table that holds an address, or NULL. */
static Dwarf_Line *line_at(Dwarf_Lines *lines, size_t count, uint64_t address)
{
    size_t i;
    SEARCH(i, count, line_begins_by(dwarf_onesrcline(lines, i), address));
    Dwarf_Line *line = i ? dwarf_onesrcline(lines, i - 1) : NULL;
    bool ends;
    return line && dwarf_lineendsequence(line, &ends) == 0 && !ends ? line : NULL;
}

static struct ctp_line position_of(struct lookup *l, Dwarf_Line *line)
{
    struct ctp_line out = {.function = CTP_NONE};
    int number = 0, column = 0;
    const char *file = line ? dwarf_linesrc(line, NULL, NULL) : NULL;
    if (!file)
        return out;
    out.file = add_file(l, file);
    if (dwarf_lineno(line, &number) == 0 && number > 0)
        out.line = (uint32_t)number;
    if (dwarf_linecol(line, &column) == 0 && column > 0)
        out.column = (uint32_t)column;
    return out;
}

/* Each function is where the one inlined in it was called; the innermost is where the code is. */
static void write_lines(struct lookup *l, const struct wanted *w, struct ctp_line at)
{
    struct source_place *place = &l->out->places.items[w->place];
    if (!w->scope && !at.line)
        return;
    place->first_line = (uint32_t)l->out->lines.count;
    for (uint32_t scope = w->scope; scope; scope = l->scopes.items[scope].outer) {
        const struct scope *s = &l->scopes.items[scope];
        at.function = s->function;
        vec_push(&l->out->lines, at);
        at = (struct ctp_line){CTP_NONE, s->call_file, s->call_line, s->call_column};
    }
    if (!w->scope)
        vec_push(&l->out->lines, at);
    place->line_count = (uint32_t)l->out->lines.count - place->first_line;
}

static void look_up_unit(struct lookup *l, struct unit *unit, struct span span)
{
    Dwarf_Lines *lines = NULL;
    size_t count = 0;
    l->scopes.count = 0;
    free(l->qualifiers.slots);
    l->qualifiers = (struct die_table){0};
    vec_push(&l->scopes, (struct scope){0});
    l->folder = string_at(&unit->die, DW_AT_comp_dir);
    find_scopes(l, unit, span);
    if (dwarf_getsrclines(&unit->die, &lines, &count) != 0)
        count = 0;
    for (size_t i = 0; i < span.count; i++)
        write_lines(l, &span.items[i],
                    position_of(l, line_at(lines, count, span.items[i].address)));
}

static int by_unit_and_address(const void *a, const void *b)
{
    const struct wanted *x = a, *y = b;
    if (x->unit != y->unit)
        return x->unit < y->unit ? -1 : 1;
    return (x->address > y->address) - (x->address < y->address);
}

void dwarf_lookup(Dwarf *dwarf, uint64_t base, const uint64_t *offsets, size_t count,
                  const struct lookup_progress *progress, struct sources *out)
{
    struct lookup l = {.dwarf = dwarf, .base = base, .out = out};
    struct wanted *wanted = must_calloc(count + 1, sizeof *wanted);
    list_units(&l);
    for (size_t i = 0; i < count; i++) {
        uint64_t address = offsets[i] + base;
        wanted[i] = (struct wanted){address, (uint32_t)i, unit_at(&l, address), 0};
        vec_push(&out->places, (struct source_place){.offset = offsets[i]});
    }
    qsort(wanted, count, sizeof *wanted, by_unit_and_address);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && wanted[end].unit == wanted[i].unit;)
            end++;
        if (wanted[i].unit != UINT32_MAX)
            look_up_unit(&l, &l.units.items[wanted[i].unit], (struct span){wanted + i, end - i});
        if (progress)
            progress->done(progress->context, end - i);
    }
    free(wanted);
    free(l.functions.slots);
    free(l.qualifiers.slots);
    vec_free(&l.units);
    vec_free(&l.ranges);
    vec_free(&l.scopes);
}
