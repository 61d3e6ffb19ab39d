#!/usr/bin/env python3
"""An independent reader of .ctp files, written from docs/format.md alone.

    ctp_reader.py FILE            prints what `calltrail info --json` prints, as far as it is derived
    ctp_reader.py FILE INFO.json  compares the two; prints each difference, exits 1 if there is one

It shares no code with calltrail: a mistake in the format's description or in calltrail's reader shows
up as a difference. Hashes are checked when libxxhash can be loaded.
"""
import ctypes
import ctypes.util
import json
import math
import struct
import sys

NONE = 0xFFFFFFFF
STRINGS, MODULES, FUNCTIONS, LINES, FRAMES, ARGUMENTS, PROCESSES, THREADS = range(1, 9)
EPOCHS, METRICS, ROOTS, FACTS, PARENTS, NODE_FRAMES, VALUES = range(9, 16)
TIME_RUNS, TIMES = 16, 17
RECORDS = {
    MODULES: "<IIQQ32sII", FUNCTIONS: "<QQIIII", LINES: "<IIII", FRAMES: "<QIIIIII",
    ARGUMENTS: "<I", PROCESSES: "<IIIIIIQQII", THREADS: "<IIIIQQ", EPOCHS: "<II",
    METRICS: "<IIIIQ", ROOTS: "<IIII", FACTS: "<IIIIQ",
    TIME_RUNS: "<IIQII", TIMES: "<II",
}
MODULE_KINDS = ["unknown", "file", "vdso", "jit", "kernel"]
METRIC_KINDS = ["exact", "sampled", "at least"]
GAPS = ["", "more frames than could be kept", "code outside every module", "module without a map",
        "code without unwind information", "unwind rule not understood", "register lost",
        "stack not readable", "stack does not go on", "unknown",
        "earlier callers were not to be kept", "callers are on another stack",
        "cut by the window of the stack", "only the stack's height is known"]
GAP_CUT = 10


def load_xxh3():
    name = ctypes.util.find_library("xxhash")
    if not name:
        return None
    function = ctypes.CDLL(name).XXH3_64bits
    function.restype = ctypes.c_uint64
    function.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    return lambda data: function(data, len(data))


def text_of(raw):
    """UTF-8, and the code point of the same value for each byte that is not."""
    out = []
    while raw:
        try:
            out.append(raw.decode())
            break
        except UnicodeDecodeError as error:
            out.append(raw[:error.start].decode())
            out.append(chr(raw[error.start]))
            raw = raw[error.start + 1:]
    return "".join(out)


class Profile:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        self.path = path
        self.tables, self.values = {}, {}
        self.read_frame(load_xxh3())

    def read_frame(self, xxh3):
        data = self.data
        (magic, self.major, self.minor, header_size, file_size, toc_offset, toc_count, entry_size,
         toc_hash, _, header_hash) = struct.unpack_from("<8sHHIQQIIQQQ", data, 0)
        assert magic == b"\x89CTP\r\n\x1a\n" and self.major == 1, "not a profile of version 1"
        assert header_size == 64 and entry_size == 40 and file_size == len(data), "sizes"
        toc = data[toc_offset:toc_offset + toc_count * 40]
        if xxh3:
            assert xxh3(data[:56]) == header_hash and xxh3(toc) == toc_hash, "hash"
        for entry in struct.iter_unpack("<IIIIQQQ", toc):
            kind, flags, size, aux, offset, count, section_hash = entry
            assert offset % 8 == 0 and offset + size * count <= len(data), "bounds"
            raw = data[offset:offset + size * count]
            if xxh3:
                assert xxh3(raw) == section_hash, "hash of section kind %d" % kind
            if kind in RECORDS:
                layout = struct.Struct(RECORDS[kind])
                self.tables[kind] = [layout.unpack_from(raw, i * size) for i in range(count)]
            elif kind == STRINGS:
                self.strings = raw
            elif kind in (PARENTS, NODE_FRAMES):
                self.tables[kind] = struct.unpack("<%dI" % count, raw)
            elif kind == VALUES:
                self.values[aux] = struct.unpack("<%dQ" % count, raw)
            else:
                assert flags & 1, "unknown section kind %d" % kind

    def table(self, kind):
        return self.tables.get(kind, ())

    def raw_string(self, offset):
        return self.strings[offset:self.strings.index(b"\0", offset)]

    def string(self, offset):
        return text_of(self.raw_string(offset))

    def root_of(self, node):
        for first, count, thread, epoch in self.table(ROOTS):
            if first <= node < first + count:
                return thread
        raise AssertionError("node %d belongs to no root" % node)

    def node_name(self, node):
        frame = self.table(NODE_FRAMES)[node]
        if frame == NONE:
            thread = self.root_of(node)
            name = b"" if thread == NONE else self.raw_string(self.table(THREADS)[thread][2])
            return text_of((b"[thread " + name + b"]")[:1023])
        offset, module, function, _, _, _, gap = self.table(FRAMES)[frame]
        if gap:
            return "[%s]" % GAPS[gap]
        name = b"" if function == NONE else self.raw_string(self.table(FUNCTIONS)[function][2])
        if not name and module != NONE:
            path = self.raw_string(self.table(MODULES)[module][0])
            name = path.split(b"/")[-1] + b"+0x%x" % offset
        elif not name:
            name = b"0x%x" % offset
        return text_of(name[:1023])

    def path_of(self, node):
        names, at = [], node
        while at != NONE and len(names) < 64:
            names.append(self.node_name(at))
            at = self.table(PARENTS)[at]
        return {"node": node, "path": names, "cut": at != NONE}

    def facts(self, scope, index, fields):
        found = {}
        for fact_scope, fact_index, key, kind, value in self.table(FACTS):
            if (fact_scope, fact_index) != (scope, index):
                continue
            name = self.string(key)
            if kind == 1:
                value = struct.unpack("<q", struct.pack("<Q", value))[0]
            elif kind == 2:
                value = struct.unpack("<d", struct.pack("<Q", value))[0]
                value = value if math.isfinite(value) else None
            elif kind == 3:
                value = self.string(value)
            found["fact." + name if name in fields else name] = value
        return found

    def tree(self):
        parents = self.table(PARENTS)
        depths, has_child = [], set()
        for parent in parents:
            depths.append(0 if parent == NONE else depths[parent] + 1)
            has_child.add(parent)
        result = {
            "nodes": len(parents),
            "roots": len(self.table(ROOTS)),
            "leaves": len(parents) - len(has_child - {NONE}),
            "max_depth": max(depths, default=0),
            "mean_depth": sum(depths) / len(depths) if depths else 0.0,
        }
        if depths:
            result["deepest"] = self.path_of(depths.index(max(depths)))
        for key, kind in (("functions", FUNCTIONS), ("frames", FRAMES), ("lines", LINES)):
            result[key] = len(self.table(kind))
        return result

    def metrics(self):
        fields = ("name unit description kind period total contexts heaviest").split()
        result = []
        for i, (name, unit, description, kind, period) in enumerate(self.table(METRICS)):
            values = self.values[i]
            metric = {"name": self.string(name), "unit": self.string(unit),
                      "description": self.string(description), "kind": METRIC_KINDS[kind],
                      "period": period, "total": sum(values),
                      "contexts": sum(1 for value in values if value)}
            if any(values):
                metric["heaviest"] = self.path_of(values.index(max(values)))
            result.append({**metric, **self.facts(2, i, fields)})
        return result

    def times(self):
        """Of each run; and whether the runs and their entries keep the rules."""
        result, at, before = [], 0, None
        entries = self.table(TIMES)
        left = {metric: list(values) for metric, values in self.values.items()}
        for metric, span, value, first, count in self.table(TIME_RUNS):
            assert first == at and count and (before is None or before < (metric, value, span)), "runs"
            run = [((span << 32) + us, node) for node, us in entries[first:first + count]]
            assert run == sorted(run), "times out of order"
            for _, node in run:
                left[metric][node] -= value
            result.append({"metric": metric, "value": value, "count": count,
                           "first_us": run[0][0], "last_us": run[-1][0]})
            at, before = first + count, (metric, value, span)
        assert at == len(entries), "times that belong to no run"
        assert all(rest >= 0 for rests in left.values() for rest in rests), "more times than value"
        return result

    def processes(self):
        fields = ("pid parent command arguments after_exec attached start_ns end_ns "
                  "exit_status exit_signal exit_exec").split()
        result = []
        for i, record in enumerate(self.table(PROCESSES)):
            pid, parent, command, first, count, flags, start, end, exit_kind, exit_value = record
            arguments = self.table(ARGUMENTS)[first:first + count]
            process = {"pid": pid, "command": self.string(command),
                       "arguments": [self.string(text) for (text,) in arguments],
                       "after_exec": bool(flags & 1), "attached": not flags & 2,
                       "start_ns": start, "end_ns": end}
            if parent != NONE:
                process["parent"] = parent
            if exit_kind in (1, 2):
                process["exit_status" if exit_kind == 1 else "exit_signal"] = exit_value
            elif exit_kind == 3:
                process["exit_exec"] = True
            result.append({**process, **self.facts(1, i, fields)})
        return result

    def threads(self):
        fields = "process tid name creator start_ns end_ns".split()
        result = []
        for i, (process, tid, name, creator, start, end) in enumerate(self.table(THREADS)):
            thread = {"process": process, "tid": tid, "name": self.string(name),
                      "start_ns": start, "end_ns": end}
            if creator != NONE:
                thread["creator"] = creator
            result.append({**thread, **self.facts(3, i, fields)})
        return result

    def modules(self):
        fields = "path kind base size build_id".split()
        return [{"path": self.string(path), "kind": MODULE_KINDS[kind], "base": base, "size": size,
                 "build_id": build_id[:id_size].hex(), **self.facts(4, i, fields)}
                for i, (path, kind, base, size, build_id, id_size, _)
                in enumerate(self.table(MODULES))]

    def info(self):
        fields = ("file format file_bytes nodes roots leaves max_depth deepest mean_depth functions "
                  "frames lines metrics times processes threads epochs modules").split()
        return {"file": text_of(self.path.encode("utf-8", "surrogateescape")),
                "format": "%d.%d" % (self.major, self.minor), "file_bytes": len(self.data),
                **self.tree(), "metrics": self.metrics(), "times": self.times(),
                "processes": self.processes(),
                "threads": self.threads(), "modules": self.modules(),
                "epochs": [self.string(name) for name, _ in self.table(EPOCHS)],
                **self.facts(0, 0, fields)}


def differences(ours, theirs, where=""):
    numbers = {int, float}
    if type(ours) is not type(theirs) and not {type(ours), type(theirs)} == numbers:
        yield "%s: %r here, %r there" % (where, ours, theirs)
    elif isinstance(ours, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            if key not in ours or key not in theirs:
                yield "%s.%s: only %s" % (where, key, "here" if key in ours else "there")
            else:
                yield from differences(ours[key], theirs[key], where + "." + key)
    elif isinstance(ours, list):
        if len(ours) != len(theirs):
            yield "%s: %d elements here, %d there" % (where, len(ours), len(theirs))
        for i, (a, b) in enumerate(zip(ours, theirs)):
            yield from differences(a, b, "%s[%d]" % (where, i))
    elif ours != theirs:
        yield "%s: %r here, %r there" % (where, ours, theirs)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: ctp_reader.py FILE [INFO.json]")
    info = Profile(sys.argv[1]).info()
    if len(sys.argv) == 2:
        json.dump(info, sys.stdout, indent=2)
        print()
        return
    with open(sys.argv[2], encoding="utf-8") as file:
        theirs = json.load(file)
    found = list(differences(info, theirs))
    print("\n".join(found[:20]), end="\n" if found else "")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
