#include "same_tick_read.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>

struct whole_stack {
    const struct outside_process *process;
    uint64_t sp, bytes;
    const char *stack;
};

static bool find_memory(struct walk_memory *memory, uint64_t address)
{
    const struct whole_stack *s = memory->context;
    if (address >= s->sp && address - s->sp < s->bytes) {
        memory->start = s->sp;
        memory->end = s->sp + s->bytes;
        memory->bias = (uint64_t)(uintptr_t)s->stack - s->sp;
        return true;
    }
    for (size_t i = 0; i < s->process->walked.count; i++) {
        const struct outside_module *m = &s->process->modules.items[i];
        uint64_t start, end;
        const void *code =
            m->file ? outside_file_code(m->file, address - m->bias, &start, &end) : NULL;
        if (!code)
            continue;
        memory->start = start + m->bias;
        memory->end = end + m->bias;
        memory->bias = (uint64_t)(uintptr_t)code - memory->start;
        return true;
    }
    return false;
}

void same_tick_walk_whole(const struct same_tick_pair *pair, struct outside_walked *out)
{
    const uint64_t *r = pair->registers;
    struct walk_registers registers = {.value = {[X86_RAX] = r[0],
                                                 [X86_RBX] = r[1],
                                                 [X86_RCX] = r[2],
                                                 [X86_RDX] = r[3],
                                                 [X86_RSI] = r[4],
                                                 [X86_RDI] = r[5],
                                                 [X86_RBP] = r[6],
                                                 [X86_RSP] = r[7],
                                                 [X86_RIP] = r[8],
                                                 [X86_R8] = r[9],
                                                 [X86_R9] = r[10],
                                                 [X86_R10] = r[11],
                                                 [X86_R11] = r[12],
                                                 [X86_R12] = r[13],
                                                 [X86_R13] = r[14],
                                                 [X86_R14] = r[15],
                                                 [X86_R15] = r[16]}};
    struct whole_stack whole = {pair->process, r[7], pair->stack_bytes, pair->stack};
    struct walk_memory memory = {.find_memory = find_memory, .context = &whole};
    struct walk_modules modules = outside_process_modules(pair->process);
    struct walk_result result =
        walk_frames(&modules, &registers, &memory, out->frames, OUTSIDE_MOST_FRAMES);
    out->count = result.count;
    out->end = (uint32_t)result.end;
}

/* One sample; the size of what it takes in the file, 0: it is none. */
static uint64_t take(const uint8_t *at, uint64_t left, struct outside_process **p,
                     struct outside_files *files, struct same_tick_pair *pair, bool *is_other)
{
    static uint64_t record[8192];
    static struct same_tick head;
    static struct outside_record r;
    *is_other = true;
    if (left < sizeof head)
        return 0;
    memcpy(&head, at, sizeof head);
    uint64_t size = sizeof head + head.record_bytes + head.stack_bytes + head.maps_bytes;
    if (size > left || head.record_bytes > sizeof record)
        return 0;
    memcpy(record, at + sizeof head, head.record_bytes);
    const char *stack = (const char *)at + sizeof head + head.record_bytes;
    if (!outside_record_read(record, head.record_bytes, false, &r) || !r.sample.registers)
        return 0;
    if (memcmp(r.sample.registers, head.registers, sizeof head.registers) != 0)
        return size;
    *is_other = false;
    outside_process_free(*p);
    *p = outside_process_new(r.pid, 0, 0);
    FILE *maps = fmemopen((void *)(stack + head.stack_bytes), head.maps_bytes, "r");
    outside_process_read(*p, files, maps);
    fclose(maps);
    *pair = (struct same_tick_pair){*p, &r.sample, head.registers, stack, head.stack_bytes};
    return size;
}

bool same_tick_each(const char *path, same_tick_visit *visit, void *context, uint64_t *other_ticks)
{
    struct mapped_file file;
    struct ct_error err;
    struct open_maps maps;
    struct same_tick_pair pair;
    if (file_map(path, &file, &err) != CT_OK)
        return false;
    open_maps_begin(&maps);
    struct outside_files files = {.maps = &maps};
    struct outside_process *p = outside_process_new(0, 0, 0);
    uint64_t at = 0, size;
    bool is_other;
    while (at < file.size &&
           (size = take(file.bytes + at, file.size - at, &p, &files, &pair, &is_other))) {
        *other_ticks += is_other;
        if (!is_other)
            visit(context, &pair);
        at += size;
    }
    bool is_read = at == file.size;
    outside_process_free(p);
    outside_files_end(&files);
    open_maps_end(&maps);
    file_unmap(&file);
    return is_read;
}
