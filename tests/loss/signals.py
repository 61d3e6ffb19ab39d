"""Signals to the program, to the supervisor and to both; stops; snapshots; who outlives whom."""

import os
import pty
import signal
import struct
import time

from recording import (Board, Failed, Profile, Recording, children_of, compare,
                       runs_a_program, shell_status, state_of, wait_for)

CTRL_C, CTRL_Z, CTRL_BACKSLASH = b"\x03", b"\x1a", b"\x1c"


def start(suite, folder, mode, options=(), **how):
    """A recording of a program that is at work, with a board to end it by."""
    board = Board(os.path.join(folder, "board"))
    run = Recording(suite, folder, [suite.path("signalled"), mode, board.path], options, **how)
    wait_for(lambda: board.ready and run.look() and run.find_program(), "the program")
    return board, run


def expect(run, status, stdout, stderr=""):
    got = run.finish()
    if (got, run.stdout, run.stderr) != (status, stdout, stderr):
        raise Failed("status %d, not %d; stdout %r, stderr %r" % (
            got, status, run.stdout, run.stderr))
    if os.path.exists(run.place):
        raise Failed("left behind: " + run.place)
    compare(run.profile(), run.truth())
    run.suite.count_samples(run.profile().info["samples"])


def counts(**came):
    return "".join("%d came %d times\n" % (number, came.get(name, 0)) for name, number in (
        ("INT", 2), ("TERM", 15), ("HUP", 1), ("QUIT", 3), ("USR1", 10)))


def to_supervisor(mode):
    """Signals to the supervisor alone are passed on, once."""
    def test(suite, folder, chance):
        for name in ("INT", "TERM", "HUP", "QUIT", "USR1"):
            number = getattr(signal, "SIG" + name)
            inside = os.path.join(folder, name)
            os.mkdir(inside)
            board, run = start(suite, inside, mode)
            try:
                os.kill(run.pid, number)
                if mode == "count":
                    wait_for(lambda: board.rounds, "the signal")
                if mode != "default":
                    board.go()
                    expect(run, 12, counts(**({name: 1} if mode == "count" else {})))
                else:
                    expect(run, 128 + number, "")
            finally:
                run.close()
    return test


def pending_at_the_end(suite, folder, chance):
    """Impatience while the profile is written harms nothing."""
    board, run = start(suite, folder, "default")
    try:
        run.stop()
        board.go()
        wait_for(lambda: state_of(run.program) == "Z", "the program's end")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT,
                       signal.SIGUSR1, signal.SIGCONT):
            os.kill(run.pid, number)
        expect(run, 12, counts())
    finally:
        run.close()


class Terminal:
    """A shell in small on a terminal of its own: one job in the foreground, stopped and continued."""

    def __init__(self, suite, folder, board, mode):
        self.status_end, status = os.pipe()
        self.resume, resume_end = os.pipe()
        self.shell, self.keys = pty.fork()
        if self.shell == 0:
            try:
                os.close(self.status_end)
                os._exit(self.be_shell(suite, folder, board, mode, status, self.resume))
            finally:
                os._exit(99)
        os.close(status)
        os.close(self.resume)
        self.resume = resume_end

    @staticmethod
    def be_shell(suite, folder, board, mode, status, resume):
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        job = os.fork()
        if job == 0:
            os.setpgid(0, 0)
            os.tcsetpgrp(0, os.getpgrp())
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)
            os.dup2(os.open(folder + "/stdout", os.O_WRONLY | os.O_CREAT, 0o600), 1)
            os.dup2(os.open(folder + "/stderr", os.O_WRONLY | os.O_CREAT, 0o600), 2)
            os.execve(suite.calltrail, ["calltrail", "record", "-o", folder + "/profile.ctp", "--",
                                        suite.path("signalled"), mode, board], suite.env)
        while True:
            _, how = os.waitpid(job, os.WUNTRACED)
            os.write(status, struct.pack("<Ii", job, how))
            if not os.WIFSTOPPED(how):
                return 0
            os.read(resume, 1)
            os.killpg(job, signal.SIGCONT)

    def next_status(self):
        self.job, how = struct.unpack("<Ii", os.read(self.status_end, 8))
        return how

    def close(self):
        os.close(self.keys)
        os.close(self.status_end)
        os.close(self.resume)
        os.waitpid(self.shell, 0)


def check_terminal(suite, folder, how, status, stdout):
    texts = [open(os.path.join(folder, name), encoding="utf-8").read()
             for name in ("stdout", "stderr")]
    if (shell_status(how), *texts) != (status, stdout, ""):
        raise Failed("status %d, not %d; stdout %r, stderr %r" % (shell_status(how), status, *texts))
    if not Profile(suite.calltrail, folder + "/profile.ctp").info["samples"]:
        raise Failed("no samples")


def has_taken_all(pid):
    """The supervisor blocks signals and reads them: none is waiting any more."""
    with open("/proc/%d/status" % pid, encoding="utf-8") as file:
        return "\nShdPnd:\t0000000000000000\n" in file.read()


def key_press(mode, key, status, stdout, presses=1):
    """A key reaches the program once, as without calltrail, and the profile is written."""
    def test(suite, folder, chance):
        board = Board(os.path.join(folder, "board"))
        terminal = Terminal(suite, folder, board.path, mode)
        try:
            wait_for(lambda: board.worked >= 20, "the program")
            supervisor = children_of(terminal.shell)[0]
            for press in range(presses):
                os.write(terminal.keys, key)
                if mode == "default":
                    break
                if mode == "count":
                    wait_for(lambda: board.rounds > press, "the signal")
                wait_for(lambda: has_taken_all(supervisor), "the supervisor")
            if mode != "default":
                board.go()
            check_terminal(suite, folder, terminal.next_status(), status, stdout)
        finally:
            terminal.close()
    return test


def suspended(suite, folder, chance):
    """Ctrl-Z stops both, fg continues both; again and again."""
    board = Board(os.path.join(folder, "board"))
    terminal = Terminal(suite, folder, board.path, "count")
    try:
        wait_for(lambda: board.ready, "the program")
        for _ in range(5):
            os.write(terminal.keys, CTRL_Z)
            if not os.WIFSTOPPED(terminal.next_status()):
                raise Failed("the job did not stop")
            program, = filter(runs_a_program, children_of(terminal.job))
            wait_for(lambda: state_of(program) == "T", "the program to stop")
            os.write(terminal.resume, b"x")
            wait_for(lambda: state_of(program) in "RS", "the program to go on")
            wait_for(lambda: state_of(terminal.job) in "RS", "the supervisor to go on")
        board.go()
        check_terminal(suite, folder, terminal.next_status(), 12, counts())
    finally:
        terminal.close()


def stopped_alone(suite, folder, chance):
    """Either of them is stopped from outside, and continued."""
    board, run = start(suite, folder, "default")
    try:
        for pid in (run.program, run.pid) * 3:
            os.kill(pid, signal.SIGSTOP)
            wait_for(lambda: state_of(pid) == "T", "the stop")
            time.sleep(chance.uniform(0, 0.03))
            os.kill(pid, signal.SIGCONT)
        board.go()
        expect(run, 12, counts())
    finally:
        run.close()


def snapshots(number):
    """Each snapshot is a whole profile of what was counted when it was asked for, or more."""
    def test(suite, folder, chance):
        run = Recording(suite, folder, [suite.path("goes_on"), str(number * 2)], ["-F", "9999"])
        try:
            wait_for(lambda: run.look() and run.find_program(), "the program")
            last = -1
            for _ in range(number):
                time.sleep(chance.uniform(0, 0.01))
                counted = sum(sum(arena.threads.values()) for arena in run.truth())
                os.kill(run.pid, signal.SIGUSR2)
                wait_for(lambda: os.path.exists(run.profile_path) and
                         os.stat(run.profile_path).st_ino != last, "the snapshot")
                last = os.stat(run.profile_path).st_ino
                got = run.profile().info["samples"]
                if got < counted:
                    raise Failed("%d samples in a snapshot, %d were counted before" % (got, counted))
            status = run.finish()
            if status != 9 or run.stderr:
                raise Failed("status %d, stderr %r" % (status, run.stderr))
            compare(run.profile(), run.truth())
        finally:
            run.close()
    return test


def duration(suite, folder, chance):
    """After its time no more samples are taken, and the program goes on."""
    board, run = start(suite, folder, "default", ["--duration", "0.3"])
    try:
        def paused():
            before = sum(run.truth()[0].threads.values())
            time.sleep(0.1)
            return before and sum(run.truth()[0].threads.values()) == before
        wait_for(paused, "the end of the duration")
        if state_of(run.program) not in "RS":
            raise Failed("the program has ended with the duration")
        board.go()
        expect(run, 12, counts())
        samples = run.profile().info["samples"]
        if not 0 < samples < 400:  # of at most 0.3 s, and a turn of the supervisor's
            raise Failed("%d samples in 0.3 s" % samples)
    finally:
        run.close()


def outlived(suite, folder, chance):
    """A child outlives the program: it is recorded so far, that is said, and it is not harmed."""
    board = Board(os.path.join(folder, "board"))
    run = Recording(suite, folder, [suite.path("signalled"), "daemon", board.path])
    try:
        wait_for(lambda: board.ready and board.rounds == 1 and run.look() == 2, "the child")
        wait_for(lambda: sum(run.truth()[1].threads.values()) > 50, "its samples")
        child = run.truth()[1].pid
        board.go()
        status = run.finish()
        said = "calltrail: 1 process goes on (pid %d), recorded up to here\n" % child
        if (status, run.stdout, run.stderr) != (12, counts(), said):
            raise Failed("status %d, stdout %r, stderr %r" % (status, run.stdout, run.stderr))
        truth = run.truth()
        compare(run.profile(), truth)
        time.sleep(0.05)
        if run.truth() != truth:
            raise Failed("the child is sampled on, without a supervisor")
        board.go_second()
        if os.waitpid(child, 0)[1] or run.stdout != counts() + "the child ends\n":
            raise Failed("the child was harmed: %r" % run.stdout)
    finally:
        run.close()


def tests(full):
    found = [("signal to the supervisor, %s" % mode, to_supervisor(mode))
             for mode in ("count", "default", "ignore")]
    found += [("signals while the profile is written", pending_at_the_end),
              ("Ctrl-C", key_press("default", CTRL_C, 130, "")),
              ("Ctrl-C, ignored", key_press("ignore", CTRL_C, 12, counts(), presses=3)),
              ("Ctrl-C, counted", key_press("count", CTRL_C, 12, counts(INT=5), presses=5)),
              ("Ctrl-\\", key_press("default", CTRL_BACKSLASH, 131, "")),
              ("Ctrl-Z and fg", suspended),
              ("stopped alone", stopped_alone),
              ("duration", duration),
              ("child outlives", outlived),
              ("snapshots", snapshots(60 if full else 15))]
    return found
