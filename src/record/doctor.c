#include "record/doctor.h"

#include "map/cache.h"
#include "record/kernel_names.h"
#include "record/language.h"
#include "record/leftovers.h"
#include "record/outside/outside_run.h"
#include "record/probe.h"
#include "record/target.h"
#include "runtime/arena_format.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void print_perf(FILE *out)
{
    static const uint64_t rates[] = {999, 9999};
    for (unsigned i = 0; i < 2; i++) {
        int fd = probe_open(rates[i]);
        if (fd < 0) {
            fprintf(out, "  perf events       no: %s\n", strerror(errno));
            return;
        }
        double got = probe_rate();
        close(fd);
        fprintf(out, "  %-17s %lu Hz requested, %.0f Hz achieved\n", i ? "" : "perf events",
                (unsigned long)rates[i], got);
    }
    double cost_us = probe_cost_us();
    fprintf(out, "  an empty sample   takes %.0f us, most of it in the kernel: %.1f%% at 999 Hz\n",
            cost_us, cost_us * 999 / 1e4);
}

static void print_timers(FILE *out)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGVTALRM};
    event._sigev_un._tid = gettid();
    timer_t timer;
    if (timer_create(SAMPLE_TIMER_CLOCK, &event, &timer) != 0) {
        fprintf(out, "  CPU-time timers   no: %s\n", strerror(errno));
        return;
    }
    struct itimerspec every = {{0, 1001001}, {0, 1001001}};
    timer_settime(timer, 0, &every, NULL);
    double got = probe_rate();
    timer_delete(timer);
    fprintf(out, "  CPU-time timers   999 Hz requested, %.0f Hz achieved (without perf events)\n",
            got);
}

/* One line of a file, without its end; "" when there is none. */
static void read_line(const char *path, const char *key, char *line, size_t size)
{
    FILE *file = fopen(path, "re");
    line[0] = '\0';
    while (file && fgets(line, (int)size, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (!key || strncmp(line, key, strlen(key)) == 0)
            break;
        line[0] = '\0';
    }
    if (file)
        fclose(file);
}

static void print_cache(FILE *out)
{
    struct map_cache cache;
    map_cache_open(&cache);
    if (cache.folder)
        fprintf(out, "  map cache         %s\n", cache.folder);
    else
        fprintf(out, "  map cache         none: %s\n", cache.warning.text);
    map_cache_close(&cache);
}

/* Of this process; with kernel time, if that may be seen. */
static void print_outside(FILE *out)
{
    struct ct_error err;
    if (outside_try(getpid(), false, &err) != CT_OK)
        fprintf(out, "  from outside      no: %s\n", err.text);
    else if (outside_try(getpid(), true, &err) != CT_OK)
        fprintf(out, "  from outside      user time yes; kernel time no: %s\n", err.text);
    else
        fprintf(out, "  from outside      yes, kernel time too%s\n",
                kernel_names_are_readable() ? ""
                                            : "; names of kernel functions may not be seen "
                                              "(kernel.kptr_restrict)");
}

static uint32_t languages_of(enum program_kind kind)
{
    return kind == PROGRAM_GO ? LANGUAGE_GO : kind == PROGRAM_OCAML ? LANGUAGE_OCAML : 0;
}

static int print_program(FILE *out, const char *program)
{
    struct target_ways ways;
    struct ct_error why, err;
    char *path;
    int status = 1;
    if (target_locate(program, &path, &err) != CT_OK) {
        fprintf(out, "  program           cannot be recorded: %s\n", err.text);
        return 1;
    }
    bool is_host = target_check_host(path, &ways, &why) == CT_OK;
    bool can_look = outside_try(getpid(), false, &err) == CT_OK;
    if (is_host || (ways.inside && !can_look)) {
        const char *consequence = language_consequence(languages_of(ways.kind));
        fprintf(out, "  program           %s: can be recorded%s%s\n", path,
                consequence ? "; it is " : "", consequence ? consequence : "");
        status = 0;
    } else if (!ways.outside) {
        fprintf(out, "  program           cannot be recorded: %s\n", why.text);
    } else if (!can_look) {
        fprintf(out, "  program           cannot be recorded: %s; and %s\n", why.text, err.text);
    } else {
        fprintf(out, "  program           can be recorded from outside%s: %s\n",
                ways.inside ? ", and is sampled from there" : " only", why.text);
        status = 0;
    }
    free(path);
    return status;
}

int doctor_print_process(FILE *out, pid_t pid)
{
    struct ct_error err;
    if (outside_try(pid, false, &err) != CT_OK) {
        fprintf(out, "process %d cannot be recorded: %s\n", pid, err.text);
        return 1;
    }
    fprintf(out, "process %d can be recorded%s\n", pid,
            outside_try(pid, true, &err) == CT_OK ? ", with kernel time too" : "");
    return 0;
}

int doctor_print(FILE *out, const char *program)
{
    char line[256];
    probe_begin();
    fputs("What this machine and this user allow\n", out);
    print_perf(out);
    print_timers(out);
    probe_end();
    read_line("/proc/sys/kernel/perf_event_paranoid", NULL, line, sizeof line);
    fprintf(out, "  paranoia level    %s (perf_event_paranoid)\n", *line ? line : "not known");
    read_line("/proc/self/status", "x86_Thread_features:", line, sizeof line);
    fprintf(out, "  shadow stacks     %s\n", strstr(line, "shstk") ? "on" : "off");
    print_outside(out);
    print_cache(out);
    leftovers_print(out);
    return program ? print_program(out, program) : 0;
}
