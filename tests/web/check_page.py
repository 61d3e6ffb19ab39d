#!/usr/bin/env python3
"""The page in Chromium: every view, every key, search, zoom, back, two profiles, dark, narrow, hostile names; and its
numbers against `calltrail report --json`.

usage: check_page.py [--short] CALLTRAIL GEN_PROFILE [PICTURES]

Prints `ok NAME` or `FAIL NAME: why` for each. With a folder for pictures, it leaves some there.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback

import browser
import page_numbers
import recordings

VIEWS = ["flame", "topdown", "bottomup", "functions", "butterfly", "contexts", "kctx", "lines", "structure", "timeline", "heatmap", "compare", "quality"]
VIEW_KEYS = dict(zip("1234567890qwz", VIEWS))


def is_share(text, share):
    """Whether a text says a share, in %, to a tenth; ties may go either way."""
    if text == "<0.1%":
        return 0 < share < 0.06
    return text.endswith("%") and abs(float(text[:-1]) - share) < 0.0501


class Checks:
    def __init__(self, calltrail, generate, work, is_short):
        self.calltrail, self.generate, self.work, self.is_short = calltrail, generate, work, is_short
        self.browser = browser.Browser()
        self.page = self.browser.page()
        self.failures = 0

    def path(self, name):
        return f"{self.work}/{name}"

    def make(self, name, *options):
        subprocess.run([self.generate, *options, self.path(f"{name}.ctp")], check=True)
        return self.path(f"{name}.ctp")

    def html(self, name, *profiles, options=()):
        subprocess.run([self.calltrail, "html", *options, "-o", self.path(f"{name}.html"), *profiles], check=True, stdout=subprocess.DEVNULL)
        return f"file://{self.work}/{name}.html"

    def state(self):
        """What the address says, as a dictionary."""
        return self.page.run("Object.fromEntries(new URLSearchParams(location.hash.slice(1)))")

    def go(self, address):
        self.page.open(address)
        self.quiet()

    def quiet(self):
        found = self.page.complaints()
        assert not found, f"the page complains: {found[:3]}"

    def press(self, key):
        self.page.then_drawn(lambda: self.page.key(key))

    def check(self, name, function):
        try:
            function()
            self.quiet()
            print(f"ok page {name}", flush=True)
        except Exception as error:  # each check stands for itself
            print(f"FAIL page {name}: {str(error)[:600]}", flush=True)
            if os.environ.get("TRACE"):
                traceback.print_exc()
            self.failures += 1

    # ---- Numbers

    def numbers(self):
        seeds, each = (range(4, 8), 2) if self.is_short else (range(1, 41), 6)
        compared = page_numbers.check_numbers(self.page, self.calltrail, self.generate, self.work, seeds, each)
        assert compared >= 2, "nothing was compared"

    def differences(self):
        older, newer = self.make("older", "--seed", "3", "--nodes", "500"), self.make("newer", "--seed", "4", "--nodes", "700")
        assert page_numbers.check_compare(self.page, self.calltrail, [older, newer], self.work) > 10

    def in_order(self):
        """The flame graph in order of time; its address, and what there is without times."""
        seeds = range(1, 4) if self.is_short else range(1, 25)
        assert page_numbers.check_in_order(self.page, self.calltrail, self.generate, self.work, seeds) > 50
        address = self.html("ordered", self.make("ordered", "--seed", "5", "--nodes", "300", "--threads", "3"))
        self.go(address)
        self.press("d")
        assert self.state()["timed"] == "1"
        box = self.page.run("(({ left, top }) => [left, top])(document.querySelector('canvas').getBoundingClientRect())")
        self.page.then_drawn(lambda: self.page.click(box[0] + 20, box[1] + 21 + 8))
        self.page.then_drawn(lambda: self.page.click(box[0] + 20, box[1] + 42 + 8))
        zoom = self.state()["zoom"]
        self.go(f"{address}#timed=1&zoom={zoom}")
        assert self.page.run("Boolean(document.querySelector('#detail .function'))") and self.state()["zoom"] == zoom
        self.press("v")
        assert "timed" not in self.state() and self.state()["up"] == "1"
        self.go(self.html("untimed", self.make("untimed", "--seed", "5", "--nodes", "90", "--no-times")) + "#timed=1")
        assert "time" not in self.page.run("document.querySelector('.tools').textContent")

    def tips(self):
        """What is pointed at in a picture says its full name and numbers beside the pointer, and as the line below does."""
        self.go(self.html("views", self.make("views", "--seed", "5", "--nodes", "2000", "--threads", "6")))
        box = self.page.run("(({ left, top, width }) => [left, top, width])(document.querySelector('canvas').getBoundingClientRect())")
        for x in (box[0] + 20, box[0] + box[2] / 2):
            self.page.move(x, box[1] + 42 + 8)
            tip = self.page.run("[...document.querySelectorAll('.tip:not([hidden]) div')].map((line) => line.textContent)")
            said = self.page.run("['.function', '.numbers'].map((part) => document.querySelector(`#detail ${part}`).textContent)")
            assert len(tip) == 2 and tip[0].startswith(said[0]) and tip[1] == said[1], f"{tip}, not {said}"
            edges = self.page.run("(({ left, right, top, bottom }) => [left, top, innerWidth - right, innerHeight - bottom])(document.querySelector('.tip').getBoundingClientRect())")
            assert min(edges) >= 0, f"the tip is outside: {edges}"
        self.page.move(box[0] + 20, box[1] - 40)
        assert self.page.run("document.querySelector('.tip').hidden")

    def short_names(self):
        """Names in little room, as src/query/shorten.c has them."""
        cases = [("short", 10, "short"), ("std::map<K, std::vector<V> >::at(K const&)", 40, "std::map<…>::at(K const&)"),
                 ("std::vector<int>::at(unsigned long)", 80, "std::vector<int>::at(unsigned long)"),
                 ("std::map<Key, Value>::at(int, int, int)", 23, "std::map<…>::at(…)"), ("std::map<Key, Value>::at(int, int, int)", 16, "std::map<…>::at"),
                 ("std::map<Key, Value>::at(int, int, int)", 9, "at"), ("void std::__introsort_loop<It, long>(It, It, long)", 80, "std::__introsort_loop<…>(It, It, long)"),
                 ("void std::__introsort_loop<It, long>(It, It, long)", 20, "__introsort_loop<…>"), ("void std::__introsort_loop<It, long>(It, It, long)", 17, "__introsort_loop"),
                 ("a::operator<<(a long list, of parameters)", 18, "a::operator<<(…)"), ("a::operator()(a long list, of parameters)", 18, "a::operator()(…)"),
                 ("bool std::operator< <char, Traits>(A const&, B const&)", 30, "std::operator< <…>(…)"),
                 ("bool std::operator==<char, Traits>(A const&, B const&)", 30, "std::operator==<…>(…)"),
                 ("A std::operator+<char, Traits>(A const&, B const&)", 38, "std::operator+<…>(A const&, B const&)"),
                 ("T* p<T, Deleter>::operator-><U, V>(int, long, int) const", 25, "p<…>::operator-><…>"),
                 ("a::run(int)::{lambda(A const&, B const&)#1}::operator()(A const&, B const&) const", 47, "a::run(int)::{lambda(…)#1}::operator()(…) const"),
                 ("a::run(int)::{lambda(A const&, B const&)#1}::operator()(A const&, B const&) const", 27, "{lambda(…)#1}::operator()"),
                 ("(anonymous namespace)::function(with parameters)", 40, "(anonymous namespace)::function(…)"),
                 ("<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop", 60, "<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop"),
                 ("0123456789abcdefghij", 19, "012345678…cdefghij"), ("(walk ended: stack not readable)", 20, "(walk ende… readable)"), ("abcdefghij", 5, "abcde")]
        made = self.page.run("(() => {" + page_numbers.page_code() + f"return {json.dumps(cases)}.map(([name, most]) => shortName(name, most)); }})()")
        for (name, most, wanted), got in zip(cases, made):
            # Where letters are cut, a letter more or less on either side is as good.
            assert got == wanted or (len(got) <= most and "…" in wanted and got[:8] == wanted[:8] and got[-4:] == wanted[-4:]), f"{name} in {most}: {got}, not {wanted}"

    def structure_and_contexts(self):
        """From a context to its function's place in the structure, and back."""
        self.go(self.html("views", self.make("views", "--seed", "5", "--nodes", "2000", "--threads", "6")) + "#view=functions")
        self.page.run("document.querySelector('.table').focus()")
        for key in ("Home", "ArrowDown", "ArrowDown"):
            self.page.key(key)
        name = self.page.run("document.querySelector('#detail .function').textContent")
        self.press("g")
        assert self.state()["view"] == "structure" and self.state()["function"].startswith(name), self.state()
        chosen = self.page.run("document.querySelector('.row.chosen .label').textContent")
        level = self.page.run("document.querySelector('.row.chosen').getAttribute('aria-level')")
        assert chosen == name and level == "3", f"{chosen} at {level}, not {name}"
        self.press("b")
        assert self.state()["view"] == "butterfly" and self.state()["function"].startswith(name), self.state()

    def shown_numbers(self):
        """What stands in the table is what the report says, in its digits."""
        profile = self.make("shown", "--seed", "8", "--nodes", "300")
        self.go(self.html("shown", profile, options=("--min-share", "0")) + "#view=functions")
        rows = page_numbers.report(self.calltrail, ["--view", "flat"], profile)["rows"]
        cells = self.page.run("[...document.querySelectorAll('.row')].map((row) => [...row.children].map((cell) => cell.textContent))")
        assert len(cells) > 10
        for cell, row in zip(cells, rows):
            assert is_share(cell[0], row["self_share"]) and cell[2] == f"{int(row['self']) / 1e6:.3f} ms", f"{cell} is not {row}"

    # ---- Views and keys

    def views(self):
        address = self.html("views", self.make("views", "--seed", "5", "--nodes", "2000", "--threads", "6"))
        for view in VIEWS:
            self.go(f"{address}#view={view}")
            shown = self.page.run("document.getElementById('main').className")
            assert shown == ("flame" if view == "compare" else view), f"{view}: shows {shown}"
            assert self.page.run("document.getElementById('main').innerHTML.length") > 100, f"{view} is empty"

    def keys(self):
        address = self.html("keys", self.make("views", "--seed", "5", "--nodes", "2000", "--threads", "6"))
        self.go(address)
        for key, view in VIEW_KEYS.items():
            if view == "compare":
                continue  # there is one profile: the key behind it moves up
            self.press("w" if view == "quality" else key)
            assert self.state().get("view", "flame") == view, f"key {key} shows {self.state()}"
        self.press("1")
        self.press("v")
        assert self.state().get("up") == "1"
        self.press("v")
        self.press("c")
        assert self.state().get("colour") == "function"
        self.press("m")
        assert self.state().get("metric") == "malloc"
        self.press("i")
        assert self.state().get("inlined") == "0"
        self.press("r")
        assert self.state().get("refine") == "r:"
        self.press("x")
        assert "refine" not in self.state()
        self.press("t")
        assert self.page.run("document.documentElement.dataset.theme") == "dark"
        self.press("a")
        assert self.state()["view"] == "lines" and self.state().get("code") == "1"
        self.page.key("?")
        assert self.page.run("document.getElementById('help').open && document.querySelectorAll('#sheet tr').length") > 20
        self.page.key("Escape")
        self.page.until("!document.getElementById('help').open")

    def keys_of_functions(self):
        address = self.html("keys", self.make("views", "--seed", "5", "--nodes", "2000", "--threads", "6"))
        for key, kind in (("f", "f"), ("h", "h"), ("s", "s"), ("l", "m")):
            self.go(address)
            self.page.run("document.querySelector('canvas').focus()")
            for move in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowLeft", "ArrowDown"):
                self.page.key(move)
            # Gaps and places without a module cannot be refined by: go on until there is a function.
            for _ in range(30):
                if self.page.run("document.querySelector('#detail .actions') && document.querySelector('#detail .module').textContent"):
                    break
                self.page.key("ArrowRight")
            self.press(key)
            assert self.state().get("refine", "").startswith(f"{kind}:"), f"{key}: {self.state()}"
        self.go(f"{address}#view=functions")
        self.page.run("document.querySelector('.table').focus()")
        self.page.key("ArrowDown"), self.page.key("ArrowDown")
        name = self.page.run("document.querySelector('#detail .function').textContent")
        self.page.key("y")
        self.page.until("document.getElementById('said').textContent === 'The stack is copied.'")
        for key, view in (("b", "butterfly"), ("o", "lines")):
            self.press(key)
            assert self.state()["view"] == view and self.state()["function"].startswith(name), f"{key}: {self.state()}"

    def tree_keys(self):
        self.go(self.html("keys", self.make("views", "--seed", "5", "--nodes", "2000", "--threads", "6")) + "#view=topdown")
        count = "Number(document.querySelector('.table').getAttribute('aria-rowcount'))"
        self.page.run("document.querySelector('.table').focus()")
        self.page.key("Home")
        opened = self.page.run("document.querySelector('#row-0').getAttribute('aria-expanded')")
        first = self.page.run(count)
        self.page.key("ArrowLeft" if opened == "true" else "ArrowRight")
        assert (self.page.run(count) < first) == (opened == "true")
        self.page.key("Enter")
        assert self.page.run("document.querySelector('#row-0').getAttribute('aria-expanded')") == opened
        self.page.key("End"), self.page.key("PageUp"), self.page.key("ArrowUp")
        assert self.page.run("document.querySelectorAll('.row.chosen').length") == 1

    # ---- Time

    def time(self):
        """A part of the time, chosen by the mouse, by keys and in the table: all views are of that part."""
        profile = self.make("time", "--seed", "5", "--nodes", "2000", "--threads", "6")
        for view in ("timeline", "heatmap"):
            address = self.html("time", profile, options=("--min-share", "0"))
            self.go(f"{address}#view={view}")
            box = self.page.run("(({ left, top, width }) => [left, top, width])(document.querySelector('.time canvas').getBoundingClientRect())")
            # Most samples are in the first seconds, the last ones after hours.
            x, y = ((box[0] + 170, box[0] + 400), box[1] + 30) if view == "timeline" else ((box[0] + 48, box[0] + 60), box[1] + 290)
            def drag():
                for kind, at in (("mousePressed", x[0]), ("mouseMoved", x[1]), ("mouseReleased", x[1])):
                    self.page.call("Input.dispatchMouseEvent", type=kind, x=at, y=y, button="left", buttons=1, clickCount=1)
            self.page.then_drawn(drag)
            self.time_is_shown(profile, f"{view} by mouse")
            self.press("u")
            assert "from" not in self.state() and "to" not in self.state()
            self.page.run("document.querySelector('.time canvas').focus()")
            for key in ("End", "Home", "ArrowRight", "ArrowLeft"):
                self.page.key(key)
            assert " s · " in self.page.run("document.getElementById('detail').textContent"), "nothing is said of what is pointed at"
            for _ in range(3):
                self.page.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight", windowsVirtualKeyCode=39, modifiers=8)
            self.page.then_drawn(lambda: self.page.key("Enter"))
            self.time_is_shown(profile, f"{view} by keys")
            self.page.run("document.querySelector('.time canvas').focus()")
            self.page.then_drawn(lambda: self.page.key("Escape"))
            assert "from" not in self.state()
            self.page.run("document.querySelector('.table').focus()")
            self.page.key("End"), self.page.key("Home")
            self.page.then_drawn(lambda: self.page.key("Enter"))
            self.time_is_shown(profile, f"{view} by the table")
        self.refined_times(profile)
        self.go(self.html("untimed", self.make("untimed", "--seed", "5", "--nodes", "90", "--no-times")) + "#view=timeline&from=1")
        tabs = self.page.run("document.getElementById('tabs').textContent")
        assert "Timeline" not in tabs and "Flame graph" in tabs and not self.page.run("document.querySelectorAll('.chip').length"), tabs

    def refined_times(self, profile):
        """Parts of the time under refinements: what the report has of them, as shares of what is not refined."""
        whole, address = None, self.html("time", profile, options=("--min-share", "0"))
        cells = "[...document.querySelectorAll('.row')].slice(0, 3).map((row) => [...row.children].map((cell) => cell.textContent))"
        for words, options in (("", []), ("f:function_1", ["--focus", "function_1"]), ("h:function_[12]", ["--ignore", "function_[12]"]),
                               ("s:function_3", ["--show-from", "function_3"])):
            self.go(f"{address}#view=timeline&refine={words}")
            whole = whole or self.timed_whole()
            shown = 0
            for row, (_, _, share, _, label) in enumerate(self.page.run(cells)):
                self.page.run("document.querySelector('.table').focus()")
                for key in ["Home"] + ["ArrowDown"] * row:
                    self.page.key(key)
                self.page.then_drawn(lambda: self.page.key("Enter"))
                span = ["--from", self.state()["from"], "--to", self.state()["to"]]
                self.page.then_drawn(lambda: self.page.run("history.back()"))
                try:
                    part = int(page_numbers.report(self.calltrail, ["--view", "flat", *span, *options], profile)["shown"])
                except RuntimeError:
                    part = 0  # nothing was measured then
                assert is_share(share, 100 * part / whole) or not part, f"{words} {span}: {share} of {whole} is not {part}"
                assert bool(label) == bool(part), f"{words} {span}: {label}"
                shown += part
            assert shown, f"{words}: nothing was compared"

    def timed_whole(self):
        return int(self.page.run("(async () => {" + page_numbers.page_code() + """
            const [profile] = await new Source().profiles();
            let sum = 0;
            eachTime(profile, 0, (node, at, value) => { sum += value; });
            return sum;
        })()"""))

    def time_is_shown(self, profile, how):
        state = self.state()
        wanted = page_numbers.report(self.calltrail, ["--from", state["from"], "--to", state["to"]], profile)
        self.page.then_drawn(lambda: self.page.run("location.hash = location.hash.replace(/view=[a-z]+/, 'view=functions')"))
        rows = page_numbers.report(self.calltrail, ["--view", "flat", "--from", state["from"], "--to", state["to"]], profile)["rows"]
        shown = self.page.run("document.getElementById('total').textContent")
        cells = self.page.run("[...document.querySelectorAll('.row')].map((row) => [...row.children].map((cell) => cell.textContent))")
        assert len(cells) > 3 and int(wanted["total"]) > 0, f"{how}: {state} is empty"
        assert f"about {int(wanted['total']) // int(wanted['period']):,} samples" in shown or int(wanted["total"]) < 1e7, f"{how}: {shown}, not {wanted['total']}"
        for cell, row in zip(cells, rows):
            assert is_share(cell[0], row["self_share"]) and is_share(cell[1], row["total_share"]), f"{how}: {cell} is not {row}"
        self.page.then_drawn(lambda: self.page.run("history.back()"))

    # ---- Search, zoom, the address

    def search(self):
        profile = self.make("views", "--seed", "5", "--nodes", "2000", "--threads", "6")
        self.go(self.html("views", profile, options=("--min-share", "0")))
        self.page.key("/")
        assert self.page.run("document.activeElement.id") == "search"
        self.page.type("function_1[0-9]$")
        self.page.until("new URLSearchParams(location.hash.slice(1)).get('search') === 'function_1[0-9]$'")
        answer = page_numbers.report(self.calltrail, ["--view", "flat", "--focus", "function_1[0-9]$"], profile)
        shown = self.page.until("document.getElementById('matches').textContent")
        assert shown.startswith(f"{100 * int(answer['shown']) / int(answer['total']):.1f}% in "), f"{shown}: {answer['shown']} of {answer['total']}"
        self.press("Enter")
        assert self.state()["view"] == "butterfly"
        first = self.state()["function"]
        self.page.run("document.getElementById('search').blur()")
        self.press("n")
        assert self.state()["function"] != first
        self.press("N")
        assert self.state()["function"] == first

    def zoom_and_back(self):
        self.go(self.html("views", self.make("views", "--seed", "5", "--nodes", "2000", "--threads", "6")))
        box = self.page.run("(({ left, top }) => [left, top])(document.querySelector('canvas').getBoundingClientRect())")
        self.page.then_drawn(lambda: self.page.click(box[0] + 20, box[1] + 21 + 8))
        first = self.state()["zoom"]
        assert first and "." not in first
        self.page.then_drawn(lambda: self.page.click(box[0] + 20, box[1] + 42 + 8))
        assert self.state()["zoom"].startswith(first + ".")
        self.page.then_drawn(lambda: self.page.run("history.back()"))
        assert self.state()["zoom"] == first
        self.page.then_drawn(lambda: self.page.run("history.forward()"))
        assert self.state()["zoom"].startswith(first + ".")
        self.press("Backspace")
        assert self.state()["zoom"] == first
        self.press("Escape")
        assert "zoom" not in self.state()

    def address(self):
        """What an address says is there in a fresh page."""
        where = self.html("views", self.make("views", "--seed", "5", "--nodes", "2000", "--threads", "6"))
        self.go(f"{where}#view=functions&metric=malloc&thread=1002&phase=start-up&sort=total&search=main&refine=h:function_3")
        assert self.page.run("[...document.querySelectorAll('#choices select')].map((select) => select.value).join()") == "malloc,1002,,start-up"
        assert self.page.run("document.querySelector('.chip').textContent") == "hide function_3 ×"
        assert self.page.run("document.getElementById('search').value") == "main"
        self.go(f"{where}#view=%00&metric=none&zoom=zz.-1.q&refine=%&thread=nobody&nonsense")
        assert self.page.run("document.querySelector('.nothing').textContent").startswith("Nothing was measured")

    def pictures(self):
        """SVG and PNG of what is seen: the picture is well formed and has the frames."""
        self.go(self.html("views", self.make("views", "--seed", "5", "--nodes", "2000", "--threads", "6")))
        self.page.run("window.saved = []; URL.createObjectURL = ((make) => (blob) => (window.saved.push(blob), make.call(URL, blob)))(URL.createObjectURL)")
        self.page.run("HTMLAnchorElement.prototype.click = () => {}")
        self.page.key("e")
        text = self.page.until("window.saved.length > 0 && window.saved[0].text()")
        found = self.page.run(f"(() => {{ const made = new DOMParser().parseFromString({json.dumps(text)}, 'image/svg+xml');"
                              "return [made.querySelectorAll('parsererror').length, made.querySelectorAll('g').length]; })()")
        assert found[0] == 0 and found[1] > 20, found
        assert text.count("</title>") == found[1] and "function_" in text.split("<title>")[2], "frames have no names"
        self.page.key("p")
        assert self.page.until("window.saved.some((blob) => blob.type === 'image/png') && 1")
        for view in ("timeline", "heatmap"):
            self.page.then_drawn(lambda: self.page.run(f"location.hash = 'view={view}&search=function_1'"))
            self.page.run("window.saved = []")
            self.page.key("e")
            text = self.page.until("window.saved.length > 0 && window.saved[0].text()")
            self.same_picture(view, text)
            self.page.key("p")
            assert self.page.until("window.saved.some((blob) => blob.type === 'image/png' && blob.size > 1000) && 1")

    def same_picture(self, view, text):
        """An SVG of a canvas, drawn again, is what the canvas has; letters lie a little otherwise."""
        compared = self.page.run(f"""(async () => {{
            const from = document.querySelector('.time canvas'), {{ width, height }} = from, image = new Image();
            const made = new DOMParser().parseFromString({json.dumps(text)}, 'image/svg+xml');
            if (made.querySelector('parsererror'))
                return [0, 1, 1, ''];
            image.src = URL.createObjectURL(new Blob([{json.dumps(text)}], {{ type: 'image/svg+xml' }}));
            await image.decode();
            const again = document.createElement('canvas');
            Object.assign(again, {{ width, height }});
            const paper = getComputedStyle(document.body).backgroundColor, under = document.createElement('canvas');
            Object.assign(under, {{ width, height }});
            for (const [canvas, drawn, x, y] of [[again, image, -10, -30], [under, from, 0, 0]]) {{
                const context = canvas.getContext('2d');
                context.fillStyle = paper;
                context.fillRect(0, 0, width, height);
                context.drawImage(drawn, x, y);
            }}
            const [a, b] = [again, under].map((canvas) => canvas.getContext('2d').getImageData(0, 0, width, height - 22).data);
            let differ = 0, drawn = 0;
            // Without the names on the left and the axis below.
            for (let i = 0; i < a.length; i += 4) {{
                if (i / 4 % width < 171)
                    continue;
                differ += Math.abs(a[i] - b[i]) + Math.abs(a[i + 1] - b[i + 1]) + Math.abs(a[i + 2] - b[i + 2]) > 60;
                drawn += Math.abs(b[i] - b[i + 2]) > 20;
            }}
            return [drawn, differ, a.length / 4, made.querySelector('text').textContent];
        }})()""")
        assert compared[0] > 50 and compared[1] <= compared[0] / 20, f"{view}: {compared[1]} of {compared[0]} drawn pixels are others in the picture"
        assert "cpu" in compared[3], compared

    def looks(self):
        """Narrow, zoomed and dark: nothing is cut off sideways, and text can be read."""
        address = self.html("views", self.make("views", "--seed", "5", "--nodes", "2000", "--threads", "6"))
        for width, height, scale in ((360, 640, 1), (640, 400, 2), (1280, 800, 1)):
            self.page.resize(width, height, scale)
            for view in ("flame", "functions", "kctx", "quality"):
                self.go(f"{address}#view={view}")
                wide = self.page.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
                assert wide <= 0, f"{view} at {width}: {wide} pixels too wide"
                assert self.page.run("document.getElementById('main').clientHeight") > 100, f"{view} at {width}x{height} has no room"
        # In a narrow window names are in sight, and all columns are there again where it is wide.
        self.page.resize(390, 700)
        for view in ("bottomup", "topdown", "functions"):
            self.go(f"{address}#view={view}")
            left = self.page.run("document.querySelector('.row .function').getBoundingClientRect().left")
            assert left < 250, f"{view}: names begin at {left} of 390"
        columns = "document.querySelectorAll('.head [role=columnheader]').length"
        narrow = self.page.run(columns)
        self.page.then_drawn(lambda: self.page.resize(1280, 800))
        assert self.page.run(columns) > narrow
        self.page.prefer("dark")
        self.go(address)
        assert self.page.run("getComputedStyle(document.body).backgroundColor") == "rgb(21, 23, 27)"
        self.page.prefer("light")

    def controls_have_names(self):
        self.go(self.html("views", self.make("views", "--seed", "5", "--nodes", "2000", "--threads", "6")))
        for view in VIEWS:
            self.page.then_drawn(lambda: self.page.run(f"location.hash = 'view={view}&search=x&refine=f:x{view}'"))
            bare = self.page.run("[...document.querySelectorAll('button:not([aria-hidden]), input, select, canvas, [role=grid], [role=treegrid]')].filter((one) => "
                                 "!(one.textContent.trim() && one.matches('button') || one.getAttribute('aria-label') || one.labels?.length)).map((one) => one.outerHTML)")
            assert not bare, f"{view}: {bare[:2]}"

    def source(self):
        """A program of which sources and code are here: lines and instructions as the report has them."""
        program, profile = self.path("parse"), self.path("parse.ctp")
        subprocess.run(["cc", "-O2", "-g", "-o", program, str(page_numbers.ROOT / "examples/parse.c")], check=True)
        subprocess.run([self.calltrail, "record", "-o", profile, program], check=True, capture_output=True)
        rows = page_numbers.report(self.calltrail, ["--view", "flat"], profile)["rows"]
        name = next(f"{row['function']} [parse]" for row in rows if row["module"] == "parse" and "+0x" not in row["function"] and int(row["self"]))
        address = self.html("source", profile)
        shown = "[...document.querySelectorAll('.line:not(.title)')].map((line) => [...line.children].map((part) => part.textContent))"
        for code, options, at, text in (("0", [], "line", "source"), ("1", ["--asm"], "offset", "instruction")):
            self.go(f"{address}#view=lines&code={code}&function={name.replace(' ', '+')}")
            wanted = [row for row in page_numbers.report(self.calltrail, ["--lines", name, *options], profile)["rows"] if int(row["total"])]
            lines = [line for line in self.page.run(shown) if line[0]]
            assert len(lines) == len(wanted) > 0, f"{name} {options}: {len(lines)} lines, not {len(wanted)}"
            for line, row in zip(lines, wanted):
                number = f"{int(row[at]):x}" if code == "1" else str(row[at])
                assert line[2] == number and line[3] == row[text] and is_share(line[0], row["total_share"]), f"{line} is not {row}"

    # ---- What can be in a profile

    def hostile(self):
        profile = self.make("hostile", "--seed", "2", "--nodes", "900", "--hostile")
        address = self.html("hostile", profile, profile)
        for view in VIEWS:
            for more in ("&search=script",) if self.is_short else ("", "&search=script", "&refine=f:img"):
                self.go(f"{address}#view={view}{more}")
                assert self.page.run("window.hostile") is None, f"{view}: a name has run"
                odd = self.page.run("document.querySelectorAll('img, iframe, object, main script, main style, main svg').length")
                assert odd == 0, f"{view}: a name has become an element"
        self.go(f"{address}#timed=1&side=older")
        box = self.page.run("(({ left, top, width }) => [left, top, width])(document.querySelector('canvas').getBoundingClientRect())")
        for x in range(4, int(box[2]), 40):
            for depth in (1, 2, 3):
                self.page.move(box[0] + x, box[1] + 21 * depth + 8)
        assert self.page.run("document.querySelector('.tip').textContent.length") > 10 and self.page.run("window.hostile") is None
        assert self.page.run("document.querySelectorAll('.tip *:not(div)').length") == 0, "a name in a tip has become an element"
        self.go(f"{address}#view=functions")
        self.page.then_drawn(lambda: self.page.run("location.hash = 'view=functions&search=onerror'"))
        assert "<img src=x onerror=" in self.page.run("document.getElementById('main').textContent")
        assert "\u202e" not in self.page.run("document.body.innerText"), "a name turns the direction of writing"

    def odd_profiles(self):
        """Empty, one node, no values, 100,000 threads, deep."""
        odd = {"empty": ("--nodes", "0"), "one": ("--nodes", "1", "--threads", "1"), "unmeasured": ("--nodes", "50", "--metrics", "0"),
               "deep": ("--nodes", "20000", "--shape", "deep", "--threads", "1")}
        if not self.is_short:
            odd["threads"] = ("--nodes", "300000", "--threads", "100000")
        for name, options in odd.items():
            address = self.html(name, self.make(name, "--seed", "1", *options))
            for view in [*VIEWS, "flame&timed=1"]:
                self.go(f"{address}#view={view}")
                assert self.page.run("document.getElementById('main').textContent.length + document.querySelectorAll('canvas').length") > 0, f"{name}: {view} is empty"

    def recordings(self):
        """What each engine and event recorded, with and without names and times: every view, and the report's numbers."""
        for name, profile in recordings.record_all(self.calltrail, self.work, self.is_short):
            page_numbers.prepare(self.page, self.calltrail, [profile], self.work)
            for metric in self.page.run("window.selections().metrics"):
                state, options = {"metric": metric, "refinements": []}, ["--metric", metric]
                function = recordings.heaviest(self.calltrail, profile, options)
                page_numbers.check_state(self.page, self.calltrail, profile, state, options, function)
            self.quiet()
            address = self.html(name, profile)
            for view in VIEWS[:3] if self.is_short else [*VIEWS, "flame&timed=1"]:
                self.go(f"{address}#view={view}")
                shown = self.page.run("document.getElementById('main').textContent.length + document.querySelectorAll('canvas').length")
                assert shown > 0, f"{name}: {view} is empty"

    def two_profiles(self):
        older, newer = self.make("older", "--seed", "3", "--nodes", "500"), self.make("newer", "--seed", "3", "--nodes", "700")
        self.go(self.html("two", older, newer))
        self.press("w")
        assert self.state()["view"] == "compare"
        words = self.page.run("[...document.querySelectorAll('.what')].map((one) => one.textContent)")
        assert words and "same" not in words, "what noise explains is in the table"
        self.page.then_drawn(lambda: self.page.run("[...document.querySelectorAll('.tools button')].find((one) => one.textContent === 'within noise, too').click()"))
        assert "same" in self.page.run("[...document.querySelectorAll('.what')].map((one) => one.textContent)"), "what noise explains is not in the table"
        self.press("1")
        self.page.then_drawn(lambda: self.page.run("location.hash = 'side=older'"))
        assert self.page.run("document.querySelector('#choices select').value") == "older"

    def cut(self):
        """A page that does not hold all contexts says so, and its totals are right."""
        profile = self.make("cut", "--seed", "9", "--nodes", "5000")
        self.go(self.html("cut", profile, options=("--min-share", "1")) + "#view=topdown")
        note = self.page.run("document.getElementById('cut').textContent")
        assert "are drawn together" in note, note
        flat = page_numbers.report(self.calltrail, ["--view", "flat"], profile)
        assert f"{int(flat['total']) / 1e9:.3f} s" in self.page.run("document.getElementById('total').textContent")
        # Functions are those of the whole profile.
        self.go(self.html("cut", profile, options=("--min-share", "1")) + "#view=functions")
        first = self.page.run("[...document.querySelector('.row').children].map((cell) => cell.textContent)")
        assert is_share(first[0], flat["rows"][0]["self_share"]) and is_share(first[1], flat["rows"][0]["total_share"]), first

    # ---- Served

    def served(self):
        profile = self.make("served", "--seed", "9", "--nodes", "30000", "--threads", "3")
        server = subprocess.Popen([self.calltrail, "view", "--no-browser", "--nodes", "500", profile], stdout=subprocess.PIPE, text=True)
        try:
            address = server.stdout.readline().strip()
            self.go(address)
            assert "are drawn together" in self.page.run("document.getElementById('cut').textContent")
            # The heaviest context that calls something: looking closer shows more of what it calls.
            count = "Number(document.querySelector('#cut').textContent.split(' ')[0].replace(/,/g, ''))"
            box = self.page.run("(({ left, top }) => [left, top])(document.querySelector('canvas').getBoundingClientRect())")
            before = self.page.run("document.getElementById('cut').textContent")
            self.page.click(box[0] + 20, box[1] + 21 + 8)
            self.page.until(f"document.getElementById('cut').textContent !== {json.dumps(before)}")
            assert self.page.run(count) > 0
            self.press("Escape")
            assert self.page.run("document.getElementById('cut').textContent") == before
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(timeout=60) == 0, "Ctrl-C is not an error"


def main():
    arguments = sys.argv[1:]
    is_short = "--short" in arguments
    arguments = [os.path.abspath(one) for one in arguments if one != "--short"]
    if not browser.find_chromium():
        print("skip page: there is no Chromium")
        return 0
    with tempfile.TemporaryDirectory(prefix="calltrail-page-") as work:
        checks = Checks(*arguments[:2], work, is_short)
        try:
            short = ["numbers", "differences", "in_order", "tips", "short_names", "shown_numbers", "views", "keys", "zoom_and_back", "search", "time", "hostile", "recordings", "served"]
            full = short + ["structure_and_contexts", "keys_of_functions", "tree_keys", "address", "pictures", "looks", "source", "controls_have_names", "odd_profiles", "two_profiles", "cut"]
            only = os.environ.get("ONLY", "").split()
            for name in only or (short if is_short else full):
                checks.check(name, getattr(checks, name))
        finally:
            checks.browser.close()
    return checks.failures > 0


sys.exit(main())
