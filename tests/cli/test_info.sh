#!/bin/sh
# calltrail info against an independent reader of the same files, and its errors and exit statuses.
# Needs CALLTRAIL and GEN_PROFILE: paths of the two programs.
: "${CALLTRAIL:?the path of calltrail}" "${GEN_PROFILE:?the path of gen_profile}"
oracle=$(cd "$(dirname "$0")/../oracle" && pwd)/ctp_reader.py
case $CALLTRAIL in /*) ;; *) CALLTRAIL=$PWD/$CALLTRAIL ;; esac
case $GEN_PROFILE in /*) ;; *) GEN_PROFILE=$PWD/$GEN_PROFILE ;; esac
dir=$(mktemp -d) && cd "$dir" || exit 1
trap 'rm -rf "$dir"' EXIT
failures=0

ok() { echo "ok $1"; }
fail() {
    echo "FAIL $1: $2"
    failures=$((failures + 1))
}

# same NAME FILE: both readers say the same of a file, and the full check accepts it.
same() {
    if ! "$CALLTRAIL" info --check --json "$2" >info.json 2>err; then
        fail "$1" "$(cat err)"
    elif ! python3 "$oracle" "$2" info.json >differences 2>&1; then
        fail "$1" "$(tail -1 differences)"
    else
        ok "$1"
    fi
}

# refused NAME STATUS PATTERN ARGUMENTS…: one line on stderr that matches, nothing on stdout.
refused() {
    name=$1 status=$2 pattern=$3
    shift 3
    "$CALLTRAIL" info "$@" >out 2>err
    got=$?
    if [ $got -ne "$status" ]; then
        fail "$name" "status $got, not $status"
    elif [ -s out ]; then
        fail "$name" "it printed something on stdout"
    elif [ "$status" -eq 1 ] && [ "$(wc -l <err)" -ne 1 ]; then
        fail "$name" "not one line: $(cat err)"
    elif ! grep -q -- "$pattern" err; then
        fail "$name" "not '$pattern': $(cat err)"
    else
        ok "$name"
    fi
}

for seed in 1 2 3; do
    for shape in random deep bushy; do
        for nodes in 0 1 9 500 20000; do
            "$GEN_PROFILE" --seed $seed --nodes $nodes --shape $shape --threads $((seed * 2 - 1)) \
                --metrics $((seed + 1)) p.ctp || fail generate "$seed $shape $nodes"
            same "same-as-oracle seed=$seed shape=$shape nodes=$nodes" p.ctp
        done
    done
done
"$GEN_PROFILE" --seed 7 --nodes 100 --metrics 0 --threads 40 p.ctp
same "same-as-oracle without metrics, 40 threads" p.ctp
cp p.ctp "$(printf 'a \377 name.ctp')"
same "same-as-oracle odd file name" "$(printf 'a \377 name.ctp')"

"$GEN_PROFILE" --seed 5 --nodes 300 a.ctp
"$GEN_PROFILE" --seed 5 --nodes 300 b.ctp
if cmp -s a.ctp b.ctp; then ok deterministic; else fail deterministic "same seed, other bytes"; fi

"$CALLTRAIL" info --all a.ctp >text 2>err && [ ! -s err ] && grep -q '300 nodes in 8 roots' text &&
    grep -q '^  cpu: .* ms in .* contexts, one sample every 1 ms$' text &&
    grep -q 'pid 1001 (exec by pid 1000): /bin/sh' text && ok text || fail text "$(cat err)"
if LC_ALL=C grep -q "$(printf '[\001-\011\013-\037\177]\\|\302[\200-\237]')" text; then
    fail text-controls "control characters reach the terminal"
elif ! grep -q 'controls  .*\\x1b\[31m \\xc2\\x9b\[31m \\x7f$' text; then
    fail text-controls "$(grep controls text)"
else
    ok text-controls
fi

# In short: what ran, what was measured, how well, on a screen; no fact by its name in the file.
"$CALLTRAIL" info a.ctp >short 2>err
if [ "$(wc -l <short)" -le 45 ] && [ "$(wc -l <short)" -lt "$(wc -l <text)" ] && grep -q 'samples, .* lost' short &&
    grep -q '^  cpu: .* contexts, one sample every 1 ms$' short && grep -q '300 nodes in 8 roots' short &&
    grep -q '^How well' short && ! grep -qE 'utime_s|walks_|controls' short; then
    ok short
else
    fail short "$(head -5 short | tr '\n' ' ')"
fi

cp a.ctp calltrail.ctp
if [ "$("$CALLTRAIL" info | head -1)" = "$("$CALLTRAIL" info calltrail.ctp | head -1)" ]; then
    ok default-file
else
    fail default-file "not calltrail.ctp"
fi
if "$CALLTRAIL" info --help >out 2>err && grep -q '^usage: calltrail info' out; then
    ok help
else
    fail help "$(cat err)"
fi

# On a terminal no line is wider; elsewhere lines are whole.
if command -v script >/dev/null; then
    COLUMNS=50 "$CALLTRAIL" info a.ctp >whole
    script -qec "stty cols 50; $CALLTRAIL info a.ctp" /dev/null </dev/null | tr -d '\r' >narrow
    if [ "$(wc -L <whole)" -gt 50 ] && [ "$(wc -L <narrow)" -le 50 ] &&
        [ "$(tr -d ' \n' <whole)" = "$(tr -d ' \n' <narrow)" ]; then
        ok narrow
    else
        fail narrow "$(wc -L <whole) and $(wc -L <narrow) columns"
    fi
fi

# poke FILE OFFSET BYTES: overwrites bytes, given as printf escapes.
poke() {
    printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

echo 'int main;' >text.c
: >empty
mkdir folder
refused not-a-profile 1 '^calltrail: text.c: is not a calltrail profile$' text.c
refused empty-file 1 '^calltrail: empty: is not a calltrail profile (it is empty)$' empty
refused missing-file 1 '^calltrail: nowhere.ctp: .*No such file' nowhere.ctp
refused folder 1 '^calltrail: folder: is a directory' folder
cp a.ctp b.ctp && poke b.ctp 8 '\002'
refused newer 1 'b.ctp: written by a newer calltrail (format 2.2, this one reads up to 1.2)$' b.ctp
head -c 5000 a.ctp >b.ctp
refused truncated 1 'b.ctp: is truncated: 5000 of [0-9]* bytes are present$' b.ctp
head -c 20 a.ctp >b.ctp
refused truncated-header 1 'b.ctp: is truncated: it ends within the header$' b.ctp
cp a.ctp b.ctp && echo >>b.ctp
refused longer 1 'b.ctp: is damaged: 1 bytes follow its end$' b.ctp
cp a.ctp b.ctp && poke b.ctp 3000 '\377\377'
for option in '' --check; do
    refused "damaged-values $option" 1 \
        'b.ctp: is damaged: the hash of section . (metric values) does not' $option b.ctp
done
cp a.ctp b.ctp && poke b.ctp $(($(wc -c <a.ctp) - 2000)) '\377\377'
refused damaged-tables 1 'b.ctp: is damaged: the hash of section' b.ctp
refused two-files 2 'too many' a.ctp b.ctp
refused bad-option 2 '--nonsense' --nonsense a.ctp
if [ -w /dev/full ]; then
    "$CALLTRAIL" info a.ctp >/dev/full 2>err
    [ $? -eq 1 ] && [ "$(wc -l <err)" -eq 1 ] && ok full-output || fail full-output "$(cat err)"
fi

[ $failures -eq 0 ]
