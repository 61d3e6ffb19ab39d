#!/usr/bin/env python3
"""What events cost: memory on programs that ask for much of it, waiting for each call that waits.

    bench/events.py BUILD [--rounds N]

A program runs plain and under a tool at the same time, each on a processor of its own, and then with the
processors changed: whatever the machine is busy with meets both alike. What counts is the program's own CPU
time, as it says; the ratio of a pair is the geometric mean of its two, and what is shown is the median of the
pairs, with its interval by bootstrap. Calls that could wait are measured inside one process, with measuring
paused and not, in turn; under strace and perf trace, against the plain run. With privileges everything runs at
a real-time priority, so that others on the machine disturb less.
"""
import argparse
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import events_programs  # noqa: E402

TCMALLOC = "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4"
OTHERS_ROUNDS = 2  # what others cost is seen without so many


def interval(ratios, share=0.95, draws=2000):
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(draws))
    low = int(draws * (1 - share) / 2)
    return medians[low], medians[-1 - low]


def undisturbed():
    words = ["chrt", "-f", "10"]
    done = subprocess.run(words + ["true"], capture_output=True, check=False) if shutil.which("chrt") else None
    return words if done and done.returncode == 0 else []


class Bench:
    def __init__(self, build, rounds, folder):
        self.program = os.path.join(build, "bench/events")
        self.calltrail = os.path.join(build, "calltrail")
        self.rounds, self.folder, self.before = rounds, folder, undisturbed()

    def record(self, *events):
        words = [self.calltrail, "record", "--no-lines", "-o", os.path.join(self.folder, "p.ctp")]
        return words + [word for event in events for word in ("-e", event)] + ["--"]

    def tools(self):
        """Name, words in front of the command, environment. gperftools brings its own allocator: without
        a profile it is a run of its own."""
        yield "calltrail -e heap", self.record("heap"), {}
        yield "calltrail -e malloc,heap,wall", self.record("malloc", "heap", "wall"), {}
        if shutil.which("heaptrack"):
            yield "heaptrack", ["heaptrack", "--raw", "--output", os.path.join(self.folder, "h")], {}
        if os.path.exists(TCMALLOC):
            yield "tcmalloc, no profile", [], {"LD_PRELOAD": TCMALLOC}
            yield "gperftools' heap profiler", [], {
                "LD_PRELOAD": TCMALLOC, "HEAPPROFILE": os.path.join(self.folder, "g")}

    def start(self, words, env=None, processors=None, steady=True):
        return subprocess.Popen((self.before if steady else []) + words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**os.environ, **(env or {})},
                                preexec_fn=lambda: processors and os.sched_setaffinity(0, processors))

    @staticmethod
    def said(child):
        out, err = child.communicate()
        if child.returncode:
            sys.exit("%s: status %d: %s" % (child.args, child.returncode, err))
        return out

    def run(self, words, env=None):
        return self.said(self.start(words, env))

    def both(self, program, words, env, processors, steady):
        """CPU seconds of the program plain and under a tool, at the same time. Not all tools go on when two of
        their threads have one processor at a real-time priority: some spin."""
        children = [self.start([*before, *program.command], {**program.env, **more}, {processor}, steady)
                    for before, more, processor in zip(((), words), ({}, env), processors)]
        return [program.cpu_seconds(self.said(child)) for child in children]

    def memory(self, whole, small):
        """Others take so much longer that they get less to do, fewer times."""
        processors = sorted(os.sched_getaffinity(0))[:2]
        for name, words, env in self.tools():
            ours = "calltrail" in name
            program = whole if ours else small
            rounds = self.rounds if ours else OTHERS_ROUNDS
            plain, ratios = [], []
            for _ in range(rounds):
                one, other = (self.both(program, words, env, order, ours)
                              for order in (processors, processors[::-1]))
                plain += [one[0], other[0]]
                ratios.append(math.sqrt(one[1] / one[0] * other[1] / other[0]))
            low, high = interval(ratios)
            print("| %s | %.3f | %s | %+.1f%% | %+.1f to %+.1f%% |" % (
                program.name, statistics.median(plain), name, 100 * (statistics.median(ratios) - 1),
                100 * (low - 1), 100 * (high - 1)), flush=True)

    def pairs(self, programs):
        """What a pair of calls costs more, measured inside one process in turns of microseconds, and what
        that comes to in each program: much less depends on what else the machine does."""
        def pair_ns(*words):
            runs = [list(map(float, self.run([*words, self.program, "pair", "3000"]).split()))
                    for _ in range(max(5, self.rounds // 4))]
            return [statistics.median(column) for column in zip(*runs)]
        plain, heap = pair_ns(), pair_ns(*self.record("heap"))
        print("\nmalloc and free together, beyond libc's own: plain %.2f ns, under `-e heap` %.2f ns "
              "(middle half of the turns: %.2f to %.2f)\n" % (plain[1], heap[1], heap[0], heap[2]))
        print("| program | CPU s | allocations | heap costs |\n|---|--:|--:|--:|")
        for program in programs:
            seconds = statistics.median(program.cpu_seconds(self.run(program.command, program.env))
                                        for _ in range(max(5, self.rounds // 4)))
            self.run([*self.record("malloc/1"), *program.command], program.env)
            folded = self.run([self.calltrail, "export", "--to", "folded", "--metric", "malloc_calls",
                               os.path.join(self.folder, "p.ctp")])
            calls = sum(int(line.rpartition(" ")[2]) for line in folded.splitlines())
            print("| %s | %.3f | %d | %.1f%% |" % (program.name, seconds, calls, calls * heap[1] / seconds / 1e7),
                  flush=True)

    def call_ns(self, *words):
        """What each call takes: in the turns in which measuring is paused, and in the others."""
        return list(map(float, self.run(list(words)).splitlines()[-1].split()))

    def others_ns(self, words, call, depth, plain_ns):
        done = subprocess.run(words + ["true"], capture_output=True, check=False) if shutil.which(words[0]) else None
        if not done or done.returncode:
            return None  # not here, or not permitted
        return self.call_ns(*words, self.program, "plain-" + call, "4000", depth)[1] - plain_ns

    def waits(self):
        strace = ["strace", "-f", "-c", "-w", "-o", "/dev/null"]
        trace = ["perf", "trace", "-s", "-o", "/dev/null"]
        print("\n| call | frames | plain | wall, paused | wall adds | wall adds, stack changes | "
              "strace -c -w adds | perf trace -s adds |\n|---|--:|--:|--:|--:|--:|--:|--:|")
        for call in ("read", "poll"):
            for depth in ("5", "20", "60"):
                rows = []
                for _ in range(max(3, self.rounds // 8)):
                    plain = self.call_ns(self.program, "plain-" + call, "100000", depth)[1]
                    paused, active = self.call_ns(*self.record("wall"), self.program, call, "100000", depth)
                    still, moving = self.call_ns(*self.record("wall"), self.program, "moving-" + call, "100000",
                                                 depth)
                    rows.append((plain, paused - plain, active - plain, moving - still,
                                 self.others_ns(strace, call, depth, plain),
                                 self.others_ns(trace, call, depth, plain)))
                cells = ["-" if None in column else "%.0f ns" % statistics.median(column) for column in zip(*rows)]
                print("| %s | %s | %s |" % (call, depth, " | ".join(cells)), flush=True)


def main():
    parser = argparse.ArgumentParser(description="what events cost")
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("ROUNDS", 20)))
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    with tempfile.TemporaryDirectory(prefix="bench-events-") as folder:
        os.environ["XDG_CACHE_HOME"] = os.path.join(folder, "cache")
        bench = Bench(build, options.rounds, folder)
        small_folder = os.path.join(folder, "small")
        os.mkdir(small_folder)
        programs = [*events_programs.programs(folder), events_programs.worst(build)]
        smaller = [*events_programs.programs(small_folder, 0.1), events_programs.worst(build, 0.1)]
        print("| program | plain s | tool | costs | 95% interval |\n|---|--:|---|--:|--:|")
        for whole, small in zip(programs, smaller):
            bench.memory(whole, small)
        bench.pairs(programs)
        bench.waits()


main()
