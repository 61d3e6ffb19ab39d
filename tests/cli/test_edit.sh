#!/usr/bin/env bash
# The sites of an edit plan against objdump: the same calls, with the same targets.
set -uo pipefail
calltrail=${CALLTRAIL:-build/calltrail}
here=$(dirname "$0")
for file in /usr/bin/perl /usr/bin/python3.11 /usr/bin/sqlite3 /usr/bin/lua5.4 \
    /lib/x86_64-linux-gnu/libc.so.6 /lib64/ld-linux-x86-64.so.2; do
    [ -e "$file" ] || continue
    python3 "$here/../edit/compare_sites.py" "$calltrail" "$file"
done
"$calltrail" doctor --edit >/dev/null 2>&1
[ $? -eq 2 ] && echo "ok edit needs a file" || echo "FAIL edit needs a file: status is not 2"
said=$("$calltrail" doctor --edit /etc/passwd 2>&1)
[ "$said" = "calltrail: /etc/passwd: is not an ELF file" ] && echo "ok edit of a text" ||
    echo "FAIL edit of a text: $said"
