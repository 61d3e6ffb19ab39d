#!/bin/bash
# calltrail store, with a server of the test's own: sums are those of merge, to the byte; files twice; many
# clients at once; hostile names and labels; passwords; least rights.
# Needs CALLTRAIL, GEN_PROFILE, FIXED_PROFILE and SAMPLE_PROFILE: paths of the programs.
. "$(dirname "$0")/checks.sh"
needs CALLTRAIL GEN_PROFILE FIXED_PROFILE SAMPLE_PROFILE
. "$here/postgres.sh"
missing=$(postgres_missing)
if [ -n "$missing" ]; then
    echo "skip store: $missing"
    exit 0
fi
trap 'postgres_remove; rm -rf "$dir"' EXIT
postgres_start '-c fsync=off' || { echo 'FAIL store: no server'; exit 1; }
store() {
    local command=$1
    shift
    "$CALLTRAIL" store "$command" "$url" "$@"
}

refused not-initialized 1 'no store yet: calltrail store init' store ls "$url"
holds init store init
holds init-twice store init

# ---- Sums

mkdir old new
for i in 1 2 3 4 5 6; do
    "$SAMPLE_PROFILE" --seed $i old/$i.ctp
    "$SAMPLE_PROFILE" --seed $((i + 10)) --slower 3 --rebuilt new/$i.ctp
done
holds add-old store add --label release=1 --label 'note=a b' old/*.ctp
holds add-new store add --label release=2 new/*.ctp
equals() { # NAME FILES… -- SELECTION…: the store's answer is the profile that merge makes.
    local name=$1 files=()
    shift
    while [ "$1" != -- ]; do files+=("$1"); shift; done
    shift
    rm -f merged.ctp answer.ctp
    "$CALLTRAIL" merge -o merged.ctp "${files[@]}"
    if ! store query -o answer.ctp "$@" 2>err; then
        fail "$name" "$(cat err)"
    elif ! cmp -s merged.ctp answer.ctp; then
        fail "$name" 'another profile than that of merge'
    else
        ok "$name"
    fi
}
equals sum-by-label old/*.ctp -- --label release=1
equals sum-by-two-labels old/*.ctp -- --label release=1 --label 'note=a b'
equals sum-of-all old/*.ctp new/*.ctp --
equals sum-by-program old/*.ctp new/*.ctp -- --label program=program --since '1 day ago' --until 'tomorrow'
refused no-such-label 1 'no profile of the store has these labels' store query "$url" --label release=3 -o x.ctp
refused nothing-before 1 'no profile of the store has these labels' store query "$url" --until 1990-01-01 -o x.ctp
refused bad-time-of-list 1 'invalid input syntax' store ls "$url" --since "1' OR 1=1 --"
refused bad-time 1 'invalid input syntax' store query "$url" --since "1' OR 1=1 --" -o x.ctp

# Profiles with everything in them; who created a thread is not kept, nor when samples came.
for i in 1 2 3; do
    "$GEN_PROFILE" --seed $i --nodes $((i * 400)) --metrics $i --threads $i g$i.ctp
    "$GEN_PROFILE" --seed $i --nodes $((i * 400)) --metrics $i --threads $i --no-times n$i.ctp
done
"$GEN_PROFILE" --seed 4 --nodes 0 --metrics 1 g4.ctp
"$FIXED_PROFILE" g5.ctp
holds add-generated store add --label kind=generated g?.ctp
"$CALLTRAIL" merge -o merged.ctp n?.ctp g4.ctp g5.ctp
store query -o answer.ctp --label kind=generated
said() {
    "$CALLTRAIL" info --json "$1" | python3 -c 'import json, sys
profile = json.load(sys.stdin)
for key in ("file", "file_bytes", "times"): profile.pop(key, None)
for thread in profile["threads"]: thread.pop("creator", None)
json.dump(profile, sys.stdout, indent=1)'
}
contexts() { for metric in cpu malloc calls; do "$CALLTRAIL" export --to folded --threads --metric $metric "$1" | sort; done; }
for file in merged answer; do
    cp $file.ctp same-name.ctp
    said same-name.ctp >$file.said
    contexts $file.ctp >$file.contexts
done
if [ -s answer.contexts ] && cmp -s merged.contexts answer.contexts; then ok generated-sums; else fail generated-sums "$(diff merged.contexts answer.contexts | head -3)"; fi
if [ -s answer.said ] && cmp -s merged.said answer.said; then ok generated-facts; else fail generated-facts "$(diff merged.said answer.said | head -3)"; fi
holds valid "$CALLTRAIL" info --check answer.ctp

# ---- The same file twice, and many clients at once

store add old/1.ctp >out
if grep -q 'was there already' out && [ "$(store ls --label release=1 | wc -l)" -eq 7 ]; then ok twice; else fail twice "$(cat out)"; fi
mkdir many
for i in $(seq 1 20); do "$SAMPLE_PROFILE" --seed $((100 + i)) --functions $((20 + i)) many/$i.ctp; done
for client in 1 2 3 4 5 6 7 8; do # each adds all of them, in an order of its own
    ls many/*.ctp | shuf --random-source=<(yes $client) | "$CALLTRAIL" store add "$url" --label many=1 @- >many.$client.log 2>&1 &
done
wait
added=$(cat many.*.log | grep -c ': added')
if [ "$added" -eq 20 ] && ! grep -q calltrail: many.*.log; then ok clients-at-once; else fail clients-at-once "$added added; $(grep -h calltrail: many.*.log | head -1)"; fi
equals sum-of-clients many/*.ctp -- --label many=1
twice=$(sql 'SELECT count(*) FROM (SELECT hash FROM calltrail.context GROUP BY 1 HAVING count(*) > 1) x')
if [ "$twice" = 0 ]; then ok contexts-once; else fail contexts-once "$twice are there twice"; fi

# The first profiles of a day, by several clients at once: all of them find that its partition is missing, and one makes it.
mkdir day
for i in 1 2 3 4; do
    "$SAMPLE_PROFILE" --seed $((200 + i)) day/$i.ctp
    touch -d '2025-04-01 12:00 UTC' day/$i.ctp
done
mkfifo gate
"$postgres_bin/psql" -h "$cluster" -U calltrail -d postgres -XAtq <gate >/dev/null &
holder=$!
exec 4>gate
echo 'BEGIN; SELECT pg_advisory_xact_lock(7309453, 2);' >&4
waiting() { sql "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 7309453 AND objid = 2 AND granted = $1"; }
until [ "$(waiting true)" = 1 ] || ! kill -0 $holder 2>/dev/null; do sleep 0.05; done
clients=()
for i in 1 2 3 4; do
    "$CALLTRAIL" store add "$url" --label day=1 day/$i.ctp >day/$i.log 2>&1 4>&- &
    clients+=($!)
done
until [ "$(waiting false)" = 4 ] || ! kill -0 "${clients[@]}" 2>/dev/null; do sleep 0.05; done
exec 4>&-
wait "${clients[@]}"
if [ "$(cat day/*.log | grep -c ': added')" = 4 ]; then ok first-of-a-day; else fail first-of-a-day "$(grep -h calltrail: day/*.log | head -1)"; fi
equals sum-of-a-day day/*.ctp -- --label day=1

# ---- Views

if store query --label release=2 --top 3 2>err | grep -q 'target \[\|function_0 \['; then ok top; else fail top "$(cat err)"; fi
if store query --label release=2 --view flat -- --csv 2>err | grep -q '^.*,target,'; then ok view; else fail view "$(cat err)"; fi
if store diff release=1 release=2 -- --csv 2>err | grep -q '^target,'; then ok diff; else fail diff "$(cat err)"; fi
store diff release=1 release=2 >out 2>err
if grep -q '^older: release=1: cpu' out && grep -q '^newer: release=2: cpu' out; then ok diff-names-sets; else fail diff-names-sets "$(head -2 out)"; fi
if store diff release=1 release=1 2>err | grep -q 'target'; then fail diff-of-the-same 'something changed'; else ok diff-of-the-same; fi
holds diff-by-time store diff '1 day ago..tomorrow,release=1' 'yesterday..,release=2'

# ---- Nothing becomes SQL

hostile="a'); DROP TABLE calltrail.profile; --"
holds hostile-label store add --label "$hostile=\$\$\"\\{}'%s\`id\`" --label $'esc=\e[31m\x9b' --label 'empty=' many/1.ctp new/1.ctp
"$SAMPLE_PROFILE" --seed 77 --program "/x/'; DROP SCHEMA calltrail CASCADE; --" hostile.ctp
"$SAMPLE_PROFILE" --seed 78 --program $'/x/\xff\xfe\\x00' broken.ctp
holds hostile-names store add --label "$hostile=1" hostile.ctp broken.ctp
equals hostile-sum hostile.ctp broken.ctp -- --label "$hostile=1"
refused hostile-time 1 'invalid input syntax' store drop "$url" --before "1970-01-01'; DROP SCHEMA calltrail CASCADE; --"
if [ "$(store ls | wc -l)" -ge 40 ]; then ok still-there; else fail still-there "$(store ls | wc -l)"; fi
store ls --label "$hostile=1" >out
if grep -q $'[\x01-\x08\x0e-\x1f]' out; then fail clean-list "$(cat -v out)"; else ok clean-list; fi

# ---- Passwords

for address in "postgresql://calltrail:s3cret@localhost/postgres" "host=$cluster user=calltrail password=s3cret" \
    "postgresql://localhost/postgres?user=a&password=s3cret"; do
    refused password-refused 1 'a password on the command line' store ls "$address"
    if grep -q s3cret out err; then fail password-not-repeated "$(cat err)"; else ok password-not-repeated; fi
done
# The password where something else belongs: no at sign; a port; an address for a database's name.
for address in 'postgresql://u:s3cret@[::bad' 'postgresql://calltrail:s3cret' "host=$cluster port=s3cret" \
    "host=$cluster user=calltrail dbname=postgresql://calltrail:s3cret@localhost/postgres" \
    "host=$cluster user='calltrail password=s3cret'"; do
    refused bad-address 1 'address is not understood' store ls "$address"
    if grep -q s3cret out err; then fail bad-address-not-repeated "$(cat err)"; else ok bad-address-not-repeated; fi
    refused bad-address-to-record 2 'address is not understood' record --every 1s --keep spool --store "$address" true
    if grep -q s3cret out err; then fail bad-address-not-repeated-by-record "$(cat err)"; else ok bad-address-not-repeated-by-record; fi
done

# ---- The least rights: docs/fleet.md has the same lines

sql 'CREATE ROLE writer LOGIN; CREATE ROLE reader LOGIN;'
sql "$(sed -n '/^    GRANT/,/;$/p' "$here/../../docs/fleet.md")"
as_role() { url="host=$cluster user=$1 dbname=postgres"; }
owner=$url
as_role writer
"$SAMPLE_PROFILE" --seed 500 --functions 300 written.ctp
holds writer-adds store add --label by=writer written.ctp
as_role reader
equals reader-asks written.ctp -- --label by=writer
refused reader-does-not-add 1 'permission denied' store add "$url" old/2.ctp
as_role writer
refused writer-does-not-drop 1 'permission denied\|must be owner' store drop "$url" --before tomorrow
url=$owner
# Functions of others in the same database are not taken for the server's, whatever the search path says.
sql "CREATE SCHEMA others; GRANT USAGE ON SCHEMA others TO reader; ALTER ROLE reader SET search_path = others, pg_catalog;
    CREATE FUNCTION others.to_regclass(text) RETURNS regclass LANGUAGE sql AS 'SELECT NULL::regclass'"
as_role reader
equals only-functions-of-the-server written.ctp -- --label by=writer
url=$owner

# ---- Days go

# A day goes while a query waits for its costs: the answer has the day's profiles and their costs, or neither.
mkfifo gate2
"$postgres_bin/psql" -h "$cluster" -U calltrail -d postgres -XAtq <gate2 >/dev/null &
holder=$!
exec 4>gate2
"$SAMPLE_PROFILE" --seed 600 short-lived.ctp
touch -d '2023-03-03 12:00 UTC' short-lived.ctp
holds add-short-lived store add --label day=short short-lived.ctp
echo 'BEGIN; LOCK TABLE calltrail.cost IN ACCESS EXCLUSIVE MODE;' >&4
cost_locks() { sql "SELECT count(*) FROM pg_locks WHERE relation = 'calltrail.cost'::regclass AND mode = '$1' AND granted = $2"; }
until [ "$(cost_locks AccessExclusiveLock true)" = 1 ] || ! kill -0 $holder 2>/dev/null; do sleep 0.05; done
"$CALLTRAIL" store query "$url" --label day=short -o answer.ctp >out 2>err 4>&- &
client=$!
until [ "$(cost_locks AccessShareLock false)" = 1 ] || ! kill -0 $client 2>/dev/null; do sleep 0.05; done
echo "DROP TABLE calltrail.cost_20230303; DELETE FROM calltrail.profile WHERE labels @> '{\"day\": \"short\"}'; COMMIT;" >&4
exec 4>&-
wait $client
status=$?
if [ $status -eq 1 ] && grep -q 'no profile of the store' err; then ok day-goes-while-asked; else fail day-goes-while-asked "status $status: $(cat err)"; fi
wait $holder

before=$(sql "SELECT count(*) FROM pg_inherits WHERE inhparent = 'calltrail.cost'::regclass")
store drop --before 2024-01-01 >out
after=$(sql "SELECT count(*) FROM pg_inherits WHERE inhparent = 'calltrail.cost'::regclass")
if grep -q '^5 profiles removed' out && [ "$after" -lt "$before" ]; then ok drop; else fail drop "$(cat out) $before $after"; fi
refused dropped 1 'no profile' store query "$url" --label kind=generated -o x.ctp
equals others-stay old/*.ctp -- --label release=1
orphans=$(sql 'SELECT count(*) FROM calltrail.cost WHERE profile NOT IN (SELECT id FROM calltrail.profile)')
if [ "$orphans" = 0 ]; then ok no-costs-without-profile; else fail no-costs-without-profile "$orphans"; fi

# ---- The command line

refused no-command 2 'init, add, ls, query, diff or drop' store
refused no-url 2 'the URL of a database is required' store ls
refused no-file 2 'a FILE or @LIST is required' store add "$url"
refused no-sets 2 'OLDER and NEWER' store diff "$url" a=1
refused no-before 2 'drop: --before TIME' store drop "$url"
refused bad-label 2 'is not a label' store ls "$url" --label x
refused missing-file 1 'nowhere.ctp: .*No such file' store add "$url" nowhere.ctp
refused no-server 1 'the store cannot be reached' store ls 'host=/nonexistent'
head -c 2000 old/1.ctp >truncated.ctp
refused truncated 1 'truncated.ctp: is truncated' store add "$url" truncated.ctp
cp old/3.ctp removed.ctp
store add --remove removed.ctp >out
if [ ! -e removed.ctp ]; then ok remove; else fail remove "$(cat out)"; fi

[ $failures -eq 0 ]
