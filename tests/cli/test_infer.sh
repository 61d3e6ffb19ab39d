#!/bin/sh
# calltrail infer, on small profiles whose answers are worked out by hand (tests/gen_paths.c says them), and on a
# program that is recorded by the height of its stack. Needs CALLTRAIL and GEN_PATHS: paths of the programs.
. "$(dirname "$0")/checks.sh"
needs CALLTRAIL GEN_PATHS

# prints NAME ARGUMENTS…: standard output is what `expected` has.
prints() {
    name=$1
    shift
    if ! "$CALLTRAIL" "$@" >out 2>err; then
        fail "$name" "$(cat err)"
    elif diff expected out >difference; then
        ok "$name"
    else
        fail "$name" "$(head -6 difference | tr '\n' '|')"
    fi
}

"$GEN_PATHS" . || exit 1

# ---- Maps

holds trained "$CALLTRAIL" infer --train -o p.map exact.ctp
holds less "$CALLTRAIL" infer --train -o less.map less.ctp
holds a-map-of-a-map-and-a-profile "$CALLTRAIL" infer --train -o both.map p.map less.ctp
cat >expected <<'END'
start;main 2
start;main;other 9
start;main;other;deep 5
start;main;other;deep;leaf 5
start;main;other;leaf 7
start;main;work 20
start;main;work;leaf 12
END
prints weights-are-sums export --to folded both.map
refused another-build-in-training 1 'program is of another build' infer --train -o x.map exact.ctp build.ctp
refused no-heights 1 'has no stack heights' infer --train -o x.map heights.ctp
refused no-such-weight 1 'has no metric cpu' infer --train --weight cpu -o x.map exact.ctp
refused other-weights 1 "its weights are bytes, and those given before are calls" \
    infer --train -o x.map exact.ctp no-calls.ctp
if [ -e x.map ]; then fail nothing-is-written "x.map is there"; else ok nothing-is-written; fi

# ---- Answers

cat >expected <<'END'
heights.ctp: cpu by how its callers are known

   3.7%  walked     the stack was seen
  32.1%  precise    one known path
   0.0%  likely     one known path, where training has not met all
  64.2%  ambiguous  several known paths
   0.0%  missing    no known path
         of what is ambiguous, 100.0% is among 5 paths at most; the most are 3

ambiguous, heaviest first, with the shares of training:

  53.5%  leaf at 96 bytes: 3 paths
     60.0%  (1 caller) > main:0x10 > work:0x10 > leaf
     30.0%  (1 caller) > main:0x20 > other:0x10 > leaf
            and 1 more

  10.7%  other at 64 bytes: 2 paths
     80.0%  (1 caller) > main:0x20 > other
     20.0%  (1 caller) > main:0x30 > other
END
prints answers infer --top-paths 2 p.map heights.ctp
# With one identifier in five that training never saw, nothing is certain.
"$CALLTRAIL" infer p.map new.ctp | sed -n 's/^ *\([0-9.]*%\)  \(precise\|likely\|missing\) .*/\2 \1/p' >out
printf 'precise 0.0%%\nlikely 31.6%%\nmissing 1.6%%\n' >expected
if diff expected out >difference; then ok unknown-identifiers; else fail unknown-identifiers "$(cat difference)"; fi

# 100 ns of leaf are split 6 : 3 : 1; 20 ns of leaf below other, 4 : 1.
holds completed "$CALLTRAIL" infer -o whole.ctp p.map heights.ctp
cat >expected <<'END'
start;main 7
start;main;other;deep;leaf 10
start;main;other;leaf 60
start;main;work 50
start;main;work;leaf 60
END
prints all-cost-has-callers export --to folded whole.ctp
printf 'start;main;other;deep;leaf 10\nstart;main;work 50\n' >expected
prints precise-cost export --to folded --metric precise whole.ctp
printf 'start;main;other;leaf 60\nstart;main;work;leaf 60\n' >expected
prints ambiguous-cost export --to folded --metric ambiguous whole.ctp
holds the-heaviest-alone "$CALLTRAIL" infer --top-paths 1 -o whole.ctp p.map heights.ctp
cat >expected <<'END'
start;(walk ended: only the stack's height is known);leaf 40
start;(walk ended: only the stack's height is known);other;leaf 4
start;main 7
start;main;other;deep;leaf 10
start;main;other;leaf 16
start;main;work 50
start;main;work;leaf 60
END
prints the-rest-stays-where-it-was export --to folded whole.ctp
"$CALLTRAIL" report whole.ctp | tr -s ' \n' ' ' >out
if grep -q 'for 32.1% of the cost one path, for 0.0% likely, and 40.6% is split among several paths' out; then
    ok report-says-what-is-split
else
    fail report-says-what-is-split "$(cat out)"
fi
if grep -q "callers are missing for 23.5% of the cost, mostly: (walk ended: only the stack's height is known) (calltrail infer" out; then
    ok report-says-what-is-missing
else
    fail report-says-what-is-missing "$(cat out)"
fi
refused twice 1 'has been completed by a map already' infer -o x.ctp p.map whole.ctp
refused nothing-to-complete 1 'all callers are known' infer p.map exact.ctp
refused another-build 1 'program has another build-id in build.ctp' infer --score p.map build.ctp

# ---- Scores

cat >expected <<'END'
with two registers:
                                              paths      calls
  in all                                          9         36
  precise                                    44.44%     58.33%
  likely, and right                           0.00%      0.00%
  ambiguous, the true path among them        55.56%     41.67%
  missing                                     0.00%      0.00%
  incorrect                                   0.00%      0.00%
    said to be precise                        0.00%      0.00%
  right among at most 2 paths                66.67%     72.22%
  right among at most 3 paths               100.00%    100.00%
  right among at most 5 paths               100.00%    100.00%
  right among at most 10 paths              100.00%    100.00%
  right among at most 20 paths              100.00%    100.00%
  precise, by functions without places       66.67%     72.22%
  degree of ambiguity, mean                    1.89       1.69
    and at most                                   3
END
prints score infer --score p.map exact.ctp
cat >expected <<'END'
with two registers:
                                              paths      calls
  in all                                          9         36
  precise                                     0.00%      0.00%
  likely, and right                          33.33%     41.67%
  ambiguous, the true path among them        22.22%     25.00%
  missing                                    22.22%     27.78%
  incorrect                                  22.22%      5.56%
    said to be precise                        0.00%      0.00%
  right among at most 2 paths                55.56%     66.67%
  right among at most 3 paths                55.56%     66.67%
  right among at most 5 paths                55.56%     66.67%
  right among at most 10 paths               55.56%     66.67%
  right among at most 20 paths               55.56%     66.67%
  precise, by functions without places       44.44%     44.44%
  degree of ambiguity, mean                    1.43       1.38
    and at most                                   2
END
prints score-of-less infer --score less.map exact.ctp
# Leaf below work is alone at 96 then; below other:a it is at 112, as below deep.
cat >expected <<'END'
with two registers:
                                              paths      calls
  in all                                          9         36
  precise                                    44.44%     61.11%
  likely, and right                           0.00%      0.00%
  ambiguous, the true path among them        55.56%     38.89%
  missing                                     0.00%      0.00%
  incorrect                                   0.00%      0.00%
    said to be precise                        0.00%      0.00%
  right among at most 2 paths                66.67%     75.00%
  right among at most 3 paths               100.00%    100.00%
  right among at most 5 paths               100.00%    100.00%
  right among at most 10 paths              100.00%    100.00%
  right among at most 20 paths              100.00%    100.00%
  precise, by functions without places       66.67%     75.00%
  degree of ambiguity, mean                    1.89       1.64
    and at most                                   3
END
prints score-of-frames-that-grow infer --score grown.map exact.ctp

# ---- What training never saw; one place

cat >expected <<'END'
exact.ctp: 2 identifiers that training never saw, in 2 of 9 contexts, 27.7778% of the calls
 13.8889%  deep at 96 bytes
 13.8889%  leaf at 112 bytes
END
prints unseen infer --unseen less.map exact.ctp
cat >expected <<'END'
new.ctp: 1 identifier that training never saw, in 1 of 5 contexts, 1.6393% of the ns
  1.6393%  leaf at 128 bytes
END
prints unseen-of-samples infer --unseen p.map new.ctp
cat >expected <<'END'
1 known path, with the shares of training:
    100.0%  start:0x10 > main:0x20 > other:0x20 > deep:0x10 > leaf
END
prints a-place infer --at program+0x5f0,112 p.map
echo "training did not see this function at that height" >expected
prints another-height infer --at program+0x5f0,100 p.map
echo "training saw no function there" >expected
prints another-place infer --at program+0x600,112 p.map
refused no-place 1 'is not MODULE+OFFSET,HEIGHT' infer --at program+x,112 p.map

# ---- Damaged and other files, and usage

refused no-map 1 'is not a path map' infer exact.ctp heights.ctp
refused no-file 1 'nothere: cannot be opened' infer nothere heights.ctp
python3 - <<'END'
data = open("p.map", "rb").read()
open("short.map", "wb").write(data[:len(data) // 2])
import random
r = random.Random(3)
for i in range(40):
    changed = bytearray(data)
    changed[r.randrange(len(data))] ^= 1 << r.randrange(8)
    open("flipped-%d.map" % i, "wb").write(changed)
END
refused short-map 1 'short.map: ' infer short.map heights.ctp
wrong=0
for map in flipped-*.map; do
    "$CALLTRAIL" infer "$map" heights.ctp >out 2>err
    if [ $? -ne 1 ] || [ "$(wc -l <err)" -ne 1 ] || [ -s out ]; then wrong=$((wrong + 1)); fi
done
if [ $wrong -eq 0 ]; then ok flipped-maps; else fail flipped-maps "$wrong of 40"; fi
refused train-to-nowhere 2 'needs -o MAP' infer --train exact.ctp
refused train-of-nothing 2 'needs profiles' infer --train -o x.map
refused one-map 1 'all callers are known' infer p.map
refused no-profile 2 'a profile is needed' infer
refused nothing-to-learn-from 1 'has no stack heights' infer heights.ctp
refused two-kinds 2 'are one each' infer --score --unseen p.map exact.ctp
refused no-paths 2 'is not a number of paths' infer --top-paths 0 p.map heights.ctp
refused window-alone 2 '--window requires --score' infer --window 1024 p.map heights.ctp
refused output-of-score 2 '-o requires --train' infer --score -o x p.map exact.ctp

# ---- The call graph: paths that training never met. All that are direct below main are there, with frame sizes by rows,
# and by the code where these count from the frame pointer.

cat >graph.c <<'END'
#include <stdlib.h>
#define N __attribute__((noinline))
static unsigned x = 1;
N unsigned leaf(unsigned n) { return x = x * 1103515245u + 12345u + n; }
N unsigned odd(unsigned n);
N unsigned even(unsigned n) { volatile char r[40]; r[n % 40] = 1; return (n ? odd(n - 1) : leaf(n)) + r[n % 40]; }
N unsigned odd(unsigned n) {
    volatile char r[120];
    r[n % 120] = 1;
    unsigned v = n ? even(n - 1) : leaf(n);
    return v + (n & 4 ? leaf(n) : 0) + r[n % 120];
}
N unsigned one(unsigned n) { volatile char r[24]; r[n % 24] = 1; return even(n) + leaf(2) + r[n % 24]; }
N unsigned two(unsigned n) { volatile char r[200]; r[n % 200] = 1; return odd(n) + one(n) + leaf(1) + r[0]; }
N int compare(const void *a, const void *b) { return (int)leaf(1) < *(const int *)a + *(const int *)b; }
int main(int argc, char **argv) {
    unsigned v = 0, most = argc > 1 ? 9 : 2;
    int few[3] = {(int)v, 3, argc};
    for (unsigned i = 0; i < most; i++) v += one(i) + two(i);
    qsort(few, 3, sizeof *few, compare);
    return v + (unsigned)few[0] == 7 && argv[0] == NULL;
}
END
for frames in -fomit-frame-pointer -fno-omit-frame-pointer; do
    gcc -O1 -fno-optimize-sibling-calls -fno-ipa-icf $frames -o graph graph.c || exit 1
    "$CALLTRAIL" record --no-lines --engine exact --height -o less.ctp ./graph || exit 1
    "$CALLTRAIL" record --no-lines --engine exact --height -o more.ctp ./graph more || exit 1
    holds "graph-trained $frames" "$CALLTRAIL" infer --train -o graph.map less.ctp
    for map in "" graph.map; do
        # shellcheck disable=SC2086
        if python3 "$here/../oracle/search_check.py" "$CALLTRAIL" $map more.ctp >out 2>&1 &&
            [ "$(sed -n 's/.*; searched: \([0-9]*\);.*/\1/p' out)" -ge 20 ]; then
            ok "direct calls $frames $map: $(tail -1 out)"
        else
            fail "direct calls $frames $map" "$(tail -3 out | tr '\n' '|')"
        fi
    done
done
"$CALLTRAIL" infer --search -o searched.map graph.map more.ctp >out || exit 1
prefix="$(sed -n 's/^ *\([0-9]*\)  found: all.*/\1/p' out)"
if [ "${prefix:-0}" -gt 20 ]; then ok found-some; else fail found-some "$(cat out)"; fi
"$CALLTRAIL" infer --score searched.map more.ctp | sed -n 's/^ *said to be precise *\([^ ]*\).*/\1/p' >out
echo 0.00% >expected
if diff expected out >difference; then ok never-precise; else fail never-precise "$(cat difference)"; fi
# What was searched is not what training saw, and goes where training comes; a map of both says so still.
"$CALLTRAIL" infer --unseen graph.map more.ctp | cut -d: -f2 >expected
"$CALLTRAIL" infer --unseen searched.map more.ctp | cut -d: -f2 >out
if diff expected out >difference; then ok still-unseen; else fail still-unseen "$(cat difference)"; fi
holds searched-and-trained "$CALLTRAIL" infer --train -o both.map searched.map more.ctp
"$CALLTRAIL" infer --train -o full.map more.ctp && "$CALLTRAIL" infer --score full.map more.ctp >expected
"$CALLTRAIL" infer --score both.map more.ctp >out
if diff expected out >difference; then ok training-comes-first; else fail training-comes-first "$(head -4 difference)"; fi
refused search-to-nowhere 2 'needs -o MAP' infer --search more.ctp
refused search-of-nothing 2 'needs a profile' infer --search -o x.map

# ---- A crash whose stack is gone: all between the stack pointer and main's frame is written over. Once in a function,
# and once by a call to nowhere; the map is of a run that does not crash.

cat >crash.c <<'END'
#include <stdlib.h>
#include <string.h>
#define N __attribute__((noinline))
static int how;
static char *volatile above;
typedef int function(int);
static function *volatile nowhere = (function *)0;
N int fall(int x) {
    volatile char here[16];
    here[x & 15] = 1;
    if (how == 1) {
        memset((char *)__builtin_frame_address(0), 0x5a, (size_t)(above - (char *)__builtin_frame_address(0)));
        __builtin_trap();
    }
    return here[x & 15] + (how == 2 ? nowhere(x) : x);
}
N int low(int x) { volatile char room[100]; room[x % 100] = 1; return fall(x) + room[x % 100]; }
N int high(int x) { volatile char room[300]; room[x % 300] = 1; return (x > 2 ? fall(x) : low(x)) + room[x % 300]; }
int main(int argc, char **argv) {
    char mark[16] = "main";
    above = mark;
    int x = high(argc) + low(argc) + high(argc + 5);
    how = argc > 1 ? atoi(argv[1]) : 0;
    return how ? high(argc) : x == 77 && mark[0];
}
END
gcc -O1 -fno-optimize-sibling-calls -fno-stack-protector -o crash crash.c || exit 1
"$CALLTRAIL" record --no-lines --engine exact --height -o crash.ctp ./crash || exit 1
"$CALLTRAIL" infer --train -o crash.map crash.ctp || exit 1
for how in 1 2; do
    gdb -nx -batch -ex run -ex "generate-core-file core.$how" --args ./crash $how >out 2>&1
    if [ ! -s core.$how ]; then
        ok "no core $how (gdb cannot make one here)"
        continue
    fi
    "$CALLTRAIL" infer --core core.$how crash.map >out 2>err
    if grep -q ', in fall, [0-9]* bytes below its outermost call: 1 known path$' out &&
        grep -q '> main:0x[0-9a-f]* > high:0x[0-9a-f]* > low:0x[0-9a-f]* > fall$' out; then
        ok "crash $how"
    else
        fail "crash $how" "$(cat out err)"
    fi
done
refused no-core 1 'is not a core file' infer --core crash crash.map
refused core-without-map 2 'needs a MAP' infer --core crash
if [ -s core.1 ]; then
    head -c 700 core.1 >core.short
    refused short-core 1 'core.short: ' infer --core core.short crash.map
    "$CALLTRAIL" infer --train -o other.map less.ctp
    "$CALLTRAIL" infer --core core.1 other.map >out 2>err
    if grep -q 'the map does not know the file' out; then ok core-of-another; else fail core-of-another "$(cat out err)"; fi
fi

# ---- A program, by the heights of its stack. Of 400 samples all but a few have a height, of which nothing is unknown.

refused window-of-none 2 'or 0 with --engine infer' record --outside --window 0 true
refused events 2 '--engine infer can be combined with -e cpu' record --engine infer -e wall true
cat >program.c <<'END'
#include <stdio.h>
#include <time.h>
__attribute__((noinline)) unsigned hot(unsigned x) {
    for (int i = 0; i < 20000; i++) x = x * 1103515245u + 12345u;
    return x;
}
__attribute__((noinline)) unsigned low(unsigned x) { return hot(x) + 1; }
__attribute__((noinline)) unsigned high(unsigned x) {
    volatile char room[400];
    room[x % 400] = 1;
    return low(x) + room[x % 400] + hot(x);
}
int main(int argc, char **argv) {
    volatile char room[3000]; /* so that a window of 1 KB ends here */
    unsigned x = room[argc] = 1;
    double most = argc > 1 ? 0.4 : 0.01;
    do x = low(x) + high(x); while (clock() < most * CLOCKS_PER_SEC);
    return (argv[0] == NULL) + (x == 0);
}
END
gcc -g -O1 -fno-optimize-sibling-calls -o program program.c || exit 1
"$CALLTRAIL" record --no-lines --engine exact --height -e cpu -o exact.ctp ./program || exit 1
holds trained-with-a-program "$CALLTRAIL" infer --train -o program.map exact.ctp
if ! "$CALLTRAIL" record --no-lines --engine infer -o two.ctp ./program long 2>err; then
    if grep -q "not permitted" err; then
        echo "ok recorded (not permitted here)"
        [ "$failures" -eq 0 ]
        exit
    fi
    fail recorded "$(cat err)"
fi
"$CALLTRAIL" record --no-lines --engine infer --window 1 -o window.ctp ./program long 2>err || fail window "$(cat err)"
for profile in two.ctp window.ctp; do
    holds "completed $profile" "$CALLTRAIL" infer -o found.ctp program.map $profile
    "$CALLTRAIL" export --to folded found.ctp >found
    "$CALLTRAIL" export --to folded --metric ambiguous found.ctp >split
    python3 - >out 2>&1 <<'END'
rows = {tuple(line.rsplit(" ", 1)[0].split(";")): int(line.rsplit(" ", 1)[1]) for line in open("found")}
total = sum(rows.values())
begin = ("_start", "__libc_start_main", "__libc_start_call_main", "main")
paths = {("low", "hot"), ("high", "hot"), ("high", "low", "hot")}
ours = {path[4:]: value for path, value in rows.items() if path[:4] == begin}
for path in paths:
    assert 0.1 < ours.get(path, 0) / total < 0.6, (path, rows)
hot = {path for path in rows if path[-1] == "hot"}
assert {path[4:] for path in hot} == paths, hot
assert sum(ours.values()) > 0.9 * total, rows
assert not open("split").read(), "each of these contexts has a height of its own"
END
    if [ -s out ]; then fail "paths of $profile" "$(tail -1 out)"; else ok "paths of $profile"; fi
done

# ---- Without a map: stacks that the window holds whole tell of those that it does not. Half of the samples are in b and
# have all of their stack in 4 KB; the others, in hot below c, end in a.

cat >learn.c <<'END'
#include <time.h>
__attribute__((noinline)) unsigned hot(unsigned x) {
    for (int i = 0; i < 20000; i++) x = x * 1103515245u + 12345u;
    return x;
}
__attribute__((noinline)) unsigned c(unsigned x) { volatile char room[1500]; room[x % 1500] = 1; return hot(x) + room[x % 1500]; }
__attribute__((noinline)) unsigned b(unsigned x) {
    volatile char room[1500];
    room[x % 1500] = 1;
    for (int i = 0; i < 20000; i++) x = x * 1103515245u + 12345u;
    return c(x) + room[x % 1500];
}
__attribute__((noinline)) unsigned a(unsigned x) { volatile char room[1500]; room[x % 1500] = 1; return b(x) + room[x % 1500]; }
int main(void) {
    unsigned x = 1;
    do x = a(x); while (clock() < 0.4 * CLOCKS_PER_SEC);
    return x == 0;
}
END
gcc -O1 -fno-optimize-sibling-calls -o learn learn.c || exit 1
"$CALLTRAIL" record --no-lines --engine infer --window 4 -o learn.ctp ./learn 2>err || fail learn "$(cat err)"
"$CALLTRAIL" export --to folded learn.ctp >out
if grep -q 'height is known);a;b;c;hot ' out; then ok some-stacks-are-higher; else fail some-stacks-are-higher "$(cat out)"; fi
holds learnt-from-itself "$CALLTRAIL" infer -o found.ctp learn.ctp
"$CALLTRAIL" export --to folded found.ctp >out
if grep -q '^_start;__libc_start_main;__libc_start_call_main;main;a;b;c;hot ' out && ! grep -q 'height is known);a;b;c;hot ' out; then
    ok paths-are-learnt
else
    fail paths-are-learnt "$(cat out)"
fi

[ "$failures" -eq 0 ]
