#!/usr/bin/env bash
# Many children: what those that have ended measured becomes one, while the recording goes on, and nothing of it is lost,
# whether the recording ends, is killed, or is in slices.
. "$(dirname "$0")/checks.sh"
needs CALLTRAIL
gcc -O1 -g -o children "$here/../ended/children.c" || exit 1
count=1100
mkfifo go

# begin OPTIONS…: records, until all children have ended and their arenas are gone. Sets $recorder, $program and $folder;
# descriptor 3 is the program's input.
begin() {
    rm -f calltrail.ctp out
    "$CALLTRAIL" record --no-lines "$@" ./children $count <go >out 2>err &
    recorder=$!
    exec 3>go
    while [ ! -s out ] && kill -0 $recorder 2>/dev/null; do
        sleep 0.05
        [ -n "${keep_first:-}" ] || continue # a copy of a child's arena, as it was when the child had ended
        folder=$(folder_of $recorder)
        [ ! -e first ] && [ -e "$folder/3.arena" ] && cp "$folder/1.arena" first
    done
    folder=$(folder_of $recorder)
    program=$(pgrep -P $recorder -x children)
    while [ "$(find "$folder" -name '*.arena' | wc -l)" -gt 200 ] && kill -0 $recorder 2>/dev/null; do sleep 0.05; done
}
folder_of() { readlink /proc/"$1"/fd/* | grep -o '^.*/calltrail-[^/]*' | head -1; }

# written FILE: the bytes that children have written, in their context.
written() { "$CALLTRAIL" export --to folded --metric io_written "$1" | awk '/child_writes/ { sum += $NF } END { print sum + 0 }'; }
# processes FILE: how many there were.
processes() {
    "$CALLTRAIL" info --json "$1" | python3 -c '
import json, sys
print(sum(p.get("processes", 1) for p in json.load(sys.stdin)["processes"]))'
}
# whole NAME FILE: all children are in it, each once.
whole() {
    if ! "$CALLTRAIL" info --check "$2" >checked 2>&1; then
        fail "$1" "$(head -1 checked)"
    elif [ "$(written "$2")" -ne $((10 * count)) ]; then
        fail "$1" "children have written $(written "$2") bytes, not $((10 * count))"
    elif [ "$(processes "$2")" -ne $((count + 1)) ]; then
        fail "$1" "$(processes "$2") processes, not $((count + 1))"
    else
        ok "$1"
    fi
}

# ---- To the end

begin -e io
kill -USR2 $recorder
while [ ! -s calltrail.ctp ] && kill -0 $recorder 2>/dev/null; do sleep 0.05; done
cp calltrail.ctp snapshot.ctp
exec 3>&-
wait $recorder
status=$?
if [ $status -eq 5 ] && [ ! -s err ]; then ok status; else fail status "$status: $(head -1 err)"; fi
whole snapshot snapshot.ctp
whole to-the-end calltrail.ctp
if "$CALLTRAIL" report calltrail.ctp | grep -q "$((count + 1)) processes, $((count + 1)) threads"; then ok summary; else
    fail summary "$("$CALLTRAIL" report calltrail.ctp | head -2 | tail -1)"
fi
"$CALLTRAIL" info calltrail.ctp >info
if grep -q '^  pid .*children$' info && grep -qE '^  [0-9]{3,4} processes: .*children$' info &&
    grep -q "ran .*exited with status 5" info; then ok listed; else fail listed "$(head -8 info | tail -5)"; fi
if [ -d "$folder" ]; then fail folder-is-gone "$(ls "$folder")"; else ok folder-is-gone; fi

# ---- Killed

keep_first=yes
begin -e io
keep_first=
kill -KILL $recorder
wait $recorder 2>/dev/null
kill -KILL "$program"
exec 3>&-
while kill -0 "$program" 2>/dev/null; do sleep 0.05; done
# As if it had been killed between keeping what the first child measured and removing its arena.
if [ -e first ] && [ ! -e "$folder/1.arena" ]; then cp first "$folder/1.arena"; else fail first 'there is no arena of it'; fi
if "$CALLTRAIL" recover -o recovered.ctp "$folder" 2>err; then whole recovered recovered.ctp; else fail recovered "$(cat err)"; fi
if [ -d "$folder" ]; then fail folder-is-gone "$(ls "$folder")"; else ok recovered-folder-is-gone; fi

# ---- In slices

# contexts FILE…: samples by context, whatever process they are of.
contexts() { "$CALLTRAIL" merge -o all.ctp "$@" && "$CALLTRAIL" export --to folded all.ctp | LC_ALL=C sort; }
begin --every 0.5s --keep slices
kill -STOP "$program"
until grep -q '^State:.*[Tt] ' "/proc/$program/status"; do sleep 0.05; done
kill -USR2 $recorder
while [ ! -s calltrail.ctp ] && kill -0 $recorder 2>/dev/null; do sleep 0.05; done
cp calltrail.ctp snapshot.ctp
kill -KILL "$program"
exec 3>&-
wait $recorder
status=$?
contexts snapshot.ctp >truth
contexts slices/*.ctp >sum
if [ $status -ne 137 ] || [ -s err ]; then
    fail slices "$status: $(head -1 err)"
elif ! grep -q child_computes truth; then
    fail slices 'no child was sampled'
elif ! cmp -s truth sum; then
    fail slices "$(diff truth sum | head -3)"
else
    ok slices
fi

[ $failures -eq 0 ]
