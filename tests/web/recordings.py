"""Profiles of a real program: what each engine and each event records, as the page gets it."""
import pathlib
import subprocess

import page_numbers

WORK = pathlib.Path(__file__).resolve().parent / "work.c"

# Name, options of `record`, and which build of the program. What --short leaves out needs no code of the page of its own.
RECORDINGS = [
    ("sample", [], "work"), ("no-names", [], "bare"), ("no-times", ["--no-times"], "work"),
    ("exact", ["--engine", "exact"], "work"), ("exact-cpu", ["--engine", "exact", "-e", "cpu"], "work"),
    ("exact-k", ["--engine", "exact", "--k", "3"], "work"), ("encode", ["--engine", "encode"], "work"), ("outside", ["--outside", "-e", "cpu:uk"], "work"),
    ("wall", ["-e", "wall"], "work"), ("lock", ["-e", "lock"], "work"), ("io", ["-e", "io"], "work"),
    ("malloc", ["-e", "malloc/1"], "work"), ("heap", ["-e", "heap/1"], "work"),
    ("page-faults", ["-e", "perf:page-faults/1"], "work"),
    ("all-events", ["-e", "cpu,wall,lock,io,malloc/1,heap/1,perf:page-faults/1"], "work"),
    ("nothing", [], "/bin/true"),
]
SHORT = ["exact-cpu", "encode", "all-events"]


def run(*command):
    """Whether a command succeeds; what it says if not."""
    done = subprocess.run([str(word) for word in command], capture_output=True)
    return done.stderr.decode(errors="replace").strip() if done.returncode else None


def record_all(calltrail, folder, is_short):
    """Yields names and profiles, one after the other; says what this machine cannot record."""
    for name, more in (("work", []), ("bare", ["-s"])):
        subprocess.run(["cc", "-O1", "-g", "-pthread", *more, "-o", f"{folder}/{name}", WORK], check=True)
    for name, options, program in RECORDINGS:
        if is_short and name not in SHORT:
            continue
        profile = f"{folder}/recorded-{name}.ctp"
        failed = run(calltrail, "record", "--quiet", *options, "-o", profile, program if program[0] == "/" else f"{folder}/{program}")
        if failed and ("--outside" in options or any("perf:" in word for word in options)):
            print(f"skip page recording {name}: {failed}", flush=True)
            continue
        assert not failed, f"{name}: {failed}"
        yield name, profile
    if not is_short:
        yield from record_inferred(calltrail, folder)


def record_inferred(calltrail, folder):
    """Heights alone, a map, and what the map makes of them."""
    program, heights, known, whole = (f"{folder}/{name}" for name in ("work", "heights.ctp", "known.ctp", "whole.ctp"))
    failed = run(calltrail, "record", "--quiet", "--engine", "infer", "-o", heights, program)
    if failed:
        print(f"skip page recording infer: {failed}", flush=True)
        return
    for command in (["record", "--quiet", "--engine", "exact", "--height", "-o", f"{folder}/training.ctp", program],
                    ["infer", "--train", "-o", known, f"{folder}/training.ctp"], ["infer", "-o", whole, known, heights]):
        failed = run(calltrail, *command)
        assert not failed, f"{command}: {failed}"
    for name, profile in (("heights", heights), ("map", known), ("inferred", whole)):
        yield name, profile


def heaviest(calltrail, profile, options):
    """A function of which callers, callees and lines are compared: the heaviest that has a module."""
    try:
        rows = page_numbers.report(calltrail, ["--view", "flat", *options], profile)["rows"]
    except RuntimeError:
        rows = []  # nothing was measured
    alike = [(row["function"], row["module"]) for row in rows]
    return next(([row["function"], row["module"], 0] for row in rows if row["module"] and alike.count((row["function"], row["module"])) == 1), ["", "", 0])
