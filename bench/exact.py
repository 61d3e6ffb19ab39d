#!/usr/bin/env python3
"""What engine exact costs: whole programs, plain and recorded in turn, and under callgrind.

    bench/exact.py [--rounds N] [--only REGEX]

CPU time of the program itself, user and system; medians of N rounds (5), and the median of the ratios
of neighbouring runs with its smallest and largest. callgrind runs once: it takes long enough. The
second table has ns for each kind of call, from loops of 20 million calls, less the loop's plain time.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CALLTRAIL = os.environ.get("CALLTRAIL", os.path.join(HERE, "build/calltrail"))

PERL = r"""my %h; my $s = 0; sub fib { my $n = shift; $n < 2 ? $n : fib($n - 1) + fib($n - 2) }
print fib(21), "\n"; for my $i (1 .. 400000) { my $k = "k" . ($i % 997); $h{$k} .= chr(65 + $i % 26);
$s += length($h{$k}); $h{$k} = "" if length($h{$k}) > 20 } print join(",", sort keys %h) =~ tr/k//, " $s\n";"""
PYTHON = """import json, re
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
print(fib(24)); d = {}
for i in range(300000): d[str(i % 997)] = d.get(str(i % 997), 0) + i
for i in range(20): s = json.dumps(d); d = json.loads(s)
print(len(re.findall(r'[0-9]+', s * 20)))"""
LUA = """local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end print(fib(29))
local t = {} for i = 1, 200000 do t[#t + 1] = tostring(i % 997) .. 'x' end table.sort(t) print(#table.concat(t))"""
SQL = """create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 150000)
insert into t select i, 'x' || (i * 7919 % 10007), i * 1.5 from n; create index tb on t(b);
select count(*), sum(c) from t; select count(*) from t x join t y on x.a = y.a + 1 where x.b < y.b;"""
BASH = "f() { (( $1 > 0 )) && f $(($1 - 1)); return 0; }; for ((i = 0; i < 60000; i++)); do " \
       "s=$((s + i)); a[i % 10]=x$i; done; f 50; echo $s ${a[3]}"
CALLS = r"""
#include <stdlib.h>
#include <string.h>
#define OUT __attribute__((noinline, noclone))
OUT static long direct(long x) { __asm__ volatile("" : "+r"(x)); return x; }
OUT static long tail(long x) { __asm__ volatile("" : "+r"(x)); return direct(x); }
static long (*volatile pointer)(long) = direct;
int main(int argc, char **argv)
{
    long n = atol(argv[2]), sum = 0;
    for (long i = 0; i < n; i++) {
        switch (argv[1][0]) {
        case 'd': sum += direct(i); break;
        case 'i': sum += pointer(i); break;
        case 't': sum += tail(i); break;
        case 'p': sum += labs(i); sum += abs((int)i); break;
        }
    }
    return sum == 42;
}
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
    cc1 = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True).stdout.strip()
    return {"perl": ["perl", text("a.pl", PERL)], "python3": ["/usr/bin/python3", text("a.py", PYTHON)],
            "lua5.4": ["lua5.4", text("a.lua", LUA)], "bash": ["bash", text("a.sh", BASH)],
            "sqlite3": ["sqlite3", ":memory:", ".read " + text("a.sql", SQL)],
            "cc1": [cc1, "-quiet", "-O2", "-fpreprocessed", text("a.c", source), "-o", "/dev/null"]}


def whole_programs(options, folder):
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
        print("| %s | %.2f | %.2f | %.2f (%.2f to %.2f) | %.1f M | %s | %s |" % (
            name, statistics.median(plain), statistics.median(exact), statistics.median(ratios), min(ratios),
            max(ratios), calls / 1e6, "%.1f" % grind if grind else "-",
            "%.0f" % (grind / statistics.median(exact)) if grind else "-"), flush=True)


def kinds_of_calls(options, folder):
    source, program = os.path.join(folder, "calls.c"), os.path.join(folder, "calls")
    with open(source, "w", encoding="utf-8") as out:
        out.write(CALLS)
    subprocess.run(["gcc", "-O2", "-fno-builtin", "-o", program, source], check=True)
    print("\n| call | ns for each, more than plain |\n|---|---|")
    count = 20000000
    for kind, calls in (("direct", 1), ("indirect", 1), ("tail", 2), ("plt", 2)):
        more = []
        for _ in range(options.rounds):
            command = [program, kind, str(count)]
            more.append((recorded(command, folder)[0] - cpu_of(command)) / count / calls * 1e9)
        what = {"tail": "direct and tail, mean", "plt": "through the PLT"}.get(kind, kind)
        print("| %s | %.1f (%.1f to %.1f) |" % (what, statistics.median(more), min(more), max(more)), flush=True)


def main():
    parser = argparse.ArgumentParser(description="what engine exact costs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only")
    parser.add_argument("--no-callgrind", action="store_true", help="it takes minutes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-exact-") as folder:
        whole_programs(options, folder)
        if not options.only or re.search(options.only, "calls"):
            kinds_of_calls(options, folder)


main()
