#include "exact_code.h"

#include "step_memory.h"

#include <Zydis/Zydis.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char runtime_name[] = "libcalltrail-rt.so";

/* --- what is mapped ------------------------------------------------------------------------------
 */

static enum code_kind kind_of(const struct module_file *file)
{
    if (strcmp(file->path, "[vdso]") == 0)
        return CODE_VDSO;
    if (strcmp(file->name, runtime_name) == 0)
        return CODE_OURS;
    return strncmp(file->name, "ld-linux", 8) == 0 ? CODE_LINKER : CODE_PROGRAM;
}

static void open_file(struct code_view *view, const struct module_file *file)
{
    struct code_file new = {.file = file, .kind = kind_of(file)};
    struct stat status;
    int fd = new.kind == CODE_VDSO ? -1 : open(file->path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &status) == 0) {
        new.size = (size_t)status.st_size;
        void *bytes = mmap(NULL, new.size, PROT_READ, MAP_PRIVATE, fd, 0);
        new.bytes = bytes == MAP_FAILED ? NULL : bytes;
    }
    if (fd >= 0)
        close(fd);
    vec_push(&view->files, new);
}

static const struct code_file *file_of(struct code_view *view, const struct module_file *file)
{
    for (;;) {
        for (size_t i = 0; i < view->files.count; i++)
            if (view->files.items[i].file == file)
                return &view->files.items[i];
        open_file(view, file);
    }
}

static int find_anonymous(struct code_view *view, struct ct_error *err)
{
    char path[64], line[512], permissions[5], rest[400];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)view->pid);
    FILE *maps = fopen(path, "re");
    if (!maps)
        return ct_fail(err, "%s: cannot be read", path);
    view->anonymous.count = 0;
    while (fgets(line, sizeof line, maps)) {
        struct anonymous a;
        rest[0] = '\0';
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %*s %399s", &a.start, &a.end,
                   permissions, rest) >= 3 &&
            permissions[2] == 'x' && !rest[0])
            vec_push(&view->anonymous, a);
    }
    fclose(maps);
    return CT_OK;
}

int code_refresh(struct code_view *view, struct ct_error *err)
{
    if (view->used)
        memset(view->slots, 0, view->slot_count * sizeof *view->slots);
    view->used = 0;
    CT_TRY(find_anonymous(view, err));
    return modules_refresh(&view->modules, view->pid, err);
}

void code_free(struct code_view *view)
{
    for (size_t i = 0; i < view->files.count; i++)
        if (view->files.items[i].bytes)
            munmap((void *)(uintptr_t)view->files.items[i].bytes, view->files.items[i].size);
    vec_free(&view->files);
    vec_free(&view->anonymous);
    modules_free(&view->modules);
    free(view->slots);
}

const char *code_runtime(const struct code_view *view, uint64_t *bias)
{
    for (size_t i = 0; i < view->modules.loaded.count; i++) {
        const struct module_file *file = view->modules.loaded_files.items[i];
        if (strcmp(file->name, runtime_name) == 0) {
            *bias = view->modules.loaded.items[i].start;
            return file->path;
        }
    }
    return NULL;
}

static int find_module(const struct code_view *view, uint64_t pc)
{
    const struct walk_module *all = view->modules.loaded.items;
    size_t low = 0, high = view->modules.loaded.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (all[middle].start <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    return low && pc < all[low - 1].end ? (int)low - 1 : -1;
}

static bool is_anonymous(const struct code_view *view, uint64_t pc)
{
    for (size_t i = 0; i < view->anonymous.count; i++)
        if (pc >= view->anonymous.items[i].start && pc < view->anonymous.items[i].end)
            return true;
    return false;
}

/* --- one instruction
 * ------------------------------------------------------------------------------ */

static bool decode(const uint8_t *bytes, size_t size, ZydisDecodedInstruction *out)
{
    static ZydisDecoder decoder;
    static bool is_ready;
    if (!is_ready)
        ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    is_ready = true;
    return ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, bytes, size, out));
}

static enum transfer transfer_of(const ZydisDecodedInstruction *i)
{
    switch (i->meta.category) {
    case ZYDIS_CATEGORY_CALL: /* to the next instruction: that only reads the pc */
        return i->raw.imm[0].is_relative && i->raw.imm[0].value.s == 0 ? GOES_ON : CALLS;
    case ZYDIS_CATEGORY_RET:
        return RETURNS;
    case ZYDIS_CATEGORY_UNCOND_BR:
        return JUMPS;
    case ZYDIS_CATEGORY_COND_BR:
        return JUMPS_OR_GOES_ON;
    default:
        return i->mnemonic == ZYDIS_MNEMONIC_SYSCALL ? ENTERS_KERNEL : GOES_ON;
    }
}

/* Where the bytes of a virtual address are in a file; what is left of its segment in `left`. */
static const uint8_t *bytes_in_file(const struct code_file *file, uint64_t vaddr, size_t *left)
{
    for (size_t i = 0; file->bytes && i < file->file->loads.count; i++) {
        const Elf64_Phdr *load = &file->file->loads.items[i];
        if (vaddr < load->p_vaddr || vaddr - load->p_vaddr >= load->p_filesz)
            continue;
        uint64_t offset = load->p_offset + vaddr - load->p_vaddr;
        *left = load->p_filesz - (vaddr - load->p_vaddr);
        return offset + *left <= file->size ? file->bytes + offset : NULL;
    }
    return NULL;
}

static bool is_in_plt(const struct code_file *file, uint64_t vaddr)
{
    const Elf64_Ehdr *header = (const void *)file->bytes;
    if (!header || !header->e_shoff ||
        header->e_shoff + header->e_shnum * sizeof(Elf64_Shdr) > file->size)
        return false;
    const Elf64_Shdr *sections = (const void *)(file->bytes + header->e_shoff);
    const char *names = (const char *)file->bytes + sections[header->e_shstrndx].sh_offset;
    for (unsigned i = 0; i < header->e_shnum; i++)
        if (vaddr >= sections[i].sh_addr && vaddr - sections[i].sh_addr < sections[i].sh_size &&
            strncmp(names + sections[i].sh_name, ".plt", 4) == 0)
            return true;
    return false;
}

static void find_function(const struct module_file *file, uint64_t base, struct code *code)
{
    const struct map_function *f =
        file->has_map ? map_find_function(&file->map, code->pc - base) : NULL;
    if (!f)
        return;
    code->part = base + f->start;
    code->at_start = f->start == code->pc - base && !(f->flags & FUNCTION_FRAGMENT);
    for (unsigned most = 8;
         most-- && (f->flags & FUNCTION_FRAGMENT) && f->parent < file->map.function_count;)
        f = &file->map.functions[f->parent];
    code->function = base + f->start;
}

static struct code look_at(struct code_view *view, uint64_t pc)
{
    struct code code = {.pc = pc};
    uint8_t now[ZYDIS_MAX_INSTRUCTION_LENGTH];
    size_t size = read_tracee(view->pid, pc, now, sizeof now), left = size;
    const uint8_t *bytes = now;
    int module = find_module(view, pc);
    ZydisDecodedInstruction i;
    if (module >= 0) {
        const struct code_file *file = file_of(view, view->modules.loaded_files.items[module]);
        const struct walk_module *loaded = &view->modules.loaded.items[module];
        uint64_t first = file->file->has_map ? file->file->map.header->base : 0;
        uint64_t vaddr = pc - loaded->base + first;
        const uint8_t *original = bytes_in_file(file, vaddr, &left);
        bytes = original ? original : now;
        left = original ? left : size;
        code.kind = (uint8_t)file->kind;
        code.in_plt = is_in_plt(file, vaddr);
        find_function(file->file, loaded->base, &code);
    } else if (is_anonymous(view, pc)) {
        code.kind = CODE_STUB;
    } else {
        return code;
    }
    if (!decode(bytes, left, &i))
        return code;
    code.transfer = (uint8_t)transfer_of(&i);
    code.length = i.length;
    code.is_indirect = !i.raw.imm[0].is_relative;
    code.is_changed = size >= i.length && memcmp(bytes, now, i.length) != 0;
    code.may_stay =
        code.is_changed && decode(now, size, &i) && i.meta.category == ZYDIS_CATEGORY_COND_BR;
    return code;
}

static struct code *find_slot(const struct code_view *view, uint64_t pc)
{
    size_t mask = view->slot_count - 1;
    size_t at = (pc * UINT64_C(0x9e3779b97f4a7c15)) >> 20 & mask;
    while (view->slots[at].pc != pc && view->slots[at].pc != 0)
        at = (at + 1) & mask;
    return &view->slots[at];
}

static void grow(struct code_view *view)
{
    struct code *old = view->slots;
    size_t count = view->slot_count;
    view->slot_count = count ? count * 2 : 1 << 14;
    view->slots = must_calloc(view->slot_count, sizeof *view->slots);
    for (size_t i = 0; i < count; i++)
        if (old[i].pc)
            *find_slot(view, old[i].pc) = old[i];
    free(old);
}

struct code code_at(struct code_view *view, uint64_t pc)
{
    if (!pc)
        return (struct code){0};
    if (view->used * 2 >= view->slot_count)
        grow(view);
    struct code *slot = find_slot(view, pc);
    if (!slot->pc) {
        *slot = look_at(view, pc);
        view->used++;
    }
    return *slot;
}
