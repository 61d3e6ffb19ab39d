#!/usr/bin/env python3
"""How well bursts of engine exact tell what the whole of it tells, and for how much time.

    burst.py BUILD FOLDER [ROUNDS]    inputs and profiles are made in the folder

For each program and setting: the overlap of the calling context trees (the sum over all contexts, call
sites told apart, of the lesser of the two shares of calls), how many of the contexts were seen, and the share
of the calls of the 20 hottest functions whose explaining chain (calltrail kctx --explain 50) is found: the chain
of one is the end of what the other shows for the function; or is the very same, as short as it. Of those
functions also how far the estimate of their share of all calls is off, on average, in points, and how
many are as near as the report says: twice the deviation of as many samples as there were bursts. Functions
that went on by a tail jump are left out of contexts: no walk at the start of a burst can see them.
"""
import collections
import json
import math
import os
import resource
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tests", "oracle"))
from ctp_reader import FRAMES, METRICS, MODULES, NODE_FRAMES, NONE, PARENTS, Profile  # noqa: E402

SETTINGS = ["0.1/1", "0.2/2", "0.2/10", "1/10"]
HOTTEST = 20
PERL = """my %h; for my $i (1 .. 150000) { my $k = "k" . ($i * 7919 % 501); $h{$k} .= $i;
$h{$k} =~ s/(\\d)\\1/$1/g if $i % 5 == 0; $h{$k} = "" if length $h{$k} > 500; }
my $n = 0; $n += length for map { sprintf "%s-%s", $_, join ",", sort split //, $h{$_} } sort keys %h; print $n;"""
PYTHON = """import collections, json, re
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
words = re.findall(r"[a-z]+", open(json.__file__).read().lower() * 60)
data = [{"a": i, "b": [i] * 3, "c": {"d": str(i)}} for i in range(20000)]
print(collections.Counter(words).most_common(3), fib(22), len(json.dumps(json.loads(json.dumps(data)))))
print(len(sorted((str(i * 7919 % 50021) for i in range(50000)), key=lambda s: (s[-1], len(s)))))"""
LUA = """local t = {} for i = 1, 200000 do t[i] = tostring(i * 7919 % 200003) end table.sort(t)
local n = 0 for _, s in ipairs(t) do n = n + #s:gsub("%d", "x"):rep(2) end
local function fib(n) return n < 2 and n or fib(n - 1) + fib(n - 2) end print(n, fib(27))"""
SQL = """create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)
insert into t select i, 'row ' || (i * 7919 % 50021), i * 0.5 from n;
create index tb on t(b); select count(*), sum(c) from t where b like 'row 1%';
select substr(b, 1, 6), count(*) from t group by 1 order by 2 desc, 1 limit 5;
select count(*) from t x join t y on x.b = y.b where x.a < y.a;
select group_concat(b) from (select b from t order by c desc, b limit 2000);
"""


def shares(path):
    """Each context's share of all calls."""
    profile = Profile(path)
    metric = [profile.string(m[0]) for m in profile.table(METRICS)].index("calls")
    parents, frames, values = profile.table(PARENTS), profile.table(NODE_FRAMES), profile.values[metric]
    names = []
    for offset, module, _, _, _, flags, gap in profile.table(FRAMES):
        names.append(("" if module == NONE else profile.string(profile.table(MODULES)[module][0]), offset,
                      flags & 1, gap))
    total, found = sum(values), collections.Counter()
    path_of = {}  # a number for each path: of the number of the one above it, and a name
    paths = [None] * len(parents)
    for node, parent in enumerate(parents):
        above = None if parent == NONE else paths[parent]
        if frames[node] != NONE:
            key = (above, names[frames[node]])
            paths[node] = path_of.setdefault(key, len(path_of))
    by_number = {number: key for key, number in path_of.items()}

    def spell(number):
        spelled = []
        while number is not None:
            number, name = by_number[number]
            if not spelled or name[2] or name[3]:
                spelled.append(name)
        return tuple(spelled)
    for node, value in enumerate(values):
        if value and paths[node] is not None:
            found[spell(paths[node])] += value / total
    return found


def overlap(a, b):
    return sum(min(share, b[context]) for context, share in a.items() if context in b)


def chains(calltrail, path):
    said = subprocess.run([calltrail, "kctx", "--json", "--metric", "calls", "--explain", "50", "--limit", "0", path],
                          check=True, capture_output=True, text=True).stdout
    found = {}
    for row in json.loads(said)["rows"]:
        found.setdefault((row["function"], row["module"]),
                         (row["self"], row["chain"], row["always_from"] + row["chain"]))
    return found


def hottest_of(exact):
    return sorted(exact.items(), key=lambda item: -item[1][0])[:HOTTEST]


def ends_with(whole, end):
    return whole[len(whole) - len(end):] == end


def chains_found(exact, burst):
    """The shares of calls whose chains agree, and whose chains are the same."""
    found = same = 0
    hottest = hottest_of(exact)
    for function, (calls, chain, shown) in hottest:
        _, its_chain, its_shown = burst.get(function, (0, None, None))
        if its_chain:
            found += calls * (ends_with(its_shown, chain) or ends_with(shown, its_chain))
            same += calls * (chain == its_chain)
    total = sum(calls for _, (calls, _, _) in hottest)
    return found / total, same / total


def estimates(exact, burst, bursts):
    """How far shares are off in points, and how many are as near as is said."""
    total, seen = sum(calls for calls, _, _ in exact.values()), sum(calls for calls, _, _ in burst.values())
    off, near = [], 0
    for function, (calls, _, _) in hottest_of(exact):
        share, estimate = calls / total, burst.get(function, (0,))[0] / seen
        off.append(100 * abs(share - estimate))
        near += abs(share - estimate) <= 2 * math.sqrt(estimate * (1 - estimate) / bursts)
    return statistics.mean(off), near / len(off)


def cpu_seconds(command, folder):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def own_seconds(calltrail, profile):
    """CPU time of the program alone, as its profile has it."""
    facts = json.loads(subprocess.run([calltrail, "info", "--json", profile], check=True, capture_output=True,
                                      text=True).stdout)
    return facts["utime_s"] + facts["stime_s"], facts


def main(build, folder, rounds):
    calltrail, work = os.path.abspath(build + "/calltrail"), os.path.abspath(folder)
    os.makedirs(work, exist_ok=True)
    os.environ.update(PERL_HASH_SEED="0", PYTHONHASHSEED="0")
    for name, text in (("pl", PERL), ("py", PYTHON), ("lua", LUA), ("sql", SQL)):
        with open(work + "/in." + name, "w") as file:
            file.write(text)
    programs = {"perl": ["perl", "in.pl"], "python3": ["/usr/bin/python3", "in.py"],
                "lua5.4": ["lua5.4", "in.lua"], "sqlite3": ["sqlite3", "-init", "in.sql", ":memory:", ".quit"]}
    print("| | counted | tree overlap | chains found | same chains | contexts seen | estimates off by, points "
          "| as near as said | bursts | calls seen | CPU time, plain = 1 |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, command in programs.items():
        plain = statistics.median(cpu_seconds(command, work) for _ in range(rounds))
        record = [calltrail, "record", "--no-lines", "--engine", "exact", "-o"]
        whole = work + "/whole.ctp"
        cpu_seconds(record + [whole] + command, work)
        exact, exact_chains = shares(whole), chains(calltrail, whole)
        cost = own_seconds(calltrail, whole)[0] / plain
        print("| %s | every call | 1 | 1 | 1 | 100%% | | | | | %.1f |" % (name, cost))
        for setting in SETTINGS:
            overlaps, sames, times, bursts, seen, contexts, off, near, found = ([] for _ in range(9))
            for _ in range(rounds):
                part = work + "/part.ctp"
                cpu_seconds(record + [part, "--burst=" + setting] + command, work)
                seconds, facts = own_seconds(calltrail, part)
                metric = next(m for m in facts["metrics"] if m["name"] == "calls")
                part_shares, part_chains = shares(part), chains(calltrail, part)
                overlaps.append(overlap(exact, part_shares))
                contexts.append(sum(context in part_shares for context in exact) / len(exact))
                agree, same = chains_found(exact_chains, part_chains)
                found.append(agree)
                sames.append(same)
                error, share = estimates(exact_chains, part_chains, metric["bursts"])
                off.append(error)
                near.append(share)
                times.append(seconds / plain)
                bursts.append(metric["bursts"])
                seen.append(metric["calls_in_bursts"] / metric["calls_made"])
            middle = statistics.median
            print("| | %s ms | %.2f | %.2f | %.2f | %.0f%% | %.2f | %.0f%% | %d | %.1f%% | %.1f |" % (
                setting, middle(overlaps), middle(found), middle(sames), 100 * middle(contexts), middle(off),
                100 * statistics.mean(near), middle(bursts), 100 * middle(seen), middle(times)))
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 3)
