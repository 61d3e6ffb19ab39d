#!/usr/bin/env python3
"""When samples came, against what the program itself says of when it ran what.

usage: times.py CALLTRAIL PROGRAM FOLDER

A sample's time is taken in the thread that it is of, so it lies between what the thread read from the clock before and
after, however busy the machine is. Prints `ok NAME` or `FAIL NAME: why` for each.
"""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oracle"))
import ctp_reader  # noqa: E402

calltrail, program, folder = sys.argv[1:]
# The clocks are compared to about a microsecond, and a file's times are whole ones; clocks that are set meanwhile move more.
SLACK_US = 200


def record(name, *options):
    path = f"{folder}/{name}.ctp"
    said = subprocess.run([calltrail, "record", *options, "-o", path, program], check=True, stdout=subprocess.PIPE, text=True)
    parts = [(word, int(start), int(end)) for word, start, end in map(str.split, said.stdout.splitlines())]
    return path, ctp_reader.Profile(path), parts


def entries(p):
    """Each entry: the names of its context's functions, the time in us since 1970, and its value."""
    begin_us = min(process[6] for process in p.table(ctp_reader.PROCESSES)) / 1000
    times = p.table(ctp_reader.TIMES)
    for metric, span, value, first, count in p.table(ctp_reader.TIME_RUNS):
        assert p.string(p.table(ctp_reader.METRICS)[metric][0]) == "cpu"
        for node, us in times[first:first + count]:
            yield set(p.path_of(node)["path"]), begin_us + (span << 32) + us, value


def come_when_they_ran(name, *options):
    path, p, parts = record(name, *options)
    seen, timed = 0, 0
    for names, at_us, value in entries(p):
        timed += value
        for function in ("even", "odd", "even_beside", "odd_beside"):
            if function not in names:
                continue
            seen += 1
            distance = min(max(start / 1000 - at_us, at_us - end / 1000, 0) for word, start, end in parts if word == function)
            assert distance <= SLACK_US, f"a sample of {function} is {distance:.0f} us from where it ran"
    lost = next((fact[4] for fact in p.table(ctp_reader.FACTS) if p.string(fact[2]) == "times_lost"), 0)
    cpu = next(metric for metric in p.info()["metrics"] if metric["name"] == "cpu")
    assert seen > 50 and timed + lost * cpu["period"] == cpu["total"], f"{seen} seen, {timed} + {lost} of {cpu['total']}"
    return path, p, parts


def total(path, *options):
    answer = subprocess.run([calltrail, "report", "--json", *options, path], check=True, stdout=subprocess.PIPE)
    return int(json.loads(answer.stdout)["total"])


def from_inside():
    path, p, _ = come_when_they_ran("inside")
    ends = [at_us for _, at_us, _ in entries(p)]
    begin_us = min(process[6] for process in p.table(ctp_reader.PROCESSES)) / 1000
    middle = (sum(ends) / len(ends) - begin_us) / 1e6
    wanted = sum(value for _, at_us, value in entries(p) if at_us - begin_us < round(middle * 1e6) - 0.5)
    assert total(path, "--to", f"{middle:.6f}") == wanted, f"--to {middle}: not {wanted}"
    assert total(path, "--to", f"{middle:.6f}") + total(path, "--from", f"{middle:.6f}") == sum(value for _, _, value in entries(p))


def merged_with_itself():
    path, p, _ = record("one")
    both = f"{folder}/both.ctp"
    subprocess.run([calltrail, "merge", "-o", both, path, path], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    one, two = sorted(entries(p), key=repr), ctp_reader.Profile(both)
    start = min(process[6] for process in two.table(ctp_reader.PROCESSES))
    assert start == min(process[6] for process in p.table(ctp_reader.PROCESSES))
    assert [at for at in sorted(at for _, at, _ in entries(two))] == sorted([at for _, at, _ in one] * 2)
    assert total(both, "--from", "0.1", "--to", "0.4") == 2 * total(path, "--from", "0.1", "--to", "0.4")


def not_wanted():
    path, p, _ = record("none", "--no-times")
    assert not p.table(ctp_reader.TIMES) and not any("times" in p.string(fact[2]) for fact in p.table(ctp_reader.FACTS))
    refused = subprocess.run([calltrail, "report", "--from", "1", path], capture_output=True, text=True)
    assert refused.returncode == 1 and "its samples have no times" in refused.stderr, refused.stderr


def firefox():
    path, p, _ = record("firefox")
    out = f"{folder}/firefox.json"
    subprocess.run([calltrail, "export", "--to", "firefox", "--threads", "-o", out, path], check=True, stderr=subprocess.DEVNULL)
    with open(out, encoding="utf-8") as file:
        threads = json.load(file)["threads"]
    begin_us = min(process[6] for process in p.table(ctp_reader.PROCESSES)) / 1000
    ours = sorted(at - begin_us for _, at, _ in entries(p))
    theirs = sorted(at * 1000 for thread in threads for at, stack in zip(thread["samples"]["time"], thread["samples"]["stack"]) if stack is not None)
    # A sample that came less than a period after the one before is laid behind it.
    assert len(theirs) >= len(ours) and all(b - a >= -1 for a, b in zip(ours, theirs)), (ours[:3], theirs[:3])


failed = False
checks = {"from inside": from_inside, "merged": merged_with_itself, "--no-times": not_wanted, "to firefox": firefox}
can_be_outside = subprocess.run([calltrail, "record", "--outside", "-o", "/dev/null", "true"], capture_output=True).returncode == 0
if can_be_outside:
    checks["from outside"] = lambda: come_when_they_ran("outside", "--outside")
for name, check in checks.items():
    try:
        check()
        print(f"ok times: {name}")
    except AssertionError as error:
        print(f"FAIL times: {name}: {error}")
        failed = True
sys.exit(failed)
