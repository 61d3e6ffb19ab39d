#!/usr/bin/env bash
# What kind of program a file is, for real programs of each kind, with symbols and stripped.
set -uo pipefail
cd "$(dirname "$0")/../.."
CALLTRAIL=${CALLTRAIL:-$PWD/build/calltrail}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache GOCACHE=$work/gocache GOFLAGS=-mod=mod GO111MODULE=off
failed=0

kind_of() { # file
    "$CALLTRAIL" map --json "$1" | python3 -c 'import json, sys; print(json.load(sys.stdin).get("program", "library"))'
}

expect() { # kind, file
    local found
    found=$(kind_of "$2")
    if [ "$found" = "$1" ]; then
        echo "ok kinds: $(basename "$2") is $1"
    else
        echo "FAIL kinds: $(basename "$2") is $found, not $1"
        failed=1
    fi
}

# both KIND NAME COMMAND…: the command makes the program NAME. A command that is not there, or that
# cannot make any program at all, is a reason to skip.
both() {
    local kind=$1 name=$2
    shift 2
    if ! command -v "$1" >/dev/null; then
        echo "skip kinds: $name: $1 is not installed"
        return
    fi
    if ! "$@" >"$work/log" 2>&1; then
        echo "skip kinds: $name: $(tail -n 1 "$work/log")"
        return
    fi
    expect "$kind" "$work/$name"
    strip -o "$work/$name.stripped" "$work/$name" && expect "$kind" "$work/$name.stripped"
}

echo 'int main(void) { return 0; }' >"$work/a.c"
echo 'let () = print_string "a"' >"$work/a.ml"
echo 'main = print (sum [1 .. 10])' >"$work/a.hs"
both ordinary pie cc -pie -fPIE -o "$work/pie" "$work/a.c"
both ordinary no_pie cc -no-pie -o "$work/no_pie" "$work/a.c"
both library library.so cc -shared -fPIC -o "$work/library.so" "$work/a.c"
both static static cc -static -o "$work/static" "$work/a.c"
both static static_pie cc -static-pie -fPIE -o "$work/static_pie" "$work/a.c"
both sanitized asan cc -fsanitize=address -o "$work/asan" "$work/a.c"
both sanitized tsan cc -fsanitize=thread -o "$work/tsan" "$work/a.c"
both sanitized lsan cc -fsanitize=leak -o "$work/lsan" "$work/a.c"
both sanitized asan_inside clang -fsanitize=address -o "$work/asan_inside" "$work/a.c"
both sanitized tsan_inside clang -fsanitize=thread -o "$work/tsan_inside" "$work/a.c"
both sanitized msan_inside clang -fsanitize=memory -o "$work/msan_inside" "$work/a.c"
both ordinary ubsan cc -fsanitize=undefined -o "$work/ubsan" "$work/a.c"
both musl musl musl-gcc -o "$work/musl" "$work/a.c"
both static musl_static musl-gcc -static -o "$work/musl_static" "$work/a.c"
both "other loader" elsewhere cc -Wl,--dynamic-linker=/lib/ld-other.so.1 -o "$work/elsewhere" "$work/a.c"
both go go go build -o "$work/go" tests/go/busy.go
both go go_ld go build -ldflags=-linkmode=external -buildmode=pie -o "$work/go_ld" tests/go/busy.go
both ocaml ocaml ocamlopt -o "$work/ocaml" "$work/a.ml"
both haskell haskell ghc -v0 -o "$work/haskell" "$work/a.hs"
exit $failed
