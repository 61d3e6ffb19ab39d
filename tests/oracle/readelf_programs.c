/*
 * Reading readelf's dump of programs, for the FDEs whose tables leave something open. A program is
 * followed only as far as that: which expression is the CFA, which are the registers' rules, and
 * what is said to be undefined.
 *
 *     00000018 0000000000000024 0000001c FDE cie=00000000 pc=0000000000026000..0000000000026360
 *       DW_CFA_def_cfa_offset: 24
 *       DW_CFA_advance_loc: 10 to 0000000000026010
 *       DW_CFA_def_cfa_expression (DW_OP_breg7 (rsp): 40; DW_OP_deref)
 *       DW_CFA_expression: r6 (rbp) (DW_OP_breg6 (rbp): 0)
 */
#include "readelf_frames.h"
#include "readelf_run.h"

#include <string.h>

#define PROGRAMS_OPTION "--debug-dump=frames,no-follow-links"

enum action {
    DO_NOTHING,
    DO_ADVANCE,
    DO_SET_CFA,
    DO_CFA_EXPRESSION,
    DO_SET_REGISTER,
    DO_REGISTER_EXPRESSION,
    DO_UNDEFINE,
    DO_RESTORE,
    DO_REMEMBER_STATE,
    DO_RESTORE_STATE,
};

static const struct {
    const char *name; /* behind DW_CFA_ */
    enum action action;
} actions[] = {
    {"nop", DO_NOTHING},
    {"advance_loc", DO_ADVANCE},
    {"advance_loc1", DO_ADVANCE},
    {"advance_loc2", DO_ADVANCE},
    {"advance_loc4", DO_ADVANCE},
    {"set_loc", DO_ADVANCE},
    {"def_cfa", DO_SET_CFA},
    {"def_cfa_sf", DO_SET_CFA},
    {"def_cfa_register", DO_SET_CFA},
    {"def_cfa_offset", DO_NOTHING}, /* an expression stays one */
    {"def_cfa_offset_sf", DO_NOTHING},
    {"def_cfa_expression", DO_CFA_EXPRESSION},
    {"expression", DO_REGISTER_EXPRESSION},
    {"val_expression", DO_REGISTER_EXPRESSION},
    {"offset", DO_SET_REGISTER},
    {"offset_extended", DO_SET_REGISTER},
    {"offset_extended_sf", DO_SET_REGISTER},
    {"val_offset", DO_SET_REGISTER},
    {"val_offset_sf", DO_SET_REGISTER},
    {"register", DO_SET_REGISTER},
    {"same_value", DO_SET_REGISTER},
    {"GNU_negative_offset_extended", DO_SET_REGISTER},
    {"undefined", DO_UNDEFINE},
    {"restore", DO_RESTORE},
    {"restore_extended", DO_RESTORE},
    {"remember_state", DO_REMEMBER_STATE},
    {"restore_state", DO_RESTORE_STATE},
    {"GNU_args_size", DO_NOTHING},
};

struct program_reader {
    struct frames *frames;
    bool in_eh_frame;
    bool in_cie;
    struct frame_fde *fde; /* the wanted FDE whose program this is, or NULL */
    size_t cie_count, fde_count;
    uint32_t rows_done; /* of the FDE */
    uint64_t pc;
    struct frame_detail now;
    VEC(struct frame_detail) stack;
};

static int find_action(const char *name, size_t length, enum action *out, struct ct_error *err)
{
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strncmp(actions[i].name, name, length) == 0 && actions[i].name[length] == '\0') {
            *out = actions[i].action;
            return CT_OK;
        }
    }
    return ct_fail(err, "cannot follow readelf's DW_CFA_%s", name);
}

/* A row is complete. The table has one for it, at the same position. */
static int add_detail(struct program_reader *r, struct ct_error *err)
{
    struct frames *f = r->frames;
    const struct frame_fde *fde = r->fde;
    if (r->rows_done == fde->row_count || f->rows.items[fde->first_row + r->rows_done].pc != r->pc)
        return ct_fail(err, "readelf's program and table of the FDE at %#llx do not agree at %#llx",
                       (unsigned long long)fde->offset, (unsigned long long)r->pc);
    vec_push(&f->details, r->now);
    r->rows_done++;
    return CT_OK;
}

static int end_program(struct program_reader *r, struct ct_error *err)
{
    struct frames *f = r->frames;
    if (r->in_cie)
        f->cies.items[r->cie_count - 1].detail = r->now;
    r->in_cie = false;
    if (r->fde != NULL) {
        CT_TRY(add_detail(r, err));
        if (r->rows_done != r->fde->row_count)
            return ct_fail(err,
                           "readelf's table of the FDE at %#llx has more rows than its program",
                           (unsigned long long)r->fde->offset);
        r->fde->has_details = true;
    }
    r->fde = NULL;
    return CT_OK;
}

static int begin_program(struct program_reader *r, const char *line, struct ct_error *err)
{
    CT_TRY(end_program(r, err));
    struct frames *f = r->frames;
    uint64_t offset;
    parse_hex(line, &offset);
    r->stack.count = 0;
    if (strstr(line, " FDE ") != NULL) {
        if (r->fde_count == f->fdes.count || f->fdes.items[r->fde_count].offset != offset)
            return ct_fail(err, "readelf has no table for the FDE at %#llx",
                           (unsigned long long)offset);
        struct frame_fde *fde = &f->fdes.items[r->fde_count++];
        if (fde->wanted) {
            r->fde = fde;
            r->rows_done = 0;
            r->pc = fde->start;
            r->now = f->cies.items[fde->cie].detail;
            fde->first_detail = f->details.count;
        }
    } else if (strstr(line, " CIE") != NULL) {
        if (r->cie_count == f->cies.count || f->cies.items[r->cie_count].offset != offset)
            return ct_fail(err, "readelf has no table for the CIE at %#llx",
                           (unsigned long long)offset);
        r->cie_count++;
        r->in_cie = true;
        r->now = (struct frame_detail){0};
    }
    return CT_OK;
}

/* ": 10 to 0000000000026010", or ": 0000000000012464" for set_loc. */
static int advance(struct program_reader *r, const char *rest, struct ct_error *err)
{
    const char *to = strstr(rest, " to ");
    CT_TRY(add_detail(r, err));
    parse_hex(to ? to + 4 : skip_spaces(rest + 1), &r->pc);
    return CT_OK;
}

/* The text in the outermost parentheses. Ends the text within the line. */
static uint32_t keep_expression(struct program_reader *r, char *open)
{
    char *close = open ? strrchr(open, ')') : NULL;
    if (close == NULL)
        return strings_add(&r->frames->texts, "?");
    *close = '\0';
    return strings_add(&r->frames->texts, open + 1);
}

/* ": r6 (rbp) ..." Finds the place, and what stands behind the register's name. */
static uint8_t read_register(char *rest, char **behind)
{
    int64_t reg;
    char *at = strchr(rest, 'r');
    *behind = NULL;
    if (at == NULL)
        return NO_PLACE;
    at = (char *)parse_number(at + 1, &reg);
    if (at[0] == ' ' && at[1] == '(')
        at += strcspn(at, ")") + 1;
    *behind = at;
    return place_of_register((unsigned)reg);
}

static void set_register(struct program_reader *r, enum action action, char *rest)
{
    char *behind;
    uint8_t place = read_register(rest, &behind);
    if (place == NO_PLACE)
        return;
    struct frame_detail *now = &r->now;
    now->text[place] = 0;
    now->undefined[place] = action == DO_UNDEFINE;
    now->dropped[place] = action == DO_RESTORE && r->fde == NULL;
    if (action == DO_REGISTER_EXPRESSION)
        now->text[place] = keep_expression(r, strchr(behind, '('));
    if (action == DO_RESTORE && r->fde != NULL) {
        const struct frame_detail *initial = &r->frames->cies.items[r->fde->cie].detail;
        now->text[place] = initial->text[place];
        now->undefined[place] = initial->undefined[place];
        now->dropped[place] = initial->dropped[place];
    }
}

static int run_instruction(struct program_reader *r, char *name, struct ct_error *err)
{
    size_t length = strcspn(name, ": ");
    char *rest = name + length;
    enum action action = DO_NOTHING;
    CT_TRY(find_action(name, length, &action, err));
    switch (action) {
    case DO_NOTHING:
        break;
    case DO_ADVANCE:
        return r->fde != NULL ? advance(r, rest, err) : CT_OK;
    case DO_SET_CFA:
        r->now.cfa_is_set = true;
        r->now.cfa_text = 0;
        break;
    case DO_CFA_EXPRESSION:
        r->now.cfa_is_set = true;
        r->now.cfa_text = keep_expression(r, strchr(rest, '('));
        break;
    case DO_SET_REGISTER:
    case DO_REGISTER_EXPRESSION:
    case DO_UNDEFINE:
    case DO_RESTORE:
        set_register(r, action, rest);
        break;
    case DO_REMEMBER_STATE:
        vec_push(&r->stack, r->now);
        break;
    case DO_RESTORE_STATE:
        if (r->stack.count > 0)
            r->now = r->stack.items[--r->stack.count];
        break;
    }
    return CT_OK;
}

static int read_program_line(struct program_reader *r, char *line, size_t length,
                             struct ct_error *err)
{
    static const char start[] = "  DW_CFA_";
    if (length == 0 || readelf_section_line(line, &r->in_eh_frame) || !r->in_eh_frame)
        return CT_OK;
    if (line[0] == ' ') {
        if ((r->in_cie || r->fde != NULL) && strncmp(line, start, sizeof start - 1) == 0)
            return run_instruction(r, line + sizeof start - 1, err);
        return CT_OK;
    }
    return readelf_entry_line(line, length) ? begin_program(r, line, err) : CT_OK;
}

int frames_read_programs(const char *path, struct frames *frames, struct ct_error *err)
{
    struct readelf_run run;
    CT_TRY(readelf_start(PROGRAMS_OPTION, path, &run, err));
    struct program_reader reader = {.frames = frames};
    int status = CT_OK;
    size_t length;
    char *line;
    while (status == CT_OK && (line = readelf_line(&run, &length)) != NULL)
        status = read_program_line(&reader, line, length, err);
    if (status == CT_OK)
        status = end_program(&reader, err);
    vec_free(&reader.stack);
    int finish = readelf_finish(&run, frames->warning, sizeof frames->warning, status ? NULL : err);
    return status == CT_OK ? finish : status;
}
