#!/usr/bin/env python3
"""Source positions and inlined functions against other people's tools.

    compare_sources.py DUMP FILE TOOL [COUNT]   random addresses of FILE's .text: DUMP is sources_dump,
                                                TOOL addr2line or llvm-addr2line
    compare_sources.py --profile P FILE TOOL    the frames of the module FILE in a profile

Files, lines, and how many functions are inlined at each address must be the same. Names too, but for
what is known to differ between the tools themselves:
- for the outermost function, binutils and LLVM prefer the name of the symbol table (main.cold);
- where the compiler wrote no linkage name, theirs is bare (operator()) and ours is qualified;
- code without debug information (crtstuff.c) gets a name from the symbol table there, none here;
- padding between functions has a line but no function; they name the symbol before it.
"""
import os
import posixpath
import random
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def answers(command, addresses):
    text = "".join("%x\n" % a for a in addresses)
    out = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    found, at = {}, None
    for line in out.split("\n"):
        if re.fullmatch(r"0x[0-9a-f]+", line):
            at = found[int(line, 16)] = []
        elif line:
            at.append(line)
    return {a: [(names[i], place(names[i + 1])) for i in range(0, len(names), 2)]
            for a, names in found.items()}


def place(text):
    path, _, line = re.sub(r" \(discriminator \d+\)", "", text).rpartition(":")
    return posixpath.normpath(path), int(line) if line.isdigit() else 0


def symbols_of(file):
    out = subprocess.run(["nm", "-S", file], capture_output=True, text=True, check=True).stdout
    found = []
    for line in out.split("\n"):
        words = line.split()
        if len(words) == 4 and words[2] in "tTwWiu":
            found.append((int(words[0], 16), int(words[1], 16), words[3]))
    return found


def same(ours, theirs, here, symbols):
    if ours == theirs:
        return True
    if len(theirs) == 1 and theirs[0][1][1] == 0 and ours == [("??", ("??", 0))]:
        return True
    if len(theirs) == 1 and theirs[0][0] in symbols:
        if len(ours) == 1 and ours[0][0] == "??" and ours[0][1] == theirs[0][1]:
            return True
    if len(ours) != len(theirs):
        return False
    for (name, where), (other, other_where) in zip(ours, theirs):
        if where != other_where or not (name == other or name.endswith("::" + other)
                                        or other in here):
            return False
    return True


def from_file(dump, file, count):
    sections = subprocess.run(["readelf", "-SW", file], capture_output=True, text=True).stdout
    found = re.search(r" \.text\s+PROGBITS\s+(\w+)\s+\w+\s+(\w+)", sections)
    start, size = int(found[1], 16), int(found[2], 16)
    random.seed(1)
    addresses = sorted(random.sample(range(start, start + size), min(count, size)))
    return answers([dump, file], addresses)


def from_profile(path, file):
    import ctp_reader as ctp
    p = ctp.Profile(path)
    name = os.path.basename(file)
    modules = {i: m[2] for i, m in enumerate(p.table(ctp.MODULES))
               if os.path.basename(p.string(m[0])) == name}
    found = {}
    for offset, module, function, first, count, flags, gap in p.table(ctp.FRAMES):
        if module not in modules or gap:
            continue
        run = []
        for line in p.table(ctp.LINES)[first:first + count]:
            named = "??" if line[0] == ctp.NONE else p.string(p.table(ctp.FUNCTIONS)[line[0]][2])
            run.append((named, place("%s:%d" % (p.string(line[1]) or "??", line[2]))))
        found[offset + modules[module] - (flags & 1)] = run or [("??", ("??", 0))]
    return found


def main():
    args = sys.argv[1:]
    if args[0] == "--profile":
        file, tool, ours = args[2], args[3], from_profile(args[1], args[2])
    else:
        file, tool = args[1], args[2]
        ours = from_file(args[0], file, int(args[3]) if len(args) > 3 else 2000)
    theirs = answers([tool, "-i", "-f", "-a", "-e", file], sorted(ours))
    table = symbols_of(file)
    symbols = {name for _, _, name in table}
    wrong = 0
    for address in sorted(ours):
        here = {name for start, size, name in table if start <= address < start + size}
        if not same(ours[address], theirs[address], here, symbols):
            wrong += 1
            if wrong == 1:
                print("0x%x: %s, but %s: %s" % (address, ours[address], tool, theirs[address]))
    inlined = sum(len(run) > 1 for run in ours.values())
    print("%d addresses, %d with inlined functions, %d differ from %s"
          % (len(ours), inlined, wrong, tool))
    sys.exit(wrong != 0 or len(ours) < 10 or inlined < len(ours) // 10)


main()
