/*
 * Row 2: a process of a gigabyte, all of it touched in small pages, forks under fast sampling: the
 * system call must not be restarted for ever.
 */
#include "torture.h"

#include <sys/mman.h>
#include <sys/wait.h>

int main(void)
{
    const size_t bytes = (size_t)1 << 30;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 125;
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < bytes; i += 4096)
        memory[i] = (char)(i >> 12);
    for (int i = 0; i < 10; i++) {
        burn_ms(10);
        pid_t pid = fork();
        if (pid == 0)
            _exit(memory[4096 * 5] == 5 ? i : 99);
        int status = -1;
        CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == i);
    }
    printf("forked 10 times\n");
    return torture_end();
}
