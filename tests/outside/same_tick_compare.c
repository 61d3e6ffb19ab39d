/*
 * same_tick_compare FILE: walks what same_tick.c has written, each sample once as from outside, by
 * the kernel's record, and once as from inside, by the registers and the whole stack of the same
 * tick. Prints how many there were, how many were cut by the window, how many differ otherwise; and
 * how many had no record of the same registers, since the signal came later.
 */
#include "base/file.h"
#include "record/outside/outside_walk.h"
#include "same_tick.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct counts {
    uint64_t samples, other_tick, cut, differ, complete, frames;
};

static const char *outermost(const struct outside_walked *w)
{
    static char text[64];
    snprintf(text, sizeof text, "%u frames, end %u, last %" PRIx64, w->count, w->end,
             w->count ? w->frames[w->count - 1].pc : 0);
    return text;
}

/* --- as from inside: all of the stack, at its own addresses, and nothing of the other way ------
 */

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

static void walk_whole(const struct outside_process *p, const uint64_t *r, const char *stack,
                       uint64_t bytes, struct outside_walked *out)
{
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
    struct whole_stack whole = {p, r[7], bytes, stack};
    struct walk_memory memory = {.find_memory = find_memory, .context = &whole};
    struct walk_modules modules = outside_process_modules(p);
    struct walk_result result =
        walk_frames(&modules, &registers, &memory, out->frames, OUTSIDE_MOST_FRAMES);
    out->count = result.count;
    out->end = (uint32_t)result.end;
}

static void compare(struct outside_process *p, const struct outside_sample *outside,
                    const struct same_tick *head, const char *stack, struct counts *n)
{
    static struct outside_walked seen, truth;
    outside_walk(p, outside, true, &seen);
    walk_whole(p, head->registers, stack, head->stack_bytes, &truth);
    n->samples++;
    n->frames += truth.count;
    n->complete += truth.end == WALK_COMPLETE;
    uint32_t common = seen.count < truth.count ? seen.count : truth.count;
    bool same = true;
    for (uint32_t i = 0; i < common; i++)
        same &= seen.frames[i].pc == truth.frames[i].pc &&
                seen.frames[i].module == truth.frames[i].module;
    if (seen.end == ARENA_GAP_WINDOW && same && seen.count <= truth.count) {
        n->cut++;
    } else if (!same || seen.count != truth.count || seen.end != truth.end) {
        n->differ++;
        printf("differ: outside %s", outermost(&seen));
        printf("; inside %s\n", outermost(&truth));
    }
}

/* One sample; the size of what it takes in the file, 0: it is none. */
static uint64_t take(const uint8_t *at, uint64_t left, struct outside_process **p,
                     struct outside_files *files, struct counts *n)
{
    static uint64_t record[8192];
    struct same_tick head;
    struct outside_record r;
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
    if (memcmp(r.sample.registers, head.registers, sizeof head.registers) != 0) {
        n->other_tick++;
        return size;
    }
    outside_process_free(*p);
    *p = outside_process_new(r.pid, 0, 0);
    FILE *maps = fmemopen((void *)(stack + head.stack_bytes), head.maps_bytes, "r");
    outside_process_read(*p, files, maps);
    fclose(maps);
    compare(*p, &r.sample, &head, stack, n);
    return size;
}

int main(int argc, char **argv)
{
    struct mapped_file file;
    struct ct_error err;
    struct open_maps maps;
    struct counts n = {0};
    if (argc != 2 || file_map(argv[1], &file, &err) != CT_OK)
        return 2;
    open_maps_begin(&maps);
    struct outside_files files = {.maps = &maps};
    struct outside_process *p = outside_process_new(0, 0, 0);
    uint64_t at = 0, size;
    while (at < file.size && (size = take(file.bytes + at, file.size - at, &p, &files, &n)))
        at += size;
    printf("%" PRIu64 " samples, %" PRIu64 " of other ticks, %" PRIu64 " cut, %" PRIu64
           " differ, %" PRIu64 " complete, %" PRIu64 " frames\n",
           n.samples, n.other_tick, n.cut, n.differ, n.complete, n.frames);
    bool is_read = at == file.size;
    outside_process_free(p);
    outside_files_end(&files);
    open_maps_end(&maps);
    file_unmap(&file);
    return is_read && !n.differ ? 0 : 1;
}
