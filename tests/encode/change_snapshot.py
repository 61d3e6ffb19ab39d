"""Prints a snapshot's text with one field changed and its hash put right.

    change_snapshot.py TEXT FIELD VALUE      FIELD: run, thread, numbering, word, function, bytes, task
"""
import re
import sys

FIELDS = ["run", "thread", "numbering", "word", "function", "bytes", "task"]
values = [int(word, 16) for word in re.split("[:.+]", sys.argv[1])[2:9]]
index = FIELDS.index(sys.argv[2])
values[index] = int(sys.argv[3], 0) if sys.argv[3][0] not in "+^" else (
    values[index] + int(sys.argv[3][1:], 0) if sys.argv[3][0] == "+" else values[index] ^ int(sys.argv[3][1:], 0))
check = 1
for value in values:
    check = (check ^ value) * 0x9e3779b97f4a7c15 % (1 << 64)
    check ^= check >> 32
print("ct:1:%x:%x.%x:%x:%x+%x:%x:%x" % (*values, check % (1 << 32)))
