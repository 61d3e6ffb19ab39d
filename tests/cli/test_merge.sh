#!/bin/sh
# calltrail merge: any order and any grouping gives the same bytes; sums against those of the parts, by
# programs that know nothing of merging; many files in bounded memory; errors.
# Needs CALLTRAIL, GEN_PROFILE, FIXED_PROFILE and SAMPLE_PROFILE: paths of the programs.
. "$(dirname "$0")/checks.sh"
needs CALLTRAIL GEN_PROFILE FIXED_PROFILE SAMPLE_PROFILE
oracle=$here/../oracle/ctp_reader.py

refused() {
    name=$1 status=$2 pattern=$3
    shift 3
    "$CALLTRAIL" merge "$@" >out 2>err </dev/null
    got=$?
    if [ $got -ne "$status" ]; then
        fail "$name" "status $got, not $status"
    elif [ -s out ] || [ "$(wc -l <err)" -ne 1 ]; then
        fail "$name" "not one line: $(cat out err)"
    elif ! grep -q -- "$pattern" err; then
        fail "$name" "not '$pattern': $(cat err)"
    elif [ -e refused.ctp ]; then
        fail "$name" "it wrote something"
    else
        ok "$name"
    fi
}

for i in 1 2 3 4; do
    "$GEN_PROFILE" --seed $i --nodes $((i * 300)) --metrics $i --threads $i g$i.ctp
done
"$GEN_PROFILE" --seed 5 --nodes 0 --metrics 1 g5.ctp
"$FIXED_PROFILE" fixed.ctp
"$SAMPLE_PROFILE" --seed 1 s1.ctp
"$SAMPLE_PROFILE" --seed 2 --rebuilt s2.ctp
"$SAMPLE_PROFILE" --seed 3 --program /opt/elsewhere/program moved.ctp
"$SAMPLE_PROFILE" --seed 4 --unit calls units.ctp

# ---- Order and grouping

cat >orders.py <<'END'
"""Merges the same files in random orders and groupings: the bytes must be the same."""
import os, random, subprocess, sys
calltrail, options, files = os.environ["CALLTRAIL"], sys.argv[1].split(), sys.argv[2:]
random.seed(7)
count = 0

def merge(parts):
    global count
    count += 1
    out = f"merged-{count}.ctp"
    subprocess.run([calltrail, "merge", *options, "-o", out, *parts], check=True)
    return out

first = open(merge(files), "rb").read()
for _ in range(12):
    parts = random.sample(files, len(files))
    while len(parts) > 1:
        size = random.randint(1, len(parts))
        parts = [merge(parts[:size])] + parts[size:]
        random.shuffle(parts)
        if size == len(parts) == 1:
            break
    assert open(parts[0], "rb").read() == first, f"{parts[0]} is another profile"
END
export CALLTRAIL
files='g1.ctp g2.ctp g3.ctp g4.ctp g5.ctp fixed.ctp s1.ctp s2.ctp s1.ctp'
# shellcheck disable=SC2086
holds any-order-and-grouping python3 orders.py '' $files
# shellcheck disable=SC2086
holds any-order-and-grouping-with-threads python3 orders.py --threads $files

# ---- What is in it

# same NAME FILE: an independent reader says the same of it as calltrail info, which checks all of it.
same() {
    if ! "$CALLTRAIL" info --check --json "$2" >info.json 2>err; then
        fail "$1" "$(cat err)"
    elif ! python3 "$oracle" "$2" info.json >differences 2>&1; then
        fail "$1" "$(tail -1 differences)"
    else
        ok "$1"
    fi
}
folded() { "$CALLTRAIL" export --to folded "$@"; }
sum_up() { awk '{ value = $NF; sub(/ [0-9]+$/, ""); sums[$0] += value }
    END { for (stack in sums) printf "%s %.0f\n", stack, sums[stack] }' | LC_ALL=C sort; }
# sums NAME OPTIONS FILES…: the folded stacks of the merged profile are the sums of those of the files.
sums() {
    name=$1 options=$2
    shift 2
    # shellcheck disable=SC2086
    "$CALLTRAIL" merge $options -o merged.ctp "$@" || fail "$name" "not merged"
    for file in "$@"; do folded $export "$file"; done | sum_up >expected
    folded $export merged.ctp | sum_up >got
    if [ ! -s got ]; then
        fail "$name" "nothing"
    elif cmp -s expected got; then
        ok "$name"
    else
        fail "$name" "$(diff expected got | head -3 | cut -c 1-200)"
    fi
    same "$name, valid" merged.ctp
}
export=
sums one-file '' fixed.ctp
sums two-files '' fixed.ctp s1.ctp
sums twice '' s1.ctp s1.ctp
sums generated '' g1.ctp g2.ctp g3.ctp g4.ctp g5.ctp
sums another-build '' s1.ctp s2.ctp
sums with-threads --threads g1.ctp g2.ctp g3.ctp g4.ctp fixed.ctp
export='--metric malloc'
sums another-metric '' fixed.ctp g2.ctp g3.ctp
export='--threads'
sums threads-by-name '' fixed.ctp s1.ctp g2.ctp g4.ctp

value() { python3 -c "import json, sys; info = json.load(sys.stdin); print($1)"; }
info_is() { # NAME EXPRESSION EXPECTED
    got=$("$CALLTRAIL" info --json merged.ctp | value "$2")
    if [ "$got" = "$3" ]; then ok "$1"; else fail "$1" "$got, not $3"; fi
}
"$CALLTRAIL" merge -o merged.ctp fixed.ctp fixed.ctp
info_is processes-of-one-program "len(info['processes'])" 2
info_is counts-are-summed "info['samples'], info['lost'], info['profiles_merged']" '2116 6 2'
info_is seconds-are-summed "info['utime_s'], info['stime_s']" '2.142 0.244'
info_is same-numbers-stay "info['processes'][0]['pid']" 4711
info_is same-period-stays "info['metrics'][0]['period']" 1001001
"$CALLTRAIL" merge -o merged.ctp fixed.ctp s1.ctp
# 1058 samples of 1001001 ns and 5000 of 200000 ns: 2059059058 / 6058 = 339891 ns for each.
info_is merged-period "info['metrics'][0]['period'], info['metrics'][0]['samples_estimated']" '339891 6058'
"$CALLTRAIL" merge -o merged.ctp s1.ctp s2.ctp
info_is two-builds "len(info['modules']), len(info['processes'])" '4 2'
"$CALLTRAIL" merge -o merged.ctp s1.ctp moved.ctp
info_is same-build-elsewhere "len(info['modules']), info['functions'], info['modules'][-1]['path']" \
    '2 46 /opt/elsewhere/program'

# ---- Many files

"$SAMPLE_PROFILE" --seed 9 --samples 500 one.ctp
i=0
while [ $i -lt 2000 ]; do
    echo one.ctp
    i=$((i + 1))
done >list
if "$CALLTRAIL" merge -o many.ctp @list && "$CALLTRAIL" merge -o piped.ctp @- <list && cmp -s many.ctp piped.ctp
then ok list; else fail list 'not merged'; fi
cp many.ctp merged.ctp
info_is many "info['profiles_merged'], info['metrics'][0]['total']" "2000 $((2000 * 500 * 200000))"
# A limit on memory that 2000 profiles would not fit in: what is kept is the sum.
if [ -n "${SANITIZE:-}" ]; then
    echo 'skip bounded-memory: a sanitizer takes all addresses for itself'
else
    holds bounded-memory sh -c "ulimit -v 40000; '$CALLTRAIL' merge -o many.ctp @list"
fi

# ---- Errors

echo 'int main;' >text.c
: >empty
cp s1.ctp newer.ctp && printf '\002' | dd of=newer.ctp bs=1 seek=8 conv=notrunc 2>/dev/null
cp s1.ctp damaged.ctp && printf '\377' | dd of=damaged.ctp bs=1 seek=100 conv=notrunc 2>/dev/null
head -c 2000 s1.ctp >truncated.ctp
refused not-a-profile 1 'text.c: is not a calltrail profile' -o refused.ctp s1.ctp text.c
refused newer 1 'newer.ctp: written by a newer calltrail' -o refused.ctp newer.ctp
refused truncated 1 'truncated.ctp: is truncated' -o refused.ctp s1.ctp truncated.ctp
refused damaged 1 'damaged.ctp: is damaged' -o refused.ctp s1.ctp damaged.ctp
refused missing 1 'nowhere.ctp: .*No such file' -o refused.ctp nowhere.ctp
refused missing-list 1 'nolist: .*No such file' -o refused.ctp @nolist
refused empty-list 1 'the list is empty' -o refused.ctp @empty
refused other-unit 1 'units.ctp: cpu is in calls there, and in ns in those before' \
    -o refused.ctp s1.ctp units.ctp
refused no-output 2 '-o OUT is required' s1.ctp
refused no-files 2 'profiles are required' -o refused.ctp
refused unknown-option 2 "unknown option '--frob'" --frob -o refused.ctp s1.ctp
refused folder 1 'nowhere' -o nowhere/out.ctp s1.ctp
holds help "$CALLTRAIL" merge --help

[ $failures -eq 0 ]
