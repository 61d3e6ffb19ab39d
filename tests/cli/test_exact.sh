#!/usr/bin/env bash
# Engine exact: its options, its metrics, and that without it nothing changes.
set -uo pipefail
calltrail=${CALLTRAIL:-$PWD/build/calltrail}
: "${SLAB_COMPARE:=$PWD/build/tests/slab_compare}" "${CCT_DUMP:=$PWD/build/tests/cct_dump}"
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
gcc -g -O1 -o calls "$here/exact/calls.c" || exit 1

check() { # name, what must be, what is
    [ "$2" = "$3" ] && echo "ok exact $1" || echo "FAIL exact $1: '$3', not '$2'"
}
fact() { # key, profile
    "$calltrail" info --json "$2" | python3 -c "import json, sys; print(json.load(sys.stdin)['$1'])"
}
metrics() {
    "$calltrail" info --json "$1" | python3 -c "
import json, sys
print(' '.join(m['name'] for m in json.load(sys.stdin)['metrics']))"
}
record() { # profile, options...
    local out=$1
    shift
    "$calltrail" record --no-lines -o "$out" "$@" ./calls 2>said >printed
}

./calls >expected
record plain.ctp
check "default engine" "cpu returns" "$(metrics plain.ctp)"
check "default says nothing" "" "$(cat said)"
record all.ctp --engine exact
check "output" "$(cat expected)" "$(cat printed)"
check "says nothing" "" "$(cat said)"
check "metric" "calls" "$(metrics all.ctp)"
record both.ctp --engine exact -e cpu --verify
check "metrics with samples" "cpu calls" "$(metrics both.ctp)"
check "verify" "0" "$(fact verify_differ both.ctp)"
check "calls with samples" "$(fact calls all.ctp)" "$(fact calls both.ctp)"

# The same calls, in fewer contexts.
record folded.ctp --engine exact --fold-recursion
check "folded calls" "$(fact calls all.ctp)" "$(fact calls folded.ctp)"
fewer=$(($(fact call_records folded.ctp) < $(fact call_records all.ctp)))
check "folded contexts" 1 "$fewer"
record few.ctp --engine exact --max-nodes 100
check "few contexts" 100 "$(fact call_records few.ctp)"
check "all calls in few contexts" "$(fact calls all.ctp)" "$(fact calls few.ctp)"
check "few contexts are said" 1 "$(grep -c 'had more than 100 contexts.*--max-nodes' said)"

# callgrind and gdb know how many sites the program has; here: fewer than with libc.
record own.ctp --engine exact --modules calls
check "modules" 1 "$(($(fact sites own.ctp) > 10 && $(fact sites own.ctp) * 10 < $(fact sites all.ctp)))"
check "modules output" "$(cat expected)" "$(cat printed)"

# What was mapped for a library goes with it.
gcc -g -O1 -rdynamic -o reload "$here/exact/reload.c" &&
    gcc -shared -fPIC -o libshort.so "$here/exact/short.S" || exit 1
puns=$("$calltrail" doctor --edit --list libshort.so | grep -c ' pun ')
check "puns in a library" 1 "$((puns > 5))"
"$calltrail" record --no-lines --engine exact -o reload.ctp ./reload ./libshort.so 20 2>said >printed
check "all goes with a library" "0 more, few in all, 60 calls" "$(cat printed)"
check "puns of each load" "0 60" "$(fact sites_not_edited reload.ctp) $("$calltrail" export \
    --to folded reload.ctp | sed -n 's/.*;loop_call;tick //p')"
# More often than there can be edited modules at one time.
"$calltrail" record --no-lines --engine exact -o reload.ctp ./reload ./libshort.so 4200 2>said >printed
check "libraries come and go" "0 more, few in all, 12600 calls" "$(cat printed)"
check "nothing is left alone" "" "$(cat said)"
check "every load is counted" 12600 "$("$calltrail" export --to folded reload.ctp |
    sed -n 's/.*;loop_call;tick //p')"

# Another library at the same place: its calls are not those of the first.
for name in a b; do
    gcc -O1 -shared -fPIC -DNAME=$name -o plugin_$name.so "$here/torture/plugin.c" || exit 1
done
gcc -O1 -o same_place "$here/exact/same_place.c" || exit 1
for options in "" "--fold-recursion" "--k 2"; do
    # shellcheck disable=SC2086
    "$calltrail" record --no-lines --engine exact $options -o same_place.ctp ./same_place ./plugin_a.so ./plugin_b.so \
        >printed 2>/dev/null
    check "another library, where $options" "the same place" "$(cat printed)"
    check "calls of another library $options" "plugin_a.so 6,plugin_b.so 4," "$("$calltrail" report --json --view flat \
        --limit 0 --metric calls same_place.ctp | python3 -c "
import json, sys
for r in sorted(json.load(sys.stdin)['rows'], key=lambda r: r['module']):
    if r['function'] == 'plugin_work': print(r['module'], r['self'], end=',')")"
done

# A library is known, too, if the program has a copy of the linker's list.
gcc -O1 -o names_linker "$here/exact/names_linker.c" || exit 1
check "a copy of the linker's list" 1 "$(readelf -rW names_linker | grep -c 'R_X86_64_COPY.*_r_debug')"
"$calltrail" record --no-lines --engine exact -o names_linker.ctp ./names_linker ./plugin_a.so >printed 2>said
check "output with a copy of the list" "1 list" "$(cat printed)"
check "calls with a copy of the list" "plugin_work;work_of_a;spin 1" "$("$calltrail" export --to folded names_linker.ctp |
    sed -n 's/.*;main;\(plugin_work;.*spin .*\)/\1/p')"

# A library goes while another thread has not looked at what its first call was bound to.
gcc -O1 -shared -fPIC -Wl,-z,lazy -o libunload.so "$here/exact/unload_library.c" &&
    gcc -O1 -rdynamic -pthread -o unload "$here/exact/unload.c" || exit 1
"$calltrail" record --no-lines --engine exact -o unload.ctp ./unload ./libunload.so >printed 2>said
check "a library goes after a call" "0 44" "$? $(cat printed)"
check "calls of a library that went" "library_work 1,new_call 1," "$("$calltrail" export --to folded unload.ctp |
    sed -En 's/.*;work;((library_work|new_call) [0-9]+)$/\1/p' | tr '\n' ,)"

# A library that has no memory near it is left alone, and that is said.
gcc -g -O1 -rdynamic -o no_room "$here/exact/no_room.c" || exit 1
"$calltrail" record --no-lines --engine exact -o no_room.ctp ./no_room ./libshort.so 2>said >printed
check "no room" "3 calls" "$(cat printed)"
check "no room is said" 1 "$(grep -c 'calls from 1 module were not counted' said)"
check "no room in info" 1 "$(fact modules_not_edited no_room.ctp)"
check "room for all" 0 "$(fact modules_not_edited all.ctp)"

# Code with data in it is left alone as a whole, and code of no function: 13 bytes of the one, 16 with the padding of the other. What the
# compiler's own start files have of it is the same without them.
for odd in "" -DODD; do
    gcc -g -O1 $odd -o "odd$odd" -x c - <<'C' || exit 1
#include <stdio.h>
__attribute__((noinline)) int leaf(int n) { __asm__ volatile(""); return n + 1; }
#ifdef ODD
int odd(int n);
__asm__(".text\n.type odd,@function\nodd: call leaf\njmp 1f\n.byte 6,6,6,6\n1: ret\n.zero 1\n.size odd,.-odd\n"
        ".balign 16\nlea 1(%rax),%eax\nret\n.balign 16\n");
#else
#define odd leaf
#endif
int main(void) { printf("%d\n", odd(41)); return 0; }
C
    "$calltrail" record --no-lines --engine exact --modules "odd$odd" -o "odd$odd.ctp" "./odd$odd" >printed
    check "code that is not all instructions: output $odd" 42 "$(cat printed)"
done
check "code that is not all instructions" "1 29" "$(($(fact functions_not_edited odd-DODD.ctp) - $(fact functions_not_edited odd.ctp))) $((
    $(fact code_not_edited_bytes odd-DODD.ctp) - $(fact code_not_edited_bytes odd.ctp)))"

# A cold part of a cold part is its function, too.
gcc -g -O1 -o parts "$here/exact/parts.c" "$here/exact/parts.S" || exit 1
"$calltrail" record --no-lines --engine exact --modules parts -o parts.ctp ./parts >printed
check "calls from cold parts" "main;parts 1,main;parts;leaf 2," "$("$calltrail" export --to folded parts.ctp |
    sed -n 's/.*;\(main;parts.*\)/\1/p' | tr '\n' ,)"

usage() { # name, words, options...
    local name=$1 words=$2
    shift 2
    "$calltrail" record "$@" ./calls >/dev/null 2>said
    check "$name" "2 1" "$? $(grep -c "$words" said)"
}
usage "no such engine" "there is no engine 'magic'; there are: sample, exact" --engine magic
for option in --modules=x --fold-recursion --height --max-nodes=5 --k=2 --burst --trace=x.trace; do
    usage "$option of another engine" "record: ${option%=*} requires --engine exact" "$option"
done
usage "option before another engine" "record: --height requires --engine exact" --height --engine sample
usage "option of the other engine" "record: --no-trampoline requires --engine sample" \
    --engine exact --no-trampoline
usage "the last engine" "record: --k requires --engine exact" --engine exact --k 2 --engine sample
usage "no number" "not a number of contexts" --engine exact --max-nodes many

# --k: the forest of slabs that was built in the program, by definition, and against the offline code's,
# both from the calling context tree of the same run: small programs, and a real one. Recursion that is folded, too.
usage "k of none" "'0' is not from 1 to 100 callers" --engine exact --k 0
usage "k of many" "'101' is not from 1 to 100 callers" --engine exact --k 101
usage "k of words" "'two' is not from 1 to 100 callers" --engine exact --k two
usage "k and folded" "cannot be combined with --fold-recursion" --engine exact --k 2 --fold-recursion
gcc -O1 -o short "$here/exact/short.c" "$here/exact/short.S" || exit 1
gcc -O1 -pthread -o threads "$here/exact/threads.c" || exit 1
cat >hash.pl <<'E'
my %h;
for my $i (1 .. 2000) { my $k = "k" . ($i * 7919 % 501); $h{$k} .= $i; $h{$k} =~ s/(\d)\1/$1/g; }
print join(",", map { "$_=" . length $h{$_} } sort { length $h{$a} <=> length $h{$b} or $a cmp $b } keys %h);
E
export PERL_HASH_SEED=0
chains() { # profile, k: what kctx says of each function; of several callers of the same value it may take any
    "$calltrail" kctx --json --metric calls --keep-recursion --k "$2" "$1" | python3 -c "
import json, sys
for row in sorted((r['function'], r['module'], r['self'], r['verdict'], r['callers'],
                   r['chain_value'] if r['verdict'] == 'one chain' else 0)
                  for r in json.load(sys.stdin)['rows']): print(row)"
}
for program in ./calls ./short ./threads "perl hash.pl"; do
    modules="*"
    [ "$program" = ./threads ] && modules=threads # what libc does for threads is never the same twice
    # shellcheck disable=SC2086
    "$calltrail" record --no-lines --engine exact --modules "$modules" -o whole.ctp $program >expected 2>/dev/null
    # shellcheck disable=SC2086
    "$calltrail" record --no-lines --engine exact --modules "$modules" --fold-recursion -o folded.ctp $program >printed \
        2>/dev/null
    check "output, $program, folded" "$(cksum <expected)" "$(cksum <printed)"
    check "by definition, $program, folded" 0 \
        "$("$here/oracle/folds_oracle.py" whole.ctp folded.ctp | sed -n 's/^compared .* differ //p')"
    for k in 1 2 5; do
        name="$program, k $k"
        # shellcheck disable=SC2086
        "$calltrail" record --no-lines --engine exact --modules "$modules" -e cpu --verify --k $k -o slabs.ctp \
            $program >printed 2>/dev/null
        check "output, $name" "$(cksum <expected)" "$(cksum <printed)"
        check "verify, $name" 0 "$(fact verify_differ slabs.ctp)"
        check "by definition, $name" 0 \
            "$("$here/oracle/slabs_oracle.py" $k whole.ctp slabs.ctp | sed -n 's/^compared .* differ //p')"
        check "as offline, $name" 0 \
            "$("$SLAB_COMPARE" $k whole.ctp slabs.ctp | sed -n 's/^chains .* differ //p')"
        check "kctx, $name" "" "$(diff <(chains whole.ctp $k) <(chains slabs.ctp $k) | head -n 2)"
    done
done
said=$("$calltrail" kctx --metric calls --k 6 slabs.ctp 2>&1 >printed)
check "kctx of more" 1 "$(grep -c 'was recorded with --k 5: chains have at most that many callers, not 6' <<<"$said")"
check "report says it" 1 "$(COLUMNS=200 "$calltrail" report --metric calls slabs.ctp | grep -c 'the last 5 callers of each call, not all')"

# --burst: all calls are known, those in bursts stand for the rest.
usage "burst of words" "is not ON/PERIOD in ms" --engine exact --burst=often
usage "burst longer than its period" "is not ON/PERIOD in ms" --engine exact --burst=2/1
usage "burst with samples" "cannot be combined with --event" --engine exact --burst -e cpu
cat >count.pl <<'E'
my $n = 0;
for my $i (1 .. 60000) { my $s = "a$i"; $s =~ s/\d/x/g; $n += length $s; }
print "$n\n";
E
"$calltrail" record --no-lines --engine exact -o whole.ctp perl count.pl >expected 2>/dev/null
"$calltrail" record --no-lines --engine exact --burst=0.2/1 -o part.ctp perl count.pl >printed 2>/dev/null
check "burst output" "$(cat expected)" "$(cat printed)"
check "burst file" "" "$("$calltrail" info --check part.ctp 2>&1 >/dev/null)"
# Calls before and after a thread's counting are few; shares are held to what is said of their error.
"$calltrail" info --json part.ctp | python3 -c "
import json, math, subprocess, sys
metric = json.load(sys.stdin)['metrics'][0]
whole = json.loads(subprocess.run(['$calltrail', 'info', '--json', 'whole.ctp'], capture_output=True).stdout)
made, bursts = metric['calls_made'], metric['bursts']
print('kind', metric['kind'], 'sampled')
print('all', abs(made - whole['calls']) < 0.001 * made, True)
print('sum', abs(metric['total'] - made) < 0.01 * made, True)
print('bursts', bursts > 20, True)
def shares(path):
    rows = json.loads(subprocess.run(['$calltrail', 'report', '--json', '--view', 'flat', '--limit', '0', path],
                                     capture_output=True).stdout)['rows']
    total = sum(r['self'] for r in rows)
    return {(r['function'], r['module']): r['self'] / total for r in rows}
exact, part = shares('whole.ctp'), shares('part.ctp')
far = [f for f, s in exact.items() if abs(part.get(f, 0) - s) > 4 * math.sqrt(s * (1 - s) / bursts) + 0.01]
print('shares', far, [])
" >facts
for word in kind all sum bursts shares; do
    read -r _ got wanted < <(grep "^$word " facts)
    check "burst $word" "$wanted" "$got"
done
check "report gives the error" 1 "$(COLUMNS=200 "$calltrail" report part.ctp | grep -c 'an estimate from .* bursts .* is known to')"

# --trace: each context of the profile has as many calls in the trace of the same run, and what kctx makes
# of it is what the definition says.
usage "trace of slabs" "trace has whole contexts" --engine exact --trace x.trace --k 2
usage "trace of bursts" "trace has whole contexts" --engine exact --trace x.trace --burst
"$calltrail" record --engine exact --trace no/such/folder ./calls >printed 2>said
check "trace that cannot be written" "1 0 1" "$? $(wc -c <printed) $(grep -c 'no/such/folder' said)"
for program in calls short; do
    "$calltrail" record --no-lines --engine exact --trace $program.trace -o traced.ctp ./$program >printed 2>said
    check "trace output, $program" "$(./$program | cksum)" "$(cksum <printed)"
    check "trace, $program" 0 \
        "$("$here/oracle/trace_oracle.py" $program.trace traced.ctp | sed -n 's/^compared .* differ //p')"
done
check "chains of a trace" "0 different" \
    "$(python3 "$here/oracle/kctx_oracle.py" "$CCT_DUMP" calls.trace | sed -n 's/.*chains, //p')"
"$calltrail" kctx --replay calls.trace --fn leaf >printed
check "replayed" 1 "$(grep -c 'msort_with_tmp.*compare' printed)"

# --delay and --duration: calls of that time alone, and then the program's own code again.
gcc -O2 -pthread -o detach "$here/exact/detach.c" || exit 1
check "detach, plain" "the code is the file's, 0 wrong" "$(./detach)"
for options in "--duration 0.2" "--delay 0.1 --duration 0.1" "-e cpu --duration 0.2"; do
    # shellcheck disable=SC2086
    said=$("$calltrail" record --no-lines --engine exact $options -o part.ctp ./detach until 2>/dev/null)
    check "detach, $options" "the code is the file's, 0 wrong" "$said"
    [ "$(fact calls part.ctp)" -gt 1000 ] && echo "ok exact calls, $options" ||
        echo "FAIL exact calls, $options: only $(fact calls part.ctp)"
done

gcc -O1 -I"$here/../src" -o window "$here/exact/window.c" || exit 1
said=$("$calltrail" record --no-lines --engine exact --modules window --delay 1 --duration 1 -o window.ctp \
    ./window 2>/dev/null)
check "window" "in time 1000" "$said $("$calltrail" export --to folded window.ctp |
    sed -n 's/.*;main;\(early\|within\|late\) //p' | paste -sd' ')"

# ct_pause and ct_resume: the code is the file's in between, and its calls are not counted.
gcc -O2 -pthread -I "$here/../include" -o pause "$here/exact/pause.c" || exit 1
expected=$(./pause)
for options in "" "-e cpu --verify" "--duration 60"; do
    # shellcheck disable=SC2086
    said=$("$calltrail" record --no-lines --engine exact $options -o pause.ctp ./pause 2>&1)
    check "paused, output $options" "$expected" "$said"
    check "paused, calls $options" "counted 6,counted;work 6," \
        "$("$calltrail" export --to folded --metric calls pause.ctp |
            sed -En 's/.*;main;((not_)?counted(;work)? [0-9]+)$/\1/p' | sort | tr '\n' ,)"
done
expected=$(./pause threads)
said=$("$calltrail" record --no-lines --engine exact -o pause.ctp ./pause threads 2>message)
check "paused, output with threads" "$expected" "$said"
check "paused, calls with threads" "counted 1," "$("$calltrail" export --to folded pause.ctp |
    sed -En 's/.*;main;((not_)?counted [0-9]+)$/\1/p' | tr '\n' ,)"
check "paused, message" 1 "$(grep -c 'calls after ct_resume were not counted: it had other threads' message)"

# A child that is forked meanwhile is paused, too: with every engine.
gcc -O2 -pthread -I "$here/../include" -o pause_fork "$here/exact/pause_fork.c" || exit 1
"$calltrail" record --no-lines --engine exact --modules pause_fork -o pause.ctp ./pause_fork >printed 2>&1
check "paused, output with a child" "0x700" "$(cat printed)"
check "paused, calls with a child" "counted 3," "$("$calltrail" export --to folded pause.ctp |
    sed -En 's/.*;main;((not_)?counted [0-9]+)$/\1/p' | tr '\n' ,)"
"$calltrail" record --no-lines -o pause.ctp ./pause_fork >printed 2>&1
check "paused, samples with a child" "counted," "$("$calltrail" export --to folded pause.ctp |
    sed -En 's/.*;main;((not_)?counted)[; ].*/\1/p' | sort -u | tr '\n' ,)"

# Nor does it wait for the linker's lock, which a thread of its parent had.
timeout 60 "$calltrail" record --no-lines --engine exact --modules pause_fork -o pause.ctp ./pause_fork lock \
    >printed 2>message
check "paused, output with a lock" "0x700" "$(cat printed)"

# An inlined function is not called: the one that holds it is. The callers of both are the same.
cat >inlined.c <<'END'
volatile unsigned long sink;
static inline __attribute__((always_inline)) void bump(void) { sink++; }
__attribute__((noinline)) void worker(void) { bump(); }
int main(void)
{
    for (int i = 0; i < 12345; i++)
        worker();
    return 0;
}
END
gcc -g -O2 -o inlined inlined.c || exit 1
"$calltrail" record --engine exact --modules inlined -o inlined.ctp ./inlined
check "calls of what holds inlined code" "worker 12345 12345" "$("$calltrail" report --view flat --csv inlined.ctp |
    awk -F, '/worker|bump/ { print $5, $3, $4 }')"

# Frames 8 bytes apart are told apart: no call has to walk the stack for that.
gcc -g -O2 -fno-optimize-sibling-calls -o close_frames "$here/exact/close_frames.c" || exit 1
"$calltrail" record --no-lines --engine exact -e cpu -F 9999 --verify -o close.ctp ./close_frames >printed
check "close frames, output" 40000 "$(cat printed)"
check "close frames, few walks" yes "$([ "$(fact slow_resyncs close.ctp)" -lt 100 ] && echo yes)"
check "close frames, verify" 0 "$(fact verify_differ close.ctp)"
check "close frames, calls" 40000 "$("$calltrail" report --view flat --csv --metric calls close.ctp |
    awk -F, '/leaf/ { print $3 }')"

# A tool that walks the stack of a stopped program finds its callers, in stubs, too: every second stop or
# so is in one.
gcc -g -O2 -fno-optimize-sibling-calls -o spin "$here/exact/spin.c" || exit 1
mkfifo spins
"$calltrail" record --no-lines --engine exact --modules spin -o spin.ctp ./spin >spins &
recorder=$!
read -r line <spins
spinner=$(pgrep -P "$recorder" -x spin)
whole() { # of the functions in a walk, outermost first
    tac | grep -oE '\b(main|outer|inner|leaf)\b' | tr '\n' ' ' | grep -cE '^main (outer (inner (leaf )?)?)?$'
}
stops=0 in_stubs=0
for _ in $(seq 40); do
    walk=$(eu-stack -p "$spinner" 2>&1)
    stops=$((stops + $(whole <<<"$walk")))
    grep -q calltrail_stubs <<<"$walk" && in_stubs=$((in_stubs + 1))
done
check "stops, whole walks of eu-stack" 40 "$stops"
check "stops, some are in stubs" yes "$([ "$in_stubs" -gt 0 ] && echo yes)"
stops=0
for _ in 1 2 3 4; do
    stops=$((stops + $(gdb -q -batch -nx -p "$spinner" -ex 'set print frame-arguments none' -ex bt 2>&1 |
        sed -En 's/^#.* (in )?([a-z]+) \(.*/\2/p' | whole)))
done
check "stops, whole walks of gdb" 4 "$stops"
kill "$spinner"
wait "$recorder"
check "stops, status" 143 $?

# --height, against what the program measures itself.
gcc -g -O1 -foptimize-sibling-calls -fno-omit-frame-pointer -Wl,-z,lazy -o heights "$here/exact/heights.c" || exit 1
# Calls that go the fast way; by a walk of the stack, since libc is not edited; and all the slow way.
for options in "" "--modules heights" "--trace heights.trace"; do
    # shellcheck disable=SC2086
    "$calltrail" record --no-lines --engine exact --height $options -o heights.ctp ./heights 2>/dev/null |
        sort >expected
    for metric in height height_varies; do
        "$calltrail" export --to folded --metric $metric heights.ctp >$metric.folded
    done
    python3 - <<'P' | sort >heights.txt
import re
def read(name):
    lines = (line.rsplit(" ", 1) for line in open(name))
    return {path: int(value) for path, value in lines}
heights, varies = read("height.folded"), read("height_varies.folded")
start = next(path for path in heights if path.endswith(";main"))
print("main", heights[start])
for path in heights:
    short = re.sub(";qsort(_r)?;(.*;)?compare(?=;|$)", ";qsort;compare", "main" + path[len(start):])
    if path.startswith(start + ";") and re.search(";holds(;(?!qsort[;_]|through$)|;qsort;compare|$)", short):
        print(short, heights[path] - heights[start], *["varies"] * (path in varies))
P
    check "heights $options" "$(cat expected)" "$(cat heights.txt)"
done

# Code that stubs call with signals calls only its like (edit.h), and what runs without signals: a sample
# anywhere else in it would find no way out. Prints what leads out, as "from to".
leads_out() {
    objdump -d --no-show-raw-insn -j stub_text "$1" |
        awk '/^[0-9a-f]+ <.*>:$/ { at = $2; gsub(/[<>:]/, "", at); own[at] = 1 }
            $2 ~ /^(call|j)/ && $NF ~ /^</ { to = $NF; gsub(/[<>]|\+0x.*/, "", to); from[at " " to] = to }
            END { for (pair in from) if (!(from[pair] in own)) print pair }' | sort
}
for runtime in "$(dirname "$calltrail")"/libcalltrail-*.so; do
    check "what stubs call, $(basename "$runtime")" "encode_slow enter_or_not
exact_slow count_or_not" "$(leads_out "$runtime")"
done
