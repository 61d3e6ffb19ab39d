/* Any bytes as an ELF file: a map is made or refused, and every lookup in it is safe. */
#include "elf/program_kind.h"
#include "map/map.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("input", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    char *bytes = NULL;
    size_t made = 0;
    FILE *out = open_memstream(&bytes, &made);
    struct ct_error err;
    int status = map_build(path, out, &err);
    fclose(out);
    struct map map;
    struct elf_file file;
    if (elf_open_identity(path, &file, NULL) == CT_OK) {
        if (program_of(&file).kind >= PROGRAM_KINDS)
            abort();
        elf_close(&file);
    }
    close(fd);
    if (status == CT_OK) {
        /* What map_build writes must always be a map that opens. */
        if (map_from_bytes(bytes, made, true, &map, &err) != CT_OK)
            abort();
        uint32_t last = 0;
        for (uint32_t i = 0; i < map.tables.row_count; i++) {
            if (i && map.tables.rows[i].pc <= last)
                abort();
            last = map.tables.rows[i].pc;
            if (map_find_row(&map.tables, last) != i)
                abort();
            map_spell_rule(&map.tables, i);
        }
        for (uint32_t i = 0; i < map.function_count; i++)
            if (strlen(map_string(&map, map.functions[i].name)) > size)
                abort();
    } else if (!memchr(err.text, '\0', sizeof err.text) || strchr(err.text, '\n')) {
        abort(); /* an error is one line */
    }
    free(bytes);
    return 0;
}
