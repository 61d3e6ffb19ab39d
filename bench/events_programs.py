"""Programs that ask for much memory, for bench/events.py and bench/events_peers.py.

Each says on its standard output how much CPU time its work took: that is the program's own, whatever a
tool does before, after and beside it.
"""
import os
import re
import subprocess

PERL = r"""use Time::HiRes; my $start = Time::HiRes::clock(); my (%h, $s); for my $i (1 .. @N@) { my $k = "k" . ($i % 20011); $h{$k} = [$i, "v$i" x 3];
$s += length($h{$k}[1]); delete $h{"k" . ($i * 7 % 20011)} if $i % 3 == 0 } print scalar(keys %h), " $s\n";
printf "%.6f\n", Time::HiRes::clock() - $start;"""

PYTHON = r"""import time
start = time.process_time()
class Item:
    def __init__(self, number):
        self.number, self.name, self.links = number, "item %d" % number, []
kept = {}
for i in range(@N@):
    item = Item(i)
    item.links.extend(str(i * k) for k in range(4))
    kept[i % 9973] = item
    if i % 5 == 0:
        kept.pop(i * 31 % 9973, None)
print(len(kept), sum(len(item.links) for item in kept.values()))
print("%.6f" % (time.process_time() - start))
"""

SQL = r""".timer on
create table word(id integer primary key, name text, weight real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < @N@)
insert into word select i, 'word ' || (i * 7919 % 30011) || hex(i), i * 0.5 from n;
create index by_name on word(name);
select count(distinct substr(name, 1, 9)), sum(length(replace(name, 'o', '00'))) from word;
select name, group_concat(id), json_array(name, weight) from word group by substr(name, 6, 3) order by 3 limit 3;
select count(*) from word a join word b on b.name > a.name and b.name < a.name || 'z' where a.id % 3 = 0;
"""


class Program:
    """`own` are functions by which contexts are compared: those that every tool has a name for."""

    def __init__(self, name, command, own, env=None):
        self.name, self.command, self.own, self.env = name, command, own, env or {}

    @staticmethod
    def cpu_seconds(said):
        timed = re.findall(r"user ([0-9.]+) sys ([0-9.]+)", said)  # sqlite3, for each statement
        if timed:
            return sum(float(user) + float(system) for user, system in timed)
        return float(re.findall(r"^\d+\.\d{6}$", said, re.M)[-1])


here = os.path.dirname(os.path.abspath(__file__))


def programs(folder, share=1):
    """With a smaller share of their work, for tools that write down every call."""
    def much(number):
        return str(int(number * share))

    def script(name, text, number):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text.replace("@N@", much(number)))
        return path
    words = os.path.join(folder, "events_words")
    subprocess.run(["g++", "-std=c++17", "-O2", "-g", os.path.join(here, "events_words.cpp"), "-o", words],
                   check=True)
    return [
        Program("perl: hashes of arrays", ["/usr/bin/perl", script("work.pl", PERL, 500000)], "^(Perl_|perl_)"),
        Program("python3, PYTHONMALLOC=malloc: objects", ["/usr/bin/python3", "-S", script("work.py", PYTHON, 250000)],
                "^_?Py", {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "1"}),
        Program("sqlite3: rows, an index, strings", ["/usr/bin/sqlite3", "-bail", ":memory:", ".read " +
                                                     script("work.sql", SQL, 250000)], "^sqlite3_"),
        Program("C++: std::map of std::string", [words, much(4000)],
                "^(make_word|make_page|split|add_page|drop_rare|remember_titles|main)$"),
    ]


def worst(build, share=1):
    """Next to nothing but malloc and free."""
    return Program("C: trees of small nodes", [os.path.join(build, "bench/events"), "alloc", str(int(500 * share))],
                   "^(grow|main)$")
