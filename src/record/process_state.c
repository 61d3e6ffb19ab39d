#include "record/process_state.h"

#include "runtime/arena_format.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void process_program(uint64_t pid, char *out)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/%lu/exe", (unsigned long)pid);
    ssize_t length = readlink(link, out, ARENA_PROGRAM_BYTES - 1);
    out[length > 0 ? length : 0] = '\0';
}

bool process_read_state(uint64_t pid, struct process_state *out)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%lu/stat", (unsigned long)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    const char *behind_name = strrchr(text, ')');
    return behind_name &&
           sscanf(behind_name + 1,
                  " %c %u %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %lu %*d %llu",
                  &out->state, &out->parent, &out->utime, &out->stime, &out->threads,
                  &out->start) == 6;
}

bool process_has_memory(uint64_t pid)
{
    char program[ARENA_PROGRAM_BYTES];
    errno = 0;
    process_program(pid, program);
    return program[0] != '\0' || errno != ENOENT;
}
