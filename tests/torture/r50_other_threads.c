/*
 * Row 50: threads that pthread_create does not make: those of C11, and those in which libc calls
 * back when a timer has fired or a message has come.
 */
#include "torture.h"

#include <fcntl.h>
#include <mqueue.h>
#include <semaphore.h>
#include <threads.h>

static sem_t done;

static NOINLINE int in_c_thread(void *argument)
{
    burn_ms(100);
    return *(int *)argument + 1;
}

static NOINLINE void on_timer(union sigval value)
{
    burn_ms(100);
    printf("timer: %d\n", value.sival_int);
    sem_post(&done);
}

static NOINLINE void on_message(union sigval value)
{
    burn_ms(100);
    printf("message: %s\n", (const char *)value.sival_ptr);
    sem_post(&done);
}

static void c_threads(void)
{
    thrd_t thread;
    int argument = 41, result = 0;
    CHECK(thrd_create(&thread, in_c_thread, &argument) == thrd_success);
    CHECK(thrd_join(thread, &result) == thrd_success);
    printf("C11: %d\n", result);
}

static void timers(void)
{
    for (int i = 0; i < 2; i++) {
        struct sigevent event = {.sigev_notify = SIGEV_THREAD,
                                 .sigev_notify_function = on_timer,
                                 .sigev_value.sival_int = 7 + i};
        struct itimerspec once = {.it_value.tv_nsec = 1000000};
        timer_t timer;
        CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
        CHECK(event.sigev_notify_function == on_timer && event.sigev_value.sival_int == 7 + i);
        CHECK(timer_settime(timer, 0, &once, NULL) == 0);
        CHECK(sem_wait(&done) == 0);
        CHECK(timer_delete(timer) == 0);
    }
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0 && timer_delete(timer) == 0);
    struct sigevent bad = {.sigev_notify = 99};
    printf("bad: %d %d\n", timer_create(CLOCK_MONOTONIC, &bad, &timer), errno == EINVAL);
}

static void messages(void)
{
    char name[64];
    struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = 8};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD,
                             .sigev_notify_function = on_message,
                             .sigev_value.sival_ptr = (void *)"came"};
    snprintf(name, sizeof name, "/torture-%d", getpid());
    mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
    if (queue < 0)
        return;
    mq_unlink(name);
    CHECK(mq_notify(queue, &event) == 0);
    CHECK(mq_send(queue, "text", 4, 0) == 0);
    CHECK(sem_wait(&done) == 0);
    mq_close(queue);
}

int main(void)
{
    sem_init(&done, 0, 0);
    c_threads();
    timers();
    messages();
    return torture_end();
}
