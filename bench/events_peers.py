#!/usr/bin/env python3
"""What calltrail finds of memory and of waiting, beside what other tools find.

    bench/events_peers.py BUILD

Memory: heaptrack, and gperftools' heap profiler, which has the program use another malloc and writes a
profile whenever a hundredth more is in use than before (the peak is the greatest of these). Contexts are
compared by the functions that all tools have a name for: two tools agree as far as they give the same
set of these the same share of the peak. Waiting: strace -c -w, by call.
"""
import argparse
import collections
import glob
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.join(os.path.dirname(here), "tests/real")]
import events_programs  # noqa: E402
import programs as real_programs  # noqa: E402

TCMALLOC = "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4"


def run(words, env=None, **how):
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, **(env or {})}, **how)
    if done.returncode:
        sys.exit("%s: status %d: %s" % (words, done.returncode, done.stderr))
    return done.stdout


def plain_name(name):
    """Without arguments, template arguments, files, and what tools add."""
    name = re.sub(r"\[inline\]|\(anonymous namespace\)::|<[0-9a-f]{16}>", "", name)
    while re.search(r"<[^<>]*>", name):
        name = re.sub(r"<[^<>]*>", "", name)
    return re.sub(r"\(.*", "", name).strip().split("@")[0]


class Found:
    """What one tool says: totals, and bytes at the peak by the program's own functions on the path. Tools
    do not agree on the order of inlined ones."""

    def __init__(self, allocations, peak, kept, folded, own):
        self.allocations, self.peak, self.kept = allocations, peak, kept
        self.paths = collections.Counter()
        for line in folded.splitlines():
            stack, _, value = line.rpartition(" ")
            names = [plain_name(name) for name in stack.split(";")]
            self.paths[tuple(sorted({n for n in names if re.search(own, n)}))] += int(value)

    def share(self, path):
        return self.paths[path] / max(sum(self.paths.values()), 1)

    def below(self, function):
        """The share of the peak that was asked for in a function and what it calls."""
        return sum(self.share(path) for path in self.paths if function in path)

    def shown(self):
        """The functions with most of the peak, but for those that have nearly all of it."""
        names = {name for path in self.paths for name in path if self.below(name) < 0.9}
        return sorted(names, key=lambda name: (-self.below(name), name))[:2]

    def agrees(self, other):
        return sum(min(self.share(p), other.share(p)) for p in self.paths)


def folded_sum(text):
    return sum(int(line.rpartition(" ")[2]) for line in text.splitlines())


class Peers:
    def __init__(self, build, folder):
        self.calltrail, self.folder = os.path.join(build, "calltrail"), folder

    def ours(self, program, period):
        path = os.path.join(self.folder, "p.ctp")
        run([self.calltrail, "record", "-o", path, "-e", "malloc%s,heap%s" % (period, period), "--",
             *program.command], program.env)

        def folded(metric):
            return run([self.calltrail, "export", "--to", "folded", "--metric", metric, path])
        return Found(folded_sum(folded("malloc_calls")), folded_sum(folded("heap_peak")),
                     folded_sum(folded("heap_exit")), folded("heap_peak"), program.own)

    def heaptrack(self, program):
        path = os.path.join(self.folder, "h")
        run(["heaptrack", "--output", path, *program.command], program.env)

        def folded(kind):
            out = os.path.join(self.folder, "folded")
            said = run(["heaptrack_print", "-f", path + ".zst", "-p", "0", "-a", "0", "-T", "0", "-l", "0", "-F",
                        out, "--flamegraph-cost-type", kind])
            with open(out, encoding="utf-8") as file:
                return said, file.read()
        said, peak = folded("peak")
        calls = re.search(r"calls to allocation functions: (\d+)", said)
        return Found(int(calls[1]), folded_sum(peak), folded_sum(folded("leaked")[1]), peak, program.own)

    def gperftools(self, program, step):
        base = os.path.join(self.folder, "g")
        for path in glob.glob(base + ".*"):
            os.remove(path)
        run(program.command, {**program.env, "LD_PRELOAD": TCMALLOC, "HEAPPROFILE": base,
                              "HEAP_PROFILE_INUSE_INTERVAL": str(step), "HEAP_PROFILE_ALLOCATION_INTERVAL": "0"})
        dumps = {}
        for path in glob.glob(base + ".*.heap"):
            with open(path, encoding="utf-8", errors="replace") as file:
                numbers = re.findall(r"\d+", file.readline())
            dumps[path] = list(map(int, numbers))
        most = max(dumps, key=lambda path: dumps[path][1])
        _, kept, calls, _ = dumps[max(dumps)][:4]
        folded = run(["google-pprof", "--collapsed", "--inuse_space", os.path.realpath(program.command[0]), most])
        return Found(calls, dumps[most][1], kept, folded, program.own)

    def memory(self, program):
        exact = self.ours(program, "/1")
        track = self.heaptrack(program)
        rows = [("calltrail, T = 1", exact), ("calltrail, T = 512 KiB", self.ours(program, "")),
                ("heaptrack", track), ("gperftools", self.gperftools(program, max(exact.peak // 100, 4096)))]
        for name, found in rows:
            shares = ", ".join("%s %.1f%%" % (function, 100 * found.below(function)) for function in track.shown())
            print("| %s | %s | %d | %.3f MB | %.3f MB | %.1f%% | %s |" % (
                program.name, name, found.allocations, found.peak / 1e6, found.kept / 1e6,
                100 * found.agrees(track), shares or "-"), flush=True)

    def serve(self, before):
        """redis-server with a load, under a command; what it answered."""
        folder = tempfile.mkdtemp(dir=self.folder)
        server = next(p for p in real_programs.PROGRAMS if p.name == "redis-server")
        process = subprocess.Popen(before + server.command(folder, 1), cwd=folder, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        answer = server.serve(folder, 4, process)
        process.wait()
        return answer

    def waiting(self):
        """Seconds in calls that may wait, of the thread that serves."""
        path, summary = os.path.join(self.folder, "w.ctp"), os.path.join(self.folder, "strace")
        run([self.calltrail, "map", "/usr/bin/redis-server"])
        plain = self.serve([])
        same = [self.serve([self.calltrail, "record", "-o", path, "-e", "wall", "--"]) == plain,
                self.serve(["strace", "-f", "-c", "-w", "-o", summary]) == plain]
        print("\nredis-server under redis-benchmark; answers are %s\n" % ("the same" if all(same) else "NOT the same"))
        ours, times = collections.Counter(), collections.Counter()
        for line in run([self.calltrail, "export", "--to", "folded", "--metric", "blocked", path]).splitlines():
            stack, _, value = line.rpartition(" ")
            ours[re.sub(r"^_+|@.*", "", stack.split(";")[-1])] += int(value) / 1e9
        with open(summary, encoding="utf-8") as file:
            for line in file:
                row = re.match(r"\s*[0-9.]+\s+([0-9.]+)\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", line)
                if row:
                    times[row[3]] += float(row[1])
        print("| call | calltrail s | strace s |\n|---|--:|--:|")
        for name, call in (("epoll_wait", "epoll_wait"), ("read", "read"), ("write", "write"),
                           ("pthread_cond_wait", "futex")):
            print("| %s | %.3f | %.3f |" % (name, ours[name], times[call]))


def main():
    parser = argparse.ArgumentParser(description="what is found, beside other tools")
    parser.add_argument("build")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="events-peers-") as folder:
        os.environ["XDG_CACHE_HOME"] = os.path.join(folder, "cache")
        peers = Peers(os.path.abspath(options.build), folder)
        print("| program | tool | allocations | peak | never freed | contexts as heaptrack's | at the peak below |\n"
              "|---|---|--:|--:|--:|--:|---|")
        for program in events_programs.programs(folder, 0.2):
            peers.memory(program)
        peers.waiting()


main()
