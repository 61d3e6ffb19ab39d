#!/usr/bin/env python3
"""What a path map completes of real programs' samples: the truth is the whole stack of the same tick (same_tick.c),
of which windows of 0, 1 and 4 KB are cut. Offline: the map is trained with the same run; online: with a smaller
workload, and with quite other work. Argument: the build folder. ONLY names programs, with commas; SCORES=1 prints what
--score says of all contexts instead."""
import os
import re
import subprocess
import sys
import tempfile
import time

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(root, "tests/real"))
import programs  # noqa: E402

build = os.path.abspath(sys.argv[1])
calltrail = os.path.join(build, "calltrail")
real = {p.name: p for p in programs.PROGRAMS}


def of(name):
    return lambda folder, n: real[name].command(folder, n)


PROGRAMS = {
    "perl": (of("perl"), 2, 20),
    "python3": (of("python3"), 1, 6),
    "lua5.4": (of("lua5.4"), 1, 12),
    "bash": (lambda f, n: ["bash", os.path.join(root, "tests/exact/work.bash"), str(n)], 100, 1500),
    "sqlite3": (of("sqlite3"), 1, 8),
    "cc1": (of("cc1"), 1, 8),
    "x264": (lambda f, n: ["x264", "--quiet", "--no-progress", "--threads", "1", "--preset", "medium", "-o", "out.264",
                           os.path.join(f, "in.y4m")], 1, 2),
}

# Quite other work for the same programs.
OTHER = {
    "perl": ["/usr/bin/perl", "-e", """my %h; for my $i (1 .. 20000) { my @w = map { chr(97 + ($i * $_) % 26) } 1 .. 6;
my $k = join '', sort @w; $h{$k}{n}++; $h{$k}{s} .= sprintf '%03d', $i if $k =~ /a.*[xyz]/; } print scalar keys %h;"""],
    "python3": ["/usr/bin/python3", "-c", """
import json, re, collections
class Node:
    def __init__(self, v, kids): self.v, self.kids = v, kids
    def total(self): return self.v + sum(k.total() for k in self.kids)
def make(n): return Node(n, [make(n - i) for i in range(1, min(n, 4))])
print(make(12).total(), len(re.findall('a+b', 'aab' * 1000)), len(json.dumps([{str(i): i} for i in range(3000)])))
print(collections.Counter(str(i * i)[0] for i in range(20000)).most_common(3))"""],
    "lua5.4": ["lua5.4", "-e", """local t = {} for i = 1, 20000 do t[i] = (i * 7919) % 10007 end table.sort(t)
local s = {} for w in (('the quick brown fox '):rep(500)):gmatch('%a+') do s[#s + 1] = w:upper() end
local function f(n) if n < 2 then return n end return f(n - 1) + f(n - 2) end print(f(16), #table.concat(s, ','))"""],
    "bash": ["bash", "-c", """count() { local n=$1; if ((n > 0)); then count $((n - 1)); fi; }
for ((i = 0; i < 60; i++)); do count $((i % 20)); x=${x//a/b}$i; case $x in *9) x=;; esac; done; echo "${#x}" """],
    "sqlite3": ["sqlite3", ":memory:", """create table t(a integer primary key, b text); with recursive n(i) as (select 1 union
all select i + 1 from n where i < 20000) insert into t select i, hex(i * 7919) from n; create index u on t(b); select
count(*) from t x join t y on x.b = y.b; select substr(b, 1, 2), count(*) from t group by 1 order by 2 limit 3;"""],
    "cc1": None,  # a file of this project, without optimization
}

# Its stack is aligned to 64 bytes, and where it begins is random: there are four heights of everything.
RUNS = {"x264": 8}


def run(command, folder, **more):
    return subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **more)


def inputs(name, work, n):
    folder = os.path.join(work, "%s-%d" % (name, n))
    os.makedirs(folder, exist_ok=True)
    if name in real and real[name].prepare:
        real[name].prepare(folder, n)
    return folder


def clean(folder):
    for name in ("base.db", "out.264", "big.s"):
        if os.path.exists(os.path.join(folder, name)):
            os.unlink(os.path.join(folder, name))


def train(name, command, folder, work):
    path_map, profiles = os.path.join(work, name + ".map"), []
    for i in range(RUNS.get(name, 1)):
        clean(folder)
        profiles.append(os.path.join(work, "exact%d.ctp" % i))
        done = run([calltrail, "record", "--engine", "exact", "--height", "--no-lines", "-o", profiles[-1], *command],
                   folder)
        if done.returncode:
            sys.exit("%s: %s" % (name, done.stderr))
    start = time.time()
    subprocess.run([calltrail, "infer", "--train", "-o", path_map, *profiles], check=True)
    size = os.path.getsize(path_map)
    print("  %s: map of %.1f MB made in %.1f s" % (name, size / 1e6, time.time() - start), file=sys.stderr)
    return path_map


def tick(name, command, folder, work):
    clean(folder)
    file = os.path.join(work, "ticks")
    if os.path.exists(file):
        os.unlink(file)
    done = run(command, folder, env={**os.environ, "LD_PRELOAD": os.path.join(work, "same_tick.so"),
                                     "SAME_TICK_FILE": file, "SAME_TICK_WINDOW": "8192"})
    if done.returncode:
        sys.exit("%s: %s" % (name, done.stderr))
    return file


def compare(kind, name, path_map, file):
    done = subprocess.run([os.path.join(build, "tests/same_tick_infer"), path_map, file], capture_output=True, text=True)
    if done.returncode:
        sys.exit("%s: %s%s" % (name, done.stdout, done.stderr))
    if os.environ.get("RAW"):
        print(done.stdout)
    for line in done.stdout.splitlines()[1:]:
        n = {k: int(v) for k, v in re.findall(r"([a-z-]+) (\d+)", line)}
        cut = max(n["cut"], 1)
        wrong = n["precise"] - n["precise-right"]
        print("| %s | %s | %d | %d | %.1f%% | %d | %.1f%% | %d | %.1f%% | %.1f%% | %.1f%% | %.1f%% |" % (
            name, kind, n["window"] >> 10, n["cut"], 100 * n["precise-right"] / cut, wrong, 100 * n["likely"] / cut,
            n["likely"] - n["likely-right"], 100 * n["ambiguous"] / cut, 100 * n["ambiguous-right"] / cut,
            100 * n["missing"] / cut, 100 * n["no-height"] / cut))
    sys.stdout.flush()


def score(kind, name, path_map, truth):
    """Every context of a run by two registers: the paper's figures."""
    done = subprocess.run([calltrail, "infer", "--score", path_map, truth], capture_output=True, text=True, check=True)
    rows = {line[:40].strip(): line[40:].split() for line in done.stdout.splitlines()[1:]}
    took = re.search(r"of (\d+) ns", done.stderr).group(1)
    picked = ["precise", "precise, by functions without places", "ambiguous, the true path among them",
              "right among at most 5 paths", "missing", "incorrect", "said to be precise"]
    print("| %s | %s | %s | %s | %s | %s |" % (
        name, kind, rows["in all"][0], " | ".join("%s / %s" % tuple(rows[p]) for p in picked),
        " / ".join(rows["degree of ambiguity, mean"]), took))
    sys.stdout.flush()


def scores(work, only):
    print("| program | training | paths | precise | precise by functions | ambiguous | right among 5 | missing | incorrect "
          "| said to be precise | degree | lookup, ns |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, (command, small, large) in PROGRAMS.items():
        if only and name not in only.split(","):
            continue
        folder, smaller = inputs(name, work, large), inputs(name, work, small)
        path_map = train(name, command(folder, large), folder, work)
        truth = os.path.join(work, "truth.ctp")
        os.replace(os.path.join(work, "exact0.ctp"), truth)
        score("offline", name, path_map, truth)
        score("online", name, train(name, command(smaller, small), smaller, work), truth)


def main():
    only = os.environ.get("ONLY")
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as work:
        os.environ.setdefault("XDG_CACHE_HOME", os.path.join(work, "cache"))
        subprocess.run(["gcc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-O1", "-o", os.path.join(work, "same_tick.so"),
                        os.path.join(root, "tests/outside/same_tick.c")], check=True)
        if os.environ.get("SCORES"):
            scores(work, only)
            return
        print("| program | training | window, KB | samples cut | precise and right | precise and wrong, samples | likely "
              "| of these wrong, samples | ambiguous | the true path among them | missing | no height |")
        print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
        for name, (command, small, large) in PROGRAMS.items():
            if only and name not in only.split(","):
                continue
            folder, smaller = inputs(name, work, large), inputs(name, work, small)
            file = tick(name, command(folder, large), folder, work)
            compare("same run", name, train(name, command(folder, large), folder, work), file)
            if name in OTHER:
                command = OTHER[name] or [programs.cc1(), "-quiet", "-O1", "-w", "-fpreprocessed",
                                          os.path.join(folder, "other.i"), "-o", "big.s"]
                subprocess.run(["gcc", "-E", "-D_GNU_SOURCE", "-I", os.path.join(root, "src"), "-o",
                                os.path.join(folder, "other.i"), os.path.join(root, "src/profile/merge.c")], check=True)
                compare("other work", name, train(name, command, folder, work), file)
            command = PROGRAMS[name][0]
            compare("smaller", name, train(name, command(smaller, small), smaller, work), file)


main()
