#!/usr/bin/env bash
# Engine encode: its options, what info says, and that contexts are right whenever numbers are made.
set -uo pipefail
calltrail=${CALLTRAIL:-$PWD/build/calltrail}
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
gcc -g -O2 -pthread -o paths "$here/encode/paths.c" || exit 1

check() { # name, what must be, what is
    [ "$2" = "$3" ] && echo "ok encode $1" || echo "FAIL encode $1: '$3', not '$2'"
}
fact() { # key, profile
    "$calltrail" info --json "$2" | python3 -c "import json, sys; print(json.load(sys.stdin)['$1'])"
}
record() { # profile, rounds, options...
    local out=$1 rounds=$2
    shift 2
    "$calltrail" record --no-lines -F 4999 -o "$out" "$@" ./paths "$rounds" 2>said >printed
}
same() { # name, rounds: the run before it printed what the program prints, and nothing else was said
    check "$1: output" "$(./paths "$2")" "$(cat printed)"
    check "$1: says nothing" "" "$(cat said)"
}
unknown() { # profile: its contexts that engine exact has not
    python3 "$here/encode/is_subset.py" "$1" exact.ctp paths any f3 | cut -d' ' -f2
}

# Each context that was decoded is one of those in which engine exact counts calls.
rounds=800
record exact.ctp $rounds --engine exact
record own.ctp $rounds --engine encode
same own $rounds
check "own: contexts that there are not" 0 "$(unknown own.ctp)"
check "own: has edges with codes" 1 "$(($(fact encode_coded_edges own.ctp) > 20))"
check "own: has edges without" 1 "$(($(fact encode_back_edges own.ctp) > 5))"
check "own: few contexts are walked" 1 "$(($(fact encode_walked own.ctp) * 10 <= $(fact encode_decoded own.ctp) + 100))"

# With few numbers, the coldest edges have no code.
record few.ctp $rounds --engine encode --max-ids 120
same few $rounds
check "few numbers: contexts that there are not" 0 "$(unknown few.ctp)"
check "few numbers: fewer edges with codes" 1 \
    "$(($(fact encode_coded_edges few.ctp) < $(fact encode_coded_edges own.ctp)))"

# Decoded contexts are those that a walk finds, however often numbers are made anew.
record verified.ctp $rounds --engine encode --verify
same verified $rounds
check "verified: differences" 0 "$(fact verify_differ verified.ctp)"
record storm.ctp 150 --engine encode --verify --renumber 3
same storm 150
check "storm: differences" 0 "$(fact verify_differ storm.ctp)"
check "storm: numbers were made anew" 1 "$(($(fact encode_numberings storm.ctp) > 500))"
check "storm: some were decoded" 1 "$(($(fact encode_decoded storm.ctp) > 0))"

# Only the program's own calls.
record only.ctp $rounds --engine encode --modules paths --verify
same modules $rounds
check "modules: differences" 0 "$(fact verify_differ only.ctp)"
check "modules: few sites" 1 "$(($(fact sites only.ctp) * 10 < $(fact sites own.ctp)))"

usage() { # name, what is said, options...
    local name=$1 what=$2
    shift 2
    "$calltrail" record -o bad.ctp "$@" ./paths 1 >printed 2>said
    check "usage: $name" "2 1" "$? $(grep -cF -- "$what" said)"
}
usage "no numbers" "--max-ids: '0' is not from 1 to 2147483647" --engine encode --max-ids 0
usage "words" "--max-ids: 'many' is not from 1 to 2147483647" --engine encode --max-ids many
usage "renumber" "--renumber: '-1' is not from 1 to 2147483647" --engine encode --renumber -1
usage "perf events" "perf events cannot be combined with --engine encode" --engine encode -e perf:instructions
usage "another engine" "record: --max-ids requires --engine encode" --max-ids 5

# Unwinders ask the linker for each frame, through the stand-in for that: no context has to be found by a walk for it.
cat >walks.c <<'C'
#include <execinfo.h>
static int __attribute__((noipa)) deeper(int depth)
{
    void *frames[64];
    int count = 0;
    for (int i = 0; depth == 0 && i < 200; i++)
        count += backtrace(frames, 64);
    return depth ? deeper(depth - 1) + 1 : count;
}
int main(void) { return deeper(20) < 200 * 20; }
C
gcc -O2 -fno-optimize-sibling-calls -o walks walks.c || exit 1
"$calltrail" record --no-lines --engine encode -o walks.ctp ./walks
check "backtrace: frames" 0 $?
check "backtrace: few walks" 1 "$(($(fact encode_resyncs walks.ctp) < 2000))"

# How contexts are encoded while a program runs, and how they would be by who knows all calls: worked out by hand.
"$calltrail" info --encoding own.ctp >encoding
check "info: as the facts" "$(fact encode_edges own.ctp), $(fact encode_coded_edges own.ctp) with a code, $(fact encode_back_edges own.ctp) that" \
    "$(sed -n 's/^  edges *\(.*\) close a cycle/\1/p' encoding)"
check "info: progress" 1 "$(($(grep -cE '^  +[0-9]+\.[0-9]{3}( +[0-9]+){6}$' encoding) >= 1))"
depths=$(sed '1,/^Samples/d' encoding | awk '{ sum += $2 } END { print sum }')
check "info: depths" 1 "$((depths > 0 && depths <= $(fact samples own.ctp)))"
cat >known.c <<'C'
#define NOINLINE __attribute__((noipa))
static NOINLINE int b(int depth) { return depth ? b(depth - 1) + 1 : 0; } /* closes a cycle: 12 calls */
static NOINLINE int a(int n) { return b(n) + 3 * b(n + 0); }              /* two places, 3 calls each */
__attribute__((force_align_arg_pointer)) void _start(void)
{
    int sum = 0;
    for (volatile int i = 0; i < 3; i++)
        sum += a(2);
    __asm__ volatile("syscall" : : "a"(231), "D"(sum == 1)); /* exit_group */
}
C
gcc -O1 -nostartfiles -fno-optimize-sibling-calls -o known known.c || exit 1
"$calltrail" record --no-lines --engine exact --modules known -o known.ctp ./known
"$calltrail" info --encoding known.ctp | sed -E '/a second/s/, .*//; s/ +/ /g' >encoding
expected=$(printf '%s\n' "Encoding by who knows all calls before (PCCE)" " functions (nodes) 2" " edges 4, 1 that close a cycle" \
    " numbers (maxID) 2" " calls 21" " on edges that add 0 6 (28.6%)" " that add something 3 (14.3%)" \
    " that push (ccStack) 12 (57.1%)" " pushed contexts 0.9 on average" "" \
    "Calls by the depth of the stack of contexts that were pushed" " 0 9 42.9%" " 1 6 28.6%" " 2 6 28.6%")
check "info: known" "$expected" "$(cat encoding)"
"$calltrail" record --no-lines -o sampled.ctp ./known
"$calltrail" info --encoding sampled.ctp 2>said
check "info: neither" "1 1" "$? $(grep -c 'it has no counted calls' said)"
