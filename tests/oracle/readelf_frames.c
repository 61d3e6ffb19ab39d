/*
 * Reading readelf's tables. Each begins with a line about its CIE or FDE, then names its columns,
 * and then has a line for each position that the program stops at:
 *
 *     000000bc 0000000000000030 000000c0 FDE cie=00000000 pc=0000000000027280..00000000000273c1
 *        LOC           CFA      rbx   rbp   r12   ra
 *     0000000000027280 rsp+8    u     u     u     c-8
 *     0000000000027282 rsp+16   u     u     c-16  c-8
 */
#include "readelf_frames.h"

#include "readelf_run.h"

#include <string.h>

/* Debug files are not followed: their .eh_frame is empty, and looking for them takes longest. */
#define TABLES_OPTION "--debug-dump=frames-interp,no-follow-links"

enum { MAX_COLUMNS = 160 };

const char *const register_names[X86_COUNT] = {
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8",
    "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip",
};

uint8_t register_named(const char *name, size_t length)
{
    for (uint8_t reg = 0; length >= 2 && reg < X86_COUNT; reg++) {
        const char *known = register_names[reg];
        if (known[1] == name[1] && strncmp(known, name, length) == 0 && known[length] == '\0')
            return reg;
    }
    return X86_NONE;
}

uint8_t place_of_register(unsigned reg)
{
    switch (reg) {
    case X86_RIP:
        return AT_RIP;
    case X86_RSP:
        return AT_RSP;
    case X86_RBX:
        return AT_RBX;
    case X86_RBP:
        return AT_RBP;
    case X86_R12:
    case X86_R13:
    case X86_R14:
    case X86_R15:
        return (uint8_t)(AT_R12 + reg - X86_R12);
    default:
        return NO_PLACE;
    }
}

enum chunk { CHUNK_NONE, CHUNK_CIE, CHUNK_FDE };

struct table_reader {
    struct frames *frames;
    bool in_eh_frame; /* .debug_frame is dumped too */
    enum chunk chunk;
    uint8_t columns[MAX_COLUMNS]; /* which place each column is about, or NO_PLACE */
    unsigned column_count;
};

static int find_cie(const struct frames *f, uint64_t offset, uint32_t *index, struct ct_error *err)
{
    for (size_t i = f->cies.count; i-- > 0;) {
        if (f->cies.items[i].offset == offset) {
            *index = (uint32_t)i;
            return CT_OK;
        }
    }
    return ct_fail(err, "readelf names no CIE at %#llx", (unsigned long long)offset);
}

static int add_fde(struct frames *f, uint64_t offset, const char *rest, struct ct_error *err)
{
    struct frame_fde fde = {.offset = offset, .first_row = f->rows.count};
    const char *cie = strstr(rest, "cie=");
    const char *pc = strstr(rest, " pc=");
    uint64_t cie_offset;
    if (cie == NULL || pc == NULL)
        return ct_fail(err, "cannot read readelf's FDE line: %s", rest);
    parse_hex(cie + 4, &cie_offset);
    pc = parse_hex(pc + 4, &fde.start);
    if (strncmp(pc, "..", 2) != 0)
        return ct_fail(err, "cannot read readelf's FDE line: %s", rest);
    parse_hex(pc + 2, &fde.end);
    CT_TRY(find_cie(f, cie_offset, &fde.cie, err));
    vec_push(&f->fdes, fde);
    return CT_OK;
}

/* CIE "zRS" cf=1 df=-8 ra=16 */
static int add_cie(struct frames *f, uint64_t offset, const char *rest, struct ct_error *err)
{
    struct frame_cie cie = {.offset = offset};
    const char *open = strchr(rest, '"');
    const char *close = open ? strchr(open + 1, '"') : NULL;
    const char *ra = close ? strstr(close, " ra=") : NULL;
    if (ra == NULL)
        return ct_fail(err, "cannot read readelf's CIE line: %s", rest);
    int64_t column;
    parse_number(ra + 4, &column);
    cie.ra = column >= 0 && column < X86_COUNT ? (uint8_t)column : X86_NONE;
    cie.signal = memchr(open, 'S', (size_t)(close - open)) != NULL;
    vec_push(&f->cies, cie);
    return CT_OK;
}

/* readelf prints no table for an FDE whose program does nothing: there, the CIE's row holds. */
static void end_table(struct table_reader *r)
{
    struct frames *f = r->frames;
    if (r->chunk != CHUNK_FDE)
        return;
    struct frame_fde *fde = &f->fdes.items[f->fdes.count - 1];
    if (fde->row_count > 0)
        return;
    const struct frame_cie *cie = &f->cies.items[fde->cie];
    struct frame_row row = {.cfa_reg = X86_NONE};
    if (cie->has_row)
        row = cie->row;
    row.pc = fde->start;
    vec_push(&f->rows, row);
    fde->row_count = 1;
}

static int begin_table(struct table_reader *r, const char *line, struct ct_error *err)
{
    end_table(r);
    r->chunk = CHUNK_NONE;
    r->column_count = 0;
    uint64_t offset;
    parse_hex(line, &offset);
    const char *rest;
    if ((rest = strstr(line, " FDE ")) != NULL) {
        CT_TRY(add_fde(r->frames, offset, rest, err));
        r->chunk = CHUNK_FDE;
    } else if ((rest = strstr(line, " CIE ")) != NULL) {
        CT_TRY(add_cie(r->frames, offset, rest, err));
        r->chunk = CHUNK_CIE;
    } else if (strstr(line, "ZERO terminator") == NULL) {
        return ct_fail(err, "cannot read readelf's line: %s", line);
    }
    return CT_OK;
}

/* "   LOC           CFA      rbx   rbp   ra" */
static int read_columns(struct table_reader *r, const char *line, struct ct_error *err)
{
    const char *at = strstr(line, " CFA ");
    if (at == NULL)
        return ct_fail(err, "cannot read readelf's column names: %s", line);
    r->column_count = 0;
    for (at = skip_spaces(at + 5); *at; at = skip_spaces(at)) {
        size_t length = strcspn(at, " ");
        uint8_t reg = register_named(at, length);
        bool is_ra = length == 2 && memcmp(at, "ra", 2) == 0;
        if (r->column_count == MAX_COLUMNS)
            return ct_fail(err, "readelf's table has too many columns: %s", line);
        r->columns[r->column_count++] = is_ra ? AT_RIP : place_of_register(reg);
        at += length;
    }
    return CT_OK;
}

/* One cell. Cells for DW_CFA_register are two words: "r2 (rcx)". NULL for what no cell looks like.
 */
static const char *read_cell(const char *at, uint8_t *said, int32_t *number)
{
    int64_t value = 0;
    switch (*at) {
    case 'c':
        *said = SAID_CFA;
        at = parse_number(at + 1, &value);
        break;
    case 'u':
        *said = SAID_UNSET;
        at++;
        break;
    case 's':
        *said = SAID_SAME;
        at++;
        break;
    case 'v':
        if (at[1] == 'e') {
            *said = SAID_VEXP;
            at += 4;
            break;
        }
        *said = SAID_VALUE;
        at = parse_number(at + 1, &value);
        break;
    case 'e':
        *said = SAID_EXP;
        at += 3;
        break;
    case 'r':
        *said = SAID_REG;
        at = parse_number(at + 1, &value);
        if (at[0] == ' ' && at[1] == '(')
            at += strcspn(at, ")") + 1;
        break;
    default:
        return NULL;
    }
    *number = (int32_t)value;
    return *at == ' ' || *at == '\0' ? at : NULL;
}

static const char *read_cfa(const char *at, struct frame_row *row)
{
    size_t length = strcspn(at, "+- ");
    if (length == 3 && memcmp(at, "exp", 3) == 0) {
        row->cfa_is_expression = true;
        return at + 3;
    }
    row->cfa_reg = register_named(at, length);
    int64_t offset;
    at = parse_number(at + length, &offset);
    row->cfa_offset = (int32_t)offset;
    return at;
}

static int read_row(struct table_reader *r, const char *line, struct ct_error *err)
{
    struct frame_row row = {.cfa_reg = X86_NONE};
    const char *at = skip_spaces(parse_hex(line, &row.pc));
    at = read_cfa(at, &row);
    for (unsigned i = 0; i < r->column_count; i++) {
        uint8_t said;
        int32_t number;
        at = read_cell(skip_spaces(at), &said, &number);
        if (at == NULL)
            return ct_fail(err, "cannot read readelf's row: %s", line);
        if (r->columns[i] != NO_PLACE) {
            row.said[r->columns[i]] = said;
            row.number[r->columns[i]] = number;
        }
    }
    if (*skip_spaces(at) != '\0')
        return ct_fail(err, "cannot read readelf's row: %s", line);

    struct frames *f = r->frames;
    if (r->chunk == CHUNK_CIE) {
        struct frame_cie *cie = &f->cies.items[f->cies.count - 1];
        cie->row = row;
        cie->has_row = true;
    } else {
        vec_push(&f->rows, row);
        f->fdes.items[f->fdes.count - 1].row_count++;
    }
    return CT_OK;
}

static int read_table_line(struct table_reader *r, const char *line, size_t length,
                           struct ct_error *err)
{
    if (length == 0 || readelf_section_line(line, &r->in_eh_frame) || !r->in_eh_frame)
        return CT_OK;
    if (readelf_entry_line(line, length))
        return begin_table(r, line, err);
    if (strncmp(line, "   LOC ", 7) == 0)
        return read_columns(r, line, err);
    if (r->chunk != CHUNK_NONE && length > 16 && line[16] == ' ')
        return read_row(r, line, err);
    return ct_fail(err, "cannot read readelf's line: %s", line);
}

int frames_read(const char *path, struct frames *out, struct ct_error *err)
{
    *out = (struct frames){0};
    strings_init(&out->texts);
    struct readelf_run run;
    CT_TRY(readelf_start(TABLES_OPTION, path, &run, err));
    struct table_reader reader = {.frames = out};
    int status = CT_OK;
    size_t length;
    char *line;
    while (status == CT_OK && (line = readelf_line(&run, &length)) != NULL)
        status = read_table_line(&reader, line, length, err);
    if (status == CT_OK)
        end_table(&reader);
    int finish = readelf_finish(&run, out->warning, sizeof out->warning, status ? NULL : err);
    return status == CT_OK ? finish : status;
}

void frames_free(struct frames *frames)
{
    vec_free(&frames->cies);
    vec_free(&frames->fdes);
    vec_free(&frames->rows);
    vec_free(&frames->details);
    strings_free(&frames->texts);
}
