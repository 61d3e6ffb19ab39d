#!/usr/bin/env python3
"""The paper's figure 6: does recording two registers slow programs down? Each program runs in SETUPS (32) setups,
plain and recorded in turn: the environment has between 0 and 4,096 bytes more, which moves the stack, as the paper
did; link orders stay, since the programs are packages. CPU time of the program, user and system; Welch's t-test.

    bench/infer_cost.py [--setups N] [--only REGEX] [--resize]

With --resize, the frames of the program have grown as well, and samples are taken inside."""
import argparse
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import exact  # noqa: E402

CALLTRAIL = exact.CALLTRAIL


def cpu_of(command, env):
    """Of the command and what it waits for."""
    before = os.times()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env)
    after = os.times()
    if done.returncode:
        sys.exit("%s: %s" % (command[0], done.stderr.decode()))
    return after.children_user - before.children_user + after.children_system - before.children_system


def recorded(command, env, profile, options):
    done = subprocess.run([CALLTRAIL, "record", "--quiet", "--no-lines", "--engine", "infer", *options, "-o", profile, "--",
                           *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env)
    if done.returncode:
        sys.exit(done.stderr.decode())
    info = json.loads(subprocess.run([CALLTRAIL, "info", "--json", profile], capture_output=True, check=True).stdout)
    return info["utime_s"] + info["stime_s"]


def p_value(a, b):
    """Of Welch's t-test, two-sided, by the normal distribution: there are at least 30 degrees of freedom."""
    error = math.sqrt(statistics.variance(a) / len(a) + statistics.variance(b) / len(b))
    t = (statistics.mean(b) - statistics.mean(a)) / error if error else 0
    return t, math.erfc(abs(t) / math.sqrt(2))


def grown_map(command, folder):
    path = {n: os.path.join(folder, n) for n in ("exact.ctp", "map", "grown")}
    run = lambda *a: subprocess.run([CALLTRAIL, *a], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
    run("record", "--quiet", "--no-lines", "--engine", "exact", "--height", "-o", path["exact.ctp"], "--", *command)
    run("infer", "--train", "-o", path["map"], path["exact.ctp"])
    run("infer", "--resize", "-o", path["grown"], path["map"])
    return path["grown"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--setups", type=int, default=32)
    parser.add_argument("--only")
    parser.add_argument("--resize", action="store_true")
    options = parser.parse_args()
    draw = random.Random(1)
    print("| program | setups | plain, median s | quartiles | two registers, median s | quartiles | mean overhead | t | p |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for name, command in exact.programs(folder).items():
            if options.only and not re.search(options.only, name):
                continue
            more = ["--resize", grown_map(command, folder)] if options.resize else []
            plain, two = [], []
            for _ in range(options.setups):
                env = {**os.environ, "CALLTRAIL_BENCH_PADDING": "x" * draw.randrange(4096)}
                pair = [lambda: plain.append(cpu_of(command, env)),
                        lambda: two.append(recorded(command, env, os.path.join(folder, "two.ctp"), more))]
                draw.shuffle(pair)
                for one in pair:
                    one()
            t, p = p_value(plain, two)
            quartiles = lambda values: "%.3f to %.3f" % tuple(statistics.quantiles(values, n=4)[::2])
            print("| %s | %d | %.3f | %s | %.3f | %s | %+.2f%% | %.2f | %.3f%s |" % (
                name, options.setups, statistics.median(plain), quartiles(plain), statistics.median(two), quartiles(two),
                100 * (statistics.mean(two) / statistics.mean(plain) - 1), t, p, ", NC" if p > 0.05 else ""), flush=True)


if __name__ == "__main__":
    main()
