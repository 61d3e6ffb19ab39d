/*
 * Running readelf. A table of all frames can have tens of millions of lines, so its lines are found
 * with memchr in large blocks, and nothing is copied but the piece of a line at a block's end.
 */
#include "readelf_run.h"

#include "base/vec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20 };

static void run_readelf(const char *option, const char *path, int output, int messages)
{
    int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(messages, STDERR_FILENO);
    setenv("LC_ALL", "C", 1);
    execlp("readelf", "readelf", option, "--", path, (char *)NULL);
    dprintf(STDERR_FILENO, "cannot run readelf: %s\n", strerror(errno));
    _exit(127);
}

int readelf_start(const char *option, const char *path, struct readelf_run *out,
                  struct ct_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return ct_fail_errno(err, errno, "cannot make a pipe");
    fcntl(ends[0], F_SETPIPE_SZ, BUFFER_BYTES); /* fewer switches; it works without */
    int messages = memfd_create("readelf messages", MFD_CLOEXEC);
    pid_t pid = messages < 0 ? -1 : fork();
    if (pid < 0) {
        ct_fail_errno(err, errno, "cannot start readelf");
        close(ends[0]);
        close(ends[1]);
        if (messages >= 0)
            close(messages);
        return CT_ERROR;
    }
    if (pid == 0)
        run_readelf(option, path, ends[1], messages);
    close(ends[1]);
    *out = (struct readelf_run){
        .path = path,
        .pid = pid,
        .output = ends[0],
        .messages = messages,
        .buffer = must_realloc(NULL, BUFFER_BYTES + 1, 1),
    };
    return CT_OK;
}

/* Moves what is left to the front and reads more behind it. False when nothing came. */
static bool refill(struct readelf_run *run)
{
    size_t left = run->end - run->at;
    if (left == BUFFER_BYTES)
        return false;
    memmove(run->buffer, run->buffer + run->at, left);
    run->at = 0;
    run->end = left;
    ssize_t count;
    do
        count = read(run->output, run->buffer + left, BUFFER_BYTES - left);
    while (count < 0 && errno == EINTR);
    if (count <= 0)
        return false;
    run->end += (size_t)count;
    return true;
}

char *readelf_line(struct readelf_run *run, size_t *length)
{
    size_t searched = 0;
    char *newline;
    while ((newline = memchr(run->buffer + run->at + searched, '\n',
                             run->end - run->at - searched)) == NULL) {
        searched = run->end - run->at;
        if (!refill(run)) {
            if (searched == 0)
                return NULL;
            newline = run->buffer + run->end++; /* the buffer has a byte more for this */
            break;
        }
    }
    char *line = run->buffer + run->at;
    *newline = '\0';
    *length = (size_t)(newline - line);
    run->at += *length + 1;
    return line;
}

int readelf_finish(struct readelf_run *run, char *warning, size_t warning_size,
                   struct ct_error *err)
{
    close(run->output);
    free(run->buffer);
    int status;
    while (waitpid(run->pid, &status, 0) < 0 && errno == EINTR)
        ;
    ssize_t count = pread(run->messages, warning, warning_size - 1, 0);
    warning[count > 0 ? count : 0] = '\0';
    warning[strcspn(warning, "\n")] = '\0';
    close(run->messages);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return ct_fail(err, "%s: readelf failed (%s)", run->path,
                       *warning ? warning : "it says nothing");
    return CT_OK;
}

const char *skip_spaces(const char *at)
{
    while (*at == ' ')
        at++;
    return at;
}

const char *parse_hex(const char *at, uint64_t *value)
{
    uint64_t sum = 0;
    for (;; at++) {
        unsigned digit = (unsigned char)*at - (unsigned)'0';
        if (digit > 9) {
            digit = (unsigned char)*at - (unsigned)'a';
            if (digit > 5)
                break;
            digit += 10;
        }
        sum = sum << 4 | digit;
    }
    *value = sum;
    return at;
}

const char *parse_number(const char *at, int64_t *value)
{
    bool negative = *at == '-';
    if (*at == '-' || *at == '+')
        at++;
    uint64_t sum = 0;
    for (; *at >= '0' && *at <= '9'; at++)
        sum = sum * 10 + (uint64_t)(*at - '0');
    *value = (int64_t)(negative ? 0 - sum : sum);
    return at;
}

bool readelf_section_line(const char *line, bool *in_eh_frame)
{
    /* "Contents of the .eh_frame section:", also with "(loaded from ...)" */
    static const char start[] = "Contents of the ";
    static const char name[] = ".eh_frame section";
    if (strncmp(line, start, sizeof start - 1) != 0)
        return false;
    *in_eh_frame = strncmp(line + sizeof start - 1, name, sizeof name - 1) == 0;
    return true;
}

bool readelf_entry_line(const char *line, size_t length)
{
    return length > 9 && line[8] == ' ' && memchr(line, ' ', 8) == NULL;
}
