// A little of everything that calltrail measures: running, waiting, locks, input and output,
// memory, page faults.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROUNDS 40
#define PAGES  64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned long sink;

__attribute__((noinline)) static void run(unsigned long turns)
{
    for (unsigned long i = 0; i < turns; i++)
        sink += i * i;
}

__attribute__((noinline)) static unsigned long recurse(int depth)
{
    run(100000);
    return depth ? recurse(depth - 1) + 1 : 0;
}

__attribute__((noinline)) static void hold(void)
{
    pthread_mutex_lock(&lock);
    usleep(2000);
    pthread_mutex_unlock(&lock);
}

__attribute__((noinline)) static void touch(void)
{
    char *pages =
        mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < PAGES; i++)
        pages[i * 4096] = 1;
    munmap(pages, PAGES * 4096);
}

__attribute__((noinline)) static void *allocate(size_t bytes)
{
    char *made = malloc(bytes);
    memset(made, 1, bytes);
    return made;
}

__attribute__((noinline)) static void transfer(void)
{
    static char block[65536];
    int zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY);
    if (read(zero, block, sizeof block) > 0 && write(null, block, sizeof block) < 0)
        perror("write");
    close(zero);
    close(null);
}

static void *work(void *of)
{
    for (int i = 0; i < ROUNDS; i++) {
        recurse(20);
        hold();
        touch();
        transfer();
        free(allocate(100000 + i));
        if (of && i % 8 == 0)
            sink += (unsigned long)allocate(30000); // never freed
    }
    return NULL;
}

int main(void)
{
    pthread_t other;
    pthread_create(&other, NULL, work, &lock);
    work(NULL);
    pthread_join(other, NULL);
    return 0;
}
