#!/usr/bin/env python3
"""What the clients of contexts (examples/context_*) cost: user CPU time of sqlite3, in turn.

    bench/clients.py [ROUNDS]

Each round runs sqlite3 plain, recorded by engine encode, and recorded with a client that counts every allocation, or
looks at the context of every file that is opened. Medians, and the ratios to the run without client.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CALLTRAIL = os.environ.get("CALLTRAIL", os.path.join(HERE, "build/calltrail"))
SQL = """create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 400000)
insert into t select i, 'x' || (i * 7919 % 10007), i * 1.5 from n; create index tb on t(b);
select count(*), sum(c) from t; select count(*) from t x join t y on x.a = y.a + 1 where x.b < y.b;"""


def plain(words, environment):
    before = os.times().children_user
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    return os.times().children_user - before


def recorded(words, environment, profile):
    subprocess.run([CALLTRAIL, "record", "--no-lines", "--engine", "encode", "-o", profile, *words], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    info = subprocess.run([CALLTRAIL, "info", "--json", profile], check=True, stdout=subprocess.PIPE)
    return json.loads(info.stdout)["utime_s"]


with tempfile.TemporaryDirectory() as work:
    environments = {"no client": dict(os.environ)}
    for name in ("malloc", "guard"):
        library = os.path.join(work, name + ".so")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-I" + os.path.join(HERE, "include"), "-o", library,
                        os.path.join(HERE, "examples", "context_%s.c" % name)], check=True)
        environments[name] = dict(os.environ, LD_PRELOAD=library, CONTEXT_GUARD=os.path.join(work, "keys"),
                                  CONTEXT_GUARD_LEARN="1")
    words = ["sqlite3", ":memory:", SQL]
    times = {name: [] for name in ["plain", *environments]}
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 9):
        times["plain"].append(plain(words, environments["no client"]))
        for name, environment in environments.items():
            times[name].append(recorded(words, environment, os.path.join(work, "a.ctp")))
    print("%-10s %8s  %s" % ("", "user s", "ratios of neighbours, least to most"))
    for name, own in times.items():
        ratios = sorted(a / b for a, b in zip(own, times["no client"]))
        print("%-10s %8.3f  %.3f (%.3f to %.3f)" % (name, statistics.median(own), statistics.median(ratios),
                                                   ratios[0], ratios[-1]))
