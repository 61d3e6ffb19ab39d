#!/bin/bash
# record --every: slices add up to what was measured, to the sample; their folder is bounded; the program is as
# ever. With a server of the test's own: the same through a store that is away and comes back.
# Needs CALLTRAIL: the path of the program.
. "$(dirname "$0")/checks.sh"
needs CALLTRAIL
. "$here/slices.sh"
. "$here/postgres.sh"
same() { # NAME EXPECTED GOT: two profiles with the same costs
    stacks "$2" >expected
    stacks "$3" >got
    if [ ! -s expected ]; then
        fail "$1" 'nothing was measured'
    elif cmp -s expected got; then
        ok "$1"
    else
        fail "$1" "$(diff expected got | head -3)"
    fi
}
# Until it holds; that it never does is for the check that follows to say, minutes later.
wait_for() {
    local tries=0
    until "$@" || ! kill -0 "$recorder" 2>/dev/null || [ $tries -ge 3000 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
}
has_slices() { [ "$(count_slices "$1")" -ge "$2" ]; }

# ---- In a folder

begin --every 0.2s --keep kept
wait_for has_slices kept 3
finish
"$CALLTRAIL" merge -o sum.ctp kept/*.ctp
same slices-add-up calltrail.ctp sum.ctp
samples() { "$CALLTRAIL" info --json "$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)["samples"])'; }
if [ "$(samples calltrail.ctp)" = "$(samples sum.ctp)" ]; then ok counts-add-up; else fail counts-add-up "$(samples calltrail.ctp) $(samples sum.ctp)"; fi
invalid=
for slice in kept/*.ctp; do "$CALLTRAIL" info --check "$slice" >/dev/null 2>err || invalid=$(cat err); done
if [ -z "$invalid" ]; then ok slices-are-valid; else fail slices-are-valid "$invalid"; fi
# One slice begins where another ends.
times() { for slice in kept/*.ctp; do "$CALLTRAIL" info --json "$slice" | python3 -c '
import json, sys
i = json.load(sys.stdin)
print(i["slice_start_ns"], i["slice_end_ns"])'; done; }
if times | awk 'NR > 1 && $1 != end { exit 1 } { end = $2 }'; then ok no-gaps; else fail no-gaps "$(times)"; fi

# Threads that go on with the records of others, under other numbers.
export THREADS_ENDED=1100
begin --every 0.2s --keep reused
are_taken() { has_slices reused 4 || grep -q 'no slice' err; }
wait_for are_taken
finish
unset THREADS_ENDED
"$CALLTRAIL" merge -o sum.ctp reused/*.ctp
same slices-of-threads-that-go-on calltrail.ctp sum.ctp

"$CALLTRAIL" record --every 0.3s --keep whole ./burn 0.2 >out 2>err
status=$?
if [ $status -eq 7 ] && [ "$(cat out)" = 'done' ] && [ ! -s err ]; then ok program-as-ever; else fail program-as-ever "$status $(cat out err)"; fi
if has_slices whole 1; then ok last-slice; else fail last-slice 'none'; fi

begin --every 0.1s --keep bounded --keep-bytes 64K
seen_over() { { has_slices bounded 2 && [ "$(ls bounded | head -1)" != "$first" ]; } || has_slices bounded 60; }
wait_for has_slices bounded 1
first=$(ls bounded | head -1)
wait_for seen_over # the oldest has gone
finish
bytes=$(cat bounded/*.ctp | wc -c) largest=$(stat -c %s bounded/*.ctp | sort -n | tail -1)
if [ "$bytes" -le $((65536 + largest)) ] && [ ! -e "bounded/$first" ]; then ok bounded-folder; else fail bounded-folder "$bytes bytes"; fi

# calltrail itself is killed: what no slice has can be recovered, and nothing else.
begin --every 0.5s --keep killed
wait_for has_slices killed 2
program=$(pgrep -P "$recorder" -x burn)
folder=$(readlink /proc/"$recorder"/fd/* | grep -o '^.*/calltrail-[^/]*' | head -1)
kill -STOP "$program"
until is_stopped "$program"; do sleep 0.05; done
kill -USR2 "$recorder"
while [ ! -s calltrail.ctp ] && kill -0 "$recorder" 2>/dev/null; do sleep 0.05; done
kill -STOP "$recorder"
until is_stopped "$recorder"; do sleep 0.05; done
makers=$(pgrep -P "$recorder" -x calltrail)
kill -KILL "$recorder" "$program"
wait "$recorder" 2>/dev/null
for maker in $makers; do while kill -0 "$maker" 2>/dev/null; do sleep 0.05; done; done
if ! "$CALLTRAIL" recover -o rest.ctp "$folder" 2>err; then
    fail recovered "$(cat err)"
else
    "$CALLTRAIL" merge -o sum.ctp killed/*.ctp rest.ctp
    for file in calltrail.ctp sum.ctp; do "$CALLTRAIL" symbolize "$file" >/dev/null 2>&1; done # recover looks names up
    same recovered calltrail.ctp sum.ctp
fi
if [ -d "$folder" ]; then fail folder-is-gone "$(ls "$folder")"; else ok folder-is-gone; fi

# ---- What cannot be

refused no-place 2 '--keep DIR or --store URL' record --every 1s ./burn 0
refused bad-time 2 "is not a time" record --every 1x --keep k ./burn 0
refused bad-size 2 "is not a size" record --every 1s --keep k --keep-bytes 1 ./burn 0
refused with-output 2 'cannot be combined with -o' record --every 1s --keep k -o x.ctp ./burn 0
refused with-heap 2 'with -e cpu' record --every 1s --keep k -e heap ./burn 0
refused keep-alone 2 'require --every' record --keep k ./burn 0
: >file
refused not-a-folder 1 'file' record --every 1s --keep file ./burn 0

# ---- To a store

missing=$(postgres_missing)
if [ -n "$missing" ]; then
    echo "skip slices-to-store: $missing"
    [ $failures -eq 0 ]
    exit
fi
refused password 2 'a password on the command line' record --every 1s --keep k --store 'postgresql://u:s3cret@h/d' ./burn 0
trap 'postgres_remove; rm -rf "$dir"' EXIT
postgres_start '-c fsync=off' || { echo 'FAIL slices: no server'; exit 1; }
"$CALLTRAIL" store init "$url"
stored() { [ "$("$CALLTRAIL" store ls "$url" --label "run=$1" | wc -l)" -gt "$2" ]; }
begin --every 0.3s --keep spool --store "$url" --label run=1
wait_for stored 1 2
finish
"$CALLTRAIL" store query "$url" --label run=1 -o answer.ctp
same store-has-all calltrail.ctp answer.ctp
if [ "$(count_slices spool)" -eq 0 ]; then ok spool-is-empty; else fail spool-is-empty "$(ls spool)"; fi

# The store is away from the middle on, and slices are merged, since they are too many.
begin --every 0.1s --keep spool --keep-bytes 64K --store "$url" --label run=2
wait_for stored 2 1
postgres_stop immediate
merged() { ls spool/*+*.ctp >/dev/null 2>&1 || has_slices spool 60; }
wait_for merged
finish
bytes=$(cat spool/slice-* | wc -c)
if [ "$bytes" -le 200000 ]; then ok spool-is-bounded; else fail spool-is-bounded "$bytes bytes"; fi
if grep -q 'slices wait in spool' err && grep -q 'not all slices could be stored' err; then ok waiting-is-said; else fail waiting-is-said "$(cat err)"; fi
cp calltrail.ctp truth.ctp
postgres_start '-c fsync=off'
# The next recording takes along what was left, with the labels that it had.
begin --every 0.3s --keep spool --store "$url" --label run=3
emptied() { [ "$(find spool -name 'slice-*' | wc -l)" -eq 0 ] && stored 3 0; }
wait_for emptied
finish
"$CALLTRAIL" store query "$url" --label run=2 -o two.ctp
"$CALLTRAIL" store query "$url" --label run=3 -o three.ctp
same catches-up truth.ctp two.ctp
same catches-up-and-goes-on calltrail.ctp three.ctp

[ $failures -eq 0 ]
