#!/usr/bin/env bash
# When samples came: against what a program itself says of when it ran what.
set -uo pipefail
cd "$(dirname "$0")/../.."
CALLTRAIL=${CALLTRAIL:-$PWD/build/calltrail}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$work/cache} PYTHONDONTWRITEBYTECODE=1
gcc -O1 -g -pthread -o "$work/parts" tests/times/parts.c &&
    python3 tests/times/times.py "$(realpath "$CALLTRAIL")" "$work/parts" "$work"
