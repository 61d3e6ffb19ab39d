#!/usr/bin/env python3
"""What recording from outside costs: the program, by toggling (outside.c), and the reader, by its own
CPU time. Argument: the build folder. PAIRS (400) makes it shorter or more exact."""
import json
import os
import subprocess
import sys
import tempfile

build = sys.argv[1]
pairs = os.environ.get("PAIRS", "400")
calltrail = os.path.join(build, "calltrail")


def program():
    print("In the program: what a sample takes, by toggling (median, and its 95% interval).\n")
    print("| what | Hz | slower by | us for each | interval | samples |")
    print("|---|---:|---:|---:|---|---:|")
    sys.stdout.flush()
    for hz in ("999", "9999"):
        subprocess.run([os.path.join(build, "bench/outside"), hz, pairs], check=True)


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


program()
with tempfile.TemporaryDirectory() as work:
    os.environ["XDG_CACHE_HOME"] = os.path.join(work, "cache")
    for command in WORK.values():  # maps are made
        subprocess.run([calltrail, "record", "--outside", "--duration", "0.1", "--no-lines", "-o",
                        os.path.join(work, "p.ctp"), *command], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
    reader(work)
