#!/bin/sh
# Random trees with recursion, every view, plain and refined: no share is above 100%, what is within a
# row is not more than the row, and what every view charges adds up to what it says it shows.
# Needs CALLTRAIL and GEN_PROFILE: paths of the programs.
: "${CALLTRAIL:?the path of calltrail}" "${GEN_PROFILE:?the path of gen_profile}"
case $CALLTRAIL in /*) ;; *) CALLTRAIL=$PWD/$CALLTRAIL ;; esac
case $GEN_PROFILE in /*) ;; *) GEN_PROFILE=$PWD/$GEN_PROFILE ;; esac
export CALLTRAIL GEN_PROFILE
dir=$(mktemp -d) && cd "$dir" || exit 1
trap 'rm -rf "$dir"' EXIT

python3 - <<'END'
import collections, json, os, subprocess, sys

VIEWS = ["contexts", "topdown", "bottomup", "flat", "threads", "processes", "phases"]
REFINED = [[], ["--fold-recursion"], ["--focus", "function_1"], ["--ignore", "function_2"],
           ["--show-from", "function_1"], ["--only-module", "program,libc*"], ["--metric", "malloc"]]


def shares(row):
    return [value for key, value in row.items() if key.endswith("share")]


def check_tree(rows, shown, key):
    """A tree in preorder, by depth: children are within their parents, the tops are all."""
    above, tops, within = [], 0, []
    for row in rows:
        del above[row["depth"]:], within[row["depth"]:]
        if row["depth"]:
            within[-1] += row[key]
            assert within[-1] <= above[-1][key], f"more within {above[-1]} than it has"
        else:
            tops += row[key]
        above.append(row)
        within.append(0)
    assert tops == shown, f"the tops are {tops}, not {shown}"


def check(view, report):
    rows, shown = report["rows"], report["shown"]
    assert "rows_left_out" not in report
    assert all(0 <= share <= 100 for row in rows for share in shares(row)), "a share outside 0 to 100%"
    if view in ("topdown", "bottomup"):
        check_tree(rows, shown, "total" if view == "topdown" else "value")
    if view != "bottomup":
        key = "self" if view in ("contexts", "topdown", "flat") else "value"
        total = sum(row[key] for row in rows)
        assert total == shown, f"{total}, not {shown}"
    if view == "flat":
        assert all(row["self"] <= row["total"] for row in rows), "self above total"


def check_flat(topdown, flat):
    """The totals of functions, from the tree: what is within another call of the same is not counted."""
    totals, above = collections.Counter(), []
    for row in topdown["rows"]:
        key = row["function"], row["module"]
        del above[row["depth"]:]
        if key not in above:
            totals[key] += row["total"]
        above.append(key)
    got = collections.Counter()
    for row in flat["rows"]:
        got[row["function"], row["module"]] += row["total"]
    assert got == totals, f"totals differ: {(got - totals) or (totals - got)}"


failed = 0
for shape in ("random", "deep", "bushy"):
    for seed in range(1, 4):
        profile = "p.ctp"
        subprocess.run([os.environ["GEN_PROFILE"], "--seed", str(seed), "--nodes", str(100 * seed),
                        "--shape", shape, profile], check=True)
        try:
            for options in REFINED:
                reports = {}
                for view in VIEWS:
                    where = f"{view} {options}"
                    command = [os.environ["CALLTRAIL"], "report", "--json", "--limit", "0",
                               "--min-share", "0", "--view", view, *options, profile]
                    run = subprocess.run(command, check=True, capture_output=True)
                    reports[view] = json.loads(run.stdout)
                    check(view, reports[view])
                check_flat(reports["topdown"], reports["flat"])
            print(f"ok sums {shape} {seed}")
        except (AssertionError, subprocess.CalledProcessError) as problem:
            print(f"FAIL sums {shape} {seed}: {where}: {problem}")
            failed += 1
sys.exit(failed > 0)
END
