#!/usr/bin/env python3
"""Nothing may jump into the middle of what an edit writes over: real programs, in single steps.

    check_steps.py CALLTRAIL STEP_RANGES MS STEPS PROGRAM [ARGUMENTS]
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

calltrail, stepper, wait, steps = sys.argv[1:5]
command = [shutil.which(sys.argv[5])] + sys.argv[6:]
HOP, JUMP = 2, 5


def modules(program):
    listed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    return [program] + re.findall(r"=> (/\S+)", listed)


def ranges(path):
    """What is written over, each as (start, end): the site with what moves with it, and its room."""
    listed = subprocess.run([calltrail, "doctor", "--edit", "--list", path],
                            capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        words = line.split()
        site, tier = int(words[0], 16), words[2]
        field = {words[i]: words[i + 1] for i in range(3, len(words) - 1, 2)}
        moved, length = int(field["moved"]), int(field["length"])
        if tier in ("moved", "pun"):
            yield site - moved, max(site + length, site - moved + JUMP if tier == "moved" else 0)
        if tier == "hop":
            yield site, site + length
            hop, room = site + int(field["hop"]), int(field["room"])
            yield (hop - JUMP, hop - JUMP + room) if room else (hop, hop + JUMP)


name = "steps of %s" % os.path.basename(command[0])
with tempfile.NamedTemporaryFile("w", suffix=".ranges") as out:
    for path in modules(command[0]):
        path = os.path.realpath(path)
        last = 0
        for start, end in sorted(ranges(path)):
            if start < last:
                print("FAIL %s: %#x of %s is written over twice" % (name, start, path))
                sys.exit(1)
            out.write("%s %x %x\n" % (path, start, end))
            last = end
    out.flush()
    ran = subprocess.run([stepper, out.name, wait, steps] + command, capture_output=True, text=True,
                         stdin=subprocess.DEVNULL)
lines = ran.stdout.strip().splitlines() or [ran.stderr.strip()]
seen = re.search(r"(\d+) steps, (\d+) in ranges", lines[-1])
if ran.returncode or not seen or not int(seen.group(2)):
    print("FAIL %s: %s" % (name, "; ".join(lines[-6:])))
    sys.exit(1)
print("ok %s: %s" % (name, lines[-1]))
