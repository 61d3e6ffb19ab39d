"""Drives Chromium through its debugging pipe, with nothing but Python: open pages, press keys, look at what is there.

Nothing here waits for time to pass: every wait is for a condition, and a condition that never comes is an error
after three.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

LONGEST_WAIT_S = float(os.environ.get("LONGEST_WAIT_S", "180"))
KEYS = {"Escape": 27, "Enter": 13, "Backspace": 8, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39,
        "ArrowDown": 40, "Home": 36, "End": 35, "PageUp": 33, "PageDown": 34}


def find_chromium():
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="calltrail-chromium-")
        to_read, self.writing = os.pipe()
        self.reading, to_write = os.pipe()
        # The browser expects its ends of the pipes as 3 and 4.
        def place():
            os.dup2(to_read, 100), os.dup2(to_write, 101), os.dup2(100, 3), os.dup2(101, 4)
        self.process = subprocess.Popen(
            [find_chromium(), "--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--disable-gpu",
             "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars", "--force-color-profile=srgb",
             f"--user-data-dir={self.folder}"],
            preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read), os.close(to_write)
        self.buffer, self.number, self.events = b"", 0, []

    def receive(self):
        end = time.monotonic() + LONGEST_WAIT_S
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.reading], [], [], max(end - time.monotonic(), 0))
            part = os.read(self.reading, 1 << 20) if ready else b""
            if not part:
                raise RuntimeError("Chromium does not answer")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.writing, data):]
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def page(self, width=1280, height=800):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.resize(width, height)
        return page

    def close(self):
        try:
            self.call("Browser.close")
        except (RuntimeError, OSError):
            self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Page:
    def __init__(self, browser, session):
        self.browser, self.session = browser, session

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def run(self, expression):
        """The value of an expression; promises are waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True,
                           userGesture=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def until(self, expression):
        """Waits until an expression is true, and returns what it is then."""
        end = time.monotonic() + LONGEST_WAIT_S
        while True:
            value = self.run(expression)
            if value:
                return value
            if time.monotonic() > end:
                raise RuntimeError(f"never true: {expression}")
            self.run("new Promise((go) => requestAnimationFrame(() => go()))")

    def open(self, address):
        """A fresh page, drawn once."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=address)
        self.until("Boolean(document.readyState === 'complete' && document.documentElement.dataset.ready || "
                   "document.querySelector('.nothing'))")

    def drawn(self):
        return int(self.run("document.documentElement.dataset.ready || 0"))

    def then_drawn(self, action):
        """Does something, and waits until the page was drawn again."""
        before = self.drawn()
        action()
        self.until(f"Number(document.documentElement.dataset.ready) > {before}")

    def key(self, key):
        text = key if len(key) == 1 else "\r" if key == "Enter" else ""
        code = KEYS.get(key, ord(key.upper()) if len(key) == 1 else 0)
        common = {"key": key, "windowsVirtualKeyCode": code, "text": text}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **{**common, "text": ""})

    def type(self, text):
        self.call("Input.insertText", text=text)

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def resize(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def prefer(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def complaints(self):
        """Errors and refusals of the page since the last time, and what it asked other hosts for."""
        found = []
        self.run("1")
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"].get("exception", {}).get("description", "an exception"))
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
            elif event["method"] == "Network.requestWillBeSent":
                address = params["request"]["url"]
                if not address.startswith(("file:", "data:", "blob:", "about:", "http://127.0.0.1:")):
                    found.append(f"asked for {address}")
        self.browser.events = []
        return found
