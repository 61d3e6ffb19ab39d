#!/usr/bin/env python3
"""Chains of callers counted from traces by definition, against what cct_dump says.

A second reader of the trace format, written from docs/trace.md, and the definition itself: a call
counts once for the called function with each number q <= k of its innermost callers, as far as there
are so many.

    kctx_oracle.py CCT_DUMP TRACE...          prints how many chains were compared
"""
import collections
import struct
import subprocess
import sys


class Bits:
    def __init__(self, data):
        self.value, self.at, self.count = int.from_bytes(data, "little"), 0, len(data) * 8

    def take(self, count):
        assert self.at + count <= self.count, "the stream ends too early"
        taken = self.value >> self.at & (1 << count) - 1
        self.at += count
        return taken

    def number(self):
        return self.take(self.take(6))

    def string(self):
        return bytes(self.take(8) for _ in range(self.number())).decode("latin-1")


def read_trace(path, functions=None, labels=None):
    """The stack after every call, as a tuple of (label, function), outermost first. The lists are filled with
    names and modules, and with functions and sites."""
    data = open(path, "rb").read()
    magic, version, header, events, size, _ = struct.unpack("<8sIIQQQ", data[:40])
    assert (magic, version, header, size) == (b"calltrc\n", 1, 40, len(data) - 40)
    bits = Bits(data[40:])
    functions = [] if functions is None else functions
    labels = [] if labels is None else labels
    stacks, thread = [[]], 0
    recent = collections.defaultdict(list)
    seen = 0
    while True:
        stack = stacks[thread]
        if bits.take(1) == 0:
            stack.pop()
            seen += 1
            continue
        row = recent[stack[-1] if stack else None]
        if bits.take(1) == 0:
            label = row[0]
        elif bits.take(1) == 0:
            label = row[bits.take(3) + 1]
        elif bits.take(1) == 0:
            label = bits.take(max(len(labels) - 1, 0).bit_length())
        else:
            code = bits.take(2)
            if code == 0:
                functions.append((bits.string(), bits.string()))
            elif code == 1:
                labels.append((bits.number(), bits.number()))
            elif code == 2:
                thread = bits.number()
                if thread == len(stacks):
                    stacks.append([])
            else:
                break
            continue
        if label in row:
            row.remove(label)
        row.insert(0, label)
        del row[9:]
        stack.append(label)
        seen += 1
        yield tuple((l, labels[l][0]) for l in stack)
    assert seen == events, f"{seen} events, not {events}"
    assert bits.count - bits.at < 8


def main():
    dump, paths = sys.argv[1], sys.argv[2:]
    got = collections.defaultdict(dict)
    for start in range(0, len(paths), 500):
        out = subprocess.run([dump] + paths[start:start + 500], check=True, capture_output=True)
        for line in out.stdout.decode().splitlines():
            path, kind, way, k, count, chain = line.rsplit(" ", 5)
            table = got[path, kind, way, int(k)]
            assert chain not in table, f"{path}: {chain} twice"
            table[chain] = int(count)
    compared = different = 0
    for path in paths:
        stacks = list(read_trace(path))
        for which, kind in ((0, "sites"), (1, "functions")):
            for k in (0, 1, 2, 3, 5, 8, 100):
                expected = collections.Counter()
                for stack in stacks:
                    names = [str(entry[which]) for entry in stack]
                    for q in range(min(k, len(names) - 1) + 1):
                        expected[",".join(names[len(names) - 1 - q:])] += 1
                for way in ("tree", "slabs"):
                    compared += len(expected)
                    if got.get((path, kind, way, k), {}) != expected:
                        different += 1
                        print(f"FAIL {path} {kind} {way} k={k}")
    print(f"{len(paths)} traces, {compared} chains, {different} different")
    return different != 0


if __name__ == "__main__":
    sys.exit(main())
