"""Cases in which a wrong name, or a wrong process, would come easily; and what can be seen of 32-bit programs."""
import os
import re
import subprocess
import time

from harness import (Recorder, calltrail, contexts, facts, must, path, profile, record, run, run_checks,
                     same_as_plain, share, work)
from snapshots import until


def must_be_places():
    """Each context is an address in the loop of `hot`, and nothing else."""
    table = run(["nm", path("narrow")]).stdout.split("\n")
    address = {line.split()[2]: int(line.split()[0], 16) for line in table if line}
    for stack in contexts():
        frames = [frame for frame in stack if not frame.startswith(("(", "["))]
        place = re.fullmatch(r"narrow\+0x([0-9a-f]+)", frames[-1])
        must(len(frames) == 1 and place, str(stack))
        offset = int(place.group(1), 16) - (address["hot"] & 0xfff)
        must(0 <= offset % 0x1000 < address["main"] - address["hot"], "%s: %s" % (frames, address))


def narrow():
    """Of a 32-bit program the place alone, which is said."""
    command = [path("narrow")]
    if not os.path.exists(command[0]):
        return "the assembler makes no 32-bit programs"
    try:
        plain = run(command)
    except OSError:
        return "32-bit programs do not run here"
    must(plain.returncode == 7, "status %d" % plain.returncode)
    for arguments in [], ["--outside"]:
        done = record(*arguments, *command)
        same_as_plain(command, done)
        p = facts()
        must(re.search("calltrail: %d samples are of 32-bit programs, whose callers are not known" % p["samples"], done.stderr),
             done.stderr)
        must(p["samples"] > 20 and p["lost"] == 0, str(p))
        must_be_places()
    said = run([calltrail, "doctor", *command])
    must(said.returncode == 0 and "from outside only" in said.stdout and "32-bit" in said.stdout, said.stdout)
    done = record("sh", "-c", "%s; echo $?" % command[0])
    must((done.stdout, done.returncode) == ("7\n", 0) and sum(contexts().values()) > 0, done.stderr)


def of_programs(p, *names):
    """Samples of the processes that ran them."""
    return [sum(one["samples"] for one in p["processes"] if os.path.basename(one["command"]) == name) for name in names]


def reused_numbers():
    """Two programs in turn, all with one process number: each has its own functions, and no other's."""
    command = [path("reuse"), "20", path("shares"), path("others"), "20"]
    plain = run(command)
    if plain.returncode == 77:
        return "only root may choose the numbers of processes"
    must(plain.returncode == 0, plain.stderr)
    done = record("--outside", *command)
    same_as_plain(command, done)
    p, found = facts(), contexts()
    must(len({one["pid"] for one in p["processes"]}) == 2, "%d numbers" % len({one["pid"] for one in p["processes"]}))
    ran = [os.path.basename(one["command"]) for one in p["processes"]]
    must((ran.count("shares"), ran.count("others")) == (10, 10), str(ran))
    own = {"shares": {"left", "right", "hot"}, "others": {"other_left", "other_right", "other_hot"}}
    for name, samples in zip(own, of_programs(p, *own)):
        strange = set().union(*own.values()) - own[name]
        of_it = {stack: value for stack, value in found.items() if own[name] & set(stack)}
        must(not any(strange & set(stack) for stack in of_it), str(of_it))
        count = sum(of_it.values()) / p["metrics"][0]["period"]
        must(samples > 50 and 0.7 * samples <= count <= samples, "%s: %d samples, %d with its functions" % (name, samples, count))
    must(p["verify_differ"] == 0 and p["lost"] == 0, str(p))


def vanishing_libraries():
    """Each function has its own name or none: by whom it was called is known."""
    libraries = [path("vanishing_%d.so" % number) for number in range(4)]
    target = subprocess.Popen([path("vanish"), path("vanishing.so"), *libraries], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True)
    recorder = Recorder("-p", str(target.pid))
    out, _ = target.communicate("go\n", timeout=120)
    must(target.returncode == 0 and out, "status %d" % target.returncode)
    must(recorder.end() == 0, recorder.errors)
    p, found, seen = facts(), contexts(), 0
    for stack, value in found.items():
        called = [re.match(r"calls_(\d)$", frame) for frame in stack]
        names = {frame for frame in stack if re.match(r"in_\d$", frame)}
        for call in filter(None, called):
            must(names <= {"in_" + call.group(1)}, str(stack))
            seen += value
        must(any(called) or not names, str(stack))
    must(p["verify_differ"] == 0 and seen > 0.8 * sum(found.values()) > 0, str(found))


def crowd():
    """5,000 threads that were there before, all listed; the one that works has the samples."""
    target = subprocess.Popen([path("crowd"), "5000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if target.stdout.readline() != "begun\n":
            return "so many threads are not permitted here"
        recorder = Recorder("-p", str(target.pid))
        if "too few open files" in recorder.first:
            return recorder.first.strip()
        must("1 process with 5002 threads" in recorder.first, recorder.first)
        until(recorder, lambda p: p["samples"] >= 20)
        out, _ = target.communicate(timeout=120)
        must((out, target.returncode) == ("ends\n", 3), out)
        must(recorder.end() == 0, recorder.errors)
    finally:
        target.kill()
        target.communicate()
    p, found = facts(), contexts()
    must(len(p["threads"]) == 5002 and p["lost"] == 0 and p["verify_differ"] == 0, "%d threads" % len(p["threads"]))
    must(share(found, "work", "hot") > 0.9, str(found))


def container():
    """A process in namespaces of its own, with another root, attached to by its number here."""
    if os.geteuid() != 0:
        return "only root can make them"
    root = path("container")
    os.makedirs(root, exist_ok=True)
    script = ("mount -t tmpfs none %s && mkdir -p %s%s && cp %s %s%s && exec chroot %s %s 5000" %
              (root, root, work, path("shares_static"), root, path("strict"), root, path("strict")))
    for way in (["-p", "-m", "-f", "--kill-child"], ["-U", "-r", "-m", "-p", "-f", "--kill-child"]):
        if run(["unshare", *way, "true"]).returncode:
            return "unshare %s is not permitted" % " ".join(way)
        outer = subprocess.Popen(["unshare", *way, "sh", "-c", script])
        try:
            inner, deadline = None, time.monotonic() + 100
            while not inner or os.readlink("/proc/%s/root" % inner) != root:
                must(time.monotonic() < deadline and outer.poll() is None, "it does not begin")
                with open("/proc/%d/task/%d/children" % (outer.pid, outer.pid)) as file:
                    inner = file.read().strip()
            recorder = Recorder("-p", inner)
            must("recording 1 process" in recorder.first, recorder.first)
            until(recorder, lambda p: p["samples"] >= 50)
            recorder.process.send_signal(2)
            must(recorder.end() == 0, recorder.errors)
            said = run([calltrail, "doctor", "-p", inner])
            must(said.returncode == 0 and "can be recorded" in said.stdout, said.stdout)
        finally:
            outer.kill()
            outer.wait()
        p, found = facts(), contexts()
        must(p["verify_differ"] == 0 and p["walks_complete"] >= 0.9 * p["samples"], str(p))
        must(share(found, "right", "hot") > 0.4 and share(found, "hot") > 0.9, str(found))


run_checks([
    ("32-bit programs", narrow),
    ("numbers of processes that are used again", reused_numbers),
    ("libraries that vanish while they run", vanishing_libraries),
    ("-p: 5,000 threads", crowd),
    ("-p: a container", container),
])
