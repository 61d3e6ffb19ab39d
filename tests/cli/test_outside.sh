#!/usr/bin/env bash
# record --outside and -p: programs that nothing gets into, and processes that run already.
# --long: servers under load and programs of many kinds instead, for half an hour. Another argument chooses
# checks, by a pattern.
set -uo pipefail
cd "$(dirname "$0")/../.."
export CALLTRAIL=${CALLTRAIL:-$PWD/build/calltrail}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache
build() { # program, source, compiler and flags
    local program=$1 source=$2
    shift 2
    "$@" -g -pthread -o "$work/$program" "tests/outside/$source.c" || echo "FAIL outside: $program cannot be built"
}
build deep deep gcc -O0 -Wl,-z,now # with frame pointers; nothing is bound where it is deep
for name in shares strict lives kernel_time service alternate spawn pairs reuse crowd; do
    build $name $name gcc -O1
done
gcc -O2 -shared -fPIC -D_GNU_SOURCE -o "$work/same_tick.so" tests/outside/same_tick.c ||
    echo "FAIL outside: same_tick cannot be built"
build shares_static shares gcc -O1 -static
build others shares gcc -O1 -Dleft=other_left -Dright=other_right -Dhot=other_hot
build vanish vanish gcc -O1 -ldl
for number in 0 1 2 3; do
    build vanishing_$number.so vanishing gcc -O1 -shared -fPIC -DIN=in_$number
done
as --32 -o "$work/narrow.o" tests/outside/narrow.S 2>/dev/null &&
    ld -m elf_i386 -o "$work/narrow" "$work/narrow.o" 2>/dev/null # or the check is skipped
build shares_asan shares gcc -O1 -fsanitize=address
build shares_tsan shares gcc -O1 -fsanitize=thread
build elsewhere shares gcc -O1 -Wl,--dynamic-linker=/nonexistent/ld.so
build limits ../torture/launch_limits gcc -O1
build shares_stripped shares gcc -O1 -static -s
build shares_musl shares musl-gcc -O1
build shares_musl_static shares musl-gcc -O1 -static
status=0
files="outside cases children"
if [ "${1:-}" = --long ]; then
    files="wild languages servers"
    shift
fi
for checks in $files; do
    python3 tests/outside/$checks.py "$work" "$@" || status=1
done
exit $status
