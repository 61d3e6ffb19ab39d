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
for language in c cpp; do
    "$([ $language = c ] && echo gcc || echo g++)" -O2 -g -Iinclude -o "$work/example_$language" "examples/phases.$language"
done
python3 tests/events/events.py "$work"
