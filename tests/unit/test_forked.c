/*
 * A child that is forked while another thread of its parent changes code. Puts the original code
 * back: the lock of that thread is not the child's. Unmaps what belonged to a library that has
 * gone: the child does not do so again, since something else may be there by now.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "runtime/confined.h"
#include "runtime/edit/detach.h"
#include "runtime/edit/edited.h"
#include "runtime/edit/observe.h"
#include "runtime/edit/pause.h"
#include "runtime/edit/pun.h"
#include "runtime/modules.h"
#include "runtime/status.h"
#include "runtime/thread.h"
#include "runtime/threads.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- what the parts under test call ----------------------------------------------------------- */

static struct arena_header arena;
static struct guest *page; /* wiped in the child of a fork, as the runtime's is */
struct guest *guest;

bool modules_hold(void)
{
    return !__atomic_exchange_n((uint32_t *)&guest->code_lock, 1, __ATOMIC_ACQUIRE);
}

bool status_is_alone(void)
{
    return true;
}

void modules_let_go(void)
{
    guest->code_lock = 0;
}

static void (*again)(void); /* what the child does when it is forked; NULL: has been forked */
static unsigned times;      /* that this process got to where it is forked */
static int child_status;
static unsigned times_of_child; /* that are right */

static void begin_process(uint32_t number)
{
    guest = page;
    guest->arena = &arena;
    guest->number = number;
}

/* In the midst of the work, with its lock. */
static void fork_here(void)
{
    void (*in_child)(void) = again;
    times++;
    if (!in_child)
        return;
    again = NULL;
    pid_t child = fork();
    if (child == 0) {
        begin_process(2);
        times = 0;
        in_child();
        _exit(times == times_of_child ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &child_status, 0), child);
}

void modules_unwatch(void)
{
    fork_here();
}

void pun_forget(struct edited_module *module)
{
    (void)module;
    fork_here();
}

bool live_swap(const uint8_t *copy, uint64_t at, uint64_t bytes)
{
    (void)copy;
    (void)at;
    (void)bytes;
    return true;
}

long thread_read(uint32_t tid, const char *name, char *text, unsigned bytes)
{
    (void)tid;
    (void)name;
    (void)text;
    (void)bytes;
    return -1;
}

void region_unmap(struct region *region)
{
    (void)region;
}

uint64_t pun_leads_to(const struct edited_module *module, uint64_t pc)
{
    (void)module;
    (void)pc;
    return 0;
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

static void check_child(void (*work)(void), unsigned right)
{
    begin_process(1);
    again = work;
    times_of_child = right;
    child_status = -1;
    work();
    assert_int_equal(child_status, 0);
}

static void a_child_detaches_though_its_parent_was_at_it(void **state)
{
    (void)state;
    check_child(detach, 1);
}

static void a_child_pauses_though_its_parent_was_at_it(void **state)
{
    (void)state;
    check_child(edit_pause, 1);
}

/* A module without sites. */
static void load_and_hide(void)
{
    struct plan_header *plan =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(plan != MAP_FAILED);
    plan->file_bytes = 4096;
    uint64_t base = (uint64_t)(uintptr_t)plan;
    assert_non_null(edited_add(&(struct edited_module){.base = base, .plan = plan}));
    edit_hide_modules(&base, 1);
}

static void a_child_unmaps_nothing_that_its_parent_was_at(void **state)
{
    (void)state;
    begin_process(1);
    load_and_hide();
    check_child(edit_forget_hidden, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_detaches_though_its_parent_was_at_it),
        cmocka_unit_test(a_child_pauses_though_its_parent_was_at_it),
        cmocka_unit_test(a_child_unmaps_nothing_that_its_parent_was_at),
    };
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || madvise(page, 4096, MADV_WIPEONFORK) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
