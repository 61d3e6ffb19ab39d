#!/bin/sh
# calltrail import: what was exported comes back; perf script and gperftools on a real program, against
# what perf report and pprof say of the same samples; variants of the text; errors.
# Needs CALLTRAIL, GEN_PROFILE, FIXED_PROFILE and TEXT_PROFILE: paths of the programs.
. "$(dirname "$0")/checks.sh"
needs CALLTRAIL GEN_PROFILE FIXED_PROFILE TEXT_PROFILE
oracle=$here/../oracle/export_check.py
export HOME="$dir" PPROF_TMPDIR="$dir"

# ---- What was exported comes back: the same contexts with the same values

round_trip() { # name, profile
    "$CALLTRAIL" export --to folded --no-demangle "$2" >stacks
    "$CALLTRAIL" import --metric cpu --unit ns -o back.ctp stacks 2>err &&
        "$CALLTRAIL" info --check back.ctp >/dev/null 2>err &&
        python3 "$oracle" "$2" folded-names ctp=back.ctp >out 2>err &&
        ok "$1: folded" || fail "$1: folded" "$(tail -1 err)"
    for threads in '' threads; do
        "$CALLTRAIL" export --to pprof --no-demangle ${threads:+--threads} -o p.pb.gz "$2"
        "$CALLTRAIL" import -o back.ctp p.pb.gz 2>err &&
            "$CALLTRAIL" info --check back.ctp >/dev/null 2>err &&
            python3 "$oracle" "$2" $threads ctp=back.ctp >out 2>err &&
            ok "$1: pprof $threads" || fail "$1: pprof $threads" "$(tail -1 err)"
    done
}
"$FIXED_PROFILE" fixed.ctp
round_trip fixed fixed.ctp
for shape in random deep bushy; do
    "$GEN_PROFILE" --seed 4 --nodes 3000 --shape $shape --metrics 3 g.ctp
    round_trip $shape g.ctp
done
gunzip -c p.pb.gz >plain.pb
"$CALLTRAIL" import -o plain.ctp plain.pb && cmp -s plain.ctp back.ctp && ok plain-pprof ||
    fail plain-pprof 'not what the packed one gives'
"$CALLTRAIL" report --view topdown back.ctp >out 2>err && ok report-of-import ||
    fail report-of-import "$(cat err)"

# The program is the first module of an exported file, whatever its number was.
cat >late.txt <<'END'
module libearly - /lib/libearly.so
module prog - /opt/late-prog
metric cpu ns 1 1000000 user CPU time
process 1 1 /opt/late-prog late-prog
thread 1 late-prog
name begin libearly!begin
name main prog!main
context 5000000 begin;main
END
"$TEXT_PROFILE" late.txt late.ctp && "$CALLTRAIL" export --to pprof -o late.pb.gz late.ctp || exit 1
"$CALLTRAIL" import -o back.ctp late.pb.gz
holds pprof-program [ "$("$CALLTRAIL" report back.ctp | sed -n '2s/ .*//p')" = /opt/late-prog ]

# ---- Text as perf script prints it, by hand

"$CALLTRAIL" import -o text.ctp "$here/import/perf.txt" 2>err || fail perf-text "$(cat err)"
for metric in cpu-clock:u cycles page-faults sched:sched_switch; do
    echo "== $metric"
    "$CALLTRAIL" export --to folded --threads --no-demangle --metric $metric text.ctp
done >got
holds perf-text diff "$here/import/perf.expected" got
holds perf-valid "$CALLTRAIL" info --check text.ctp
"$CALLTRAIL" import -o stdin.ctp - <"$here/import/perf.txt" &&
    "$CALLTRAIL" export --to folded stdin.ctp >out &&
    "$CALLTRAIL" export --to folded text.ctp | cmp -s out - && ok standard-input ||
    fail standard-input ''
sed 's/^old-perf.*/this is no sample/' "$here/import/perf.txt" >odd.txt
"$CALLTRAIL" import -o odd.ctp odd.txt 2>note
holds skipped-lines-are-said grep -q 'note: 2 lines of odd.txt were not understood' note
holds skipped-lines-are-kept grep -q 'import_lines_skipped  *2' <<END
$("$CALLTRAIL" info --all odd.ctp)
END

# ---- A real program under perf and gperftools

cat >work.c <<'END'
#include <stdint.h>
#include <stdlib.h>
#define APART __attribute__((noinline, noclone))
volatile uint64_t sink;
APART static void spin(uint64_t n) { for (uint64_t i = 0; i < n; i++) sink += i * i; }
APART static void sum(void) { for (int i = 0; i < 400000; i++) sink += (uint64_t)i; }
APART static int recurse(int depth) { spin(20000); return depth ? recurse(depth - 1) + 1 : 0; }
APART static void parse(void) { spin(1000000); recurse(20); sum(); }
int main(void)
{
    for (int i = 0; i < 100; i++) {
        parse();
        sum();
        char *room = malloc(1 << 20);
        for (int k = 0; k < 1 << 20; k += 4096)
            room[k] = (char)i;
        sink += (uint64_t)room[4096];
        free(room);
    }
}
END
gcc -g -O1 -fno-omit-frame-pointer -fno-optimize-sibling-calls -o work work.c || exit 1
cat >shares.py <<'END'
"""Self and total of symbols: a report of calltrail as CSV, and `total self symbol` of another tool."""
import collections, csv, sys
ours = collections.defaultdict(lambda: [0, 0])
for row in csv.DictReader(open("flat.csv")):
    ours[row["function"]][0] += int(row["self"])
    ours[row["function"]][1] += int(row["total"])
whole = sum(own for own, _ in ours.values())
compared = 0
for line in open("theirs"):
    total, own, name = line.split(None, 2)
    name = name.strip()
    for theirs, mine in ((float(own), ours[name][0]), (float(total), ours[name][1])):
        share = 100 * mine / whole
        assert abs(share - theirs) < 0.0051, f"{name}: {share:.3f}%, not {theirs}%"
    compared += 1
assert compared >= 4, f"only {compared} functions compared"
for name in ("main", "parse", "recurse", "spin", "sum"):
    assert ours[name][1], f"nothing of {name}"
END
flat() { "$CALLTRAIL" report --view flat --csv --limit 0 "$@" >flat.csv; }

if ! perf record -q -F 1999 -g -e cpu-clock -e page-faults -o perf.data ./work >err 2>&1; then
    echo "skip perf: perf record does not work here: $(tail -1 err)"
else
    for fields in default comm,pid,tid,time,event,ip,sym,dso,period comm,tid,time,period,event,ip,sym
    do
        set --
        [ $fields = default ] || set -- -F $fields
        perf script -i perf.data "$@" >script.txt 2>err
        "$CALLTRAIL" import -o perf.ctp script.txt || fail "perf $fields" 'not imported'
        for event in $("$CALLTRAIL" info --json perf.ctp |
            python3 -c 'import json, sys; [print(m["name"]) for m in json.load(sys.stdin)["metrics"]]')
        do
            # perf counts a function once in a stack, as we do. Addresses without a symbol are one
            # row for perf when modules are not asked for, and many for us.
            perf report -i perf.data --stdio --children --sort sym -g none --percent-limit 0 \
                --percentage absolute 2>/dev/null |
                awk -v event="${event%%:*}" '/^# Samples:/ { on = index($0, "\x27" event) }
                    on && /%/ { sub(/\[[.k]\] /, ""); gsub(/%/, ""); print }' |
                grep -v ' \(0x\)\?[0-9a-f]\{16\} *$\|\[unknown\]' >theirs
            flat --metric "$event" perf.ctp
            case $event in
            page-faults*) grep -E ' (main|work)$' theirs >some; mv some theirs
                python3 - <<'END' >out 2>err && ok "perf $event ($fields)" || fail "perf $event ($fields)" "$(tail -1 err)"
import csv
rows = list(csv.DictReader(open("flat.csv")))
whole = sum(int(r["self"]) for r in rows)
total, own, name = open("theirs").readline().split()
mine = sum(int(r["self"]) for r in rows if r["function"] == "main")
assert abs(100 * mine / whole - float(own)) < 0.0051, (mine, whole, own)
END
                ;;
            *) holds "perf $event ($fields)" python3 shares.py ;;
            esac
        done
    done
fi

pprof=$(go env GOTOOLDIR 2>/dev/null)/pprof
profiler=$(ls /usr/lib/*/libprofiler.so.0 2>/dev/null | head -1)
if [ ! -x "$pprof" ] || [ -z "$profiler" ]; then
    echo 'skip gperftools: there is no go tool pprof, or no libprofiler.so.0'
else
    CPUPROFILE=cpu.prof CPUPROFILE_FREQUENCY=1000 LD_PRELOAD=$profiler ./work 2>err
    "$pprof" -proto -output cpu.pb.gz ./work cpu.prof >out 2>err
    "$CALLTRAIL" import -o cpu.ctp cpu.pb.gz || fail gperftools 'not imported'
    "$pprof" -top -unit=ns -nodecount=100000 -nodefraction=0 cpu.pb.gz 2>err >top
    total=$(sed -n 's/.* of \([0-9]*\)ns total.*/\1/p' top)
    awk -v all="$total" '$4 ~ /^[0-9]+(ns)?$/ && $6 !~ /^\[/ {
        printf "%.4f %.4f %s\n", 100 * $4 / all, 100 * $1 / all, $6 }' top >theirs
    flat cpu.ctp
    holds gperftools python3 shares.py
    refused gperftools-binary 1 'is a gperftools CPU profile.*pprof -proto' import -o no.ctp cpu.prof
fi

# ---- Code without symbols stays that through pprof: symbolize names it then as it does before

cat >stripped.c <<'END'
volatile long sink;
__attribute__((noinline)) void inner(void) { for (int i = 0; i < 1000; i++) sink += i; }
__attribute__((noinline)) void outer(void) { for (int i = 0; i < 1000; i++) inner(); sink++; }
int main(void) { for (int i = 0; i < 20; i++) outer(); return 0; }
END
gcc -g -O1 -o stripped stripped.c && mkdir debug && objcopy --only-keep-debug stripped debug/stripped.debug &&
    strip stripped || exit 1
XDG_CACHE_HOME=$dir/cache "$CALLTRAIL" record --engine exact --modules stripped -o stripped.ctp ./stripped || exit 1
"$CALLTRAIL" export --to folded stripped.ctp >before
holds no-symbols grep -q ';main;stripped+0x[0-9a-f]*;stripped+0x[0-9a-f]* 20000$' before
"$CALLTRAIL" export --to pprof -o stripped.pb.gz stripped.ctp
"$CALLTRAIL" import -o back.ctp stripped.pb.gz
"$CALLTRAIL" export --to folded back.ctp >after
holds no-symbols-after-pprof cmp before after
holds places-after-pprof [ "$("$CALLTRAIL" report --view flat back.ctp | grep -c 'stripped+0x.*\[')" = 0 ]
for profile in stripped back; do
    "$CALLTRAIL" symbolize $profile.ctp --debug-dir debug -o named.ctp >/dev/null || exit 1
    "$CALLTRAIL" export --to folded named.ctp >$profile.named
done
holds symbolized-before grep -q ';main;outer;inner 20000$' stripped.named
holds symbolized-after-pprof cmp stripped.named back.named

# ---- perf: functions that are inlined into one whose own line is not there

printf '%s\n' 'prog 7 1.000000: 1000 cpu-clock: ' \
    '	1177 inner+0x17 (inlined)' '	1177 work+0x17 (/opt/prog)' \
    '	27304 start_impl+0x84 (inlined)' '	1090 _start+0x20 (/opt/prog)' '' \
    'prog 7 2.000000: 5 faults: ' '	1177 inner+0x17 (inlined)' '	1177 work+0x17 (/opt/prog)' '' \
    'prog 7 3.000000: 1000 cpu-clock: ' '	1090 _start+0x20 (/opt/prog)' '	27400 last+0x1 (inlined)' >inlined.txt
"$CALLTRAIL" import -o inlined.ctp inlined.txt
holds perf-inlined-module [ "$("$CALLTRAIL" report --view flat --csv inlined.ctp | cut -d, -f3- | tail -n +2 | tr '\n' ' ')" = \
    '1000,2000,_start,prog 1000,1000,inner,prog 0,1000,last, 0,1000,start_impl, 0,1000,work,prog ' ]

# perf ends chains that it unwinds itself with a mark, which is no caller; without pids, the thread
# with the most samples says what ran.
printf '%s\n' 'perf-exec 7 1.0: 1 clock: ' '	1177 first+0x7 (/usr/bin/perf)' '' \
    'prog 7 2.0: 1 clock: ' '	1177 work+0x17 (/opt/prog)' '	ffffffffffffffff [unknown] ([unknown])' '' \
    'prog 7 3.0: 1 clock: ' '	ffffffffffffff80 [unknown] ([unknown])' '	1177 work+0x17 (/opt/prog)' >marks.txt
"$CALLTRAIL" import -o marks.ctp marks.txt
holds perf-marks [ "$("$CALLTRAIL" export --to folded marks.ctp | tr '\n' ' ')" = 'first 1 work 2 ' ]
holds perf-program [ "$("$CALLTRAIL" report marks.ctp | sed -n 2p)" = 'prog (2 threads)' ]

# ---- --metric: which comes first

metrics() { "$CALLTRAIL" info --json "$1" | python3 -c 'import json, sys; print(*[m["name"] for m in json.load(sys.stdin)["metrics"]])'; }
holds perf-most-samples-first [ "$(metrics inlined.ctp)" = 'cpu-clock faults' ]
"$CALLTRAIL" import --metric faults -o faults.ctp inlined.txt
holds perf-metric [ "$(metrics faults.ctp)" = 'faults cpu-clock' ]
holds perf-metric-value [ "$("$CALLTRAIL" export --to folded faults.ctp)" = 'work;inner 5' ]
"$CALLTRAIL" export --to pprof -o two.pb.gz fixed.ctp
"$CALLTRAIL" import --metric malloc -o malloc.ctp two.pb.gz
holds pprof-metric [ "$(metrics malloc.ctp)" = 'malloc cpu' ]
refused perf-no-metric 1 "inlined.txt: has no metric 'cycles'; there are: cpu-clock, faults" \
    import --metric cycles -o no.ctp inlined.txt
refused pprof-unit 1 'two.pb.gz: says in which units' import --unit s -o no.ctp two.pb.gz

# ---- Errors

echo 'f;g 12x' >bad.folded
echo 'f;g 99999999999999999999' >big.folded
printf 'f 18446744073709551615\nf 1\n' >sum.folded
: >empty
head -c 200 p.pb.gz >cut.pb.gz
head -c 100 plain.pb >cut.pb
refused folded-value 1 'bad.folded: line 1: is not `f1;f2;f3 value`' import -o no.ctp bad.folded
refused folded-overflow 1 'line 1: the value does not fit' import -o no.ctp big.folded
refused folded-sum 1 'more than 2^64' import -o no.ctp sum.folded
refused empty 1 'empty: is empty' import -o no.ctp empty
refused cut-gzip 1 'cut.pb.gz: is truncated or damaged' import -o no.ctp cut.pb.gz
refused cut-pprof 1 'cut.pb: is not a pprof profile, or is damaged' import --from pprof -o no.ctp cut.pb
refused own-profile 1 'fixed.ctp: is a calltrail profile already' import -o no.ctp fixed.ctp
refused not-perf 1 'has no samples as perf script prints them' import --from perf -o no.ctp stacks
refused missing-file 1 'nowhere: cannot be opened: No such file' import -o no.ctp nowhere
refused no-folder 1 'nowhere/x.ctp' import -o nowhere/x.ctp stacks
refused no-file 2 'a FILE is required' import
refused two-files 2 'only one FILE is allowed' import stacks stacks
refused unknown-format 2 "there is no format 'xml'" import --from xml stacks
[ -e perf.data ] && refused perf-data 1 "perf's own file; import what .perf script" \
    import -o no.ctp perf.data
holds nothing-written [ ! -e no.ctp ]
holds help-import "$CALLTRAIL" import --help

[ $failures -eq 0 ]
