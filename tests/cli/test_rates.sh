#!/usr/bin/env bash
# The rate is what was asked for: on one thread and eight, with signals blocked, in short lives.
# --long: to a few per cent, on a machine that does nothing else.
set -uo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$work/cache}
gcc -O2 -pthread -o "$work/burn" tests/rates/burn.c &&
    gcc -O2 -o "$work/launch" tests/torture/launch_limits.c &&
    python3 tests/rates/rates.py "$work" "$@"
