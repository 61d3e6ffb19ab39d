#!/usr/bin/env python3
"""What recording from outside costs: the program, by toggling and sample by sample (outside.c), and the reader, by its own
CPU time; and whole runs beside other tools. Arguments: the build folder; "tools" measures these alone, "each" what a sample takes.
PAIRS (400) and ROUNDS (9) make it shorter or more exact."""
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile

build = os.path.abspath(sys.argv[1])
only = sys.argv[2] if len(sys.argv) > 2 else ""
ROUNDS = int(os.environ.get("ROUNDS", "9"))
pairs = os.environ.get("PAIRS", "400")
calltrail = os.path.join(build, "calltrail")


def program():
    print("In the program: what a sample takes, by toggling (median, and its 95% interval), all kinds in each round; a thread on "
          "the\nother processor reads the rings.\n")
    print("| what | Hz | slower by | us for each | interval | over an empty record | interval | samples |")
    print("|---|---:|---:|---:|---|---:|---|---:|")
    sys.stdout.flush()
    for hz in ("999", "9999"):
        subprocess.run([os.path.join(build, "bench/outside"), hz, pairs], check=True)


PERL = "$x{$_ %% 1000} .= chr(65 + $_ %% 26) for 1 .. %d"


def spent(tool, count, folder):
    """By a tool and a program that works so long: CPU time of the tool alone, and samples, by the program's user time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*TOOLS[tool], "/usr/bin/python3", "-S", "-c", OWN, "own", "perl", "-e", PERL % count], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(os.path.join(folder, "own")) as file:
        own = float(file.read())
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime - own, own * 999


def each(folder):
    """What a sample takes at 999 Hz, of the program and of the tool."""
    print("\nEach sample alone, at 999 Hz: how long the program stands still, by the time stamp counter, in turn; medians of %s rounds of 16 "
          "samples.\n" % pairs)
    print("| what | Hz | slower by | us for each | interval | over an empty record | interval | samples |")
    print("|---|---:|---:|---:|---|---:|---|---:|")
    sys.stdout.flush()
    subprocess.run([os.path.join(build, "bench/outside"), "999", pairs, "each"], check=True)
    print("\nThe tool's own CPU time beside it, by perl programs of about 0.3 and 3 s in turn: for each sample, and what is the same "
          "for both\n(to start, to load symbols, to write the end); perf is not asked for a report. Medians of %d rounds, and of the "
          "engine's handler what it says of itself.\n" % ROUNDS)
    print("| tool | us for each sample | ms once |")
    print("|---|---|---|")
    for tool in list(TOOLS)[1:]:
        slopes, once = [], []
        for _ in range(ROUNDS):
            (short, few), (long, many) = [spent(tool, count, folder) for count in (3000000, 30000000)]
            slopes.append((long - short) / (many - few) * 1e6)
            once.append((short - few * slopes[-1] / 1e6) * 1e3)
        print("| %s | %s | %s |" % (tool, interval(slopes), interval(once)))
        sys.stdout.flush()
    subprocess.run([*TOOLS["record, engine sample"], "perl", "-e", PERL % 30000000], cwd=folder, stderr=subprocess.DEVNULL)
    facts = subprocess.run([calltrail, "info", os.path.join(folder, "p.ctp")], capture_output=True, text=True).stdout
    print("\nEngine sample: " + "; ".join(line.strip() for line in facts.splitlines() if "sampling took" in line))


WORK = {
    "perl": ["perl", "-e", "$x{$_ % 1000} .= chr(65 + $_ % 26) for 1 .. 6000000"],
    "python3": ["/usr/bin/python3", "-c", """
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def deep(n): return deep(n - 1) + 1 if n else fib(31)
deep(300)"""],
    "sqlite3": ["sqlite3", ":memory:", "with recursive n(i) as (select 1 union all select i + 1 from n "
                "where i < 2000000) select count(*) from (select hex(i * 7919 % 100003) as t from n order by t);"],
}


def reader(folder):
    print("\nThe reader: its own CPU time, from attaching to the written profile without source lines. Lost are samples "
          "for which\nthe rings had no room.\n")
    print("| program | Hz | samples | lost | cut by the window | us for each sample | of the program's CPU time |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, command in WORK.items():
        for hz in (999, 9999):
            profile = os.path.join(folder, "p.ctp")
            target = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            recorder = subprocess.Popen([calltrail, "record", "--no-lines", "-F", str(hz), "-o", profile, "-p",
                                         str(target.pid)], stderr=subprocess.DEVNULL)
            _, _, used = os.wait4(target.pid, 0)
            target.returncode = 0
            _, status, own = os.wait4(recorder.pid, 0)
            recorder.returncode = status
            p = json.loads(subprocess.run([calltrail, "info", "--json", profile], check=True,
                                          capture_output=True, text=True).stdout)
            took = own.ru_utime + own.ru_stime
            print("| %s | %d | %d | %d | %d | %.1f | %.2f%% |" % (
                name, hz, p["samples"], p["lost_in_ring"], p["cut_by_window"],
                took / max(p["samples"], 1) * 1e6, 100 * took / (used.ru_utime + used.ru_stime)))
            sys.stdout.flush()


TOOLS = {
    "plain": [],
    "record --outside": [calltrail, "record", "--outside", "--no-lines", "-F", "999", "-o", "p.ctp"],
    "record, engine sample": [calltrail, "record", "--no-lines", "-F", "999", "-o", "p.ctp"],
    "perf record -g": ["perf", "record", "-q", "-F", "999", "-e", "task-clock:u", "-g", "-o", "perf.data"],
    "perf record --call-graph dwarf": ["perf", "record", "-q", "-F", "999", "-e", "task-clock:u", "--call-graph", "dwarf", "-o",
                                       "perf.data"],
}
# Runs a program and writes its CPU time to a file.
OWN = "import os, resource, subprocess, sys; done = subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL); " \
      "own = resource.getrusage(resource.RUSAGE_CHILDREN); open(sys.argv[1], 'w').write(str(own.ru_utime + own.ru_stime))"


def interval(ratios):
    """Of the median, by bootstrap, at 95%."""
    chosen = random.Random(3)
    medians = sorted(statistics.median(chosen.choices(ratios, k=len(ratios))) for _ in range(2000))
    return "%.3f (%.3f to %.3f)" % (statistics.median(ratios), medians[49], medians[1949])


def tools(folder):
    print("\nWhole runs at 999 Hz, in turn: CPU time of the program, and of program and tool together with what the tool does at the "
          "end,\nbeside the plain run of the same round. Median of %d rounds with its 95%% interval. perf has not walked the stacks of "
          "dwarf yet.\n" % ROUNDS)
    print("| program | tool | program / plain | program and tool / plain |")
    print("|---|---|---|---|")
    for name, command in WORK.items():
        if name == "python3":
            continue  # too short
        took = {tool: [] for tool in TOOLS}
        for _ in range(ROUNDS):
            for tool, words in TOOLS.items():
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                subprocess.run([*words, "/usr/bin/python3", "-S", "-c", OWN, "own", *command], cwd=folder, check=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                with open(os.path.join(folder, "own")) as file:
                    own = float(file.read())
                took[tool].append((own, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
        for tool in list(TOOLS)[1:]:
            print("| %s | %s | %s | %s |" % (name, tool, *[
                interval([some[i] / plain[i] for some, plain in zip(took[tool], took["plain"])]) for i in (0, 1)]))
        sys.stdout.flush()


if not only:
    program()
with tempfile.TemporaryDirectory() as work:
    os.environ["XDG_CACHE_HOME"] = os.path.join(work, "cache")
    for command in WORK.values():  # maps are made
        subprocess.run([calltrail, "record", "--outside", "--duration", "0.1", "--no-lines", "-o",
                        os.path.join(work, "p.ctp"), *command], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
    if only in ("", "each"):
        each(work)
    if only in ("", "tools"):
        tools(work)
    if not only:
        reader(work)
