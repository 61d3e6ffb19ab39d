#!/usr/bin/env python3
"""What `record --fold-recursion` must have counted, by definition, from the calling context tree of the same run.

    folds_oracle.py WHOLE.ctp FOLDED.ctp     prints how many contexts were compared; exits 1 if some differ

A call of a function that is among its callers is counted below its caller like any other; what is called from
there goes below the earlier context of that function.
"""
import collections
import sys

from ctp_reader import FRAMES, FUNCTIONS, METRICS, MODULES, NODE_FRAMES, NONE, PARENTS, Profile


def contexts(path):
    """For each context with calls: why callers are missing, its frames from outside inwards, calls. A frame is a
    place, (module, offset, flags), and the function that it is in."""
    profile = Profile(path)
    metric = [profile.string(m[0]) for m in profile.table(METRICS)].index("calls")
    parents, frames = profile.table(PARENTS), profile.table(NODE_FRAMES)

    def module_name(module):
        return "" if module == NONE else profile.string(profile.table(MODULES)[module][0])

    def frame_at(number):
        offset, module, function, _, _, flags, gap = profile.table(FRAMES)[number]
        place = (module_name(module), offset, flags)
        if function == NONE:
            return place, place, gap
        start, _, _, of_module, _, _ = profile.table(FUNCTIONS)[function]
        return place, (module_name(of_module), start), gap

    known = [frame_at(i) for i in range(len(profile.table(FRAMES)))]
    for node, calls in enumerate(profile.values[metric]):
        if not calls:
            continue
        path, missing, at = [], 0, node
        while at != NONE and frames[at] != NONE:
            place, function, gap = known[frames[at]]
            if gap:
                missing = gap
            else:
                path.append((place, function))
            at = parents[at]
        yield missing, list(reversed(path)), calls


def fold(path):
    """The places that are left of a path: of each function that was entered, the place that it was called from."""
    entered = [(None, path[0][1])]
    for (site, _), (_, function) in zip(path, path[1:-1]):
        functions = [f for _, f in entered]
        if function in functions:
            del entered[functions.index(function) + 1:]
        else:
            entered.append((site, function))
    return tuple(site for site, _ in entered[1:]) + tuple(place for place, _ in path[-2:])


def main(whole, folded):
    expected, got = collections.Counter(), collections.Counter()
    for missing, path, calls in contexts(whole):
        expected[missing, fold(path)] += calls
    for missing, path, calls in contexts(folded):
        got[missing, tuple(place for place, _ in path)] += calls
    differ = [c for c in expected | got if expected[c] != got[c]]
    print("compared %d, differ %d" % (len(expected), len(differ)))
    for missing, path in differ[:3]:
        print(expected[missing, path], got[missing, path], missing, path)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
