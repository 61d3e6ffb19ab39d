"""
Programs of kinds that break guests, recorded as `record` chooses: output and status as plain, and the shares of their
functions beside perf's. The same ticks from inside and outside, of larger programs. What is not installed is skipped.
Arguments: a folder for their files, and what to run of the checks (all).
"""
import collections
import os
import shutil
import signal
import socket
import subprocess

from harness import calltrail, facts, must, path, profile, record, run, run_checks, same_as_plain, same_tick
from programs import Skip, checked, make, must_agree, program

# A third of the time in one function, two thirds in another.
C = """#include <stdio.h>
__attribute__((noinline)) unsigned one(unsigned x)
{ for (long i = 0; i < 1000000; i++) x = x * 1103515245u + 12345u; return x; }
__attribute__((noinline)) unsigned two(unsigned x)
{ for (long i = 0; i < 2000000; i++) x = x * 1103515245u + 54321u; return x; }
int main(void) { unsigned x = 1; for (int i = 0; i < 300; i++) x = one(x) + two(x); printf("%u\\n", x); return 7; }
"""
GO = """package main
%s
import ("fmt"; "os")
//go:noinline
func one(x uint32) uint32 { for i := 0; i < 1000000; i++ { x = x*1103515245 + 12345 }; return x }
//go:noinline
func two(x uint32) uint32 { for i := 0; i < 2000000; i++ { x = x*1103515245 + 54321 }; return x }
func main() { x := uint32(1); for i := 0; i < 300; i++ { x = one(x) + two(x) }; fmt.Println(x); os.Exit(%s) }
"""
CGO = """/*
static unsigned three(unsigned x) { for (int i = 0; i < 1000; i++) x = x * 5 + 1; return x; }
*/
import "C"
"""
ML = """let rec fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)
let () = Printf.printf "%d\\n" (fib 39); exit 3
"""
JAVA = """public class Spin {
 static int hot(int x, int n) { for (int i = 0; i < n; i++) x = x * 1103515245 + 12345; return x; }
 public static void main(String[] a) { int s = 1; for (int i = 0; i < 500; i++) s = hot(s, 1000000);
  System.out.println(s); System.exit(5); } }
"""
CS = """public class Spin {
 static int Hot(int x, int n) { for (int i = 0; i < n; i++) x = unchecked(x * 1103515245 + 12345); return x; }
 public static int Main() { int s = 1; for (int i = 0; i < 500; i++) s = Hot(s, 1000000);
  System.Console.WriteLine(s); return 5; } }
"""


def built(name, compiler, way="outside"):
    def check():
        make(name + ".c", C, *compiler, "-g", "-O1", "-o", name, name + ".c")
        return program(way, [path(name)], names=["one", "two"])
    return check


def go(name, header, is_stripped):
    def check():
        status = "int(C.three(1)) & 7" if header else "4"
        make(name + ".go", GO % (header, status), "go", "build", "-o", name, name + ".go")
        if not is_stripped:
            return program("outside", [path(name)], names=["main.one", "main.two"])
        run(["strip", "-o", path(name + ".stripped"), path(name)])
        done = record("--no-lines", path(name + ".stripped"))
        same_as_plain([path(name)], done)
        return must_agree([path(name)], ["main.one", "main.two"])  # perf has names of the other only
    return check


def ocaml(*arguments):
    def check():
        make("fib.ml", ML, "ocamlopt", "-o", "fib", "fib.ml")
        return program("outside", [path("fib")], arguments, names=["fib"])
    return check


def busybox():
    if not shutil.which("busybox"):
        raise Skip("busybox is not installed")
    return program("outside", ["busybox", "sh", "-c", "i=0; while [ $i -lt 500000 ]; do i=$((i+1)); done; echo $i; exit 9"])


def valgrind():
    make("v.c", C.replace("i < 300", "i < 6"), "gcc", "-O1", "-o", "v", "v.c")
    if not shutil.which("valgrind"):
        raise Skip("valgrind is not installed")
    return program("outside", ["valgrind", "-q", path("v")])


def java(*arguments):
    def check():
        make("Spin.java", JAVA, "javac", "Spin.java")
        return program("outside" if arguments else "inside", ["java", "-cp", path(""), "Spin"], arguments)
    return check


def mono(*arguments):
    def check():
        make("Spin.cs", CS, "mcs", "-out:spin.exe", "Spin.cs")
        return program("outside" if arguments else "inside", ["mono", path("spin.exe")], arguments)
    return check


def ssh_logins():
    """An sshd that is recorded from outside: three logins, each with a command."""
    sshd = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")
    if not sshd or not shutil.which("ssh") or os.geteuid() != 0:
        raise Skip("sshd or ssh is not installed, or this is not root")
    os.makedirs("/run/sshd", exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    for name in ("host", "user"):
        if not os.path.exists(path(name)):
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path(name)])
    with open(path("sshd.conf"), "w") as file:
        file.write("Port %s\nListenAddress 127.0.0.1\nHostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\n"
                   "PermitRootLogin yes\nPidFile none\n" % (port, path("host"), path("user.pub")))
    server = subprocess.Popen([calltrail, "record", "--no-lines", "--outside", "-o", profile, sshd, "-D", "-e", "-f",
                               path("sshd.conf")], stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        if "listening" in line:
            break
    drain = subprocess.Popen(["cat"], stdin=server.stderr, stdout=subprocess.DEVNULL)
    try:
        for number in range(3):
            done = run(["ssh", "-F", "none", "-i", path("user"), "-p", port, "-o", "StrictHostKeyChecking=no", "-o",
                        "UserKnownHostsFile=/dev/null", "root@127.0.0.1", "echo in %d; exit 11" % number])
            must((done.stdout, done.returncode) == ("in %d\n" % number, 11), done.stdout + done.stderr)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
        drain.kill()
        drain.wait()
    programs = collections.Counter(os.path.basename(one["command"]) for one in facts()["processes"])
    must(programs["sshd"] >= 4, str(programs))
    return "%d samples in %d processes" % (facts()["samples"], len(facts()["processes"]))


def kernel_functions():
    """
    Of find, as by perf with the same event and period; when what it reads has been read before: else it is other work.
    """
    command = ["find", "/usr", "-newer", "/etc/passwd"]
    plain = [run(command) for _ in range(3)][-1]
    done = record("--no-lines", "--outside", "-e", "cpu:uk", *command)
    must((done.stdout, done.returncode) == (plain.stdout, plain.returncode), done.stderr)
    return must_agree(command, event="task-clock")


def ticks_of(name):
    """cc1, x264, and povray, which works in threads."""
    def check():
        work = {"cc1": [run(["gcc", "-print-prog-name=cc1"]).stdout.strip(), "-quiet", "-O2", "-w", path("large.c"),
                        "-o", "/dev/null"],
                "x264": ["x264", "--quiet", "--no-progress", "--threads", "1", "--input-res", "320x240", "--fps", "25",
                         "-o", "/dev/null", path("noise.yuv")],
                "povray": ["povray", "-D", "+I" + path("spheres.pov"), "+O" + path("spheres.png"), "+W480", "+H360", "+A0.1", "+WT2",
                           "-GA"]}[name]
        if not shutil.which(work[0]):
            raise Skip(work[0] + " is not installed")
        with open(path("large.c"), "w") as file:
            for i in range(400):
                file.write("int f%d(int *a, int n) { int s = %d; for (int i = 0; i < n; i++) if (a[i] %% %d) s += "
                           "a[i] * %d; else s ^= a[n - i - 1]; return s; }\n" % (i, i, i % 7 + 2, i + 3))
        with open(path("spheres.pov"), "w") as file:
            file.write("camera { location <0, 2, -6> look_at 0 } light_source { <5, 9, -9> 1 }\n")
            for i in range(60):
                file.write("sphere { <%g, %g, %g>, 0.5 pigment { bozo scale 0.1 } finish { reflection 0.5 } normal { bumps "
                           "0.4 scale 0.1 } }\n" % (i % 8 - 4, i % 5 - 2, i % 3))
        with open(path("noise.yuv"), "wb") as file:
            state = 1
            frame = bytearray(320 * 240 * 3 // 2)
            for _ in range(12):
                for at in range(0, len(frame), 7):
                    state = (state * 1103515245 + 12345) % 2 ** 31
                    frame[at] = state >> 16 & 255
                file.write(frame)
        large = ("32768", 0.5) if name == "cc1" else ("64512", 1)  # frames of x264 have pages that it never touches
        return same_tick(*work, most_other=0.5, large=large)()
    return check


run_checks([(name, checked(check)) for name, check in [
    ("Go", go("plain_go", "", False)),
    ("Go, stripped", go("plain_go", "", True)),
    ("Go with cgo", go("cgo", CGO, False)),
    ("Go with cgo, stripped", go("cgo", CGO, True)),
    ("a static program", built("static", ["gcc", "-static"])),
    ("musl", built("musl", ["musl-gcc"])),
    ("static, with musl", built("musl_static", ["musl-gcc", "-static"])),
    ("busybox", busybox),
    ("gcc AddressSanitizer", built("g_asan", ["gcc", "-fsanitize=address"])),
    ("gcc ThreadSanitizer", built("g_tsan", ["gcc", "-fsanitize=thread"])),
    ("gcc LeakSanitizer", built("g_lsan", ["gcc", "-fsanitize=leak"])),
    ("gcc UndefinedBehaviorSanitizer", built("g_ubsan", ["gcc", "-fsanitize=undefined"], way="inside")),
    ("clang AddressSanitizer", built("c_asan", ["clang", "-fsanitize=address"])),
    ("clang ThreadSanitizer", built("c_tsan", ["clang", "-fsanitize=thread"])),
    ("clang MemorySanitizer", built("c_msan", ["clang", "-fsanitize=memory"])),
    ("OCaml, from outside", ocaml("--outside")),
    ("valgrind", valgrind),
    ("java", java()),
    ("java, from outside", java("--outside")),
    ("mono", mono()),
    ("mono, from outside", mono("--outside")),
    ("sshd with logins", ssh_logins),
    ("functions of the kernel", kernel_functions),
    ("the same ticks: cc1", ticks_of("cc1")),
    ("the same ticks: x264", ticks_of("x264")),
    ("the same ticks: povray", ticks_of("povray")),
]])
