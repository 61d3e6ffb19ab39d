#!/usr/bin/env python3
"""What a path map completes of real programs' samples: the truth is the whole stack of the same tick (same_tick.c),
of which windows of 0, 1 and 4 KB are cut. Offline: the map is trained with the same run; online: with a smaller
workload. Argument: the build folder. ONLY names programs, with commas."""
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


def main():
    only = os.environ.get("ONLY")
    print("| program | training | window, KB | samples cut | precise and right | precise and wrong, samples | likely "
          "| of these wrong, samples | ambiguous | the true path among them | missing | no height |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as work:
        os.environ.setdefault("XDG_CACHE_HOME", os.path.join(work, "cache"))
        subprocess.run(["gcc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-O1", "-o", os.path.join(work, "same_tick.so"),
                        os.path.join(root, "tests/outside/same_tick.c")], check=True)
        for name, (command, small, large) in PROGRAMS.items():
            if only and name not in only.split(","):
                continue
            folder, smaller = inputs(name, work, large), inputs(name, work, small)
            file = tick(name, command(folder, large), folder, work)
            compare("same run", name, train(name, command(folder, large), folder, work), file)
            compare("smaller", name, train(name, command(smaller, small), smaller, work), file)


main()
