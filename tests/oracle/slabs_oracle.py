#!/usr/bin/env python3
"""What `record --k K` must have counted, by definition, from the calling context tree of the same run.

    slabs_oracle.py K WHOLE.ctp SLABS.ctp     prints how many contexts were compared; exits 1 if some differ

A call goes into the context of its caller, and one function deeper. When a function that is entered by a
call (not by a tail jump) is at depth 2K or more, the context is from then on that of the last K functions
alone, below a gap.
"""
import collections
import sys

from ctp_reader import FRAMES, METRICS, MODULES, NODE_FRAMES, NONE, PARENTS, Profile

RETURN, CUT = 1, 10


def contexts(path):
    """For each context with calls: why callers are missing, its frames from outside inwards, calls."""
    profile = Profile(path)
    metric = [profile.string(m[0]) for m in profile.table(METRICS)].index("calls")
    parents, frames = profile.table(PARENTS), profile.table(NODE_FRAMES)
    for node, calls in enumerate(profile.values[metric]):
        if not calls:
            continue
        path, missing, at = [], 0, node
        while at != NONE and frames[at] != NONE:
            offset, module, _, _, _, flags, gap = profile.table(FRAMES)[frames[at]]
            if gap:
                missing = gap
            else:
                name = "" if module == NONE else profile.string(profile.table(MODULES)[module][0])
                path.append((name, offset, flags & RETURN))
            at = parents[at]
        yield missing, tuple(reversed(path)), calls


def slab(k, missing, path):
    """The end of a path that is left when its last function is called."""
    first, depth = 0, 0
    for i in range(len(path) - 1):  # the functions that were entered before
        depth += 1
        was_call = i > 0 and path[i - 1][2] == RETURN
        if depth >= 2 * k and was_call:
            first, depth, missing = i - k + 1, k, CUT
    return missing, path[first:]


def main(k, whole, slabs):
    expected, got = collections.Counter(), collections.Counter()
    for missing, path, calls in contexts(whole):
        expected[slab(k, missing, path)] += calls
    for missing, path, calls in contexts(slabs):
        got[missing, path] += calls
    differ = [c for c in expected | got if expected[c] != got[c]]
    print("compared %d, differ %d" % (len(expected), len(differ)))
    for missing, path in differ[:3]:
        print(expected[missing, path], got[missing, path], missing, path)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), *sys.argv[2:]))
