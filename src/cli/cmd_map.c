/* calltrail map: prints the map of one module. Addresses are those of the file, as readelf's. */
#include "base/json.h"
#include "cli/commands.h"
#include "elf/program_kind.h"
#include "elf/symbols.h"
#include "map/cache.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: calltrail map FILE [--functions] [--unwind] [--json]\n"
    "\n"
    "Prints what calltrail knows of an x86-64 program, shared library or vdso image.\n"
    "\n"
    "  --functions  every function: address, size, names\n"
    "  --unwind     every unwind row: where it begins, CFA, saved registers\n"
    "  --json       the same as JSON\n";

static const char *const reg_names[X86_COUNT] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi",
                                                 "rbp", "rsp", "r8",  "r9",  "r10", "r11",
                                                 "r12", "r13", "r14", "r15", "rip"};

static const char *reg_name(unsigned reg)
{
    return reg < X86_COUNT ? reg_names[reg] : "?";
}

/* The places in the order of the columns: AT_RIP last, as readelf has it. */
static const struct {
    uint8_t at;
    const char *name;
} columns[] = {{AT_RBX, "rbx"}, {AT_RBP, "rbp"}, {AT_R12, "r12"}, {AT_R13, "r13"},
               {AT_R14, "r14"}, {AT_R15, "r15"}, {AT_RSP, "rsp"}, {AT_RIP, "ra"}};

enum { COLUMN_COUNT = sizeof columns / sizeof columns[0], TEXT_SIZE = 64 };

static void cfa_text(const struct map_special *s, char *text)
{
    char index[16] = "";
    switch (s->cfa_kind) {
    case CFA_REG:
        snprintf(text, TEXT_SIZE, "%s%+d", reg_name(s->reg), s->offset);
        break;
    case CFA_DEREF:
        if (s->index_reg != X86_NONE)
            snprintf(index, sizeof index, "+8*%s", reg_name(s->index_reg));
        snprintf(text, TEXT_SIZE, "*(%s%s%+d)%+d", reg_name(s->reg), index, s->offset, s->add);
        break;
    case CFA_PLT:
        snprintf(text, TEXT_SIZE, "plt(%d)", s->offset);
        break;
    case CFA_SIGNAL:
        snprintf(text, TEXT_SIZE, "signal");
        break;
    case CFA_SWITCHED:
        snprintf(text, TEXT_SIZE, "switched");
        break;
    case CFA_END:
        snprintf(text, TEXT_SIZE, "end");
        break;
    case CFA_NONE:
        snprintf(text, TEXT_SIZE, "none");
        break;
    default:
        snprintf(text, TEXT_SIZE, "unknown");
        break;
    }
}

static bool has_places(const struct map_special *s)
{
    return s->cfa_kind == CFA_REG || s->cfa_kind == CFA_DEREF || s->cfa_kind == CFA_PLT;
}

static void place_text(const struct map_place *p, bool is_rsp, char *text)
{
    switch (p->kind) {
    case PLACE_SAME:
        snprintf(text, TEXT_SIZE, "%s", is_rsp ? "cfa" : "-");
        break;
    case PLACE_CFA:
        snprintf(text, TEXT_SIZE, "c%+d", p->offset);
        break;
    case PLACE_MEMORY:
        snprintf(text, TEXT_SIZE, "*(%s%+d)", reg_name(p->reg), p->offset);
        break;
    case PLACE_REG:
        snprintf(text, TEXT_SIZE, "%s", reg_name(p->reg));
        break;
    default:
        snprintf(text, TEXT_SIZE, "lost");
        break;
    }
}

static void print_rows(const struct map *map, struct json *json)
{
    if (json)
        json_open(json, "unwind", '[');
    else
        puts("address             CFA            rbx     rbp     r12     r13     r14     r15     "
             "rsp     ra");
    for (uint32_t i = 0; i < map->tables.row_count; i++) {
        struct map_special s = map_spell_rule(&map->tables, i);
        uint64_t address = map->header->base + map->tables.rows[i].pc;
        const char *guessed = s.flags & SPECIAL_GUESSED ? "  (decoded)" : "";
        char text[TEXT_SIZE];
        cfa_text(&s, text);
        if (json) {
            json_open(json, NULL, '{');
            json_unsigned(json, "address", address);
            json_string(json, "cfa", text);
        } else {
            printf("%016" PRIx64 "    %-14s", address, text);
        }
        for (unsigned k = 0; has_places(&s) && k < COLUMN_COUNT; k++) {
            place_text(&s.place[columns[k].at], columns[k].at == AT_RSP, text);
            if (json)
                json_string(json, columns[k].name, text);
            else
                printf(" %-7s", text);
        }
        if (json) {
            json_bool(json, "decoded", guessed[0] != '\0');
            json_bool(json, "caller_was_interrupted", s.flags & SPECIAL_EXACT_PC);
            json_close(json, '}');
        } else {
            puts(guessed);
        }
    }
    if (json)
        json_close(json, ']');
}

static void print_whole(const struct map *map, const struct map_function *whole)
{
    const char *name = map_string(map, whole->name);
    if (*name)
        printf("  (part of %s)", name);
    else
        printf("  (part of %" PRIx64 ")", map->header->base + whole->start);
}

static void print_function_text(const struct map *map, const struct map_function *f)
{
    const char *name = map_string(map, f->name);
    printf("%016" PRIx64 " %8u  %s", map->header->base + f->start, f->size, *name ? name : "-");
    for (uint32_t k = 0; k < f->alias_count && f->alias_first + k < map->alias_count; k++)
        printf(", %s", map_string(map, map->aliases[f->alias_first + k]));
    const struct map_function *whole = map_whole_of(map, f);
    if (whole != f)
        print_whole(map, whole);
    if (!(f->flags & (FUNCTION_HAS_CFI | FUNCTION_IS_GO)))
        fputs("  (no unwind information)", stdout);
    if (map_find_unmarkable(&map->tables, f->start))
        fputs("  (uses its return address)", stdout);
    putchar('\n');
}

static void print_function_json(const struct map *map, const struct map_function *f,
                                struct json *json)
{
    json_open(json, NULL, '{');
    json_unsigned(json, "start", map->header->base + f->start);
    json_unsigned(json, "size", f->size);
    json_string(json, "name", map_string(map, f->name));
    json_open(json, "aliases", '[');
    for (uint32_t k = 0; k < f->alias_count && f->alias_first + k < map->alias_count; k++)
        json_string(json, NULL, map_string(map, map->aliases[f->alias_first + k]));
    json_close(json, ']');
    json_bool(json, "symbol", f->flags & FUNCTION_HAS_SYMBOL);
    json_bool(json, "unwind", f->flags & (FUNCTION_HAS_CFI | FUNCTION_IS_GO));
    json_bool(json, "ifunc", f->flags & FUNCTION_IFUNC);
    json_bool(json, "uses_return_address", map_find_unmarkable(&map->tables, f->start) != NULL);
    if (map_whole_of(map, f) != f)
        json_unsigned(json, "part_of", map->header->base + map_whole_of(map, f)->start);
    json_close(json, '}');
}

static void print_functions(const struct map *map, struct json *json)
{
    if (json)
        json_open(json, "functions", '[');
    for (uint32_t i = 0; i < map->function_count; i++) {
        if (json)
            print_function_json(map, &map->functions[i], json);
        else
            print_function_text(map, &map->functions[i]);
    }
    if (json)
        json_close(json, ']');
}

static void build_id_text(const struct map *map, char *text)
{
    text[0] = '\0';
    for (uint32_t i = 0; i < map->header->build_id_size; i++)
        snprintf(text + 2 * i, 3, "%02x", map->header->build_id[i]);
}

static uint32_t count_functions(const struct map *map, uint32_t flag)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < map->function_count; i++)
        n += (map->functions[i].flags & flag) != 0;
    return n;
}

static const struct {
    uint32_t bit;
    const char *name;
} sources[] = {{SYMBOLS_SYMTAB, ".symtab"},
               {SYMBOLS_DYNSYM, ".dynsym"},
               {SYMBOLS_DEBUG_FILE, "debug file"},
               {SYMBOLS_MINIDEBUG, ".gnu_debugdata"},
               {SYMBOLS_GO, ".gopclntab"}};

enum { SOURCE_COUNT = sizeof sources / sizeof sources[0] };

/* What kind of program it is; false for a library. */
static bool look_at_program(const char *path, struct program *out)
{
    struct elf_file file;
    if (elf_open_identity(path, &file, NULL) != CT_OK)
        return false;
    bool is_program = elf_program_entry(&file) != 0;
    if (is_program)
        *out = program_of(&file);
    elf_close(&file);
    return is_program;
}

static void print_summary_json(const struct map *map, const char *path, bool was_cached,
                               struct json *json)
{
    const struct map_header *h = map->header;
    char build_id[2 * sizeof h->build_id + 1];
    build_id_text(map, build_id);
    json_string(json, "file", path);
    json_string(json, "build_id", build_id);
    json_bool(json, "from_cache", was_cached);
    struct program program;
    if (look_at_program(path, &program)) {
        json_string(json, "program", program_kind_names[program.kind]);
        json_string(json, "program_reason", program.reason);
    }
    json_unsigned(json, "base", h->base);
    json_unsigned(json, "span_bytes", h->span);
    json_open(json, "names_from", '[');
    for (unsigned i = 0; i < SOURCE_COUNT; i++)
        if (h->symbol_sources & sources[i].bit)
            json_string(json, NULL, sources[i].name);
    json_close(json, ']');
    json_unsigned(json, "code_bytes", h->counts.bytes_code);
    json_unsigned(json, "code_bytes_cfi", h->counts.bytes_cfi);
    json_unsigned(json, "code_bytes_decoded", h->counts.bytes_decoded);
    json_bool(json, "go", h->flags & MAP_IS_GO);
    json_unsigned(json, "code_bytes_go", h->counts.bytes_go);
    json_unsigned(json, "function_count", map->function_count);
    json_unsigned(json, "functions_named", count_functions(map, FUNCTION_HAS_SYMBOL));
    json_unsigned(json, "functions_cold_parts", count_functions(map, FUNCTION_FRAGMENT));
    json_unsigned(json, "fdes", h->counts.fdes);
    json_unsigned(json, "fdes_left_out", h->counts.bad_fdes);
    json_unsigned(json, "rows", map->tables.row_count);
    json_unsigned(json, "rows_decoded", h->counts.rows_decoded);
    json_unsigned(json, "rows_unknown", h->counts.rows_unknown);
    json_unsigned(json, "special_rules", map->tables.special_count);
    json_unsigned(json, "corrections", map->tables.correction_count);
    json_unsigned(json, "map_bytes", h->file_size);
}

static void print_summary_text(const struct map *map, const char *path, bool was_cached)
{
    const struct map_header *h = map->header;
    char build_id[2 * sizeof h->build_id + 1];
    build_id_text(map, build_id);
    double code = h->counts.bytes_code ? (double)h->counts.bytes_code : 1;
    printf("%s\n", path);
    printf("  build-id    %s\n", *build_id ? build_id : "none");
    struct program program;
    if (look_at_program(path, &program) && program.kind != PROGRAM_ORDINARY)
        printf("  program     %s\n", program.reason);
    printf("  names       ");
    if (!h->symbol_sources)
        printf("none");
    for (unsigned i = 0, n = 0; i < SOURCE_COUNT; i++)
        if (h->symbol_sources & sources[i].bit)
            printf("%s%s", n++ ? ", " : "from ", sources[i].name);
    printf("\n  functions   %u, of which %u named, %u cold parts\n", map->function_count,
           count_functions(map, FUNCTION_HAS_SYMBOL), count_functions(map, FUNCTION_FRAGMENT));
    printf("  code        %" PRIu64 " bytes: %.2f%% described by CFI, ", h->counts.bytes_code,
           100 * (double)h->counts.bytes_cfi / code);
    if (h->flags & MAP_IS_GO)
        printf("%.2f%% by Go's table, ", 100 * (double)h->counts.bytes_go / code);
    printf("%.2f%% by decoding\n", 100 * (double)h->counts.bytes_decoded / code);
    printf("  unwind      %u rows from %" PRIu64 " FDEs, %" PRIu64 " unknown, %u special rules",
           map->tables.row_count, h->counts.fdes, h->counts.rows_unknown,
           map->tables.special_count);
    if (map->tables.correction_count)
        printf(", %u corrected by the code", map->tables.correction_count);
    if (h->counts.bad_fdes)
        printf(", %" PRIu64 " FDEs left out", h->counts.bad_fdes);
    printf("\n  map         %" PRIu64 " bytes, %s\n", h->file_size,
           was_cached ? "from the cache" : "made now");
}

int cmd_map(int argc, char **argv)
{
    static const struct option options[] = {{"functions", no_argument, NULL, 'f'},
                                            {"unwind", no_argument, NULL, 'u'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    bool functions = false, unwind = false, as_json = false;
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        switch (option) {
        case 'f':
            functions = true;
            break;
        case 'u':
            unwind = true;
            break;
        case 'j':
            as_json = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return finish_output();
        default:
            return option_error("map", argv);
        }
    }
    if (argc - optind != 1)
        return usage_error("map",
                           argc == optind ? "a FILE is required" : "only one FILE is allowed");

    const char *path = argv[optind];
    struct map_cache cache;
    struct map map;
    struct ct_error err;
    bool was_cached;
    map_cache_open(&cache);
    int status = map_for_file(&cache, path, &map, &was_cached, &err);
    if (cache.warning.text[0])
        fprintf(stderr, "calltrail: warning: %s\n", cache.warning.text);
    map_cache_close(&cache);
    if (status != CT_OK)
        return report_error(&err);

    struct json json = json_to(stdout);
    if (as_json) {
        json_open(&json, NULL, '{');
        print_summary_json(&map, path, was_cached, &json);
    } else if (!functions && !unwind) {
        print_summary_text(&map, path, was_cached);
    }
    if (functions)
        print_functions(&map, as_json ? &json : NULL);
    if (unwind)
        print_rows(&map, as_json ? &json : NULL);
    if (as_json)
        json_close(&json, '}');
    map_close(&map);
    return finish_output();
}
