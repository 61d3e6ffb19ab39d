"""
What the checks of programs of many kinds share: they are built, recorded, and compared with the plain run and with perf.
"""
import collections
import json
import math
import os
import shutil

from harness import calltrail, facts, must, path, profile, record, run, same_as_plain


class Skip(Exception):
    pass


def make(name, text, *command):
    """A source file, and what is made of it."""
    if not shutil.which(command[0]):
        raise Skip(command[0] + " is not installed")
    with open(path(name), "w") as file:
        file.write(text)
    made = run(command, cwd=path(""), env={**os.environ, "GOCACHE": path("gocache"), "GO111MODULE": "off"})
    must(made.returncode == 0, made.stderr[-500:])


MADE = "made code"  # by a compiler at run time: in no file, or in one that is none


def perfs_functions(command, event="task-clock:u"):
    """Innermost functions: samples, by module and name."""
    done = run(["perf", "record", "-q", "-c", "1001001", "-e", event, "-o", path("perf.data"), *command])
    lines = run(["perf", "script", "-i", path("perf.data"), "-F", "ip,sym,dso"]).stdout.splitlines()
    must(lines, "perf has no samples: " + done.stderr)
    found = collections.Counter()
    for line in lines:
        name, module = line.strip()[:-1].replace(" (deleted)", "").split(None, 1)[1].rsplit(" (", 1)
        module = os.path.basename(module)
        is_made = module.endswith(".map") or module.startswith("memfd:") or module in (
            "anon", "[unknown]", "zero", "[heap]", "[stack]")
        module = "[kernel]" if "kernel" in module else module
        found[(MADE, "") if is_made else (module, name)] += 1
    return found


def our_functions():
    """As perf's."""
    p = json.loads(run([calltrail, "report", "--view", "flat", "--json", "--limit", "0", "--no-inline", "--full-names",
                        profile]).stdout)
    found = collections.Counter()
    for row in p["rows"]:
        is_made = row["module"] in ("", "anon") or row["module"].startswith("memfd:") or \
            row["function"] == "[unknown code]"
        found[(MADE, "") if is_made else (row["module"], row["function"])] += round(row["self"] / p["period"])
    return found


def is_near(ours, theirs, our_count, their_count):
    """Within 4.5 standard errors of both counts, and 2% that two runs may differ by."""
    p = (ours + theirs) / (our_count + their_count)
    error = math.sqrt(p * (1 - p) * (1 / our_count + 1 / their_count))
    return abs(ours / our_count - theirs / their_count) < 4.5 * error + 0.02


def by_module(functions):
    found = collections.Counter()
    for (module, _), count in functions.items():
        found[module] += count
    return found


def must_agree(command, names=(), event="task-clock:u"):
    """
    With perf: modules, and functions, of 5% or more in either. A function that one of both does not have by that name is part
    of its module alone; `names` are those that must be there.
    """
    ours, theirs = our_functions(), perfs_functions(command, event)
    our_count, their_count = sum(ours.values()), sum(theirs.values())
    must(our_count, "no samples")
    compared = {"modules": 0, "functions": 0}
    pairs = [("modules", by_module(ours), by_module(theirs)), ("functions", ours, theirs)]
    for kind, a, b in pairs:
        for key in set(a) | set(b):
            if max(a[key] / our_count, b[key] / their_count) < 0.05 or kind == "functions" and not (a[key] and b[key]):
                continue
            must(is_near(a[key], b[key], our_count, their_count), "%s: %d of %d samples, by perf %d of %d" %
                 (key, a[key], our_count, b[key], their_count))
            compared[kind] += 1
    for name in names:
        must(any(name in function for _, function in ours), "no %s in %s" % (name, ours.most_common(5)))
    return "%d samples; %d modules and %d functions agree with perf's" % (
        our_count, compared["modules"], compared["functions"])


def program(way, command, arguments=(), names=()):
    """`way`: what is to be said of how it is recorded."""
    done = record("--no-lines", *arguments, *command)
    same_as_plain(command, done)
    sources = {one.get("sampled_by", "not recorded") for one in facts()["processes"] if one.get("samples")}
    must(any(("from outside" in source) == (way == "outside") for source in sources), str(sources))
    return must_agree(command, names)


def checked(check):
    def checks():
        try:
            said = check()
        except Skip as why:
            return str(why)
        if said:
            print("  " + said)
        return None
    return checks
