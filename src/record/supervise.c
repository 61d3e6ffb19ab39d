#include "record/collect.h"
#include "record/record.h"
#include "record/server.h"
#include "record/target.h"

#include "runtime/channel_format.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* The runtime is beside the command in a build, and in the library folder when installed. */
static char *find_runtime(void)
{
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        return NULL;
    self[length] = '\0';
    char *slash = strrchr(self, '/');
    *slash = '\0';
    static const char *const places[] = {"%s/libcalltrail-rt.so",
                                         "%s/../lib/calltrail/libcalltrail-rt.so",
                                         "%s/../lib/x86_64-linux-gnu/calltrail/libcalltrail-rt.so"};
    for (unsigned i = 0; i < 3; i++) {
        char path[4200];
        snprintf(path, sizeof path, places[i], self);
        if (access(path, R_OK) == 0)
            return must_strdup(path);
    }
    return NULL;
}

static void run_child(const struct record_options *options, const struct server *server,
                      const char *path, const char *runtime, const sigset_t *mask)
{
    const char *preload = getenv("LD_PRELOAD");
    char *value =
        preload && *preload ? must_format("%s:%s", runtime, preload) : must_strdup(runtime);
    setenv("LD_PRELOAD", value, 1);
    setenv(CHANNEL_VARIABLE, server->address, 1);
    sigprocmask(SIG_SETMASK, mask, NULL);
    signal(SIGXFSZ, SIG_DFL);
    execv(path, options->command);
    fprintf(stderr, "calltrail: %s: cannot be run: %s\n", path, strerror(errno));
    _exit(127);
}

/* Until the program has ended: answers, grows arenas, passes signals on. */
static int supervise(struct server *server, pid_t child, int signals, struct recording *recording)
{
    for (;;) {
        struct pollfd wait[] = {{.fd = server->listener, .events = POLLIN},
                                {.fd = signals, .events = POLLIN}};
        poll(wait, 2, 20);
        if (wait[0].revents & POLLIN)
            server_answer(server);
        server_grow_arenas(server);
        if (wait[1].revents & POLLIN) {
            struct signalfd_siginfo info;
            if (read(signals, &info, sizeof info) == sizeof info && info.ssi_signo != SIGCHLD &&
                info.ssi_code != SI_KERNEL) /* a key press has reached the program already */
                kill(child, (int)info.ssi_signo);
        }
        pid_t ended = wait4(child, &recording->wait_status, WNOHANG, &recording->usage);
        if (ended == child)
            return 0;
    }
}

int record_run(const struct record_options *options, int *exit_status, struct ct_error *err)
{
    char *path, *runtime = find_runtime();
    if (!runtime)
        return ct_fail(err, "libcalltrail-rt.so is not where calltrail is; install both");
    CT_TRY(target_find(options->command[0], &path, err));
    struct server server;
    uint64_t flags =
        (options->follow ? CHANNEL_FOLLOW : 0u) | (options->verify ? CHANNEL_VERIFY : 0u);
    CT_TRY(server_open(&server, 1000000000 / options->rate_hz, flags, err));
    struct map map;
    if (map_for_file(&server.cache, path, &map, NULL, NULL) == CT_OK)
        map_close(&map);
    sigset_t handled, before;
    sigemptyset(&handled);
    static const int passed[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (unsigned i = 0; i < sizeof passed / sizeof passed[0]; i++)
        sigaddset(&handled, passed[i]);
    sigprocmask(SIG_BLOCK, &handled, &before);
    int signals = signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
    pid_t child = fork();
    if (child == 0)
        run_child(options, &server, path, runtime, &before);
    struct recording recording = {.options = options, .server = &server, .program = path};
    int status = child < 0 ? ct_fail_errno(err, errno, "no process for %s", path) : CT_OK;
    if (status == CT_OK) {
        supervise(&server, child, signals, &recording);
        server_answer(&server);
        *exit_status = WIFSIGNALED(recording.wait_status) ? 128 + WTERMSIG(recording.wait_status)
                                                          : WEXITSTATUS(recording.wait_status);
        status = collect_profile(&recording, err);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(signals);
    server_close(&server);
    free(path);
    free(runtime);
    return status;
}
