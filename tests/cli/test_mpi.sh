#!/bin/sh
# calltrail-mpi merge: for any number of ranks the bytes of calltrail merge; a damaged or missing file, or
# a rank that is killed, is an error and leaves no output.
# Needs CALLTRAIL, GEN_PROFILE and SAMPLE_PROFILE: paths of the programs; calltrail-mpi is beside the first.
. "$(dirname "$0")/checks.sh"
needs CALLTRAIL GEN_PROFILE SAMPLE_PROFILE
CALLTRAIL_MPI=$(dirname "$CALLTRAIL")/calltrail-mpi
if [ ! -x "$CALLTRAIL_MPI" ]; then
    echo 'skip mpi: calltrail-mpi was not built, since MPI is not installed (libopenmpi-dev)'
    exit 0
fi
if ! command -v mpirun >/dev/null; then
    echo 'skip mpi: there is no mpirun (openmpi-bin)'
    exit 0
fi
if [ -n "${SANITIZE:-}" ]; then
    echo 'skip mpi: the library of MPI has leaks of its own'
    exit 0
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Ranks on this machine, more than it has processors.
ranks() {
    count=$1
    shift
    mpirun --oversubscribe --mca btl self,vader -n "$count" "$@"
}

for i in 1 2 3 4 5 6 7 8 9; do
    "$GEN_PROFILE" --seed $i --nodes $((i * 200)) --metrics $((i % 3 + 1)) --threads $i g$i.ctp
    "$SAMPLE_PROFILE" --seed $i s$i.ctp
done
ls g*.ctp s*.ctp >list

# ---- The same bytes

same() { # NAME RANKS OPTIONS FILES…
    name=$1 count=$2
    shift 2
    rm -f expected.ctp got.ctp
    "$CALLTRAIL" merge -o expected.ctp "$@" </dev/null || fail "$name" 'merge failed'
    if ! ranks "$count" "$CALLTRAIL_MPI" merge -o got.ctp "$@" >out 2>err </dev/null; then
        fail "$name" "$(head -1 err)"
    elif ! cmp -s expected.ctp got.ctp; then
        fail "$name" 'another profile'
    else
        ok "$name"
    fi
}
same one-rank 1 @list
same two-ranks 2 @list
same three-ranks 3 @list
same four-ranks 4 --threads @list
same eight-ranks 8 @list
same more-ranks-than-files 4 g1.ctp s1.ctp
if "$CALLTRAIL" merge -o expected.ctp @list && ranks 3 "$CALLTRAIL_MPI" merge -o got.ctp @- <list 2>err &&
    cmp -s expected.ctp got.ctp; then ok list-on-standard-input; else fail list-on-standard-input "$(head -1 err)"; fi

# ---- Errors

refused() { # NAME PATTERN ARGUMENTS…
    name=$1 pattern=$2
    shift 2
    ranks 4 "$CALLTRAIL_MPI" merge "$@" >out 2>err </dev/null
    status=$?
    if [ $status -eq 0 ]; then
        fail "$name" 'it succeeded'
    elif [ "$(grep -c '^calltrail-mpi: ' err)" -ne 1 ] || ! grep -q "^calltrail-mpi: $pattern" err; then
        fail "$name" "not one line '$pattern': $(head -3 err)"
    elif ls refused.ctp* >/dev/null 2>&1; then
        fail "$name" 'it wrote something'
    else
        ok "$name"
    fi
}
cp s1.ctp damaged.ctp && printf '\377' | dd of=damaged.ctp bs=1 seek=100 conv=notrunc 2>/dev/null
"$SAMPLE_PROFILE" --seed 4 --unit calls units.ctp
: >empty
refused damaged 'damaged.ctp: is damaged' -o refused.ctp s1.ctp s2.ctp s3.ctp damaged.ctp s4.ctp
refused missing 'nowhere.ctp: .*No such file' -o refused.ctp s1.ctp nowhere.ctp @list
refused other-unit '.*not to be merged' -o refused.ctp s1.ctp s2.ctp units.ctp
refused empty-list 'the list is empty' -o refused.ctp @empty
refused missing-list 'nolist: ' -o refused.ctp @nolist
refused no-output 'merge: -o OUT is required' s1.ctp
refused folder 'nowhere/out.ctp: ' -o nowhere/out.ctp s1.ctp

# A rank is killed while the others wait for it: rank 0 waits for a list that is not ended before that.
mkfifo names
cat >as-rank.sh <<'END'
echo $$ >pid.$OMPI_COMM_WORLD_RANK.new && mv pid.$OMPI_COMM_WORLD_RANK.new pid.$OMPI_COMM_WORLD_RANK
exec "$@"
END
ranks 4 sh as-rank.sh "$CALLTRAIL_MPI" merge -o refused.ctp @names >out 2>err </dev/null &
job=$!
exec 3<>names
cat list >&3
# All have begun: rank 0 has the list open only then. (A mpirun whose rank dies while it begins may wait for itself.)
has_list() { [ -e pid.0 ] && ls -l "/proc/$(cat pid.0)/fd" 2>/dev/null | grep -q '/names$'; }
while ! has_list && kill -0 $job 2>/dev/null; do sleep 0.05; done
kill -9 "$(cat pid.2)"
wait $job
status=$?
exec 3>&-
if [ $status -eq 0 ]; then
    fail killed-rank 'it succeeded'
elif ls refused.ctp* >/dev/null 2>&1; then
    fail killed-rank 'it wrote something'
elif ! grep -q 'rank 2 .*signal 9' err; then
    fail killed-rank "nothing is said of it: $(head -3 err)"
else
    ok killed-rank
fi

# A rank is killed when its work is done, and so is that of the others: the output is not yet in its place.
mkdir last
ranks 2 sh -c 'LD_PRELOAD=$0 exec "$@"' "$(dirname "$GEN_PROFILE")/killed_at_barrier.so" "$CALLTRAIL_MPI" merge -o last/out.ctp @list \
    >out 2>err </dev/null
status=$?
if [ $status -eq 0 ]; then
    fail killed-at-the-end 'it succeeded'
elif [ -n "$(ls -A last)" ]; then
    fail killed-at-the-end "it left $(ls -A last)"
elif ! grep -q 'rank 1 .*signal 9' err; then
    fail killed-at-the-end "nothing is said of it: $(head -3 err)"
else
    ok killed-at-the-end
fi

[ $failures -eq 0 ]
