"""
redis, nginx and postgres under load, recorded with -p: attached to and detached from at random moments, with every
answer checked; and how many answers they give for their CPU time, beside perf record -g (bench/outside_servers.py).
Arguments: a folder for their files, and what to run of the checks (all). ROUNDS (200) and PAIRS (20) set how often.
"""
import os
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading

from harness import Recorder, calltrail, facts, must, path, profile, run, run_checks

ROUNDS = int(os.environ.get("ROUNDS", "200"))
PAIRS = os.environ.get("PAIRS", "20")
USER = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"] if os.geteuid() == 0 else []


def find(name):
    folders = os.environ["PATH"] + ":/usr/sbin:/usr/lib/postgresql/15/bin:/usr/lib/postgresql/17/bin"
    return shutil.which(name, path=folders)


class Lines:
    """Bytes from a socket, by pieces of a known length or up to a mark."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(address)
        self.bytes = b""

    def more(self):
        got = self.socket.recv(65536)
        if not got:
            raise OSError("the connection has ended")
        self.bytes += got

    def until(self, mark):
        while mark not in self.bytes:
            self.more()
        line, self.bytes = self.bytes.split(mark, 1)
        return line

    def take(self, count):
        while len(self.bytes) < count:
            self.more()
        piece, self.bytes = self.bytes[:count], self.bytes[count:]
        return piece


def new_address(name):
    """Of a socket that is not there yet."""
    if os.path.exists(path(name)):
        os.unlink(path(name))
    return path(name)


class Redis:
    needs = ["redis-server"]

    def __init__(self):
        self.address = new_address("redis.socket")
        self.process = subprocess.Popen([find("redis-server"), "--port", "0", "--unixsocket", self.address, "--save", "",
                                         "--appendonly", "no", "--dir", path("")], stdout=subprocess.DEVNULL)

    def ask(self, chosen, connection):
        """A value is set, changed and read back."""
        own = connection.socket.fileno()  # no other client has these keys
        key, value = b"k%d.%d" % (own, chosen.randrange(10000)), b"%x" % chosen.randrange(2 ** 200)
        for words, expected in (((b"SET", key, value), b"+OK"), ((b"APPEND", key, b"!"), b":%d" % (len(value) + 1)),
                                ((b"GET", key), None)):
            connection.socket.sendall(b"*%d\r\n" % len(words) +
                                      b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
            got = connection.until(b"\r\n")
            if expected is None:
                must(got == b"$%d" % (len(value) + 1) and connection.take(len(value) + 3) == value + b"!\r\n", str(got))
            else:
                must(got == expected, "%s, not %s" % (got, expected))


class Nginx:
    needs = ["nginx"]

    def __init__(self):
        self.address = new_address("nginx.socket")
        self.page = bytes(random.Random(1).randrange(97, 123) for _ in range(3000))
        with open(path("page.txt"), "wb") as file:
            file.write(self.page)
        with open(path("nginx.conf"), "w") as file:
            file.write("daemon off; worker_processes 2; pid %s; error_log %s; user root;\n"
                       "events { worker_connections 64; }\n"
                       "http { access_log off; gzip on; gzip_types text/plain; default_type text/plain;\n"
                       "keepalive_requests 1000000000; client_body_temp_path %s; proxy_temp_path %s; fastcgi_temp_path %s;\n"
                       "uwsgi_temp_path %s; scgi_temp_path %s; server { listen unix:%s; root %s; } }\n" %
                       (path("nginx.pid"), path("nginx.log"), *[path("nginx-%d" % i) for i in range(5)],
                        self.address, path("")))
        self.process = subprocess.Popen([find("nginx"), "-c", path("nginx.conf")], stderr=subprocess.DEVNULL)

    def ask(self, chosen, connection):
        start = chosen.randrange(1000)
        connection.socket.sendall(b"GET /page.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=%d-\r\n\r\n" % start)
        head = connection.until(b"\r\n\r\n")
        must(head.startswith(b"HTTP/1.1 206"), str(head))
        length = int(re.search(rb"Content-Length: (\d+)", head).group(1))
        must(connection.take(length) == self.page[start:], "another page")


class Postgres:
    needs = ["postgres", "initdb", "pgbench"]

    def __init__(self):
        folder = path("postgres")
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        os.chmod(path(""), 0o755)
        if USER:
            shutil.chown(folder, "nobody")
        made = run([*USER, find("initdb"), "-N", "-A", "trust", "-U", "bench", "-D", folder + "/data"])
        must(made.returncode == 0, made.stderr)
        self.address = folder + "/.s.PGSQL.5432"
        self.process = subprocess.Popen([*USER, find("postgres"), "-D", folder + "/data", "-k", folder, "-c",
                                         "listen_addresses=", "-c", "fsync=off"], stderr=subprocess.DEVNULL)
        self.client = [*USER, find("pgbench"), "-h", folder, "-U", "bench", "postgres"]
        self.is_filled = False

    def ask(self, chosen, connection):
        """Transactions of pgbench, each of seven statements; it says which failed."""
        if not self.is_filled:
            made = run([*self.client, "-i", "-q"])
            must(made.returncode == 0, made.stderr)
            self.is_filled = True
        done = run([*self.client, "-c", "2", "-t", "10", "-n"])
        must(done.returncode == 0 and "number of failed transactions: 0 " in done.stdout and
             "transactions actually processed: 20/20" in done.stdout, done.stdout + done.stderr)


class Load:
    """A server, and clients that ask until it is left."""

    def __init__(self, kind):
        self.server, self.stop = kind(), threading.Event()
        self.wrong, self.answered = [], [0, 0]
        while not self.listens():
            must(self.server.process.poll() is None, "it does not start")
            select.select([], [], [], 0.01)
        count = 1 if kind is Postgres else 2
        self.clients = [threading.Thread(target=self.ask, args=(number,)) for number in range(count)]

    def listens(self):
        """Its socket is there before it can be connected to."""
        try:
            Lines(self.server.address).socket.close()
            return True
        except OSError:
            return False

    def ask(self, number):
        chosen = random.Random(number)
        try:
            connection = Lines(self.server.address)
            while not self.stop.is_set():
                self.server.ask(chosen, connection)
                self.answered[number] += 1
        except Exception as error:  # whatever it is, a request has failed
            self.wrong.append(repr(error))

    def must_be_right(self):
        must(not self.wrong and self.server.process.poll() is None, "failed: %s" % self.wrong[:3])

    def __enter__(self):
        for client in self.clients:
            client.start()
        while min(self.answered[:len(self.clients)]) < 1:
            self.must_be_right()
            select.select([], [], [], 0.01)
        return self

    def __exit__(self, *why):
        self.stop.set()
        for client in self.clients:
            client.join()
        self.server.process.send_signal(signal.SIGTERM)
        self.server.process.wait()


def missing(kind):
    absent = [name for name in kind.needs if not find(name)]
    return "%s is not installed" % absent[0] if absent else None


def attach_and_detach(kind):
    def check():
        if missing(kind):
            return missing(kind)
        chosen, samples = random.Random(7), 0
        with Load(kind) as load:
            for _ in range(ROUNDS):
                select.select([], [], [], chosen.random() * 0.05)
                recorder = Recorder("--no-lines", "-p", str(load.server.process.pid))
                must("calltrail: recording" in recorder.first, recorder.first)
                select.select([], [], [], chosen.random() * 0.1)
                recorder.process.send_signal(signal.SIGINT)
                must(recorder.end() == 0, recorder.errors)
                p = facts()
                must(p["verify_differ"] == 0, "%d differ" % p["verify_differ"])
                samples += p["samples"]
                load.must_be_right()
            answered = sum(load.answered)
        must(not load.wrong, str(load.wrong[:3]))
        must(samples > 0 and answered > 0, "%d samples, %d answers" % (samples, answered))
        print("  %s: %d times, %d answers, all right; %d samples" % (kind.__name__, ROUNDS, answered, samples))
    return check


def throughput():
    """CPU time for each answer beside perf record -g: the bench fails where it is more."""
    if not shutil.which("perf"):
        return "perf is not installed"
    bench = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "bench/outside_servers.py")
    done = subprocess.run([sys.executable, bench, os.path.dirname(calltrail)], capture_output=True, text=True,
                          env={**os.environ, "ROUNDS": PAIRS})
    print("  " + done.stdout.strip().replace("\n", "\n  "))
    must(done.returncode == 0, done.stderr[-500:])
    return None


run_checks([("%s: attached and detached under load" % kind.__name__.lower(), attach_and_detach(kind))
            for kind in (Redis, Nginx, Postgres)] + [("throughput beside perf record -g", throughput)])
