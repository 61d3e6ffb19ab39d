#!/usr/bin/env bash
# What people do with contexts (examples/context_*): memory by context, log lines, crashes, what was never seen before.
set -uo pipefail
calltrail=${CALLTRAIL:-$PWD/build/calltrail}
here=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

check() { # name, what must be, what is
    [ "$2" = "$3" ] && echo "ok clients $1" || echo "FAIL clients $1: '$3', not '$2'"
}
flags=(-O2 -g -Wall -Wextra -Werror -I"$here/include" -I"$here/examples")
gcc "${flags[@]}" -fno-optimize-sibling-calls -o client "$here/tests/clients/client.c" || exit 1
for name in malloc crash guard; do
    gcc "${flags[@]}" -shared -fPIC -o "$name.so" "$here/examples/context_$name.c" || exit 1
done
record=("$calltrail" record --engine encode)

# ---- Every allocation: contexts, calls and bytes are those of the source. ----
LD_PRELOAD=./malloc.so "${record[@]}" -o m.ctp ./client malloc 2>memory.log
check "memory: status" 0 $?
"$calltrail" decode --inline m.ctp <memory.log >memory.txt
from() { # the calls from main on
    grep -F " > main > $1" memory.txt | sed 's/ _start .*//' | paste -sd '|'
}
check "memory: small" "memory: 100000 bytes in 1000 calls" "$(from 'asks > small > malloc')"
check "memory: large" "memory: 500000 bytes in 50 calls" "$(from 'asks > large > calloc')"
check "memory: small by large" "memory: 5000 bytes in 50 calls" "$(from 'asks > large > small > malloc')"
check "memory: none is unknown" 1 "$(grep -c 'memory: .*, of which 0 calls of unknown context' memory.log)"
check "memory: not recorded" "" "$(LD_PRELOAD=./malloc.so ./client malloc 2>&1)"

# ---- Log lines. ----
"${record[@]}" -o l.ctp ./client log 2>server.log
"$calltrail" decode --inline l.ctp <server.log | sed 's/_start .* main/main/' >server.txt
check "log" "request 1 failed main > serves > request|request 2 failed main > serves > request" "$(paste -sd '|' server.txt)"
check "log: lines" "request at client.c serves at client.c main at client.c" \
    "$("$calltrail" decode l.ctp <server.log | sed -n '2,4s/^    //p' | sed 's/:[0-9]*$//' | paste -sd ' ')"
check "log: not recorded" "request 1 failed|request 2 failed" "$(./client log 2>&1 | paste -sd '|')"

# ---- A crash: the calls at once, and later; the signal is what it would be. ----
calls="fails descends descends descends descends main"
LD_PRELOAD=./crash.so "${record[@]}" -o c.ctp ./client crash 2>crash.log
check "crash: status" 139 $?
check "crash: at once" "$calls" "$(sed -n 's/^    //p' crash.log | head -n 6 | paste -sd ' ')"
check "crash: later" "$calls" "$(grep -o 'ct:1:.*' crash.log | "$calltrail" decode c.ctp | sed -n 's/^    \([a-z]*\) at.*/\1/p' |
    head -n 6 | paste -sd ' ')"

# ---- What was never seen: from no known context, in a file of keys that other runs have made. ----
export CONTEXT_GUARD=$work/known.keys
: >known.keys
for _ in 1 2; do LD_PRELOAD=./guard.so CONTEXT_GUARD_LEARN=1 "${record[@]}" --no-lines -o g.ctp ./client open; done
check "guard: learnt once" "1 1" "$(wc -l <known.keys) $(sort -u known.keys | wc -l)"
LD_PRELOAD=./guard.so "${record[@]}" --no-lines -o g.ctp ./client open 2>quiet.log
check "guard: nothing new" "" "$(cat quiet.log)"
LD_PRELOAD=./guard.so "${record[@]}" --no-lines -o g.ctp ./client open attacked 2>found.log
check "guard: an attack" "never seen: open in main > attacked > reads > open" \
    "$("$calltrail" decode --inline g.ctp <found.log | sed 's/_start .* main/main/')"

# ---- A real program: the same answers. ----
if command -v sqlite3 >/dev/null; then
    sql="create table t(a integer primary key, b text); with recursive n(i) as (select 1 union all select i + 1 from n
        where i < 3000) insert into t select i, 'x' || (i * 7919 % 10007) from n; create index tb on t(b);
        select count(*), max(b) from t;"
    plain=$(sqlite3 :memory: "$sql")
    check "sqlite3: memory" "$plain" "$(LD_PRELOAD=./malloc.so "${record[@]}" --no-lines -o s.ctp sqlite3 :memory: "$sql" 2>s.log)"
    check "sqlite3: all is decoded" "0 1" \
        "$("$calltrail" decode s.ctp <s.log >s.txt; echo $?) $(("$(grep -c sqlite3_step s.txt)" > 5))"
    for _ in 1 2; do
        LD_PRELOAD=./guard.so CONTEXT_GUARD_LEARN=1 "${record[@]}" --no-lines -o s.ctp sqlite3 s.db "select 1" >/dev/null
    done
    LD_PRELOAD=./guard.so "${record[@]}" --no-lines -o s.ctp sqlite3 s.db "select 1" >said 2>&1
    check "sqlite3: nothing new" 1 "$(cat said)"
    rm -f s.db
    LD_PRELOAD=./guard.so "${record[@]}" --no-lines -o s.ctp sqlite3 s.db "create table t(a)" 2>said
    check "sqlite3: something new" 1 "$(("$(grep -c '^never seen: open in ct:1:' said)" > 0))"
else
    echo "skip clients sqlite3: it is not installed"
fi
