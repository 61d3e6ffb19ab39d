#!/bin/sh
# calltrail kctx: counts and explanations of random traces against brute force, damaged traces, errors
# and exit statuses. How the text looks is in test_report.sh (--view kctx).
# Needs CALLTRAIL, GEN_PROFILE, GEN_TRACE, CCT_DUMP and FIXED_PROFILE: paths of the programs.
. "$(dirname "$0")/checks.sh"
needs CALLTRAIL GEN_PROFILE GEN_TRACE CCT_DUMP FIXED_PROFILE
oracle=$here/../oracle
objects=$(cd "$(dirname "$CALLTRAIL")" && pwd)/liboffline.a.p
export PYTHONDONTWRITEBYTECODE=1

# same NAME: the files `expected` and `out` are the same.
same() {
    if diff expected out >difference; then ok "$1"; else fail "$1" "$(head -4 difference | tr '\n' ' ')"; fi
}

# ---- Thousands of small traces, by definition

mkdir many
"$GEN_TRACE" --seed "${KCTX_SEED:-11}" --many "${KCTX_TRACES:-3000}" many || exit 1
holds chains-are-those-of-the-stacks python3 "$oracle/kctx_oracle.py" "$CCT_DUMP" many/*.trace
# shellcheck disable=SC2012
holds explanations-are-by-definition \
    python3 "$oracle/explain_oracle.py" "$CALLTRAIL" $(ls many/*.trace | head -n 200)

# ---- What the online part needs of others: nothing

if [ -f "$objects/src_cct_forest.c.o" ]; then
    nm -u "$objects/src_cct_forest.c.o" | grep -vE '__(asan|ubsan|sanitizer|sancov)_' >out
    : >expected
    same forest-needs-no-libc
fi

# ---- Formats

"$GEN_TRACE" --seed 4 --events 2000 --functions 12 --fanout 3 --depth 9 known.trace || exit 1
"$CALLTRAIL" kctx --replay known.trace --json >json 2>err || fail json "$(cat err)"
holds json-parses python3 -m json.tool json
"$CALLTRAIL" kctx --replay known.trace --csv >csv
python3 - >expected <<'END'
import csv, json
rows = json.load(open("json"))["rows"]
for row in rows:
    print(row["function"], row["self"], row["verdict"], row["callers"], row["chain_value"],
          ";".join(row["chain"]), ";".join(row["always_from"]))
END
python3 - >out <<'END'
import csv
for row in csv.DictReader(open("csv")):
    print(row["function"], row["self"], row["verdict"], row["callers"], row["chain_value"],
          row["chain"], row["always_from"])
END
same csv-says-what-json-says
holds something-was-compared [ "$(wc -l <out)" -gt 5 ]
"$CALLTRAIL" kctx --replay known.trace --sites --json >sites || fail sites "no answer"
holds sites-sum-to-functions python3 -c '
import json
a, b = json.load(open("json")), json.load(open("sites"))
assert a["total"] == b["total"] > 0
assert all("@0x" in row["function"] for row in b["rows"])'

# ---- Profiles

"$FIXED_PROFILE" fixed.ctp || exit 1
"$CALLTRAIL" kctx --no-pager fixed.ctp >out
"$CALLTRAIL" report --view kctx --min-share 0.5 fixed.ctp >expected
same the-same-as-the-view
cp fixed.ctp calltrail.ctp
"$CALLTRAIL" kctx >out && sed -i 's/^calltrail.ctp/fixed.ctp/' out
same default-file
"$CALLTRAIL" kctx --metric malloc --csv fixed.ctp >malloc.csv
holds metric grep -q "^[0-9.]*,[0-9]*,malloc," malloc.csv
"$CALLTRAIL" kctx --fn malloc --csv fixed.ctp | cut -d, -f3 | sort -u >out
printf 'function\nmalloc\n' >expected
same one-function
"$CALLTRAIL" kctx --fn main fixed.ctp >main.txt
holds function-without-cost grep -q '^main has no cost of its own' main.txt
# Wrappers explain nothing: who calls them does. The chains of _int_malloc, of the four stacks by hand.
cat >stacks <<'END'
main;parse;operator new(unsigned long);malloc;_int_malloc 50
main;load;read_line;operator new(unsigned long);malloc;_int_malloc 40
main;memcpy@plt;copy 7
malloc;start 3
END
"$CALLTRAIL" import --from folded -o wrapped.ctp stacks 2>err || fail import "$(cat err)"
chains() { "$CALLTRAIL" kctx --csv --limit 0 "$@" wrapped.ctp | tail -n +2 | cut -d, -f4-; }
chains --fn _int_malloc >out
cat >expected <<'END'
several callers,2,50,parse;operator new(unsigned long);malloc;_int_malloc,main
several callers,2,40,read_line;operator new(unsigned long);malloc;_int_malloc,main;load
END
sed -i 's/^[^,]*,//' out
same through-wrappers
chains --fn _int_malloc --k 2 | sed 's/^[^,]*,//' >out
echo 'one chain,1,90,operator new(unsigned long);malloc;_int_malloc,' >expected
same no-room-beyond-wrappers
chains --fn copy | sed 's/^[^,]*,//' >out
echo 'one chain,1,7,main;memcpy@plt;copy,' >expected
same through-the-plt
chains --fn start | sed 's/^[^,]*,//' >out
echo 'one chain,1,3,malloc;start,' >expected
same nobody-calls-the-wrapper
# chains_of_stacks NAME PROFILE: chains that need as much as there is, so that nothing is left out, have the
# values that the stacks in the file `folded` have.
chains_of_stacks() {
    "$CALLTRAIL" kctx --explain 100 --k 1000 --limit 0 --min-share 0 --keep-recursion --json "$2" >json
    holds "$1" python3 -c '
import json
stacks = [(l.rpartition(" ")[0].split(";"), int(l.rpartition(" ")[2])) for l in open("folded")]
rows = json.load(open("json"))["rows"]
for row in rows:
    for chain in (row["chain"], row["always_from"] + row["chain"]):
        n = len(chain)
        assert row["chain_value"] == sum(v for s, v in stacks if s[-n:] == chain), row
selves = {(row["function"], row["module"]): row["self"] for row in rows}
assert sum(selves.values()) == sum(v for s, v in stacks if s[-1] != "(context not known)")
assert len(rows) > 10'
}
"$CALLTRAIL" export --to folded fixed.ctp >folded
chains_of_stacks chains-are-those-of-folded-stacks fixed.ctp
python3 -c '
import random
random.seed(2)
print("\n".join(";".join(random.choices("abcdefghijklmnop", k=random.randint(1, 6))) + " %d" % random.randint(1, 99)
                for _ in range(150)))' >folded
"$CALLTRAIL" import --from folded -o imported.ctp folded 2>/dev/null || fail imported "not imported"
chains_of_stacks chains-of-an-imported-profile imported.ctp
for shape in random deep bushy; do
    for nodes in 0 1 9 3000; do
        "$GEN_PROFILE" --seed 3 --nodes $nodes --shape $shape g.ctp
        for format in --no-pager --json --csv; do
            "$CALLTRAIL" kctx $format g.ctp >out 2>err || fail "generated $shape $nodes $format" "$(cat err)"
        done
    done
done
ok generated-profiles

# ---- Errors

printf 'calltrc\n' >short.trace
: >empty.trace
head -c 100 known.trace >cut.trace
{ cat known.trace && echo; } >long.trace
refused not-a-trace 1 'fixed.ctp: is not a calltrail trace' kctx --replay fixed.ctp
refused not-a-profile 1 'known.trace: is not a calltrail profile' kctx known.trace
refused short 1 'short.trace: is not a calltrail trace' kctx --replay short.trace
refused empty 1 'empty.trace: is not a calltrail trace' kctx --replay empty.trace
refused cut 1 'cut.trace: is truncated' kctx --replay cut.trace
refused long 1 'long.trace: is damaged: something follows' kctx --replay long.trace
refused missing 1 'nowhere: .*No such file' kctx --replay nowhere
cat >damage.py <<'END'
"""Every byte of a trace changed, one at a time: an error of one line each, and no other end."""
import subprocess, sys
data = bytearray(open("known.trace", "rb").read())
for at in [*range(48), *range(48, len(data), 37)]:
    damaged = bytearray(data)
    damaged[at] ^= 1 << at % 8
    open("damaged.trace", "wb").write(damaged)
    run = subprocess.run([sys.argv[1], "kctx", "--replay", "damaged.trace"], capture_output=True)
    assert run.returncode == 1 and run.stdout == b"", (at, run.returncode)
    assert run.stderr.count(b"\n") == 1 and b"damaged.trace: " in run.stderr, (at, run.stderr)
END
holds damage-is-said python3 damage.py "$CALLTRAIL"
for k in 0 -1 1001 x 2.5 ''; do
    refused "k '$k'" 2 "is not from 1 to 1000" kctx --k "$k" fixed.ctp
done
for percent in 49 101 x ''; do
    refused "explain '$percent'" 2 'is not from 50 to 100' kctx --explain "$percent" fixed.ctp
done
refused metric-not-there 1 "there is no metric 'cpo'; the nearest is 'cpu'$" kctx --metric cpo fixed.ctp
refused metric-of-a-trace 1 "no metric 'cpu' in a trace; there is: calls" \
    kctx --replay known.trace --metric cpu
refused function-not-there 1 "there is no function 'maloc'; the nearest is 'malloc'$" \
    kctx --fn maloc fixed.ctp
refused two-sources 2 'a profile or --replay, not both' kctx --replay known.trace fixed.ctp
refused sites-of-a-profile 2 '--sites is for --replay' kctx --sites fixed.ctp
refused limit 2 'not a number of functions' kctx --limit -1 fixed.ctp
refused min-share 2 'not from 0 to 100' kctx --min-share 101 fixed.ctp
refused unknown-option 2 "unknown option '--frobnicate'" kctx --frobnicate
refused no-value 2 '--k needs a value' kctx fixed.ctp --k
refused two-files 2 'only one FILE is allowed' kctx fixed.ctp other.ctp
holds help "$CALLTRAIL" kctx --help

[ $failures -eq 0 ]
