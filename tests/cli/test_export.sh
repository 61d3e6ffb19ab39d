#!/bin/sh
# calltrail export: every format against the profile as an independent reader sees it, over generated
# profiles; and by programs that others wrote: pprof, callgrind_annotate, sqlite3.
# Needs CALLTRAIL, GEN_PROFILE and FIXED_PROFILE: paths of the programs.
. "$(dirname "$0")/checks.sh"
needs CALLTRAIL GEN_PROFILE FIXED_PROFILE
oracle=$here/../oracle/export_check.py
export HOME="$dir" PPROF_TMPDIR="$dir"

"$FIXED_PROFILE" fixed.ctp || exit 1
formats='folded pprof speedscope callgrind firefox chrome sqlite json'

# ---- Every format, every context: the same sums as the profile's own, whatever its shape

check_formats() { # name, profile, option
    set -- "$1" "$2" "$3" # the files to look at come behind
    for format in $formats; do
        # callgrind has no threads: they are functions there, which the sums of functions do not have.
        [ "$format$3" = callgrindthreads ] && continue
        "$CALLTRAIL" export --no-demangle --to $format ${3:+--$3} -o "export.$format" "$2" 2>err ||
            fail "$1 $format $3" "$(cat err)"
        set -- "$@" "$format=export.$format"
    done
    name="$1 $3" profile=$2 option=$3
    shift 3
    holds "$name: every format" python3 "$oracle" "$profile" $option "$@"
}

for option in '' threads no-inline; do
    check_formats fixed fixed.ctp "$option"
done
for shape in random deep bushy; do
    for nodes in 1 9 800; do
        "$GEN_PROFILE" --seed $nodes --nodes $nodes --shape $shape --metrics 3 g.ctp
        check_formats "$shape $nodes" g.ctp ''
    done
    check_formats "$shape $nodes" g.ctp threads
    check_formats "$shape $nodes" g.ctp no-inline
done
for format in $formats; do
    "$CALLTRAIL" export --to $format --metric malloc -o "export.$format" fixed.ctp 2>err ||
        fail "metric $format" "$(cat err)"
done
holds metric-folded [ "$(awk '{ sum += $NF } END { print sum }' export.folded)" = 18677760 ]
holds metric-sqlite [ "$(sqlite3 export.sqlite 'SELECT name, total FROM metric ORDER BY id' |
    tr '\n' ' ')" = 'malloc|18677760 cpu|1059059058 ' ]

# ---- pprof

pprof=$(go env GOTOOLDIR 2>/dev/null)/pprof
"$CALLTRAIL" export --to pprof --no-demangle -o fixed.pb.gz fixed.ctp
"$CALLTRAIL" export --to pprof --no-demangle --threads -o threads.pb.gz fixed.ctp
"$CALLTRAIL" report --view flat --csv --limit 0 --no-demangle fixed.ctp >flat.csv
cat >flat.py <<'END'
"""Self and total of every function: pprof -top and sqlite's view against calltrail's own."""
import collections, csv, re, sys
ours = {}
for row in csv.DictReader(open("flat.csv")):
    ours[row["function"], row["module"]] = (int(row["self"]), int(row["total"]))
names = collections.Counter(name for name, _ in ours)
theirs = {}
for line in open(sys.argv[1], encoding="utf-8"):
    if sys.argv[1] == "top":
        m = re.match(r" *([0-9.]+)(?:ns)? +[0-9.]+% +[0-9.]+% +([0-9.]+)(?:ns)? +([0-9.]+)% +(.*)$", line)
        if not m:
            continue
        assert float(m[3]) <= 100, line
        theirs[m[4].removesuffix(" (inline)")] = (round(float(m[1])), round(float(m[2])))
    else:
        name, own, total = line.rstrip("\n").rsplit("|", 2)
        theirs[name] = (int(own), int(total))
assert len(theirs) == len(names), f"{len(theirs)} functions, not {len(names)}"
for (name, module), values in ours.items():
    if names[name] == 1:  # main is in two modules, which pprof takes for one
        assert theirs[name] == values, f"{name}: {theirs[name]}, not {values}"
END
# Of a real program: the loader and libc come before it among the modules.
XDG_CACHE_HOME=$dir/cache "$CALLTRAIL" record --engine exact --no-lines -o env.ctp env >/dev/null || exit 1
if [ -x "$pprof" ]; then
    "$CALLTRAIL" export --to pprof -o env.pb.gz env.ctp
    "$pprof" -top env.pb.gz >top 2>err
    holds pprof-program grep -qx 'File: env' top
    "$pprof" -symbolize=none -top -unit=ns -nodecount=100000 -nodefraction=0 fixed.pb.gz >top 2>err
    holds pprof-top python3 flat.py top
    "$pprof" -top -sample_index=malloc -unit=bytes fixed.pb.gz 2>/dev/null >malloc
    holds pprof-second-metric grep -q 'of 18677760B total' malloc
    "$pprof" -raw threads.pb.gz >raw 2>err
    holds pprof-period grep -q '^Period: 1001001$' raw
    holds pprof-duration grep -q '^Duration: 1.20' raw
    holds pprof-default grep -q '^cpu/nanoseconds\[dflt\] malloc/bytes$' raw
    holds pprof-mapping grep -q ' /usr/bin/perl ' raw
    holds pprof-thread-label grep -q 'process:\[perl\] thread:\[indexer\]' raw
    "$pprof" -tags threads.pb.gz >tags 2>err
    holds pprof-tags grep -q 'indexer' tags
    "$pprof" -symbolize=none -traces -unit=ns fixed.pb.gz >traces 2>err
    # One context by name, innermost first.
    grep -A5 '^ *88088088ns' traces | sed 's/.* //' | tr '\n' ' ' >trace
    holds pprof-context [ "$(cat trace)" = \
        'S_regmatch S_regtry Perl_regexec_flags Perl_pp_match Perl_runops_standard S_sortcv ' ]
    # Every generated name, byte sequences that are not UTF-8 among them, and inlined lines.
    "$GEN_PROFILE" --seed 5 --nodes 3000 g.ctp
    "$CALLTRAIL" export --to pprof --no-demangle -o g.pb.gz g.ctp
    "$CALLTRAIL" info --json g.ctp >info.json
    "$pprof" -raw g.pb.gz >raw 2>err
    total=$(python3 -c 'import json; print(json.load(open("info.json"))["metrics"][0]["total"])')
    sum=$(awk '/^Samples:/ { on = 1 } /^Locations/ { on = 0 }
        on && /^ *[0-9]+ +[0-9]+: / { sum += $1 } END { printf "%.0f\n", sum }' raw)
    holds pprof-generated-total [ "$sum" = "$total" ]
    id=$(python3 -c 'import json; print(json.load(open("info.json"))["modules"][1]["build_id"])')
    holds pprof-build-id grep -q "/usr/lib/libc.so.6 $id" raw
else
    echo 'skip pprof: there is no go tool pprof'
fi

# ---- sqlite3

"$CALLTRAIL" export --to sqlite --no-demangle fixed.ctp >fixed.db
sqlite3 fixed.db "SELECT function, sum(self), sum(total) FROM flat WHERE metric = 'cpu'
    GROUP BY function" >rows
holds sqlite-flat python3 flat.py rows
sqlite3 fixed.db "WITH RECURSIVE up(node, parent, path) AS (SELECT node, parent, function FROM context
    WHERE metric = 'cpu' AND self = 88088088 UNION ALL SELECT up.node, context.parent,
    context.function || ';' || up.path FROM up JOIN context ON context.node = up.parent
    WHERE context.metric = 'cpu') SELECT path || ' 88088088' FROM up WHERE parent IS NULL" >path
holds sqlite-context grep -qxF "$(cat path)" "$(dirname "$oracle")/../cli/golden/folded.txt"
holds sqlite-calls [ "$(sqlite3 fixed.db "SELECT total FROM call WHERE metric = 'cpu'
    AND caller = 'S_regtry' AND callee = 'S_regmatch'")" = 495495495 ]

# ---- firefox: CPU time between samples, if that is what was measured

cat >cpu.py <<'END'
import json, sys
for metric, total in ("cpu", 1059059058), ("malloc", None):
    data = json.load(open("export-%s.firefox" % metric))
    found = 0
    for thread in data["threads"]:
        samples = thread["samples"]
        length = samples["length"]
        assert all(len(column) == length for column in samples.values() if isinstance(column, list))
        times = samples["time"]
        assert times[0] == 0 and samples["stack"][0] is None and times == sorted(times)
        assert ("threadCPUDelta" in samples) == ("sampleUnits" in data["meta"]) == (total is not None)
        assert total is None or data["meta"]["sampleUnits"]["threadCPUDelta"] == "ns"
        for i in range(1, length):
            assert abs(times[i] - times[i - 1] - samples["weight"][i]) < 1e-3
            if total:
                found += samples["threadCPUDelta"][i]
                assert abs(samples["threadCPUDelta"][i] / 1e6 - samples["weight"][i]) < 1e-6
    assert found == (total or 0), found
END
for metric in cpu malloc; do
    "$CALLTRAIL" export --to firefox --threads --metric $metric -o export-$metric.firefox fixed.ctp
done
holds firefox-cpu-time python3 cpu.py
cat >timed.py <<'END'
import json
threads = json.load(open("timed.firefox"))["threads"]
for samples in (thread["samples"] for thread in threads):
    assert all(abs(spent / 1e6 - weight) < 1e-6
               for spent, weight in zip(samples["threadCPUDelta"], samples["weight"], strict=True)), samples
assert threads
END
"$CALLTRAIL" record --no-lines -o timed.ctp perl -e 'my $n = 0; $n += $_ % 7 for 1 .. 1_000_000'
"$CALLTRAIL" export --to firefox --threads -o timed.firefox timed.ctp
holds firefox-cpu-time-of-samples python3 timed.py

# ---- Files, terminals, errors

"$CALLTRAIL" export --to callgrind -o cg fixed.ctp 2>note
holds callgrind-says-what-is-lost grep -q 'note: .*contexts .*lost' note
"$CALLTRAIL" export --to callgrind -o env.cg env.ctp 2>note
callgrind_annotate env.cg >annotated
holds callgrind-functions grep -q '\[/.*/libc.so.6\]:.* \[/.*/libc.so.6\]$' annotated
holds callgrind-modules-are-no-text [ "$(grep -c 'annotated source' annotated)" = 0 ]
holds callgrind-positions grep -qx 'positions: line' cg
holds callgrind-calls awk -F'[= ]' '/^calls=/ && $2 < 1 { exit 1 }' cg
"$CALLTRAIL" export --to json fixed.ctp >plain
"$CALLTRAIL" export --to json -o - fixed.ctp | cmp -s plain - && ok output-dash || fail output-dash ''
echo before >kept
refused output-kept 1 "nearest is 'cpu'" export --to json --metric cpi -o kept fixed.ctp
holds nothing-left-behind [ "$(cat kept) $(ls kept* | wc -l)" = 'before 1' ]
for format in $formats; do
    "$CALLTRAIL" export --to $format fixed.ctp >/dev/full 2>err
    [ $? -eq 1 ] && grep -q 'standard output cannot be written' err ||
        fail "full-disk $format" "$(cat err)"
done
ok full-disk
TMPDIR=/nowhere refused no-room-for-database 1 '/nowhere/.*database.*No such file' \
    export --to sqlite fixed.ctp
if command -v script >/dev/null; then
    for format in pprof sqlite; do
        script -qec "$CALLTRAIL export --to $format fixed.ctp" /dev/null >tty </dev/null
        holds "terminal $format" grep -q "^calltrail export: $format is not written to a terminal" tty
    done
else
    echo 'skip terminal: there is no script(1)'
fi
head -c 3000 fixed.ctp >truncated.ctp
refused truncated 1 'truncated.ctp: is truncated' export --to pprof truncated.ctp
refused unknown-format 2 'there are: folded, pprof,' export --to pdf fixed.ctp

[ $failures -eq 0 ]
