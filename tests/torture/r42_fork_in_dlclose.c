/*
 * Row 42: a child is forked while another thread of its parent unloads a library. The linker takes
 * it out of its list after it has unmapped it. That moment is too short to wait for, so the program
 * makes the list what it is then: it says that it is being changed, and its last entry is of a
 * library that is gone.
 */
#include "torture.h"

#include <link.h>
#include <sys/mman.h>
#include <sys/wait.h>

static NOINLINE void only_in_child(void)
{
    burn_ms(100);
}

/* The linker's own, of which a program that names it may get a copy. */
static struct r_debug *linkers_list(void)
{
    const ElfW(Dyn) *entry = _DYNAMIC;
    while (entry->d_tag != DT_DEBUG)
        entry++;
    return (struct r_debug *)entry->d_un.d_ptr;
}

int main(void)
{
    static union {
        struct link_map entry;
        char room[8192]; /* the linker's own are longer than what is public */
    } gone;
    struct r_debug *list = linkers_list();
    struct link_map *last = list->r_map;
    char *memory = mmap(NULL, 65536, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    burn_ms(100);
    CHECK(memory != MAP_FAILED && munmap(memory, 65536) == 0);
    while (last->l_next)
        last = last->l_next;
    gone.entry = (struct link_map){
        .l_addr = (ElfW(Addr))memory, .l_name = (char[]){"/gone.so"}, .l_prev = last};
    list->r_state = RT_DELETE;
    last->l_next = &gone.entry;
    pid_t child = fork();
    if (child == 0) {
        only_in_child();
        _exit(7);
    }
    last->l_next = NULL;
    list->r_state = RT_CONSISTENT;
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    printf("%#x\n", status);
    return torture_end();
}
