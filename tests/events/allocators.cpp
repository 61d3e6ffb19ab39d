/*
 * Memory from new, new[], aligned new, malloc and mmap, in known amounts; some of it is given back.
 * With -ljemalloc or -ltcmalloc_minimal it comes from there.
 */
#include <cstdio>
#include <cstdlib>
#include <new>
#include <sys/mman.h>

struct alignas(64) Wide {
    char bytes[256];
};

static void *volatile kept[4000];
static int kept_count;

static void keep(void *memory)
{
    kept[kept_count++] = memory;
}

/* A compiler may leave out memory that is never read. */
static void *volatile seen;
template <class T> static T *see(T *memory)
{
    seen = memory;
    return memory;
}

extern "C" __attribute__((noinline)) void with_new()
{
    for (int i = 0; i < 100; i++)
        keep(new char(1));
    for (int i = 0; i < 100; i++)
        delete see(new long(1));
}

extern "C" __attribute__((noinline)) void with_array()
{
    for (int i = 0; i < 50; i++)
        keep(new (std::nothrow) char[1000]);
    for (int i = 0; i < 30; i++)
        delete[] see(new char[500]);
}

extern "C" __attribute__((noinline)) void with_aligned()
{
    for (int i = 0; i < 20; i++)
        keep(new Wide);
    for (int i = 0; i < 20; i++)
        delete see(new Wide);
}

extern "C" __attribute__((noinline)) void with_malloc()
{
    for (int i = 0; i < 70; i++)
        keep(malloc(300));
    for (int i = 0; i < 70; i++)
        free(see(calloc(3, 100)));
}

/* One is given back, one is cut at both ends and in the middle, one grows, one stays; what may not
 * be touched counts for nothing. */
extern "C" __attribute__((noinline)) void with_mmap()
{
    const size_t page = 4096;
    auto map = [](size_t bytes, int protection) {
        return static_cast<char *>(
            mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    };
    munmap(map(10 * page, PROT_READ | PROT_WRITE), 10 * page);
    char *cut = map(20 * page, PROT_READ | PROT_WRITE);
    munmap(cut, 2 * page);
    munmap(cut + 18 * page, 2 * page);
    munmap(cut + 8 * page, 4 * page);
    keep(mremap(map(4 * page, PROT_READ | PROT_WRITE), 4 * page, 6 * page, MREMAP_MAYMOVE));
    keep(map(page, PROT_READ | PROT_WRITE));
    keep(map(1000 * page, PROT_NONE));
}

int main()
{
    with_new();
    with_array();
    with_aligned();
    with_malloc();
    with_mmap();
    printf("kept %d\n", kept_count);
    return 0;
}
