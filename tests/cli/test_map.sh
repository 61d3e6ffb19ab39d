#!/usr/bin/env bash
# calltrail map against readelf, nm and the compiler; the cache; wrong input.
set -uo pipefail
cd "$(dirname "$0")/../.."
CALLTRAIL=${CALLTRAIL:-$PWD/build/calltrail}
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache
failed=0

check() { # name, command...
    local name=$1
    shift
    if "$@" >"$work/out" 2>&1; then
        echo "ok map: $name"
    else
        tail -n 5 "$work/out"
        echo "FAIL map: $name"
        failed=1
    fi
}

# --- functions -----------------------------------------------------------------------------------

# Every defined function symbol that readelf shows is there, with its address, size and name.
functions_equal_readelf() { # file, table (dynsym or symtab)
    "$CALLTRAIL" map --functions --json "$1" >"$work/map.json" || return 1
    readelf -W $([ "$2" = dynsym ] && echo --dyn-syms || echo --syms) "$1" >"$work/symbols" || return 1
    python3 - "$work/map.json" "$work/symbols" "$2" <<'PY'
import json, sys
functions = {f["start"]: f for f in json.load(open(sys.argv[1]))["functions"]}
seen, table = {}, None
for line in open(sys.argv[2]):
    if line.startswith("Symbol table"):
        table = line.split("'")[1].lstrip(".")
    part = line.split()
    if table != sys.argv[3] or len(part) < 8 or part[3] not in ("FUNC", "IFUNC"):
        continue
    if part[6] in ("UND", "ABS") or not part[0].endswith(":"):
        continue
    size = int(part[2], 0)
    entry = seen.setdefault(int(part[1], 16), [0, set()])
    entry[0] = max(entry[0], size)
    entry[1].add(part[7].split("@")[0])
assert seen, "readelf shows no functions"
for start, (size, names) in seen.items():
    f = functions.get(start)
    assert f, f"no function at {start:#x} ({names})"
    assert names <= {f["name"], *f["aliases"]}, (hex(start), names, f)
    assert not size or f["size"] >= size, (hex(start), size, f)
print(len(seen), "functions equal")
PY
}

libc=$(ldd /bin/sh | awk '/libc\.so/ { print $3 }')
check "functions of libc equal readelf's" functions_equal_readelf "$libc" dynsym
check "functions of calltrail itself equal readelf's" functions_equal_readelf "$CALLTRAIL" symtab

# main and _start of a stripped program are where nm shows them in the whole one; a program with a start
# of its own has neither name.
start_is_named() { # gcc's options
    printf 'int main(void) { return 0; }\n' >"$work/start.c"
    gcc -O2 "$@" -o "$work/whole" "$work/start.c" && strip -o "$work/bare" "$work/whole" || return 1
    nm "$work/whole" | awk '$3 == "main" || $3 == "_start" { print $1, $3 }' | sort >"$work/expected"
    "$CALLTRAIL" map --functions "$work/bare" | awk '$3 == "main" || $3 == "_start" { print $1, $3 }' | sort |
        diff "$work/expected" - && [ "$(wc -l <"$work/expected")" -eq 2 ]
}
check "start of a stripped program" start_is_named -pie -fPIE
check "start of a stripped program at a fixed address" start_is_named -no-pie
check "start of a stripped static program" start_is_named -static
check "start of a stripped static program, moved" start_is_named -static-pie
start_of_ones_own() {
    printf 'void _start(void) { for (;;); }\n' >"$work/own.c"
    gcc -O2 -nostdlib -static -s -o "$work/own" "$work/own.c" || return 1
    "$CALLTRAIL" map --functions "$work/own" >"$work/own.txt" && [ -s "$work/own.txt" ] &&
        ! grep -wE 'main|_start' "$work/own.txt"
}
check "start of another kind" start_of_ones_own

# The compiler splits this into f and f.cold; without symbols the parts must still be joined.
cat >"$work/cold.c" <<'C'
#include <stdio.h>
#include <stdlib.h>
__attribute__((cold, noinline)) void complain(const char *what, int n) { printf("%s %d\n", what, n); }
int table[64];
__attribute__((noinline)) int f(int a, int b, int c)
{
    int sum = 0;
    for (int i = 0; i < a; i++) {
        sum += table[i & 63] * b + table[(i + c) & 63];
        if (sum < -1000000) {
            complain("f", sum);
            complain("again", i);
            abort();
        }
        table[i & 63] = sum + getchar();
    }
    return sum;
}
__attribute__((noinline)) int g(int a, int b)
{
    int kept = a * b, more = f(a, b, 1);
    if (__builtin_expect(more == 77, 0)) {
        complain("g", kept);
        complain("g", more);
        exit(kept);
    }
    return kept + f(more, a, b) + kept * more;
}
int main(int argc, char **argv) { return g(argc, (int)(long)argv[0][0]); }
C
gcc -O2 -o "$work/cold" "$work/cold.c" && strip -o "$work/cold.stripped" "$work/cold"
cold_parts() { # file
    "$CALLTRAIL" map --functions --json "$1" |
        python3 -c '
import json, sys
for f in json.load(sys.stdin)["functions"]:
    if "part_of" in f: print(f["start"], f["part_of"])'
}
cold_parts_join() {
    nm "$work/cold" | awk '$3 ~ /\.cold$/ { print $3 }' >"$work/parts"
    [ -s "$work/parts" ] || { echo "the compiler made no .cold part"; return 1; }
    cold_parts "$work/cold" >"$work/by_name"
    [ "$(wc -l <"$work/by_name")" -eq "$(wc -l <"$work/parts")" ] || return 1
    while read -r part whole; do
        symbol=$(nm "$work/cold" | awk -v a="$(printf %016x "$part")" '$1 == a { print $3 }')
        expected=$(nm "$work/cold" | awk -v n="${symbol%.cold}" '$3 == n { print $1 }')
        [ "$(printf %016x "$whole")" = "$expected" ] || { echo "$symbol: $whole"; return 1; }
    done <"$work/by_name"
}
check "cold parts are joined by name" cold_parts_join
cold_parts_join_stripped() {
    cold_parts "$work/cold" >"$work/by_name"
    cold_parts "$work/cold.stripped" >"$work/by_jump"
    diff "$work/by_name" "$work/by_jump"
}
check "cold parts are joined in a stripped file too" cold_parts_join_stripped

# A part of a part: nothing but the jumps says so, and both are parts of the same function.
parts_of_parts() {
    gcc -O1 -o "$work/parts" tests/exact/parts.c tests/exact/parts.S || return 1
    [ "$("$CALLTRAIL" map --functions "$work/parts" | grep -c ' -  (part of parts)$')" -eq 2 ] || return 1
    address=$((0x$(nm "$work/parts" | awk '$3 == "parts" { print $1 }')))
    [ "$(cold_parts "$work/parts" | awk '{ print $2 }' | tr '\n' ' ')" = "$address $address " ]
}
check "parts of cold parts are joined" parts_of_parts

# BOLT calls a part f.warm; there is one for each .cold part here.
warm_parts_join() {
    nm "$work/cold" | awk '$3 ~ /\.cold$/ { print $3, substr($3, 1, length($3) - 5) ".warm" }' \
        >"$work/renamed"
    # Without a build-id, or the cache would answer for the other file.
    objcopy --redefine-syms="$work/renamed" --remove-section=.note.gnu.build-id "$work/cold" \
        "$work/warm" || return 1
    nm "$work/warm" | grep -q '\.warm$' || return 1
    cold_parts "$work/cold" >"$work/by_name"
    cold_parts "$work/warm" | diff "$work/by_name" -
}
check "warm parts are joined by name" warm_parts_join

# With a section for every block, parts are named f.__part.N, and reached from each other.
cat >"$work/blocks.c" <<'C'
#include <stdio.h>
__attribute__((noinline)) static int helper(int x) { return x % 7 ? x * 3 : x + 1; }
__attribute__((noinline)) int many(int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++) {
        if (i % 3 == 0) sum += helper(i);
        else if (sum > 1000) sum -= helper(sum);
        else sum ^= i;
    }
    return sum;
}
__attribute__((noinline)) static int deep(int d)
{
    if (d < 2) return d;
    int a = deep(d - 1);
    if (a & 1) a += helper(a);
    return a + deep(d - 2);
}
int main(int argc, char **argv) { (void)argv; printf("%d %d\n", many(argc * 100), deep(10)); }
C
blocks_join() { # file: each part, its function by name
    nm "$work/blocks" | python3 -c '
import re, sys
symbols = {name: int(at, 16) for at, _, name in (l.split() for l in sys.stdin if len(l.split()) == 3)}
for at, whole in sorted((symbols[n], symbols[n.split(".__part.")[0]]) for n in symbols if ".__part." in n):
    print(at, whole)' >"$work/expected"
    [ "$(wc -l <"$work/expected")" -ge 10 ] || { echo "the compiler made no parts"; return 1; }
    cold_parts "$1" | diff "$work/expected" -
}
if clang -O2 -fbasic-block-sections=all -fuse-ld=lld -o "$work/blocks" "$work/blocks.c" 2>/dev/null; then
    strip -o "$work/blocks.stripped" "$work/blocks"
    check "blocks with sections of their own are joined by name" blocks_join "$work/blocks"
    check "blocks are joined in a stripped file too" blocks_join "$work/blocks.stripped"
else
    echo "skip map: blocks with sections of their own: no clang with lld here"
fi

# Names from where they can be: a debug link, .gnu_debugdata.
names_of() { "$CALLTRAIL" map --functions "$1" | awk '{ print $3 }' | grep -cxE 'f,?|g,?'; }
debug_link() {
    objcopy --only-keep-debug "$work/cold" "$work/linked.debug" &&
        objcopy --add-gnu-debuglink="$work/linked.debug" "$work/cold.stripped" "$work/linked" &&
        [ "$(names_of "$work/cold.stripped")" -eq 0 ] && [ "$(names_of "$work/linked")" -eq 2 ]
}
check "names come from a .gnu_debuglink file" debug_link
foreign_debug_link() { # another program under the name of the link
    gcc -O1 -o "$work/other" "$work/cold.c" && cp "$work/other" "$work/linked.debug" &&
        [ "$(names_of "$work/linked")" -eq 0 ]
}
check "a debug file of another build is not taken" foreign_debug_link
mini_debug() {
    objcopy --only-keep-debug "$work/cold" "$work/mini.debug" &&
        xz -kf "$work/mini.debug" &&
        objcopy --add-section .gnu_debugdata="$work/mini.debug.xz" "$work/cold.stripped" "$work/mini" &&
        [ "$(names_of "$work/mini")" -eq 2 ]
}
check "names come from .gnu_debugdata" mini_debug

# A file without section headers is described through its program headers.
no_sections() {
    python3 - "$libc" "$work/nosections.so" <<'PY'
import struct, sys
b = bytearray(open(sys.argv[1], "rb").read())
b[40:48] = bytes(8)                      # e_shoff
b[58:64] = bytes(6)                      # e_shentsize, e_shnum, e_shstrndx
open(sys.argv[2], "wb").write(b)
PY
    # Between sections there is a hole with one, and nothing to see without.
    rules() { awk '$2 !~ /none/ { rule = $0; sub(/^[^ ]* */, "", rule); if (rule != last) print; last = rule }'; }
    "$CALLTRAIL" map --unwind "$libc" | rules >"$work/with"
    "$CALLTRAIL" map --unwind "$work/nosections.so" | rules >"$work/without"
    [ "$(wc -l <"$work/with")" -gt 10000 ] && diff "$work/with" "$work/without"
}
check "a file without section headers has the same rows" no_sections

# --- the cache -----------------------------------------------------------------------------------

from_cache() { "$CALLTRAIL" map "$1" | grep -q 'from the cache'; }
entries() { find "$work/cache" -name '*.map'; }
check "a second look comes from the cache" from_cache "$libc"
copies_share() { cp "$libc" "$work/copy.so" && touch -d 2001-01-01 "$work/copy.so" && from_cache "$work/copy.so"; }
check "copies of one build share an entry" copies_share
damaged() { # how
    rm -rf "$work/cache" && "$CALLTRAIL" map "$libc" >/dev/null || return 1
    entry=$(entries)
    cp "$entry" "$work/good.map"
    case $1 in
    truncated) truncate -s 1000 "$entry" ;;
    empty) : >"$entry" ;;
    flipped) printf '\377' | dd of="$entry" bs=1 seek=20000 conv=notrunc status=none ;;
    version) printf '\143' | dd of="$entry" bs=1 seek=8 conv=notrunc status=none ;;
    esac
    ! cmp -s "$entry" "$work/good.map" || return 1
    "$CALLTRAIL" map "$libc" | grep -q 'made now' && cmp "$entry" "$work/good.map" && from_cache "$libc"
}
for how in truncated empty flipped version; do
    check "a $how entry is made anew" damaged $how
done
without_build_id() {
    gcc -O1 -Wl,--build-id=none -o "$work/anonymous" "$work/cold.c" &&
        "$CALLTRAIL" map "$work/anonymous" | grep -q 'made now' && from_cache "$work/anonymous" &&
        touch -d 2001-01-01 "$work/anonymous" && "$CALLTRAIL" map "$work/anonymous" | grep -q 'made now'
}
check "without a build-id a changed file is noticed" without_build_id
two_writers() {
    rm -rf "$work/cache"
    for _ in 1 2 3 4 5 6 7 8; do
        "$CALLTRAIL" map --unwind "$libc" | md5sum >>"$work/sums" &
    done
    wait
    [ "$(sort -u "$work/sums" | wc -l)" -eq 1 ] && [ "$(entries | wc -l)" -eq 1 ] &&
        [ -z "$(find "$work/cache" -name '*.map.*')" ]
}
check "many writers at once leave one good entry" two_writers
private() { [ -z "$(find "$work/cache/calltrail" -perm /077)" ]; }
check "entries are private to the user" private
unusable() { # where the cache should be
    XDG_CACHE_HOME=$1 "$CALLTRAIL" map "$libc" >"$work/out1" 2>"$work/err1" || return 1
    grep -q 'made now' "$work/out1" && [ "$(wc -l <"$work/err1")" -eq 1 ] &&
        grep -q '^calltrail: warning: .*in memory for this run' "$work/err1"
}
check "a cache that cannot be made is a warning" unusable /dev/null/cache
others_cache() { # of the same name as ours, which has the version of maps in it
    local folder
    folder=$work/open/calltrail/$(basename "$work"/cache/calltrail/maps-*)
    mkdir -p "$folder" && chmod 777 "$folder" && unusable "$work/open"
}
check "a cache that others can write is not used" others_cache
small_disk() { # a file system of 64 KB, in a namespace of our own
    unshare -rm sh -c "mkdir -p '$work/small' && mount -t tmpfs -o size=64k none '$work/small' &&
        XDG_CACHE_HOME='$work/small' '$CALLTRAIL' map '$libc' >'$work/out1' 2>'$work/err1' &&
        ! find '$work/small' -type f | grep -q ." &&
        grep -q 'made now' "$work/out1" && grep -q 'warning: .*No space left' "$work/err1"
}
read_only_disk() {
    unshare -rm sh -c "mkdir -p '$work/ro' && mount -t tmpfs -o ro none '$work/ro' &&
        XDG_CACHE_HOME='$work/ro' '$CALLTRAIL' map '$libc' >'$work/out1' 2>'$work/err1'" &&
        grep -q 'made now' "$work/out1" && grep -q 'warning: .*Read-only' "$work/err1"
}
if unshare -rm true 2>/dev/null; then
    check "a full cache is a warning" small_disk
    check "a read-only cache is a warning" read_only_disk
else
    echo "skip map: a full and a read-only cache: no permission to make a namespace here"
fi
file_size_limit() {
    (ulimit -f 8 && XDG_CACHE_HOME=$work/limited "$CALLTRAIL" map "$libc" 2>&1) | grep -q 'made now'
}
check "a limit on file sizes does not kill" file_size_limit

# --- wrong input ---------------------------------------------------------------------------------

refuses() { # status, pattern, arguments...
    local expected=$1 pattern=$2
    shift 2
    "$CALLTRAIL" map "$@" >"$work/out1" 2>"$work/err1"
    local status=$?
    cat "$work/err1"
    [ $status -eq "$expected" ] && [ ! -s "$work/out1" ] && [ "$(wc -l <"$work/err1")" -eq 1 ] &&
        grep -qE "$pattern" "$work/err1"
}
echo 'not an ELF file at all, but long enough to hold a header of one, were it one' >"$work/text"
: >"$work/nothing"
printf '\177ELF' >"$work/magic"
head -c 5000 "$libc" >"$work/half"
head -c 60 "$libc" >"$work/header"
cp "$libc" "$work/arm" && printf '\267\0' | dd of="$work/arm" bs=1 seek=18 conv=notrunc status=none
cp "$libc" "$work/small32" && printf '\1' | dd of="$work/small32" bs=1 seek=4 conv=notrunc status=none
gcc -c -o "$work/cold.o" "$work/cold.c"
cp "$work/cold" "$work/locked" && chmod 000 "$work/locked"
mkfifo "$work/fifo"
offset=$(readelf -SW "$work/cold" | awk '{ sub(/^ *\[ *[0-9]+\]/, "") } $1 == ".eh_frame" { print $4 }')
cp "$work/cold" "$work/damaged" &&
    printf '\377\377\377\177' | dd of="$work/damaged" bs=1 seek=$((0x$offset + 24)) conv=notrunc status=none

check "not an ELF file" refuses 1 "$work/text: is not an ELF file" "$work/text"
check "an empty file" refuses 1 "$work/nothing: is not an ELF file" "$work/nothing"
check "only a magic number" refuses 1 "$work/magic: is truncated" "$work/magic"
check "half a header" refuses 1 "$work/header: is truncated" "$work/header"
check "a truncated library" refuses 1 "$work/half: is truncated" "$work/half"
check "another machine" refuses 1 "$work/arm: is for another machine" "$work/arm"
check "a 32-bit program" refuses 1 "$work/small32: is a 32-bit program" "$work/small32"
check "an object file" refuses 1 "$work/cold.o: is an object file" "$work/cold.o"
check "a separate debug file" refuses 1 "$work/mini.debug: is a separate debug file" "$work/mini.debug"
check "a damaged .eh_frame" refuses 1 "$work/damaged: .eh_frame is damaged at offset 0x18" "$work/damaged"
check "a missing file" refuses 1 "$work/none: cannot be opened: No such file" "$work/none"
check "a directory" refuses 1 "$work: is a directory" "$work"
check "a fifo" refuses 1 "$work/fifo: is not a regular file" "$work/fifo"
check "a device" refuses 1 "/dev/zero: is not a regular file" /dev/zero
if [ "$(id -u)" -eq 0 ]; then
    unreadable() {
        chmod 755 "$work" && cp "$CALLTRAIL" "$work/calltrail" && chmod 755 "$work/calltrail"
        setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/nonexistent XDG_CACHE_HOME= \
            "$work/calltrail" map "$work/locked" 2>"$work/err1"
        [ $? -eq 1 ] && grep -q "$work/locked: cannot be opened: Permission denied" "$work/err1"
    }
    check "an unreadable file" unreadable
else
    check "an unreadable file" refuses 1 "$work/locked: cannot be opened: Permission denied" "$work/locked"
fi
check "no file" refuses 2 "a FILE is required"
check "two files" refuses 2 "only one FILE is allowed" "$libc" "$libc"
check "an unknown option" refuses 2 "unknown option '--nonsense'" --nonsense "$libc"
full_output() { ! "$CALLTRAIL" map --unwind "$libc" >/dev/full 2>"$work/err1" && grep -q 'standard output cannot be written' "$work/err1"; }
check "a full disk for the output is an error" full_output
exit $failed
