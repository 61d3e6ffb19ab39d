"""record --outside and -p, on programs whose truth is known."""
import collections
import os
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import threading
import time

from harness import (Recorder, calltrail, check_shares, contexts, facts, must, path, profile, record, run,
                     run_checks, same_as_plain, same_tick, share, work)
from snapshots import take_snapshot, until

# --- programs that no runtime gets into ------------------------------------------------------------

def outside_of_a_program():
    command = [path("shares"), "100", "2"]
    done = record("--outside", *command)
    same_as_plain(command, done)
    must(done.stderr == "", done.stderr)
    check_shares()
    must(facts()["processes_from_outside"] == 1, "processes")


def same_view_of_itself():
    """Environment, descriptors, limits, signals: what the program sees of itself."""
    command = ["sh", "-c", "ulimit -Sn; env | grep -v '^_='; ls -l /proc/self/fd | wc -l; ulimit -a; "
               "grep Sig /proc/self/status | grep -v SigQ"]
    limit = ["sh", "-c", 'ulimit -Sn 200; exec "$@"', "-"]
    done = run([*limit, calltrail, "record", "-o", profile, "--outside", *command])
    same_as_plain(command, done, limit)


def program(name, **options):
    def check():
        command = [path(name), "100"]
        done = record(*command)
        same_as_plain(command, done)
        must("recording from outside" in done.stderr and done.stderr.count("\n") == 1, done.stderr)
        check_shares(**options)
    return check


def stripped():
    """Without names, contexts are whole all the same."""
    done = record(path("shares_stripped"), "100")
    p = facts()
    must(done.returncode == 7 and p["samples"] >= 50, done.stderr)
    must(p["walks_complete"] == p["samples"], "walks")


def setuid_program():
    if os.geteuid() != 0:
        return "only root can make one"
    file = path("shares_setuid")
    run(["cp", path("shares"), file])
    os.chmod(work, 0o755)
    os.chown(file, 65534, 65534)
    os.chmod(file, 0o4755)
    done = record(file, "100")
    same_as_plain([file, "100"], done)
    must("setuid" in done.stderr, done.stderr)
    check_shares()


def strict_seccomp():
    done = record("--outside", path("strict"))
    same_as_plain([path("strict")], done)
    must(share(contexts(), "main", "hot") > 0.9 and facts()["samples"] > 30, str(contexts()))


def busybox():
    if not any(os.access(os.path.join(folder, "busybox"), os.X_OK)
               for folder in os.environ["PATH"].split(":")):
        return "busybox is not installed"
    command = ["busybox", "sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo $i"]
    done = record(*command)
    same_as_plain(command, done)
    must(facts()["samples"] > 20, "samples")


def children():
    """Children, and what they run: those without samples, too."""
    done = record("--outside", "sh", "-c",
                  "%s 50; %s 50; /bin/true; exec %s 50" % ((path("shares"),) * 3))
    must(done.returncode == 7 and len(done.stdout.split()) == 3, done.stdout)
    p = facts()
    programs = collections.Counter(os.path.basename(one["command"]) for one in p["processes"])
    must(programs["shares"] == 3 and programs["true"] == 1, str(programs))
    check_shares(least=0.95)
    record("--outside", "--no-follow", "sh", "-c", "%s 50; true" % path("shares"))
    must(len(facts()["processes"]) == 1, "--no-follow: " + str(facts()["processes"]))


def times():
    """--delay and --duration leave out what they should; the program goes on to its end."""
    command = [path("shares"), "300"]
    done = record("--outside", "--delay", "0.001", "--duration", "0.05", *command)
    same_as_plain(command, done)
    p = facts()
    must(0 < p["samples"] * 1.001e-3 <= 1.2 * p["measured_s"] + 0.01,
         "%d samples in %f s" % (p["samples"], p["measured_s"]))
    done = record("--outside", "--delay", "1000", *command)
    same_as_plain(command, done)
    must(facts()["samples"] == 0, "before --delay")


def windows():
    """A stack higher than the window is cut, and said so; a larger window reaches."""
    command = [path("deep"), "40"]  # frames of 1 KB
    done = record("--outside", "--window", "8", *command)
    same_as_plain(command, done)
    p = facts()
    must(p["cut_by_window"] > 0.9 * p["samples"] > 20, "%d cut" % p["cut_by_window"])
    must("higher than the window of 8 KB" in done.stderr, done.stderr)
    must(any("cut by the window" in " ".join(stack) for stack in contexts()), str(contexts()))
    must(p["window_bytes"] == 8192, "window_bytes")
    done = record("--outside", "--window", "63", *command)
    p = facts()
    must(p["cut_by_window"] == 0 and p["walks_complete"] == p["samples"] > 20, "not whole")


def alternate_stack():
    """The stack that a handler's alternate one has interrupted is not in the window: that is said."""
    for command in ([path("alternate")], [path("alternate"), "low"]):
        done = record("--outside", *command)
        same_as_plain(command, done)
        p, found = facts(), contexts()
        must(p["samples"] > 20 and p["verify_differ"] == 0 and p["cut_by_window"] == 0, str(p))
        must(share(found, "handler", "hot") > 0.9, str(found))
        must(sum(value for stack, value in found.items() if "callers are on another stack" in stack[0]) >
             0.9 * sum(found.values()), str(found))


def until_whole(recorder, stop):
    """
    Snapshots, until most samples of threads and children are whole in one; then the program `deep` may end. How soon
    larger windows come is a matter of the machine; that they come is not.
    """
    deadline = time.monotonic() + 100
    whole = 0
    while whole <= 0.6 and recorder.poll() is None and time.monotonic() < deadline:
        os.unlink(profile) if os.path.exists(profile) else None
        recorder.send_signal(signal.SIGUSR2)
        while not os.path.exists(profile) and recorder.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        whole = share(contexts(), "work", "down")
    with open(stop, "w"):
        pass
    must(whole > 0.6, "%.3f of the samples are whole" % whole)


def larger_windows():
    """
    The window grows with the stacks; each sample counts once, of threads and children that were
    made before, meanwhile and after.
    """
    stop = path("deep_may_end")
    for depth, window in ("2", 4096), ("5", 8192), ("20", 32768), ("40", 64512):
        os.unlink(stop) if os.path.exists(stop) else None
        recorder = subprocess.Popen(
            [calltrail, "record", "--verify", "-o", profile, "--outside", path("deep"), depth, "3", stop],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        must(recorder.stdout.readline() == "begun\n", "the program did not begin")
        until_whole(recorder, stop)
        out, errors = recorder.communicate(timeout=120)
        plain = run([path("deep"), depth, "3"])
        must((out, recorder.returncode, errors) == (plain.stdout, plain.returncode, ""), errors)
        p = facts()
        must(p["window_bytes"] == window, "depth %s: window of %d" % (depth, p["window_bytes"]))
        # The dynamic linker has deeper stacks for some microseconds, at the start of each process.
        must(p["cut_by_window"] > 0 if window > 4096 else p["cut_by_window"] <= 3, "%d cut" % p["cut_by_window"])
        must(p["samples"] - p["walks_complete"] == p["cut_by_window"],
             "%d of %d samples cut" % (p["cut_by_window"], p["samples"]))
        must(p["verify_differ"] == 0, "%d differ" % p["verify_differ"])
        got = (p["samples"] + p["lost"]) * 1.001e-3 / p["utime_s"]
        must(0.4 < got < 2.5, "%d samples in %.3f s" % (p["samples"], p["utime_s"]))
    os.unlink(stop)
    target = subprocess.Popen([path("deep"), "40", "6", stop], stdout=subprocess.PIPE, text=True)
    must(target.stdout.readline() == "begun\n", "the program did not begin")
    recorder = Recorder("-p", str(target.pid))
    until_whole(recorder.process, stop)
    target.communicate(timeout=120)
    must(recorder.end() == 0, recorder.errors)
    p = facts()
    must(p["window_bytes"] == 64512 and p["samples"] - p["walks_complete"] == p["cut_by_window"], str(p))


def perf_events(pid):
    """How many a process has open."""
    folder = "/proc/%d/fd" % pid
    count = 0
    for name in os.listdir(folder):
        try:
            count += "perf_event" in os.readlink(os.path.join(folder, name))
        except OSError:  # closed meanwhile
            pass
    return count


def many_switches():
    """
    Threads that wake each other all the time are sampled by processors, not by threads, so that switches cost nothing; other
    processes that run there are left out. Larger windows come then as ever.
    """
    if os.geteuid() != 0:
        return "only root may sample processors"
    with open("/proc/self/schedstat") as file:
        if int(file.read().split()[2]) == 0:
            return "this kernel does not count switches"
    other = subprocess.Popen([path("shares"), "100000"], stdout=subprocess.PIPE)
    target = subprocess.Popen([path("pairs")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        must(target.stdout.readline() == "begun\n", "it does not begin")
        recorder = Recorder("-F", "199", "-p", str(target.pid))
        must("1 process with 5 threads" in recorder.first, recorder.first)
        cpus, deadline = os.sysconf("SC_NPROCESSORS_ONLN"), time.monotonic() + 100
        while perf_events(recorder.process.pid) != (2 + 5 + 1) * cpus:  # rings, what is told of threads, samples
            must(time.monotonic() < deadline and recorder.process.poll() is None,
                 "%d perf events" % perf_events(recorder.process.pid))
            time.sleep(0.01)
        until(recorder, lambda p: p["samples"] >= 100)
        must(facts()["window_bytes"] == 4096 and facts()["cut_by_window"] == 0, "it is larger already")
        target.stdin.write("deep\n")
        target.stdin.flush()
        until(recorder, lambda p: p["window_bytes"] >= 32768)
        samples = facts()["samples"] + 100
        until(recorder, lambda p: p["samples"] >= samples)
        out, _ = target.communicate(timeout=120)
        must((out, target.returncode) == ("ends\n", 0), "the program")
        must(recorder.end() == 0, recorder.errors)
    finally:
        for process in other, target:
            process.kill()
            process.communicate()
    p, found = facts(), contexts()
    must(len(p["processes"]) == 1 and p["lost"] == 0 and p["verify_differ"] == 0, str(p))
    must(p["samples"] - p["walks_complete"] == p["cut_by_window"] > 0, "walks")
    right = share(found, "both", "right", "hot") / share(found, "hot")
    must(abs(right - 2 / 3) < 0.25 and share(found, "main", "right") == 0, str(found))
    must(len(p["threads"]) == 5, str(p["threads"]))


def fast():
    """10 kHz: each sample is there, or counted as lost."""
    command = [path("shares"), "300", "1"]
    done = record("--outside", "-F", "10000", *command)
    same_as_plain(command, done)
    p = facts()
    seen = (p["samples"] + p["lost"]) / (p["utime_s"] * 10000)
    must(0.4 < seen < 2.5, "%d samples, %d lost, %.3f s" % (p["samples"], p["lost"], p["utime_s"]))


PERL = r"""$x{$_ % 1000} .= $_ . chr(65 + $_ % 26) for 1 .. 400000; print length(join '', %x), "\n" """
PYTHON = """
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def deep(n): return deep(n - 1) + 1 if n else len(sorted(str(x * x) for x in range(150000)))
print(deep(300), fib(25), deep(30))
"""
LUA = """
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
local t = {} for i = 1, 200000 do t[i] = tostring(i * 7919 % 200003) end table.sort(t)
print(fib(27), t[1])
"""
SQL = """
with recursive n(i) as (select 1 union all select i + 1 from n where i < 150000)
select count(*), sum(length(t)) from (select hex(i * 7919 % 100003) as t from n order by t);
"""

# --- processes that run already --------------------------------------------------------------------

def start_lives(letters):
    return subprocess.Popen([path("lives"), letters], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)


def lives(letters, status, expected, processes):
    """Attached before anything happens: forks, threads, exec and death are followed."""
    def check():
        target = start_lives(letters)
        recorder = Recorder("-p", str(target.pid))
        must("recording 1 process with 1 thread;" in recorder.first, recorder.first)
        target.communicate("go\n", timeout=120)
        must(recorder.end() == 0, "status of record: " + recorder.errors)
        must(target.returncode == status, "status %d" % target.returncode)
        found, p = contexts(), facts()
        for name in expected:
            must(share(found, name, "hot") > 0.8 / len(expected) - 0.15,
                 "%s: %s" % (name, found))
        must(p["verify_differ"] == 0 and p["lost"] == 0, "differ or lost")
        must(p["walks_complete"] == p["samples"], "walks")
        must(len(p["processes"]) == processes, str(p["processes"]))
    return check


def traces_of(pid):
    """What a recording could have left in a process."""
    found = [len(os.listdir("/proc/%d/fd" % pid)), len(os.listdir("/proc/%d/task" % pid))]
    with open("/proc/%d/status" % pid) as file:
        found += [line.split()[1] for line in file
                  if re.match("SigPnd|ShdPnd|SigBlk|SigIgn|SigCgt|TracerPid", line)]
    with open("/proc/%d/maps" % pid) as file:
        found.append(sorted({line.split()[-1] for line in file if "/" in line}))
    return found


def attach_and_detach():
    """Fifty times at random moments, under load: every answer is right, and nothing is left."""
    address = path("service.socket")
    service = subprocess.Popen([path("service"), address], stdout=subprocess.PIPE, text=True)
    stop = threading.Event()
    wrong, answered = [], [0] * 2

    def expected(x):
        # 20,000 steps of x * a + c at once
        return (x * factor + add) % 2 ** 32

    factor, add = 1, 0
    for _ in range(20000):
        factor, add = factor * 1103515245 % 2 ** 32, (add * 1103515245 + 12345) % 2 ** 32

    def ask(number):
        chosen = random.Random(number)
        try:
            while not stop.is_set():
                with socket.socket(socket.AF_UNIX) as one:
                    one.connect(address)
                    for _ in range(100):
                        x = chosen.randrange(2 ** 32)
                        one.sendall(x.to_bytes(4, "little"))
                        got = int.from_bytes(one.recv(4, socket.MSG_WAITALL), "little")
                        if got != expected(x):
                            wrong.append((x, got))
                        answered[number] += 1
                    one.shutdown(socket.SHUT_WR)
                    one.recv(1)  # nothing comes: the service has closed its end
        except OSError as error:
            wrong.append(error)

    must(service.stdout.readline() == "ready\n", "the service does not start")
    idle = traces_of(service.pid)
    clients = [threading.Thread(target=ask, args=(number,)) for number in range(2)]
    for client in clients:
        client.start()
    try:
        chosen, samples = random.Random(1), 0
        for _ in range(50):
            recorder = Recorder("--no-lines", "-p", str(service.pid))
            must("1 process with 4 threads" in recorder.first, recorder.first)
            enough = answered[0] + chosen.randrange(200)
            while answered[0] < enough and not wrong:
                select.select([], [], [], 0.0005)
            recorder.process.send_signal(chosen.choice([signal.SIGINT, signal.SIGTERM]))
            must(recorder.end() == 0, recorder.errors)
            samples += facts()["samples"]
            must(not wrong, str(wrong[:3]))
    finally:
        stop.set()
        for client in clients:
            client.join()
    try:
        give_up = time.monotonic() + 120
        while traces_of(service.pid)[0] != idle[0]:  # it closes the connections of the clients
            must(time.monotonic() < give_up, "%s before, %s after" % (idle, traces_of(service.pid)))
        recorder = Recorder("--no-lines", "-p", str(service.pid))
        recorder.process.send_signal(signal.SIGINT)
        must(recorder.end() == 0, recorder.errors)
        must(traces_of(service.pid) == idle, "%s before, %s after" % (idle, traces_of(service.pid)))
        must(service.poll() is None and not wrong, "it has ended")
        must(samples > 100, "%d samples" % samples)
        must("libcalltrail" not in str(idle), "our library is in it")
    finally:
        service.kill()
        service.wait()


def snapshot():
    """SIGUSR2 writes what there is; the recording goes on."""
    target = subprocess.Popen([path("shares"), "3000"], stdout=subprocess.PIPE)
    recorder = Recorder("-p", str(target.pid))
    try:
        first = take_snapshot(recorder)
        while take_snapshot(recorder) == first:
            pass
        recorder.process.send_signal(signal.SIGINT)
        must(recorder.end() == 0, recorder.errors)
        check_shares(samples=1)
        must(target.poll() is None, "the target has ended")
    finally:
        target.kill()
        target.communicate()


def recovered():
    """A recorder that is killed leaves an arena, of which recover makes the profile."""
    target = subprocess.Popen([path("shares"), "3000"], stdout=subprocess.PIPE)
    recorder = Recorder("-p", str(target.pid))
    try:
        take_snapshot(recorder)
        recorder.process.kill()
        recorder.process.communicate()
    finally:
        target.kill()
        target.communicate()
    folder = None
    for name in os.listdir("/dev/shm"):
        file = "/dev/shm/%s/supervisor" % name
        if os.path.exists(file):
            with open(file) as text:
                if text.read().split()[:1] == [str(recorder.process.pid)]:
                    folder = "/dev/shm/" + name
    must(folder, "no folder")
    done = run([calltrail, "recover", "-o", profile, folder])
    must(done.returncode == 0, done.stderr)
    must(share(contexts(), "hot") > 0.95, str(contexts()))


def refusals():
    target = start_lives("")
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    try:
        said = run([calltrail, "doctor", "-p", str(ended.pid)])
        must(said.returncode == 1 and "has ended, or is a zombie" in said.stdout, said.stdout)
        for status, pattern, arguments in [
                (1, "there is no process 999999", ["-p", "999999"]),
                (1, "process %d has ended, or is a zombie$" % ended.pid, ["-p", str(ended.pid)]),
                (2, "is not a process number", ["-p", "12,x"]),
                (2, "-p cannot be combined with a PROGRAM", ["-p", "1", "true"]),
                (2, "a PROGRAM is needed", ["--outside"]),
                (2, "--engine exact", ["--outside", "--engine", "exact", "true"]),
                (2, "measured inside the program", ["--outside", "-e", "heap", "true"]),
                (2, "measured inside the program", ["-p", "1", "-e", "cpu,wall"]),
                (2, "perf events", ["--outside", "-e", "perf:page-faults", "true"]),
                (1, "statically linked.*from outside only CPU time",
                 ["-e", "perf:page-faults", path("shares_static")]),
                (1, "statically linked.*from outside only CPU time", ["--engine", "exact", path("shares_static")]),
                (2, "only seen from outside", ["-e", "cpu:uk", "true"]),
                (2, "a window is a number of KB", ["--outside", "--window", "64", "true"]),
                (2, "--window requires", ["--window", "8", "true"])]:
            done = record(*arguments)
            must(done.returncode == status and re.search(pattern, done.stderr) and
                 done.stderr.count("\n") == 1 and not done.stdout,
                 "%s: %d %s" % (arguments, done.returncode, done.stderr))
    finally:
        target.communicate("\n")
        ended.wait()


def doctor():
    """What it says beforehand of programs and processes."""
    for status, pattern, arguments in [
            (0, "program +%s: can be recorded$" % path("shares"), [path("shares")]),
            (0, "can be recorded from outside only: .* is statically linked", [path("shares_static")]),
            (0, "can be recorded from outside only: .* linked with musl", [path("shares_musl")]),
            (0, "can be recorded from outside only: .* AddressSanitizer", [path("shares_asan")]),
            (1, "cannot be recorded: .* no such program", ["no-such-program"]),
            (0, "process %d can be recorded" % os.getpid(), ["-p", str(os.getpid())]),
            (1, "there is no process 999999", ["-p", "999999"]),
            (2, "-p needs one process", ["-p", "x"])]:
        done = run([calltrail, "doctor", *arguments])
        must(done.returncode == status and re.search(pattern, done.stdout + done.stderr, re.M),
             "%s: %d %s%s" % (arguments, done.returncode, done.stdout, done.stderr))


def equal_files():
    """A program in two files with the same contents, as in two containers: both have names."""
    copies = [path("first_copy"), path("second_copy")]
    for copy in copies:
        shutil.copy(path("shares"), copy)
    record("--outside", "sh", "-c", "%s 100; %s 100; :" % tuple(copies))
    p = facts()
    seen = {os.path.basename(one["command"]): one["samples"] for one in p["processes"] if one["samples"]}
    must(min(seen.get("first_copy", 0), seen.get("second_copy", 0)) > 10, str(seen))
    must(p["walks_complete"] >= 0.95 * p["samples"], "%d of %d walks complete" % (p["walks_complete"], p["samples"]))
    must(share(contexts(), "hot") > 0.9, "hot has %.3f" % share(contexts(), "hot"))


def anothers_process():
    """Of another user; and what permits it."""
    if os.geteuid() != 0:
        return "only root can be two users"
    target = start_lives("")
    try:
        os.chmod(work, 0o777)
        done = run(["setpriv", "--reuid", "65534", "--clear-groups", "env", "XDG_CACHE_HOME=/nonexistent",
                    calltrail, "record", "-o", path("other.ctp"), "-p", str(target.pid)])
        must(done.returncode == 1 and "another user" in done.stderr and
             "CAP_PERFMON" in done.stderr, done.stderr)
        doctor = run([calltrail, "doctor", "-p", str(target.pid)])
        must(doctor.returncode == 0 and "can be recorded" in doctor.stdout, doctor.stdout)
    finally:
        target.communicate("\n")


def without_privileges():
    """What any user may do: smaller rings, and still whole."""
    if os.geteuid() != 0:
        return "the other checks are that already"
    with open("/proc/sys/kernel/perf_event_paranoid") as file:
        if int(file.read()) > 2:
            return "kernel.perf_event_paranoid is above 2"
    os.chmod(work, 0o777)
    nobody = ["setpriv", "--reuid", "65534", "--clear-groups", "env", "XDG_CACHE_HOME=" + path("nobody")]
    if os.path.exists(profile):
        os.unlink(profile)
    done = run([*nobody, calltrail, "record", "--verify", "-o", profile, "--outside",
                path("shares"), "100"])
    must(done.returncode == 7, done.stderr)
    check_shares()
    done = run([*nobody, calltrail, "record", "-o", profile, "--outside", "-e", "cpu:k", "true"])
    must(done.returncode == 1 and "kernel.perf_event_paranoid of at most 1" in done.stderr,
         done.stderr)


def namespaces():
    """Another root, another numbering of processes: the files are those that it sees."""
    if os.geteuid() != 0:
        return "only root can make them"
    root = path("root")
    os.makedirs(root, exist_ok=True)
    # The file is there under a name that is another program's outside.
    script = ("mount -t tmpfs none %s && mkdir -p %s%s && cp %s %s%s && exec chroot %s %s 300" %
              (root, root, work, path("shares_static"), root, path("strict"), root, path("strict")))
    for way in (["-p", "-m", "-f", "--kill-child"], ["-U", "-r", "-m", "-p", "-f", "--kill-child"]):
        if run(["unshare", *way, "true"]).returncode:
            return "unshare %s is not permitted" % " ".join(way)
        done = record("--outside", "unshare", *way, "sh", "-c", script)
        must(done.returncode == 7, "status %d: %s" % (done.returncode, done.stderr))
        found = contexts()
        inside = {stack: value for stack, value in found.items() if "main" in stack}
        must(share(inside, "right", "hot") > 0.4, str(found))
        must(share(found, "hot") > 0.7, str(found))


def removed_file():
    """The program's file is gone while it runs, and another has its name."""
    file = path("removed")
    run(["cp", path("shares"), file])
    target = subprocess.Popen([file, "1000"], stdout=subprocess.PIPE)
    while os.readlink("/proc/%d/exe" % target.pid) != file:
        pass
    os.unlink(file)
    run(["cp", path("strict"), file])
    recorder = Recorder("-p", str(target.pid))
    target.communicate(timeout=120)
    must(recorder.end() == 0, recorder.errors)
    check_shares(samples=20)


def few_descriptors():
    """Too few for each thread and processor: one event for all processes does; or it is said."""
    target = subprocess.Popen([path("service"), path("few.socket")], stdout=subprocess.PIPE,
                              text=True)
    busy = subprocess.Popen([path("shares"), "100000"], stdout=subprocess.PIPE)
    try:
        must(target.stdout.readline() == "ready\n", "the service does not start")
        limit = ["sh", "-c", 'ulimit -n 26; exec "$@"', "-"]
        if os.path.exists(profile):
            os.unlink(profile)
        if os.geteuid() == 0:
            recorder = subprocess.Popen([*limit, calltrail, "record", "--no-lines", "-o", profile, "-p",
                                         str(target.pid)], stderr=subprocess.PIPE, text=True)
            must("1 process with 4 threads" in recorder.stderr.readline(), "it does not begin")
            with socket.socket(socket.AF_UNIX) as one:
                one.connect(path("few.socket"))
                for _ in range(3000):
                    one.sendall(b"abcd")
                    must(len(one.recv(4, socket.MSG_WAITALL)) == 4, "no answer")
            recorder.send_signal(signal.SIGINT)
            _, errors = recorder.communicate(timeout=120)
            must(recorder.returncode == 0, errors)
            p, found = facts(), contexts()
            must(p["samples"] > 20 and len(p["processes"]) == 1, str(p["processes"]))
            must(share(found, "serve", "answer") > 0.8 and p["lost"] == 0, str(found))
        done = run([*limit, "setpriv", "--reuid", str(os.geteuid() or 65534), "--clear-groups",
                    calltrail, "record", "-o", path("few.ctp"), "-p", str(target.pid)])
        must(done.returncode == 1, "status %d" % done.returncode)
    finally:
        for process in (target, busy):
            process.kill()
            process.communicate()


def losses():
    """A recorder that stands still loses samples, and says how many."""
    target = start_lives("tttt")
    recorder = Recorder("-F", "10000", "--window", "63", "-p", str(target.pid))
    recorder.process.send_signal(signal.SIGSTOP)
    target.communicate("go\n", timeout=120)
    recorder.process.send_signal(signal.SIGCONT)
    must(recorder.end() == 0, recorder.errors)
    p = facts()
    cpu_s = p.get("utime_s")  # of a process that is gone, it may not be known
    must(p["lost_in_ring"] > 0.2 * p["samples"] and "records are lost" in recorder.errors,
         "%d lost: %s" % (p["lost_in_ring"], recorder.errors))
    must(p["samples"] > 100 and share(contexts(), "in_thread", "hot") > 0.95, str(contexts()))
    if cpu_s:
        seen = (p["samples"] + p["lost_in_ring"]) / (cpu_s * 10000)
        must(0.3 < seen < 3, "%d samples, %d lost in %.3f s" % (p["samples"], p["lost_in_ring"], cpu_s))


# --- kernel time -----------------------------------------------------------------------------------

def kernel_time():
    """
    Shares by the program's own clock and by samples. Of 1,000 samples a share has a standard
    deviation of at most 1.6%: 0.1 is more than six of them.
    """
    done = record("--outside", "-e", "cpu:uk", path("kernel_time"), "250")
    must(done.returncode == 0, done.stderr)
    own = {name: int(ns) for name, ns in (line.split() for line in done.stdout.splitlines())}
    found, p = contexts(), facts()
    must(p["samples"] > 600 and p["lost"] == 0, "%d samples" % p["samples"])
    for name, ns in own.items():
        expected, got = ns / sum(own.values()), share(found, "main", name)
        must(abs(expected - got) < 0.1, "%s: %.3f of its time, %.3f of samples" % (name, expected, got))
    must(sum(value for stack, value in found.items() if "[not attributed]" in stack) <
         0.02 * sum(found.values()), "not attributed")
    names_kernel = any("vfs_read" in frame or "read_zero" in frame for stack in found for frame in stack)
    with open("/proc/kallsyms") as file:
        readable = int(file.readline().split()[0], 16) != 0
    must(names_kernel == readable, "names of the kernel")
    done = record("--outside", "-e", "cpu:k", path("kernel_time"), "100")
    kernel = contexts()
    must(facts()["samples"] > 200, "cpu:k: samples")
    must(share(kernel, "main", "reads") > 0.1 and share(kernel, "main", "faults") > 0.1, str(kernel))
    done = record("--outside", "-e", "cpu:k", path("shares"), "300")
    must(sum(contexts().values()) < 0.3 * facts()["utime_s"] * 1e9, "user time in cpu:k")


CHECKS = [
    ("a program, its threads, and its contexts", outside_of_a_program),
    ("the program sees nothing of it", same_view_of_itself),
    ("a static program", program("shares_static")),
    ("a program linked to musl", program("shares_musl")),
    ("a static program with musl", program("shares_musl_static")),
    ("a static program without names", stripped),
    ("a setuid program", setuid_program),
    ("a program under strict seccomp", strict_seccomp),
    ("a program with AddressSanitizer", program("shares_asan")),
    ("a program with ThreadSanitizer", program("shares_tsan")),
    ("busybox", busybox),
    ("children and what they run", children),
    ("--delay and --duration", times),
    ("stacks higher than the window", windows),
    ("a handler on an alternate stack", alternate_stack),
    ("the window grows with the stacks", larger_windows),
    ("threads that wake each other", many_switches),
    ("10 kHz: samples are there or counted as lost", fast),
    ("the same ticks: perl", same_tick("perl", "-e", PERL)),
    ("the same ticks: python3", same_tick("/usr/bin/python3", "-c", PYTHON)),
    ("the same ticks: lua5.4", same_tick("lua5.4", "-e", LUA)),
    ("the same ticks: sqlite3", same_tick("sqlite3", ":memory:", SQL)),
    ("-p: fork and a thread", lives("ft", 7, ["in_child", "in_thread"], 2)),
    ("-p: exec", lives("x", 7, ["after_exec"], 2)),
    ("-p: a thread, exec, a child, and death", lives("txfk", -9, ["in_thread", "after_exec", "in_child"], 3)),
    ("-p: attached and detached 50 times under load", attach_and_detach),
    ("-p: few descriptors", few_descriptors),
    ("-p: losses are counted", losses),
    ("-p: SIGUSR2", snapshot),
    ("-p: recover", recovered),
    ("-p: a file that was removed", removed_file),
    ("equal files", equal_files),
    ("-p: a process of another user", anothers_process),
    ("refusals", refusals),
    ("doctor", doctor),
    ("without privileges", without_privileges),
    ("other namespaces", namespaces),
    ("kernel time", kernel_time),
]

run_checks(CHECKS)
