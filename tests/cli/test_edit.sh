#!/usr/bin/env bash
# The sites of an edit plan against objdump: the same calls, with the same targets. And against
# programs as they run: nothing jumps into the middle of what is written over.
set -uo pipefail
calltrail=${CALLTRAIL:-build/calltrail}
here=$(dirname "$0")
for file in /usr/bin/perl /usr/bin/python3.11 /usr/bin/sqlite3 /usr/bin/lua5.4 \
    /lib/x86_64-linux-gnu/libc.so.6 /lib64/ld-linux-x86-64.so.2; do
    [ -e "$file" ] || continue
    python3 "$here/../edit/compare_sites.py" "$calltrail" "$file"
done
steps() { # milliseconds, command...
    local wait=$1
    shift
    python3 "$here/../edit/check_steps.py" "$calltrail" \
        "${STEP_RANGES:-build/tests/step_ranges}" "$wait" 50000 "$@"
}
steps 100 perl -e 'my %h; for (1..1e8) { $h{$_ % 97} = sprintf("%d,", $_) . length $h{$_ % 7} }'
steps 100 lua5.4 -e 'local t = {} for i = 1, 1e9 do t[i % 50] = tostring(i):gsub("1", "x") end'
steps 100 sqlite3 :memory: 'with recursive c(x) as (select 1 union all select x + 1 from c
    where x < 1e9) select sum(x), group_concat(x % 7) from c'
# The tool sees it when something jumps to a place like that: the loop of loop_call.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
gcc -static -no-pie -fno-pie -o "$work/short" "$here/../exact/short.c" "$here/../exact/short.S" || exit 1
site=$((0x$(nm "$work/short" | sed -n 's/ T loop_call//p') + 7))
printf '%s %x %x\n' "$work/short" $((site - 2)) $((site + 2)) >"$work/ranges"
"${STEP_RANGES:-build/tests/step_ranges}" "$work/ranges" 0 50000 "$work/short" >"$work/said"
[ $? -eq 1 ] && grep -q "leads to $(printf '%#x' $site), which is inside" "$work/said" &&
    echo "ok steps into a range" || echo "FAIL steps into a range: $(tail -1 "$work/said")"
"$calltrail" doctor --edit >/dev/null 2>&1
[ $? -eq 2 ] && echo "ok edit needs a file" || echo "FAIL edit needs a file: status is not 2"
said=$("$calltrail" doctor --edit /etc/passwd 2>&1)
[ "$said" = "calltrail: /etc/passwd: is not an ELF file" ] && echo "ok edit of a text" ||
    echo "FAIL edit of a text: $said"
said=$("$calltrail" doctor --edit perl | head -1) whole=$("$calltrail" doctor --edit "$(command -v perl)" | head -1)
[ -n "$said" ] && [ "$said" = "$whole" ] && echo "ok edit of a program by its name" ||
    echo "FAIL edit of a program by its name: $said"
said=$("$calltrail" doctor --edit no-such-program 2>&1)
[ "$said" = "calltrail: no-such-program: there is no such program in PATH" ] && echo "ok edit of no program" ||
    echo "FAIL edit of no program: $said"
# Code that belongs to no function, as whole ranges of some programs, is counted: 40 calls and a return are 321 bytes.
cat >"$work/gap.S" <<'END'
        .text
        .globl main
        .type main, @function
main:   .cfi_startproc
        xor %eax, %eax
        ret
        .cfi_endproc
        .size main, . - main
        .p2align 4
        .rept 40
        mov %rdi, %rax
        call puts@plt
        .endr
        ret
        .section .note.GNU-stack, "", @progbits
END
gcc -o "$work/gap" "$work/gap.S" && said=$("$calltrail" doctor --edit "$work/gap")
grep -q 'no calls were looked for in 321 bytes of code' <<<"$said" && echo "ok edit says what it did not look at" ||
    echo "FAIL edit says what it did not look at: $said"
