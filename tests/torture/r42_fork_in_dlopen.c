/*
 * Row 42: a child is forked while another thread of its parent loads a library, and the runtime has
 * asked the supervisor about that library. The supervisor is stopped meanwhile, so that the answer
 * does not come before the fork; the child must get its own answers when it goes on, and has no
 * files open but the program's.
 */
#include "torture.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static _Atomic int loader_tid, is_loaded;

static void *load(void *path)
{
    loader_tid = (int)syscall(SYS_gettid);
    void *plugin = dlopen(path, RTLD_NOW);
    is_loaded = 1;
    CHECK(plugin != NULL);
    return plugin;
}

/* What runs us, if that is calltrail; 0 in a plain run. */
static pid_t supervisor(void)
{
    char path[64], name[16] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", (int)getppid());
    FILE *file = fopen(path, "re");
    if (file && !fgets(name, sizeof name, file))
        name[0] = '\0';
    if (file)
        fclose(file);
    return strcmp(name, "calltrail\n") == 0 ? getppid() : 0;
}

static int sleeps(int tid)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    FILE *file = fopen(path, "re");
    if (file && !fgets(text, sizeof text, file))
        text[0] = '\0';
    if (file)
        fclose(file);
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' && name_end[2] == 'S';
}

static int open_files(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

static NOINLINE void only_in_child(void)
{
    burn_ms(100);
}

int main(int argc, char **argv)
{
    char path[4200];
    pthread_t loader;
    pid_t stopped = supervisor();
    int files = open_files();
    (void)argc;
    snprintf(path, sizeof path, "%.*s/plugin_a.so", (int)(strrchr(argv[0], '/') - argv[0]),
             argv[0]);
    burn_ms(100);
    if (stopped)
        CHECK(kill(stopped, SIGSTOP) == 0);
    CHECK(pthread_create(&loader, NULL, load, path) == 0);
    /* With no supervisor to answer, all that the thread can sleep in is the wait for one; it ends
     * if somebody has killed the supervisor. */
    while (!is_loaded && (!stopped || !loader_tid || !sleeps(loader_tid)))
        sched_yield();
    pid_t child = fork();
    if (child == 0) {
        only_in_child();
        _exit(open_files() == files ? 7 : 8);
    }
    if (stopped)
        CHECK(kill(stopped, SIGCONT) == 0);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(pthread_join(loader, NULL) == 0);
    printf("%#x\n", status);
    return torture_end();
}
