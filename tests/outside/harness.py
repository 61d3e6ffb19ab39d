"""What the checks of recording from outside share. Arguments of each file of checks: the folder of the
built programs, and what to run of the checks (all)."""
import collections
import json
import os
import re
import subprocess
import sys

work = sys.argv[1]
only = sys.argv[2] if len(sys.argv) > 2 else ""
calltrail = os.environ["CALLTRAIL"]
profile = os.path.join(work, "p.ctp")


class Failed(Exception):
    pass


def must(holds, why):
    if not holds:
        raise Failed(why)


def path(name):
    return os.path.join(work, name)


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def record(*arguments, **options):
    if os.path.exists(profile):
        os.unlink(profile)
    return run([calltrail, "record", "--verify", "-o", profile, *arguments], **options)


def facts():
    done = run([calltrail, "info", "--check", "--json", profile])
    must(done.returncode == 0, "info: " + done.stderr)
    return json.loads(done.stdout)


def contexts():
    """Frames, outermost first, and nanoseconds, of each context."""
    done = run([calltrail, "export", "--to", "folded", profile])
    must(done.returncode == 0, "export: " + done.stderr)
    found = collections.Counter()
    for line in done.stdout.splitlines():
        stack, value = line.rsplit(" ", 1)
        found[tuple(frame.split(" [")[0] for frame in stack.split(";"))] += int(value)
    return found


def share(found, *frames):
    """Of contexts in which these frames follow each other, in turn."""
    total = sum(found.values())
    some = sum(value for stack, value in found.items()
               if any(stack[i:i + len(frames)] == frames for i in range(len(stack))))
    return some / total if total else 0


def same_as_plain(command, done, launch=()):
    plain = run([*launch, *command])
    must((plain.stdout, plain.returncode) == (done.stdout, done.returncode),
         "plain: %r %d, recorded: %r %d %s" % (plain.stdout, plain.returncode, done.stdout,
                                               done.returncode, done.stderr))


def check_shares(least=0.99, samples=50):
    """The programs of shares.c."""
    p, found = facts(), contexts()
    must(p["samples"] >= samples, "%d samples" % p["samples"])
    must(p["lost"] == 0 and p["verify_differ"] == 0 and p["verify_checked"] == p["samples"],
         "lost %d, differ %d of %d" % (p["lost"], p["verify_differ"], p["verify_checked"]))
    must(p["walks_complete"] >= least * p["samples"],
         "%d of %d walks complete" % (p["walks_complete"], p["samples"]))
    right = share(found, "right", "hot")
    must(abs(right - 2 / 3) < 0.25, "right has %.3f" % right)
    must(share(found, "hot") > 0.95, "hot has %.3f" % share(found, "hot"))


def same_tick(*command, most_other=0.1, large=("32768", 0.5)):
    """
    The same ticks, walked from the kernel's records and from the whole stacks: all the same. Where a signal came late,
    there are others in the ring: at most that share. `large`: a window, and how many it may cut.
    """
    def check():
        plain = run(command)
        for window, most_cut in (("1024", 1), large):
            file = path("ticks")
            if os.path.exists(file):
                os.unlink(file)
            done = run(command, env={**os.environ, "LD_PRELOAD": path("same_tick.so"),
                                     "SAME_TICK_FILE": file, "SAME_TICK_WINDOW": window})
            must((done.stdout, done.returncode) == (plain.stdout, plain.returncode), done.stderr)
            compared = run([os.path.join(os.path.dirname(calltrail), "tests/same_tick_compare"), file])
            numbers = [int(n) for n in re.findall(r"\d+", compared.stdout.splitlines()[-1])]
            must(compared.returncode == 0 and len(numbers) == 6, compared.stdout[-500:])
            samples, other, cut, differ, complete, frames = numbers
            must(samples >= 15 and other <= most_other * samples and not differ, compared.stdout)
            must(complete >= 0.8 * samples and frames > 3 * samples, compared.stdout)
            must(cut <= most_cut * samples, compared.stdout)
            print("  %s, window %s: %s" % (command[0], window, compared.stdout.splitlines()[-1]))
    return check


class Recorder:
    """record -p that has begun: it says so."""

    def __init__(self, *arguments):
        if os.path.exists(profile):
            os.unlink(profile)
        self.process = subprocess.Popen(
            [calltrail, "record", "--verify", "-o", profile, *arguments],
            stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.first = self.process.stderr.readline()

    def end(self):
        out, err = self.process.communicate(timeout=120)
        must(out == "", "output: " + out)
        self.errors = err
        return self.process.returncode


def run_checks(checks):
    """Those that were asked for; ends the program."""
    failed = False
    probe = run([calltrail, "record", "--outside", "-o", profile, "true"])
    if probe.returncode and "not permitted" in probe.stderr:
        print("skip outside: " + probe.stderr.strip())
        sys.exit(0)
    for name, check in checks:
        if not re.search(only, name):
            continue
        try:
            why = check()
            print("%s outside: %s%s" % ("skip" if why else "ok", name, ": " + why if why else ""))
        except (Failed, subprocess.TimeoutExpired) as error:
            print("FAIL outside: %s: %s" % (name, error))
            failed = True
        sys.stdout.flush()
    sys.exit(failed)
