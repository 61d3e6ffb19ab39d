#!/usr/bin/env python3
"""Compares a profile of engine paths with what paths_truth counted by single steps.

    paths_check.py TRUTH PROFILE [PROFILE's program]

Prints the differences, and `N paths, M differ`; exits 1 if there is one.
"""
import collections
import sys

import ctp_reader


def name_of(path):
    """A library's name without its version: the linker knows it by a link."""
    return path.split("/")[-1].split(".so")[0]


def read_truth(path):
    counts, lost = collections.Counter(), 0
    for line in open(path):
        words = line.split()
        if words[0] == "lost":
            lost += int(words[3])
            continue
        blocks = tuple(int(word, 16) for word in words[3:])
        counts[name_of(words[0]), int(words[1], 16), blocks] += int(words[2])
    return counts, lost


def read_profile(path):
    profile = ctp_reader.Profile(path)
    metric = [profile.string(m[0]) for m in profile.table(ctp_reader.METRICS)].index("paths")
    parents, frames = profile.table(ctp_reader.PARENTS), profile.table(ctp_reader.NODE_FRAMES)
    counts, chains = collections.Counter(), {}
    for node, parent in enumerate(parents):
        frame = frames[node]
        if frame == ctp_reader.NONE:
            chains[node] = ()
            continue
        offset, module = profile.table(ctp_reader.FRAMES)[frame][:2]
        chains[node] = chains[parent] + ((module, offset),)
        value = profile.values[metric][node]
        if value:
            chain = chains[node]
            name = profile.string(profile.table(ctp_reader.MODULES)[chain[0][0]][0])
            counts[name_of(name), chain[0][1], tuple(o for _, o in chain[1:])] += value
    return counts


def main():
    truth, lost = read_truth(sys.argv[1])
    counted = read_profile(sys.argv[2])
    functions = collections.Counter()
    differ = 0
    for path in sorted(set(truth) | set(counted)):
        if truth[path] != counted[path]:
            differ += 1
            functions[path[:2]] += 1
            if differ <= 12:
                print("%s+%#x: %s: %d by steps, %d by the engine" % (
                    path[0], path[1], " ".join("%x" % b for b in path[2]), truth[path],
                    counted[path]))
    print("%d paths, %d executions by steps, %d without a beginning, %d differ in %d functions" % (
        len(set(truth) | set(counted)), sum(truth.values()), lost, differ, len(functions)))
    return 1 if differ or not truth else 0


sys.exit(main())
