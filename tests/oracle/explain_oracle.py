#!/usr/bin/env python3
"""What `calltrail kctx --replay` says about traces, against the stacks themselves.

    explain_oracle.py CALLTRAIL TRACE...      prints how many chains were checked

Every rule of the definition (src/cct/explain.h) is asked of the list of stacks, with no tree.
"""
import collections
import json
import subprocess
import sys

import kctx_oracle


def explain(stacks, percent, k, function):
    """(verdict, [(value, chain, always_from)]) with chains outermost first."""
    own = [s for s in stacks if s[-1] == function]

    def callers(chain):
        """The next callers outwards of the stacks that end with this chain."""
        n = len(chain)
        return collections.Counter(s[-n - 1] for s in own if s[-n:] == chain and len(s) > n)

    def value(chain):
        return sum(s[-len(chain):] == chain for s in own)

    def extend(chain, whole):
        while len(chain) - 1 < k:
            best = max(callers(chain).values(), default=0)
            if best * 100 < whole * percent or best == 0:
                break
            ties = [c for c, v in callers(chain).items() if v == best]
            chain = (min(ties, key=lambda c: int(c[1:])),) + chain
        cost, shortest = value(chain), 2
        while value(chain[-shortest:]) != cost:
            shortest += 1
        return cost, chain[-shortest:], chain[:-shortest]

    total = len(own)
    direct = sorted(callers((function,)).items(), key=lambda c: (-c[1], int(c[0][1:])))
    if not direct:
        return "no callers", [(total, (function,), ())]
    if direct[0][1] * 100 >= total * percent:
        return "one chain", [extend((direct[0][0], function), total)]
    chains, seen = [], 0
    for caller, cost in direct[:5]:
        chains.append(extend((caller, function), cost))
        seen += cost
        if seen * 100 >= total * percent:
            return "several callers", chains
    return "spread", chains


def main():
    calltrail, paths = sys.argv[1], sys.argv[2:]
    checked = different = 0
    for number, path in enumerate(paths):
        percent, k, keep = 50 + number * 7 % 51, 1 + number % 6, number % 2
        command = [calltrail, "kctx", "--replay", path, "--json", "--limit", "0", "--explain",
                   str(percent), "--k", str(k)] + ["--keep-recursion"] * keep
        out = subprocess.run(command, check=True, capture_output=True).stdout
        got = collections.defaultdict(list)
        for row in json.loads(out)["rows"]:
            got[row["function"]].append((row["verdict"], row["self"], row["chain_value"],
                                         tuple(row["chain"]), tuple(row["always_from"])))
        stacks = []
        for stack in kctx_oracle.read_trace(path):
            names = [f"f{function}" for _, function in stack]
            stacks.append(tuple(n for i, n in enumerate(names)
                                if keep or i == 0 or n != names[i - 1]))
        for function in {s[-1] for s in stacks}:
            verdict, chains = explain(stacks, percent, k, function)
            total = sum(s[-1] == function for s in stacks)
            expected = [(verdict, total) + chain for chain in chains]
            checked += len(expected)
            if got.pop(function, []) != expected:
                different += 1
                print(f"FAIL {path} {function} --explain {percent} --k {k}")
        different += len(got)
    print(f"{len(paths)} traces, {checked} chains, {different} different")
    return different != 0


if __name__ == "__main__":
    sys.exit(main())
