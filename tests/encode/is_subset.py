"""Is every context of a sampled profile one of those that another profile has?

    is_subset.py SAMPLED ALL PROGRAM [FUNCTION...]

Contexts are the functions of one program, from the outermost on; frames of other modules are left out, and
those functions: they make tail calls, which are not seen where a walk had to find the context. Prints how many contexts were looked at, and how many are unknown.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../oracle"))
import ctp_reader  # noqa: E402


def contexts(path, program, only_sampled):
    p = ctp_reader.Profile(path)
    parents, frames = p.table(ctp_reader.PARENTS), p.table(ctp_reader.NODE_FRAMES)
    table, functions, modules = (p.table(t) for t in (
        ctp_reader.FRAMES, ctp_reader.FUNCTIONS, ctp_reader.MODULES))
    names, paths = {}, []
    for frame, row in enumerate(table):
        module, function = row[1], row[2]
        own = module != ctp_reader.NONE and os.path.basename(p.string(modules[module][0])) == program
        names[frame] = p.string(functions[function][2]) if own and function != ctp_reader.NONE else None
    for node, frame in enumerate(frames):  # parents come first
        above = paths[parents[node]] if parents[node] != ctp_reader.NONE else ()
        name = names[frame] if frame != ctp_reader.NONE else None
        name = None if name in sys.argv[4:] else name
        paths.append(above + (name,) if name else above)
    values = p.values[0]
    return {path for node, path in enumerate(paths) if not only_sampled or values[node]}


sampled = contexts(sys.argv[1], sys.argv[3], True)
known = contexts(sys.argv[2], sys.argv[3], False)
print(len(sampled), len(sampled - known))
for path in list(sampled - known)[:5]:
    print(" ".join(path), file=sys.stderr)
