# What the tests of commands have in common; to be read with `.`, by sh. It goes to a folder of its own,
# $dir, which is removed at the end; $here is the folder of the test. The test looks at $failures at its end.
# REBASE=1 rewrites golden outputs: look at each before keeping it.
# shellcheck shell=sh
here=$(cd "$(dirname "$0")" && pwd) || exit 1
export LC_ALL=C.UTF-8
unset COLUMNS NO_COLOR PAGER
failures=0

# needs VARIABLE…: each has the path of a program.
needs() {
    for program; do
        eval "value=\${$program:?the path of a program}"
        case $value in /*) ;; *) eval "$program=\$started_in/\$value" ;; esac
    done
}

ok() { echo "ok $1"; }
fail() {
    echo "FAIL $1: $2"
    failures=$((failures + 1))
}

# holds NAME COMMAND…: the command succeeds; what it says last is why not.
holds() {
    name=$1
    shift
    if "$@" >out 2>err; then ok "$name"; else fail "$name" "$(cat out err | tail -1)"; fi
}

# refused NAME STATUS PATTERN ARGUMENTS…: one line on stderr that matches, nothing on stdout.
refused() {
    name=$1 status=$2 pattern=$3
    shift 3
    "$CALLTRAIL" "$@" >out 2>err </dev/null
    got=$?
    if [ $got -ne "$status" ]; then
        fail "$name" "status $got, not $status: $(head -1 err)"
    elif [ -s out ]; then
        fail "$name" "it printed something on stdout"
    elif [ "$(wc -l <err)" -ne 1 ]; then
        fail "$name" "not one line: $(cat err)"
    elif ! grep -q -- "$pattern" err; then
        fail "$name" "not '$pattern': $(cat err)"
    else
        ok "$name"
    fi
}

# golden NAME ARGUMENTS…: the output of calltrail with these arguments is that of the file.
golden() {
    name=$1
    shift
    if ! "$CALLTRAIL" "$@" >out 2>err; then
        fail "$name" "$(cat err)"
    elif [ -n "${REBASE:-}" ]; then
        cp out "$here/golden/$name.txt" && ok "$name (rewritten)"
    elif ! diff "$here/golden/$name.txt" out >difference 2>&1; then
        fail "$name" "$(head -4 difference | tr '\n' ' ')"
    else
        ok "$name"
    fi
}

started_in=$PWD
dir=$(mktemp -d) && cd "$dir" || exit 1
trap 'rm -rf "$dir"' EXIT
