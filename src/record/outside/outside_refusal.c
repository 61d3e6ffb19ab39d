#include "record/outside/outside_refusal.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_setting(const char *path, int otherwise)
{
    int value = otherwise;
    FILE *file = fopen(path, "re");
    if (file) {
        if (fscanf(file, "%d", &value) != 1)
            value = otherwise;
        fclose(file);
    }
    return value;
}

static bool is_anothers(pid_t tid)
{
    char path[32];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d", tid);
    return tid && geteuid() != 0 && stat(path, &status) == 0 && status.st_uid != geteuid();
}

int outside_refuse(int why, const struct outside_wanted *wanted, pid_t tid, struct ct_error *err)
{
    int level = read_setting("/proc/sys/kernel/perf_event_paranoid", 2);
    int most = wanted->in_kernel ? 1 : 2;
    if ((why == EACCES || why == EPERM) && level > most)
        return ct_fail(err,
                       "recording %sfrom outside is not permitted: it needs CAP_PERFMON, or "
                       "kernel.perf_event_paranoid of at most %d (it is %d)",
                       wanted->in_kernel ? "kernel time " : "", most, level);
    if ((why == EACCES || why == EPERM) && is_anothers(tid))
        return ct_fail(err,
                       "process %d belongs to another user: recording it needs CAP_PERFMON or "
                       "CAP_SYS_PTRACE; run calltrail as root or as that user",
                       tid);
    if ((why == EACCES || why == EPERM) && tid)
        return ct_fail(err,
                       "process %d may not be looked at: it has other privileges than calltrail "
                       "(CAP_PERFMON would do), or something forbids perf_event_open, as most "
                       "containers do",
                       tid);
    if (why == EACCES || why == EPERM)
        return ct_fail(err, "recording from outside is not permitted: something forbids "
                            "perf_event_open, as most containers do; CAP_PERFMON or another "
                            "seccomp profile permits it");
    if (why == EMFILE || why == ENFILE)
        return ct_fail(err,
                       "too few open files are permitted (%ld): recording from outside takes two "
                       "for each thread and processor; see ulimit -Hn",
                       sysconf(_SC_OPEN_MAX));
    if (why == EINVAL)
        return ct_fail(err, "this kernel does not take the perf event for recording from outside; "
                            "Linux 4.3 or later does");
    return ct_fail_errno(err, why, "no perf event for recording from outside");
}

int outside_refuse_memory(int why, struct ct_error *err)
{
    int kilobytes = read_setting("/proc/sys/kernel/perf_event_mlock_kb", 0);
    if (why == EPERM)
        return ct_fail(err,
                       "the rings for samples need 104 KB of locked memory for each processor: "
                       "kernel.perf_event_mlock_kb (it is %d, and others of this user may have "
                       "taken it), ulimit -l, or CAP_IPC_LOCK",
                       kilobytes);
    return ct_fail_errno(err, why, "no memory for the rings of samples");
}
