#!/usr/bin/env bash
# What the documents show of the sources is so: the engine of docs/architecture.md goes into the tree
# as it is printed there, is two new files and a row, and compiles without a warning.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

say() { # name, status
    [ "$2" -eq 0 ] && echo "ok docs $1" || echo "FAIL docs $1: status $2"
}

cp -r "$root/src" "$root/meson.build" .
sed -n '/^```diff$/,/^```$/{/^```/d;p}' "$root/docs/architecture.md" >example.patch
patch -s -p1 <example.patch
say "the example applies" $?
for file in src/runtime/modules_only/engine_modules.c src/record/engine_modules.c src/runtime/engine.c; do
    gcc -std=gnu11 -D_GNU_SOURCE -Isrc -fsyntax-only -Wall -Wextra -Wconversion -Wshadow -Werror \
        -Wno-missing-field-initializers "$file"
    say "$(basename "$file") of the example compiles" $?
done
diff -rq "$root/src" src >changed
[ "$(wc -l <changed)" -eq 3 ] && [ "$(grep -c '^Only in src' changed)" -eq 2 ]
say "the example is two files and a row" $?
