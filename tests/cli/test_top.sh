#!/bin/sh
# `calltrail top` in a real terminal: tmux is the terminal and the one who types. What is on the screen is waited
# for, however long it takes; numbers are compared with those of `report`, which makes its trees another way.
# Needs CALLTRAIL, FIXED_PROFILE, TEXT_PROFILE and GEN_PROFILE: paths of the programs.
. "$(dirname "$0")/checks.sh"
needs CALLTRAIL FIXED_PROFILE TEXT_PROFILE GEN_PROFILE

if ! command -v tmux >/dev/null; then
    echo 'skip top: there is no tmux'
    exit 0
fi
unset TMUX
export TMUX_TMPDIR="$dir"
count=0
t() { tmux -L "top-$count" "$@"; }
trap 't kill-server 2>/dev/null; rm -rf "$dir"' EXIT

# start COLUMNS LINES ARGUMENTS…: the browser in a new window of that size; ENVIRONMENT is put before it.
start() {
    columns=$1 lines=$2
    shift 2
    t kill-server 2>/dev/null
    rm -f status
    count=$((count + 1)) # a server that ends may still be there: the next one is another
    t -f /dev/null new-session -d -x "$columns" -y "$lines" \
        "env ${ENVIRONMENT:-} '$CALLTRAIL' top $* 2>err; echo \$? >status; cat"
}
press() { t send-keys "$@"; }
screen() { t capture-pane -p "$@"; }

# waits COMMAND…: until it succeeds. The deadline is for a machine that stands still.
waits() {
    left=${PATIENCE:-3000}
    until "$@"; do
        left=$((left - 1))
        [ $left -gt 0 ] || return 1
        sleep 0.1
    done
}
is_there() { screen 2>/dev/null | grep -qE -- "$1"; }
is_first() { screen 2>/dev/null | head -1 | grep -qE -- "$1"; }

# sees NAME PATTERN: a line of the screen, sooner or later.
sees() {
    if waits is_there "$2"; then ok "$1"; else fail "$1" "no '$2': $(screen | head -8 | tr '\n' '|')"; fi
}
# heads NAME PATTERN: the first line of the screen.
heads() {
    if waits is_first "$2"; then ok "$1"; else fail "$1" "no '$2': $(screen | head -1)"; fi
}
# The row under the cursor, which the terminal is on whether it has styles or not.
selected() {
    screen | sed -n "$(($(t display -p '#{cursor_y}') + 1))p"
}
is_selected() { selected | grep -qE -- "$1"; }
selects() {
    if waits is_selected "$2"; then ok "$1"; else fail "$1" "no '$2': $(selected)"; fi
}
# leaves NAME: q ends it with status 0.
leaves() {
    press q
    if waits [ -s status ] && [ "$(cat status)" = 0 ] && [ ! -s err ]; then ok "$1"; else fail "$1" "$(cat status err)"; fi
}

"$FIXED_PROFILE" fixed.ctp lines
"$GEN_PROFILE" --seed 7 --nodes 300 --threads 3 generated.ctp

# ---- Numbers: the rows of the screen are those of report

cat >compare.py <<'END'
"""compare.py KIND REPORT.json SCREEN: every row of the list, in order, with its shares."""
import json, re, sys
kind, report, screen = sys.argv[1:4]
rows = json.load(open(report))["rows"]
total = json.load(open(report))["total"]
wanted = []
def share(value):
    return f"{100 * value / total:.1f}%" if value else ""
if kind == "functions":
    rows.sort(key=lambda row: -row["self"])
    for row in rows:
        wanted.append((share(row["self"]), share(row["total"]), row["function"]))
else:
    opened = []  # by depth, whether the row there has been opened by E
    for row in rows:
        value = row["value" if kind == "callers" else "total"]
        depth = row["depth"]
        opened[depth:] = []
        if all(opened):
            own = share(row["self"]) if kind == "callees" else ""
            wanted.append((own, share(value), row["function"]))
        opened.append(value >= total * 0.5 / 100)
shown = []
for line in open(screen).read().splitlines()[2:-1]:
    if not line.strip():
        continue
    # Shares stand in columns of eight; callers have one of them. Then the amount, in thirteen.
    own, line = ("", line) if kind == "callers" else (line[:8].strip(), line[8:])
    name = re.sub(r"^[-+ .]*(?=\S)", "", line[21:])
    shown.append((own, line[:8].strip(), name))
modules = {row["module"] for row in rows}
def plain(name):  # without controls, which are text on the screen, and not to the end of what is too long
    return re.sub(r"[^ -~]|[?]|\\x[0-9a-f]{2}", "", name)[:300]
modules = {plain(module) for module in modules if module}
def without_module(name):  # which report has in a column of its own
    name = re.sub(r" \(after .*\)$", "", name)
    for module in modules:
        for behind in f" [{module}]", f" {module}":
            if name.endswith(behind) and behind.strip()[0] == "[":
                return name[:-len(behind)]
    return name
shown = [(own, share, without_module(plain(name))) for own, share, name in shown]
wanted = [(own, share, plain(name)) for own, share, name in wanted]
key = sorted if kind == "functions" else list  # rows of equal cost are in no order there
if key(shown) != key(wanted):
    for a, b in zip(key(shown), key(wanted)):
        if a != b:
            sys.exit(f"{kind}: the screen has {a}, report {b}")
    sys.exit(f"{kind}: {len(shown)} rows, report has {len(wanted)}")
if len(shown) < 15:
    sys.exit(f"{kind}: {len(shown)} rows are no test")
print(len(shown))
END
for profile in fixed generated; do
    for kind in functions callees callers; do
        view=flat key=
        [ $kind = callees ] && view=topdown key=E
        [ $kind = callers ] && view=bottomup key=E
        "$CALLTRAIL" report --view $view --json --limit 0 --min-share 0 $profile.ctp >report.json
        start 400 2000 --full-names --view $kind $profile.ctp
        waits is_there '^h help'
        [ -z "$key" ] || press $key
        agrees() { screen >screen.txt && python3 compare.py $kind report.json screen.txt >out 2>&1; }
        if waits agrees; then ok "rows of $kind, $profile"; else fail "rows of $kind, $profile" "$(tail -1 out)"; fi
    done
done

# ---- Keys, at 80 columns and 24 lines

start 80 24 fixed.ctp
heads 'functions come first' '^functions  cpu \(user CPU time\), 1.059 s  fixed.ctp'
selects 'the hottest is selected' '^ 37.8%   46.8%      0.495 s  \+ S_regmatch \[perl\]'
sees 'the last line says how to go on' '^h help  q quit'
press Enter
sees 'Enter opens the row, on to where it branches' '^         38.5%      0.407 s      \+ perl_run'
press Down Down
selects 'Down goes down' 'S_regtry'
press Left
selects 'Left folds' '\+ S_regtry'
press Left
selects 'Left again goes up in the tree' '- S_next_char'
press Home C
selects 'C folds all' '\+ S_regmatch \[perl\]'
press End
selects 'End goes to the last' 'Perl_pp_time'
press Home
press 2
heads '2 is callees' '^callees  cpu'
press /
sees 'the search is asked for' '^search:'
press -l 'S_regrep'
press Enter
selects 'a search opens what is folded' '^  9.0%    9.0%      0.095 s +S_regrepeat'
press / && press -l 'no such function' && press Enter
sees 'what is not there is said' '^not found: no such function'
press / && press -l '^Perl_pp_[ms]' && press Enter
selects 'a search by an expression' 'Perl_pp_(match|sort)'
press z
heads 'z zooms' '^callees .*in Perl_pp_(match|sort)$'
press 3
heads 'the zoom stays with callers' '^callers .*in Perl_pp_'
sees 'callers of the zoomed function' 'main'
press Escape
heads 'Escape zooms out' '^callers .*fixed.ctp$'
press Tab
heads 'Tab is the next metric' '^callers  malloc \(bytes asked for\), 18.678 MB'
press BTab
heads 'Shift-Tab goes back' '^callers  cpu'
press 4
heads '4 is threads' '^threads  cpu'
sees 'threads by name' '0.154 s  \+ indexer'
press / && press -l indexer && press Enter
press z
heads 'a thread is zoomed into' '^callees .*in indexer$'
press / && press -l 'Indexer::add' && press Enter
selects 'within the thread' 'Indexer::add'
press z
heads 'zooms are nested' 'in indexer > Indexer::add'
press v
heads 'v is the next list' '^callers .*in indexer > '
press 1
press s
sees 's is by total' '^functions by total'
press h
sees 'h is the help' '^calltrail top: keys'
sees 'all of it is on the screen' '^any key: back'
press x
heads 'any key leaves the help' '^functions'
leaves 'q leaves'

# ---- Source

"$TEXT_PROFILE" "$here/profiles/cpp.txt" cpp.ctp
"$CALLTRAIL" report --lines run_job --json --source-dir "$here/profiles" cpp.ctp >lines.json
start 80 24 --source-dir "$here/profiles" cpp.ctp
press / && press -l run_job && press Enter
selects 'the function' 'run_job'
press a
heads 'a is the source of the function' '^work::run_job'
hottest=$(python3 -c 'import json
rows = json.load(open("lines.json"))["rows"]
row = max(rows, key=lambda row: (row["total"], row["self"]))
print("^ *([0-9.]+%)?  *{:.1f}%  *{} ".format(row["total_share"], row["line"]))')
selects 'its hottest line is selected, with the share that report says' "$hottest"
press Home && press H
selects 'H goes back to the hottest line' "$hottest"
press q
heads 'q leaves the source' '^functions'
leaves 'and then the browser'
start 80 24 cpp.ctp
press / && press -l run_job && press Enter
press a
sees 'a source that is not here' '\(is not here: --source-dir DIR'
press q
leaves 'without a source'

# ---- Sizes

start 80 24 --view callees fixed.ctp
waits is_there '^h help'
press E
for size in '40 10' '200 50' '20 5' '3 2' '1 1' '80 24'; do
    # shellcheck disable=SC2086
    t resize-window -x ${size% *} -y ${size#* }
    fits() { [ "$(t display -p '#{window_width} #{window_height}')" = "$size" ]; }
    [ "${size% *}" -lt 20 ] || waits is_there '^h help'
    if waits fits; then ok "a window of $size"; else fail "a window of $size" "$(screen | head -3)"; fi
done
sees 'all is there again' '^ +84.8% +0.898 s  - __libc_start_main'
leaves 'after other sizes'

# ---- Names that would act on the terminal, or are wider than they are long

escape=$(printf '\033')
wide=$(printf '寬%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35)
{
    echo 'module prog - /opt/prog'
    echo 'metric cpu ns 1 1000000 user CPU time'
    echo 'process 1 1 /opt/prog prog'
    echo 'thread 1 prog'
    echo "name esc prog!evil${escape}[2J${escape}]0;owned$(printf '\007')"
    echo "name wide prog!$wide"
    echo "name rtl prog!$(printf 'back\342\200\256wards')"
    echo "name bad prog!$(printf 'bad\377\302\233bytes')"
    echo "name last prog!last_function"
    echo 'context 5000000 esc'
    echo 'context 4000000 wide'
    echo 'context 3000000 rtl'
    echo 'context 2000000 bad'
    echo 'context 1000000 last'
} >hostile.txt
if "$TEXT_PROFILE" hostile.txt hostile.ctp 2>err; then
    start 80 24 hostile.ctp
    sees 'escape sequences are text' 'evil\\x1b\[2J'
    sees 'marks that turn text around are spelled out' 'back\\u202ewards \[prog\]'
    sees 'bytes that are no character are shown as such' 'bad.*bytes'
    if [ "$(screen | grep -c '%  ')" -eq 5 ] && screen | sed -n 7p | grep -q last_function
    then ok 'every name is one line'; else fail 'every name is one line' "$(screen | head -9)"; fi
    leaves 'hostile names'
    # Nothing but ASCII where the locale has nothing else.
    ENVIRONMENT='LC_ALL=C' start 80 24 --full-names hostile.ctp
    sees 'without UTF-8' 'last_function'
    if screen | LC_ALL=C grep -q '[^ -~]'; then fail 'ASCII alone' "$(screen | head -4)"; else ok 'ASCII alone'; fi
    leaves 'without UTF-8, too'
else
    fail 'hostile names' "$(cat err)"
fi

# ---- Colours, and terminals without

has_colours() { screen -e | grep -q "$escape\[[0-9;]*3[0-7]m"; }
start 80 24 fixed.ctp
waits is_there '^h help'
if waits has_colours; then ok 'colours'; else fail 'colours' "$(screen -e | head -3)"; fi
for case in 'TERM=vt100' 'NO_COLOR=1'; do
    ENVIRONMENT=$case start 80 24 fixed.ctp
    waits is_there '^h help'
    if has_colours; then fail "no colours with $case" "$(screen -e | head -3)"; else ok "no colours with $case"; fi
    selects "the selection is where the cursor is, with $case" 'S_regmatch'
    leaves "with $case"
done
for case in 'TERM=dumb' 'TERM=none-such'; do
    ENVIRONMENT=$case start 80 24 fixed.ctp
    if waits [ -s status ] && [ "$(cat status)" = 1 ] && [ "$(wc -l <err)" = 1 ] &&
        grep -q "^calltrail: the terminal '${case#*=}'" err
    then ok "refused with $case"; else fail "refused with $case" "$(cat err status)"; fi
done

# ---- What is no terminal, no profile, no option; a terminal that goes away

refused 'no terminal' 1 'there is no terminal here' top fixed.ctp
refused 'no profile' 1 'none.ctp' top none.ctp
refused 'no view' 2 "there is no view 'x'" top --view x
refused 'no metric' 1 "metric" top --metric no-such fixed.ctp
start 80 24 fixed.ctp
waits is_there '^h help'
pid=$(t list-panes -F '#{pane_pid}')
t kill-server
gone() { ! kill -0 "$pid" 2>/dev/null; }
if waits gone; then ok 'it ends with its terminal'; else fail 'it ends with its terminal' "$pid is there"; fi

[ $failures -eq 0 ]
