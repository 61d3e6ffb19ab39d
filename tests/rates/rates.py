"""Is the rate what was asked for, and does every kind of thread get its share?

The truth is what burn.c says of itself: the process's user time, and the CPU time of each part by
the thread's own clock. A part spends its time in a function of its own, in user mode, so that the
profile must give that function as much, less the share of the CPU time that the kernel had: at
10 kHz its way to the signal's handler is a fifth of it in a virtual machine. How the kernel divides
the time between the two is what its tick finds, 250 times a second: of a second, it knows it to
some per cent, which is allowed on top of the 5% of the rate.
"""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CALLTRAIL = os.environ.get("CALLTRAIL", os.path.join(HERE, "../../build/calltrail"))
WORK = sys.argv[1]
PROFILE = os.path.join(WORK, "p.ctp")
LOW, HIGH = 0.95, 1.05
ACCOUNTS = {999: 0.02, 9999: 0.05}
failed = False


def check(name, wrong):
    global failed
    print("FAIL rates: %s: %s" % (name, wrong) if wrong else "ok rates: " + name)
    failed = failed or bool(wrong)


def calltrail(*arguments):
    return subprocess.run([CALLTRAIL, *arguments], check=True, capture_output=True, text=True).stdout


class Run:
    def __init__(self, hz, what, amount, launcher=()):
        self.hz, self.what = hz, what
        run = subprocess.run([*launcher, CALLTRAIL, "record", "-F", str(hz), "-o", PROFILE, "--",
                              os.path.join(WORK, "burn"), what, str(amount)],
                             capture_output=True, text=True)
        self.parts = {}  # name: {tid: CPU seconds}
        for line in run.stdout.splitlines():
            part, tid, ns = line.split()
            of = self.parts.setdefault(part, {})
            of[int(tid)] = of.get(int(tid), 0) + int(ns) / 1e9
        self.utime_s = self.parts.pop("utime")[0]
        self.info = json.loads(calltrail("info", "--json", PROFILE))
        threads = json.loads(calltrail("report", "--view", "threads", "--json", PROFILE))["rows"]
        self.thread_s = {row["tid"]: row["value"] / 1e9 for row in threads}
        self.function_s = {}
        for line in calltrail("export", "--to", "folded", PROFILE).splitlines():
            stack, value = line.rsplit(" ", 1)
            for function in set(stack.split(";")):
                self.function_s[function] = self.function_s.get(function, 0) + int(value) / 1e9

    def title(self, text):
        return "%d Hz, %s: %s" % (self.hz, self.what, text)

    def share(self, part):
        return self.function_s.get(part, 0) / sum(self.parts[part].values())

    def bounds(self):
        return LOW - ACCOUNTS[self.hz], HIGH + ACCOUNTS[self.hz]

    def check_parts(self, *parts, unlike=0):
        """The parts are all that the process does: the kernel has its share of each, the same up to
        `unlike`."""
        total_s = sum(sum(part.values()) for part in self.parts.values())
        user_share = min(1, self.info["utime_s"] / total_s)
        low, high = self.bounds()
        for part in parts:
            share = self.share(part) / user_share
            check(self.title("%s has its CPU time" % part),
                  not low - unlike < share < high and "%.3f of it" % share)

    def check_rate(self):
        info = self.info
        low, high = self.bounds()
        rate = (info["samples"] + info["lost"]) / info["utime_s"] / self.hz
        check(self.title("the rate is reached"), not low < rate < high and "%.3f of it" % rate)
        got = (info["samples"] - info["merged"]) / info["utime_s"]
        check(self.title("rate_got_hz is stacks per user second"),
              not abs(info["rate_got_hz"] / got - 1) < 0.001 and
              "%g, not %g" % (info["rate_got_hz"], got))
        check(self.title("utime_s is the program's"),
              not abs(info["utime_s"] / self.utime_s - 1) < 0.02 and
              "%g, not %g" % (info["utime_s"], self.utime_s))

    def check_lost(self, part):
        """What a part that could not be sampled burnt is in the count of losses: up to the time
        that signals would have taken, by which the event's period is longer."""
        expected = self.hz * sum(self.parts[part].values())
        lost = self.info["lost"]
        least = {999: 0.9, 9999: 0.65}[self.hz]
        check(self.title("what %s lost is counted" % part),
              not least * expected < lost < HIGH * expected + 5 and
              "%d, not %d" % (lost, expected))


def check_threads(run):
    """Each of the eight gets the same share of its own CPU time, up to three samples and what the
    machine takes from one and not from another."""
    mean = run.share("many")
    for tid, cpu_s in sorted(run.parts["many"].items()):
        share = run.thread_s.get(tid, 0) / cpu_s
        error = 0.06 + 3 / (run.hz * cpu_s)
        if abs(share - mean) > error:
            return "%.3f of thread %d, %.3f of all" % (share, tid, mean)
    return len(run.parts["many"]) != 8 and "not eight threads"


for hz in 999, 9999:
    one = Run(hz, "one", 3000)
    one.check_parts("one")
    one.check_rate()
    many = Run(hz, "many", 400)
    many.check_parts("many")
    many.check_rate()
    check(many.title("each thread has its share"), check_threads(many))
    blocked = Run(hz, "blocked", 400)
    blocked.check_parts("by_pthread_sigmask", "by_sigprocmask", "by_syscall")
    blocked.check_rate()
    raw = Run(hz, "raw", 200)
    raw.check_parts("before_raw", "after_raw", unlike=0.1)  # signals come here, and not in between
    raw.check_lost("raw")
    calls = Run(hz, "calls", 1500)
    calls.check_parts("between_calls")
    calls.check_rate()

# Threads that end before the first period is over are seen as often as they should be: 1500 of
# them, 1.05 ms each on average, are about 1575 samples, with an error of 2.5% at most, and so are
# those of the thread that does as much beside them.
bursts = Run(999, "bursts", 1500)
bias = bursts.share("burst") / bursts.share("steady") - 1
check(bursts.title("short threads are not seen less"), not abs(bias) < 0.12 and "%+.3f" % bias)

# Without perf events: as many samples as doctor says, and each counts for what it stands for.
timers = Run(999, "one", 1500, launcher=[os.path.join(WORK, "launch"), "noperf"])
counted_s, utime_s = timers.info["metrics"][0]["total"] / 1e9, timers.info["utime_s"]
check("timers: all user time is accounted for",
      not LOW < counted_s / utime_s < HIGH and "%g s of %g s" % (counted_s, utime_s))
doctor = calltrail("doctor")
said = [float(word) for line in doctor.splitlines() if "CPU-time timers" in line
        for word in line.split() if word.isdigit()][1]
check("timers: the rate is what doctor says",
      not 0.5 < timers.info["rate_got_hz"] / said < 1.5 and
      "%g Hz, not %g" % (timers.info["rate_got_hz"], said))
sys.exit(failed)
