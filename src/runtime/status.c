#include "runtime/status.h"

#include "arch/x86_64/syscall.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static unsigned number_in(const char *digits)
{
    unsigned number = 0;
    for (; *digits >= '0' && *digits <= '9'; digits++)
        number = number * 10 + (unsigned)(*digits - '0');
    return number;
}

static void take_line(const char *line, struct process_status *out)
{
    static const char tracer[] = "TracerPid:\t", filters[] = "Seccomp_filters:\t",
                      blocked[] = "SigBlk:\t";
    if (strncmp(line, tracer, sizeof tracer - 1) == 0)
        out->tracer = number_in(line + sizeof tracer - 1);
    else if (strncmp(line, filters, sizeof filters - 1) == 0)
        out->filters = number_in(line + sizeof filters - 1);
    else if (strncmp(line, blocked, sizeof blocked - 1) == 0)
        for (const char *c = line + sizeof blocked - 1; *c; c++)
            out->blocked = out->blocked << 4 | (uint64_t)(*c <= '9' ? *c - '0' : *c - 'a' + 10);
}

/* A small part at a time: the stack may be small, and the list of groups long. */
static struct process_status read_from(const char *path)
{
    struct process_status found = {0};
    char part[256], line[48];
    unsigned length = 0;
    long size, fd = raw_syscall4(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return found;
    while ((size = raw_syscall3(SYS_read, fd, (long)part, sizeof part)) > 0) {
        for (long i = 0; i < size; i++) {
            if (part[i] != '\n') {
                if (length < sizeof line - 1)
                    line[length++] = part[i];
                continue;
            }
            line[length] = '\0';
            take_line(line, &found);
            length = 0;
        }
    }
    raw_syscall3(SYS_close, fd, 0, 0);
    return found;
}

struct process_status status_read(void)
{
    return read_from("/proc/self/status");
}

struct process_status status_of_thread(uint32_t tid)
{
    char path[48] = "/proc/self/task/", digits[12];
    unsigned count = 0;
    do
        digits[count++] = (char)('0' + tid % 10);
    while ((tid /= 10) != 0);
    char *at = path + strlen(path);
    while (count)
        *at++ = digits[--count];
    memcpy(at, "/status", sizeof "/status");
    return read_from(path);
}

bool status_is_alone(void)
{
    struct stat threads; /* a folder with a folder for each */
    return raw_syscall3(SYS_stat, (long)"/proc/self/task", (long)&threads, 0) >= 0 &&
           threads.st_nlink == 3;
}
