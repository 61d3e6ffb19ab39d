#!/usr/bin/env bash
# The maps of the program and its libraries are made before it starts. Here it never does: a function
# that it calls is gone from its library, so that what is in the cache afterwards was there before.
set -uo pipefail
cd "$(dirname "$0")/../.."
CALLTRAIL=${CALLTRAIL:-$PWD/build/calltrail}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache
failed=0

check() { # name, command...
    local title=$1
    shift
    if "$@" >"$work/out" 2>&1; then
        echo "ok prepare: $title"
    else
        tail -n 8 "$work/out"
        echo "FAIL prepare: $title"
        failed=1
    fi
}

mkdir "$work/bin" "$work/lib" "$work/other"
cd "$work" || exit 1
build() { gcc -Wl,--build-id -Wl,--no-as-needed "$@"; }
for name in inner outer listed preloaded gone; do echo "int $name(void) { return 1; }" >"$name.c"; done
echo 'int gone(void); int main(void) { return gone(); }' >program.c
build -shared -fPIC -o lib/libinner.so inner.c
build -shared -fPIC -o other/liblisted.so listed.c
build -shared -fPIC -o other/libpreloaded.so preloaded.c
for sources in "outer.c gone.c" outer.c; do
    # shellcheck disable=SC2086
    build -shared -fPIC -o lib/libouter.so $sources -Llib -linner "-Wl,-rpath,\$ORIGIN"
    [ -e bin/program ] || build -Wl,-z,now -o bin/program program.c -Llib -Lother -louter -llisted \
        "-Wl,-rpath,\$ORIGIN/../lib" -Wl,-rpath-link,lib
done
printf '#!%s/bin/program\n' "$work" >bin/script && chmod +x bin/script

has_map() { # file: by its build-id, which the entry of the cache is named by
    local id
    id=$(readelf -n "$1" | sed -n 's/.*Build ID: //p')
    ls "$XDG_CACHE_HOME"/calltrail/maps-*/"$id"-*.map
}
run() { LD_LIBRARY_PATH=$work/other "$CALLTRAIL" record -o p.ctp "$@"; }

run bin/program >out1 2>err1
check "the program could not start" grep -q "undefined symbol: gone" err1
check "map of the program" has_map bin/program
check "of a library by RUNPATH and \$ORIGIN" has_map lib/libouter.so
check "of a library that a library needs" has_map lib/libinner.so
check "of a library by LD_LIBRARY_PATH" has_map other/liblisted.so
check "of the C library" has_map /lib/x86_64-linux-gnu/libc.so.6
check "of the dynamic linker" has_map /lib64/ld-linux-x86-64.so.2
before=$(ls "$XDG_CACHE_HOME"/calltrail/maps-*/)
run bin/program >out2 2>err2
check "a second run makes none" test "$before" = "$(ls "$XDG_CACHE_HOME"/calltrail/maps-*/)"
check "and says the same" cmp err1 err2
rm -rf "$XDG_CACHE_HOME"
LD_PRELOAD=$work/other/libpreloaded.so run bin/script >out3 2>err3
check "of a script's interpreter" has_map bin/program
check "of a library by LD_PRELOAD" has_map other/libpreloaded.so
exit $failed
