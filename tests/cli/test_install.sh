#!/bin/sh
# What `make install` installs, run from there; man pages and completion, which must know every command
# and every option that --help does.
# Needs CALLTRAIL, the path of the program, which lies in the build folder.
: "${CALLTRAIL:?the path of calltrail}"
here=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
case $CALLTRAIL in /*) ;; *) CALLTRAIL=$PWD/$CALLTRAIL ;; esac
build=$(dirname "$CALLTRAIL")
dir=$(mktemp -d) && cd "$dir" || exit 1
trap 'rm -rf "$dir"' EXIT
failures=0

ok() { echo "ok $1"; }
fail() {
    echo "FAIL $1: $2"
    failures=$((failures + 1))
}

# ---- Man pages: those in the sources, and those that the build makes

page_of() { # NAME
    page=$here/docs/man/$1
    [ -f "$page" ] || page=$build/$1
}
"$CALLTRAIL" --help | awk '/^commands:/ { on = 1; next } /^$/ { on = 0 } on { print $1 }' >commands
[ "$(wc -l <commands)" -ge 12 ] || fail commands "$(cat commands)"
while read -r command; do
    page_of "calltrail-$command.1"
    if [ ! -f "$page" ]; then
        fail "page $command" "there is none"
        continue
    fi
    "$CALLTRAIL" "$command" --help | grep -oE -- '(^|[ ,[])--?[A-Za-z][a-z-]*' | tr -d ' ,[' |
        grep -v -e '^--help$' | sort -u >options
    mandoc -T utf8 "$page" | sed 's/.\x08//g' | grep -oE -- '--?[A-Za-z][a-z-]*' | sort -u >described
    missing=$(comm -23 options described | tr '\n' ' ')
    if [ -n "$missing" ]; then
        fail "page $command" "it does not say what these are: $missing"
    elif ! grep -q "calltrail-$command 1" "$here/docs/man/calltrail.1"; then
        fail "page $command" "calltrail.1 does not name it"
    else
        ok "page $command"
    fi
done <commands
pages=$(cd "$here/docs/man" && for page in *.1 *.1.in; do echo "${page%.in}"; done)
for page in $pages; do
    page_of "$page"
    name=$(basename "$page")
    mandoc -T lint -W warning "$page" >warnings 2>&1
    groff -mandoc -ww -Tutf8 "$page" >text 2>>warnings
    if [ -s warnings ] || [ ! -s text ]; then
        fail "lint $name" "$(head -1 warnings)"
    else
        ok "lint $name"
    fi
done

# ---- Completion

cat >try.bash <<'END'
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_calltrail
printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' '
END
completes() { # NAME EXPECTED WORDS…
    name=$1 expected=$2
    shift 2
    got=$(bash try.bash "$here/completion/calltrail.bash" "$@" 2>&1)
    if [ "$got" = "$expected" ]; then ok "$name"; else fail "$name" "'$got', not '$expected'"; fi
}
"${FIXED_PROFILE:?the path of fixed_profile}" fixed.ctp
mkdir folder
touch other.txt
completes complete-command 'record recover report ' "$CALLTRAIL" re
completes complete-option '--metric --min-share ' "$CALLTRAIL" report --m
completes complete-short-option '-o ' "$CALLTRAIL" merge -o
completes complete-metric 'cpu malloc ' "$CALLTRAIL" report fixed.ctp --metric ''
completes complete-function 'S_regmatch S_regrepeat S_regtry ' "$CALLTRAIL" report fixed.ctp --callers S_re
completes complete-member 'query ' "$CALLTRAIL" report fixed.ctp --lines que
completes complete-view 'threads topdown ' "$CALLTRAIL" report --view t
completes complete-list 'callees callers ' "$CALLTRAIL" top --view c
completes complete-chains 'kctx ' "$CALLTRAIL" report --view k
completes complete-format 'perf pprof ' "$CALLTRAIL" import --from p
completes complete-folder 'folder ' "$CALLTRAIL" symbolize --debug-dir f
completes complete-to-symbolize 'fixed.ctp folder ' "$CALLTRAIL" symbolize f
completes complete-profile 'fixed.ctp folder ' "$CALLTRAIL" diff f
completes complete-argument ' ' "$CALLTRAIL" record --modules ''
completes complete-file-argument 'other.txt ' "$CALLTRAIL" record --trace oth
completes complete-any-file 'other.txt ' "$CALLTRAIL" map oth

# ---- Engines: each of them, and each of their options, is in the manual page and is completed

page_of calltrail-record.1
"$CALLTRAIL" record --help | sed -nE 's/^ +--engine ([a-z]+) .*/\1/p' | sort >engines
"$CALLTRAIL" record --help |
    sed -nE 's/^ +(--[a-z-]+)( [A-Z]+|\[=[A-Z/]+\])? +with ([a-z]+): .*/\1 \3 \2/p' >rows
if [ "$(wc -l <engines)" -ge 2 ] && [ "$(wc -l <rows)" -ge 8 ]
then ok "help of engines"; else fail "help of engines" "$(cat engines rows)"; fi
completes complete-engine "$(tr '\n' ' ' <engines)" "$CALLTRAIL" record --engine ''
while read -r engine; do
    if grep -q "^\.It Cm $engine\$" "$page"
    then ok "page of engine $engine"; else fail "page of engine $engine" "it is not in $page"; fi
done <engines
while read -r option engine argument; do
    name="${option#--} of engine $engine"
    case " $(bash try.bash "$here/completion/calltrail.bash" "$CALLTRAIL" record "$option") " in
    *" $option "*) ok "complete $name" ;;
    *) fail "complete $name" "it is not completed" ;;
    esac
    if grep -q "^\.Op Fl -${option#--}\( \|\$\)" "$page" &&
        grep -A2 "^\.It Fl -${option#--}\( \|\$\)" "$page" | grep -q "^\.Cm $engine :"
    then ok "page of $name"; else fail "page of $name" "it is not in $page"; fi
    # Two engines may have an option of one name: it is refused with one that has none, by the first that has.
    awk -v option="$option" '$1 == option { print $2 }' rows >owners
    other=$(grep -vxFf owners engines | head -1)
    "$CALLTRAIL" record "$option${argument:+=1}" --engine "$other" /bin/true >out 2>err
    if [ $? -eq 2 ] && grep -q "record: $option requires --engine $(head -1 owners)" err
    then ok "$name, with $other"; else fail "$name, with $other" "$(cat err)"; fi
done <rows

# ---- Installed

if ! make -s -C "$here" install BUILD="$build" DESTDIR="$dir/dest" PREFIX=/opt/calltrail >log 2>&1; then
    fail install "$(tail -1 log)"
fi
prefix=$dir/dest/opt/calltrail
# shellcheck disable=SC2086
for file in bin/calltrail $(printf 'share/man/man1/%s ' $pages) share/bash-completion/completions/calltrail; do
    if [ -f "$prefix/$file" ]; then ok "installed $file"; else fail "installed $file" "it is not there"; fi
done
if "$prefix/bin/calltrail" record -o true.ctp /bin/true 2>err && "$prefix/bin/calltrail" info true.ctp >out
then ok run-from-there; else fail run-from-there "$(cat err)"; fi

# The header for phases: found by pkg-config, in C and C++, with nothing to link; such a program runs
# without a recording, and has phases in one.
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name calltrail.pc)")
export PKG_CONFIG_PATH
for language in c cpp; do
    compiler=gcc
    [ $language = c ] || compiler=g++
    # shellcheck disable=SC2046
    if $compiler -O2 $(pkg-config "--define-variable=prefix=$prefix" --cflags calltrail) "$here/examples/phases.$language" \
        $(pkg-config "--define-variable=prefix=$prefix" --libs calltrail) -o phases 2>err && ./phases >plain 2>err &&
        "$prefix/bin/calltrail" record -o phases.ctp ./phases >recorded 2>err && cmp -s plain recorded &&
        "$prefix/bin/calltrail" report --view phases phases.ctp | grep -q 'sorting\|counting'
    then ok "phases $language"; else fail "phases $language" "$(head -1 err)"; fi
done

[ $failures -eq 0 ]
