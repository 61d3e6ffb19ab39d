#!/bin/sh
# calltrail infer --resize, record --resize: frames that grow, so that paths of one height have different ones. Needs
# CALLTRAIL: the path of the program.
. "$(dirname "$0")/checks.sh"
needs CALLTRAIL
tests=$(dirname "$here")

# ---- Two functions with frames of one size call a third one, and so do two calls of one function.

cat >program.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#define CALLED __attribute__((noinline, noclone, noipa))
static volatile unsigned zero, length = 20000;
CALLED unsigned hot(unsigned x) {
    for (unsigned i = 0; i < length; i++) x = x * 1103515245u + 12345u;
    return x;
}
CALLED unsigned left(unsigned x) { return hot(x) + zero; }
CALLED unsigned right(unsigned x) { return hot(x) * 3 + zero; }
CALLED unsigned twice(unsigned x) { return (left(x) ^ 1) + left(x + 1); }
CALLED unsigned eight(unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f, unsigned g, unsigned h) {
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + zero;
}
int main(int argc, char **argv) {
    unsigned x = 1, rounds = 0, most = argc > 1 ? 0 : 4000;
    if (most) length = 20;
    for (; most ? rounds < most : clock() < 0.4 * CLOCKS_PER_SEC; rounds++)
        x = twice(x) + right(x) + eight(1, 2, 3, 4, 5, 6, rounds, 8);
    if (most) printf("%u\n", x);
    return argc > 1 ? atoi(argv[1]) : 0;
}
END
gcc -g -O1 -fno-optimize-sibling-calls -o program program.c || exit 1
"$CALLTRAIL" record --no-lines --quiet --engine exact --height -o exact.ctp ./program >plain || exit 1
holds trained "$CALLTRAIL" infer --train -o program.map exact.ctp
holds resized "$CALLTRAIL" infer --resize --calls 60 -o grown.map program.map
cp out said
"$CALLTRAIL" infer --score program.map exact.ctp >before 2>/dev/null
"$CALLTRAIL" infer --score grown.map exact.ctp >after 2>/dev/null
python3 - >why 2>&1 <<'END'
import re
said = open("said").read()
def row(file, name):
    return [float(v.rstrip("%")) for v in re.search(r"^ *%s +(.*)$" % re.escape(name), open(file).read(), re.M)[1].split()[:2]]
before, after = row("said", "precise, by weight")
assert before < 60 and after > 99, said           # hot has three paths of one height, and nearly all of the calls
assert row("before", "precise")[1] < 60, "before"
assert row("after", "precise")[1] > 99, "after"
assert row("after", "incorrect") == [0, 0], "after"
assert int(re.search(r"(\d+) of these calls have frames that grow", said)[1]) >= 2, said
assert re.search(r" \d+  to functions that may look above their frame", said), said
assert re.search(r"highest stack, bytes .* 1\.[01]\d*x", said), said
END
if [ -s why ]; then fail distinct "$(cat why)"; else ok distinct; fi

refused grown-twice 1 'its frames have grown already' infer --resize -o x.map grown.map
refused no-training-with-grown 1 'its frames have grown (--resize)' infer --train -o x.map grown.map
refused no-window-for-grown 1 'it is for two registers' infer --score --window 100 grown.map exact.ctp
refused resize-without-file 2 '--resize needs -o MAP' infer --resize program.map
refused growth-of-nothing 2 '--growth requires --resize' infer --growth 2 program.map exact.ctp
refused growth-of-less 2 'not a factor from 1 to 100' infer --resize --growth 0.5 -o x.map program.map
refused resize-by-what-does-not-grow 2 'no frames grow in it' record --engine infer --resize program.map true
refused resize-by-another-engine 2 '--resize requires --engine infer' record --resize grown.map true
refused resize-from-outside 2 '--resize cannot be combined with --outside' record --engine infer --resize grown.map --outside true
refused resize-with-events 2 '--resize can be combined with -e cpu only' record --engine infer --resize grown.map -e wall true
refused calls-of-nothing 2 '--calls requires --resize' infer --calls 2 program.map exact.ctp
refused calls-of-less 2 'not a number from 0 to 100' infer --resize --calls -1 -o x.map program.map
"$CALLTRAIL" infer --resize --calls 0 -o same.map program.map >out 2>err
if grep -q '^0 of these calls' out; then ok no-calls; else fail no-calls "$(cat out err)"; fi
holds without-growth "$CALLTRAIL" infer --resize --growth 1 -o same.map program.map

# ---- What the program does is the same; what is recorded has other heights, and these are told apart.

"$CALLTRAIL" record --no-lines --quiet --verify --engine infer --resize grown.map -o r.ctp ./program >out 2>err
if diff plain out >difference && [ ! -s err ]; then ok same-output; else fail same-output "$(cat difference err)"; fi
"$CALLTRAIL" record --no-lines --quiet --verify --engine infer --resize grown.map -o r.ctp ./program 7 >out 2>err
status=$?
if [ $status -eq 7 ]; then ok same-status; else fail same-status "$status: $(cat err)"; fi
"$CALLTRAIL" info --all r.ctp >info
# Where a page begins between the first frames of a low stack and where the runtime began, one time in ten, the
# base of the stack is not known: all samples are whole walks then, and there is nothing to complete.
if grep -q '^  by_height  *0$' info; then
    echo 'skip grown heights: the stack was placed so that its base is not known; all walks are whole'
else
if grep -q '^  verify_differ  *0$' info && ! grep -q '^  verify_checked  *0$' info && grep -q '^  sites_not_edited  *0$' info; then
    ok heights-verified
else
    fail heights-verified "$(grep -E '  (verify|sites)' info)"
fi
holds completed "$CALLTRAIL" infer -o found.ctp grown.map r.ctp
"$CALLTRAIL" export --to folded found.ctp >found
"$CALLTRAIL" export --to folded --metric ambiguous found.ctp >split
python3 - >out 2>&1 <<'END'
rows = {tuple(line.rsplit(" ", 1)[0].split(";")): int(line.rsplit(" ", 1)[1]) for line in open("found")}
total = sum(rows.values())
ours = {}
for path, value in rows.items():
    if "main" in path:
        ours[path[path.index("main") + 1:]] = value
hot = {path for path in ours if path and path[-1] == "hot"}
assert hot == {("twice", "left", "hot"), ("right", "hot")}, rows
for path in hot:
    assert 0.1 < ours[path] / total < 0.9, rows
assert not open("split").read(), "each of these contexts has a height of its own"
END
if [ -s out ]; then fail paths "$(tail -1 out)"; else ok paths; fi
refused map-of-other-frames 1 'was recorded with other frames' infer program.map r.ctp
refused profile-of-other-frames 1 'was recorded with other frames' infer --unseen program.map r.ctp
fi
"$CALLTRAIL" merge -o both.ctp r.ctp exact.ctp 2>err || fail merged "$(cat err)"
refused merged-with-other-frames 1 'was recorded with other frames' infer grown.map both.ctp
mkdir other && cp program.c other && echo 'int other;' >>other/program.c || exit 1
gcc -g -O1 -fno-optimize-sibling-calls -o other/program other/program.c || exit 1
"$CALLTRAIL" record --no-lines --quiet --engine infer --resize grown.map -o other.ctp other/program >out 2>err
refused another-build 1 'another build-id' infer grown.map other.ctp

# ---- All frames that can: exceptions, clean-ups, longjmp and cancellation go through them, and everybody walks them.

walked() { # NAME COMMAND…: the program's functions, innermost first, by a tool
    name=$1
    shift
    "$@" 2>/dev/null | grep -oE '\b(stop_here|innermost|third|second|first|grown_main|main)\b' | uniq | tr '\n' ' ' >seen
    if [ "$(cat seen)" = "stop_here innermost third second first grown_main main " ]; then
        ok "$name"
    else
        fail "$name" "$(cat seen)"
    fi
}

for how in "g++" "g++ -fno-omit-frame-pointer" "g++ -static-libgcc -static-libstdc++" "clang++" "g++ -O0"; do
    $how -g -O1 -rdynamic -pthread -o throws "$tests/grown/throws.cpp" 2>err || {
        echo "skip throws $how: not to be had"
        continue
    }
    ./throws >plain
    "$CALLTRAIL" record --no-lines --quiet --verify --engine infer --resize-all -o t.ctp ./throws >out 2>err
    status=$?
    "$CALLTRAIL" info --all t.ctp >info
    if [ $status -eq 0 ] && diff plain out >difference && [ ! -s err ] && grep -q '^  verify_differ  *0$' info; then
        ok "throws $how"
    else
        fail "throws $how" "status $status: $(cat difference err; grep verify info)"
    fi
done
g++ -g -O1 -pthread -o throws "$tests/grown/throws.cpp" || exit 1
mkfifo go lines
"$CALLTRAIL" record --no-lines --quiet --engine infer --resize-all -o t.ctp ./throws stop <go >lines &
exec 9>go 8<lines
read -r _ <&8 && read -r _ <&8 && read -r pid <&8 || fail stops "it ended"
if command -v eu-stack >/dev/null; then walked eu-stack eu-stack -p "$pid"; fi
if command -v gdb >/dev/null; then walked gdb gdb -batch -nx -p "$pid" -ex 'set print frame-arguments none' -ex 'set filename-display basename' -ex bt; fi
echo x >&9
exec 9>&-
cat <&8 >out
wait $! || fail stopped "status $?"
refused a-test-is-no-map 1 'was recorded with other frames' infer program.map t.ctp

[ "$failures" -eq 0 ]
