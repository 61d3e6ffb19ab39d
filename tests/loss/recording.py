"""A recording that is watched from outside: its folder, its arenas, its end, and its profile.

The arenas are files that the recorded processes write to directly, so a process that has one open sees
what was counted up to the last instant, also after the files were removed. That is the truth which
the profile is compared with (Recording.compare).
"""

import collections
import ctypes
import glob
import json
import mmap
import os
import signal
import struct
import subprocess
import time

import ctp_reader

TIMEOUT_S = 60
FUNCTIONS = ("alpha", "beta", "gamma_")


class Failed(Exception):
    pass


def become_subreaper():
    """Orphans of what is started here become children of this process: their status is not lost."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def wait_for(condition, what, timeout_s=TIMEOUT_S):
    end = time.monotonic() + timeout_s
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise Failed("waited in vain for " + what)
        time.sleep(0.0005)


def state_of(pid):
    """R, S, T, Z…; X when it is gone. A process is dead when all its threads are."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as file:
            state = file.read().rsplit(")", 1)[1].split()[0]
        return state if state != "Z" or len(os.listdir("/proc/%d/task" % pid)) == 1 else "Z+"
    except OSError:
        return "X"


def runs_a_program(pid):
    """Neither calltrail itself, before exec, nor the dynamic linker, which lists libraries."""
    try:
        name = os.path.basename(os.readlink("/proc/%d/exe" % pid))
    except OSError:
        return False
    return name != "calltrail" and not name.startswith("ld-linux")


def children_of(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid), encoding="utf-8") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def shell_status(wait_status):
    """As the shell sees it, from what waitpid says."""
    code = os.waitstatus_to_exitcode(wait_status)
    return code if code >= 0 else 128 - code


class Board:
    """The shared file in which the program says what it did; see tests/loss/ends.c."""

    def __init__(self, path):
        self.path = path
        with open(path, "wb") as file:
            file.write(bytes(4096))
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 4096)

    def set(self, index):
        struct.pack_into("<I", self.memory, 4 * index, 1)

    def go(self):
        self.set(0)

    def go_second(self):
        self.set(1)

    ready = property(lambda self: struct.unpack_from("<I", self.memory, 8)[0])
    rounds = property(lambda self: struct.unpack_from("<I", self.memory, 12)[0])
    worked = property(lambda self: struct.unpack_from("<I", self.memory, 16)[0])
    ns = property(lambda self: struct.unpack_from("<3Q", self.memory, 16))


Arena = collections.namedtuple("Arena", "pid period_ns lost threads contexts")


def read_arena(tool, fd):
    """What an arena holds at this moment."""
    text = subprocess.run([tool, "/proc/self/fd/%d" % fd], pass_fds=[fd], capture_output=True,
                          text=True, check=True).stdout
    head, threads, contexts = None, {}, collections.Counter()
    for line in text.splitlines():
        kind, *words = line.split(" ", 3)
        if kind == "arena":
            head = [int(word) for word in words]
        elif kind == "thread":
            threads[int(words[0])] = int(words[1])
        else:
            contexts[int(words[0]), words[2]] += int(words[1])
    return Arena(*head, threads, contexts)


class Profile:
    """The contexts of a profile by process, as arena_dump prints them, and by function."""

    def __init__(self, calltrail, path):
        done = subprocess.run([calltrail, "info", "--check", "--json", path], capture_output=True,
                              text=True)
        if done.returncode:
            raise Failed("the profile is not sound: " + done.stderr.strip())
        self.info = json.loads(done.stdout)
        self.read = ctp_reader.Profile(path)
        self.contexts = collections.defaultdict(collections.Counter)  # by process
        self.functions = collections.Counter()  # ns, by (process, function), counted once a context
        self.period_ns = self.read.table(ctp_reader.METRICS)[0][4]
        threads = self.read.table(ctp_reader.THREADS)
        for first, count, thread, _ in self.read.table(ctp_reader.ROOTS):
            for node in range(first, first + count):
                if self.read.values[0][node]:
                    self.add(node, threads[thread][0], threads[thread][1])

    def add(self, node, process, tid):
        parents, frames = (self.read.table(kind) for kind in (ctp_reader.PARENTS,
                                                              ctp_reader.NODE_FRAMES))
        value, stack, names = self.read.values[0][node], [], set()
        while node != ctp_reader.NONE:
            if frames[node] != ctp_reader.NONE:
                text, name = self.frame(frames[node])
                stack.append(text)
                names.add(name)
            node = parents[node]
        self.contexts[process][tid, ";".join(stack)] += value // self.period_ns
        for name in names:
            self.functions[process, name] += value

    def frame(self, index):
        offset, module, function, _, _, _, gap = self.read.table(ctp_reader.FRAMES)[index]
        name = "" if function == ctp_reader.NONE else self.read.string(
            self.read.table(ctp_reader.FUNCTIONS)[function][2])
        if gap:
            return "gap:%d" % gap, name
        if module == ctp_reader.NONE:
            return "%x" % offset, name
        path = self.read.string(self.read.table(ctp_reader.MODULES)[module][0])
        return "%s+%x" % (path, offset), name


class Recording:
    """`calltrail record` with a program, and onlookers."""

    def __init__(self, suite, folder, command, options=(), env=None, **how):
        self.suite, self.folder = suite, folder
        self.profile_path = os.path.join(folder, "profile.ctp")
        self.arenas, self.place, self.program = [], None, None
        self.out = open(os.path.join(folder, "stdout"), "w+b")
        self.err = open(os.path.join(folder, "stderr"), "w+b")
        if "-o" not in options:
            options = ["-o", self.profile_path, *options]
        how = {"stdin": subprocess.DEVNULL, "stdout": self.out, "stderr": self.err, **how}
        self.process = subprocess.Popen([suite.calltrail, "record", *options, "--", *command],
                                        env={**suite.env, **(env or {})}, **how)
        self.pid = self.process.pid

    def find_place(self):
        """The supervisor's folder, once it has said that it is its own."""
        for path in [] if self.place else glob.glob("/dev/shm/calltrail-*/supervisor"):
            try:
                with open(path, encoding="utf-8") as file:
                    if file.read().split()[:1] == [str(self.pid)]:
                        self.place = os.path.dirname(path)
            except OSError:
                pass
        return self.place

    def look(self):
        """Opens the arenas that are new. How many there are."""
        while self.find_place():
            try:
                path = "%s/%d.arena" % (self.place, len(self.arenas))
                fd = os.open(path, os.O_RDONLY)
            except OSError:
                break
            if os.fstat(fd).st_size == 0:
                os.close(fd)
                break
            self.arenas.append(fd)
        return len(self.arenas)

    def find_program(self):
        """The child that has become the program: others make maps, or ask the dynamic linker."""
        if not self.program:
            self.program = next((child for child in children_of(self.pid) if runs_a_program(child)),
                                None)
        return self.program

    def stop(self):
        """Stops the supervisor, so that nothing is removed before it was seen."""
        os.kill(self.pid, signal.SIGSTOP)
        wait_for(lambda: state_of(self.pid) in "TZX", "the supervisor to stop")

    def kill_program(self):
        os.kill(self.program, signal.SIGKILL)
        wait_for(lambda: state_of(self.program) in "ZX", "the program to die")

    def finish(self, timeout_s=TIMEOUT_S):
        """Looks on to the end. The exit status, as the shell sees it."""
        wait_for(lambda: self.look() is None or self.process.poll() is not None, "the end",
                 timeout_s)
        return shell_status(self.process.returncode << 8 if self.process.returncode >= 0
                            else -self.process.returncode)

    def text(self, stream):
        stream.flush()
        with open(stream.name, encoding="utf-8", errors="replace") as file:
            return file.read()

    stdout = property(lambda self: self.text(self.out))
    stderr = property(lambda self: self.text(self.err))

    def truth(self):
        return [read_arena(self.suite.arena_dump, fd) for fd in self.arenas]

    def profile(self):
        if not os.path.exists(self.profile_path):
            raise Failed("there is no profile; stderr: " + self.stderr.strip()[:200])
        return Profile(self.suite.calltrail, self.profile_path)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for fd in self.arenas:
            os.close(fd)
        self.out.close()
        self.err.close()


def compare(profile, truth, before=()):
    """
    The profile holds what the arenas hold: for the first process exactly; a child that was alive
    when the profile was made may have counted on, but what it had counted `before` must be there.
    """
    if len(truth) > len(profile.info["processes"]):
        raise Failed("%d processes in the profile, %d arenas" % (
            len(profile.info["processes"]), len(truth)))
    for i, arena in enumerate(truth):
        got = profile.contexts[i]
        at_least = before[i].contexts if i < len(before) else collections.Counter()
        exact = i == 0 or not before
        if (exact and got != arena.contexts) or at_least - got or got - arena.contexts:
            missing = sum((arena.contexts - got).values())
            raise Failed("process %d: the profile has %d samples, the arena %d; %d missing, "
                         "%d too many" % (i, sum(got.values()), sum(arena.contexts.values()),
                                          missing, sum((got - arena.contexts).values())))
        counted = sum(arena.threads.values())
        placed = sum(arena.contexts.values())
        if not counted <= placed <= counted + len(arena.threads):  # killed between two additions
            raise Failed("process %d: %d samples counted, %d in contexts" % (i, counted, placed))


class Shares:
    """
    Samples in each function, beside what the program itself has measured: CPU time, of which the
    kernel has a part (at 10 kHz that of the signals is a fifth and more) that is not sampled. The
    beginning and end of slices change a few in a hundred; ticks that were counted with the next
    sample may be in its context instead of their own.
    """

    def __init__(self):
        self.rows = {name: [0, 0, 0] for name in FUNCTIONS}  # samples; at least, at most expected
        self.lost = self.merged = self.runs = 0

    @staticmethod
    def of(profile, ns, lost):
        shares = Shares()
        info = profile.info
        user_share = info["utime_s"] / (info["utime_s"] + info["stime_s"])
        for name, published in zip(FUNCTIONS, ns):
            shares.rows[name] = [profile.functions[0, name] / profile.period_ns,
                                 published / profile.period_ns * user_share,
                                 published / profile.period_ns]
        shares.lost, shares.merged, shares.runs = lost, profile.info["merged"], 1
        return shares

    def add(self, other):
        for name, row in other.rows.items():
            self.rows[name] = [a + b for a, b in zip(self.rows[name], row)]
        self.lost += other.lost
        self.merged += other.merged
        self.runs += other.runs

    def check(self):
        for name, (got, least, most) in self.rows.items():
            allowed = 4 * most ** 0.5 + 0.04 * most + 5 * self.runs ** 0.5 + self.merged
            if not least - allowed - self.lost <= got <= most + allowed:
                raise Failed("%d samples in %s, %d to %d by its own measure (%d lost, %d merged)" % (
                    got, name, least, most, self.lost, self.merged))

    def __str__(self):
        return ", ".join("%s %.0f of %.0f to %.0f" % (name, *row) for name, row in self.rows.items())
