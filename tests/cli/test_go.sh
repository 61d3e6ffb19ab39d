#!/usr/bin/env bash
# Maps of Go programs against what Go's own tools say, and against rows worked out by hand.
set -uo pipefail
cd "$(dirname "$0")/../.."
CALLTRAIL=${CALLTRAIL:-$PWD/build/calltrail}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache GOCACHE=$work/gocache GOFLAGS=-mod=mod GO111MODULE=off
failed=0

check() { # name, command...
    local name=$1
    shift
    if "$@" >"$work/out" 2>&1; then
        echo "ok go: $name"
    else
        tail -n 5 "$work/out"
        echo "FAIL go: $name"
        failed=1
    fi
}

# As sstrip does it: a file that only has program headers.
without_sections() { # from, to
    python3 - "$1" "$2" <<'PY'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[40:48] = bytes(8)   # e_shoff
data[60:64] = bytes(4)   # e_shnum, e_shstrndx
open(sys.argv[2], "wb").write(data)
PY
    chmod +x "$2"
}

# --- every layout, by hand -----------------------------------------------------------------------

# From the offset on: CFA, rbp, and whether what it returns to was interrupted. tests/oracle/go_forms.S
# has the instructions.
cat >"$work/rows" <<'ROWS'
old_frame          0 rsp+8 - False
old_frame          4 rsp+32 - False
old_frame          9 rsp+32 c-16 False
old_frame         23 rsp+8 - False
new_frame          0 rsp+8 - False
new_frame          1 rsp+16 c-16 False
new_frame          8 rsp+48 c-16 False
new_frame         12 rsp+16 c-16 False
new_frame         13 rsp+8 - False
goexit             0 end
clock              0 rsp+8 - False
clock              4 rsp+32 - False
clock              9 rsp+32 c-16 False
clock             21 rbp+16 c-16 False
clock             35 rsp+32 c-16 False
clock             39 rsp+8 - False
switches           0 rsp+8 - False
switches           4 switched
mcall              0 rsp+8 - False
mcall              4 end
preempt            0 rsp+8 - True
preempt            1 rsp+16 c-16 True
preempt            2 rsp+8 - True
sigreturn          0 signal
c_code             0 rsp+8 - False
c_code             4 rsp+16 - False
c_code             8 rsp+8 - False
ROWS

rows_of_forms() { # file with symbols, the same without
    "$CALLTRAIL" map --unwind --functions --json "$2" >"$work/map.json" || return 1
    nm "$1" >"$work/symbols" || return 1
    python3 - "$work" <<'PY'
import bisect, json, sys
work = sys.argv[1]
map_ = json.load(open(work + "/map.json"))
at = {line.split()[2]: int(line.split()[0], 16) for line in open(work + "/symbols")}
rows = map_["unwind"]
starts = [row["address"] for row in rows]
for line in open(work + "/rows"):
    name, offset, *expected = line.split()
    row = rows[bisect.bisect_right(starts, at[name] + int(offset)) - 1]
    found = [row["cfa"]]
    if "rbp" in row:
        found += [row["rbp"], str(row["caller_was_interrupted"])]
    if found != expected:
        sys.exit("%s+%s: %s, not %s" % (name, offset, found, expected))
named = {f["start"]: f["name"] for f in map_["functions"]}
names = {"old_frame": "main.old", "new_frame": "main.new", "goexit": "runtime.goexit",
         "clock": "time.now", "switches": "runtime.systemstack", "mcall": "runtime.mcall",
         "preempt": "runtime.asyncPreempt", "sigreturn": "runtime.sigreturn", "c_code": "c_code"}
if named != {at[label]: name for label, name in names.items()}:
    sys.exit("functions: %s" % named)
if not map_["go"] or not all(f["uses_return_address"] for f in map_["functions"]):
    sys.exit("return addresses of Go code may be replaced")
PY
}

# lld leaves zeros where the dynamic linker will write; the cache knows a file without a build-id by itself.
ld=
command -v ld.lld >/dev/null && ld=-fuse-ld=lld
for form in -DLAYOUT=2 -DLAYOUT=16 -DLAYOUT=18 -DLAYOUT=20 -DNO_TEXT_START "-DLAYOUT=20 $ld" "-DNO_TEXT_START $ld"; do
    # shellcheck disable=SC2086
    cc -shared -nostdlib -Wl,--build-id=none $form -o "$work/forms.so" tests/oracle/go_forms.S
    strip -o "$work/stripped.so" "$work/forms.so"
    without_sections "$work/stripped.so" "$work/bare.so"
    check "rows and names, $form" rows_of_forms "$work/forms.so" "$work/stripped.so"
    check "without section headers, $form" rows_of_forms "$work/forms.so" "$work/bare.so"
done

# The oldest layouts have addresses that lld leaves to the dynamic linker: nothing is known of such code, but
# that it is Go's.
without_table() { # file
    "$CALLTRAIL" map --functions --json "$1" >"$work/map.json" && python3 - "$work/map.json" <<'PY'
import json, sys
map_ = json.load(open(sys.argv[1]))
if not map_["go"] or map_["code_bytes_go"] or not map_["functions"]:
    sys.exit("%s" % map_)
sys.exit(not all(f["uses_return_address"] for f in map_["functions"]))
PY
}
if [ -n "$ld" ]; then
    cc -shared -nostdlib $ld -DLAYOUT=16 -o "$work/lost.so" tests/oracle/go_forms.S
    check "Go code whose table cannot be read is never marked" without_table "$work/lost.so"
fi

no_sites() { # file
    "$CALLTRAIL" doctor --edit "$1" >"$work/sites" && grep -q ': 0 sites' "$work/sites"
}
check "Go code is not edited" no_sites "$work/stripped.so"

# --- real programs -------------------------------------------------------------------------------

if ! command -v go >/dev/null; then
    echo "skip go: programs: the Go compiler is not installed"
    exit $failed
fi

# All that `go tool nm` shows in the text of the unstripped program, and nothing else, is in the map of
# the stripped one: addresses, and names but for the suffix that tells ABIs apart, and for what is
# between brackets, which Go's table leaves out.
functions_equal_nm() { # unstripped, stripped
    "$CALLTRAIL" map --functions --json "$2" >"$work/map.json" || return 1
    go tool nm "$1" >"$work/symbols" || return 1
    python3 - "$work" <<'PY'
import json, re, sys
work = sys.argv[1]
map_ = json.load(open(work + "/map.json"))
found = {f["start"]: f["name"] for f in map_["functions"]}
expected = {}
for line in open(work + "/symbols"):
    part = line.split(None, 2)
    if len(part) == 3 and part[1] in "Tt":
        name = part[2].strip()
        for suffix in (".abi0", ".abiinternal"):
            name = name.removesuffix(suffix)
        expected.setdefault(int(part[0], 16), set()).add(re.sub(r"\[.*\]", "[...]", name))
low = next(a for a, names in expected.items() if "runtime.text" in names)
high = next(a for a, names in expected.items() if "runtime.etext" in names)
compared = 0
for address, names in expected.items():
    names -= {"runtime.text", "runtime.etext"}
    if low <= address < high and names:
        compared += 1
        if found.get(address) not in names:
            sys.exit("%x: %s, not %s" % (address, found.get(address), names))
for address, name in found.items():
    if low <= address < high and address not in expected:
        sys.exit("%x: %s is not in the program" % (address, name))
if compared < 1000:
    sys.exit("only %d functions" % compared)
if not map_["go"] or map_["code_bytes_go"] < map_["code_bytes"] * 0.95:
    sys.exit("of %d bytes, Go describes %d" % (map_["code_bytes"], map_["code_bytes_go"]))
PY
}

# What returns to a place that was interrupted, or that has not called it, is described so.
interruptions() { # stripped
    "$CALLTRAIL" map --functions --unwind --json "$1" >"$work/map.json" || return 1
    python3 - "$work/map.json" <<'PY'
import bisect, json, sys
map_ = json.load(open(sys.argv[1]))
starts = [row["address"] for row in map_["unwind"]]
at = {f["name"]: f["start"] for f in map_["functions"]}
for name, expected in [("runtime.sigpanic", True), ("runtime.sigpanic0", True), ("runtime.sigtramp", True),
                       ("runtime.asyncPreempt", True),
                       ("runtime.gopanic", False), ("runtime.asyncPreempt2", False)]:
    row = map_["unwind"][bisect.bisect_right(starts, at[name]) - 1]
    if row["caller_was_interrupted"] != expected:
        sys.exit("%s: %s" % (name, row))
PY
}

build() { # name, options of go build...
    local name=$1
    shift
    go build "$@" -o "$work/$name" tests/go/busy.go && strip -o "$work/$name.stripped" "$work/$name"
}

if build plain; then
    check "what interrupts is known" interruptions "$work/plain.stripped"
    check "functions of a program" functions_equal_nm "$work/plain" "$work/plain.stripped"
    without_sections "$work/plain.stripped" "$work/plain.bare"
    check "functions without section headers" functions_equal_nm "$work/plain" "$work/plain.bare"
fi
build pie -buildmode=pie && check "functions of a PIE" functions_equal_nm "$work/pie" "$work/pie.stripped"
build external -ldflags=-linkmode=external &&
    check "functions, linked by ld" functions_equal_nm "$work/external" "$work/external.stripped"
build external_pie -buildmode=pie -ldflags=-linkmode=external &&
    check "functions of a PIE, linked by ld" functions_equal_nm "$work/external_pie" "$work/external_pie.stripped"
exit $failed
