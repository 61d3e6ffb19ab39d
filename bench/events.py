#!/usr/bin/env python3
"""What events cost: memory on programs that ask for much of it, waiting for each call that waits.

    bench/events.py BUILD [--rounds N]

Programs run in turn, plain and under each tool; the CPU time is that of the program itself, as it says
(trees) or as the kernel says of it (perl). What is shown is the median of the ratios of neighbouring
runs, and its interval by bootstrap. Calls that wait are measured inside one process, with measuring
paused and not in turn; under strace, against the plain run.
"""
import argparse
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

PERL = r"""my %h; my $s = 0; for my $i (1 .. 300000) { my $k = "k" . ($i % 20011); $h{$k} = [$i, "v$i" x 3];
$s += length($h{$k}[1]); delete $h{"k" . ($i * 7 % 20011)} if $i % 3 == 0 } print scalar(keys %h), " $s\n";"""


def interval(ratios, share=0.95, draws=2000):
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(draws))
    low = int(draws * (1 - share) / 2)
    return medians[low], medians[-1 - low]


class Bench:
    def __init__(self, build, rounds, folder):
        self.program = os.path.join(build, "bench/events")
        self.calltrail = os.path.join(build, "calltrail")
        self.rounds, self.folder = rounds, folder

    def record(self, *events):
        words = [self.calltrail, "record", "--no-lines", "-o", os.path.join(self.folder, "p.ctp")]
        return words + [word for event in events for word in ("-e", event)] + ["--"]

    def tools(self):
        """Name, words in front of the command, environment. gperftools brings its own allocator: without
        a profile it is a run of its own."""
        gperf = "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4"
        yield "calltrail -e heap", self.record("heap"), {}
        yield "calltrail -e malloc,heap,wall", self.record("malloc", "heap", "wall"), {}
        if shutil.which("heaptrack"):
            yield "heaptrack", ["heaptrack", "--raw", "--output", os.path.join(self.folder, "h")], {}
        if os.path.exists(gperf):
            yield "tcmalloc, no profile", [], {"LD_PRELOAD": gperf}
            yield "gperftools' heap profiler", [], {
                "LD_PRELOAD": gperf, "HEAPPROFILE": os.path.join(self.folder, "g")}

    def seconds(self, words, env, says):
        """CPU seconds: what the program says as its last line, or what bash says of it."""
        if not says:
            words = words[:-len(self.command)] + ["/bin/bash", "-c", 'TIMEFORMAT="%U %S"; time "$0" "$@"',
                                                 *self.command]
        done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **env})
        if done.returncode:
            sys.exit("%s: status %d: %s" % (words, done.returncode, done.stderr))
        if says:
            return float(re.search(r"^\d+\.\d{6}$", done.stdout, re.M)[0])
        return sum(map(float, [line for line in done.stderr.splitlines()
                               if line.replace(".", "").replace(" ", "").isdigit()][-1].split()))

    def memory(self, title, command, says):
        self.command = command
        tools = list(self.tools())
        plain, ratios = [], {name: [] for name, _, _ in tools}
        for turn in range(self.rounds):
            for name, words, env in tools:
                if turn > 2 and "calltrail" not in name:
                    continue  # what others cost is seen without so many rounds
                before = self.seconds(command, {}, says)
                under = self.seconds(words + command, env, says)
                after = self.seconds(command, {}, says)
                plain += [before, after]
                ratios[name].append(2 * under / (before + after))
        for name, values in ratios.items():
            low, high = interval(values)
            print("| %s | %.3f | %s | %+.1f%% | %+.1f to %+.1f%% |" % (
                title, statistics.median(plain), name, 100 * (statistics.median(values) - 1),
                100 * (low - 1), 100 * (high - 1)), flush=True)

    def waits(self):
        def run(*words):
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            return list(map(float, done.stdout.splitlines()[-1].split()))
        print("\n| depth | plain ns | -e wall, paused | -e wall | wall adds | strace -c -w adds |")
        print("|---|---|---|---|---|---|")
        for depth in ("5", "20", "60"):
            rows = []
            for _ in range(max(3, self.rounds // 4)):
                plain = run(self.program, "wait-plain", "200000", depth)[1]
                paused, active = run(*self.record("wall"), self.program, "wait", "200000", depth)
                strace = 0
                if shutil.which("strace"):
                    strace = run("strace", "-f", "-c", "-w", "-o", "/dev/null", self.program, "wait-plain",
                                 "4000", depth)[1] - plain
                rows.append((plain, paused, active, active - plain, strace))
            print("| %s | %.0f | %.0f | %.0f | %.0f ns | %.0f ns |" % (
                depth, *(statistics.median(column) for column in zip(*rows))), flush=True)


def main():
    parser = argparse.ArgumentParser(description="what events cost")
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=int(os.environ.get("ROUNDS", 20)))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-events-") as folder:
        os.environ["XDG_CACHE_HOME"] = os.path.join(folder, "cache")
        bench = Bench(os.path.abspath(options.build), options.rounds, folder)
        print("| program | plain s | tool | costs | 95% interval |\n|---|---|---|---|---|")
        bench.memory("trees of small nodes", [bench.program, "alloc", "100"], True)
        script = os.path.join(folder, "a.pl")
        with open(script, "w", encoding="utf-8") as out:
            out.write(PERL)
        bench.memory("perl, hashes of arrays", ["/usr/bin/perl", script], False)
        bench.waits()


main()
