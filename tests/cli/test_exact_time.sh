#!/usr/bin/env bash
# Engine exact with -m time: the time in each context.
set -uo pipefail
calltrail=${CALLTRAIL:-$PWD/build/calltrail}
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
gcc -g -O1 -o calls "$here/exact/calls.c" && g++ -g -O2 -pthread -o times "$here/exact/times.cpp" || exit 1

check() { # name, what must be, what is
    [ "$2" = "$3" ] && echo "ok exact-time $1" || echo "FAIL exact-time $1: '$3', not '$2'"
}
fact() { # key, profile
    "$calltrail" info --json "$2" | python3 -c "import json, sys; print(json.load(sys.stdin)['$1'])"
}
metrics() {
    "$calltrail" info --json "$1" | python3 -c "
import json, sys
print(' '.join(m['name'] for m in json.load(sys.stdin)['metrics']))"
}
record() { # profile, program, options...
    local out=$1 program=$2
    shift 2
    "$calltrail" record --no-lines --engine exact -o "$out" "$@" "$program" 2>said >printed
}
flat() { # profile
    "$calltrail" report --json --view flat --limit 0 --metric time "$1"
}
calls_of() { # profile
    "$calltrail" export --to folded --metric calls "$1" | LC_ALL=C sort
}

# What is printed says how long each function worked at least, and took at most: by the same counter, so
# that nothing that comes in between matters. 1% for what is known of the counter's rate.
bounds() { # profile, what was printed
    flat "$1" >flat.json
    python3 - "$2" <<'P'
import json, sys
rows = {}
for row in json.load(open("flat.json"))["rows"]:
    name = row["function"].split("(")[0]
    before = rows.get(name, (0, 0))
    rows[name] = (before[0] + row["self"], before[1] + row["total"])
count = 0
for line in open(sys.argv[1]):
    name, least, most = line.split()[0], *map(int, line.split()[1:])
    own, total = rows.get(name, (0, 0))
    if own < least * 0.99 or (most and total > most * 1.01):
        print("%s: %d of its own, %d in all; it worked for %d, and took %d" % (name, own, total, least, most))
    count += 1
print(count, "functions")
P
}
record times.ctp ./times -m time
check "status" 0 "$?"
check "nothing is said" "" "$(cat said)"
check "metrics" "time calls" "$(metrics times.ctp)"
check "least and most" "15 functions" "$(bounds times.ctp printed)"
check "every walk came to its end" 0 "$("$calltrail" export --to folded times.ctp | grep -c 'walk ended')"
record both.ctp ./times -m time -e cpu --verify
check "metrics with samples" "cpu time calls" "$(metrics both.ctp)"
check "verify" 0 "$(fact verify_differ both.ctp)"
check "least and most, with samples" "15 functions" "$(bounds both.ctp printed)"
record own.ctp ./times --metric time --modules times
grep -v '^callback ' printed >without_callback # qsort has called that, and is not edited here
check "least and most, of one module" "14 functions" "$(bounds own.ctp without_callback)"

# Inclusive is exclusive and that of what was called, up to the root.
"$calltrail" report --json --view topdown --metric time --limit 0 times.ctp >topdown.json
check "inclusive time" "0 wrong, same total" "$(python3 - <<'P'
import json
report = json.load(open("topdown.json"))
rows, below, wrong = report["rows"], {}, 0
for row in reversed(rows):
    depth = row["depth"]
    wrong += row["total"] != row["self"] + below.pop(depth + 1, 0)
    below[depth] = below.get(depth, 0) + row["total"]
own = sum(row["self"] for row in rows)
print(wrong, "wrong,", "same total" if own == report["total"] == below[0] else "another total")
P
)"

# The calls are those of a run without time, in the same contexts.
./calls >expected
record plain.ctp ./calls
calls_of plain.ctp >plain.calls
record timed.ctp ./calls -m time
check "output" "$(cat expected)" "$(cat printed)"
calls_of timed.ctp >timed.calls
check "same calls" "" "$(diff plain.calls timed.calls | head -3)"
record folded.ctp ./calls --fold-recursion
record timed_folded.ctp ./calls --fold-recursion -m time
check "same calls, folded" "" "$(diff <(calls_of folded.ctp) <(calls_of timed_folded.ctp) | head -3)"
record heights.ctp ./calls --height
record timed_heights.ctp ./calls --height -m time
check "metrics with heights" "time calls height height_varies" "$(metrics timed_heights.ctp)"
heights() { # profile: but for frames whose height depends on where the stack begins
    "$calltrail" export --to folded --metric height "$1" | grep -v aligned
}
check "same heights" "" "$(diff <(heights heights.ctp) <(heights timed_heights.ctp) | head -3)"
record few.ctp ./calls -m time --max-nodes 100
check "few contexts" "100 $(fact calls plain.ctp)" "$(fact call_records few.ctp) $(fact calls few.ctp)"
check "output in few contexts" "$(cat expected)" "$(cat printed)"

# A program that forbids time stamps has its calls counted, as far as they go, and lives.
gcc -O1 -o forbids -x c - <<'C' || exit 1
#include <stdio.h>
#include <sys/prctl.h>
__attribute__((noinline)) static void before(void) { __asm__ volatile(""); }
__attribute__((noinline)) static void behind(void) { __asm__ volatile(""); }
__attribute__((noinline)) static void forbid(void) { prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0); }
int main(void)
{
    for (int i = 0; i < 5; i++)
        before();
    forbid();
    for (int i = 0; i < 7; i++)
        behind();
    puts("done");
    return 0;
}
C
record forbids.ctp ./forbids -m time
check "time stamps are forbidden" "0 done" "$? $(cat printed)"
check "calls without time stamps" "before 5,behind 7," "$(calls_of forbids.ctp | sed -En 's/.*;main;(before|behind) /\1 /p' | tr '\n' ,)"

# Views and other files.
check "time per call" "per_call" "$(flat times.ctp | grep -o per_call | head -1)"
"$calltrail" merge -o merged.ctp times.ctp times.ctp
check "merged" "$(($(flat times.ctp | sed -n 's/ *"total": \([0-9]*\),/\1/p' | head -1) * 2))" \
    "$(flat merged.ctp | sed -n 's/ *"total": \([0-9]*\),/\1/p' | head -1)"
check "difference" 1 "$("$calltrail" diff --metric time times.ctp merged.ctp | grep -c '+100.0%')"
check "last callers" 1 "$("$calltrail" kctx --metric time times.ctp | grep -c '^times.ctp: time ')"
check "folded" "$(flat times.ctp | sed -n 's/ *"total": \([0-9]*\),/\1/p' | head -1)" \
    "$("$calltrail" export --to folded --metric time times.ctp | awk '{ sum += $NF } END { printf "%d", sum }')"

usage() { # name, words, options...
    local name=$1 words=$2
    shift 2
    "$calltrail" record "$@" ./calls >/dev/null 2>said
    check "$name" "2 1" "$? $(grep -c -e "$words" said)"
}
usage "no such metric" "there is no 'instructions'; there is: time" --engine exact -m instructions
usage "metric of another engine" "--metric requires --engine exact" -m time
for option in --k=2 --burst --trace=x.trace --delay=1 --duration=1; do
    usage "time and $option" "cannot be combined" --engine exact -m time "$option"
done
