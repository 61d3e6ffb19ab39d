"""heavier.py DESCRIPTION: the same profile, in which the first metric of the heaviest context is three times as much."""
import sys
lines = open(sys.argv[1], encoding="utf-8").read().splitlines()
first = lambda line: int(line.split()[1].split(",")[0]) if line.startswith("context ") else -1
heaviest = max(range(len(lines)), key=lambda i: first(lines[i]))
kind, values, frames = lines[heaviest].split(" ", 2)
value, *others = values.split(",")
lines[heaviest] = " ".join([kind, ",".join([str(3 * int(value)), *others]), frames])
print("\n".join(lines))
