#!/usr/bin/env python3
"""Compares the sites of one file's edit plan with what objdump disassembles."""
import re
import subprocess
import sys

calltrail, path = sys.argv[1:3]
LINE = re.compile(r"\s*([0-9a-f]+):\s+(?:bnd |notrack |data16 |rex\.W |cs |ds )*(call|jmp|j[a-z]+)\s+(\S+)")

ours = {}
listed = subprocess.run([calltrail, "doctor", "--edit", "--list", path], capture_output=True, text=True, check=True)
for line in listed.stdout.splitlines():
    words = line.split()
    ours[int(words[0], 16)] = (words[1], int(words[4], 16))

theirs = {}
objdump = subprocess.Popen(["objdump", "-d", "--no-show-raw-insn", path], stdout=subprocess.PIPE, text=True)
for line in objdump.stdout:
    match = LINE.match(line)
    if not match:
        continue
    name, operand = match.group(2), match.group(3)
    kind = "call" if name == "call" else "jump"
    if operand.startswith("*"):
        theirs[int(match.group(1), 16)] = (kind + "*", None)
    else:
        theirs[int(match.group(1), 16)] = (kind, int(operand, 16))

wrong = []
for address, (kind, target) in ours.items():
    known = {"call": "call", "call*": "call*", "tail": "jump", "tail-short": "jump", "tail*": "jump*"}[kind]
    if address not in theirs or theirs[address][0] != known:
        wrong.append("%#x is no %s" % (address, known))
    elif not kind.endswith("*") and theirs[address][1] != target:
        wrong.append("%#x leads to %#x, not %#x" % (address, theirs[address][1], target))
calls = [a for a, (kind, _) in theirs.items() if kind.startswith("call")]
missing = [a for a in calls if a not in ours]
# Start-up code of the compiler (crtbegin.o) has neither symbols nor unwind information.
if len(missing) > max(3, 0.001 * len(calls)):
    wrong.append("%d of %d calls are missing, the first at %#x" % (len(missing), len(calls), missing[0]))
if not calls:
    wrong.append("objdump finds no calls")
name = "sites of %s: %d" % (path, len(ours))
print("FAIL %s: %s" % (name, "; ".join(wrong[:3])) if wrong else "ok " + name)
sys.exit(bool(wrong))
