# A recording in slices whose truth is known, for the tests of slices; to be read with `.` behind checks.sh.
# shellcheck shell=bash
gcc -O1 -g -pthread -o burn "$here/../slices/burn.c" || exit 1

# begin OPTIONS…: starts a recording of a program that goes on until it is stopped. Sets $recorder.
begin() {
    rm -f calltrail.ctp
    "$CALLTRAIL" record --no-lines "$@" ./burn >out 2>err &
    recorder=$!
}

is_stopped() { # PID: all of its threads
    local state
    for state in /proc/"$1"/task/*/stat; do
        grep -q ') [Tt] ' "$state" 2>/dev/null || return 1
    done
}

# count_slices FOLDER
count_slices() { find "$1" -name 'slice-*.ctp' 2>/dev/null | wc -l; }

# finish: stops the program, has everything so far written to calltrail.ctp, and ends both. A program that has
# stopped is not sampled, so that is all that there will ever be: the truth that slices must add up to.
finish() {
    local program
    program=$(pgrep -P "$recorder" -x burn)
    kill -STOP "$program"
    until is_stopped "$program"; do sleep 0.05; done
    kill -USR2 "$recorder"
    while [ ! -s calltrail.ctp ] && kill -0 "$recorder" 2>/dev/null; do sleep 0.05; done
    kill -KILL "$program"
    wait "$recorder"
}

# stacks FILE: what it holds, for people and for cmp.
stacks() { "$CALLTRAIL" export --to folded "$1" | LC_ALL=C sort; }
