/*
 * A child that is forked while another thread of its parent puts the original code back: the lock
 * of that thread is not the child's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "runtime/exact/exact.h"
#include "runtime/thread.h"

#include <link.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- what the parts under test call: no module is edited -------------------------------------- */

static struct arena_header arena;
static struct edited_list none;
static const struct r_debug linker = {.r_state = RT_CONSISTENT};
const struct r_debug *modules_linker = &linker;
static struct guest *page; /* wiped in the child of a fork, as the runtime's is */
struct guest *guest;

static void (*again)(void); /* what the child does when it is forked; NULL: has been forked */
static unsigned times_unwatched;
static int child_status;

static void begin_process(uint32_t number)
{
    guest = page;
    guest->arena = &arena;
    guest->number = number;
}

/* The code is put back just now, with the lock: the moment of the fork. */
void modules_unwatch(void)
{
    void (*in_child)(void) = again;
    times_unwatched++;
    if (!in_child)
        return;
    again = NULL;
    pid_t child = fork();
    if (child == 0) {
        begin_process(2);
        times_unwatched = 0;
        in_child();
        _exit(times_unwatched == 1 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &child_status, 0), child);
}

const struct edited_list *edited_loaded(void)
{
    return &none;
}

struct thread *threads_lock(void)
{
    return NULL;
}

void threads_unlock(void)
{
}

bool is_confined(void)
{
    return false;
}

void modules_refresh(void)
{
}

void modules_watch(void)
{
}

/* --- tests ------------ */

static void detach(void)
{
    struct thread thread = {.tid = 1};
    edit_detach(&thread);
}

static void check_child(void (*work)(void))
{
    begin_process(1);
    again = work;
    child_status = -1;
    work();
    assert_int_equal(child_status, 0);
}

static void a_child_detaches_though_its_parent_was_at_it(void **state)
{
    (void)state;
    check_child(detach);
}

static void a_child_pauses_though_its_parent_was_at_it(void **state)
{
    (void)state;
    check_child(edit_pause);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_detaches_though_its_parent_was_at_it),
        cmocka_unit_test(a_child_pauses_though_its_parent_was_at_it),
    };
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || madvise(page, 4096, MADV_WIPEONFORK) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
