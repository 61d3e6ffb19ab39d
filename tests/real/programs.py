"""Real programs from Debian's packages, stripped, each with a workload that is made here.

A workload grows with its scale, and the same scale gives the same work: the same output, under whatever user.
"""
import os
import random
import socket
import subprocess
import time
import urllib.request

sources = os.path.dirname(os.path.abspath(__file__))
START_TIMEOUT_S = 60


class Program:
    """`prepare(folder, scale)` makes the inputs; `command(folder, scale)` runs in an empty folder."""

    def __init__(self, name, command, prepare=None, outputs=(), stderr=True, jit=False, serve=None,
                 scale=None, loads=()):
        self.name, self.command, self.prepare = name, command, prepare
        self.loads = loads      # libraries that it loads late, so large that their maps take seconds
        self.scale = scale      # its own; for programs whose children's time is not in theirs
        self.outputs = outputs  # files that it writes, beside its standard output
        self.stderr = stderr    # whether its standard error is the same each time
        self.jit = jit          # makes code at run time, which nothing describes
        self.serve = serve      # a server: does the load, stops it, and returns what it answered


def source(name):
    return os.path.join(sources, name)


def write(path, *parts):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(parts)


def text_file(folder):
    """8 MB of words and numbers: like a log, neither random nor a repetition."""
    path = os.path.join(folder, "text")
    if not os.path.exists(path):
        r = random.Random(1)
        words = ["".join(r.choices("etaoinshrdlucmfwyp", k=r.randint(2, 9))) for _ in range(5000)]
        weights = [1 / (i + 1) for i in range(len(words))]
        lines = ("%d %s %x\n" % (i, " ".join(r.choices(words, weights, k=8)), r.getrandbits(24))
                 for i in range(120000))
        write(path, *lines)
    return path


def make_sql(folder, scale):
    with open(source("work.sql"), encoding="utf-8") as file:
        write(os.path.join(folder, "work.sql"), file.read().replace("@ROWS@", str(20000 * scale)))


def make_c(folder, scale):
    """A preprocessed file of many functions: loops, switches, structs, floating point, calls."""
    r = random.Random(2)
    out = ["struct item { int kind; double weight; struct item *next; char name[16]; };\n"
           "typedef unsigned long size;\nvoid *malloc(size);\nint puts(const char *);\n"
           "static int table[64];\n"]
    for i in range(25 * scale):
        callee = "f%d" % r.randrange(i) if i else "puts_it"
        cases = "".join("    case %d: sum += x * %d; it->weight %s= %d.5; break;\n" % (
            k, r.randrange(99), r.choice("+-*"), r.randrange(9)) for k in range(r.randint(2, 9)))
        fields = ", ".join(str(r.randrange(1000)) for _ in range(8))
        out.append(
            "%sint f%d(int x, struct item *it)\n{\n    int v[8] = {%s};\n    int sum = %d;\n"
            "    for (int i = 0; i < x; i++) {\n        sum ^= v[i & 7] << (i & %d);\n"
            "        for (struct item *p = it; p; p = p->next)\n"
            "            if (p->kind %s i) sum += table[(sum + i) & 63] + p->name[i & 15];\n    }\n"
            "    switch (x & 15) {\n%s    default: it->kind = sum %% %d;\n    }\n"
            "    return %s;\n}\n" % (
                r.choice(["", "", "static "]), i, fields, i, r.randint(3, 15),
                r.choice(["<", ">", "=="]), cases, r.randint(2, 99),
                "sum" if not i else "sum + %s(x - 1, it->next)" % callee))
    write(os.path.join(folder, "big.i"), *out)


def make_video(folder, scale):
    """CIF frames: noise that moves over a gradient."""
    r = random.Random(3)
    width, height = 352, 288
    noise = bytes(r.choices(range(16, 60), k=2 * width * height))
    ramp = [bytes(min(235, 60 + (x + y) // 4) for x in range(2 * width)) for y in range(height)]
    with open(os.path.join(folder, "in.y4m"), "wb") as file:
        file.write(b"YUV4MPEG2 W%d H%d F25:1 Ip A1:1 C420jpeg\n" % (width, height))
        for n in range(8 * scale):
            file.write(b"FRAME\n")
            for y in range(height):
                line = bytearray(ramp[(y + n) % height][n % width:n % width + width])
                at = (n * 3) % width
                if y % 96 < 48:
                    begin = (y * width + n * 7) % (width * height)
                    line[at // 2:at // 2 + 120] = noise[begin:begin + 120]
                file.write(line[:width])
            file.write(bytes((100 + n % 50,)) * (width * height // 4))
            file.write(bytes((150 - n % 50,)) * (width * height // 4))


def run_tool(command, **how):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **how)
    if done.returncode:
        raise RuntimeError("%s: %s" % (command[0], (done.stderr or done.stdout).strip()))
    return done.stdout


def wait_for(connect, process):
    """Until the server takes connections."""
    give_up = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            return connect().close()
        except OSError:
            if time.monotonic() > give_up or process.poll() is not None:
                raise RuntimeError("the server does not answer") from None
            time.sleep(0.01)


def serve_redis(folder, scale, process):
    path = os.path.join(folder, "redis.sock")

    def connect():
        s = socket.socket(socket.AF_UNIX)
        s.connect(path)
        return s
    wait_for(connect, process)
    cli = ["redis-cli", "-s", path]
    commands = ["SET k%d v%d\nZADD z %d m%d\nHSET h%d f %d\n" % (i, i, i * 7919 % 1009, i, i % 50, i)
                for i in range(2000)]
    run_tool(cli, input="".join(commands))
    run_tool(["redis-benchmark", "-s", path, "-q", "-n", str(2000 * scale), "-P", "16", "-c", "20",
              "-t", "set,get,incr,lpush,rpush,lpop,sadd,hset,spop,zadd,lrange_100,mset"])
    queries = ("GET k77\nZRANGE z 0 20 WITHSCORES\nHGETALL h7\nDBSIZE\nLLEN mylist\nSCARD myset\n"
               "GET counter:__rand_int__\nSORT z BY nosort LIMIT 0 5\n"
               "EVAL \"local s = 0 for i = 1, 2000 do s = s + #redis.call('GET', 'k' .. (i - 1)) end "
               "return s\" 0\nDEBUG DIGEST\n")
    answer = run_tool(cli, input=queries)
    run_tool(cli + ["SHUTDOWN", "NOSAVE"])
    return answer


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def make_site(folder, scale):
    site = os.path.join(folder, "site")
    os.makedirs(site, exist_ok=True)
    with open(text_file(folder), encoding="utf-8") as file:
        text = file.read(60000)
    write(os.path.join(site, "big.txt"), text)
    write(os.path.join(site, "small.txt"), text[:500])
    write(os.path.join(site, "part.html"), text[:2000])
    write(os.path.join(site, "page.shtml"), *['<!--# include file="part.html" -->\n'
                                              '<!--# echo var="uri" -->\n'] * 10)
    for path in (folder, site):
        os.chmod(path, 0o755)
    write(os.path.join(folder, "port"), str(free_port()))
    with open(source("nginx.conf"), encoding="utf-8") as file:
        conf = file.read()
    with open(os.path.join(folder, "port"), encoding="utf-8") as file:
        conf = conf.replace("@PORT@", file.read())
    write(os.path.join(folder, "nginx.conf"), conf.replace("@SITE@", site))


def serve_nginx(folder, scale, process):
    inputs = os.path.join(os.path.dirname(folder), "inputs")
    with open(os.path.join(inputs, "port"), encoding="utf-8") as file:
        port = int(file.read())
    wait_for(lambda: socket.create_connection(("127.0.0.1", port)), process)
    address = "http://127.0.0.1:%d/" % port
    answer = ""
    for name in ("big.txt", "small.txt", "page.shtml", "old/small.txt"):
        said = run_tool(["ab", "-q", "-k", "-c", "8", "-n", str(40 * scale), "-H",
                         "Accept-Encoding: gzip", address + name])
        answer += "".join(line + "\n" for line in said.split("\n")
                          if line.startswith(("Complete", "Failed", "Non-2xx", "HTML transf")))
        with urllib.request.urlopen(address + name) as page:
            answer += page.read().decode()
    # The master's own pid, from the file that it writes; it lets its workers finish.
    with open(os.path.join(folder, "nginx.pid"), encoding="utf-8") as file:
        os.kill(int(file.read()), 3)
    return answer


def firefox(page):
    def command(folder, scale):
        run = os.path.join(os.path.dirname(folder), "run")  # it wants whole paths
        return ["firefox-esr", "--headless", "--no-remote", "--profile", run + "/profile",
                "--window-size=800,600", "--screenshot", run + "/page.png",
                "file://%s#%d" % (source(page), scale)]
    return command


def cc1():
    return run_tool(["gcc", "-print-prog-name=cc1"]).strip()


PROGRAMS = [
    Program("perl", lambda f, n: ["/usr/bin/perl", source("work.pl"), str(4 * n)]),
    Program("python3", lambda f, n: ["/usr/bin/python3", source("work.py"), str(5 * n)]),
    Program("lua5.4", lambda f, n: ["lua5.4", source("work.lua"), str(3 * n)]),
    Program("cc1", lambda f, n: [cc1(), "-quiet", "-O2", "-w", "-fpreprocessed",
                                 os.path.join(f, "big.i"), "-o", "big.s"],
            make_c, outputs=("big.s",)),
    Program("sqlite3", lambda f, n: ["sqlite3", "-bail", "base.db", ".read %s/work.sql" % f],
            make_sql, outputs=("base.db",)),
    Program("bzip2", lambda f, n: ["bzip2", "-9", "-c"] + [os.path.join(f, "text")] * (n // 2 or 1),
            lambda f, n: text_file(f)),
    Program("xz", lambda f, n: ["xz", "-T2", "-4", "--block-size=1MiB", "-c"] +
            [os.path.join(f, "text")] * (n // 4 or 1), lambda f, n: text_file(f)),
    Program("povray", lambda f, n: ["povray", "+I" + source("scene.pov"), "+Oscene.bmp", "+FB", "-D",
                                    "+WT2", "+W200", "+H%d" % (10 * n)],
            outputs=("scene.bmp",), stderr=False),
    Program("x264", lambda f, n: ["x264", "--quiet", "--no-progress", "--threads", "2", "--preset",
                                  "medium", "-o", "out.264", os.path.join(f, "in.y4m")],
            make_video, outputs=("out.264",), stderr=False),
    Program("redis-server", lambda f, n: ["redis-server", "--port", "0", "--unixsocket", "redis.sock",
                                          "--save", "", "--enable-debug-command", "yes",
                                          "--logfile", "redis.log"], serve=serve_redis),
    Program("nginx", lambda f, n: ["/usr/sbin/nginx", "-p", ".", "-c", f + "/nginx.conf"],
            make_site, serve=serve_nginx),
    Program("firefox-dom", firefox("page_dom.html"), outputs=("page.png",), jit=True,
            scale=150, loads=("/usr/lib/firefox-esr/libxul.so",)),
    Program("firefox-js", firefox("page_js.html"), outputs=("page.png",), jit=True,
            scale=450, loads=("/usr/lib/firefox-esr/libxul.so",)),
]
