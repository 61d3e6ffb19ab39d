#!/usr/bin/env python3
"""Of paths that were searched in the call graph: is the true one among them, wherever all its calls below main are
direct? Arguments: calltrail, the profile to search for, of --engine exact --height, and maybe a map before it; prints how
many such there are. Which calls are direct is read from the bytes of the modules: E8, and the distance to where the
function begins."""
import os
import struct
import subprocess
import sys
import tempfile

from ctp_reader import FRAMES, FUNCTIONS, METRICS, MODULES, NODE_FRAMES, NONE, PARENTS, Profile


class Module:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        at, count = struct.unpack_from("<Q", self.data, 32)[0], struct.unpack_from("<H", self.data, 56)[0]
        headers = [struct.unpack_from("<IIQQQQQQ", self.data, at + 56 * i) for i in range(count)]
        self.loads = [(h[3], h[2], h[5]) for h in headers if h[0] == 1]
        self.base = min(h[0] for h in self.loads) & ~4095

    def callee(self, place):
        """Where a direct call with this return address leads, or None."""
        address = place + self.base - 5
        for start, offset, size in self.loads:
            if start <= address and address + 5 <= start + size:
                code = self.data[address - start + offset:][:5]
                return place + struct.unpack("<i", code[1:])[0] if code[0] == 0xe8 else None
        return None


class Contexts:
    """Functions in a profile with heights: their places, outermost first, and whether all calls below main are direct."""
    modules = {}

    def __init__(self, path):
        self.p = p = Profile(path)
        self.parents, self.frame_of = p.table(PARENTS), p.table(NODE_FRAMES)
        names = [p.string(m[0]) for m in p.table(METRICS)]
        self.heights = p.values[names.index("height")]
        self.searched = p.values[names.index("searched")] if "searched" in names else None
        self.paths = [p.string(m[0]) for m in p.table(MODULES)]

    def each(self):
        functions = self.p.table(FUNCTIONS)
        for node, height in enumerate(self.heights):
            if not height:
                continue
            places, callee, is_direct = [], None, True
            at = node
            while self.parents[at] != NONE:
                offset, module, function, _, _, flags, gap = self.p.table(FRAMES)[self.frame_of[at]]
                if gap or module == NONE or function == NONE or "libcalltrail-" in self.paths[module]:
                    break
                if at != node:
                    is_direct = is_direct and flags & 1 and self.leads_to(module, offset, callee)
                    places.append((self.paths[module], offset))
                    if self.p.string(functions[function][2]) == "main":
                        is_direct = is_direct and "main"
                        places.append("main")
                        break
                callee = (module, functions[function][0])
                at = self.parents[at]
            else:
                continue
            offset, module, function, _, _, _, _ = self.p.table(FRAMES)[self.frame_of[node]]
            if places and places[-1] == "main":
                yield node, (self.paths[module], functions[function][0], height), tuple(places), is_direct

    def leads_to(self, module, place, callee):
        path = self.paths[module]
        if path not in self.modules:
            self.modules[path] = Module(path) if os.path.exists(path) else None
        m = self.modules[path]
        return bool(m) and module == callee[0] and m.callee(place) == callee[1]


def main():
    calltrail, *files = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work:
        out = os.path.join(work, "searched.map")
        done = subprocess.run([calltrail, "infer", "--search", "-o", out, *files], capture_output=True, text=True,
                              check=True)
        sys.stdout.write(done.stdout)
        known = {}
        found = Contexts(out)
        for node, key, places, _ in found.each():
            if found.searched[node]:
                known.setdefault(key, set()).add(places)
    direct, absent, wrong, seen = 0, 0, 0, set()
    for _, key, places, is_direct in Contexts(files[-1]).each():
        if is_direct != "main" or (key, places) in seen:
            continue
        seen.add((key, places))
        direct += 1
        if key not in known:
            absent += 1
        elif places not in known[key]:
            wrong += 1
            if wrong < 10:
                print("not among %d:" % len(known[key]), key, places)
    print("all calls direct: %d; searched: %d; without the true path: %d" % (direct, direct - absent, wrong))
    sys.exit(wrong > 0)


main()
