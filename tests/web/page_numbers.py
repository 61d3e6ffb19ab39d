"""The page's own code, in Chromium, against `calltrail report --json`: the same numbers for random selections."""
import importlib.machinery
import importlib.util
import json
import pathlib
import random
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "src/view/page"
MODULES = ["format", "names", "data", "tree", "refine", "rows", "kctx", "lines", "compare", "times", "model", "state", "chart"]

# What the page would show of a state, in the words of the report. Rows of trees are paths with their numbers.
ANSWERS = """
const all = new Model(await new Source().profiles());
let model = all;
const word = (profile, label) => {
    const module = profile.labelModules[label];
    return [profile.rawNames[label], profile.isCode(label) && module >= 0 ? profile.moduleFiles[module] : ""];
};
const name = (profile, label) => profile.rawNames[label];
function walk(profile, row, path, out) {
    for (const child of row.children()) {
        const here = path.concat([name(profile, child.label)]);
        out.push([here, child.total, child.up ? 0 : child.self]);
        walk(profile, child, here, out);
    }
    return out;
}
window.answers = (words, wanted) => {
    const state = { ...freshState(), ...words }, range = rangeOf(state);
    model = range ? modelInRange(all, range) : all;
    const profile = model.profiles[model.sideOf(state)], tree = model.tree(state);
    const found = wanted === null ? -1 : profile.rawNames.findIndex((_, label) => profile.isCode(label) && JSON.stringify(word(profile, label)) === JSON.stringify(wanted));
    return {
        total: tree.whole, shown: tree.total[0],
        flat: flatRows(tree, profile.labelCount).map(({ label, self, total }) => [...word(profile, label), self, total]),
        topdown: walk(profile, topDown(tree), [], []),
        bottomup: walk(profile, bottomUp(tree), [], []),
        contexts: hotContexts(tree, 1e9).map((node) => [tree.path(node).map((label) => name(profile, label)), tree.self[node]]),
        kctx: explainFunctions(profile, tree, 1e9, model.callersKept(state)).flatMap((found) => (found.chains.length ? found.chains : [{ value: found.value, callers: [], alwaysFrom: [] }])
            .map((one) => [...word(profile, found.label), found.value, found.verdict, found.callerCount, one.value,
                [...one.callers, found.label].map((label) => name(profile, label)), one.alwaysFrom.map((label) => name(profile, label))])),
        callers: found < 0 ? [] : walk(profile, around(tree, found, true), [], []),
        callees: found < 0 ? [] : walk(profile, around(tree, found, false), [], []),
        lines: found < 0 ? [] : model.lineRows(state, found).map(({ file, line, self, total }) => [profile.files.get(file) || "", line, self, total]),
        structure: model.structure(state).self,
        compare: model.profiles.length < 2 ? [] : model.comparison(state).rows.map((row) => [model.comparison(state).labels.rawNames[row.label], row.measure, row.before, row.after, row.what]),
    };
};
window.selections = () => {
    const [profile] = all.profiles;
    return { timed: [...new Set(profile.times.groups.map(([metric]) => profile.metrics[metric].name))], metrics: profile.metrics.map(({ name }) => name), threads: profile.threads.map(([name, tid]) => [name, String(tid)]).flat(),
        processes: profile.processes.map(({ pid }) => String(pid)), phases: profile.phases,
        functions: profile.rawNames.map((_, label) => label).filter((label) => profile.isCode(label)).map((label) => [...word(profile, label), profile.labelKinds[label]]),
        modules: [...new Set(profile.moduleFiles.filter((file) => /^[\\w.]+$/.test(file)))] };
};
"""


def page_code():
    loader = importlib.machinery.SourceFileLoader("embed_page", str(ROOT / "scripts/embed-page"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("embed_page", loader))
    loader.exec_module(module)
    return "\n".join(module.plain(PAGE / f"{name}.js") for name in MODULES)


def report(calltrail, arguments, profile):
    answer = subprocess.run([calltrail, "report", "--json", "--limit", "0", *arguments, profile], capture_output=True)
    if answer.returncode:
        raise RuntimeError(f"report {arguments}: {answer.stderr.decode()}")
    return json.loads(answer.stdout)


def paths(rows, value, own):
    """Rows with depths as paths."""
    path, out = [], []
    for row in rows:
        del path[row["depth"]:]
        path.append(row["function"])
        out.append([list(path), int(row[value]), int(row[own]) if own else 0])
    return out


def in_order(rows):
    return sorted(json.dumps(row) for row in rows)


def compare(what, ours, theirs):
    first, second = in_order(ours), in_order(theirs)
    if first != second:
        only = [row for row in first if row not in set(second)][:2], [row for row in second if row not in set(first)][:2]
        raise AssertionError(f"{what}: the page has {only[0]}, the report {only[1]} ({len(first)} and {len(second)} rows)")


def random_selection(chance, choices):
    """A state of the page, and the options of `report` that say the same."""
    state, options = {"refinements": []}, []
    for key, option, values in (("metric", "--metric", choices["metrics"]), ("thread", "--thread", choices["threads"]),
                                ("process", "--process", choices["processes"]), ("phase", "--phase", choices["phases"])):
        if values and chance.random() < (0.8 if key == "metric" else 0.25):
            state[key] = chance.choice(values)
            options += [option, state[key]]
    if choices["timed"] and chance.random() < 0.4:
        state["metric"] = chance.choice(choices["timed"])
        options += ["--metric", state["metric"]]
        ends = sorted(chance.choice((0, 1, 2.5, 4.000001, 7.25, 4294, 5000)) for _ in range(2))
        for key, option, value in (("from", "--from", ends[0]), ("to", "--to", ends[1] + 0.3)):
            if chance.random() < 0.8:
                state[key] = f"{value:.6f}"
                options += [option, state[key]]
    for _ in range(chance.choice((0, 0, 1, 2))):
        kind, option = chance.choice((("f", "--focus"), ("h", "--ignore"), ("s", "--show-from"), ("r", "--fold-recursion"), ("m", "--only-module")))
        pattern = "" if kind == "r" else chance.choice(choices["modules"]) if kind == "m" else chance.choice(("function_[0-9]*3", "^main$", "_1", "script|quotes"))
        state["refinements"].append({"kind": kind, "pattern": pattern})
        options += [option] if kind == "r" else [option, pattern]
    if chance.random() < 0.25:
        state["inlined"] = False
        options.append("--no-inline")
    return state, options


def check_selection(page, calltrail, profile, chance, choices):
    state, options = random_selection(chance, choices)
    names = [tuple(one[:2]) for one in choices["functions"]]
    alone = [one for one in choices["functions"] if names.count(tuple(one[:2])) == 1 and all(part.isascii() and part for part in one[:2]) and one[2] == 0]
    return check_state(page, calltrail, profile, state, options, chance.choice(alone) if alone else ["", "", 0])


def check_state(page, calltrail, profile, state, options, function):
    """A state of the page against the options that say the same; callers, callees and lines of one function."""
    try:
        flat = report(calltrail, ["--view", "flat", *options], profile)
    except RuntimeError:
        return False  # a selection of nothing: the report says so, the page is empty
    ours = page.run(f"window.answers({json.dumps(state)}, {json.dumps(function[:2])})")
    at = f"{options} {function[:2]}"
    compare(f"totals {at}", [[ours["total"], ours["shown"]]], [[int(flat["total"]), int(flat["shown"])]])
    rows = {view: report(calltrail, ["--view", view, *options], profile)["rows"] for view in ("topdown", "bottomup", "contexts", "kctx")}
    compare(f"flat {at}", ours["flat"], [[row["function"], row["module"], int(row["self"]), int(row["total"])] for row in flat["rows"]])
    compare(f"topdown {at}", ours["topdown"], paths(rows["topdown"], "total", "self"))
    compare(f"bottomup {at}", ours["bottomup"], paths(rows["bottomup"], "value", None))
    compare(f"contexts {at}", ours["contexts"], [[row["path"], int(row["self"])] for row in rows["contexts"]])
    compare(f"kctx {at}", ours["kctx"], [[row["function"], row["module"], int(row["self"]), row["verdict"], int(row["callers"]),
                                         int(row["chain_value"]), row["chain"], row["always_from"]] for row in rows["kctx"]])
    # A place without a name has its module in it.
    full = function[0] if function[0].startswith(f"{function[1]}+0x") else f"{function[0]} [{function[1]}]"
    if any(row["function"] == function[0] and row["module"] == function[1] for row in flat["rows"]):
        compare(f"callers {at}", ours["callers"], paths(report(calltrail, ["--callers", full, *options], profile)["rows"], "value", None))
        compare(f"callees {at}", ours["callees"], paths(report(calltrail, ["--callees", full, *options], profile)["rows"], "total", "self"))
        if "--fold-recursion" not in options:
            lines = report(calltrail, ["--lines", full, *options], profile)["rows"]
            compare(f"lines {at}", ours["lines"], [[row["file"], int(row["line"]), int(row["self"]), int(row["total"])] for row in lines])
    if "--fold-recursion" not in options:
        compare(f"structure {at}", [[ours["structure"]]], [[int(flat["shown"])]])
    return True


# The flame graph in order of time, and the same made of lists of labels: frames as [label or thread, what its parent has before it, total, self, frames].
IN_ORDER = """
window.inOrder = (words) => {
    const state = { ...freshState(), ...words }, range = rangeOf(state), [profile] = all.profiles;
    const metric = all.metricIndex(profile, state.metric), threads = threadsOfNodes(profile, state), lists = new Map();
    const stackOf = (node) => {
        const labels = [];
        for (let at = node; at !== NONE && profile.nodeFrame[at] !== NONE; at = profile.nodeParent[at])
            if (profile.nodeParent[at] !== NONE)
                labels.unshift(...profile.entryLabel.subarray(profile.frameFirst[profile.nodeFrame[at]], profile.frameFirst[profile.nodeFrame[at] + 1]));
        return labels.length ? labels : [profile.nothingLabel];
    };
    eachTime(profile, metric, (node, at, value) => {
        if (threads[node] === NONE || (range && (at < (range.from ?? 0) || at >= (range.to ?? Infinity))))
            return;
        if (!lists.has(threads[node]))
            lists.set(threads[node], []);
        lists.get(threads[node]).push({ at, value, stack: stackOf(node) });
    });
    const sum = (list) => list.reduce((all, one) => all + one.value, 0);
    const frames = (list, depth) => {
        const runs = [], offsets = [];
        let earlier = 0;
        list.forEach((one, i) => {
            const offset = earlier;
            earlier += one.value;
            if (one.stack.length <= depth)
                return;
            const before = list[i - 1];
            if (before && before.stack.length > depth && before.stack[depth] === one.stack[depth])
                runs[runs.length - 1].push(one);
            else
                runs.push([one]), offsets.push(offset);
        });
        return runs.map((run, i) => [run[0].stack[depth], offsets[i], sum(run), sum(run.filter((one) => one.stack.length === depth + 1)), frames(run, depth + 1)]);
    };
    const sorted = [...lists.entries()].map(([thread, list]) => [thread, list.sort((a, b) => a.at - b.at)]).sort((a, b) => sum(b[1]) - sum(a[1]));
    const wanted = sorted.length === 1 ? frames(sorted[0][1], 0) : sorted.map(([thread, list], i) => [String(profile.threads[thread]?.[1] ?? "none"),
        sorted.slice(0, i).reduce((all, [, before]) => all + sum(before), 0), sum(list), 0, frames(list, 0)]);
    const root = inOrderOfTime(profile, metric, state, range, all.placed(state));
    const shown = (row) => [row.label ?? /\\((\\d+)\\)$/.exec(row.text)?.[1] ?? "none", row.offset, row.total, row.label === null ? 0 : row.self, row.children().map(shown)];
    const alone = (row) => root.find(row.path()) === row && row.children().every(alone);
    return { samples: sorted.reduce((all, [, list]) => all + list.length, 0), threads: sorted.length, wanted: JSON.stringify(wanted),
        shown: root ? JSON.stringify(root.children().map(shown)) : "[]", found: !root || alone(root) };
};
"""


def check_in_order(page, calltrail, generate, work, seeds):
    """The flame graph in order of time for random profiles, threads and ranges. Returns how many samples were compared."""
    compared = 0
    for seed in seeds:
        chance, profile = random.Random(seed), f"{work}/ordered.ctp"
        subprocess.run([generate, "--seed", str(seed), "--nodes", str(chance.choice((40, 400))), "--threads", str(chance.choice((1, 5))),
                        "--shape", chance.choice(("deep", "random")), profile], check=True)
        prepare(page, calltrail, [profile], work)
        threads = page.run("window.selections().threads")
        for words in ({}, {"thread": chance.choice(threads)}, {"from": "1", "to": "60"}):
            got = page.run(f"window.inOrder({json.dumps(words)})")
            if got["shown"] != got["wanted"]:
                at = next(i for i, (a, b) in enumerate(zip(got["shown"] + " ", got["wanted"] + " ")) if a != b)
                raise AssertionError(f"seed {seed} {words}: {got['shown'][max(at - 80, 0):at + 80]}, not {got['wanted'][max(at - 80, 0):at + 80]}")
            assert got["found"], f"seed {seed} {words}: a frame's path leads to another"
            compared += got["samples"]
    return compared


def prepare(page, calltrail, profiles, work):
    subprocess.run([calltrail, "html", "--min-share", "0", "-o", f"{work}/numbers.html", *profiles], check=True, capture_output=True)
    page.open(f"file://{work}/numbers.html")
    page.run("(async () => {" + page_code() + ANSWERS + IN_ORDER + "})()")


def check_numbers(page, calltrail, generate, work, seeds, selections):
    """Random profiles, random selections. Returns how many were compared."""
    compared = 0
    for seed in seeds:
        chance, profile = random.Random(seed), f"{work}/numbers.ctp"
        # Deep ones have recursion, which bushy ones have not.
        shape, nodes = (("deep", 400), ("random", 300), ("deep", 60), ("bushy", 200))[seed % 4]
        subprocess.run([generate, "--seed", str(seed), "--nodes", str(nodes), "--threads", "4", "--metrics", str(chance.choice((1, 3))),
                        "--shape", shape, profile], check=True)
        prepare(page, calltrail, [profile], work)
        choices = page.run("window.selections()")
        compared += sum(check_selection(page, calltrail, profile, chance, choices) for _ in range(selections))
    return compared


def check_compare(page, calltrail, profiles, work):
    """What changed, as `calltrail diff` says it."""
    prepare(page, calltrail, profiles, work)
    answer = subprocess.run([calltrail, "diff", "--json", "--all", "--limit", "0", *profiles], capture_output=True, check=True)
    theirs = json.loads(answer.stdout)
    ours = page.run("window.answers({}, null)")
    compare("diff", ours["compare"], [[row["function"], row["of"], int(row["before"]), int(row["after"]), row["what"]] for row in theirs["rows"]])
    return len(theirs["rows"])
