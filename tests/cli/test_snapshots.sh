#!/usr/bin/env bash
# Snapshots of contexts (calltrail.h) and `calltrail decode`: a program that knows its own calls compares; texts that
# were cut, changed or are of something else are errors; programs that were not built for it.
set -uo pipefail
calltrail=${CALLTRAIL:-$PWD/build/calltrail}
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

check() { # name, what must be, what is
    [ "$2" = "$3" ] && echo "ok snapshots $1" || echo "FAIL snapshots $1: '$3', not '$2'"
}
flags=(-g -pthread -Wall -Wextra -Werror -I"$here/../include")
gcc -O2 -fno-optimize-sibling-calls "${flags[@]}" -o snapshots "$here/encode/snapshots.c" || exit 1

# ---- What the program knows of itself, decoded there and later. ----
differing() { # profile, log: lines whose calls or keys are others than those that were noted
    "$calltrail" decode --inline --keys "$1" <"$2" | awk '/ = > / {
        n = index($0, " = "); noted = substr($0, n + 3); decoded = substr($0, 1, n - 1)
        if (substr(decoded, length(decoded) - length(noted) + 1) != noted || $1 != $2) wrong++
        lines++ } END { print (lines >= 16 ? "enough" : "few"), wrong + 0 }'
}
knows() { # name, rounds, options…
    local name=$1 rounds=$2
    shift 2
    "$calltrail" record --engine encode "$@" -o "$name.ctp" ./snapshots "$rounds" >"$name.log" 2>said
    check "$name: exit status, words" "0 " "$? $(cat said)"
    check "$name: in the program" "taken all 0 wrong" "$(tail -n 1 "$name.log")"
    check "$name: later" "enough 0" "$(differing "$name.ctp" "$name.log")"
}
knows usual 300
knows storm 100 --renumber 3
knows few 100 --max-ids 40
knows only 100 --modules snapshots
check "storm: numbers were made anew" 1 \
    "$(("$("$calltrail" info --json storm.ctp | python3 -c "import json, sys; print(json.load(sys.stdin)['encode_numberings'])")" > 200))"

# ---- Compilers, levels, C++, functions whose frames are aligned. ----
for build in "gcc -O0" "gcc -O3 -fomit-frame-pointer" "gcc -O2 -mstackrealign -mavx2" "clang -O2"; do
    # shellcheck disable=SC2086
    $build -fno-optimize-sibling-calls "${flags[@]}" -o built "$here/encode/snapshots.c" || exit 1
    check "$build" "taken all 0 wrong" "$("$calltrail" record --no-lines --engine encode -o built.ctp ./built 60 | tail -n 1)"
done
printf '#include <calltrail.h>\nint main() { ct_snapshot s; return ct_here(&s) ? 3 : 4; }\n' >plus.cpp
g++ -std=c++98 -O2 -Wall -Wextra -Werror -I"$here/../include" -o plus plus.cpp || exit 1
"$calltrail" record --no-lines --engine encode -o plus.ctp ./plus >/dev/null
check "C++" 3 $?

# ---- Without calltrail, and with another engine. ----
check "inert alone" inert "$(./snapshots)"
check "inert under engine sample" inert "$("$calltrail" record -o sampled.ctp ./snapshots 2>/dev/null)"

# ---- While a program pauses, nothing is known; then what is so. ----
cat >pauses.c <<'C'
#include <calltrail.h>
#include <stdio.h>
#include <string.h>
static int __attribute__((noipa)) leaf(const char *who)
{
    struct ct_snapshot s;
    struct ct_frame frames[8];
    if (!ct_here(&s))
        return 0;
    if (ct_decode(&s, frames, 8) < 4)
        return 1;
    return strcmp(frames[2].function, who) ? 2 : 3;
}
static int __attribute__((noipa)) middle(const char *who) { return leaf(who) + 10; }
static int __attribute__((noipa)) one(const char *who) { return middle(who) + 100; }
static int __attribute__((noipa)) two(const char *who) { return middle(who) + 100; }
int main(void)
{
    for (int i = 0; i < 3; i++) {
        printf("%d ", one("one"));
        ct_pause();
        printf("%d ", two("two"));
        ct_resume();
        printf("%d %d\n", two("two"), one("one"));
    }
    return 0;
}
C
gcc -O2 -fno-optimize-sibling-calls "${flags[@]}" -o pauses pauses.c || exit 1
check "pauses" "113 110 113 113|113 110 113 113|113 110 113 113" \
    "$("$calltrail" record --no-lines --engine encode -o pauses.ctp ./pauses | paste -sd '|')"

# ---- A program that was not built for it. ----
cat >asks.py <<'PYTHON'
import ctypes
process = ctypes.CDLL(None)
snapshot, text = (ctypes.c_uint64 * 5)(), ctypes.create_string_buffer(128)
print(process.calltrail_here(snapshot), process.calltrail_print(snapshot, text, 128), text.value.decode())
PYTHON
"$calltrail" record --no-lines --engine encode -o python.ctp python3 asks.py >python.log
check "dlsym: taken" "1" "$(cut -d' ' -f1 python.log)"
check "dlsym: decoded" "1" "$("$calltrail" decode --inline python.ctp <python.log | grep -c '_start > .*ffi_call.* > ')"

# ---- Lines, tasks, what a signal interrupted, a child that was killed. ----
calls() { # first word of the line in the log
    grep "^$1 " usual.log | "$calltrail" decode usual.ctp | sed -n 's/^    //p' | sed 's/ at snapshots.c:[0-9]*/ at line/'
}
check "fault" "faults at line leads_to_fault at line main at line" "$(calls fault | head -n 3 | paste -sd ' ')"
check "task" "works at line worker at line" "$(calls task | head -n 2 | paste -sd ' ')"
check "task: who handed it over" "hands_over at line (handed the work over) main at line" \
    "$(calls task | grep -A 1 'handed the work' | paste -sd ' ')"
check "child" "in_child at line (inlined) main at line" "$(calls child | head -n 2 | paste -sd ' ')"

# ---- On another machine: the profile alone. ----
mkdir elsewhere && cp usual.ctp usual.log elsewhere && mv snapshots hidden
check "elsewhere" "enough 0" "$(cd elsewhere && differing usual.ctp usual.log)"
mv hidden snapshots

# ---- What cannot be decoded says so. ----
text=$(grep -o 'ct:1:[^ ]*' usual.log | head -n 1)
refused() { # name, what is said, text
    local said
    said=$("$calltrail" decode usual.ctp "$3" 2>errors)
    check "$1: status" "1 calltrail: usual.ctp: 1 of 1 snapshots could not be decoded" "$? $(cat errors)"
    check "$1" "    (not decoded: $2)" "$said"
}
changed() { # field, value
    python3 "$here/encode/change_snapshot.py" "$text" "$@"
}
check "an unchanged one is decoded" 0 "$("$calltrail" decode usual.ctp "$(changed task +0)" >/dev/null; echo $?)"
refused "cut" "the snapshot was cut or changed" "${text%?}"
refused "changed" "the snapshot was cut or changed" "${text/./1.}"
refused "another run" "the snapshot is of another run" "$(changed run +1)"
refused "another thread" "it has no dictionary of the snapshot's thread" "$(changed thread 999)"
refused "a wrong timestamp" "the dictionary of its thread does not have its numbering" "$(changed numbering 999)"
refused "a word beyond" "the snapshot's word is not of its function" "$(changed word ^0x7fffffff00000000)"
refused "an entry beyond" "the snapshot's word is not of its function" "$(changed word ^0x7fffffff)"
refused "another function" "the snapshot's word is not of its function" "$(changed function +64)"
refused "a task beyond" "the dictionary of its thread does not have its task" "$(changed task 77)"
"$calltrail" merge -o merged.ctp usual.ctp storm.ctp >/dev/null 2>&1
check "merged" "    (not decoded: it has no dictionaries: with --engine encode no snapshot was taken, or it was merged)" \
    "$("$calltrail" decode merged.ctp "$text" 2>/dev/null)"

# A profile whose dictionaries are damaged, with hashes that are right or wrong.
python3 - usual.ctp <<'PYTHON'
import sys
sys.dont_write_bytecode = True
data = bytearray(open(sys.argv[1], "rb").read())
toc, count, size = (int.from_bytes(data[a:b], "little") for a, b in ((24, 32), (32, 36), (36, 40)))
for i in range(count):
    entry = data[toc + i * size:toc + (i + 1) * size]
    if int.from_bytes(entry[0:4], "little") == 18:
        offset = int.from_bytes(entry[16:24], "little")
        data[offset + 100] ^= 1
open("damaged.ctp", "wb").write(data)
PYTHON
"$calltrail" decode damaged.ctp "$text" >/dev/null 2>errors
check "damaged" "1 1" "$? $(grep -c 'damaged.ctp: is damaged: the hash of section .* (dictionaries) does not match' errors)"
"$calltrail" decode usual.ctp words >/dev/null 2>errors
check "usage" "2 1" "$? $(grep -c "'words' is not a snapshot" errors)"
