"""Work of many kinds for windows in the middle of an interpreter."""

import hashlib
import json
import re
import sys


class Node:
    def __init__(self, key):
        self.key, self.left, self.right = key, None, None

    def insert(self, key):
        side = "left" if key < self.key else "right"
        child = getattr(self, side)
        if child is None:
            setattr(self, side, Node(key))
        else:
            child.insert(key)

    def __iter__(self):
        if self.left:
            yield from self.left
        yield self.key
        if self.right:
            yield from self.right


def fail(n):
    if n == 0:
        raise ValueError("bottom")
    try:
        fail(n - 1)
    finally:
        n += 1


def main(rounds):
    state, total = 7, 0
    for turn in range(rounds):
        keys = []
        for _ in range(200):
            state = (state * 1103515245 + 12345) % 2**31
            keys.append(state % 10007)
        root = Node(keys[0])
        for key in keys[1:]:
            root.insert(key)
        ordered = list(root)
        assert ordered == sorted(keys)
        total += sum(x * y for x, y in zip(ordered, keys))
        text = json.dumps({"keys": ordered, "turn": [turn / 3, None, True]}, indent=1)
        total += len(json.loads(text)["keys"])
        total += len(re.findall(r"(\d)(\d+)\1", text))
        total += int(hashlib.sha256(text.encode()).hexdigest()[:6], 16)
        total += len(f"{turn:08.3f} {total:x} {text[:9]!r}")
        try:
            fail(20)
        except ValueError as error:
            total += len(str(error))
        total += len({k: v for k, v in sorted(enumerate(keys), key=lambda p: -p[1])})
    print("python", total % 10**12)


main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
