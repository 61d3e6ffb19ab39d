/*
 * Waiting for room in the arena: a process waits once for a supervisor that does not make any, and
 * its children, which have arenas of their own, wait for theirs all the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "runtime/arena.h"
#include "runtime/blocking.h"
#include "runtime/charge.h"
#include "runtime/confined.h"
#include "runtime/event.h"
#include "runtime/exact/exact.h"
#include "runtime/exact/records.h"
#include "runtime/own_stack.h"
#include "runtime/thread.h"
#include "runtime/threads.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- what the parts under test call: an arena that has room after so many requests ------------ */

enum { NEVER = 1 << 30, A_FEW = 3 };

static unsigned requests, refused; /* those that came, and how many of them get nothing */
static struct arena_header arena;
static struct guest *page; /* wiped in the child of a fork, as the runtime's is */
struct guest *guest;
__thread struct exact_state exact_state;

void *arena_take(size_t bytes)
{
    return requests++ < refused ? NULL : calloc(1, bytes);
}

uint32_t arena_place(const void *memory)
{
    return memory != NULL;
}

void *arena_at(uint32_t place)
{
    (void)place;
    return NULL;
}

void arena_count_loss(enum arena_loss why)
{
    arena.lost[why]++;
}

bool is_confined(void)
{
    return false;
}

bool event_start(struct thread *thread)
{
    return thread->record != NULL;
}

const struct edited_module *edited_by_site(uint32_t site)
{
    (void)site;
    return NULL;
}

uint32_t edited_site_of_key(uint64_t site_key)
{
    (void)site_key;
    return 0;
}

void charge_thread_begins(struct thread *thread)
{
    (void)thread;
}

void wait_was_left(struct thread *t)
{
    (void)t;
}

void charge_thread_ends(struct thread *thread)
{
    (void)thread;
}

void event_stop(struct thread *thread)
{
    (void)thread;
}

void own_stack_end(struct thread *thread)
{
    (void)thread;
}

void own_stack_forget(void)
{
}

/* --- tests ------------ */

static void begin_process(uint32_t number)
{
    guest = page;
    guest->arena = &arena;
    guest->number = number;
}

static bool has_room_for_calls(void)
{
    return records_memory(64) != NULL;
}

static bool has_room_for_thread(void)
{
    return thread_begin() != NULL;
}

/* How many requests it made before it gave up. */
static unsigned waits_in_vain(bool (*has_room)(void))
{
    refused = NEVER;
    requests = 0;
    assert_false(has_room());
    return requests;
}

/* Does the child of a fork get its room, which is there a moment later? */
static bool child_gets_room(bool (*has_room)(void))
{
    int status = 1;
    pid_t child = fork();
    if (child == 0) {
        threads_forget();
        begin_process(2);
        requests = 0;
        refused = A_FEW;
        _exit(!has_room());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status == 0;
}

static void check_waits(bool (*has_room)(void))
{
    begin_process(1);
    assert_true(waits_in_vain(has_room) > A_FEW);
    assert_int_equal(waits_in_vain(has_room), 1);
    assert_true(child_gets_room(has_room));
}

static void calls_in_a_child_wait_for_its_own_arena(void **state)
{
    (void)state;
    check_waits(has_room_for_calls);
}

static void threads_of_a_child_wait_for_its_own_arena(void **state)
{
    (void)state;
    check_waits(has_room_for_thread);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_in_a_child_wait_for_its_own_arena),
        cmocka_unit_test(threads_of_a_child_wait_for_its_own_arena),
    };
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || madvise(page, 4096, MADV_WIPEONFORK) != 0)
        return 1;
    guest = page;
    threads_prepare();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
