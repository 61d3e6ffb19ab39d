#include "record/slices.h"

#include "base/clock.h"
#include "names/fill.h"
#include "profile/slice.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_since_1970(void)
{
    return clock_ns(CLOCK_REALTIME);
}

/* ---- Making a slice -------------------------------------------------------------------------- */

/* slice-TIME-HOST-PID.ctp: in the order of time, and no other recording's. */
static char *slice_name(const struct slices *s)
{
    char time[32], host[64] = "";
    time_t seconds = (time_t)(s->start_ns / 1000000000);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    strftime(time, sizeof time, "%Y%m%dT%H%M%S", &parts);
    snprintf(host, sizeof host, "%.60s", s->options->job.host);
    for (char *c = host; *c; c++)
        if (*c == '/')
            *c = '_';
    return must_format("slice-%s.%09uZ-%s-%d.ctp", time, (unsigned)(s->start_ns % 1000000000), host,
                       (int)getppid());
}

static int subtract(const char *base, const char *latest, const struct slice_facts *facts,
                    const char *path, struct ct_error *err)
{
    struct profile older, newer;
    bool has_older = access(base, F_OK) == 0;
    if (has_older)
        CT_TRY(profile_open(base, &older, err));
    int status = profile_open(latest, &newer, err);
    if (status == CT_OK) {
        status = slice_write(has_older ? &older : NULL, &newer, facts, path, err);
        profile_close(&newer);
    }
    if (has_older)
        profile_close(&older);
    return status;
}

/* Source lines, if they can be had: debug information is not always sound, so it is read in a
 * process of its own. */
static bool add_lines(const char *from, const char *to)
{
    struct fill_result result;
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(names_fill_file(from, to, &(struct debug_folders){0}, &result, NULL));
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static int is_slice(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return strncmp(entry->d_name, "slice-", 6) == 0 && length > 10 &&
           strcmp(entry->d_name + length - 4, ".ctp") == 0;
}

/* Removes the oldest slices until the others fit; the newest stays. */
static void trim(const char *folder, uint64_t bytes_max)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, is_slice, alphasort);
    uint64_t bytes = 0;
    for (int i = count; i-- > 0;) {
        struct stat status;
        char *path = must_format("%s/%s", folder, entries[i]->d_name);
        if (stat(path, &status) == 0)
            bytes += (uint64_t)status.st_size;
        if (bytes > bytes_max && i < count - 1)
            unlink(path);
        free(path);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

/* In the maker: the slice, then its name, then the snapshot that the next one is counted from. */
static int make_slice(const struct slices *s, struct ct_error *err)
{
    const struct record_slices *wanted = &s->options->slices;
    struct slice_facts facts = {{s->start_ns, s->latest_ns}, wanted->labels};
    char *name = slice_name(s), *path = must_format("%s/%s", wanted->folder, name);
    char *part = must_format("%s/.%s.part", wanted->folder, name);
    int status = subtract(s->base, s->latest, &facts, part, err);
    if (status == CT_OK) {
        bool placed = !s->options->no_lines && add_lines(part, path);
        if (!placed && rename(part, path) != 0)
            status = ct_fail_errno(err, errno, "%s: cannot be put in place", path);
    }
    unlink(part);
    if (status == CT_OK && rename(s->latest, s->base) != 0)
        status = ct_fail_errno(err, errno, "%s: cannot be kept", s->latest);
    if (status == CT_OK && !wanted->carry)
        trim(wanted->folder, wanted->folder_bytes);
    free(name);
    free(path);
    free(part);
    return status;
}

static void warn(struct slices *s, const char *why)
{
    if (!s->is_warned)
        fprintf(stderr, "calltrail: a slice could not be written: %s; the next one has it\n", why);
    s->is_warned = true;
}

/* Waits for the slice that is being made; true if there is none any more. */
static bool reap(struct slices *s, struct server *server, bool wait, bool *failed)
{
    int status = 0;
    *failed = false;
    if (!s->maker)
        return true;
    pid_t ended = waitpid(s->maker, &status, wait ? 0 : WNOHANG);
    if (ended == 0)
        return false;
    s->maker = 0;
    *failed = ended < 0 || status != 0;
    if (*failed)
        return true;
    s->start_ns = s->latest_ns;
    s->is_warned = false;
    for (size_t i = 0; i < server->arenas.count; i++)
        server->arenas.items[i].is_in_slice |= server->arenas.items[i].is_in_snapshot;
    if (s->wake >= 0 && write(s->wake, "", 1) != 1 && errno != EAGAIN)
        warn(s, "the process that moves slices away has ended");
    return true;
}

static int begin_slice(struct slices *s, struct recording *recording, struct ct_error *err)
{
    struct server *server = recording->server;
    s->latest_ns = now_since_1970();
    for (size_t i = 0; i < server->arenas.count; i++)
        server->arenas.items[i].is_in_snapshot = server->arenas.items[i].is_gone;
    recording->snapshot = s->latest;
    recording->for_slice = true;
    int status = collect_profile(recording, err);
    recording->snapshot = NULL;
    recording->for_slice = false;
    CT_TRY(status);
    fflush(NULL);
    s->maker = fork();
    if (s->maker == 0) {
        if (make_slice(s, err) == CT_OK)
            _exit(0);
        fprintf(stderr, "calltrail: no slice: %s\n", err->text);
        _exit(1);
    }
    if (s->maker > 0)
        return CT_OK;
    s->maker = 0;
    return ct_fail_errno(err, errno, "no process for a slice");
}

/* ---- In the supervisor ----------------------------------------------------------------------- */

bool slices_due(struct slices *s, struct server *server)
{
    bool failed;
    if (s->options->slices.every_s <= 0 || !reap(s, server, false, &failed))
        return false;
    if (failed)
        warn(s, "its process failed");
    return now_s() >= s->next_s;
}

void slices_take(struct slices *s, struct recording *recording)
{
    struct ct_error err;
    while (s->next_s <= now_s()) /* late ones are not made up for: the slice is longer */
        s->next_s += s->options->slices.every_s;
    if (begin_slice(s, recording, &err) != CT_OK)
        warn(s, err.text);
}

static int start_carrier(struct slices *s, struct ct_error *err)
{
    const struct record_slices *wanted = &s->options->slices;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return ct_fail_errno(err, errno, "no pipe to the process that moves slices away");
    fflush(NULL);
    s->carrier = fork();
    if (s->carrier == 0) {
        sigset_t all; /* the end is the end of the pipe: Ctrl-C is for the program */
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, NULL);
        close(ends[1]);
        unsigned left =
            wanted->carry(wanted->carry_context, wanted->folder, wanted->folder_bytes, ends[0]);
        fflush(NULL);
        _exit(left ? 1 : 0);
    }
    close(ends[0]);
    s->wake = ends[1];
    return s->carrier > 0 ? CT_OK : ct_fail_errno(err, errno, "no process to carry slices away");
}

int slices_begin(struct slices *s, const struct record_options *options,
                 const struct server *server, struct ct_error *err)
{
    *s = (struct slices){.options = options, .wake = -1};
    if (options->slices.every_s <= 0)
        return CT_OK;
    CT_TRY(make_folders(options->slices.folder, err));
    if (access(options->slices.folder, W_OK | X_OK) != 0)
        return ct_fail_errno(err, errno, "%s: no slices can be written there",
                             options->slices.folder);
    s->base = must_format("%s/" SLICES_PREFIX "base", server->folder.path);
    s->latest = must_format("%s/" SLICES_PREFIX "latest", server->folder.path);
    s->start_ns = now_since_1970();
    s->next_s = now_s() + options->slices.every_s;
    return options->slices.carry ? start_carrier(s, err) : CT_OK;
}

/* The last slice. What the one before it could not write is in this one. */
static int finish(struct slices *s, struct recording *recording, struct ct_error *err)
{
    bool failed;
    reap(s, recording->server, true, &failed);
    CT_TRY(begin_slice(s, recording, err));
    reap(s, recording->server, true, &failed);
    return failed ? ct_fail(err, "the last slice could not be written") : CT_OK;
}

int slices_end(struct slices *s, struct recording *recording, struct ct_error *err)
{
    int status = finish(s, recording, err);
    if (s->wake >= 0)
        close(s->wake);
    int ended = 0;
    if (s->carrier > 0 && waitpid(s->carrier, &ended, 0) == s->carrier && ended != 0)
        fprintf(stderr,
                "calltrail: not all slices could be stored: those in %s are left, and go with the "
                "next recording, or with 'calltrail store add --remove URL %s/*.ctp'\n",
                s->options->slices.folder, s->options->slices.folder);
    unlink(s->latest);
    if (status == CT_OK)
        unlink(s->base);
    free(s->base);
    free(s->latest);
    return status;
}

bool slices_are_left(const char *folder)
{
    char *base = must_format("%s/" SLICES_PREFIX "base", folder);
    bool left = access(base, F_OK) == 0;
    free(base);
    return left;
}

int slices_recover(const char *folder, const char *output, struct ct_error *err)
{
    char *base = must_format("%s/" SLICES_PREFIX "base", folder);
    char *latest = must_format("%s/" SLICES_PREFIX "latest", folder);
    int status = CT_OK;
    struct stat written;
    if (stat(base, &written) == 0) {
        uint64_t start_ns =
            (uint64_t)written.st_mtim.tv_sec * 1000000000 + (uint64_t)written.st_mtim.tv_nsec;
        struct slice_facts facts = {{start_ns, now_since_1970()}, NULL};
        status = subtract(base, output, &facts, output, err);
        if (status == CT_OK)
            fprintf(stderr,
                    "calltrail: slices were written before: this is what they do not have\n");
    }
    if (status == CT_OK) {
        unlink(base);
        unlink(latest);
    }
    free(base);
    free(latest);
    return status;
}
