#!/bin/sh
# calltrail report and export: every view on one small profile against golden outputs, at 80 and 200
# columns; sums against awk and python; errors and exit statuses.
# Needs CALLTRAIL, GEN_PROFILE, FIXED_PROFILE and TEXT_PROFILE: paths of the programs. REBASE=1 rewrites the golden
# outputs: look at each before keeping it.
. "$(dirname "$0")/checks.sh"
needs CALLTRAIL GEN_PROFILE FIXED_PROFILE TEXT_PROFILE

"$FIXED_PROFILE" fixed.ctp || exit 1
holds fixed-profile-is-valid "$CALLTRAIL" info --check fixed.ctp

# ---- Every view, for people and for programs

views='summary contexts topdown bottomup flat kctx threads processes phases'
for columns in 80 200; do
    export COLUMNS=$columns
    for view in $views; do
        golden "$view-$columns" report --view $view fixed.ctp
    done
    golden callers-$columns report --callers S_regmatch fixed.ctp
    golden callees-$columns report --callees Perl_runops_standard fixed.ctp
done
unset COLUMNS
for view in $views; do
    golden "$view-json" report --view $view --json fixed.ctp
    golden "$view-csv" report --view $view --csv fixed.ctp
    holds "$view-json-parses" python3 -m json.tool "$here/golden/$view-json.txt"
done
golden callers-csv report --callers 'malloc [libc.so.6]' --csv fixed.ctp
golden callees-csv report --callees 'Engine::query(std::string const&)' --csv fixed.ctp
LC_ALL=C golden topdown-ascii report --view topdown fixed.ctp
golden topdown-color report --view topdown --color always --limit 8 fixed.ctp
golden folded export --to folded fixed.ctp
golden folded-threads export --to folded --threads fixed.ctp

golden metric report --view flat --metric malloc fixed.ctp
golden thread report --view topdown --thread indexer fixed.ctp
golden process report --view flat --process 4713 fixed.ctp
golden phase report --view flat --phase parse fixed.ctp
golden focus report --view topdown --focus regmatch fixed.ctp
golden focus-ignore report --view topdown --focus regmatch --ignore pp_sort fixed.ctp
golden show-from report --view contexts --show-from 'Engine|Indexer' fixed.ctp
golden only-module report --view topdown --only-module 'perl,Search*' fixed.ctp
golden fold-recursion report --view topdown --fold-recursion fixed.ctp
golden hot-path report --view topdown --hot-path fixed.ctp
golden limits report --view topdown --min-share 5 --depth 4 fixed.ctp
golden sort-total report --view flat --sort total --limit 6 fixed.ctp
golden nothing-left report --view topdown --focus nothing_is_called_so fixed.ctp

# ---- Inlined functions and source lines

"$FIXED_PROFILE" lines.ctp lines || exit 1
holds profile-with-lines-is-valid "$CALLTRAIL" info --check lines.ctp
mkdir -p src/coreutils
i=0
while [ $i -lt 30 ]; do
    i=$((i + 1))
    printf '\tline %d of sort.c, which is longer than eighty columns of a terminal allow\n' $i
done >src/coreutils/sort.c
golden inline-topdown report --view topdown lines.ctp
golden inline-folded report --view topdown --no-inline lines.ctp
golden inline-flat report --view flat --limit 0 lines.ctp
golden inline-callers report --callers 'Index::find(std::string const&) const' lines.ctp
golden no-demangle report --view flat --no-demangle --limit 0 lines.ctp
golden inline-export export --to folded lines.ctp
golden no-inline-export export --to folded --no-inline --no-demangle lines.ctp
for columns in 80 200; do
    COLUMNS=$columns golden lines-$columns report --lines sortlines --source-dir src lines.ctp
done
golden lines-json report --lines sortlines --source-dir src --json lines.ctp
golden lines-csv report --lines sortlines --source-dir src --csv lines.ctp
golden lines-no-source report --lines S_next_char lines.ctp
golden lines-no-inline report --lines sortlines --no-inline lines.ctp
golden lines-no-lines report --lines main fixed.ctp
golden lines-focus report --lines sortlines --focus strcoll lines.ctp
refused lines-function 1 "no function 'S_regmach'; the nearest is 'S_regmatch'$" \
    report --lines S_regmach lines.ctp
# Times: metrics without them are not there, and what is asked for must make sense.
"$GEN_PROFILE" --seed 4 --nodes 300 timed.ctp
holds from-to-text sh -c '"$0" report --view flat --from 1 --to 2.5 timed.ctp | grep -qx "sampled from 1 s to 2.5 s; .*% of the recording.s cpu has no time"' "$CALLTRAIL"
holds from-to-parts sh -c 'sum() { "$0" report --json "$@" timed.ctp | python3 -c "import json, sys; print(json.load(sys.stdin)[\"total\"])"; }
    [ $(($(sum --to 3) + $(sum --from 3))) -eq "$(sum --from 0)" ] && [ "$(sum --to 3)" -gt 0 ]' "$CALLTRAIL"
holds from-is-json sh -c '"$0" report --json --from 1 timed.ctp | grep -q "\"from_s\": 1,"' "$CALLTRAIL"
refused from-of-nothing 1 'its samples have no times' report --from 1 fixed.ctp
refused from-behind-to 1 'from: 2 s is not before --to: 1 s' report --from 2 --to 1 timed.ctp
refused from-no-time 2 "from: 'x' is not a number of seconds" report --from x timed.ctp
refused from-replay 2 'are for profiles' kctx --from 1 --replay x.trace
refused lines-needs-function 2 '--lines FN is required' report --view lines lines.ctp
refused asm-alone 2 'require --lines' report --asm lines.ctp
refused asm-of-another-build 1 'is not the build that was recorded' \
    report --lines Perl_yylex --asm lines.ctp
refused fold-recursion-of-lines 2 'is not for --lines' \
    report --lines main --fold-recursion lines.ctp

# ---- Functions as people type them

golden typed-part report --callees Engine fixed.ctp
golden typed-base report --callers 'operator[]' fixed.ctp
golden typed-expression report --callers '^Perl_pp_(sort|match)$' fixed.ctp
golden full-names report --view flat --full-names fixed.ctp
# same_callers NAME TYPED…: each means what the first one does.
same_callers() {
    name=$1
    shift
    "$CALLTRAIL" report --callers "$1" fixed.ctp >expected 2>&1 || fail "$name" "$(cat expected)"
    for typed; do
        if "$CALLTRAIL" report --callers "$typed" fixed.ctp 2>&1 | cmp -s expected -; then
            ok "$name: $typed"
        else
            fail "$name: $typed" "not the callers of $1"
        fi
    done
}
same_callers typed-as-shown 'std::sort<std::vector<Document*, std::allocator<Document*> >::iterator, ByScore>(ByScore)' \
    'std::sort<…>(ByScore) [Search.so]' 'std::sort<...>(...)' std::sort sort 'sort()' 'sort [Search.so]' \
    'sort [Search]' 'sort [Se…h]'
"$CALLTRAIL" report --view flat --limit 0 fixed.ctp | sed -n '4,$s/^.* s  //p' >shown
# Where it is narrow, modules are short, too.
for columns in 60 50; do
    COLUMNS=$columns "$CALLTRAIL" report --view flat --limit 0 fixed.ctp | sed -n '4,$s/^.* s  //p' >>shown
done
holds short-modules-are-shown grep -q ' \[libc\]$' shown
# In the C locale an ellipsis is three dots.
LC_ALL=C "$CALLTRAIL" report --view flat --limit 0 fixed.ctp | sed -n '4,$s/^.* s  //p' >>shown
holds something-is-shown [ "$(wc -l <shown)" -gt 60 ]
while read -r typed; do
    case $typed in '('*) continue ;; esac # why a walk ended: no function
    "$CALLTRAIL" report --callees "$typed" fixed.ctp >out 2>err || fail "typed: $typed" "$(cat err)"
    "$CALLTRAIL" report --focus "$typed" --view flat fixed.ctp >out 2>err || fail "focus: $typed" "$(cat err)"
    grep -q 'nothing to show' out && fail "focus: $typed" "nothing is found"
done <shown
ok 'every name that is shown can be typed'
"$CALLTRAIL" report --lines sort_ fixed.ctp >out 2>err
holds typed-nothing [ $? -eq 1 ]
"$CALLTRAIL" report --callers regex fixed.ctp >out 2>err
if [ $? -eq 0 ]; then ok typed-part-of-one; else fail typed-part-of-one "$(cat err)"; fi
"$CALLTRAIL" report --callers S_reg fixed.ctp >out 2>err
if [ $? -eq 1 ] && grep -q "'S_reg' is a part of 3 names" err && grep -q '37.8%.*46.8%.*S_regmatch' out &&
    grep -q S_regrepeat out && grep -q S_regtry out; then
    ok typed-part-of-several
else
    fail typed-part-of-several "$(cat out err | tr '\n' ' ')"
fi
refused typed-part-of-several-json 1 "'S_reg' is a part of 3 names" \
    report --callers S_reg --json fixed.ctp

# ---- Sums, by programs that know nothing of ours

# Folded: the values of all lines, and of those with a function, as the flat view has them.
folded_total() { awk '{ sum += $NF } END { printf "%.0f\n", sum }' "$1"; }
"$CALLTRAIL" export --to folded fixed.ctp >plain
"$CALLTRAIL" export --to folded --threads fixed.ctp >threads
holds folded-total [ "$(folded_total plain)" = $((1058 * 1001001)) ]
holds folded-threads-total [ "$(folded_total threads)" = $((1058 * 1001001)) ]
grep 'S_regmatch' plain >some
"$CALLTRAIL" report --view flat --csv fixed.ctp | awk -F, '$5 == "S_regmatch" { print $4 }' >flat
holds folded-agrees-with-flat [ "$(folded_total some)" = "$(cat flat)" ]

cat >compare.py <<'END'
"""Folded stacks against the oracle's reading of the file: total, number of lines, order."""
import collections, json, sys
info = json.load(open("info.json"))
lines = open("folded", encoding="latin-1").read().split("\n")
assert lines.pop() == "", "no line break at the end"
stacks = [line.rpartition(" ") for line in lines]
assert len({s[0] for s in stacks}) == len(stacks), "two lines with the same stack"
assert all(int(s[2]) > 0 for s in stacks), "a value that is not positive"
total = sum(int(s[2]) for s in stacks)
assert total == info["metrics"][0]["total"], f"{total} is not {info['metrics'][0]['total']}"
flat = json.load(open("flat.json"))
self = collections.Counter()
for stack, _, value in stacks:
    self[stack.split(";")[-1]] += int(value)
rows = collections.Counter()
for row in flat["rows"]:
    rows[row["function"]] += row["self"]
assert sum(rows.values()) == total, "flat does not sum to the total"
assert sorted(rows[k] for k in rows if rows[k]) == sorted(self.values()), "self values differ"
assert all(r["total_share"] <= 100 for r in flat["rows"]), "a share above 100%"
END
cat >digest.py <<'END'
"""The tree of the summary: rows hold what is below them, heaviest first, and are chains of calls of the tree."""
import json
summary, folded = json.load(open("summary.json")), open("folded", encoding="latin-1").read().split("\n")[:-1]
rows, above = summary["tree"], []
assert bool(rows) == bool(summary["total"]), "no row"
for i, row in enumerate(rows):
    assert row["depth"] <= len(above), "a row without its parent"
    del above[row["depth"]:]
    above.append(row)
    children = []
    for other in rows[i + 1:]:
        if other["depth"] <= row["depth"]:
            break
        if other["depth"] == row["depth"] + 1:
            children.append(other["total"])
    assert row["self"] + sum(children) <= row["total"], row
    assert children == sorted(children, reverse=True), "not the heaviest first"
    assert row["chain"][-1] == row["function"] and row["total"] * 100 >= summary["total"], row
END
for shape in random deep bushy; do
    for nodes in 0 1 9 3000; do
        "$GEN_PROFILE" --seed 2 --nodes $nodes --shape $shape g.ctp
        "$CALLTRAIL" info --json g.ctp >info.json
        "$CALLTRAIL" export --to folded g.ctp >folded
        "$CALLTRAIL" report --view flat --json --limit 0 g.ctp >flat.json
        # Names that differ only in what is replaced are the same in folded stacks; the generated
        # ones are all different otherwise.
        holds "folded-generated $shape $nodes" python3 compare.py
        "$CALLTRAIL" report --json g.ctp >summary.json
        holds "summary-generated $shape $nodes" python3 digest.py
        COLUMNS=80 "$CALLTRAIL" report g.ctp >screen
        holds "summary-screen $shape $nodes" [ "$(wc -l <screen)" -le 24 ]
        for view in $views; do
            for format in --no-pager --json --csv; do
                COLUMNS=60 "$CALLTRAIL" report --view $view $format g.ctp >out 2>err ||
                    fail "generated $shape $nodes $view $format" "$(cat err)"
                if LC_ALL=C grep -q "$(printf '[\001-\010\013-\037\177]\\|\302[\200-\237]')" out &&
                    [ $format = --no-pager ]; then
                    fail "generated $shape $nodes $view $format" "control characters"
                fi
                if [ $format = --no-pager ] && [ "$(wc -L <out)" -gt 60 ]; then
                    fail "generated $shape $nodes $view" "wider than the terminal: $(wc -L <out)"
                fi
            done
        done
        ok "generated $shape $nodes: every view"
    done
done

# ---- Files and defaults

"$CALLTRAIL" export --to folded -o written fixed.ctp && cmp -s plain written && ok output-file ||
    fail output-file "not what standard output has"
refused output-folder 1 'nowhere' export --to folded -o nowhere/out fixed.ctp
holds nothing-left-behind [ ! -e nowhere ]
cp fixed.ctp calltrail.ctp
"$CALLTRAIL" report --view flat >out 2>err
"$CALLTRAIL" report --view flat calltrail.ctp | cmp -s out - && ok default-file ||
    fail default-file "$(cat err)"
"$CALLTRAIL" export --to folded | cmp -s plain - && ok default-file-export ||
    fail default-file-export "not calltrail.ctp"
"$CALLTRAIL" report --view flat fixed.ctp >first
COLUMNS=nonsense "$CALLTRAIL" report --view flat fixed.ctp | cmp -s first - && ok bad-columns ||
    fail bad-columns "not 80 columns"
widest=$(cat "$here"/golden/*-80.txt | wc -L)
holds fits-80-columns [ "$widest" -le 80 ]
holds help-report "$CALLTRAIL" report --help
holds help-export "$CALLTRAIL" export --help
if command -v script >/dev/null; then
    # On a terminal: colours, unless NO_COLOR is set, and the pager, if there is more than fits.
    run="stty rows 5 cols 80; $CALLTRAIL report --view flat --limit 3 fixed.ctp"
    escape=$(printf '\033')
    export PAGER
    PAGER='sed s/^/paged:/'
    script -qec "$run" /dev/null >tty </dev/null
    if grep -q 'paged:.*S_regmatch' tty && grep -q "$escape\[" tty; then
        ok terminal
    else
        fail terminal "$(head -3 tty | tr '\n' ' ')"
    fi
    lines=$("$CALLTRAIL" report --view flat --limit 3 fixed.ctp | wc -l)
    for more in 0 1; do
        script -qec "stty rows $((lines + more)) cols 80; ${run#*; }" /dev/null >tty </dev/null
        holds "a terminal of $more more rows" [ "$(grep -c paged: tty)" -eq $((more ? 0 : lines)) ]
    done
    script -qec "stty rows 5 cols 20; ${run#*; } --full-names --limit 1" /dev/null >tty </dev/null
    holds "lines that are wider than the terminal are several" grep -q paged: tty
    script -qec "stty rows 24 cols 80; $CALLTRAIL report fixed.ctp" /dev/null >tty </dev/null
    holds "the summary fits a screen of 24 lines, with the prompt" [ "$(grep -c paged: tty)" -eq 0 ]
    PAGER=
    NO_COLOR=1 PAGER=cat script -qec "$run" /dev/null >tty </dev/null
    if grep -q 'S_regmatch' tty && ! grep -q "$escape\[" tty; then
        ok no-color
    else
        fail no-color "$(head -3 tty | tr '\n' ' ')"
    fi
else
    echo 'skip terminal: there is no script(1)'
fi

# ---- Errors

echo 'int main;' >text.c
"$GEN_PROFILE" --seed 1 --nodes 9 --metrics 0 no-metrics.ctp
head -c 3000 fixed.ctp >truncated.ctp
refused not-a-profile 1 'text.c: is not a calltrail profile' report text.c
refused truncated 1 'truncated.ctp: is truncated' report truncated.ctp
refused missing-file 1 'nowhere.ctp: .*No such file' report nowhere.ctp
refused no-metrics 1 'no-metrics.ctp: nothing was measured' report no-metrics.ctp
refused metric 1 "there is no metric 'cpo'; the nearest is 'cpu'$" report --metric cpo fixed.ctp
refused function 1 "no function 'S_regmach'; the nearest is 'S_regmatch'$" \
    report --callers S_regmach fixed.ctp
refused thread 1 "there is no thread 'idxer'; the nearest is 'indexer'$" \
    report --thread idxer fixed.ctp
refused process 1 "there is no process 'prl'; the nearest is 'perl'$" report --process prl fixed.ctp
refused phase 1 "there is no phase 'ran'; the nearest is 'run'$" report --phase ran fixed.ctp
refused module 1 "there is no module 'pearl'; the nearest is 'perl'$" \
    report --only-module pearl fixed.ctp
refused expression 1 "'a(b' is not a valid regular expression: " report --focus 'a(b' fixed.ctp
refused view 2 "there is no view 'tree'" report --view tree fixed.ctp
refused view-needs-function 2 '--callers FN is required' report --view callers fixed.ctp
refused two-views 2 'only one view is allowed' report --view flat --callers main fixed.ctp
refused hot-path-of-flat 2 'is for trees' report --view flat --hot-path fixed.ctp
refused sort-of-contexts 2 '--sort is for' report --view contexts --sort name fixed.ctp
refused sort-key 2 "'size' is not self" report --view flat --sort size fixed.ctp
refused share 2 'not from 0 to 100' report --min-share 101 fixed.ctp
refused limit 2 'not a number of rows' report --limit -1 fixed.ctp
refused depth 2 'not a number of levels' report --depth x fixed.ctp
refused color 2 'not auto, always or never' report --color red fixed.ctp
refused unknown-option 2 "unknown option '--frobnicate'" report --frobnicate fixed.ctp
refused no-value 2 '--limit needs a value' report fixed.ctp --limit
refused no-value-export 2 '-o needs a value' export --to folded fixed.ctp -o
refused two-files 2 'only one FILE is allowed' report fixed.ctp other.ctp
refused no-format 2 '--to FORMAT is required' export fixed.ctp
refused format 2 "there is no format 'pdf'" export --to pdf fixed.ctp
refused export-metric 1 "the nearest is 'malloc'" export --to folded --metric maloc fixed.ctp

# ---- Damaged files: every command that reads a section notices

cat >damage.py <<'END'
"""damage.py FILE OUT KIND AUX: one bit of the section is another."""
import struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
toc, count = struct.unpack_from("<QI", data, 24)
for at in range(toc, toc + 40 * count, 40):
    kind, _, size, aux, offset, elements = struct.unpack_from("<IIIIQQ", data, at)
    if (kind, aux) == (int(sys.argv[3]), int(sys.argv[4])):
        data[offset + size * (elements // 2)] ^= 2
open(sys.argv[2], "wb").write(data)
END
refused_by_all() { # kind and aux of the section, options that choose a metric
    python3 damage.py fixed.ctp damaged.ctp "$1" "$2" || exit 1
    section=$1-$2 reason='damaged.ctp: is damaged: the hash of section'
    shift 2
    for view in $views; do
        refused "damaged $section $view" 1 "$reason" report --view "$view" "$@" damaged.ctp
    done
    for format in folded pprof speedscope callgrind firefox chrome sqlite json; do
        refused "damaged $section $format" 1 "$reason" export --to $format "$@" -o out.x damaged.ctp
    done
    refused "damaged $section lines" 1 "$reason" report --lines S_regmatch "$@" damaged.ctp
    refused "damaged $section kctx" 1 "$reason" kctx "$@" damaged.ctp
    refused "damaged $section diff older" 1 "$reason" diff "$@" damaged.ctp fixed.ctp
    refused "damaged $section diff newer" 1 "$reason" diff "$@" fixed.ctp damaged.ctp
    refused "damaged $section info" 1 "$reason" info damaged.ctp
    refused "damaged $section merge" 1 "$reason" merge -o out.x fixed.ctp damaged.ctp
    refused "damaged $section symbolize" 1 "$reason" symbolize -o out.x damaged.ctp
}
refused_by_all 13 0                 # parents
refused_by_all 14 0                 # frames of nodes
refused_by_all 15 0                 # values of cpu
refused_by_all 15 1 --metric malloc # values of another metric
holds "what is not read may be damaged" "$CALLTRAIL" report --view flat --metric cpu damaged.ctp

# Times are not read without --from, but copied by what writes profiles: with a hash that matches.
"$GEN_PROFILE" --seed 3 --nodes 50 times.ctp && python3 damage.py times.ctp damaged.ctp 17 0 || exit 1
for command in 'report --from 1' 'symbolize -o out.x' 'merge -o out.x times.ctp' 'html -o out.x'; do
    # shellcheck disable=SC2086
    refused "damaged times, $command" 1 'damaged.ctp: is damaged: the hash of section' $command damaged.ctp
done

# ---- A file that is damaged anywhere: refused, or shown as it was before

"$TEXT_PROFILE" "$here/profiles/exact.txt" exact.ctp
cat >anywhere.py <<'END'
import subprocess, sys
calltrail = sys.argv[1]
views = (["report"], ["report", "--view", "topdown"], ["report", "--view", "flat"], ["report", "--view", "threads"],
         ["kctx"], ["info"], ["export", "--to", "folded"])
def run(words, name):
    done = subprocess.run([calltrail, *words, name], capture_output=True)
    return done.returncode, done.stdout.replace(name.encode(), b"FILE"), done.stderr
data = open("exact.ctp", "rb").read()
before = [run(words, "exact.ctp") for words in views]
refused = 0
for at in range(5, len(data), max(1, len(data) // 48)):
    changed = bytearray(data)
    changed[at] ^= 1 << at % 8
    open("damaged.ctp", "wb").write(changed)
    words = views[at % len(views)], views[(at + 1) % len(views)], views[1]
    for one in words:
        status, out, err = run(one, "damaged.ctp")
        assert status in (0, 1), (at, one, status, err)
        assert status == 1 or out == before[views.index(one)][1], f"byte {at}: {' '.join(one)} prints other numbers"
        assert status == 0 or err.count(b"\n") == 1, (at, one, err)
        refused += status
assert refused > 60, refused
END
holds 'damage anywhere is seen by every view' python3 anywhere.py "$CALLTRAIL"

[ $failures -eq 0 ]
