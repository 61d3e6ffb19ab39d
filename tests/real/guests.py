"""Programs that are hard to be a guest in: runtimes with stacks and collectors of their own, sandboxes,
sanitizers, emulators and debuggers. Each is small, and prints the same for every user.

`command(folder)` runs in that folder, which `prepare(folder)` has filled. `samples`: a part of what it
burns must be seen, from inside or from outside; `modes`: all, unless one has no sense.
"""
import os
import shutil
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
torture = os.path.join(os.path.dirname(here), "torture")

WORK_C = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static unsigned work(unsigned n) { unsigned x = 1; while (n--) x = x * 1664525 + 1013904223; return x; }
int main(void) {
    unsigned sum = 0;
    for (unsigned i = 0; i < 200; i++) {
        char *text = malloc(1000 + i);
        memset(text, (int)i, 1000 + i);
        sum += work(300000) + (unsigned char)text[i];
        free(text);
    }
    printf("%u\\n", sum);
    return 3;
}
"""
GO = """package main
import "fmt"
type node struct { left, right *node }
func grow(n int) *node { if n == 0 { return &node{} }; return &node{grow(n - 1), grow(n - 1)} }
func (n *node) count() int { if n.left == nil { return 1 }; return 1 + n.left.count() + n.right.count() }
func main() {
    answers := make(chan int)
    for i := 0; i < 8; i++ { go func() { s := 0; for k := 0; k < 20; k++ { s += grow(12).count() }; answers <- s }() }
    sum := 0
    for i := 0; i < 8; i++ { sum += <-answers }
    fmt.Println(sum)
}
"""
OCAML = """type tree = Leaf | Node of tree * int * tree
let rec grow n = if n = 0 then Leaf else Node (grow (n - 1), n, grow (n - 1))
let rec sum = function Leaf -> 0 | Node (l, n, r) -> sum l + n + sum r
exception Found of int
let rec find n = if n = 0 then raise (Found 7) else 1 + find (n - 1)
let () =
  let total = ref 0 in
  for _ = 1 to 60 do
    total := !total + sum (grow 14) + (try find 1000 with Found n -> n)
  done;
  Printf.printf "%d\\n" !total
"""
JAVA = """import java.util.*;
public class Work {
    static long work(int seed) {
        Map<Integer, String> map = new HashMap<>();
        for (int i = 0; i < 200000; i++) map.put(i * seed, Integer.toString(i));
        long sum = 0;
        for (Map.Entry<Integer, String> e : map.entrySet()) sum += e.getKey() * 31L + e.getValue().length();
        return sum;
    }
    public static void main(String[] a) throws Exception {
        long[] sums = new long[4];
        Thread[] threads = new Thread[4];
        for (int i = 0; i < 4; i++) { int k = i; threads[i] = new Thread(() -> sums[k] = work(k + 1)); threads[i].start(); }
        for (Thread t : threads) t.join();
        System.out.println(Arrays.toString(sums));
        System.exit(5);
    }
}
"""
MONO = """using System;
using System.Collections.Generic;
class Work {
    static int Find(int n) { if (n == 0) throw new InvalidOperationException("end"); return 1 + Find(n - 1); }
    static int Main() {
        var map = new Dictionary<int, string>();
        long sum = 0;
        for (int i = 0; i < 200000; i++) map[i * 7] = i.ToString();
        foreach (var e in map) sum += e.Key + e.Value.Length;
        for (int i = 0; i < 100; i++) try { Find(50); } catch (InvalidOperationException) { sum++; }
        Console.WriteLine(sum);
        return 6;
    }
}
"""
NODE = """
const m = new Map();
for (let i = 0; i < 300000; i++) m.set("k" + i % 5000, (m.get("k" + i % 5000) || 0) + Math.sqrt(i));
let s = 0;
for (const v of m.values()) s += v;
function deep(n) { return n ? 1 + deep(n - 1) : 0; }
try { deep(1e6); } catch (e) { console.log(e.constructor.name); }
require("crypto").pbkdf2("a", "b", 20000, 32, "sha256", (e, k) => { console.log(s.toFixed(3), k.toString("hex")); process.exit(4); });
"""
POSTGRES = """create temp table t (a int, b text);
insert into t select i, repeat(md5(i::text), 3) from generate_series(1, 30000) i;
create index on t (b);
select count(*), sum(length(x.b)) from t x join t y on x.b = y.b;
select sum(a) from t where b like '%ab%';
"""
SSHD = """
import os, subprocess, sys, time
folder = sys.argv[1]
port = 20000 + os.getpid() % 20000
server = subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", folder + "/sshd_config", "-p", str(port)],
                          stderr=subprocess.DEVNULL)
ssh = ["ssh", "-F", "none", "-p", str(port), "-i", folder + "/key", "-o", "StrictHostKeyChecking=no",
       "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "BatchMode=yes", "127.0.0.1"]
for _ in range(300):
    if subprocess.run(ssh + ["true"], stderr=subprocess.DEVNULL).returncode == 0: break
    time.sleep(0.1)
logins = [subprocess.Popen(ssh + ["head -c 300000 /dev/zero | sha256sum; exit %d" % i], stdout=subprocess.PIPE)
          for i in range(6)]
print(sorted((l.communicate()[0], l.returncode) for l in logins))
server.terminate()
server.wait()
"""


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def run(folder, *command, **env):
    subprocess.run(command, cwd=folder, check=True, capture_output=True,
                   env={**os.environ, "HOME": folder, "GOCACHE": folder + "/go", "GO111MODULE": "off", **env})


class Guest:
    def __init__(self, name, prepare, command, samples=True, needs=(), as_user=False, modes=None):
        self.name, self.prepare, self.command, self.samples = name, prepare, command, samples
        self.needs, self.as_user, self.modes = needs, as_user, modes

    def missing(self):
        return [name for name in self.needs if not shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/usr/local/bin")]


def compiled(name, compiler, *flags, samples=True):
    def prepare(folder):
        write(folder, "work.c", WORK_C)
        run(folder, compiler, "-O1", "-g", "-o", "work", *flags, "work.c")
    return Guest(name, prepare, lambda folder: ["./work"], needs=[compiler], samples=samples)


def go(name, cgo):
    def prepare(folder):
        if cgo:
            shutil.copy(os.path.join(torture, "r49_go.go"), os.path.join(folder, "work.go"))
        else:
            write(folder, "work.go", GO)
        run(folder, "go", "build", "-o", "work", "work.go", CGO_ENABLED=str(int(cgo)))
    return Guest(name, prepare, lambda folder: ["./work"], needs=["go"])


def prepare_ocaml(folder):
    write(folder, "work.ml", OCAML)
    run(folder, "ocamlfind" if shutil.which("ocamlfind") else "ocamlopt", *(
        ["ocamlopt"] if shutil.which("ocamlfind") else []), "-o", "work", "work.ml")


def prepare_java(folder):
    write(folder, "Work.java", JAVA)
    run(folder, "javac", "Work.java")


def prepare_mono(folder):
    write(folder, "work.cs", MONO)
    run(folder, "mcs", "-out:work.exe", "work.cs")


def prepare_work(folder):
    write(folder, "work.c", WORK_C)
    run(folder, "gcc", "-O1", "-g", "-o", "work", "work.c")


def prepare_sshd(folder):
    run(folder, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder + "/key")
    run(folder, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder + "/host")
    shutil.copy(folder + "/key.pub", folder + "/authorized")
    os.makedirs("/run/sshd", exist_ok=True)
    write(folder, "sshd_config", "ListenAddress 127.0.0.1\nHostKey %s/host\nAuthorizedKeysFile %s/authorized\n"
          "StrictModes no\nUsePAM no\nPermitRootLogin yes\nPidFile none\n" % (folder, folder))
    write(folder, "logins.py", SSHD)


def prepare_postgres(folder):
    write(folder, "work.sql", POSTGRES.replace(";\n", ";\n\n"))
    shutil.chown(folder, "postgres")
    run(folder, "setpriv", "--reuid=postgres", "--clear-groups", initdb(), "-D", folder + "/data", "-A", "trust")


def initdb():
    versions = sorted(os.listdir("/usr/lib/postgresql"))
    return "/usr/lib/postgresql/%s/bin/initdb" % versions[-1]


def postgres_command(folder):
    """A server of one session, without a socket."""
    return ["sh", "-c", "%s --single -j -D %s/data postgres <%s/work.sql 2>&1 | grep -v LOG" %
            (initdb().replace("initdb", "postgres"), folder, folder)]


def prepare_chromium(folder):
    write(folder, "page.html", "<body><script>let s = 0; for (let i = 0; i < 3e6; i++) s = (s * 31 + i) % 65521;"
                               "document.body.textContent = 'sum ' + s;</script>")


def prepare_node(folder):
    write(folder, "work.js", NODE)


GUESTS = [
    go("go_cgo", True),
    go("go_static", False),
    Guest("ocaml", prepare_ocaml, lambda folder: ["./work"], needs=["ocamlopt"]),
    compiled("musl", "musl-gcc"),
    compiled("musl_static", "musl-gcc", "-static"),
    compiled("glibc_static", "gcc", "-static"),
    Guest("sshd", prepare_sshd, lambda folder: [sys.executable, folder + "/logins.py", folder], needs=["sshd", "ssh"]),
    Guest("mono", prepare_mono, lambda folder: ["mono", "work.exe"], needs=["mono", "mcs"]),
    Guest("java", prepare_java, lambda folder: ["java", "-Xmx256m", "-cp", folder, "Work"], needs=["java", "javac"]),
    Guest("node", prepare_node, lambda folder: ["node", "work.js"], needs=["node"]),
    Guest("chromium", prepare_chromium, lambda folder: [
        "sh", "-c", "chromium --headless --no-sandbox --disable-gpu --user-data-dir=%s/profile --dump-dom "
        "file://%s/page.html 2>/dev/null" % (folder, folder)], needs=["chromium"]),
    Guest("postgres", prepare_postgres, postgres_command, needs=["postgres", "setpriv"], as_user="postgres"),
    Guest("valgrind", prepare_work, lambda folder: ["valgrind", "-q", "--tool=none", "./work"], needs=["valgrind"]),
    Guest("gdb", prepare_work, lambda folder: [
        "gdb", "-nx", "-q", "-batch", "-ex", "break main", "-ex", "run", "-ex", "next", "-ex", "kill", "./work"],
        needs=["gdb"], samples=False),
    compiled("gcc_asan", "gcc", "-fsanitize=address"),
    compiled("gcc_tsan", "gcc", "-fsanitize=thread"),
    compiled("gcc_lsan", "gcc", "-fsanitize=leak"),
    compiled("gcc_ubsan", "gcc", "-fsanitize=undefined"),
    compiled("clang_asan", "clang", "-fsanitize=address"),
    compiled("clang_tsan", "clang", "-fsanitize=thread"),
    compiled("clang_msan", "clang", "-fsanitize=memory"),
    compiled("clang_ubsan", "clang", "-fsanitize=undefined"),
]
