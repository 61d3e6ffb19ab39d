#!/usr/bin/env python3
"""The encoding of contexts of real programs, a row for each, as table 1 of the paper has it.

    bench/encode.py [--rounds N] [--only REGEX]

Left of the bar what engine encode has when the program ends; right of it what one would have who knows all calls before
(PCCE), from one run with engine exact. The cost is that of the median of N pairs of runs (1), user and system CPU time.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile

import exact


def others(folder):
    words = os.path.join(folder, "words")
    with open(words, "w", encoding="utf-8") as out:
        out.writelines("%d %d\n" % (i * 7919 % 10007, i % 97) for i in range(200000))
    numbers = os.path.join(folder, "a.bc")
    with open(numbers, "w", encoding="utf-8") as out:
        out.write("define f(n) { if (n < 2) return (n); return (f(n - 1) + f(n - 2)); }\nf(21)\n2^9000 % 7919\nquit\n")
    macros = os.path.join(folder, "a.m4")
    with open(macros, "w", encoding="utf-8") as out:
        out.write("define(`f', `ifelse($1, 0, 0, `f(decr($1))')')\n" + "f(60)\n" * 300)
    tcl = os.path.join(folder, "a.tcl")
    with open(tcl, "w", encoding="utf-8") as out:
        out.write("proc f {n} { if {$n < 2} { return $n }; expr {[f [expr {$n - 1}]] + [f [expr {$n - 2}]]} }\n"
                  "puts [f 22]; for {set i 0} {$i < 60000} {incr i} { lappend a [string length x$i] }; puts [llength $a]\n")
    return {"gawk": ["gawk", "{ s[$2] += $1; t = t substr($1, 1, 1); if (length(t) > 99) t = \"\" } END { print s[3] }", words],
            "mawk": ["mawk", "{ s[$2] += $1 } END { print s[3] }", words], "bc": ["bc", "-q", numbers],
            "m4": ["m4", macros], "tclsh": ["tclsh", tcl], "gzip": ["gzip", "-9c", words], "sort": ["sort", "-k2n", words],
            "jq": ["jq", "-n", "[range(60000) | {a: ., b: (. % 97 | tostring)}] | group_by(.b) | map(length) | add"]}


def record(engine, command, folder):
    profile = os.path.join(folder, engine + ".ctp")
    subprocess.run([exact.CALLTRAIL, "record", "--no-lines", "--engine", engine, "-o", profile, *command], check=True,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return profile


def printed(*words):
    return subprocess.run([exact.CALLTRAIL, "info", *words], check=True, capture_output=True, text=True).stdout


def row(name, command, rounds, folder):
    ratios = []
    record("encode", command, folder)
    for _ in range(rounds):
        plain = exact.cpu_of(command)
        info = json.loads(printed("--json", record("encode", command, folder)))
        ratios.append((info["utime_s"] + info["stime_s"]) / plain)
    profile = record("exact", command, folder)
    known = printed("--encoding", profile)
    most = re.search(r"\(maxID\) +(\S+)", known).group(1)
    calls = int(re.search(r"calls +(\d+)", known).group(1))
    shares = [float(share) for share in re.findall(r"\(([0-9.]+)%\)", known)[:3]]
    mean = float(re.search(r"pushed contexts +(\S+)", known).group(1))
    seconds = info["utime_s"] + info["stime_s"]
    print("| %s | %.2f | %d | %d | %d | %.0f | %.2f | %.1f | %d | %.1f | %.1f | %s | %.0f/%.0f/%.1f | %.1f |" % (
        name, statistics.median(ratios), info["encode_functions"], info["encode_edges"], info["encode_ids"],
        info["encode_pushes"] / seconds, 100 * info["encode_pushes"] / calls,
        info["encode_entry_depth"] / max(1, info["encode_decoded"]), info["encode_numberings"],
        info["encode_numbering_ns"] / 1e6, calls / plain / 1e6, most, *shares, mean), flush=True)


def main():
    parser = argparse.ArgumentParser(description="the encoding of contexts of real programs")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    print("| program | cost | nodes | edges | maxID | pushes/s | % of calls | entries | numberings | ms | M calls/s | PCCE: maxID "
          "| adds 0/adds/pushes % | pushed |\n|" + "---|" * 14)
    with tempfile.TemporaryDirectory(prefix="bench-encode-") as folder:
        for name, command in {**exact.programs(folder), **others(folder)}.items():
            if re.search(options.only, name):
                row(name, command, options.rounds, folder)


if __name__ == "__main__":
    main()
