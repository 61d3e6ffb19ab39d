#!/usr/bin/env bash
# calltrail record where it is not at home: odd paths, process groups, and very many libraries.
set -uo pipefail
cd "$(dirname "$0")/../.."
CALLTRAIL=$(realpath "${CALLTRAIL:-$PWD/build/calltrail}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache
failed=0

check() { # name, command...
    local title=$1
    shift
    if "$@" >"$work/out" 2>&1; then
        echo "ok surroundings: $title"
    else
        tail -n 8 "$work/out"
        echo "FAIL surroundings: $title"
        failed=1
    fi
}
processes() { # of the profile, attached
    "$CALLTRAIL" info --json "$work/p.ctp" |
        python3 -c 'import json, sys; print(sum(p["attached"] for p in json.load(sys.stdin)["processes"]))'
}

# LD_PRELOAD separates by spaces and colons.
odd_path() { # events
    local folder="$work/a path:with both"
    mkdir -p "$folder"
    cp "$CALLTRAIL" "$(dirname "$CALLTRAIL")"/libcalltrail-*.so "$folder"
    "$folder/calltrail" record -e "$1" -o "$work/p.ctp" -- sh -c 'env | sort; /bin/true' >"$work/recorded" 2>&1 || return 1
    sh -c 'env | sort; /bin/true' >"$work/plain" 2>&1
    diff <(grep -v '^_=' "$work/plain") <(grep -v '^_=' "$work/recorded") && [ "$(processes)" -ge 3 ]
}
check "an installation path with a space and a colon" odd_path cpu
check "the same with events" odd_path wall,malloc

# Children come and go: what they have measured is in files, and the recorder has none of it in its memory.
cat >"$work/children.sh" <<'END'
i=0
while [ $i -lt 300 ]; do /bin/true; i=$((i + 1)); done
shared_kb() { awk '/RssShmem/ { print $2 }' /proc/$PPID/status; }
i=0
while [ "$(shared_kb)" -gt 800 ] && [ $i -lt 600 ]; do sleep 0.2; i=$((i + 1)); done
shared_kb
END
few_kb_for_ended_children() {
    "$CALLTRAIL" record -o "$work/p.ctp" -- sh "$work/children.sh" >"$work/kb" 2>"$work/err" || return 1
    cat "$work/kb" "$work/err"
    [ "$(head -1 "$work/kb")" -le 800 ] && [ "$(processes)" -ge 301 ]
}
check "300 children that have ended take less than 800 KB of the recorder's memory" few_kb_for_ended_children

# A child that nothing can be loaded into is listed with the reason, however short it is.
printf '%s\n' 'int main(void) { return 0; }' >"$work/nothing.c"
gcc -static -o "$work/static" "$work/nothing.c"
static_child() { # options of record
    (cd "$work" && "$CALLTRAIL" record "$@" -o p.ctp -- sh -c './static; ./static; exit 0') || return 1
    "$CALLTRAIL" info --json "$work/p.ctp" | python3 -c '
import json, sys
found = [p for p in json.load(sys.stdin)["processes"] if p["command"].endswith("/static")]
assert len(found) == 2, found
assert all(not p["attached"] and "statically linked" in p["restricted"] for p in found), found'
    "$CALLTRAIL" report "$work/p.ctp" | grep -q '2 processes were seen, but not measured: static and 1 more'
}
check "static children are listed" static_child -e malloc
check "static children are listed under exact" static_child --engine exact

# A daemon is in no parent's account: its CPU time is its own, and the rate is that of all samples in all of it.
cat >"$work/outlives.c" <<'C'
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>
static void burn(long user_us)
{
    struct rusage u;
    do {
        for (volatile int i = 0; i < 2000000; i++) { }
        getrusage(RUSAGE_SELF, &u);
    } while (u.ru_utime.tv_sec * 1000000 + u.ru_utime.tv_usec < user_us);
}
int main(void)
{
    int ends[2];
    char byte;
    if (pipe(ends)) return 1;
    if (fork() == 0) {
        setsid();
        if (fork()) _exit(0);
        burn(600000);
        printf("%d\n", (int)getpid());
        fflush(stdout);
        if (write(ends[1], "", 1) != 1) return 1;
        for (;;) pause();
    }
    burn(100000);
    return read(ends[0], &byte, 1) != 1;
}
C
gcc -O1 -o "$work/outlives" "$work/outlives.c"
daemon() {
    "$CALLTRAIL" record -o "$work/p.ctp" -- "$work/outlives" >"$work/daemon" || return 1
    kill "$(cat "$work/daemon")"
    "$CALLTRAIL" info --json "$work/p.ctp" | python3 -c '
import json, sys
info = json.load(sys.stdin)
assert info["utime_s"] > 0.5 and info["rate_got_hz"] < 1500, (info["utime_s"], info["rate_got_hz"])'
}
check "the CPU time of a daemon counts" daemon

# What a recording that was killed has left in memory is on a disk after the next one, smaller, and whole.
cat >"$work/left.py" <<'P'
import atexit, glob, os, re, shutil, subprocess, sys
calltrail, work = sys.argv[1:]
run = subprocess.Popen([calltrail, "record", "--engine", "exact", "-o", work + "/l.ctp", "perl", "-e",
                        "sub f { } f() for 1..1000; $| = 1; print qq(ready\\n); <STDIN>"],
                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
run.stdout.readline()
place, = [os.path.dirname(name) for name in glob.glob("/dev/shm/calltrail-*/supervisor")
          if open(name).read().split()[0] == str(run.pid)]
atexit.register(shutil.rmtree, place, ignore_errors=True)
run.kill()
run.wait()
run.stdin.close()          # the program ends,
while run.stdout.read():   # and this is its end
    pass
before = os.stat(place + "/0.arena").st_blocks
os.utime(place + "/supervisor", (0, 0))
after = subprocess.run([calltrail, "record", "-o", work + "/l.ctp", "true"], stderr=subprocess.PIPE, text=True,
                       env={**os.environ, "TMPDIR": work}).stderr
said = re.search(r"a recording that was killed has left perl, .* it is in (\S+) now", after)
assert said and not os.path.exists(place), after
now = said.group(1)
try:
    assert os.stat(now + "/0.arena").st_blocks < before / 2, (os.stat(now + "/0.arena").st_blocks, before)
    subprocess.run([calltrail, "recover", "-o", work + "/l.ctp", now], check=True)
    assert not os.path.exists(now)
finally:
    shutil.rmtree(now, ignore_errors=True)
calls = subprocess.run([calltrail, "report", "--view", "flat", work + "/l.ctp"], stdout=subprocess.PIPE, text=True).stdout
assert "Perl_" in calls or "perl+" in calls, calls
P
[ "$(stat -f -c %T /dev/shm)" = tmpfs ] && check "what a killed recording has left goes to a disk" timeout 60 python3 "$work/left.py" "$CALLTRAIL" "$work"

# Numbers of processes are used again: here that of the recorded program is a number of a process that goes on.
cat >"$work/again.py" <<'P'
import atexit, glob, os, shutil, struct, subprocess, sys
calltrail, work = sys.argv[1:]
run = subprocess.Popen([calltrail, "record", "-o", work + "/l.ctp", "perl", "-e",
                        "$| = 1; for (1..300000) { $x += $_ } print qq($$\\n); <STDIN>"],
                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
recorded = int(run.stdout.readline())
folder, = [os.path.dirname(name) for name in glob.glob("/dev/shm/calltrail-*/supervisor") + glob.glob("/tmp/calltrail-*/supervisor")
           if open(name).read().split()[0] == str(run.pid)]
atexit.register(shutil.rmtree, folder, ignore_errors=True)
run.kill()
run.wait()
going_on = subprocess.run([calltrail, "recover", "-o", work + "/l.ctp", folder], stderr=subprocess.PIPE, text=True, check=True).stderr
assert "1 process goes on" in going_on and os.path.exists(folder), going_on
run.stdin.close()
while run.stdout.read():
    pass
with open(folder + "/0.arena", "r+b") as arena:
    outer_pid = 180  # in the header
    arena.seek(outer_pid)
    assert arena.read(4) == struct.pack("=I", recorded), "the layout of arenas is another"
    arena.seek(outer_pid)
    arena.write(struct.pack("=I", os.getpid()))
over = subprocess.run([calltrail, "recover", "-o", work + "/l.ctp", folder], stderr=subprocess.PIPE, text=True, check=True).stderr
assert "on:" not in over and not os.path.exists(folder), over
P
check "a process that has the number of one that has ended" timeout 60 python3 "$work/again.py" "$CALLTRAIL" "$work"

# A recording that is told to end as soon as it has a folder leaves none behind, and ends as its program does.
cat >"$work/early.py" <<'P'
import glob, os, shutil, signal, subprocess, sys
calltrail, work = sys.argv[1:]
def folder_of(pid):
    for name in glob.glob("/dev/shm/calltrail-*/supervisor") + glob.glob("/tmp/calltrail-*/supervisor"):
        try:
            if open(name).read().split()[:1] == [str(pid)]:
                return os.path.dirname(name)
        except OSError:
            pass
for where in ["--outside"], []:
    for i in range(10):
        run = subprocess.Popen([calltrail, "record", *where, "-o", work + "/e.ctp", "sleep", "100"])
        folder = None
        while not folder and run.poll() is None:
            folder = folder_of(run.pid)
        run.send_signal(signal.SIGTERM)
        status = run.wait()
        if os.path.exists(folder or "/"):
            shutil.rmtree(folder or "none", ignore_errors=True)
            sys.exit("%s is left behind, status %d" % (folder, status))
        assert status == 143, status
P
check "a signal before the program has begun" timeout 60 python3 "$work/early.py" "$CALLTRAIL" "$work"

# A signal for the whole group reaches the program once; one for the supervisor is passed on. The second comes
# behind the first, by its number: when it is there, so is whatever the first had become.
cat >"$work/group.c" <<'C'
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static volatile int once, last;
static void on_signal(int number) { if (number == SIGUSR1) once++; else last++; }
int main(void)
{
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    signal(SIGUSR1, on_signal);
    signal(SIGTERM, on_signal);
    for (int i = 1; i <= 3; i++) {
        kill(0, SIGUSR1);
        kill(getppid(), SIGTERM);
        while (last < i) sigsuspend(&before);
    }
    printf("%d %d\n", once, last);
    return 0;
}
C
gcc -O1 -o "$work/group" "$work/group.c"
group() { [ "$(setsid -w "$CALLTRAIL" record -o "$work/p.ctp" "$work/group")" = "3 3" ]; }
check "a signal for the process group comes once" timeout 60 bash -c "$(declare -f group); CALLTRAIL=$CALLTRAIL work=$work; group"

# More libraries than programs have: the last of them is known as the first is.
mkdir "$work/many"
cat >"$work/many/one.c" <<'C'
__attribute__((noinline)) unsigned in_library(unsigned n) { volatile unsigned x = 1; while (n--) x = x * 3 + 1; return x; }
C
cat >"$work/many/main.c" <<'C'
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    void *last = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) : NULL;
    unsigned (*in_library)(unsigned) = last ? dlsym(last, "in_library") : NULL;
    for (int i = 0; in_library && i < 100; i++) in_library(1000000);
    puts(in_library ? "done" : "not loaded");
    return 0;
}
C
gcc -g -O1 -shared -fPIC -Wl,--build-id=sha1 -o "$work/many/one.so" "$work/many/one.c"
cat >"$work/many/copies.py" <<'P'
import sys
library = bytearray(open("one.so", "rb").read())
build_id = library.index(b"\x14\0\0\0\3\0\0\0GNU\0") + 12
for i in range(2300):  # each is another library
    library[build_id:build_id + 4] = i.to_bytes(4, "little")
    open("lib%04d.so" % i, "wb").write(library)
P
(cd "$work/many" && python3 copies.py && gcc -o many main.c -L. -Wl,--no-as-needed,-rpath,"$work/many" $(printf -- '-l:%s ' lib*.so))
many() {
    [ "$("$CALLTRAIL" record -o "$work/p.ctp" "$work/many/many" "$work/many/lib2299.so")" = done ] || return 1
    "$CALLTRAIL" export --to folded "$work/p.ctp" >"$work/folded"
    awk '{ all += $NF } /main;.*in_library/ { found += $NF } END { print found, all; exit !(found > all / 2) }' "$work/folded"
}
check "2,300 libraries" timeout 300 bash -c "$(declare -f many); CALLTRAIL=$CALLTRAIL work=$work; many"

exit $failed
