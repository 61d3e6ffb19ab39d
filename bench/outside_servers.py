#!/usr/bin/env python3
"""What a recording costs redis, nginx and postgres under load, beside perf record -g: CPU time for each answer, in short windows
in turn within one run of the server. Arguments: the build folder, servers (all). ROUNDS (100) sets how many windows of each kind.

Server and client stay on one processor, and their CPU times count together: then it is all there, what a switch of threads costs
the thread that leaves, too, and nothing of what others do. The recorder is attached for each window anew; it runs on the other
processor."""
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile

build = os.path.abspath(sys.argv[1])
ROUNDS = int(os.environ.get("ROUNDS", "100"))
WINDOW_NS, WARM = 1e8, {"": 1, "calltrail": 8, "perf": 1}
calltrail = os.path.join(build, "calltrail")
SERVER, TOOL = {0}, {1}


def find(name):
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/usr/lib/postgresql/15/bin:/usr/lib/postgresql/17/bin")


def on(processors):
    return lambda: os.sched_setaffinity(0, processors)


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        return [int(word) for word in file.read().split()]


def ran_ns(pids):
    """By all their threads."""
    total = 0
    for pid in pids:
        for tid in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/schedstat" % (pid, tid)) as file:
                total += int(file.read().split()[0])
    return total


def answer_to(address, greeting, request, is_whole):
    """The lengths of the answers to both."""
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(60)
        one.connect(address)
        lengths = []
        for words in greeting, request:
            got = b""
            if words:
                one.sendall(words)
                while not is_whole(got):
                    got += one.recv(65536)
            lengths.append(len(got))
    return lengths


class Server:
    greeting = b""

    def start(self, folder, *command, **options):
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=on(SERVER),
                                        cwd=folder, **options)
        while True:
            try:
                with socket.socket(socket.AF_UNIX) as one:
                    one.connect(self.address)
                return
            except OSError:
                if self.process.poll() is not None:
                    sys.exit("%s does not start" % command[0])

    def pids(self, before):
        return [self.process.pid] + children(self.process.pid)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


class Redis(Server):
    """A value of 100 bytes is read."""
    needs = "redis-server"
    request = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n"

    def __init__(self, folder):
        self.address = folder + "/redis"
        self.start(folder, find("redis-server"), "--port", "0", "--unixsocket", self.address, "--save", "", "--dir", folder)
        answer_to(self.address, b"", b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$100\r\n" + b"x" * 100 + b"\r\n", self.is_whole)

    def is_whole(self, got):
        return got.endswith(b"\r\n") and (got[:1] != b"$" or len(got) > 10)


class Nginx(Server):
    """A page of 3 KB, by one worker."""
    needs = "nginx"
    request = b"GET /page.txt HTTP/1.1\r\nHost: a\r\n\r\n"

    def __init__(self, folder):
        self.address = folder + "/nginx"
        with open(folder + "/page.txt", "w") as file:
            file.write("x" * 2999 + "\n")
        with open(folder + "/nginx.conf", "w") as file:
            file.write("daemon off; worker_processes 1; pid %s/pid; error_log %s/log; user root;\nevents { worker_connections 64; }\n"
                       "http { access_log off; keepalive_requests 1000000000; keepalive_time 1000h;\n"
                       "server { listen unix:%s; root %s; } }\n" % (folder, folder, self.address, folder))
        self.start(folder, find("nginx"), "-c", folder + "/nginx.conf", "-e", folder + "/log")

    def is_whole(self, got):
        return got.endswith(b"x\n")


class Postgres(Server):
    """Rows are looked for by a key, and summed up."""
    needs = "postgres"
    greeting = (lambda text: (len(text) + 8).to_bytes(4, "big") + (196608).to_bytes(4, "big") + text)(
        b"user\0bench\0database\0postgres\0\0")

    def query(self, text):
        return b"Q" + (len(text) + 5).to_bytes(4, "big") + text + b"\0"

    def __init__(self, folder):
        user = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
        os.chmod(folder, 0o777)
        subprocess.run([find("initdb"), "-N", "-A", "trust", "-U", "bench", "-D", folder + "/data"], check=True, **user,
                       stdout=subprocess.DEVNULL)
        self.address = folder + "/.s.PGSQL.5432"
        self.start(folder, find("postgres"), "-D", folder + "/data", "-k", folder, "-c", "listen_addresses=", "-c", "autovacuum=off",
                   "-c", "bgwriter_delay=10s", **user)
        made = None
        while not made:  # it listens before it takes connections
            try:
                made = answer_to(self.address, self.greeting, self.query(
                    b"create table t as select i, i % 100 as k from generate_series(1, 10000) i; create index on t (i); analyze t"),
                    self.is_whole)
            except OSError:
                pass
        self.request = self.query(b"select sum(k) from t where i between 5000 and 5020")

    def is_whole(self, got):
        if got and b"FATAL" in got:
            raise OSError
        return got[-6:-1] == b"Z\0\0\0\x05"

    def pids(self, before):
        """The process that answers this client."""
        return [pid for pid in children(self.process.pid) if pid not in before]


class Recorder:
    def __init__(self, name, pids, folder):
        self.name = name
        words = ",".join(map(str, pids))
        if name == "perf":
            control, self.told = os.pipe()
            self.answers, answer = os.pipe()
            self.process = subprocess.Popen(["perf", "record", "-q", "-F", "999", "-g", "-D", "-1", "-o", folder + "/perf.data",
                                             "--control", "fd:%d,%d" % (control, answer), "-p", words], preexec_fn=on(TOOL),
                                            pass_fds=(control, answer), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            os.close(control)
            os.close(answer)
            os.write(self.told, b"enable\n")
            os.read(self.answers, 100)
        elif name:
            self.process = subprocess.Popen([calltrail, "record", "--no-lines", "-o", folder + "/p.ctp", "-p", words],
                                            preexec_fn=on(TOOL), stderr=subprocess.PIPE)
            self.process.stderr.readline()

    def end(self):
        if not self.name:
            return
        self.process.send_signal(signal.SIGINT)
        self.process.communicate()
        if self.name == "perf":
            os.close(self.told)
            os.close(self.answers)


def interval(ratios):
    """Of the median, by bootstrap, at 95%."""
    chosen = random.Random(3)
    medians = sorted(statistics.median(chosen.choices(ratios, k=len(ratios))) for _ in range(2000))
    return statistics.median(ratios), medians[49], medians[1949]


def measure(kind, folder):
    """Are there no fewer answers than with perf?"""
    server = kind(folder)
    lengths = answer_to(server.address, server.greeting, server.request, server.is_whole)
    for name, words in ("greeting", server.greeting), ("request", server.request):
        with open(folder + "/" + name, "wb") as file:
            file.write(words)
    before = children(server.process.pid)
    client = subprocess.Popen([build + "/bench/outside_ask", server.address, folder + "/greeting", str(lengths[0]),
                               folder + "/request", str(lengths[1])], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              preexec_fn=on(SERVER))
    client.stdout.readline()
    pids = server.pids(before)

    def ask(count):
        """CPU time for each answer."""
        ran = ran_ns(pids)
        client.stdin.write("%d\n" % count)
        client.stdin.flush()
        own = int(client.stdout.readline())
        return (own + ran_ns(pids) - ran) / count

    count = int(WINDOW_NS / [ask(1000) for _ in range(5)][-1])
    took = {"": [], "calltrail": [], "perf": []}
    chosen = random.Random(1)
    for _ in range(ROUNDS):
        for name in chosen.sample(sorted(took), len(took)):
            recorder = Recorder(name, pids, folder)
            for _ in range(WARM[name]):  # until a recording has seen how often threads are switched
                ask(count)
            took[name].append(ask(count))
            recorder.end()
    client.stdin.close()
    client.wait()
    server.stop()
    ratios = [interval([b / a for a, b in zip(took[one], took[other])])
              for one, other in (("calltrail", ""), ("perf", ""), ("calltrail", "perf"))]
    print("| %s | %d x %d | %.1f | %s |" % (kind.__name__.lower(), ROUNDS, count, statistics.median(took[""]) / 1e3,
                                            " | ".join("%.3f (%.3f to %.3f)" % ratio for ratio in ratios)))
    sys.stdout.flush()
    return ratios[-1][2] >= 1


def main():
    print("Answers for the CPU time of server and client, by ratios of windows of one round: median, and its 95%% interval. Load %s.\n" %
          " ".join(map(str, os.getloadavg())))
    print("| server | windows, answers in each | us for an answer, plain | calltrail / plain | perf -g / plain | calltrail / perf -g |")
    print("|---|---|---:|---|---|---|")
    none_is_slower = True
    for kind in Redis, Nginx, Postgres:
        if sys.argv[2:] and kind.__name__.lower() not in sys.argv[2:]:
            continue
        if not find(kind.needs) or not find("perf"):
            print("| %s | not installed | | | | |" % kind.__name__.lower())
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.environ["XDG_CACHE_HOME"] = folder + "/cache"
            none_is_slower &= measure(kind, folder)
    return not none_is_slower


sys.exit(main())
