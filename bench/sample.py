#!/usr/bin/env python3
"""What sampling costs: prints the section `sample` of bench/RESULTS.md. Argument: the build folder.

Four tables: the handler (its own time by depth of the stack, and what it takes beyond an empty one,
by toggling inside one run), whole programs beside perf and gperftools (pairs interleaved), what a
context takes of the arena, and the start of a recording.
"""

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(sys.argv[1])
CALLTRAIL = os.path.join(BUILD, "calltrail")
SAMPLE = os.path.join(BUILD, "bench/sample")
WORK = tempfile.mkdtemp()
PROFILE = os.path.join(WORK, "p.ctp")
ROUNDS = int(os.environ.get("ROUNDS", "15"))
PAIRS = int(os.environ.get("PAIRS", "1500"))


def quiet(command, environment=None):
    """Runs it; its CPU time, with all that it starts, and its wall time, in seconds."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    run = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, cwd=WORK,
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if run.returncode != 0:
        sys.exit("sample.py: %s: %s" % (" ".join(command), run.stderr.decode()))
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, wall


def info():
    out = subprocess.run([CALLTRAIL, "info", "--json", PROFILE], check=True, capture_output=True)
    return json.loads(out.stdout)


def record(hz, command):
    return [CALLTRAIL, "record", "-F", str(hz), "-o", PROFILE, "--", *command]


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def interval(values, statistic):
    """The statistic, and where it lies in 95 of 100 samples drawn anew from the values."""
    drawn = random.Random(1)
    again = sorted(statistic(drawn.choices(values, k=len(values))) for _ in range(1000))
    return statistic(values), again[25], again[974]


def table(*header):
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |")


def us(ns):
    return "%.1f" % (ns / 1000)


def toggled(hz, depth, top):
    """Of one run: what the handler takes beyond an empty one, as a share of the CPU time."""
    out = subprocess.run(record(hz, [SAMPLE, "toggle", str(depth), str(top), str(PAIRS)]), check=True,
                         capture_output=True, text=True).stdout
    pairs = [tuple(map(float, line.split())) for line in out.splitlines()]

    def excess(chosen):  # without the tenth at either end: moments when another program ran
        differences = sorted((ours - empty) / empty for ours, empty in chosen)
        cut = len(differences) // 10
        kept = differences[cut:len(differences) - cut]
        return sum(kept) / len(kept)
    return interval(pairs, excess)


def handler():
    print("The handler by depth of the stack, of which the innermost 12 frames come and go; "
          "999 Hz unless it says 10 kHz.\n")
    table("depth", "p50 us", "p99 us", "frames walked", "p50 us at 10 kHz",
          "excess over an empty handler", "the same at 10 kHz", "where 2 frames come and go")
    for depth in 8, 30, 64, 256:
        cells = [depth]
        for hz in 999, 9999:
            quiet(record(hz, [SAMPLE, "work", str(depth), "12", "3000"]))
            facts = info()
            if hz == 999:
                cells += [us(facts["handler_ns_p50"]), us(facts["handler_ns_p99"]),
                          "%.0f" % facts["frames_walked_per_sample"]]
            else:
                cells.append(us(facts["handler_ns_p50"]))
        for hz, top in (999, 12), (9999, 12), (999, 2):
            cells.append("%.2f%% (%.2f to %.2f)" % tuple(100 * x for x in toggled(hz, depth, top)))
        row(*cells)
    print()


def programs():
    with open(os.path.join(WORK, "c.c"), "w") as source:
        for i in range(1500):
            source.write("int f%d(int *a, int n) { int s = %d; for (int i = 0; i < n; i++) "
                         "s += a[i] * %d + (s >> 3) %% (i + 1); return s; }\n" % (i, i, i))
    cc1 = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True)
    perl = "sub f { my $n = shift; $n < 2 ? $n : f($n - 1) + f($n - 2) } f(26); my %h; " \
           "$h{$_ % 997} .= $_ for 1 .. 2500000; print join ',', sort { $h{$a} cmp $h{$b} } keys %h"
    python = "import json, re\nd = {str(i): [i, str(i) * 3] for i in range(30000)}\n" \
             "for i in range(9): s = json.dumps(d, indent=1); json.loads(s); " \
             "re.findall(r'(\\d)\\1', s)\n"
    return {"perl": ["perl", "-e", perl], "python3": ["python3", "-S", "-c", python],
            "cc1": [cc1.stdout.strip(), "-quiet", "-O2", "c.c", "-o", "c.s"]}


def profiler_library():
    for folder in "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib":
        for name in "libprofiler.so", "libprofiler.so.0":
            if os.path.exists(os.path.join(folder, name)):
                return os.path.join(folder, name)
    return None


def tools(command):
    """What is run in turn: name, command, environment."""
    yield "plain", command, None
    yield "calltrail, 999 Hz", record(999, command), None
    yield "calltrail, 10 kHz", record(9999, command), None
    if shutil.which("perf"):
        perf = ["perf", "record", "-q", "-e", "task-clock:u", "-F", "999", "-o", "perf.data"]
        yield "perf -g, 999 Hz", [*perf, "-g", "--", *command], None
        yield "perf dwarf, 999 Hz", [*perf, "--call-graph", "dwarf", "--", *command], None
    if profiler_library():
        yield "gperftools, 999 Hz asked", command, dict(
            os.environ, LD_PRELOAD=profiler_library(), CPUPROFILE="gperf.prof",
            CPUPROFILE_FREQUENCY="999")


def gperftools_samples():
    """The header of its file is five words; then records: count, depth, that many addresses."""
    with open(os.path.join(WORK, "gperf.prof"), "rb") as file:
        data = file.read()
    at, samples = 5 * 8, 0
    while at + 16 <= len(data):
        count = int.from_bytes(data[at:at + 8], "little")
        depth = int.from_bytes(data[at + 8:at + 16], "little")
        if count == 0:
            break
        samples += count
        at += 16 + 8 * depth
    return samples


def perf_samples():
    out = subprocess.run(["perf", "script", "-i", os.path.join(WORK, "perf.data"), "-F", "tid", "-G"],
                         capture_output=True, text=True).stdout
    return len(out.split())


def samples_of(name):
    if name.startswith("calltrail"):
        facts = info()
        return facts["samples"] - facts["merged"], facts
    return (perf_samples() if name.startswith("perf") else
            gperftools_samples() if name.startswith("gperf") else 0), None


def whole_programs():
    print("Whole programs: CPU time of the command and all that it starts, beside the plain run of "
          "the same round; medians of %d rounds, with the interval for 95%%. calltrail writes its "
          "profile with names in that time; perf and gperftools leave that for later.\n" % ROUNDS)
    table("program", "tool", "samples", "CPU s", "of plain", "us for each sample",
          "handler p50 us", "p99 us")
    arenas = []
    for program, command in programs().items():
        chosen = list(tools(command))
        for _, tool, environment in chosen:
            quiet(tool, environment)  # what is cold is no part of this
        times = {name: [] for name, _, _ in chosen}
        samples = {}
        for _ in range(ROUNDS):
            for name, tool, environment in chosen:
                times[name].append(quiet(tool, environment)[0])
                samples[name], facts = samples_of(name)
                if facts:
                    samples[name, "facts"] = facts
        for name, _, _ in chosen:
            ratio = interval([t / p for t, p in zip(times[name], times["plain"])], median)
            each = [(t - p) / max(samples[name], 1) * 1e6
                    for t, p in zip(times[name], times["plain"])]
            facts = samples.get((name, "facts"))
            if facts:
                arenas.append((program, name, facts))
            row(program, name, samples[name] or "", "%.2f" % median(times[name]),
                "%.3f (%.3f to %.3f)" % ratio if name != "plain" else "",
                "%.0f" % median(each) if name != "plain" else "",
                us(facts["handler_ns_p50"]) if facts else "",
                us(facts["handler_ns_p99"]) if facts else "")
    print("\nWhat a context takes of the arena:\n")
    table("program", "rate", "contexts", "arena kB", "bytes for each")
    for program, name, facts in arenas:
        row(program, name.split(", ")[1], facts["nodes"], "%.0f" % (facts["arena_bytes"] / 1000),
            "%.0f" % (facts["arena_bytes"] / facts["nodes"]))
    print()


def start_up():
    print("A recording of a program that does nothing: wall and CPU time in ms, medians of 11; cold "
          "is without any map in the cache, once.\n")
    table("program", "cold wall", "cold CPU", "warm wall", "warm CPU", "plain wall", "plain CPU")
    cc1 = programs()["cc1"]
    empty = os.path.join(WORK, "empty.c")
    open(empty, "w").close()
    for name, command in (("true", ["/bin/true"]), ("perl", ["perl", "-e", "1"]),
                          ("python3", ["python3", "-S", "-c", "pass"]),
                          ("cc1", [cc1[0], "-quiet", empty, "-o", "/dev/null"])):
        environment = dict(os.environ, XDG_CACHE_HOME=os.path.join(WORK, "cache"))
        shutil.rmtree(environment["XDG_CACHE_HOME"], ignore_errors=True)
        cold_cpu, cold_wall = quiet(record(999, command), environment)
        warm, plain = [], []
        for _ in range(11):
            warm.append(quiet(record(999, command), environment))
            plain.append(quiet(command))
        row(name, "%.0f" % (cold_wall * 1e3), "%.0f" % (cold_cpu * 1e3),
            *("%.1f" % (median([pair[k] for pair in pairs]) * 1e3)
              for pairs in (warm, plain) for k in (1, 0)))
    print()


try:
    print("An event and its signal take this with an empty handler, here, before calltrail does "
          "anything (`calltrail doctor`):\n")
    doctor = subprocess.run([CALLTRAIL, "doctor"], capture_output=True, text=True).stdout
    print("".join("    " + line.strip() + "\n" for line in doctor.splitlines()
                  if "Hz" in line or "empty sample" in line))
    handler()
    whole_programs()
    start_up()
finally:
    shutil.rmtree(WORK)
