#!/bin/sh
# Ranks of an MPI job: files that do not collide, ranks and hosts in profiles, and the load imbalance that
# report says. The launcher is played by its environment, and calls are counted, so all numbers are known.
# Needs CALLTRAIL: the path of the program.
. "$(dirname "$0")/checks.sh"
needs CALLTRAIL
cat >calls.c <<'END'
#include <stdlib.h>
__attribute__((noinline)) void work(int i) { __asm__ volatile("" ::"r"(i)); }
__attribute__((noinline)) void steps(int n) { for (int i = 0; i < n; i++) work(i); __asm__ volatile(""); }
int main(int argc, char **argv) { steps(argc > 1 ? atoi(argv[1]) : 0); return 0; }
END
gcc -O1 -o calls calls.c || exit 1

rank() { # NUMBER CALLS OPTIONS…
    number=$1 calls=$2
    shift 2
    OMPI_COMM_WORLD_RANK=$number OMPI_COMM_WORLD_SIZE=4 "$CALLTRAIL" record --engine exact --modules calls "$@" ./calls "$calls"
}
for i in 0 1 2; do rank $i 100 -o prof.%r.ctp; done
rank 3 500 -o prof.%r.ctp
if ls prof.0.ctp prof.1.ctp prof.2.ctp prof.3.ctp >/dev/null 2>err; then ok files-by-rank; else fail files-by-rank "$(cat err)"; fi
rank 2 1
if [ -e calltrail.2.ctp ]; then ok default-file-by-rank; else fail default-file-by-rank 'not calltrail.2.ctp'; fi
rank 0 1 -o all-the-same.ctp 2>err
if grep -q 'all ranks write all-the-same.ctp' err; then ok one-file-for-all-is-said; else fail one-file-for-all-is-said "$(cat err)"; fi
"$CALLTRAIL" record -o here.%h.ctp ./calls 1
if [ -e "here.$(hostname).ctp" ]; then ok file-by-host; else fail file-by-host "$(ls)"; fi
refused no-rank 2 '%r is the rank of an MPI job' record -o x.%r.ctp ./calls 1
for launcher in 'PMI_RANK=5 PMI_SIZE=8' 'SLURM_PROCID=5 SLURM_NTASKS=8' 'PMIX_RANK=5'; do
    name=launcher-${launcher%%=*}
    # shellcheck disable=SC2086
    env $launcher "$CALLTRAIL" record -o "$name.%r.ctp" ./calls 1
    if [ -e "$name.5.ctp" ]; then ok "$name"; else fail "$name" 'no rank'; fi
done

"$CALLTRAIL" merge -o all.ctp prof.?.ctp
field() { # EXPRESSION
    "$CALLTRAIL" report --view ranks --json all.ctp | python3 -c "import json, sys; r = json.load(sys.stdin); print($1)"
}
is() { # NAME EXPRESSION EXPECTED
    got=$(field "$2")
    if [ "$got" = "$3" ]; then ok "$1"; else fail "$1" "$got, not $3"; fi
}
is slowest-first "r['rows'][0]['rank'], len(r['rows'])" '3 4'
is host "r['rows'][0]['host']" "$(hostname)"
# work was called 100, 100, 100 and 500 times: 200 is the mean, and 500 is 2.5 times that.
is imbalance "[(c['function'], c['max'], c['mean'], c['of_mean'], c['slowest_rank']) for c in r['contexts']][0]" \
    "('work', 500, 200, '2.50', 3)"
is even-contexts-are-not-listed "len(r['contexts'])" 1
"$CALLTRAIL" merge -o again.ctp prof.3.ctp prof.1.ctp && "$CALLTRAIL" merge -o again.ctp prof.2.ctp again.ctp prof.0.ctp
if cmp -s all.ctp again.ctp; then ok any-order; else fail any-order 'another profile'; fi
"$CALLTRAIL" merge --join-ranks -o joined.ctp prof.?.ctp
refused joined 1 'no process has a rank' report --view ranks joined.ctp
sums() { "$CALLTRAIL" export --to folded "$1" | sort; }
sums all.ctp >apart && sums joined.ctp >together
if [ -s apart ] && cmp -s apart together; then ok same-sums; else fail same-sums "$(diff apart together | head -2)"; fi

[ $failures -eq 0 ]
