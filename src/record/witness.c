#include "record/witness.h"

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Tells which signals have come since it was last asked. It ends with whoever asks. */
static void testify(int questions, int answers)
{
    const struct timespec none = {0};
    sigset_t all;
    char question;
    sigfillset(&all);
    while (read(questions, &question, 1) == 1) {
        uint64_t came = 0;
        int number;
        while ((number = sigtimedwait(&all, NULL, &none)) > 0)
            came |= UINT64_C(1) << (number - 1);
        if (write(answers, &came, sizeof came) != sizeof came)
            break;
    }
    _exit(0);
}

static void close_pair(const int pair[2])
{
    close(pair[0]);
    close(pair[1]);
}

void witness_begin(struct witness *w)
{
    int questions[2], answers[2];
    sigset_t all, before;
    *w = (struct witness){.ask = -1, .answer = -1};
    if (pipe2(questions, O_CLOEXEC) != 0)
        return;
    if (pipe2(answers, O_CLOEXEC) != 0) {
        close_pair(questions);
        return;
    }
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
        for (int fd = 0; fd < 3; fd++) /* whoever reads our output must not wait for this process */
            close(fd);
        close(questions[1]);
        close(answers[0]);
        testify(questions[0], answers[1]);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(questions[0]);
    close(answers[1]);
    *w = (struct witness){.pid = pid > 0 ? pid : 0, .ask = questions[1], .answer = answers[0]};
}

void witness_end(struct witness *w)
{
    if (w->ask >= 0)
        close_pair((int[2]){w->ask, w->answer});
    if (w->pid)
        waitpid(w->pid, NULL, 0);
}

/* A witness that is gone was killed by something that the whole group got. */
bool witness_has(struct witness *w, int number)
{
    uint64_t came = UINT64_MAX;
    if (!w->pid)
        return false;
    return write(w->ask, "", 1) != 1 || read(w->answer, &came, sizeof came) != sizeof came ||
           (came >> (number - 1) & 1);
}
