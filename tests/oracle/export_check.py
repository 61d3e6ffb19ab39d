#!/usr/bin/env python3
"""What an export holds, against the profile as ctp_reader.py reads it.

    export_check.py PROFILE [threads] [no-inline] [folded-names] FORMAT=EXPORT…

The contexts of the profile are worked out by definition: every node with a value, its frames up to the
root, each with the functions that were inlined there. Those of the export are worked out from its
own bytes. Both are sums of values by (thread, names…), for each metric, and must be the same.
For callgrind, callgrind_annotate is asked for the sums of functions. EXPORT may be another profile, then
FORMAT is ctp; `folded-names` says that its names went through folded stacks.
"""
import collections
import gzip
import json
import os
import re
import sqlite3
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ctp_reader as ctp  # noqa: E402


def file_name(path):
    head, slash, tail = path.rpartition("/")
    return tail if slash and tail else path


OF_CALLS = {"calls", "returns", "height", "height_varies"}


class Reference:
    """Contexts by definition. A frame is (name, source file of the function, path of the module)."""

    def __init__(self, path, threads, inlined):
        self.p = ctp.Profile(path)
        self.inlined = inlined
        self.metrics = [self.p.string(m[0]) for m in self.p.table(ctp.METRICS)]
        self.chains = [self.chain(f) for f in self.p.table(ctp.FRAMES)]
        self.contexts = [collections.Counter() for _ in self.metrics]
        for first, count, thread, _ in self.p.table(ctp.ROOTS):
            self.add_root(first, count, self.thread_name(thread) if threads else None)

    def thread_name(self, index):
        if index == ctp.NONE:
            return "(not known)"
        _, tid, name, *_ = self.p.table(ctp.THREADS)[index]
        return self.p.string(name) or "(%d)" % tid

    def function(self, index, module):
        if index == ctp.NONE:
            return None
        _, _, name, own_module, file, _ = self.p.table(ctp.FUNCTIONS)[index]
        module = own_module if own_module != ctp.NONE else module
        path = "" if module == ctp.NONE else self.p.string(self.p.table(ctp.MODULES)[module][0])
        return (self.p.string(name), self.p.string(file), path) if self.p.string(name) else None

    def chain(self, frame):
        offset, module, function, first, count, _, gap = frame
        if gap == ctp.GAP_CUT:
            return [("(earlier callers, not kept)", "", "")]
        if gap:
            return [("(walk ended: %s)" % ctp.GAPS[gap], "", "")]
        own = self.function(function, module)
        if not own:
            path = "" if module == ctp.NONE else self.p.string(self.p.table(ctp.MODULES)[module][0])
            # A function whose name is not known but whose bounds are is one place.
            if function != ctp.NONE:
                start, size, _, own_module, _, _ = self.p.table(ctp.FUNCTIONS)[function]
                offset = start if size and own_module == module else offset
            place = "0x%x" % offset if module == ctp.NONE else "%s+0x%x" % (file_name(path), offset)
            file = "" if function == ctp.NONE else self.p.string(
                self.p.table(ctp.FUNCTIONS)[function][4])
            own = (place, file, path)
        inner = [self.function(line[0], module)
                 for line in reversed(self.p.table(ctp.LINES)[first:first + count][:-1])]
        return [own] + [f for f in inner if f and self.inlined]

    def add_root(self, first, count, thread):
        paths = {}
        for node in range(first, first + count):
            parent, frame = self.p.table(ctp.PARENTS)[node], self.p.table(ctp.NODE_FRAMES)[node]
            if parent == ctp.NONE:
                paths[node] = ()
            else:
                paths[node] = paths[parent] + tuple(self.chains[frame])
            for metric in range(len(self.metrics)):
                value = self.p.values[metric][node]
                if value:
                    path = paths[node] or (("(context not known)", "", ""),)
                    # What was inlined is not called: the function that holds it is.
                    if self.metrics[metric] in OF_CALLS and paths[node]:
                        path = paths[parent] + (self.chains[frame][0],)
                    self.contexts[metric][(thread, path)] += value

    def named(self, metric, clean=lambda name: name):
        result = collections.Counter()
        for (thread, path), value in self.contexts[metric].items():
            thread = None if thread is None else clean(thread)
            result[(thread, tuple(clean(name) for name, _, _ in path))] += value
        return result

    def flat(self, metric, key):
        """(self, total) by what `key` makes of a frame; recursion is counted once."""
        own, total = collections.Counter(), collections.Counter()
        for (_, path), value in self.contexts[metric].items():
            keys = [key(frame) for frame in path]
            own[keys[-1]] += value
            for each in set(keys):
                total[each] += value
        return own, total


def without_controls(name):
    return "".join(" " if c < " " else c for c in name)


def folded_name(name):
    return without_controls(name.replace(";", ":"))


# ---- Readers: each gives {metric: Counter of (thread, names)}, and the metrics' names when it has them

def read_folded(path, threads):
    result = collections.Counter()
    with open(path, "rb") as file:
        for line in file.read().split(b"\n")[:-1]:
            stack, _, value = line.rpartition(b" ")
            names = [ctp.text_of(name) for name in stack.split(b";")]
            result[(names.pop(0) if threads else None, tuple(names))] += int(value)
    return [result]


def walk_events(events, frames):
    """Self values from frames that open and close on an axis of cost."""
    result, stack, last = collections.Counter(), [], 0
    for event in events:
        assert event["at"] >= last, "events go back"
        if event["at"] > last:
            result[tuple(frames[f]["name"] for f in stack)] += event["at"] - last
        last = event["at"]
        if event["type"] == "O":
            stack.append(event["frame"])
        else:
            assert stack.pop() == event["frame"], "a frame closes that was not the last to open"
    assert not stack, "a frame does not close"
    return result, last


def read_speedscope(path, threads):
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    result = collections.Counter()
    for profile in data["profiles"]:
        stacks, end = walk_events(profile["events"], data["shared"]["frames"])
        assert end <= profile["endValue"] and profile["startValue"] == 0
        for stack, value in stacks.items():
            result[(profile["name"] if threads else None, stack)] += value
    return [result]


def read_firefox(path, threads):
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    shared, result = data["shared"], collections.Counter()
    strings, stacks = shared["stringArray"], shared["stackTable"]
    names = [strings[shared["funcTable"]["name"][f]] for f in shared["frameTable"]["func"]]
    for table in ("stackTable", "frameTable", "funcTable", "resourceTable", "sources"):
        for column, values in shared[table].items():
            assert column == "length" or len(values) == shared[table]["length"], (table, column)
    paths = []
    for prefix, frame in zip(stacks["prefix"], stacks["frame"]):
        paths.append((paths[prefix] if prefix is not None else ()) + (names[frame],))
    for thread in data["threads"]:
        samples = thread["samples"]
        scale = 1e6 if samples["weightType"] == "tracing-ms" else 1
        for stack, weight in zip(samples["stack"], samples["weight"]):
            if stack is None:
                assert weight == 0, "a weight without a stack"
                continue
            result[(thread["name"] if threads else None, paths[stack])] += round(weight * scale)
    return [result]


def thousandths(event, key):
    return round(event[key] * 1000)


def read_slices(events, unit):
    """Self values from slices that lie within each other."""
    result, stack = collections.Counter(), []
    for e in events:
        start, end = unit(e, "ts"), unit(e, "ts") + unit(e, "dur")
        while stack and stack[-1][1] <= start:
            stack.pop()
        assert not stack or end <= stack[-1][1], "a slice reaches out of the one around it"
        if stack:
            result[tuple(name for name, _ in stack)] -= end - start
        stack.append((e["name"], end))
        result[tuple(name for name, _ in stack)] += end - start
    return +result


def read_samples(chunk, unit):
    nodes = {node["id"]: node for node in chunk["args"]["data"]["cpuProfile"]["nodes"]}

    def path(node):
        names = []
        while "parent" in node:
            names.append(node["callFrame"]["functionName"])
            node = nodes[node["parent"]]
        return tuple(reversed(names))

    result = collections.Counter()
    data = chunk["args"]["data"]
    samples, deltas = data["cpuProfile"]["samples"], data["timeDeltas"]
    assert len(samples) == len(deltas)
    for i, node in enumerate(samples[:-1]):
        if path(nodes[node]):  # the root: nothing was sampled then
            result[path(nodes[node])] += unit(deltas, i + 1)
    return result


def read_chrome(path, threads):
    with open(path, encoding="utf-8") as file:
        events = json.load(file)
    exact = any("." in line for line in open(path) if '"ts": ' in line)
    unit = thousandths if exact else lambda e, key: e[key]
    result, by_thread, name = collections.Counter(), collections.defaultdict(list), None
    chunks, number = {}, 0
    for event in events:
        if event["name"] == "process_name":
            number += 1
        elif event["name"] == "thread_name" and event["ph"] == "M":
            by_thread[number], name = [], event["args"]["name"]
            chunks[number] = [name, None]
        elif event["ph"] == "X":
            by_thread[number].append(event)
        elif event["ph"] == "P" and event["name"] == "ProfileChunk":
            chunks[number][1] = event
    for key, (name, chunk) in chunks.items():
        slices, samples = read_slices(by_thread[key], unit), read_samples(chunk, unit)
        assert slices == samples, "slices and samples differ"
        for stack, value in slices.items():
            result[(name if threads else None, stack)] += value
    return [result]


def read_json(path, threads):
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    count, nodes = len(data["metrics"]), data["nodes"]
    results, paths = [collections.Counter() for _ in range(count)], []
    for i, node in enumerate(nodes):
        frame = data["frames"][node["frame"]]["name"] if i else None
        paths.append(paths[node["parent"]] + (frame,) if i else ())
        for metric in range(count):
            if node["self"][metric]:
                path = paths[-1]
                results[metric][(path[0] if threads else None, path[threads:])] += \
                    node["self"][metric]
    for metric in range(count):
        sums = [node["self"][metric] for node in nodes]
        for i in range(len(nodes) - 1, 0, -1):
            sums[nodes[i]["parent"]] += sums[i]
        assert sums == [node["total"][metric] for node in nodes], "totals"
        assert sums[0] == data["metrics"][metric]["total"], "total of all"
    return results


def read_sqlite(path, threads):
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    nodes = {row[0]: row[1:] for row in database.execute(
        "SELECT node.id, node.parent, function.name, thread.name, thread.tid, node.last FROM node "
        "JOIN frame ON frame.id = node.frame JOIN function ON function.id = frame.function "
        "LEFT JOIN thread ON thread.id = node.thread")}

    def path_of(node):
        names = []
        while node is not None:
            node, name = nodes[node][:2]
            names.append(name)
        return tuple(reversed(names))

    count = database.execute("SELECT count(*) FROM metric").fetchone()[0]
    results = [collections.Counter() for _ in range(count)]
    for metric, node, own in database.execute("SELECT metric, node, self FROM cost WHERE self > 0"):
        name = nodes[node][2] if nodes[node][2] is not None else "(not known)"
        results[metric][(name if threads else None, path_of(node))] += own
    for table, in database.execute("SELECT name FROM sqlite_master WHERE type = 'view'"):
        database.execute("SELECT * FROM %s LIMIT 1" % table).fetchall()
    wrong = database.execute(
        "SELECT count(*) FROM cost WHERE total != (SELECT sum(self) FROM cost below JOIN node ON "
        "node.id = cost.node WHERE below.metric = cost.metric AND below.node BETWEEN node.id AND "
        "node.last)").fetchone()[0]
    assert wrong == 0, "%d totals are not those of their subtrees" % wrong
    return results


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
        if byte < 128:
            return value, at


def message(data):
    """Fields of a message in protobuf's wire format: {number: [values]}."""
    fields, at = collections.defaultdict(list), 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            assert key & 7 == 2, "wire type %d" % (key & 7)
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        fields[key >> 3].append(value)
    return fields


def packed(values):
    result, data, at = [], b"".join(values), 0
    while at < len(data):
        value, at = varint(data, at)
        result.append(value)
    return result


def read_pprof(path, threads):
    with gzip.open(path) as file:
        profile = message(file.read())
    strings = [s.decode("utf-8") for s in profile[6]]
    functions = {}
    for function in map(message, profile[5]):
        functions[function[1][0]] = strings[function[2][0] if function[2] else 0]
    locations = {}
    for location in map(message, profile[4]):
        lines = [message(line)[1][0] for line in location[4]]
        locations[location[1][0]] = tuple(functions[f] for f in reversed(lines))
        if location[3] and location[2]:
            assert location[3][0] >= 4096, "an address below its mapping"
    results = [collections.Counter() for _ in profile[1]]
    for sample in map(message, profile[2]):
        path = sum((locations[i] for i in reversed(packed(sample[1]))), ())
        labels = {strings[m[1][0]]: m for m in map(message, sample[3])}
        thread = strings[labels["thread"][2][0]] if threads else None
        for metric, value in enumerate(packed(sample[2])):
            if value:
                results[metric][(thread, path)] += value
    return results


def read_ctp(path, threads):
    """Another profile, for what was exported and imported again."""
    other = Reference(path, threads, True)
    return [other.named(i) for i in range(len(other.metrics))]


def check_callgrind(reference, path):
    """Sums of functions, as callgrind_annotate prints them, with and without what they called."""
    def key(frame):
        # A reader takes the spaces before a name for none of its own.
        name, file = (without_controls(part).lstrip(" ") for part in frame[:2])
        module = "[%s]" % without_controls(frame[2]) if frame[2] and not frame[1] else "???"
        return (file or module) + ":" + (name or "???")

    own, total = reference.flat(0, key)
    for option, expected in (("no", own), ("yes", total)):
        text = subprocess.run(
            ["callgrind_annotate", "--threshold=100", "--auto=no", "--inclusive=" + option, path],
            capture_output=True, check=True)
        assert not text.stderr, text.stderr.decode()[:200]
        rows, table = collections.Counter(), False
        for line in text.stdout.decode("utf-8").split("\n"):
            table = table or "file:function" in line
            match = re.match(r" *([0-9,]+) \( *([0-9.]+)%\)  (.*)", line)
            if not table or not match or match[3] == "???:(root) [???]":
                continue
            # FILE:FUNCTION [OBJECT], and all three may have spaces and brackets.
            ends = [i for i in range(len(match[3])) if match[3].startswith(" [", i)]
            name = next((match[3][:i] for i in ends if match[3][:i] in expected), match[3])
            assert float(match[2]) <= 100, "a share above 100%: " + line
            rows[name] += int(match[1].replace(",", ""))
        # callgrind_annotate stops when it has shown the whole sum, so small ones may be missing.
        assert rows or not expected, "callgrind_annotate prints no functions"
        for name, value in rows.items():
            assert expected[name] == value, "%s: %d, not %d" % (name, value, expected[name])
        if option == "no":
            assert sum(rows.values()) == sum(own.values()), "what is charged to functions"


def check(reference, form, export, threads, folded_names):
    if form == "callgrind":
        check_callgrind(reference, export)
        return
    clean = folded_name if form == "folded" or folded_names else lambda name: name
    for metric, got in enumerate(globals()["read_" + form](export, threads)):
        expected = reference.named(metric, clean)
        for key in sorted(expected.keys() | got.keys(), key=str):
            assert got[key] == expected[key], "%s: %s is %d, not %d" % (
                reference.metrics[metric], key, got[key], expected[key])


def main():
    flags = {argument for argument in sys.argv[2:] if "=" not in argument}
    reference = Reference(sys.argv[1], "threads" in flags, "no-inline" not in flags)
    for argument in sys.argv[2:]:
        form, equals, export = argument.partition("=")
        try:
            if equals:
                check(reference, form, export, "threads" in flags, "folded-names" in flags)
        except AssertionError as error:
            sys.exit("%s: %s" % (form, str(error)[:600]))


if __name__ == "__main__":
    main()
