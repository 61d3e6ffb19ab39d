#!/usr/bin/env bash
# Code that is changed while threads run it (src/runtime/edit/live.c): threads that a debugger puts
# where it is hardest, faults that must be noticed, and a storm of changes. With --long, a longer one.
set -uo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
seconds=1 changes=10000
[ "${1:-}" = --long ] && seconds=300 changes=100000

check() { # name, what must be, what is
    [ "$2" = "$3" ] && echo "ok live $1" || echo "FAIL live $1: '$3', not '$2'"
}
flags=(-g -O2 -Wall -Wextra -Werror -D_GNU_SOURCE -DLIVE_FAULTS "-I$here/../src" "-I$here/edit")
for part in live observe; do
    gcc "${flags[@]}" -mgeneral-regs-only -c "$here/../src/runtime/edit/$part.c" || exit 1
done
gcc -c "$here/edit/live_code.S" && g++ -g -O2 -c "$here/edit/live_throw.cpp" &&
    gcc "${flags[@]}" -c "$here/edit/live_storm.c" &&
    g++ -pthread -o live_storm live_storm.o live_throw.o live_code.o live.o observe.o &&
    gcc "${flags[@]}" -pthread -o live_parked "$here/edit/live_parked.c" live_code.o live.o observe.o || exit 1

timeout -s KILL 60 ./live_parked >said 2>&1
check "parked" "0 0 wrong" "$? $(tail -n 1 said)"
check "boundaries" 12 "$(sed -n 's/.*: \(.*\) boundaries/\1/p' said | awk "{n += \$1} END {print n}")"
[ "$(tail -n 1 said)" = "0 wrong" ] || cat said

# Each fault is found where it must be: a number of enum live_fault, and a part of what is said.
fault() { # name, number, words
    timeout -s KILL 60 ./live_parked "$2" >said 2>&1
    check "fault: $1" "1 yes" "$? $(grep -q "$3" said && echo yes)"
}
fault "no waiting" 1 "a thread inside was not waited for"
fault "the entrance stays open" 2 "the entrance is open"
fault "sleepers get a signal" 3 "the system call failed"
fault "frames of handlers are not looked at" 4 "a handler goes back inside"
fault "a child finds it closed" 5 "the child finds it closed"
fault "bytes are written one by one" 6 "while it changes: "

timeout -s KILL $((seconds + 300)) ./live_storm "$seconds" "$changes" >said 2>cost
status=$?
[ $status -eq 77 ] && cat said && exit 0
check "storm" "0 failures 0" "$status $(sed 's/.*; \(.*\), refused.*/\1/' said)"
check "changes" 1 "$(($(sed 's/ .*//' said) >= changes))"
cat said cost
