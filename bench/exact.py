#!/usr/bin/env python3
"""What engine exact costs: whole programs, plain and recorded in turn, and under callgrind.

    bench/exact.py [--rounds N] [--only REGEX] [--no-callgrind]

CPU time of the program itself, user and system; medians of N rounds (9), and the median of the ratios
of neighbouring runs with its interval for 95%. callgrind runs once: it takes long enough. The second table
has each kind of call: instructions by single steps, ns by pausing and going on inside one process; then come a program whose source is there, with gcc -pg and uftrace, and start-up from a warm cache.
"""
import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CALLTRAIL = os.environ.get("CALLTRAIL", os.path.join(HERE, "build/calltrail"))

PERL = r"""my %h; my $s = 0; sub fib { my $n = shift; $n < 2 ? $n : fib($n - 1) + fib($n - 2) }
print fib(24), "\n"; for my $i (1 .. 2000000) { my $k = "k" . ($i % 997); $h{$k} .= chr(65 + $i % 26);
$s += length($h{$k}); $h{$k} = "" if length($h{$k}) > 20 } print join(",", sort keys %h) =~ tr/k//, " $s\n";"""
PYTHON = """import json, re
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
print(fib(27)); d = {}
for i in range(1200000): d[str(i % 997)] = d.get(str(i % 997), 0) + i
for i in range(80): s = json.dumps(d); d = json.loads(s)
print(len(re.findall(r'[0-9]+', s * 20)))"""
LUA = """local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end print(fib(31))
local t = {} for i = 1, 500000 do t[#t + 1] = tostring(i % 997) .. 'x' end table.sort(t) print(#table.concat(t))"""
SQL = """create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 400000)
insert into t select i, 'x' || (i * 7919 % 10007), i * 1.5 from n; create index tb on t(b);
select count(*), sum(c) from t; select count(*) from t x join t y on x.a = y.a + 1 where x.b < y.b;"""
BASH = "f() { (( $1 > 0 )) && f $(($1 - 1)); return 0; }; for ((i = 0; i < 130000; i++)); do " \
       "s=$((s + i)); a[i % 10]=x$i; done; f 50; echo $s ${a[3]}"
QUEENS = r"""
#include <stdio.h>
static int board[16], size = 9, solutions;
static int is_safe(int row, int column)
{
    for (int r = 0; r < row; r++)
        if (board[r] == column || board[r] - column == row - r || column - board[r] == row - r)
            return 0;
    return 1;
}
static void found(void) { solutions++; }
static void place(int row)
{
    if (row == size) { found(); return; }
    for (int column = 0; column < size; column++)
        if (is_safe(row, column)) { board[row] = column; place(row + 1); }
}
int main(void) { for (int i = 0; i < 600; i++) place(0); printf("%d\\n", solutions); return 0; }
"""


def cpu_of(command):
    with open(os.devnull, "r+b") as null:
        child = subprocess.Popen(command, stdin=null, stdout=null, stderr=null)
        _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit("%s: status %d" % (command[0], status))
    return usage.ru_utime + usage.ru_stime


def recorded(command, folder):
    """CPU time of the program, and how many calls were counted."""
    profile = os.path.join(folder, "exact.ctp")
    done = subprocess.run([CALLTRAIL, "record", "--engine", "exact", "--no-lines", "-o", profile, *command],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if done.returncode:
        raise SystemExit("%s: status %d under record: %s" % (command[0], done.returncode, done.stderr))
    info = json.loads(subprocess.run([CALLTRAIL, "info", "--json", profile], capture_output=True,
                                     check=True).stdout)
    return info["utime_s"] + info["stime_s"], info["calls"]


def programs(folder):
    def text(name, content):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(content)
        return path
    source = "\n".join(
        "int f%d(int *p, int x) { int r = 0; for (int i = 0; i < %d; i++) switch ((p[i] + x) %% 7) {"
        "case 0: r++; break; case 1: r += p[i]; break; case 3: r ^= x; break; default: r -= i; } return r; }"
        % (i, i + 3) for i in range(120))
    data = os.path.join(folder, "data")
    with open(data, "wb") as out:
        for name in ("/usr/bin/perl", "/bin/bash"):
            with open(name, "rb") as file:
                out.write(file.read())
    scene = os.path.join(HERE, "tests/real/scene.pov")
    cc1 = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True).stdout.strip()
    return {"perl": ["perl", text("a.pl", PERL)], "python3": ["/usr/bin/python3", text("a.py", PYTHON)],
            "lua5.4": ["lua5.4", text("a.lua", LUA)], "bash": ["bash", text("a.sh", BASH)],
            "sqlite3": ["sqlite3", ":memory:", ".read " + text("a.sql", SQL)],
            "cc1": [cc1, "-quiet", "-O2", "-fpreprocessed", text("a.c", source), "-o", "/dev/null"],
            "bzip2": ["bzip2", "-kc", data, data], "xz": ["xz", "-T1", "-3", "-kc", data],
            "povray": ["povray", "+I" + scene, "+O" + data + ".bmp", "+FB", "-D", "+W280", "+H210", "+WT1"]}


def whole_programs(options, folder):
    means = []
    print("| program | plain s | exact s | ratio | calls | callgrind s | exact is faster by |\n|---|---|---|---|---|---|---|")
    for name, command in programs(folder).items():
        if options.only and not re.search(options.only, name):
            continue
        recorded(command, folder)  # plans and maps are in the cache from here on
        plain, exact, calls = [], [], 0
        for _ in range(options.rounds):
            plain.append(cpu_of(command))
            seconds, calls = recorded(command, folder)
            exact.append(seconds)
        ratios = [b / a for a, b in zip(plain, exact)]
        grind = None
        if not options.no_callgrind:
            grind = cpu_of(["valgrind", "--tool=callgrind", "-q", "--callgrind-out-file=/dev/null", *command])
        draw = random.Random(1)
        again = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(1000))
        print("| %s | %.2f | %.2f | %.2f (%.2f to %.2f) | %.1f M | %s | %s |" % (
            name, statistics.median(plain), statistics.median(exact), statistics.median(ratios), again[25],
            again[974], calls / 1e6, "%.1f" % grind if grind else "-",
            "%.0f" % (grind / statistics.median(exact)) if grind else "-"), flush=True)
        means.append(statistics.median(ratios))
    if means:
        print("\nGeometric mean of the ratios: %.2f; the largest: %.2f." % (
            statistics.geometric_mean(means), max(means)))


def kinds_of_calls(options, folder):
    """Each kind of call: instructions by single steps, time by toggling inside one process."""
    program, profile = os.path.join(folder, "exact_calls"), os.path.join(folder, "calls.ctp")
    subprocess.run(["g++", "-O2", "-fno-builtin", "-I", os.path.join(HERE, "include"), "-o", program,
                    os.path.join(HERE, "bench/exact_calls.cpp")], check=True)
    under = [CALLTRAIL, "record", "--engine", "exact", "--no-lines", "-o", profile]

    def printed(command):
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def measure(kind):
        steps = [float(printed([*before, program, "steps", kind])) for before in (under, [])]
        pairs = [tuple(map(float, line.split()))
                 for line in printed([*under, program, "toggle", kind, str(8 * options.rounds)]).splitlines()]
        return steps[0] - steps[1], [a - b for a, b in pairs]

    turns = {kind: measure(kind) for kind in "ldtimvp"}
    # What a turn has besides the call: the callee calls a leaf; of several callees one goes on by a jump.
    besides = {"l": {}, "d": {"l": 1}, "t": {"d": 1}, "i": {"l": 1}, "m": {"l": 0.75, "t": 0.25}, "v": {"l": 1},
               "p": {}}
    names = {"l": "to a function that calls nothing", "d": "direct", "t": "direct tail jump",
             "i": "indirect, always the same callee", "m": "indirect, three callees in turn",
             "v": "virtual, two classes in turn", "p": "through the PLT"}
    print("\n| call | instructions more | ns more |\n|---|---|---|")
    draw = random.Random(1)
    for kind, name in names.items():
        def net(of):
            return of(kind) - sum(part * of(other) for other, part in besides[kind].items())
        again = sorted(net(lambda k: statistics.median(draw.choices(turns[k][1], k=len(turns[k][1]))))
                       for _ in range(1000))
        print("| %s | %.0f | %.1f (%.1f to %.1f) |" % (
            name, net(lambda k: turns[k][0]), net(lambda k: statistics.median(turns[k][1])), again[25],
            again[974]), flush=True)


def with_source(options, folder):
    """A program of which the source is there: what a rebuild and other tools take."""
    source = os.path.join(folder, "queens.c")
    with open(source, "w", encoding="utf-8") as out:
        out.write(QUEENS)
    builds = {"plain": [], "gcc -pg": ["-pg"], "uftrace": ["-pg"]}
    for name, flags in builds.items():
        subprocess.run(["gcc", "-O2", "-fno-inline", *flags, "-o", os.path.join(folder, name.split()[-1]), source],
                       check=True)
    plain = [os.path.join(folder, "plain")]
    commands = {"plain": plain, "gcc -pg": [os.path.join(folder, "-pg")],
                "callgrind": ["valgrind", "--tool=callgrind", "-q", "--callgrind-out-file=/dev/null", *plain]}
    if shutil.which("uftrace"):
        commands["uftrace record"] = ["uftrace", "record", "--no-pager", "-d", os.path.join(folder, "data.uftrace"),
                                      os.path.join(folder, "uftrace")]
    if options.no_callgrind:
        del commands["callgrind"]
    print("\n| eight queens, with its source | CPU s | ratio |\n|---|---|---|")
    base = None
    os.chdir(folder)  # gmon.out
    for name, command in [*commands.items(), ("exact", None)]:
        times = [recorded(plain, folder)[0] if command is None else cpu_of(command)
                 for _ in range(1 if name == "callgrind" else options.rounds)]
        base = base or statistics.median(times)
        print("| %s | %.2f | %.2f |" % (name, statistics.median(times), statistics.median(times) / base), flush=True)


def start_up(options, folder):
    cc1 = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True).stdout.strip()
    print("\n| start, from a warm cache | plain ms | recorded ms | of it, the program's CPU ms |\n|---|---|---|---|")
    for name, command in (("perl -e 1", ["perl", "-e", "1"]),
                          ("cc1, of an empty file", [cc1, "-quiet", "/dev/null", "-o", "/dev/null"])):
        recorded(command, folder)
        plain, ours, cpu = [], [], []
        for _ in range(2 * options.rounds):
            begin = time.monotonic()
            cpu_of(command)
            middle = time.monotonic()
            cpu.append(recorded(command, folder)[0])
            plain.append(middle - begin)
            ours.append(time.monotonic() - middle)
        print("| %s | %.0f | %.0f | %.0f |" % (name, *(1000 * statistics.median(x) for x in (plain, ours, cpu))),
              flush=True)


def main():
    parser = argparse.ArgumentParser(description="what engine exact costs")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only")
    parser.add_argument("--no-callgrind", action="store_true", help="it takes minutes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-exact-") as folder:
        whole_programs(options, folder)
        if not options.only or re.search(options.only, "calls"):
            kinds_of_calls(options, folder)
        if not options.only or re.search(options.only, "source"):
            with_source(options, folder)
        if not options.only or re.search(options.only, "start"):
            start_up(options, folder)


if __name__ == "__main__":
    main()
