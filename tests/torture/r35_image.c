/* Row 35: an image as mono compiles it ahead of time, by the name that it is known by: what runs
 * it finds where its calls lead by their bytes. */
#include "torture.h"

#ifdef LIBRARY

int mono_aot_file_info = 1;
int calls_lead_where_they_say(void);

static NOINLINE int inner(int x)
{
    return (int)spin((unsigned)x) + mono_aot_file_info;
}

static NOINLINE int outer(int x)
{
    return inner(x) + 1;
}

int calls_lead_where_they_say(void)
{
    enum { CALL = 0xe8, CALL_BYTES = 5, MOST = 64 };
    const uint8_t *code = (const uint8_t *)outer;
    outer(10);
    for (int i = 0; i < MOST; i++) {
        int32_t distance;
        memcpy(&distance, code + i + 1, sizeof distance);
        if (code[i] == CALL && code + i + CALL_BYTES + distance == (const uint8_t *)inner)
            return 1;
    }
    return 0;
}

#else

int calls_lead_where_they_say(void);

int main(void)
{
    printf("calls lead where they say: %d\n", calls_lead_where_they_say());
    return torture_end();
}

#endif
