#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Pages of `--report` in a real browser: nothing on the console, nothing outside the page, hover and zoom work.

usage: report-browser.py PSISIM [PICTURES]

Needs chromium and chromedriver, so `./bootstrap gallery` runs it and `./bootstrap test` does not. With PICTURES, a folder,
screenshots are left there: wide, phone, dark, and print as PDF.
"""

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import tap

PSISIM = os.path.abspath(sys.argv[1])
PICTURES = sys.argv[2] if len(sys.argv) > 2 else None
FOLDER = tempfile.TemporaryDirectory(prefix="psisim-report-")
PAGES = {
    "compare": "compare --model llama-2-7b --machine a100 --gpus 8 --plans dp,zero-3,cdp-v2,cdp-zero --micro-batch 1",
    "batches": "compare --model llama-2-7b --machine a100 --gpus 8 --plans zero-3,1f1b --micro-batches 4",
    "pipeline": "run --model llama-2-7b --machine a100 --gpus 8 --dp 2 --pp 4 --micro-batches 8 --micro-batch 1 --critical-path --what-helps",
    "uniform": "run --model uniform --plan cdp-v2 --workers 4 --stages 4",
    "deep": "run --model uniform --plan 1f1b --pp 64 --micro-batches 128",
    "oom": "run --model llama-2-70b --machine a100 --gpus 8 --plan dp",
}
LIMIT_BYTES = 2_000_000


class Browser:
    """The few WebDriver calls that are needed, over plain HTTP."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.base = f"http://127.0.0.1:{port}"
        self.driver = subprocess.Popen([shutil.which("chromedriver"), f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb"]
        wanted = {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}
        for _ in range(100):
            try:
                self.session = self.call("POST", "/session", {"capabilities": wanted})["sessionId"]
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        else:
            raise RuntimeError("chromedriver does not answer")
        self.base += f"/session/{self.session}"

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method, headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as problem:
            raise RuntimeError(problem.read().decode()[:400]) from None

    def cdp(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def log(self, kind):
        return self.call("POST", "/se/log", {"type": kind})

    def show(self, width, height, dark=False, mobile=False):
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if mobile else 1, mobile=mobile)
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        time.sleep(0.3)

    def move(self, x, y, press=False, double=False):
        self.cdp("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for count in range(1, (2 if double else 1) + 1):
            if press or double:
                for kind in ("mousePressed", "mouseReleased"):
                    self.cdp("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=count)
        time.sleep(0.2)

    def picture(self, path, height):
        self.cdp("Emulation.setDeviceMetricsOverride", width=self.run("return innerWidth"), height=height, deviceScaleFactor=self.run("return devicePixelRatio"), mobile=False)
        time.sleep(0.3)
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.cdp("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]))

    def close(self):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(10)


def middle_of(browser, selector, x_share, y_share):
    box = browser.run("const c = document.querySelector(arguments[0]); c.scrollIntoView({block: 'center'}); const b = c.getBoundingClientRect(); return [b.left, b.top, b.width, b.height];", selector)
    return box[0] + box[2] * x_share, box[1] + box[3] * y_share


def page(browser, name, arguments):
    path = os.path.join(FOLDER.name, f"{name}.html")
    done = subprocess.run([PSISIM, *arguments.split(), "--report", path, "--quiet"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        yield f"psisim: {done.stderr}"
        return
    size = os.path.getsize(path)
    if size >= LIMIT_BYTES:
        yield f"the page has {size} bytes"
    browser.show(1280, 1300)
    browser.log("performance")
    browser.call("POST", "/url", {"url": f"file://{path}"})
    time.sleep(0.4)

    browser.run("choose(0, false)")
    plan = browser.run("return report.plans[0]")
    text = browser.run("return document.body.innerText")
    for word in (plan["verdict"].upper(), "Assumptions", "One step", "Memory over the step"):
        if word not in text:
            yield f"'{word}' is not on the page"
    for option, heading in (("--critical-path", "Critical path"), ("--what-helps", "Bandwidth it needs"), ("--what-helps", "Other degrees")):
        if (option in arguments) != (heading in text):
            yield f"'{heading}' is {'not ' if option in arguments else ''}on the page"
    differs = "The plans differ in samples per step" in text
    if differs != (name == "batches"):
        yield f"the page says {'' if differs else 'not '}that the plans' batches differ"
    if "undefined" in text or "NaN" in text or "[object" in text:
        yield "the page says undefined, NaN or [object"
    if browser.run("return document.documentElement.scrollWidth > innerWidth"):
        yield "the page is wider than the window"

    # Something is drawn, and a hover says what.
    for canvas in ("#gantt canvas", "#memory canvas"):
        colours = browser.run("const c = document.querySelector(arguments[0]); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; const s = new Set(); for (let i = 0; i < d.length; i += 40) s.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return s.size;", canvas)
        if colours < 4:
            yield f"{canvas} shows {colours} colours"
        browser.move(*middle_of(browser, canvas, 0.5, 0.2))
        tip = browser.run("return document.getElementById('tip').hidden ? '' : document.getElementById('tip').textContent")
        if not tip:
            yield f"hovering over {canvas} says nothing"
    peak = browser.run("return document.getElementById('readout-head').textContent")
    if not peak.startswith("At ") or "allocated" not in peak:
        yield f"the memory under the pointer reads '{peak}'"
    browser.move(2, 2)
    if "At the peak" not in browser.run("return document.getElementById('readout-head').textContent"):
        yield "without a pointer the peak is not shown"

    # Double-click, buttons and keys zoom; the whole step comes back.
    span = "const v = charts[0].view; return (v.to - v.from) / v.ticks"
    if browser.run(span) != 1:
        yield "the page does not begin with the whole step"
    browser.move(*middle_of(browser, "#gantt canvas", 0.5, 0.2), double=True)
    if not 0.3 < browser.run(span) < 0.5:
        yield f"after a double-click {browser.run(span)} of the step is shown"
    browser.run("document.querySelector('button[title=\"zoom in\"]').click()")
    if not browser.run(span) < 0.25:
        yield "the button does not zoom in"
    browser.run("document.querySelector('#gantt canvas').dispatchEvent(new KeyboardEvent('keydown', {key: '0'}))")
    if browser.run(span) != 1:
        yield "the key 0 does not show the whole step"

    # Pressing work follows its micro-batch; the memory of another rank can be chosen; a drag shows the step before.
    browser.run("charts[0].view.reset()")
    spans = browser.run("return charts[0].rows[0].spans.filter(span => span.kind === 0 && span.batch >= 0).length")
    if spans:
        share = browser.run("const g = charts[0]; const s = g.rows[0].spans.find(span => span.kind === 0 && span.batch >= 0); g.draw(); return g.x((s.start + s.end) / 2 % g.view.ticks) / g.width")
        height = browser.run("return (charts[0].lane(0, 0)[0] + charts[0].lane(0, 0)[1] / 2) / charts[0].height")
        browser.move(*middle_of(browser, "#gantt canvas", share, height), press=True)
        if browser.run("return charts[0].chosen") is None:
            yield "pressing a forward chooses no micro-batch"
    if browser.run("const c = document.getElementById('memory-row'); if (!c) return true; c.value = c.options.length - 1; c.dispatchEvent(new Event('change')); return charts[1].row === charts[0].rows[c.value];") is not True:
        yield "choosing a rank does not show its memory"
    x, y = middle_of(browser, "#gantt canvas", 0.6, 0.2)
    browser.cdp("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", clickCount=1)
    browser.cdp("Input.dispatchMouseEvent", type="mouseMoved", x=x + 150, y=y, button="left", buttons=1)
    browser.cdp("Input.dispatchMouseEvent", type="mouseReleased", x=x + 150, y=y, button="left", clickCount=1)
    time.sleep(0.2)
    if browser.run("return charts[0].view.from") == 0:
        yield "dragging does not move the step"
    if len(browser.run("return report.plans")) > 1:
        browser.move(*middle_of(browser, "#activations canvas", 0.5, 0.5))
        if "\n" not in browser.run("return document.getElementById('tip').textContent"):
            yield "hovering over the activations does not list the plans"

    # The other plans, a phone, the dark.
    for choice in range(browser.run("return report.plans.length")):
        browser.run("choose(arguments[0], false)", choice)
    browser.run("choose(0, false)")
    for width, dark, mobile in ((390, False, True), (1280, True, False)):
        browser.show(width, 844, dark, mobile)
        if browser.run("return document.documentElement.scrollWidth > innerWidth + 1"):
            yield f"at {width} px the page is wider than the window"
    if PICTURES:
        os.makedirs(PICTURES, exist_ok=True)
        for kind, width, dark, mobile in (("wide", 1280, False, False), ("phone", 390, False, True), ("dark", 1280, True, False)):
            browser.show(width, 844, dark, mobile)
            browser.picture(os.path.join(PICTURES, f"{name}-{kind}.png"), browser.run("return document.documentElement.scrollHeight"))
        browser.show(1280, 1300)
        with open(os.path.join(PICTURES, f"{name}-print.pdf"), "wb") as file:
            file.write(base64.b64decode(browser.call("POST", "/print", {"background": True})))

    for entry in browser.log("browser"):
        yield f"console: {entry['level']} {entry['message']}"
    for entry in browser.log("performance"):
        message = json.loads(entry["message"])["message"]
        url = message["params"].get("request", {}).get("url", "") if message["method"] == "Network.requestWillBeSent" else ""
        if url and not url.startswith(("file://", "data:")):
            yield f"the page asks for {url}"


def main():
    for program in ("chromium", "chromedriver"):
        if not shutil.which(program):
            sys.exit(f"report-browser.py: {program} is not installed")
    browser = Browser()
    try:
        tap.run((name, page(browser, name, arguments)) for name, arguments in PAGES.items())
    finally:
        browser.close()


main()
