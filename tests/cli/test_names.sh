#!/bin/sh
# Names: source lines and inlined functions against addr2line and LLVM's, on builds of many kinds;
# demangling against c++filt; record, symbolize, the cache, separate debug files, debuginfod; assembly
# against objdump. Needs CALLTRAIL, the path of calltrail; the drivers are beside it in tests/.
. "$(dirname "$0")/checks.sh"
needs CALLTRAIL
oracle=$here/../oracle
drivers=$(dirname "$CALLTRAIL")/tests
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$dir"' EXIT
export XDG_CACHE_HOME="$dir/cache"
unset DEBUGINFOD_URLS

# holds NAME COMMAND…: the command succeeds; its last line says why not.
holds() {
    name=$1
    shift
    if "$@" >out 2>err; then ok "$name"; else fail "$name" "$(cat out err | head -3 | tr '\n' ' ')"; fi
}

# refused NAME PATTERN ARGUMENTS…: status 1 and one line that matches.
refused() {
    name=$1 pattern=$2
    shift 2
    "$CALLTRAIL" "$@" >out 2>err
    status=$?
    if [ $status -eq 1 ] && [ "$(wc -l <err)" -eq 1 ] && [ ! -s out ] && grep -q -- "$pattern" err
    then ok "$name"; else fail "$name" "status $status: $(cat out err)"; fi
}

compare() { # NAME FILE TOOL…
    build=$1 file=$2
    shift 2
    for tool in "$@"; do
        holds "$build-$tool" python3 "$oracle/compare_sources.py" "$drivers/sources_dump" "$file" "$tool"
    done
}

# ---- Builds of many kinds. binutils 2.40 does not read the range lists of clang's DWARF 5, nor split
# ---- files, so that LLVM is alone there.

mkdir source && cp "$oracle/inlined.cpp" source/
build() { # NAME COMPILER OPTIONS…
    name=$1
    shift
    "$@" -O2 source/inlined.cpp -o "$name" || exit 1
}
build gcc5 g++ -g -gdwarf-5
build gcc4 g++ -g -gdwarf-4
build gcc-lto g++ -g -flto
build gcc-split g++ -g -gsplit-dwarf
build clang5 clang++ -g -gdwarf-5
build clang4 clang++ -g -gdwarf-4
build clang-split clang++ -g -gsplit-dwarf
objcopy --compress-debug-sections gcc5 gcc-compressed
cp gcc5 gcc-dwz && dwz gcc-dwz || exit 1
cp gcc5 shared1 && cp gcc4 shared2 && cp gcc-dwz shared3 && cp gcc5 shared2 &&
    dwz -m shared.dwz -r shared1 shared2 || exit 1
compare gcc-dwarf5 gcc5 addr2line llvm-addr2line
compare gcc-dwarf4 gcc4 addr2line llvm-addr2line
compare gcc-lto gcc-lto llvm-addr2line
compare gcc-split gcc-split llvm-addr2line
compare gcc-compressed gcc-compressed addr2line llvm-addr2line
compare gcc-dwz gcc-dwz addr2line llvm-addr2line
compare clang-dwarf5 clang5 llvm-addr2line
compare clang-dwarf4 clang4 addr2line llvm-addr2line
compare clang-split clang-split llvm-addr2line
# LLVM 14 does not follow dwz's links to a shared file: the same code without dwz is the truth.
"$drivers/sources_dump" gcc5 <<END >plain.txt
$(readelf -SW gcc5 | awk '$2 == ".text" { print $4, $6 }' | python3 -c '
a, s = (int(x, 16) for x in input().split())
print("\n".join("%x" % x for x in range(a, a + s, 7)))')
END
grep '^0x' plain.txt >addresses
"$drivers/sources_dump" shared1 <addresses >shared.txt
holds dwz-shared-has-a-link readelf -p .gnu_debugaltlink shared1
holds dwz-shared cmp plain.txt shared.txt

# ---- Demangling

{
    nm -D --defined-only /usr/lib/x86_64-linux-gnu/libstdc++.so.6 | awk '{ print $3 }'
    nm gcc5 | awk 'NF == 3 { print $3 }'
    cat <<'END'
_RNvCs1234_7mycrate3foo
_RNvNtCs1234_7mycrate3foo3bar
_RNvMs_Cs1234_7mycrateNtB4_3Foo3new
_RNCNvCsgStHSCytQ6I_7mycrate4main0B3_
_RINvNtC3std3mem8align_ofdE
_RNvYNtC1a1SNtC1b1T1m
_ZN4core3fmt9Formatter3pad17h0123456789abcdefE
_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa94f1d3aE
_ZN3foo17h05af221e174051e9E
main
_start
_Zfoo
_R
_Z
operator new
_ZN1AC1Ev.constprop.0
END
} | sort -u >names.txt
"$drivers/demangle_dump" <names.txt >ours.txt
c++filt -i <names.txt >theirs.txt
holds demangled cmp ours.txt theirs.txt
holds demangled-rust grep -qx 'core::fmt::Formatter::pad' ours.txt
holds demangled-enough [ "$(diff names.txt ours.txt | grep -c '^>')" -gt 3000 ]

# ---- Recorded with debug information

frames() { # NAME PROFILE FILE: the profile's frames in the file are what LLVM says of them
    holds "$1" python3 "$oracle/compare_sources.py" --profile "$2" "$3" llvm-addr2line
}
record() { "$CALLTRAIL" record -F 4000 "$@" >/dev/null 2>record.err || fail record "$(cat record.err)"; }
mkdir run && cp gcc5 run/prog
record -o full.ctp run/prog 150000
holds recorded-is-valid "$CALLTRAIL" info --check full.ctp
cp gcc5 prog
frames recorded-frames full.ctp prog
holds inlined-shown sh -c '"$0" report --view flat --limit 0 full.ctp | grep -q "total_area"' "$CALLTRAIL"
holds folded-not-shown sh -c '! "$0" report --view flat --limit 0 --no-inline full.ctp | grep -q total_area' "$CALLTRAIL"
record --no-lines -o none.ctp run/prog 150000
holds no-lines sh -c '"$0" info --json none.ctp | grep -q "\"lines\": 0"' "$CALLTRAIL"
"$CALLTRAIL" report --lines main --source-dir source --csv full.ctp >lines.txt
holds source-shown grep -q 'count_words(words(n))' lines.txt

# ---- Assembly: the instructions are objdump's

"$CALLTRAIL" report --lines main --asm --csv full.ctp >asm.csv
python3 - <<'END' >ours.txt
import csv
for row in csv.DictReader(open("asm.csv")):
    print("%x" % int(row["offset"]), row["instruction"].split()[0])
END
# objdump goes on with the padding behind the function; mnemonics of jumps differ in their synonyms.
objdump -d --no-show-raw-insn -M intel prog | awk '/^[0-9a-f]+ <main>:/ { on = 1; next } /^$/ { on = 0 }
    on { sub(":", "", $1); print $1, $2 }' | head -n "$(wc -l <ours.txt)" >theirs.txt
cut -d' ' -f1 ours.txt >offsets.txt
cut -d' ' -f1 theirs.txt >objdump-offsets.txt
holds assembly-is-long [ "$(wc -l <ours.txt)" -gt 100 ]
holds assembly cmp offsets.txt objdump-offsets.txt
holds assembly-calls [ "$(grep -c " call$" ours.txt)" = "$(grep -c " call$" theirs.txt)" ]
holds assembly-sums sh -c 'awk -F, "NR > 1 { s += \$3 } END { exit !(s > 0) }" asm.csv'

# ---- Recorded without it, and named later

strip -o run/prog gcc5
record -o bare.ctp run/prog 150000
mkdir -p empty debug named other tree/"$(dirname "$dir/run/prog")"
"$CALLTRAIL" symbolize bare.ctp --debug-dir empty -o same.ctp >/dev/null
holds nothing-found cmp bare.ctp same.ctp
id=$(readelf -n gcc5 | awk '/Build ID/ { print $3 }')
mkdir -p debug/.build-id/"$(echo "$id" | cut -c1-2)"
objcopy --only-keep-debug gcc5 debug/.build-id/"$(echo "$id" | cut -c1-2)"/"$(echo "$id" | cut -c3-)".debug
refused no-debug-folder '^calltrail: --debug-dir nowhere: cannot be read: No such file' \
    symbolize bare.ctp --debug-dir empty --debug-dir nowhere -o no.ctp
refused debug-file-as-folder '^calltrail: --debug-dir bare.ctp: is not a folder' \
    symbolize bare.ctp --debug-dir bare.ctp -o no.ctp
"$CALLTRAIL" symbolize bare.ctp --debug-dir debug -o late.ctp >said.txt
holds symbolize-says grep -q ' places without a source line have one now' said.txt
frames symbolized-by-build-id late.ctp prog
holds symbolized-is-valid "$CALLTRAIL" info --check late.ctp
holds symbolized-has-names sh -c '"$0" report --view flat --limit 0 --csv --no-inline late.ctp | grep -q ",main,prog$"' "$CALLTRAIL"
objcopy --only-keep-debug gcc5 named/prog.debug
"$CALLTRAIL" symbolize bare.ctp --debug-dir empty --debug-dir named -o named.ctp >/dev/null
holds symbolized-by-name cmp late.ctp named.ctp
cp gcc5 tree/"$dir/run/prog"
"$CALLTRAIL" symbolize bare.ctp --debug-dir tree -o tree.ctp >/dev/null
holds symbolized-by-path cmp late.ctp tree.ctp
cp bare.ctp place.ctp
"$CALLTRAIL" symbolize place.ctp --debug-dir debug >/dev/null
holds symbolized-in-place cmp late.ctp place.ctp
"$CALLTRAIL" symbolize place.ctp --debug-dir debug >/dev/null
holds symbolized-twice cmp late.ctp place.ctp

cp gcc4 other/prog
cp bare.ctp kept.ctp
refused another-build "^calltrail: other/prog: is of another build than the .*/run/prog that was recorded" \
    symbolize kept.ctp --debug-dir other
holds another-build-leaves-the-file cmp bare.ctp kept.ctp
refused not-a-profile 'is not a calltrail profile' symbolize source/inlined.cpp --debug-dir debug

# ---- Debug information that is damaged costs its lines, never the profile

for seed in 1 2 3; do
    python3 - gcc5 damaged $seed <<'END'
import random, re, subprocess, sys
source, target, seed = sys.argv[1:]
random.seed(seed)
data = bytearray(open(source, "rb").read())
sections = subprocess.run(["readelf", "-SW", source], capture_output=True, text=True).stdout
for name in ("info", "abbrev", "line", "rnglists", "str"):
    found = re.search(r" \.debug_%s\s+PROGBITS\s+\w+\s+(\w+)\s+(\w+)" % name, sections)
    start, size = int(found[1], 16), int(found[2], 16)
    for _ in range(size // 50):
        data[start + random.randrange(size)] = random.randrange(256)
open(target, "wb").write(data)
END
    chmod +x damaged
    "$CALLTRAIL" record -o damaged.ctp ./damaged 20000 >/dev/null 2>record.err
    holds damaged-$seed "$CALLTRAIL" info --check damaged.ctp
    holds damaged-$seed-has-functions sh -c '"$0" report --view flat --csv --no-inline damaged.ctp |
        grep -q ",main,damaged$"' "$CALLTRAIL"
done

# ---- The cache

entries() { find "$XDG_CACHE_HOME/calltrail/names-1" -name '*.names'; }
holds cached [ -n "$(entries)" ]
for entry in $(entries); do head -c 300 "$entry" >cut && cp cut "$entry"; done
"$CALLTRAIL" symbolize bare.ctp --debug-dir debug -o again.ctp >/dev/null
holds damaged-cache cmp late.ctp again.ctp
holds cache-made-anew [ "$(find "$XDG_CACHE_HOME/calltrail/names-1" -size +1 | wc -l)" -ge 1 ]
"$CALLTRAIL" symbolize bare.ctp --debug-dir debug -o again.ctp >/dev/null
holds from-the-cache cmp late.ctp again.ctp
(unset HOME XDG_CACHE_HOME; "$CALLTRAIL" symbolize bare.ctp --debug-dir debug -o again.ctp) >/dev/null
holds without-a-cache cmp late.ctp again.ctp

# ---- A debug file beside the program, by .gnu_debuglink

objcopy --only-keep-debug gcc5 linked.debug
cp run/prog linked && objcopy --add-gnu-debuglink=linked.debug linked
record -o linked.ctp ./linked 150000
cp gcc5 linked
frames debug-link linked.ctp linked

# ---- debuginfod: asked only if the environment says so

mkdir -p web/buildid/"$id" && objcopy --only-keep-debug gcc5 web/buildid/"$id"/debuginfo
cat >server.py <<'END'
import http.server, os
os.chdir("web")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
with open("../port.new", "w") as file:
    file.write(str(server.server_port))
os.rename("../port.new", "../port")
server.serve_forever()
END
python3 server.py 2>requests &
server=$!
timeout 20 sh -c 'until [ -f port ]; do sleep 0.05; done'
export DEBUGINFOD_CACHE_PATH="$dir/fetched"
"$CALLTRAIL" symbolize bare.ctp -o asked.ctp >/dev/null
holds network-not-asked [ ! -s requests ]
holds nothing-without-network cmp bare.ctp asked.ctp
DEBUGINFOD_URLS=http://127.0.0.1:$(cat port) "$CALLTRAIL" symbolize bare.ctp -o asked.ctp >/dev/null
holds debuginfod cmp late.ctp asked.ctp

# ---- Code without names, and the vdso

cat >library.c <<'END'
int first(int x) { return x + 1; }
static __attribute__((noinline)) int hidden(int x)
{
    volatile int sum = x;
    for (int i = 0; i < 1000; i++)
        sum += i;
    return sum;
}
int last(int x) { return hidden(x) + 1; }
END
cat >caller.c <<'END'
int first(int), last(int);
int main(void)
{
    int sum = 0;
    for (int i = 0; i < 200000; i++)
        sum += last(first(i));
    return sum == 1;
}
END
gcc -O1 -fno-toplevel-reorder -shared -fPIC -s library.c -o libnameless.so &&
    gcc -O1 caller.c -o caller ./libnameless.so && record -o nameless.ctp ./caller
"$CALLTRAIL" report --view flat nameless.ctp >flat.txt
offset=$(gcc -O1 -fno-toplevel-reorder -shared -fPIC library.c -o named.so && nm named.so |
    awk '$3 == "hidden" { sub("^0*", "", $1); print $1 }')
holds nameless grep -q " libnameless.so+0x$offset (after first)$" flat.txt
holds nameless-is-one-function [ "$(grep -c 'libnameless.so+0x' flat.txt)" -eq 1 ]
cat >clock.c <<'END'
#include <time.h>
int main(void)
{
    struct timespec t;
    for (int i = 0; i < 5000000; i++)
        clock_gettime(CLOCK_MONOTONIC, &t);
    return 0;
}
END
gcc -O1 -g clock.c -o clock && record -o clock.ctp ./clock
holds vdso sh -c '"$0" report --view flat --limit 0 clock.ctp | grep -q "clock_gettime \[vdso\]"' "$CALLTRAIL"

[ $failures -eq 0 ]
