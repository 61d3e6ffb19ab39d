#!/bin/sh
# What people see of five programs, at 80, 100 and 200 columns: C++ with templates, stripped C, a server's
# wall time, calls counted beside CPU time, and memory. Each is one file for each width, in golden/.
# Needs CALLTRAIL and TEXT_PROFILE: paths of the programs. REBASE=1 rewrites them: look at each.
. "$(dirname "$0")/checks.sh"
needs CALLTRAIL TEXT_PROFILE

# view NAME ARGUMENTS…: the command, then what it prints. Statuses other than 0 are printed, too.
view() {
    echo "\$ calltrail $*"
    "$CALLTRAIL" "$@" 2>&1 || echo "status $?"
    echo
}

# screens PROGRAM FUNCTION: all views of one program, and a comparison with itself after a change.
screens() {
    "$TEXT_PROFILE" "$here/profiles/$1.txt" "$1.ctp" || exit 1
    holds "$1 is valid" "$CALLTRAIL" info --check "$1.ctp"
    # The heaviest function of its own is three times as heavy in the newer profile.
    python3 "$here/profiles/heavier.py" "$here/profiles/$1.txt" >heavier.txt || exit 1
    "$TEXT_PROFILE" heavier.txt newer.ctp || exit 1
    for columns in 80 100 200; do
        export COLUMNS=$columns
        {
            view report "$1.ctp"
            view report --view topdown "$1.ctp"
            view kctx "$1.ctp"
            view diff "$1.ctp" newer.ctp
            view report --lines "$2" --source-dir "$here/profiles" "$1.ctp"
            if [ "$1" = server ]; then
                view report --view threads server.ctp
                view report --thread 'worker-*' server.ctp
                view report --idle server.ctp
            elif [ "$1" = exact ]; then
                view report --view flat exact.ctp
            fi
        } | sed "s|$here|tests/cli|g" >screen.txt
        name=screens-$1-$columns
        if [ -n "${REBASE:-}" ]; then
            cp screen.txt "$here/golden/$name.txt" && ok "$name (rewritten)"
        elif diff "$here/golden/$name.txt" screen.txt >difference 2>&1; then
            ok "$name"
        else
            fail "$name" "$(head -4 difference | tr '\n' ' ')"
        fi
        width=$(grep -v '^\$' screen.txt | wc -L)
        holds "$name is not wider" [ "$width" -le "$columns" ]
        "$CALLTRAIL" report "$1.ctp" >summary.txt
        holds "$name: the summary fits a screen" [ "$(wc -l <summary.txt)" -le 24 ]
    done
    unset COLUMNS
}

screens cpp run_job
screens stripped main
screens server handle
screens exact run_job
screens heap fill

# ---- What all of the cost has come through: the user's own function is named, however deep a library goes on

cat >deep.txt <<'END'
module prog - /opt/prog
metric cpu ns 1 1000000 user CPU time
process 1 1 /opt/prog prog
thread 1 prog
fact samples 400
name main prog!main
name own prog!Parser::parse(std::string const&) const
name lib prog!std::basic_regex<char>::basic_regex(char const*)
name lib2 prog!void std::__detail::_Compiler<std::regex_traits<char> >::_M_disjunction()
name last prog!std::__detail::_Compiler<std::regex_traits<char> >::_M_alternative()
name a prog!std::__detail::_Scanner::_M_advance()
name b prog!std::__detail::_State::_M_clone()
context 200000000 main;own;lib;lib2;last;a
context 200000000 main;own;lib;lib2;last;b
END
"$TEXT_PROFILE" deep.txt deep.ctp || exit 1
for columns in 80 100; do
    COLUMNS=$columns "$CALLTRAIL" report deep.ctp >deep.out
    holds "people's own function is named, $columns columns" \
        grep -q 'function, below main → Parser::parse.* → … → .*_M_disjunction' deep.out
    holds "in $columns columns" [ "$(wc -L <deep.out)" -le "$columns" ]
done

# The same where libc has no names of its own, as on most machines.
{
    echo 'module libc - /lib/libc.so.6'
    sed 's/^context \([0-9]*\) /context \1 begin;libc+0x271d0;/; s/^name main.*/&\nname begin libc!__libc_start_main/' deep.txt
} >bare.txt
"$TEXT_PROFILE" bare.txt bare.ctp || exit 1
"$CALLTRAIL" report bare.ctp >bare.out
holds "what libc begins with is left out without its names, too" \
    grep -q 'function, below main → Parser::parse.* → … → .*_M_disjunction' bare.out

# The same in threads that libstdc++ starts, whose function has no name on most machines.
sed -e 's/;libc+0x271d0;/;libstdc+0xd4490;/' -e 's/!__libc_start_main/!start_thread/' bare.txt |
    sed '1i module libstdc - /lib/libstdc++.so.6' >started.txt
"$TEXT_PROFILE" started.txt started.ctp || exit 1
"$CALLTRAIL" report started.ctp >started.out
holds "what libstdc++ begins threads with is left out" \
    grep -q 'function, below main → Parser::parse.* → … → .*_M_disjunction' started.out

# ---- Wall time of a program that only waits: where, not that it did

cat >waits.txt <<'END'
module prog - /opt/prog
metric wall ns 1 0 time from the thread's start to its end
metric blocked ns 0 0 time in calls that wait
process 1 1 /opt/prog prog
fact samples 0
name main prog!main
name doze prog!doze
name nap prog!nanosleep
thread 1 prog
context 500000000,500000000 main;doze;nap
END
"$TEXT_PROFILE" waits.txt waits.ctp && "$CALLTRAIL" report waits.ctp >waits.out || exit 1
holds 'where a program that only waits does so' grep -q 'below main → doze$' waits.out
printf '%s\n' 'name work prog!work' 'thread 2 prog' 'context 100000000,0 work' | cat waits.txt - >beside.txt
"$TEXT_PROFILE" beside.txt beside.ctp && "$CALLTRAIL" report beside.ctp >waits.out || exit 1
holds 'beside one that ran, it is one row' grep -q '83.3% .*(1 thread that only waited)' waits.out

# Threads that wait: which they are is said by people's own functions, not by what a library calls them with.
cat >threads.txt <<'END'
module prog - /opt/prog
module libc - /lib/libc.so.6
metric lock ns 0 0 time waited for locks
process 1 2 /opt/prog prog
fact samples 0
name run1 prog!std::thread::_State_impl<F>::_M_run()
name run2 prog!std::thread::_State_impl<G>::_M_run()
name invoke prog!std::__invoke<F>(F)
name take prog!take_job()
name sleep prog!sleep_well()
name cond prog!std::condition_variable::wait()
name wait libc!pthread_cond_wait
END
for thread in 1:take 2:sleep; do
    printf '%s\n' "thread ${thread%:*}" "context 500000000 run${thread%:*};invoke;${thread#*:};cond;wait"
done >>threads.txt
"$TEXT_PROFILE" threads.txt threads.ctp && "$CALLTRAIL" report threads.ctp >threads.out || exit 1
for own in 'take_job()' 'sleep_well()'; do
    holds "a thread that waits in $own" grep -q "50.0% .*$own → … → pthread_cond_wait" threads.out
done

# ---- Narrower than most screens: what is cut to fit is cut there, too

for profile in cpp server exact; do
    for view in 'report --view topdown' 'report --view bottomup' kctx; do
        # shellcheck disable=SC2086
        COLUMNS=40 "$CALLTRAIL" $view $profile.ctp >narrow.out
        holds "$profile, $view: 40 columns" [ "$(wc -L <narrow.out)" -le 40 ]
    done
    python3 "$here/profiles/heavier.py" "$here/profiles/$profile.txt" >heavier.txt &&
        "$TEXT_PROFILE" heavier.txt newer.ctp || exit 1
    COLUMNS=40 "$CALLTRAIL" diff "$profile.ctp" newer.ctp >narrow.out
    holds "$profile, diff: 40 columns" [ "$(wc -L <narrow.out)" -le 40 ]
    # Source, below the path of its file, which is not broken.
    COLUMNS=40 "$CALLTRAIL" report --lines main --source-dir "$here/profiles" $profile.ctp |
        grep -v '^/' >narrow.out
    holds "$profile, source: 40 columns" [ "$(wc -L <narrow.out)" -le 40 ]
done

# ---- Hints: how rough shares are is said of what was sampled, and of nothing else

cat >few.txt <<'END'
module prog - /opt/prog
metric wall ns 1 0 time from the thread's start to its end
metric heap_peak bytes 1 524288 memory in use
process 1 1 /opt/prog prog
thread 1 prog
fact samples 28
fact rate_asked_hz 999
name wait prog!wait_for_work
context 23000000000,11000000 wait
END
"$TEXT_PROFILE" few.txt few.ctp || exit 1
"$CALLTRAIL" report few.ctp >wall.txt
if grep -q 'rough' wall.txt; then fail 'waiting is measured' "$(grep rough wall.txt)"; else ok 'waiting is measured'; fi
sed 's/23000000000,/60000000,/' few.txt >busy.txt
"$TEXT_PROFILE" busy.txt busy.ctp && "$CALLTRAIL" report busy.ctp >wall.txt
holds 'few samples of wall time that was spent running' grep -q '^only 28 samples: shares are rough (run it longer)' wall.txt
"$CALLTRAIL" report --metric heap_peak few.ctp >heap.txt
if grep -q '28 samples: ' heap.txt; then fail 'samples of time are not of memory'; else ok 'samples of time are not of memory'; fi
holds 'few samples of memory' grep -q '^only about 20 samples: shares are rough (record -e heap/8192)' heap.txt
sed 's/,11000000/,600000/' few.txt >one.txt
"$TEXT_PROFILE" one.txt one.ctp && "$CALLTRAIL" report --metric heap_peak one.ctp >heap.txt
holds 'one sample of memory' grep -q '^only about 1 sample: shares are rough (record -e heap/512)' heap.txt

# hints NAME FACTS LINE…: what is said of three seconds with these facts is these lines, in this order.
hints() {
    hinted=$1
    {
        cat <<'END'
module prog - /opt/prog
metric cpu ns 1 1001001 user CPU time
process 1 3 /opt/prog prog
thread 1 prog
fact rate_asked_hz 999
END
        for fact in $2; do echo "fact $fact" | tr = ' '; done
        samples=${2#samples=}
        printf 'name work prog!work\ncontext %s work\n' $((${samples%% *} * 1001001))
    } >hints.txt
    shift 2
    "$TEXT_PROFILE" hints.txt hints.ctp || exit 1
    COLUMNS=200 "$CALLTRAIL" report hints.ctp | sed -n '/^data/,/^more/p' | sed '1d;$d' >said.txt
    printf '%s\n' "$@" | sed '/^$/d' >expected.txt
    if diff expected.txt said.txt >difference; then
        ok "hints: $hinted"
    else
        fail "hints: $hinted" "$(tr '\n' ' ' <difference)"
    fi
}
waited='it was on a CPU for 2% of 3.000 s: it waited (record -e wall shows where), or the machine was busy'
longer='run it longer, or record -F 4999'
hints 'nothing to say' 'samples=2800 utime_s=2.8 stime_s=0.1' ''
hints 'a sleeper' 'samples=28 utime_s=0.03 stime_s=0.03' "$waited" "only 28 samples: shares are rough ($longer)"
hints 'a sleeper without samples' 'samples=0 utime_s=0.03 stime_s=0.03' "$waited" \
    "no samples: it took hardly any CPU time ($longer)"
hints 'one of each' 'samples=1 lost=1 threads_not_sampled=1 utime_s=2.8 stime_s=0.1' \
    '1 sample is lost (50.0%): the program blocked signals, or ran on stacks too small for a handler' \
    "only 1 sample: shares are rough ($longer)" '1 thread was seen, but not measured' \
    'the samples stand for 0% of the user CPU time only'
hints 'several of each' 'samples=900 lost=100 lost_in_ring=1 threads_not_sampled=2 utime_s=0.9 stime_s=2' \
    '100 samples are lost (10.0%): they came faster than they were read (a lower -F helps)' \
    '2 threads were seen, but not measured' \
    '69% of the CPU time is in the kernel: record --outside -e cpu:uk shows where'
hints 'a part was measured' 'samples=300 measured_s=0.5 utime_s=0.9 stime_s=0.9' ''

[ $failures -eq 0 ]
