"""Dictionaries to begin with, written by hand from docs/format.md: FOLDER."""
import os
import struct
import sys


def number(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def function(frame):
    return b"F" + struct.pack("<Q", frame)


def edge(frame, caller, callee, is_tail=0):
    return b"E" + struct.pack("<Q", frame) + number(caller) + number(callee) + bytes([is_tail])


def entry(word, by):
    return b"X" + struct.pack("<Q", word) + number(by)


def numbers(numbering, count, runs, changed):
    return (b"N" + number(numbering) + number(count) + number(len(runs)) +
            b"".join(number(a) + number(b) for a, b in runs) + number(len(changed)) +
            b"".join(number(gap) + number(len(edges)) + b"".join(map(number, edges)) for gap, edges in changed))


# The thread calls 1, which calls 2 from two places, and itself; 2 goes on to 3 by a jump.
first = function(0xffffffff) + numbers(0, 1, [(0, 1)], []) + b"".join(function(f) for f in (1, 2, 3))
edges = edge(4, 0, 1) + edge(5, 1, 2) + edge(6, 1, 2) + edge(7, 1, 1) + edge(8, 2, 3, 1)
coded = numbers(1, 4, [(0, 4)], [(1, [0]), (0, [2, 1]), (0, [4])])
more = entry(2 << 32, 3) + b"T" + struct.pack("<5Q", 1, 1 << 32, 2 << 32, 9, 0) + b"P" + struct.pack("<Q", 9)
swapped = numbers(2, 4, [(0, 1), (1, 1), (2, 2)], [(2, [1, 2])])
os.makedirs(sys.argv[1], exist_ok=True)
for name, word, which, body in (("small", 2 << 32, 1, first + edges + coded + more), ("two", 5 << 32 | 1, 2,
                                first + edges + coded + more + swapped), ("first", 1 << 32, 0, first)):
    with open(os.path.join(sys.argv[1], name), "wb") as file:
        file.write(struct.pack("<QI", word, which) + body)
