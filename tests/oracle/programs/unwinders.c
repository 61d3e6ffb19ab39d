/* The program walks and unwinds its own stack: backtrace, _Unwind_Backtrace, and thread exit. */
#include "checksum.h"

#include <execinfo.h>
#include <pthread.h>
#include <unwind.h>

static _Unwind_Reason_Code count_frame(struct _Unwind_Context *context, void *count)
{
    ++*(unsigned *)count;
    check(_Unwind_GetIP(context) != 0);
    return _URC_NO_REASON;
}

NOINLINE static unsigned walk(unsigned depth)
{
    if (depth)
        return walk(depth - 1) + 1;
    unsigned count = 0;
    void *frames[32];
    _Unwind_Backtrace(count_frame, &count);
    return count + (unsigned)backtrace(frames, 32);
}

static void *thread(void *argument)
{
    return (char *)argument + walk(2);
}

static void clean_up(void *argument)
{
    check(*(unsigned *)argument);
    print_checksum("unwinders");
    fflush(stdout);
}

NOINLINE static void leave(unsigned depth)
{
    unsigned value = depth + 40;
    pthread_cleanup_push(clean_up, &value);
    if (depth)
        pthread_exit(NULL); /* of the first thread: unwinds all of its stack */
    pthread_cleanup_pop(0);
}

int main(void)
{
    pthread_t other;
    void *result = NULL;
    check(walk(4));
    if (pthread_create(&other, NULL, thread, (void *)1) == 0)
        pthread_join(other, &result);
    check((uintptr_t)result != 0);
    leave(1);
    return 1;
}
