"""Programs that cannot host the runtime, started by processes that do: as plain, and recorded from outside."""
import os
import shutil

from harness import (calltrail, check_shares, contexts, facts, must, path, profile, record, run, run_checks,
                     same_as_plain, share)


def processes():
    """How each was recorded, by its program: a list of (program, from outside or not, samples)."""
    return [(os.path.basename(one["command"]),
             "not recorded" if "sampled_by" not in one else
             "outside" if "from outside" in one["sampled_by"] else "inside",
             one.get("samples", 0)) for one in facts()["processes"]]


def of_program(name):
    return [(how, samples) for program, how, samples in processes() if program == name]


def must_be_outside(name, samples=50):
    found = of_program(name)
    must(any(how == "outside" and count >= samples for how, count in found), "%s: %s" % (name, processes()))
    must(all(how == "outside" for how, count in found), str(processes()))


def child(name, shell):
    """Of a shell that goes on afterwards."""
    def check():
        command = [shell, "-c", "%s 100; echo $?; true" % path(name)]
        done = record(*command)
        same_as_plain(command, done)
        must(done.stderr == "", done.stderr)
        must_be_outside(name)
        must(any(how == "inside" for _, how, _ in processes()), str(processes()))
        check_shares()
    return check


def spawned(way, name="shares_musl"):
    """In each way to start a program."""
    def check():
        command = [path("spawn"), way, path(name), "100"]
        done = record(*command)
        same_as_plain(command, done)
        must(done.stderr == "", done.stderr)
        must_be_outside(name)
        check_shares()
    return check


def go_child():
    if not shutil.which("go"):
        return "the Go compiler is not installed"
    with open(path("spin.go"), "w") as file:
        file.write("package main\nimport \"fmt\"\n"
                   "//go:noinline\nfunc hot(x uint32, n int) uint32 {\n"
                   " for i := 0; i < n; i++ { x = x*1103515245 + 12345 }\n return x }\n"
                   "func main() { fmt.Println(hot(1, 300000000)) }\n")
    built = run(["go", "build", "-o", path("spin"), path("spin.go")],
                env={**os.environ, "GOCACHE": path("gocache"), "GO111MODULE": "off"})
    must(built.returncode == 0, built.stderr)
    for command in ([path("spin")], ["sh", "-c", path("spin") + "; true"]):
        done = record(*command)
        same_as_plain(command, done)
        must(("is a Go program" in done.stderr) == (len(command) == 1), done.stderr)
        must_be_outside("spin")
        must(share(contexts(), "main.main", "main.hot") > 0.9, str(contexts()))


def fails_first():
    """A program that cannot be run, and then one that can host the runtime, by the same process."""
    command = [path("spawn"), "x", path("elsewhere"), path("shares"), "100"]
    done = record(*command)
    same_as_plain(command, done)
    found = of_program("shares")
    must(len(found) == 1 and found[0][0] == "inside" and found[0][1] >= 50, str(processes()))
    must("processes_from_outside" not in facts(), str(processes()))
    check_shares()


def sees_nothing():
    """Environment and descriptors of such a program."""
    if not shutil.which("busybox"):
        return "busybox is not installed"
    command = ["sh", "-c", "busybox env | busybox grep -v ^_=; busybox ls /proc/self/fd | busybox wc -l; "
               "busybox grep Sig /proc/self/status | busybox grep -v SigQ"]
    done = record(*command)
    same_as_plain(command, done)
    must_be_outside("busybox", samples=0)


def descendants():
    """What they start is recorded as they are."""
    if not shutil.which("busybox"):
        return "busybox is not installed"
    command = ["sh", "-c", "busybox sh -c '%s 100; true'; echo $?" % path("shares")]
    done = record(*command)
    same_as_plain(command, done)
    must_be_outside("shares")
    check_shares()


def many():
    """One after the other, and several at once; each once."""
    command = ["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do %s 2; done; %s 60 & %s 60 & wait" %
               ((path("shares_static"),) * 3)]
    done = record(*command)
    same_as_plain(command, done)
    found = of_program("shares_static")
    must(len(found) == 12 and all(how == "outside" for how, _ in found), str(found))
    check_shares()


def not_permitted():
    """Without perf events they run as ever, and it is said that they are missing."""
    command = ["sh", "-c", "%s 30; %s 30; %s 30" % (path("shares_musl"), path("shares_asan"), path("shares"))]
    if os.path.exists(profile):
        os.unlink(profile)
    done = run([path("limits"), "noperf", calltrail, "record", "-o", profile, *command])
    same_as_plain(command, done)
    must("2 processes were not recorded" in done.stderr and "perf_event_open" in done.stderr and
         done.stderr.count("\n") == 1, done.stderr)
    must([how for how, _ in of_program("shares")] == ["inside"], str(processes()))


def not_from_outside():
    """With events that only a runtime inside can measure, such programs run as ever."""
    command = ["sh", "-c", "%s 10; %s 10; echo $?" % (path("shares_musl"), path("shares_asan"))]
    for arguments in (["-e", "wall"], ["--engine", "exact"], ["-e", "perf:page-faults"], ["--no-follow"]):
        done = record(*arguments, *command)
        same_as_plain(command, done)
        must("processes_from_outside" not in facts(), str(processes()))


run_checks([
    ("a static child of sh", child("shares_static", "sh")),
    ("a child of sh, linked to musl", child("shares_musl", "sh")),
    ("a child of bash, linked to musl", child("shares_musl", "bash")),
    ("a static child with musl", child("shares_musl_static", "bash")),
    ("a child with AddressSanitizer", child("shares_asan", "sh")),
    ("a child with ThreadSanitizer", child("shares_tsan", "bash")),
    ("a Go program, and such a child", go_child),
    ("a child by posix_spawn", spawned("s")),
    ("a child by posix_spawnp", spawned("p")),
    ("a child by vfork", spawned("v", "shares_asan")),
    ("a child by fork", spawned("f", "shares_static")),
    ("exec by a second thread", spawned("t", "shares_static")),
    ("a program that cannot be run, then another", fails_first),
    ("such a child sees nothing of it", sees_nothing),
    ("children of such children", descendants),
    ("many such children", many),
    ("such children without perf events", not_permitted),
    ("such children and other events", not_from_outside),
])
