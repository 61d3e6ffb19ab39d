#!/usr/bin/env python3
"""What `record -e` measures, against what the programs in this folder know of themselves.

    events.py FOLDER [--long]     the folder has the programs, built; --long: 50 runs where 12 do otherwise,
                                  and times to a few per cent, on a machine that does nothing else

Prints `ok events: NAME` or `FAIL events: NAME: why`. The profile is read by the independent reader.
"""
import os
import re
import statistics
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(here), "oracle"))
sys.dont_write_bytecode = True
import ctp_reader  # noqa: E402

folder = sys.argv[1]
LONG = "--long" in sys.argv
RUNS = 50 if LONG else 12
calltrail = os.environ["CALLTRAIL"]
failed = False


class Run:
    """A program under `record`: what it printed, and its profile."""

    def __init__(self, events, *command, options=(), env=None):
        path = os.path.join(folder, "p.ctp")
        options = list(options) + [word for event in events for word in ("-e", event)]
        command = [os.path.join(folder, command[0]), *command[1:]]
        done = subprocess.run([calltrail, "record", "--no-lines", "-o", path, *options, "--", *command],
                              capture_output=True, text=True, timeout=120,
                              env={**os.environ, **(env or {})})
        assert done.returncode == 0, "status %d: %s" % (done.returncode, done.stderr)
        assert not done.stderr, "it said: " + done.stderr
        self.says = dict(re.findall(r"^(\S+) (-?[0-9.]+)$", done.stdout, re.M))
        self.profile = p = ctp_reader.Profile(path)
        self.p = p
        self.metrics = {p.string(m[0]): i for i, m in enumerate(p.table(ctp_reader.METRICS))}
        check = subprocess.run([calltrail, "info", "--check", path], capture_output=True, text=True)
        assert check.returncode == 0, check.stdout + check.stderr

    def said(self, key):
        return float(self.says[key])

    def facts(self, metric):
        return self.p.facts(2, self.metrics[metric], ())

    def roots(self):
        """(first, end, thread record, phase or None)"""
        p = self.p
        for first, count, thread, epoch in p.table(ctp_reader.ROOTS):
            phase = None if epoch == ctp_reader.NONE else p.string(p.table(ctp_reader.EPOCHS)[epoch][0])
            yield first, first + count, p.table(ctp_reader.THREADS)[thread], phase

    def total(self, metric, within=None, phase=any, leaf=None):
        """The sum of a metric, of contexts through a function, of a phase, that end in a function."""
        values = self.p.values[self.metrics[metric]]
        return sum(values[node] for first, end, _, name in self.roots() if phase is any or name == phase
                   for node in range(first, end) if values[node]
                   and (within is None or within in self.names(node))
                   and (leaf is None or self.names(node)[-1] == leaf))

    def leaves(self, metric, within):
        """The innermost functions of contexts with a value, through a function."""
        values = self.p.values[self.metrics[metric]]
        return {self.names(node)[-1] for first, end, _, _ in self.roots()
                for node in range(first, end) if values[node] and within in self.names(node)}

    def names(self, node):
        """From the thread to the innermost frame."""
        names = []
        while node != ctp_reader.NONE:
            names.append(self.p.node_name(node))
            node = self.p.table(ctp_reader.PARENTS)[node]
        return names[::-1]


def test(name):
    def run(body):
        global failed
        try:
            body()
            print("ok events: " + name)
        except (AssertionError, KeyError, subprocess.TimeoutExpired) as why:
            failed = True
            print("FAIL events: %s: %r" % (name, why))
    return run


def near(got, expected, share, what):
    assert abs(got - expected) <= share * abs(expected), "%s: %s, not %s" % (what, got, expected)


def near_time(got_s, expected_s, share, what):
    """Times by two clocks, or by samples and a clock. A machine that stands still between two looks at
    them must not make the short run fail."""
    least, most = (1 - share, 1 + share) if LONG else (0.5, 1.5)
    slack_s = 0 if LONG else 0.1
    assert least * expected_s - slack_s <= got_s <= most * expected_s + slack_s, "%s: %s, not %s" % (
        what, got_s, expected_s)


def unbiased(got, truth, share, what):
    """The mean of several runs; what it is, and how sure that is, is said in the long run."""
    mean = statistics.mean(got)
    if LONG:
        print("%s: %d runs, mean %.5f of the truth, standard error %.5f" % (
            what, len(got), mean / truth, statistics.stdev(got) / len(got) ** 0.5 / truth))
    near(mean, truth, share, what)


def refuses(events, pattern):
    done = subprocess.run([calltrail, "record", "-e", events, "true"], capture_output=True, text=True)
    assert done.returncode == 2 and not done.stdout, done
    assert done.stderr.count("\n") == 1 and re.search(pattern, done.stderr), done.stderr


@test("bad events: one line each")
def bad_events():
    refuses("nonsense", "there is no event 'nonsense'; there are: cpu, cpu:k, cpu:uk, wall")
    refuses("cpu,", "there is no event ''")
    refuses("cpu/5", "'cpu' has no period")
    refuses("heap/0", "bytes from 1 to 1024G, not '0'")
    refuses("malloc/2000G", "bytes from 1 to 1024G, not '2000G'")
    refuses("malloc/-1", "bytes from 1 to 1024G, not '-1'")
    refuses("perf:nonsense", "there is no event 'perf:nonsense'; there are perf:page-faults")
    refuses("perf:", "there is no event 'perf:'")
    refuses("perf:page-faults/0", "a number from 1 to 1024G, not '0'")
    refuses("perf:page-faults/1T", "a number from 1 to 1024G, not '1T'")
    refuses("perf:page-faults,perf:page-faults/2", "'perf:page-faults' is given twice")
    refuses("perf:cs,perf:context-switches", "'perf:cs' and 'perf:context-switches' are the same event")
    refuses("perf:no:such", "no tracepoints here|not readable|no such tracepoint")
    refuses("perf:a/b:c", "there is no event 'perf:a'")
    refuses("malloc/1M,heap/2M", "have one period: 1048576 and 2097152")
    refuses("heap,wall/5", "'wall' has no period; malloc, heap and perf events have")


@test("perf: page faults and context switches as getrusage counts them, in the kernel too")
def perf():
    run = Run(["perf:page-faults/1", "perf:context-switches/1"], "kernel")
    for key, function in (("touched", "touch"), ("in_kernel", "touch_in_kernel")):
        assert run.total("page-faults", function) == run.said(key), "%s: %s, not %s" % (
            key, run.total("page-faults", function), run.said(key))
    switches = run.total("context-switches", "sleep_often")
    assert run.said("waited") <= switches <= run.said("waited") + run.said("preempted"), switches
    for metric in ("page-faults", "context-switches"):
        facts = run.facts(metric)
        assert facts["kernel_count"] == run.total(metric), "%s: %s" % (metric, facts)
        assert facts["lost"] == 0 and facts["samples"] == facts["walks_complete"], facts
        assert facts["precise_ip"] == 0 and facts["counted_share"] > 0.99, facts


@test("perf: page faults are as exact while wall, heap and io are measured")
def perf_with_others():
    run = Run(["wall", "heap", "io", "perf:page-faults/1"], "kernel")
    # The runtime's own first touches lie wherever a sample happens to come, also in the caller.
    for key, function in (("touched", "touch"), ("in_kernel", "touch_in_kernel")):
        faults = run.total("page-faults", function)
        assert run.said("pages") <= faults <= run.said(key), "%s: %s of %s" % (key, faults, run.said(key))
    assert run.facts("page-faults")["kernel_count"] == run.total("page-faults")
    near_time(run.total("blocked", "sleep_often") / 1e9, run.said("slept"), 0.02, "slept")
    assert run.total("io_read", "touch_in_kernel") == run.said("bytes")


@test("perf: several events in one run have each their own count and contexts")
def perf_several():
    run = Run(["perf:page-faults/1", "perf:minor-faults/1", "perf:major-faults/1",
               "perf:context-switches/1", "perf:alignment-faults/1"], "kernel")
    for function in (None, "touch", "touch_in_kernel", "sleep_often"):
        faults = run.total("page-faults", function)
        assert faults == run.total("minor-faults", function) + run.total("major-faults", function), function
    assert run.total("context-switches", "sleep_often") >= run.said("waited")
    assert run.total("minor-faults", "touch") == run.said("touched")
    assert run.total("alignment-faults") == 0


@test("perf: with a period, there is a sample for each so many events")
def perf_by_period():
    run = Run(["perf:minor-faults/10"], "faults")
    facts = run.facts("minor-faults")
    assert facts["samples"] <= facts["kernel_count"] / 10, facts
    for function in ("many", "few"):
        near(run.total("minor-faults", function), run.said(function), 0.01, function)
        assert run.total("minor-faults", function) % 10 == 0, function
    assert run.total("minor-faults") == facts["kernel_count"], facts


@test("perf: samples without a period come to what the kernel counted; phases and pauses")
def perf_by_rate():
    run = Run(["perf:task-clock", "perf:minor-faults", "perf:page-faults"], "phases_threads")
    for metric in ("task-clock", "minor-faults", "page-faults"):
        facts = run.facts(metric)
        assert run.total(metric) == facts["kernel_count"] - facts["paused_count"], "%s: %s" % (metric, facts)
    for phase in ("one", "two", "three"):
        spent, truth = run.total("task-clock", "burn", phase=phase) / 1e9, run.said(phase + "_in_all")
        # What other virtual machines took meanwhile is in the event, and not in the thread's own clock.
        assert (0.97 if LONG else 0.5) * truth < spent < (1.25 if LONG else 3) * truth, "%s: %s of %s" % (phase, spent, truth)
    assert run.total("task-clock", "paused") == 0 < run.facts("task-clock")["paused_count"]


@test("perf: without a period, each thread has what the kernel counted of it")
def perf_by_rate_of_threads():
    run = Run(["perf:minor-faults"], "faults")
    facts = run.facts("minor-faults")
    assert run.total("minor-faults") == facts["kernel_count"], facts
    assert facts["samples"] < facts["kernel_count"] / 10, facts  # so these are estimates
    if tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 12):
        assert facts["sampled_count"] <= facts["kernel_count"], facts
        # A thread begins with the period that the kernel chose for another one, which may be more than it has in
        # all: then it has no sample, and the kernel's count of it is a part of what is not attributed.
        values, seen = run.p.values[run.metrics["minor-faults"]], 0
        for first, end, _, _ in run.roots():
            called = {name for node in range(first, end) if values[node] for name in run.names(node)}
            for function in called & {"many", "few"}:
                near(sum(values[first:end]), run.said(function) / 2, 0.01, function)
                seen += 1
        assert seen, facts


def as_nobody(*words):
    """A command without privileges, in a folder that it may write to."""
    os.chmod(folder, 0o777)
    env = {**os.environ, "XDG_CACHE_HOME": os.path.join(folder, "nobody")}
    return subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *words],
                          capture_output=True, text=True, env=env, cwd=folder)


@test("perf: what is not permitted, or not there: one line that says what would help")
def perf_refused():
    program = os.path.join(folder, "kernel")
    with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as file:
        level = int(file.read())
    if os.geteuid() == 0 and level > 1:
        done = as_nobody(calltrail, "record", "-o", "x.ctp", "-e", "perf:context-switches", program)
        assert done.returncode == 1 and done.stderr == (
            "calltrail: perf:context-switches is not permitted: it needs CAP_PERFMON, or "
            "kernel.perf_event_paranoid of at most 1 (it is %d)\n" % level), done
        assert not done.stdout, "it ran"
    done = subprocess.run([calltrail, "record", "-o", os.path.join(folder, "x.ctp"), "-e", "perf:cycles",
                           program], capture_output=True, text=True)
    assert done.returncode == 0 or "this machine does not count it" in done.stderr, done


@test("phases in C and C++, by who ran in them")
def phases():
    run = Run(["cpu"], "example_c")
    assert run.total("cpu", "compare", phase="sorting") > 0 and run.total("cpu", "fill") == 0
    assert run.total("cpu", "compare") == run.total("cpu", "compare", phase="sorting")
    assert run.total("cpu", "compare", phase="adding up") == 0 < run.total("cpu", phase="adding up")
    run = Run(["cpu"], "example_cpp")
    assert run.total("cpu", phase="counting") > run.total("cpu", phase="making") > 0
    assert run.total("cpu", phase=None) < run.total("cpu") / 10


@test("phases of several threads take what their time is")
def phases_of_threads():
    run = Run(["cpu"], "phases_threads")
    for phase in ("one", "two", "three"):
        near_time(run.total("cpu", "burn", phase=phase) / 1e9, run.said(phase), 0.05, phase)
    near_time(run.total("cpu") / 1e9, run.said("one") + run.said("two") + run.said("three"), 0.04, "all")
    assert run.total("cpu", "paused") == 0


@test("wall: what threads run and wait, by their own clocks; sums are the threads' lives")
def wall():
    run = Run(["wall", "lock"], "waits", options=["-F", "2000"])
    kinds = {run.p.string(m[0]): (m[3], m[4]) for m in run.p.table(ctp_reader.METRICS)}
    assert kinds["wall"] == (1, 0) and kinds["blocked"] == kinds["lock"] == (0, 0), kinds
    for key, function, leaf in (("slept", "sleeper", "__nanosleep"), ("piped", "reader", "read"),
                                ("locked", "locker", "pthread_mutex_lock"),
                                ("conditioned", "locker", "pthread_cond_wait"),
                                ("posted", "locker", "sem_wait")):
        waited = sum(run.total("blocked", function, leaf=name) for name in
                     (leaf, "__" + leaf, leaf + "@@GLIBC_2.3.2", "__new_" + leaf, "___" + leaf))
        near_time(waited / 1e9, run.said(key), 0.02, key)
    ran = run.total("wall", "burn") / 1e9 / (run.said("burnt") + run.said("handler"))
    # The kernel has some of that: its tick, switches.
    assert (0.96 if LONG else 0.5) < ran < (1.02 if LONG else 1.5), "running: %.3f of its CPU time" % ran
    near_time(run.total("wall", "interrupted") / 1e9, run.said("polled"), 0.02, "a handler in a call")
    assert not LONG or run.total("blocked", "interrupted") / 1e9 < run.said("polled") - 0.8 * run.said("handler")
    near_time(run.total("blocked", leaf="pause") / 1e9, run.said("elapsed"), 0.02, "never returned")
    locks = run.said("locked") + run.said("conditioned") + run.said("posted") + run.said("joined")
    near_time(run.total("lock") / 1e9, locks, 0.02, "lock")
    assert run.total("lock_waits", "locker") == 3, "waits of the locker"
    values, lives = run.p.values[run.metrics["wall"]], 0
    for first, end, thread, _ in run.roots():
        known = sum(values[first:end])
        lives += known
        if thread[5]:
            near(known, thread[5] - thread[4], 0.01, "life of a thread")
        else:  # to the end of the process, which began a little before main and ends a little later
            near_time(known / 1e9, run.said("elapsed") + 0.02, 0.05, "life of a thread that stays")
    rest = run.total("wall", leaf="[not attributed]")
    assert not LONG or rest < 0.15 * lives + run.said("queued") * 1e9, "not attributed: %s of %s" % (rest, lives)


@test("lock: a wait that never ends is charged, and one that is cancelled")
def stuck():
    for events in (["lock"], ["wall", "lock"]):
        run = Run(events, "stuck")
        for function, key in (("get_stuck", "stuck"), ("get_cancelled", "cancelled")):
            # One wait at the barrier, which is short, and the one that does not end.
            near_time(run.total("lock", function) / 1e9, run.said(key), 0.02, key)
            assert run.total("lock_waits", function) == 2, run.total("lock_waits", function)
            waited = [name for name in ("mutex_lock", "cond_wait") if any(
                name in word for word in run.leaves("lock", function))]
            assert waited == ["mutex_lock" if key == "stuck" else "cond_wait"], waited
        assert run.total("lock", "be_idle") == 0 == run.total("lock_waits", "be_idle")


@test("wall: a call that a handler jumps out of has ended then")
def jumps():
    run = Run(["wall"], "jumps")
    # That it has is seen by the next sample: what the thread waited for a processor may be counted, too.
    waited, most = run.total("blocked", "jumps_out") / 1e9, run.said("waited") + run.said("queued")
    assert 0.98 * run.said("waited") < waited < most + 0.02, "%s, not %s" % (waited, run.said("waited"))
    assert run.total("wall", "jumps_out") / 1e9 < 1.02 * run.said("life"), "life"


def lives(run, metric="wall"):
    """The sum of a metric for each thread, the first first."""
    values = run.p.values[run.metrics[metric]]
    return [sum(values[first:end]) / 1e9 for first, end, _, _ in run.roots()]


@test("wall: what the program pauses is no part of any thread's time")
def wall_paused():
    run = Run(["wall"], "pauses")
    main, sleeper = lives(run)
    paused = run.said("paused")
    near_time(main, run.said("main") - paused, 0.02, "main")  # it is there before its main and after it
    near_time(sleeper, run.said("sleeper") - paused, 0.01, "sleeper")
    near_time(run.total("blocked", "sleep_long") / 1e9, run.said("sleeper") - paused, 0.01, "its sleep")
    assert (0.2 if LONG else 0.02) < run.total("wall", "burn") / 1e9 < (0.33 if LONG else 3), "running: %s" % run.total("wall", "burn")


@test("wall: with --delay and --duration, threads have the time that was measured")
def wall_window():
    run = Run(["wall"], "pauses", "none", options=["--delay", "0.15", "--duration", "0.4"])
    measured = run.p.facts(0, 0, ())["measured_s"]
    assert 0.39 < measured < (0.6 if LONG else 10), measured
    for life in lives(run):
        near_time(life, measured, 0.01, "a thread")
    assert 0 < run.total("wall", "burn") / 1e9 < measured


@test("io: what the program counts, by kind of file")
def io():
    run = Run(["io"], "bytes")
    for kind in ("file", "pipe", "socket"):
        for metric in ("io_read", "io_written"):
            assert run.total(metric, "move_" + kind) == run.total(metric, "move_" + kind, leaf="[%s]" % kind) == run.said(
                kind), "%s %s: %s" % (metric, kind, run.total(metric, "move_" + kind))


@test("io: through stdio, too; with what is not attributed, the kernel's counters")
def io_stdio():
    for program in ("stdio", "stdio_checked"):
        run = Run(["io"], program, os.path.join(folder, "data"))
        for key, metric, function in (("blocks", "io_written", "write_blocks"),
                                      ("formats", "io_written", "write_formats"),
                                      ("lines", "io_read", "read_lines"), ("little", "io_read", "read_little"),
                                      ("copied", "io_read", "copy_in_kernel"),
                                      ("copied", "io_written", "copy_in_kernel")):
            assert run.total(metric, function) == run.said(key), "%s %s: %s, not %s" % (
                program, function, run.total(metric, function), run.said(key))
        assert run.total("io_written", "write_memory") == 0 < run.said("memory")
        assert run.total("io_read") == run.said("rchar"), "read: %s" % run.total("io_read")
        assert run.total("io_written") == run.said("wchar"), "written: %s" % run.total("io_written")
        assert run.total("io_read", leaf="[not attributed]") > 0


# What memory.c asks for in one round, by where, from its text: bytes, calls, at the peak, at the end.
SMALL = sum(16 + i % 7 for i in range(1000))
ALIGNED = sum((640, 500, 300)[i % 3] for i in range(1300, 2000))
MEMORY = {"small": (2 * SMALL, 2000, SMALL, 0), "large": (300 * 210000, 300, 300 * 210000, 0),
          "aligned": (ALIGNED, 700, ALIGNED, 0), "leaker": (10000, 10, 0, 10000),
          "grower": (sum(range(100, 100001, 100)), 1000, 0, 0)}


@test("memory with period 1: exact, by context, at the peak and at the end")
def memory_exact():
    run = Run(["heap", "malloc/1"], "memory")  # one period for both, wherever it stands
    assert sum(m[0] for m in MEMORY.values()) == run.said("asked")
    for function, truth in MEMORY.items():
        got = tuple(run.total(metric, function) for metric in ("malloc", "malloc_calls", "heap_peak",
                                                              "heap_exit"))
        assert got == truth, "%s: %s, not %s" % (function, got, truth)
    assert run.total("heap_exit_blocks", "leaker") == 10, "blocks that leak"
    others = [name for name in MEMORY if name != "leaker" and run.total("heap_exit_blocks", name)]
    assert not others, "these do not leak: %s" % others


# What allocators.cpp asks for, by where: bytes, calls, at the end bytes and blocks.
ALLOCATORS = {"with_new": (100 + 800, 200, 100, 100), "with_array": (50 * 1000 + 30 * 500, 80, 50000, 50),
              "with_aligned": (40 * 256, 40, 20 * 256, 20), "with_malloc": (140 * 300, 140, 70 * 300, 70),
              "with_mmap": (41 * 4096, 5, (12 + 6 + 1) * 4096, 3)}


@test("memory of C++, of mmap, and of allocators that are linked or preloaded: exact")
def allocators():
    libraries = "/usr/lib/x86_64-linux-gnu/"
    for program, preload in (("allocators", ""), ("allocators_jemalloc", ""), ("allocators_tcmalloc", ""),
                             ("allocators", libraries + "libjemalloc.so.2"),
                             ("allocators", libraries + "libtcmalloc_minimal.so.4")):
        run = Run(["malloc/1", "heap/1"], program, env={"LD_PRELOAD": preload} if preload else {})
        for function, truth in ALLOCATORS.items():
            got = tuple(run.total(metric, function) for metric in ("malloc", "malloc_calls", "heap_exit",
                                                                  "heap_exit_blocks"))
            assert got == truth, "%s %s %s: %s, not %s" % (program, preload, function, got, truth)


@test("memory: a program with a malloc inside is told that it cannot be seen")
def own_malloc():
    path = os.path.join(folder, "own_malloc")
    done = subprocess.run([calltrail, "record", "-o", os.path.join(folder, "x.ctp"), "-e", "heap", path],
                          capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "fine\n", done
    assert re.fullmatch("calltrail: .*own_malloc has a malloc of its own inside, which cannot be seen; "
                        "linked as a shared library it can\n", done.stderr), done.stderr


@test("memory with the usual period: unbiased over 50 rounds and %d runs" % RUNS)
def memory_sampled():
    runs = [Run(["malloc", "heap/512K"], "memory", "50") for _ in range(RUNS)]
    for function in ("large", "grower", "main"):
        truth = 50 * (sum(m[0] for m in MEMORY.values()) if function == "main" else MEMORY[function][0])
        unbiased([run.total("malloc", function) for run in runs], truth, 0.005, "bytes of " + function)
    got = {run.total("malloc", "aligned") for run in runs}
    assert len(got) > 1, "the points are not at random"
    unbiased([run.total("malloc_calls", "large") for run in runs], 50 * 300, 0.01, "calls of large")
    unbiased([run.total("heap_peak", "large") for run in runs], MEMORY["large"][2], 0.03, "peak of large")


sys.exit(failed)
