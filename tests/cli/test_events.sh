#!/usr/bin/env bash
# record -e: programs whose truth is known, or who measure it themselves, against the profile.
set -uo pipefail
cd "$(dirname "$0")/../.."
export CALLTRAIL=${CALLTRAIL:-$PWD/build/calltrail}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$work/cache}
for program in tests/events/*.c; do
    name=$(basename "$program" .c)
    gcc -O2 -g -pthread -Iinclude -o "$work/$name" "$program" || echo "FAIL events: $name cannot be built"
done
gcc -O2 -g -D_FORTIFY_SOURCE=2 -o "$work/stdio_checked" tests/events/stdio.c
g++ -O2 -g -std=c++17 -o "$work/allocators" tests/events/allocators.cpp
for library in jemalloc:libjemalloc.so.2 tcmalloc:libtcmalloc_minimal.so.4; do
    g++ -O2 -g -std=c++17 -o "$work/allocators_${library%:*}" tests/events/allocators.cpp \
        -Wl,--no-as-needed "-l:${library#*:}"
done
printf '%s\n' '#include <stdio.h>' '#include <stddef.h>' 'static char room[1 << 20]; static size_t used;' \
    'void *malloc(size_t n) { used += 16 + (n + 15) / 16 * 16; return room + used - (n + 15) / 16 * 16; }' \
    'void free(void *p) { (void)p; }' 'int main(void) { puts("fine"); return 0; }' >"$work/own_malloc.c"
gcc -O0 -fno-builtin -o "$work/own_malloc" "$work/own_malloc.c"
for language in c cpp; do
    "$([ $language = c ] && echo gcc || echo g++)" -O2 -g -Iinclude -o "$work/example_$language" "examples/phases.$language"
done
python3 tests/events/events.py "$work" "$@"
