"""Classes, dictionaries, sorting with keys, json, regular expressions. Argument: rounds."""
import hashlib
import json
import re
import sys


class Body:
    def __init__(self, x, v, mass):
        self.x, self.v, self.mass = x, v, mass

    def pull(self, other, dt):
        distance = other.x - self.x
        force = self.mass * other.mass / (distance * distance + 0.01)
        self.v += (force if distance > 0 else -force) / self.mass * dt


def simulate(steps):
    bodies = [Body(float(i), 0.0, 1.0 + i % 3) for i in range(8)]
    for _ in range(steps):
        for a in bodies:
            for b in bodies:
                if a is not b:
                    a.pull(b, 0.001)
        for a in bodies:
            a.x += a.v * 0.001
    return sum(a.x for a in bodies)


def tree(depth):
    return (tree(depth - 1), tree(depth - 1)) if depth else ()


def count(node):
    return 1 + sum(count(child) for child in node)


number = 42
for turn in range(int(sys.argv[1])):
    people = []
    for i in range(4000):
        number = (number * 1103515245 + 12345) % 2**31
        people.append({"name": "n%d" % (number % 977), "age": number >> 9 & 63, "id": i})
    text = json.dumps(sorted(people, key=lambda p: (p["age"], p["name"])))
    back = json.loads(text)
    digits = re.sub(r'"age": (\d+)', lambda m: m.group(1) * 2, text)
    print(turn, len(back), hashlib.sha256(digits.encode()).hexdigest()[:16],
          "%.9f" % simulate(100), count(tree(11)))
