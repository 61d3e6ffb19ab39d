/*
 * A program that signals come to: it takes them as the first argument says (default, ignore or
 * count), works until it is told on the board to end, and prints how many of each came.
 *
 *   signalled MODE BOARD
 *
 * With the mode `daemon` it leaves a child behind, which works on until it is told to end.
 */
#include "torture.h"

#include <fcntl.h>
#include <sys/mman.h>

struct board {
    volatile uint32_t go, go_second, ready, rounds, worked;
};

static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1};
enum { KINDS = sizeof numbers / sizeof numbers[0] };
static volatile unsigned counts[NSIG];
static struct board *board;

static void on_signal(int number)
{
    counts[number]++;
    board->rounds++;
}

static NOINLINE void works(void)
{
    burn_ms(1);
    board->worked++;
}

static void leave_child(void)
{
    if (fork() == 0) {
        setsid();
        board->rounds = 1;
        while (!board->go_second)
            works();
        printf("the child ends\n");
        fflush(stdout);
        board->rounds = 2;
        _exit(0);
    }
}

int main(int argc, char **argv)
{
    int fd = argc == 3 ? open(argv[2], O_RDWR | O_CLOEXEC) : -1;
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (board == MAP_FAILED)
        return 97;
    close(fd);
    struct sigaction action = {.sa_handler = SIG_DFL};
    if (strcmp(argv[1], "ignore") == 0)
        action.sa_handler = SIG_IGN;
    if (strcmp(argv[1], "count") == 0)
        action.sa_handler = on_signal;
    for (int i = 0; i < KINDS; i++)
        sigaction(numbers[i], &action, NULL);
    if (strcmp(argv[1], "daemon") == 0)
        leave_child();
    board->ready = 1;
    while (!board->go)
        works();
    for (int i = 0; i < KINDS; i++)
        printf("%d came %u times\n", numbers[i], counts[numbers[i]]);
    return 12;
}
