#!/usr/bin/env bash
# Engine paths: counts that are known, and by single steps; its report; what it refuses.
set -uo pipefail
calltrail=${CALLTRAIL:-$PWD/build/calltrail}
truth=${PATHS_TRUTH:-$PWD/build/tests/paths_truth}
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
gcc -g -O1 -pthread -o ways "$here/paths/ways.c" || exit 1

check() { # name, what must be, what is
    [ "$2" = "$3" ] && echo "ok paths $1" || echo "FAIL paths $1: '$3', not '$2'"
}
fact() { # key, profile
    "$calltrail" info --json "$2" | python3 -c "
import json, sys
print(json.load(sys.stdin)['processes'][0]['facts']['$1'])" 2>>errors
}
record() { # profile, arguments of the program
    "$calltrail" record --engine paths -o "$1" ./ways "${@:2}" 2>said >printed
    echo "status $?" >>printed
}
counts() { # profile: the executions of each path of `pick`
    "$calltrail" report --view paths --json "$1" | python3 -c "
import json, sys
rows = json.load(sys.stdin)['rows']
print(' '.join(str(r['count']) for r in sorted(rows, key=lambda r: r['count'])
               if r['function'] == 'pick'))"
}

./ways >expected
echo "status $?" >>expected
record plain.ctp
check "output and status" "$(cat expected)" "$(cat printed)"
check "says nothing" "" "$(cat said)"
check "the four ways" "167 167 333 333" "$(counts plain.ctp)"
record threads.ctp 4
check "of five threads" "835 835 1665 1665" "$(counts threads.ctp)"

# Half of the paths that are left begin, and never end: 333 that call nothing are left of 1000.
record jumps.ctp jump
check "output with longjmp" "$(cat expected)" "$(cat printed)"
check "paths that are left are not counted" "167 167 333 666" "$(counts jumps.ctp)"

# A library that is loaded when threads have ended, and others go on with what they left.
gcc -g -O1 -pthread -o later "$here/paths/later.c" &&
    gcc -g -O1 -fno-if-conversion -shared -fPIC -o libsign.so "$here/paths/sign.c" || exit 1
"$calltrail" record --engine paths -o later.ctp ./later ./libsign.so >printed 2>said
check "library that comes later" "0 called" "$? $(cat printed)"
check "its paths" "300 149700 150000" "$("$calltrail" report --view paths --json later.ctp | python3 -c "
import json, sys
print(' '.join(str(c) for c in sorted(r['count'] for r in json.load(sys.stdin)['rows']
                                      if r['function'] == 'sign')))")"

# Flags that are set before a switch and used behind it.
gcc -g -O1 -no-pie -o flags "$here/paths/flags.c" || exit 1
"$calltrail" record --engine paths -o flags.ctp ./flags >printed 2>said
check "flags over a switch" "0 $(./flags)" "$? $(cat printed)"
check "in a copy" 1 "$("$calltrail" report --view paths flags.ctp | grep -c ' less ' | sed 's/[1-9].*/1/')"

# By single steps, difference 0.
"$truth" steps -- ./ways >/dev/null 2>&1
compared=$(python3 "$here/oracle/paths_check.py" steps plain.ctp)
check "by single steps" 1 "$(echo "$compared" | grep -c ' 0 differ in 0 functions')"
check "and all of them" 1 "$(($(echo "$compared" | sed -n 's/.*paths, \([0-9]*\) exec.*/\1/p') > 2000))"

# What is said of a program, and of a profile without paths.
check "doctor" 1 "$("$calltrail" doctor --edit ways | grep -c 'functions can be relocated')"
check "view" 1 "$("$calltrail" report --view paths plain.ctp | grep -c '^[0-9]* paths; [0-9]* of them, in')"
"$calltrail" record -o samples.ctp ./ways >/dev/null 2>&1
"$calltrail" report --view paths samples.ctp >/dev/null 2>said
check "no paths" "1 1" "$? $(grep -c 'paths' said)"
"$calltrail" record --engine paths --duration 1 ./ways >printed 2>said
check "no part of a run" "2 1 0" "$? $(grep -c 'cannot be combined' said) $(wc -l <printed)"
[ -s errors ] && echo "FAIL paths facts: $(head -1 errors)"
exit 0
