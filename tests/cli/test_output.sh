#!/bin/sh
# Where -o leads: links, fifos, devices and descriptors stay what they are; who may read what is written;
# what becomes of a file that is there already.
# Needs CALLTRAIL, FIXED_PROFILE and GEN_PROFILE: paths of the programs.
. "$(dirname "$0")/checks.sh"
needs CALLTRAIL FIXED_PROFILE GEN_PROFILE
export XDG_CACHE_HOME="$dir/cache"

"$FIXED_PROFILE" fixed.ctp || exit 1
export_to() { # file, umask; without, as it is
    (umask "${2:-$(umask)}" && "$CALLTRAIL" export --to folded -o "$1" fixed.ctp 2>err)
}
"$CALLTRAIL" export --to folded fixed.ctp >expected || exit 1
has_export() { # file
    cmp expected "$1"
}
mode_is() { # mode, file
    [ "$(stat -c %a "$2")" = "$1" ] || { stat -c '%a %F' "$2" && false; }
}
is_link_to() { # target, link
    [ "$(readlink "$2")" = "$1" ] || { ls -l "$2" && false; }
}

# ---- Links

ln -s target link
ln -s link second
mkdir folder
ln -s ../target folder/third
for link in link second folder/third; do
    rm -f target
    export_to "$link"
    holds "$link: what does not exist yet is made where it leads" has_export target
    echo before >target
    export_to "$link"
    holds "$link: what is there is replaced" has_export target
done
holds "links stay" is_link_to target link
holds "links to links stay" is_link_to link second
holds "links in other folders stay" is_link_to ../target folder/third
"$CALLTRAIL" record -o link true
holds "the profile is where the link leads" "$CALLTRAIL" info target
holds "and the link stays" is_link_to target link
holds "what was there is beside it" has_export target.old
ln -s self self
refused "a link to itself" 1 'self: cannot be written: Too many' export --to folded -o self fixed.ctp

# ---- Fifos, devices, descriptors

mkfifo fifo
cat fifo >through &
reader=$!
export_to fifo
holds "a fifo stays" [ -p fifo ]
[ -p fifo ] || kill $reader # it waits for a writer that will not come
wait $reader 2>/dev/null
holds "and has the export" has_export through
mkfifo pipe
cat pipe >through &
reader=$!
"$CALLTRAIL" record -o pipe sh -c 'exit 7' 2>err
holds "the status is the program's" [ $? = 7 ]
[ -p pipe ] || kill $reader
wait $reader 2>/dev/null
holds "a fifo has the profile" "$CALLTRAIL" info through
# A reader that leaves: more than a pipe holds is to be written, and one byte is read.
"$GEN_PROFILE" --seed 1 --nodes 9000 large.ctp
mkfifo short
head -c 1 short >/dev/null &
reader=$!
"$CALLTRAIL" export --to json -o short large.ctp 2>why
status=$?
[ -p short ] || kill $reader
wait $reader 2>/dev/null
holds "a reader that leaves is an error" [ $status = 1 ]
holds "which is told" grep -q 'short: cannot be written: Broken pipe' why
if mknod null c 1 3 2>/dev/null && { : >null; } 2>/dev/null; then
    export_to null
    holds "a device stays" [ -c null ]
    "$CALLTRAIL" record -o null true 2>err
    holds "a device stays under record" [ -c null ]
    mknod full c 1 7
    refused "a full device" 1 'full: cannot be written: No space' export --to folded -o full fixed.ctp
    holds "it is there still" [ -c full ]
else
    echo "skip a device: none can be made here"
fi
# Links of its own like /dev/stdout, which a mistake must not replace.
ln -s /proc/self/fd/1 stdout
{ echo first && export_to stdout && echo last; } >file
{ echo first && cat expected && echo last; } >whole
holds "an open file is written where it stands" cmp whole file
export_to stdout | cat >file
holds "so is an open pipe" has_export file
holds "the link to it stays" is_link_to /proc/self/fd/1 stdout

# ---- Folders

mkdir there
refused "a folder: export" 1 'there: is a directory' export --to folded -o there fixed.ctp
refused "a folder: record, before the program runs" 1 'there: is a directory' \
    record -o there touch ran
holds "it did not" [ ! -e ran ]
refused "a folder: merge" 1 'there: is a directory' merge -o there fixed.ctp

# ---- Who may read it

for mask in 022 027 077; do
    rm -f out.folded
    export_to out.folded $mask
    holds "exports: umask $mask" mode_is $(printf %o $((0666 & ~0$mask))) out.folded
done
echo mine >private && chmod 600 private
export_to private 022
holds "a private file stays private" mode_is 600 private
(umask 022 && "$CALLTRAIL" record -o p.ctp true)
holds "profiles are private" mode_is 600 p.ctp

# ---- What was there

rm -f p.ctp p.ctp.old
"$CALLTRAIL" record -o p.ctp true
holds "nothing is kept when nothing was there" [ ! -e p.ctp.old ]
cp p.ctp first.ctp
"$CALLTRAIL" record -o p.ctp sh -c 'exit 0'
holds "record keeps the profile before" cmp first.ctp p.ctp.old
cp p.ctp second.ctp
"$CALLTRAIL" record -o p.ctp true
holds "one of them" cmp second.ctp p.ctp.old
cp p.ctp third.ctp
# A snapshot in between is of this recording: it is not what is kept.
mkfifo ready go
"$CALLTRAIL" record -o p.ctp sh -c 'echo >ready; read word <go' &
recorder=$!
read -r _ <ready
inode=$(stat -c %i p.ctp)
kill -USR2 $recorder
while [ "$(stat -c %i p.ctp)" = "$inode" ]; do :; done
echo >go
wait $recorder
holds "a snapshot is not kept" cmp third.ctp p.ctp.old
rm -f p.ctp.old && mkdir p.ctp.old
refused "where a folder is in the way, the program does not run" 1 'p.ctp.old: is where' \
    record -o p.ctp touch ran
holds "it did not run" [ ! -e ran ]
export_to out.folded
holds "exports keep nothing" [ ! -e out.folded.old ]

[ $failures -eq 0 ]
