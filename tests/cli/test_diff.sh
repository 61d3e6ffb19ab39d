#!/bin/sh
# calltrail diff: golden outputs, what it must and must not report of simulated runs, errors and exit
# statuses. scripts/check-diff has the long runs.
# Needs CALLTRAIL, SAMPLE_PROFILE and FIXED_PROFILE: paths of the programs. REBASE=1 rewrites the golden
# outputs: look at each before keeping it.
. "$(dirname "$0")/checks.sh"
needs CALLTRAIL SAMPLE_PROFILE FIXED_PROFILE

# exits NAME STATUS PATTERN ARGUMENTS…: the status, and what one of the lines of its output is.
exits() {
    name=$1 status=$2 pattern=$3
    shift 3
    "$CALLTRAIL" "$@" >out 2>err
    got=$?
    cat out err >both
    if [ $got -ne "$status" ]; then
        fail "$name" "status $got, not $status: $(head -1 err)"
    elif ! grep -q -- "$pattern" both; then
        fail "$name" "not '$pattern': $(head -3 both)"
    elif [ "$status" -eq 1 ] && [ "$(wc -l <both)" -ne 1 ]; then
        fail "$name" "not one line: $(cat both)"
    else
        ok "$name"
    fi
}

# reports NAME FUNCTIONS ARGUMENTS…: exactly these functions, sorted, are reported.
reports() {
    name=$1 expected=$2
    shift 2
    got=$("$CALLTRAIL" diff --csv "$@" | tail -n +2 | cut -d, -f1 | sort -u | tr '\n' ' ')
    if [ "$got" = "$expected" ]; then ok "$name"; else fail "$name" "'$got', not '$expected'"; fi
}

"$SAMPLE_PROFILE" --seed 1 --samples 10000 --functions 20 a.ctp
"$SAMPLE_PROFILE" --seed 2 --samples 10000 --functions 20 b.ctp
"$SAMPLE_PROFILE" --seed 3 --samples 10000 --functions 20 --slower 1.5 --rebuilt c.ctp
"$SAMPLE_PROFILE" --seed 4 --samples 10000 --functions 20 --slower 0 --rebuilt gone.ctp
"$SAMPLE_PROFILE" --seed 5 --samples 10000 --functions 20 --scale 2 long.ctp
"$SAMPLE_PROFILE" --seed 6 --samples 10000 --functions 20 --scale 2 --slower 1.5 long-slower.ctp
"$SAMPLE_PROFILE" --seed 2 --samples 10000 --functions 20 --program /opt/old/program-2 renamed.ctp
"$SAMPLE_PROFILE" --seed 7 --samples 10000 --functions 20 --unit calls units.ctp
"$FIXED_PROFILE" fixed.ctp

# ---- For people and for programs

for columns in 80 200; do
    export COLUMNS=$columns
    golden diff-$columns diff --all a.ctp c.ctp
    golden diff-contexts-$columns diff --by context --all --limit 8 a.ctp gone.ctp
done
unset COLUMNS
golden diff-nothing diff a.ctp b.ctp
golden diff-normalize diff --normalize a.ctp long-slower.ctp
golden diff-json diff --json a.ctp c.ctp
golden diff-contexts-csv diff --by context --csv a.ctp gone.ctp
golden diff-exact diff --metric malloc fixed.ctp fixed.ctp
LC_ALL=C golden diff-ascii diff --by context a.ctp c.ctp
# Code without a name: programs find its module where they find it for others, people in its name.
exits place-csv 0 '^perl+0x1f2e40,perl,self,' diff --all --csv fixed.ctp fixed.ctp
exits place-json 0 '"function": "perl+0x1f2e40", "module": "perl",' diff --all --json fixed.ctp fixed.ctp
exits place-text 0 ' perl+0x1f2e40$' diff --all --limit 0 fixed.ctp fixed.ctp
widest=$(cat "$here"/golden/diff-80.txt "$here"/golden/diff-contexts-80.txt | wc -L)
if [ "$widest" -le 80 ]; then ok fits-80-columns; else fail fits-80-columns "$widest"; fi
if python3 -m json.tool "$here/golden/diff-json.txt" >out; then ok json-parses; else fail json-parses ''; fi

# ---- What is reported

reports same-program '' a.ctp b.ctp
reports same-file '' a.ctp a.ctp
reports same-by-context '' --by context a.ctp b.ctp
reports slower 'target ' a.ctp c.ctp
reports slower-by-context 'target ' --by context a.ctp c.ctp
reports faster 'target ' c.ctp a.ctp
reports gone 'target ' a.ctp gone.ctp
reports new 'target ' gone.ctp a.ctp
reports longer-run-as-parts '' --normalize a.ctp long.ctp
reports slower-in-longer-run 'target ' --normalize a.ctp long-slower.ctp
reports slower-machine '' a.ctp long.ctp
reports renamed '' a.ctp renamed.ctp
# What is gone was in the program that is gone; what is new, and what both have, in the new one.
cat >called.c <<'END'
volatile int sink;
#define CALLED __attribute__((noinline)) void
CALLED common(void) { sink++; }
CALLED OTHER(void) { sink += 2; }
int main(void)
{
    for (int i = 0; i < 100; i++) {
        common();
        OTHER();
    }
    return 0;
}
END
for other in prog-1:vanished prog-2:fresh; do
    program=${other%:*}
    gcc -O1 -DOTHER="${other#*:}" -o "$program" called.c || exit 1
    XDG_CACHE_HOME=$dir/cache "$CALLTRAIL" record --engine exact --modules "$program" -o "$program.ctp" "./$program" || exit 1
done
exits renamed-gone-csv 0 '^vanished,prog-1,self,gone,' diff --csv prog-1.ctp prog-2.ctp
exits renamed-gone-json 0 '"vanished", "module": "prog-1", "of": "self", "what": "gone"' \
    diff --json prog-1.ctp prog-2.ctp
exits renamed-gone-text 0 'gone .* vanished \[prog-1\]$' diff prog-1.ctp prog-2.ctp
exits renamed-new 0 '^fresh,prog-2,self,new,' diff --csv prog-1.ctp prog-2.ctp
exits renamed-same 0 '^common,prog-2,self,same,' diff --all --csv prog-1.ctp prog-2.ctp
reports below-min '' --min 20 a.ctp c.ctp
for pair in 'c.ctp grew' 'gone.ctp gone' 'a.ctp same'; do
    set -- $pair
    what=$("$CALLTRAIL" diff --csv --all a.ctp "$1" | awk -F, '$1 == "target" { print $4 }')
    if [ "$what" = "$2" ]; then ok "what $2"; else fail "what $2" "$what"; fi
done
# Every value, of both profiles, as the flat view has it.
"$CALLTRAIL" diff --csv --all --limit 0 a.ctp c.ctp | tail -n +2 |
    awk -F, '$3 == "self" { print $1, $5, $6 }' | sort >compared
for file in a c; do
    "$CALLTRAIL" report --view flat --csv --limit 0 $file.ctp | tail -n +2 |
        awk -F, '$3 { print $5, $3 }' | sort >$file.flat
done
join -a 1 -a 2 -e 0 -o 0,1.2,2.2 a.flat c.flat >flat
if cmp -s compared flat; then ok values; else fail values "$(diff compared flat | head -3)"; fi

cat >pairs.sh <<'END'
# 20 pairs of runs of the same program, and 20 with a slower function, of 10,000 samples.
false=0 found=0
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    "$SAMPLE_PROFILE" --seed $((i * 3 + 100)) --samples 10000 p.ctp
    "$SAMPLE_PROFILE" --seed $((i * 3 + 101)) --samples 10000 q.ctp
    "$SAMPLE_PROFILE" --seed $((i * 3 + 102)) --samples 10000 --slower 1.5 --rebuilt r.ctp
    [ "$("$CALLTRAIL" diff --csv p.ctp q.ctp | wc -l)" -eq 1 ] || false=$((false + 1))
    "$CALLTRAIL" diff --csv p.ctp r.ctp | grep -q '^target,' && found=$((found + 1))
done
echo "$false false alarms, found in $found"
[ $false -le 1 ] && [ $found -ge 19 ]
END
export CALLTRAIL SAMPLE_PROFILE
if sh pairs.sh >out; then ok "20 pairs: $(cat out)"; else fail '20 pairs' "$(cat out)"; fi

# ---- Limits and errors

exits under-limit 0 'grew' diff --fail-over 70 a.ctp c.ctp
exits over-limit 3 'Over the limit' diff --fail-over 20 a.ctp c.ctp
exits over-limit-json 3 'target' diff --fail-over 20 --json a.ctp c.ctp
exits over-limit-total 3 'Over the limit' diff --fail-over 50 a.ctp long.ctp
exits over-limit-parts 0 'None of the functions' diff --normalize --fail-over 5 a.ctp long.ctp
exits shrank-is-no-failure 0 'gone' diff --fail-over 5 a.ctp gone.ctp
echo 'int main;' >text.c
cp a.ctp newer.ctp && printf '\002' | dd of=newer.ctp bs=1 seek=8 conv=notrunc 2>/dev/null
head -c 2000 a.ctp >truncated.ctp
exits no-such-metric 1 "a.ctp: there is no metric 'cpo'; the nearest is 'cpu'$" diff --metric cpo a.ctp b.ctp
exits metric-of-one 1 "a.ctp: there is no metric 'malloc'; the nearest is 'cpu'$" \
    diff --metric malloc fixed.ctp a.ctp
exits other-unit 1 'cpu is in ns in a.ctp, and in calls in units.ctp: they cannot be compared$' \
    diff a.ctp units.ctp
exits not-a-profile 1 'text.c: is not a calltrail profile' diff a.ctp text.c
exits newer-version 1 'newer.ctp: written by a newer calltrail' diff a.ctp newer.ctp
exits truncated 1 'truncated.ctp: is truncated' diff truncated.ctp a.ctp
exits missing 1 'nowhere.ctp: .*No such file' diff a.ctp nowhere.ctp
exits one-file 2 'two profiles are required' diff a.ctp
exits by-what 2 "'line' is not function or context" diff --by line a.ctp b.ctp
exits bad-limit 2 "'x' is not a number of per cent" diff --fail-over x a.ctp b.ctp
exits unknown-option 2 "unknown option '--frob'" diff --frob a.ctp b.ctp
exits help 0 '^usage: calltrail diff' diff --help

[ $failures -eq 0 ]
