#!/usr/bin/env python3
"""What the page costs: the server that makes it, and the tab that draws it, in CPU time of the tab's main thread.

usage: bench/page.py BUILD FOLDER
"""
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/web"))
import browser

ROUNDS = 5
STEPS = [("in order of time", "timed=1"), ("search", "search=function_1"), ("another search", "search=function_2[0-9]"), ("none", ""), ("top-down", "view=topdown"),
         ("bottom-up", "view=bottomup"), ("functions", "view=functions"), ("callers and callees", "view=butterfly"),
         ("hot contexts", "view=contexts"), ("why hot", "view=kctx"), ("source", "view=lines"), ("structure", "view=structure")]


class Tab:
    def __init__(self, chromium):
        self.page = chromium.page()
        self.page.call("Performance.enable", timeDomain="threadTicks")

    def cpu(self):
        return next(one["value"] for one in self.page.call("Performance.getMetrics")["metrics"] if one["name"] == "TaskDuration")

    def cost(self, action):
        before, start = self.cpu(), time.monotonic()
        action()
        return self.cpu() - before, time.monotonic() - start

    def zoom(self):
        x, y = self.page.run("(({ left, top }) => [left, top])(document.querySelector('canvas').getBoundingClientRect())")
        self.page.then_drawn(lambda: self.page.click(x + 20, y + 29))

    def round(self, address):
        page, costs = self.page, {"first picture": self.cost(lambda: self.page.open(address))}
        for name, where in STEPS:
            costs[name] = self.cost(lambda: page.then_drawn(lambda: page.run(f"location.hash = '{where}'")))
        page.then_drawn(lambda: page.run("location.hash = ''"))
        costs["zoom"] = self.cost(self.zoom)
        heap = page.call("Runtime.getHeapUsage")
        return costs, (heap["totalSize"] + heap["backingStorageSize"]) / 1e6


def measure(build, profile):
    server = subprocess.Popen([f"{build}/calltrail", "view", "--no-browser", profile], stdout=subprocess.PIPE, text=True)
    chromium = browser.Browser()
    try:
        address = server.stdout.readline().strip()
        # What it has used so far was for the page.
        ticks = pathlib.Path(f"/proc/{server.pid}/stat").read_text().rsplit(")", 1)[1].split()
        peak = next(line for line in pathlib.Path(f"/proc/{server.pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
        print(f"The server: {(int(ticks[11]) + int(ticks[12])) / os.sysconf('SC_CLK_TCK'):.2f} s of CPU time, {int(peak.split()[1]) / 1e3:.0f} MB at most.\n")
        rounds = [Tab(chromium).round(address) for _ in range(ROUNDS)]
    finally:
        chromium.close()
        server.send_signal(signal.SIGINT)
        server.wait()
    print("| in the tab | CPU time | time |\n|---|---:|---:|")
    for name in rounds[0][0]:
        if name != "none":
            cpu, wall = (sorted(costs[name][i] for costs, _ in rounds)[ROUNDS // 2] for i in (0, 1))
            print(f"| {name} | {cpu:.2f} s | {wall:.2f} s |")
    print(f"\nMemory of the tab's script: {max(memory for _, memory in rounds):.0f} MB.\n")


def main():
    build, folder = sys.argv[1:3]
    if not browser.find_chromium():
        print("There is no Chromium.")
        return
    for shape in ("random", "deep"):
        profile = f"{folder}/calltrail-page.ctp"
        subprocess.run([f"{build}/tests/gen_profile", "--seed", "1", "--nodes", "1000000", "--shape", shape, "--threads", "8", profile], check=True)
        print(f"1000000 nodes, {shape}; medians of {ROUNDS} rounds, at a load of {os.getloadavg()[0]:.0f}\n")
        measure(build, profile)
        os.unlink(profile)


main()
