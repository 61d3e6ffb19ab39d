#!/usr/bin/env bash
# calltrail record from end to end: the program is left alone, and the profile tells what ran.
set -uo pipefail
cd "$(dirname "$0")/../.."
CALLTRAIL=${CALLTRAIL:-$PWD/build/calltrail}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Notes the pids of its recorders: others may be at work beside it.
cat >"$work/calltrail" <<S
#!/bin/sh
echo \$\$ >>"$work/recorders"
exec "$(realpath "$CALLTRAIL")" "\$@"
S
chmod +x "$work/calltrail"
CALLTRAIL=$work/calltrail
export XDG_CACHE_HOME=$work/cache
failed=0

check() { # name, command...
    local title=$1
    shift
    if "$@" >"$work/out" 2>&1; then
        echo "ok record: $title"
    else
        tail -n 8 "$work/out"
        echo "FAIL record: $title"
        failed=1
    fi
}

fact() { # key: of the whole profile
    "$CALLTRAIL" info --json "$work/p.ctp" | python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}
holds() { # python expression over the profile's JSON, called p
    "$CALLTRAIL" info --json "$work/p.ctp" | python3 -c 'import json, sys; p = json.load(sys.stdin); sys.exit(not eval(sys.argv[1]))' "$1"
}
record() { "$CALLTRAIL" record --verify -o "$work/p.ctp" "$@"; }

cat >"$work/burn.c" <<'C'
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static double cpu(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9; }
__attribute__((noinline)) double leaf(double until) { volatile double x = 1; while (cpu() < until) for (int i = 0; i < 100000; i++) x = x * 1.0000001; return x; }
__attribute__((noinline)) double one(double s) { return leaf(cpu() + s) + 1; }
__attribute__((noinline)) double two(double s) { return leaf(cpu() + 2 * s) + 1; }
static void *run(void *name) { pthread_setname_np(pthread_self(), name); one(0.3); return NULL; }
int main(int argc, char **argv)
{
    pthread_t t[2];
    char *names[] = {"first", "second"};
    for (int i = 0; argc > 1 && i < 2; i++) pthread_create(&t[i], NULL, run, names[i]);
    for (int i = 0; argc > 1 && i < 2; i++) pthread_join(t[i], NULL);
    one(0.2); two(0.2);
    puts("done");
    return 3;
}
C
gcc -O2 -pthread -o "$work/burn" "$work/burn.c"

same() { # the program's output and status, with and without
    "$@" >"$work/plain" 2>"$work/plain.err"
    local status=$?
    record "$@" >"$work/recorded" 2>"$work/recorded.err"
    local recorded=$?
    [ $status -eq $recorded ] && cmp "$work/plain" "$work/recorded" && cmp "$work/plain.err" "$work/recorded.err"
}
check "output and status are the program's" same "$work/burn"
check "every walk is complete and verified" holds \
    "p['samples'] > 300 and p['walks_complete'] == p['walks_total'] == p['samples'] == p['verify_checked'] + p['merged'] and p['verify_differ'] == 0"
check "the rate is what was asked" holds "0.9 < p['rate_got_hz'] / 999 < 1.1"
twice() { # by the folded stacks: one ran for 0.2 s of CPU time, two for 0.4 s
    "$CALLTRAIL" export --to folded "$work/p.ctp" | awk '
        / [0-9]+$/ { value = $NF; if ($0 ~ /;two;/) two += value; if ($0 ~ /;one;/) one += value }
        END { print one, two; exit !(one > 0.17e9 && one < 0.23e9 && two > 0.37e9 && two < 0.43e9) }'
}
check "two costs twice what one does" twice
check "threads are sampled, with names" same "$work/burn" threads
check "their names are kept" holds "{t['name'] for t in p['threads']} >= {'first', 'second'}"
check "perl is the same" same perl -e 'my %h; $h{$_ % 97} .= $_ for 1..200000; print length(join "", map { $h{$_} } sort keys %h), "\n"'
check "children are followed" same perl -e 'for my $k (1..2) { if (!fork) { my $s = 0; $s += $_ for 1..1000000; print "$s\n"; exit $k } wait; print $? >> 8, "\n" } system("echo shell; exit 4"); print $? >> 8, "\n"; print `echo back`'
check "and listed" holds "len(p['processes']) >= 5 and p['verify_differ'] == p['verify_differ_cfi'] == p['verify_differ_frame_pointers'] == 0"
check "the environment is the program's" same sh -c 'env | grep -v ^_='
check "so are the descriptors" same sh -c 'ls /proc/self/fd | wc -l'
check "death by a signal is passed on" bash -c "'$CALLTRAIL' record -o '$work/p.ctp' sh -c 'kill -9 \$\$'; [ \$? -eq 137 ]"
cat >"$work/exec.py" <<'P'
import json, subprocess, sys
calltrail, path, program = sys.argv[1:]
subprocess.run([calltrail, "record", "-o", path, "sh", "-c", f"exec sh -c 'exec {program}'"], stdout=subprocess.DEVNULL)
processes = json.loads(subprocess.run([calltrail, "info", "--json", path], capture_output=True, check=True).stdout)["processes"]
assert len(processes) == 3 and len({one["pid"] for one in processes}) == 1, processes
said = subprocess.run([calltrail, "report", path], capture_output=True, check=True).stdout.decode()
assert f" ran {(processes[2]['end_ns'] - processes[0]['start_ns']) / 1e9:.3f} s (" in said, said
assert f"(pid {processes[0]['pid']}, 1 thread)" in said, said
P
check "a program that became others ran until the last of them ended" python3 "$work/exec.py" "$CALLTRAIL" "$work/p.ctp" "$work/burn"
check "no-follow leaves children out" bash -c "'$CALLTRAIL' record --no-follow -o '$work/p.ctp' sh -c 'true; /bin/true; exit 0'"
check "one process then" holds "len(p['processes']) == 1"
check "a delay longer than the run gives no samples" bash -c "'$CALLTRAIL' record --delay 100 -o '$work/p.ctp' '$work/burn' | grep -q done"
check "none" holds "p['samples'] == 0 and p['measured_s'] == 0"
check "and why there are none" bash -c "'$CALLTRAIL' report '$work/p.ctp' | grep -q '^no samples: the program ended before --delay was over'"

guessed() { # counted from the profile: samples whose stack has a frame that is a guess
    gcc -O2 -fno-omit-frame-pointer -o "$work/jit" tests/torture/r14_jit.c &&
        "$CALLTRAIL" record -o "$work/p.ctp" "$work/jit" >/dev/null || return 1
    PYTHONPATH=tests/oracle PYTHONDONTWRITEBYTECODE=1 python3 - "$work/p.ctp" "$(fact walks_guessed)" <<'P'
import sys
import ctp_reader
p = ctp_reader.Profile(sys.argv[1])
guess, samples, guessed = set(), 0, 0
for node, (parent, frame) in enumerate(zip(p.table(ctp_reader.PARENTS), p.table(ctp_reader.NODE_FRAMES))):
    if parent in guess or frame != ctp_reader.NONE and p.table(ctp_reader.FRAMES)[frame][5] & 2:
        guess.add(node)
    count = round(p.values[0][node] / p.table(ctp_reader.METRICS)[0][4])
    samples += count
    guessed += count * (node in guess)
print(samples, guessed, sys.argv[2])
sys.exit(not 50 < guessed < samples - 50 or guessed != int(sys.argv[2]))
P
}
check "walks with a guess are counted" guessed
one_name() { # code without a name, at several addresses
    "$CALLTRAIL" export --to folded "$work/p.ctp" >"$work/stacks"
    cat "$work/stacks"
    grep -q ';calls_framed;\[unknown code\];' "$work/stacks" && ! grep -q ';0x' "$work/stacks"
}
check "code without a name is one function" one_name

one_path() { # libraries one after the other under one path; each function is called by that of its number
    gcc -O2 -o "$work/vanish" tests/outside/vanish.c || return 1
    for number in 0 1 2 3; do
        gcc -O2 -shared -fPIC -DIN=in_$number -o "$work/in_$number.so" tests/outside/vanishing.c || return 1
    done
    echo go | "$CALLTRAIL" record -o "$work/p.ctp" "$work/vanish" "$work/v.so" "$work"/in_[0-3].so >/dev/null || return 1
    "$CALLTRAIL" export --to folded "$work/p.ctp" | grep ';in_' >"$work/stacks"
    cat "$work/stacks"
    [ "$(grep -cE ';calls_([0-3]);in_\1 ' "$work/stacks")" -eq 4 ] && ! grep -qvE ';calls_([0-3]);in_\1 ' "$work/stacks"
}
check "a library has its own names, whatever its path leads to at the end" one_path

snapshot() { # SIGUSR2 while the program runs; a pipe says when it does
    mkfifo "$work/ready" "$work/go"
    "$CALLTRAIL" record -o "$work/s.ctp" sh -c "echo >'$work/ready'; read x <'$work/go'; exit 5" &
    local pid=$!
    read -r _ <"$work/ready"
    kill -USR2 $pid
    while [ ! -e "$work/s.ctp" ]; do :; done
    "$CALLTRAIL" info --check "$work/s.ctp" >/dev/null || return 1
    echo >"$work/go"
    wait $pid
    [ $? -eq 5 ]
}
check "SIGUSR2 writes a snapshot" timeout 30 bash -c "$(declare -f snapshot); work='$work' CALLTRAIL='$CALLTRAIL'; snapshot"
recover() { # the supervisor is killed; what was measured is still there
    mkfifo "$work/ready2" "$work/go2"
    TMPDIR=$work "$CALLTRAIL" record -o "$work/r.ctp" perl -e '
        my $s = 0; $s += $_ for 1..3000000; open(F, ">", $ARGV[0]); syswrite(F, "x\n"); open(G, "<", $ARGV[1]); <G>;' \
        "$work/ready2" "$work/go2" &
    local pid=$!
    exec 7<"$work/ready2"
    read -r _ <&7
    kill -9 $pid
    wait $pid
    local folder
    folder=$(grep -l "^$pid\$" /dev/shm/calltrail-*/supervisor 2>/dev/null | head -n 1)
    folder=${folder%/supervisor}
    echo >"$work/go2"
    cat <&7 # to the program's end
    cp -r "$folder" "$work/other" # for the next test
    [ -n "$folder" ] && "$CALLTRAIL" recover -o "$work/p.ctp" "$folder" && [ ! -e "$folder" ]
}
check "recover makes the profile of a killed recording" timeout 30 bash -c "$(declare -f recover); work='$work' CALLTRAIL='$CALLTRAIL'; recover"
check "with the samples" holds "p['samples'] > 20 and p['walks_complete'] == p['samples']"
unknown_engine() { # a recording of another version's, or one that was damaged
    local at
    at=$(printf '#include "runtime/arena_format.h"\n#include <stdio.h>
        int main(void) { printf("%%zu", offsetof(struct arena_header, engine)); }' |
        gcc -Isrc -xc - -o "$work/at" && "$work/at") || return 1
    printf '\377' | dd of="$work/other/0.arena" bs=1 seek="$at" conv=notrunc status=none
    "$CALLTRAIL" recover -o "$work/u.ctp" "$work/other" 2>"$work/err1"
    [ $? -eq 1 ] && grep -q 'is not an arena of this version' "$work/err1" && [ -e "$work/other/0.arena" ]
}
check "recover leaves an engine alone that it does not know" unknown_engine

cat >"$work/known.py" <<'P'
"""What is known of a process's time, by how it and its recorder end: argv are calltrail and a folder."""
import atexit, ctypes, glob, json, os, shutil, subprocess, sys, time
calltrail, folder = sys.argv[1:]
path = os.path.join(folder, "known.ctp")
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # orphans become children of this process

def info():
    return json.loads(subprocess.check_output([calltrail, "info", "--json", path]))

def life(p):
    process, thread = p["processes"][0], p["threads"][0]
    return [(each["end_ns"] - each["start_ns"]) / 1e9 if each["end_ns"] else None for each in (process, thread)]

def summary():
    wide = dict(os.environ, COLUMNS="300")  # no line is broken
    return subprocess.check_output([calltrail, "report", path], text=True, env=wide)

before = time.monotonic()
for status, command in (3, [os.path.join(folder, "burn")]), (137, ["sh", "-c", "kill -9 $$"]):
    assert subprocess.call([calltrail, "record", "-o", path, *command], stdout=subprocess.DEVNULL) == status
    for length in life(info()):
        assert 0 < length < time.monotonic() - before, (command, length)
assert "cpu time" in summary()

# A recorder that is killed, and a program that goes on, and is killed then.
run = subprocess.Popen([calltrail, "record", "-o", path, "perl", "-e",
                        "$s += $_ for 1..3000000; $| = 1; print qq(ready\n); sleep 1000"], stdout=subprocess.PIPE)
run.stdout.readline()
with open("/proc/%d/task/%d/children" % (run.pid, run.pid)) as file:
    program, = [int(pid) for pid in file.read().split() if open("/proc/%s/comm" % pid).read() == "perl\n"]
place, = [os.path.dirname(name) for name in glob.glob("/dev/shm/calltrail-*/supervisor")
          if open(name).read().split()[0] == str(run.pid)]
ended = []

def clean_up():
    if not ended:
        os.kill(program, 9)
    shutil.rmtree(place, ignore_errors=True)

atexit.register(clean_up)
run.kill()
run.wait()
subprocess.run([calltrail, "recover", "-o", path, place], check=True, stderr=subprocess.PIPE)
with open("/proc/%d/stat" % program) as file:
    ticks = int(file.read().rsplit(")", 1)[1].split()[11])
p = info()
assert ticks and p["utime_s"] == ticks / os.sysconf("SC_CLK_TCK"), (p["utime_s"], ticks)
assert life(p) == [None, None], life(p)
clean = [calltrail, "doctor", "--clean", place]
refused = subprocess.run(clean, capture_output=True, text=True)
assert refused.returncode == 1 and "1 process of that recording still runs" in refused.stderr, refused
os.kill(program, 9)
ended.append(os.waitpid(program, 0))
copy = os.path.join(folder, "left")
shutil.copytree(place, copy, ignore=shutil.ignore_patterns("socket"))
subprocess.run([calltrail, "recover", "-o", path, place], check=True)
removed = subprocess.run(clean[:-1] + [copy], capture_output=True, text=True)
assert removed.returncode == 0 and "removed " + copy in removed.stdout and not os.path.exists(copy), removed
nothing = subprocess.run(clean, capture_output=True, text=True)
assert nothing.returncode == 1 and "no recording found" in nothing.stderr, nothing
p = info()
assert p["samples"] > 20 and not {"utime_s", "stime_s", "rate_got_hz"} & p.keys(), p.keys()
assert life(p) == [None, None] and "cpu time" not in summary(), summary()

# What is outside of the part that was measured is not called lost.
for options in ["--duration", "0.1"], ["--delay", "0.1"], ["--delay", "0.1", "--duration", "0.1"]:
    before = time.monotonic()
    subprocess.run([calltrail, "record", *options, "-o", path, os.path.join(folder, "burn")], stdout=subprocess.DEVNULL)
    text = summary()
    assert "stand for" not in text and "on a CPU for" not in text and " s of the run" in text, text
    least = 0.099 if "--delay" in options and "--duration" in options else 0  # else it has the start in it
    assert least < info()["measured_s"] < time.monotonic() - before, info()["measured_s"]
    assert "rate_got_hz" not in info(), "a rate of samples of a part by the CPU time of all"
P
check "when processes ended, and what CPU time is known" timeout 60 python3 "$work/known.py" "$CALLTRAIL" "$work"

# On a terminal, record ends with a line, on stderr; the program's output and status are its own.
cat >"$work/end.py" <<'P'
import glob, os, pty, shutil, subprocess, sys
calltrail, folder = sys.argv[1:]
os.chdir(folder)
with open("says.sh", "w") as file:
    file.write("echo out; echo err >&2; exit 3\n")

def run(*command, both=False, env=None):
    """The status, what went to a pipe, and what the terminal got."""
    global written_over
    primary, terminal = pty.openpty()
    process = subprocess.Popen([calltrail, *command], stdin=subprocess.DEVNULL, stderr=terminal, env=env,
                               stdout=terminal if both else subprocess.PIPE)
    os.close(terminal)
    shown = b""
    try:
        while part := os.read(primary, 65536):
            shown += part
    except OSError:  # all ends are closed
        pass
    os.close(primary)
    out = b"" if both else process.stdout.read()
    lines = shown.decode().replace("\r\n", "\n").split("\n")
    # Where something takes long, its progress was there before, and is written over.
    written_over = [part for line in lines for part in line.split("\r")[:-1]]
    lines = [line.split("\r")[-1].removeprefix("\x1b[K") for line in lines]
    return process.wait(), out.decode(), [line for line in lines if line]

status, out, shown = run("record", "sh", "says.sh")
assert (status, out, shown[0]) == (3, "out\n", "err"), (status, out, shown)
assert " in calltrail.ctp; " in shown[1] and "sh exited with status 3; next: calltrail report" in shown[1], shown
assert any("run it longer" in line for line in shown[2:]), shown
status, out, shown = run("record", "-o", "other.ctp", "sh", "-c", "exec sh -c 'kill -9 $$'")
assert status == 137 and "was killed by SIGKILL; next: calltrail report other.ctp" in shown[0], shown
status, out, shown = run("record", "-o", "it's $1.ctp", "true")
assert shown[0].endswith("next: calltrail report 'it'\\''s $1.ctp'"), shown
status, out, shown = run("record", "-o", "./-x.ctp", "true")
assert shown[0].endswith("next: calltrail report ./-x.ctp"), shown
status, out, shown = run("record", "sh", "-c", "sleep 0.5")
said = [[i for i, line in enumerate(shown) if words in line] for words in ("record -e wall shows where", "-F 4999")]
assert len(said[0]) == len(said[1]) == 1 and said[0] < said[1], shown
status, out, shown = run("record", "-F", "4999", "-e", "cpu,wall", "sh", "-c", "sleep 0.5")
assert not any("-e wall" in line or "-F 4999" in line for line in shown), shown
status, out, shown = run("record", "--quiet", "sh", "says.sh")
assert (status, shown) == (3, ["err"]), shown
status, out, shown = run("record", "-o", "/dev/null", "sh", "says.sh")
assert status == 3 and not any("next:" in line for line in shown), shown
status, out, shown = run("record", "--engine", "exact", "sh", "says.sh")
assert status == 3 and "calls: " in shown[1] and " in calltrail.ctp" in shown[1], shown
# Contexts are collected, and written: progress is shown when that takes long, here by a clock that runs so.
with open("late.c", "w") as file:
    file.write("""#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time)
{
    static int seconds;
    long failed = syscall(SYS_clock_gettime, clock, time);
    time->tv_sec += ++seconds;
    return (int)failed;
}
""")
subprocess.run(["gcc", "-shared", "-fPIC", "-o", "late.so", "late.c"], check=True)
for options in ["--engine", "exact"], ["-e", "malloc/1"]:
    process = subprocess.Popen([calltrail, "record", *options, "sh", "-c", "kill -9 $PPID"], stdout=subprocess.PIPE)
    process.stdout.read()
    process.wait()
    place, = [os.path.dirname(name) for name in glob.glob("/dev/shm/calltrail-*/supervisor")
              if open(name).read().split()[0] == str(process.pid)]
    status, out, shown = run("recover", "-o", "late.ctp", place, env={**os.environ, "LD_PRELOAD": os.path.abspath("late.so")})
    shutil.rmtree(place, ignore_errors=True)
    assert status == 0 and {line.split(" ")[0] for line in written_over} >= {"contexts", "profile"}, (shown, written_over)
# Elsewhere nothing is said.
silent = subprocess.run([calltrail, "record", "sh", "says.sh"], capture_output=True, text=True)
assert (silent.returncode, silent.stdout, silent.stderr) == (3, "out\n", "err\n"), silent
P
check "what it says at the end, on a terminal" timeout 300 python3 "$work/end.py" "$CALLTRAIL" "$work"

refuses() { # status, pattern, arguments...
    local expected=$1 pattern=$2
    shift 2
    "$CALLTRAIL" record "$@" >"$work/out1" 2>"$work/err1"
    local status=$?
    cat "$work/err1"
    [ $status -eq "$expected" ] && [ ! -s "$work/out1" ] && [ "$(wc -l <"$work/err1")" -eq 1 ] && grep -qE "$pattern" "$work/err1"
}
gcc -static -o "$work/static" "$work/burn.c" 2>/dev/null
printf 'text' >"$work/text" && chmod +x "$work/text"
check "a missing program" refuses 1 "there is no such program" no-such-program
check "a missing path" refuses 1 "cannot be run: No such file" ./no-such-program
check "not executable" refuses 1 "cannot be run: Permission denied" "$work/burn.c"
check "a directory" refuses 1 "is a directory" "$work"
check "a static program, with what only a runtime inside can measure" refuses 1 "statically linked" -e wall "$work/static"
check "not a program" refuses 1 "is not an ELF file" "$work/text"
check "an output that cannot be written" refuses 1 "cannot be written" -o /nonexistent/x "$work/burn"
check "an unknown event" refuses 2 "there is no event" -e nonsense "$work/burn"
check "a bad frequency" refuses 2 "a frequency is a number" -F 0 "$work/burn"
check "an unknown option" refuses 2 "unknown option '--nonsense'" --nonsense "$work/burn"
check "no program" refuses 2 "a PROGRAM is needed"
left_over() {
    for f in /dev/shm/calltrail-*/supervisor; do
        pid=$(head -n 1 "$f" 2>/dev/null) && grep -qx "$pid" "$work/recorders" && echo "$f" && return 1
    done
    [ "$(wc -l <"$work/recorders")" -gt 20 ]
}
check "nothing is left behind" left_over
exit $failed
