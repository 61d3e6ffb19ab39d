"""Ends of the program, and of the supervisor, at random moments."""

import os
import re
import signal
import subprocess
import time

from recording import (Board, Failed, Recording, Shares, compare, shell_status, state_of, wait_for)

# How it ends; the status is that of the plain run, which each kind makes once.
BY_ITSELF = ("segv", "abort", "_exit", "term", "exit_thread", "exec", "exec_static", "exec_missing")
FROM_OUTSIDE = ("kill", "forking", "loading")
GOES_ON = r"calltrail: 1 process goes on \(pid \d+\), recorded up to here\n"


def run_plain(suite, folder, how):
    """The status of a run without calltrail, and what it prints."""
    board = Board(os.path.join(folder, "plain.board"))
    board.go()
    board.go_second()
    plain = subprocess.Popen([suite.path("ends"), how, board.path, "20000"], env=suite.env,
                             stdout=subprocess.PIPE, text=True)
    if how in FROM_OUTSIDE:
        wait_for(lambda: board.ready, "the plain run")
        plain.kill()
    out = plain.communicate(timeout=60)[0]
    return plain.returncode if plain.returncode >= 0 else 128 - plain.returncode, out


def kill_from_outside(run, board, chance, how):
    """SIGKILL at a random moment; every second time with the supervisor stopped, for a long look."""
    wait_for(lambda: board.ready and run.look() and run.find_program(), "the program")
    if how in ("forking", "loading"):
        wait_for(lambda: run.look() and board.rounds >= 2, "the rounds")
    end = time.monotonic() + chance.uniform(0, 0.3)
    while time.monotonic() < end:
        run.look()
        time.sleep(0.001)
    before = ()
    if chance.random() < 0.5:
        run.stop()
        run.look()
        run.kill_program()
        before = run.truth()
        os.kill(run.pid, signal.SIGCONT)
    else:
        os.kill(run.program, signal.SIGKILL)
    return before


def program_ends(how):
    def test(suite, folder, chance):
        expected, output = run_plain(suite, folder, how)
        board = Board(os.path.join(folder, "board"))
        after_us = int(chance.uniform(0, 300000))
        hz = chance.choice((999, 999, 9999))
        run = Recording(suite, folder, [suite.path("ends"), how, board.path, str(after_us)],
                        ["--verify", "-F", str(hz)])
        before = ()
        try:
            if how in FROM_OUTSIDE:
                before = kill_from_outside(run, board, chance, how)
            else:
                wait_for(run.look, "the arena")
                board.go()
                if how == "exec":
                    wait_for(lambda: run.look() == 2, "the arena of the second program")
                    board.go_second()
            status = run.finish()
            judge(suite, run, board, status, expected, output, before)
        finally:
            run.close()
    return test


def judge(suite, run, board, status, expected, output, before):
    stderr = re.sub(GOES_ON, "", run.stderr) if len(run.arenas) > 1 else run.stderr
    if status != expected or run.stdout != output or stderr:
        raise Failed("status %d, not %d; stdout %r, not %r; stderr %r" % (
            status, expected, run.stdout, output, run.stderr[:200]))
    if os.path.exists(run.place):
        raise Failed("left behind: " + run.place)
    profile, truth = run.profile(), run.truth()
    compare(profile, truth, before or (truth[:1] if len(truth) > 2 else ()))
    suite.check_shares(Shares.of(profile, board.ns, truth[0].lost))
    if profile.info["verify_differ"]:
        raise Failed("%d walks differ" % profile.info["verify_differ"])
    suite.count_samples(sum(sum(arena.threads.values()) for arena in truth))


def killed_at_start(suite, folder, chance):
    """Before, while or shortly after the runtime starts."""
    board = Board(os.path.join(folder, "board"))
    run = Recording(suite, folder, [suite.path("ends"), "kill", board.path, "0"])
    try:
        program = wait_for(run.find_program, "the program")
        end = time.monotonic() + chance.uniform(0, 0.02)
        while time.monotonic() < end:
            pass
        os.kill(program, signal.SIGKILL)
        status = run.finish()
        started = board.ready
        if status != 137 or run.stdout not in ("", "kill\n"):
            raise Failed("status %d, stdout %r, stderr %r" % (status, run.stdout, run.stderr))
        said = "nothing was recorded" in run.stderr
        if (run.stderr and not said) or (started and said):
            raise Failed("stderr %r" % run.stderr)
        if run.place and os.path.exists(run.place):
            raise Failed("left behind: " + run.place)
        profile = run.profile()
        if run.arenas:
            compare(profile, run.truth())
    finally:
        run.close()


def doctor_names_it(suite, run):
    """The command to recover it is there to be copied. (Doctor measures rates: a second each.)"""
    text = subprocess.run([suite.calltrail, "doctor"], env=suite.env, capture_output=True,
                          text=True).stdout
    return "calltrail recover -o FILE " + run.place + "\n" in text


def supervisor_killed(asks_doctor):
    return lambda suite, folder, chance: kill_supervisor(suite, folder, chance, asks_doctor)


def kill_supervisor(suite, folder, chance, asks_doctor):
    """The program goes on as if nothing had happened, and what it counts is not lost."""
    plain = subprocess.run([suite.path("goes_on"), "120"], env=suite.env, capture_output=True,
                           text=True, timeout=60)
    run = Recording(suite, folder, [suite.path("goes_on"), "120"])
    try:
        # Sometimes in the first milliseconds, while maps are made and the runtime starts.
        end = time.monotonic() + chance.choice((chance.uniform(0, 0.05), chance.uniform(0.05, 0.8)))
        while time.monotonic() < end:
            run.look()
            run.find_program()
            time.sleep(0.0005)
        run.stop()
        run.look()
        run.find_program()
        ended = state_of(run.program) in "ZX" if run.program else False
        os.kill(run.pid, signal.SIGKILL)
        run.process.wait()
        if run.program and state_of(run.program) != "X": # calltrail has seen its end before
            status = shell_status(os.waitpid(run.program, 0)[1])
            if (status, run.stdout, run.stderr) != (plain.returncode, plain.stdout, plain.stderr):
                raise Failed("the program: status %d, stdout %r, stderr %r" % (
                    status, run.stdout[-200:], run.stderr[-200:]))
        recover(suite, run, ended, asks_doctor)
    finally:
        run.close()


def recover(suite, run, ended, asks_doctor):
    if not run.place:
        return  # killed before it had a folder
    if asks_doctor and not doctor_names_it(suite, run):
        raise Failed("doctor does not name " + run.place)
    done = subprocess.run([suite.calltrail, "recover", "-o", run.profile_path, run.place],
                          env=suite.env, capture_output=True, text=True)
    run.look()
    if os.path.exists(run.place):
        raise Failed("recover leaves the folder: " + done.stderr)
    if not run.arenas:
        if done.returncode != 1 or "nothing was measured" not in done.stderr:
            raise Failed("recover says %r" % done.stderr)
        return
    if done.returncode or done.stderr:
        raise Failed("recover: %d, %r" % (done.returncode, done.stderr))
    profile, truth = run.profile(), run.truth()
    compare(profile, truth)
    if not ended and not sum(sum(arena.contexts.values()) for arena in truth[:1]):
        raise Failed("no samples")
    suite.count_samples(sum(sum(arena.threads.values()) for arena in truth))


def tests(full):
    found = []
    ways = BY_ITSELF + FROM_OUTSIDE
    for i in range(180 if full else len(ways) + 4):
        how = ways[i % len(ways)]
        found.append(("end %s %d" % (how, i), program_ends(how)))
    for i in range(20 if full else 3):
        found.append(("end at start %d" % i, killed_at_start))
    for i in range(20 if full else 4):
        found.append(("supervisor killed %d" % i, supervisor_killed(i % 4 == 0)))
    return found
