#!/usr/bin/env python3
"""What frames that grow do for the nine programs of bench/exact.py: how many paths are the only ones with their
function and height, before and after; what the stack and CPU time become; whether the programs do the same.

    bench/resize.py [--only REGEX] [--rounds N] [--small]

The map is of the same run (--small: of a run with the numbers in the program's text divided by eight). Samples are of
two registers: from outside without growth, inside with it. CPU time is the program's own, user and system, plain and
recorded in turn."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import exact  # noqa: E402

CALLTRAIL = exact.CALLTRAIL


def calltrail(*arguments, check=True):
    done = subprocess.run([CALLTRAIL, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="replace")
    if check and done.returncode:
        sys.exit("%s: %s" % (" ".join(arguments[:3]), done.stderr))
    return done


def pair(text, name):
    return [float(v.rstrip("%x")) for v in re.search(r"^ *%s +(.*)$" % re.escape(name), text, re.M)[1].split()]


def answers(path_map, profile):
    """Shares of samples: precise, ambiguous, missing."""
    text = calltrail("infer", path_map, profile).stdout
    found = {w: float(v) for v, w in re.findall(r"^ *([\d.]+)%  (walked|precise|likely|ambiguous|missing)", text, re.M)}
    return "%.1f / %.1f / %.1f" % (found["precise"] + found["walked"], found["likely"] + found["ambiguous"],
                                   found["missing"])


def smaller(command, folder):
    """The same program with less to do."""
    out = []
    for word in command:
        path = word[len(".read "):] if word.startswith(".read ") else word
        if path.startswith(folder) and os.path.splitext(path)[1] in (".pl", ".py", ".lua", ".sh", ".sql"):
            with open(path, encoding="utf-8") as file:
                text = re.sub(r"\b\d{5,}\b", lambda m: str(int(m[0]) // 8), file.read())
            less = path + ".less"
            with open(less, "w", encoding="utf-8") as file:
                file.write(text)
            word = word.replace(path, less)
        out.append(word)
    return out


def output_of(command, prefix=()):
    done = subprocess.run([*prefix, *command], stdin=subprocess.DEVNULL, capture_output=True)
    return done.returncode, done.stdout


def cpu_recorded(command, folder, path_map):
    profile = os.path.join(folder, "cpu.ctp")
    calltrail("record", "--quiet", "--no-lines", "--engine", "infer", "--resize", path_map, "-o", profile, "--", *command)
    info = json.loads(calltrail("info", "--json", profile).stdout)
    return info["utime_s"] + info["stime_s"]


def measure(name, command, folder, options):
    path = lambda file: os.path.join(folder, file)
    record = ["record", "--quiet", "--no-lines", "-o"]
    trained = smaller(command, folder) if options.small else command
    calltrail(*record, path("exact.ctp"), "--engine", "exact", "--height", "-e", "cpu", "--", *trained)
    calltrail("infer", "--train", "-o", path("map"), path("exact.ctp"))
    done = calltrail("infer", "--resize", "-o", path("grown"), path("map"))
    said, took = done.stdout, re.search(r"in ([\d.]+) s(.*)", done.stderr)
    places = {words: int(n) for n, words in re.findall(r"^ +(\d+)  (.*)$", said, re.M)}
    all_places = int(re.search(r"^(\d+) calls that training met", said, re.M)[1])
    print("%s: %s" % (name, said), file=sys.stderr, flush=True)
    paths, weight, few = (pair(said, row) for row in ("precise, by paths", "precise, by weight", "among at most 5 paths"))
    highest, mean = pair(said, "highest stack, bytes"), pair(said, "mean stack by weight, bytes")
    calltrail(*record, path("plain.ctp"), "--engine", "infer", "--", *command)
    calltrail(*record, path("grown.ctp"), "--verify", "--engine", "infer", "--resize", path("grown"), "--", *command)
    info = json.loads(calltrail("info", "--json", path("grown.ctp")).stdout)
    plain = output_of(command)
    same = plain == output_of(command, [CALLTRAIL, *record, path("x.ctp"), "--engine", "infer", "--resize",
                                        path("grown"), "--"])
    ratios = []
    for _ in range(options.rounds):
        before = exact.cpu_of(command)
        ratios.append(cpu_recorded(command, folder, path("grown")) / before)
    print("| %s | %d | %d | %s | %.1f → %.1f | %.1f → %.1f | %.1f → %.1f | %.3f | %.3f | %s%s | %s | %s | %d of %d | %s | %s |" % (
        name, all_places, places.get("the stack may grow before them", 0),
        re.search(r"^(\d+) of these", said, re.M)[1], *paths[:2], *weight[:2], *few[:2], highest[2], mean[2], took[1],
        " (cut)" if took[2] else "", answers(path("map"), path("plain.ctp")),
        answers(path("grown"), path("grown.ctp")), info["verify_differ"], info["verify_checked"],
        "yes" if same else "NO", "%.3f" % statistics.median(ratios) if ratios else "-"), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    print("| program | calls that training met | may grow | grow | precise by paths, % | by weight, % | among 5 paths, % "
          "| highest stack, x | mean, x | s | samples before: precise / ambiguous / missing, % | after | heights that "
          "differ | output and status as plain | CPU time, x |")
    print("|" + "---|" * 15)
    with tempfile.TemporaryDirectory() as folder:
        for name, command in exact.programs(folder).items():
            if not options.only or re.search(options.only, name):
                measure(name, command, folder, options)


if __name__ == "__main__":
    main()
