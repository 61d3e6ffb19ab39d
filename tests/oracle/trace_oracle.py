#!/usr/bin/env python3
"""A trace of engine exact against the profile of the same run: each context has as many calls in both.

    trace_oracle.py TRACE PROFILE      prints how many contexts were compared; exits 1 if some differ

A context is the functions on the stack and the sites that they were called from. The trace also has calls
that the profile cannot count: from code that is not edited.
"""
import collections
import sys

from ctp_reader import FRAMES, FUNCTIONS, METRICS, MODULES, NODE_FRAMES, NONE, PARENTS, Profile
from kctx_oracle import read_trace


def from_trace(path):
    functions, labels, found = [], [], collections.Counter()
    for stack in read_trace(path, functions, labels):
        found[tuple(label for label, _ in stack)] += 1

    def spell(label):
        function, site = labels[label]
        return functions[function][0], site
    return {tuple(spell(label) for label in stack): calls for stack, calls in found.items()}


def from_profile(path):
    profile = Profile(path)
    metric = [profile.string(m[0]) for m in profile.table(METRICS)].index("calls")
    parents, frames = profile.table(PARENTS), profile.table(NODE_FRAMES)

    def name_of(frame):
        offset, module, function = profile.table(FRAMES)[frame][:3]
        if function != NONE:
            start, _, name = profile.table(FUNCTIONS)[function][:3]
            if profile.string(name):
                return profile.string(name)
            offset = start
        return "%s+0x%x" % (profile.string(profile.table(MODULES)[module][0]).split("/")[-1], offset)
    found = collections.Counter()
    for node, calls in enumerate(profile.values[metric]):
        path, at = [], node
        while calls and at != NONE and frames[at] != NONE:
            path.insert(0, frames[at])
            at = parents[at]
        sites = [0] + [profile.table(FRAMES)[frame][0] for frame in path]
        if calls:
            found[tuple((name_of(frame), site) for frame, site in zip(path, sites))] += calls
    return found


def main(trace, profile):
    traced, counted = from_trace(trace), from_profile(profile)
    differ = [context for context, calls in counted.items() if traced.get(context, 0) != calls]
    beyond = sum(calls for context, calls in traced.items() if context not in counted)
    print("compared %d, beyond %d, differ %d" % (len(counted), beyond, len(differ)))
    for context in differ[:3]:
        print(counted[context], traced.get(context, 0), context)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
