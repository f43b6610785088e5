"""browser.py: headless Chromium for tests of traind-web, driven through --remote-debugging-pipe.

    with browser.Browser() as chromium, chromium.page("http://127.0.0.1:1234/") as page:
        page.wait("document.querySelector('h1')")
        page.click("button.primary")
        page.press("j")

Uses only the standard library: the DevTools protocol comes as JSON with a NUL behind each message, on descriptors 3 and 4.
"""
import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 60.0
KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Delete": (46, ""), "ArrowDown": (40, ""), "ArrowUp": (38, ""), "End": (35, ""),
        "Home": (36, ""), "Tab": (9, ""), "PageDown": (34, "")}


class Browser:
    """One Chromium with a profile of its own, in a temporary folder."""

    def __init__(self, *arguments):
        self.folder = tempfile.mkdtemp(prefix="traind-browser.")
        self.arguments = [
            PROGRAM, "--headless=new", "--no-sandbox", "--remote-debugging-pipe", f"--user-data-dir={self.folder}", "--disable-gpu",
            "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-default-apps",
            "--disable-extensions", "--disable-sync", "--disable-dev-shm-usage", "--mute-audio", "--hide-scrollbars",
            "--force-color-profile=srgb", "--disable-features=Translate,OptimizationHints,MediaRouter",
            # names lead nowhere, but for those that a test gives this machine
            "--host-resolver-rules=MAP rebound.test 127.0.0.1, MAP other.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
            *arguments, "about:blank"]
        self.answers, self.events, self.number, self.buffer = {}, [], 0, b""

    def __enter__(self):
        to_read, self.output = os.pipe()
        self.input, to_write = os.pipe()
        # out of the way of 3 and 4, which dup2 below would close
        high = [os.dup(descriptor) for descriptor in (to_read, to_write)]
        spare = []
        while min(high) < 5:
            spare += high
            high = [os.dup(descriptor) for descriptor in high]

        def connect():
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = subprocess.Popen(self.arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=connect,
                                            close_fds=False, start_new_session=True, env={**os.environ, "HOME": self.folder})
        for descriptor in (to_read, to_write, *high, *spare):
            os.close(descriptor)
        os.set_blocking(self.input, False)
        return self

    def __exit__(self, *_):
        try:
            self.send("Browser.close", {}, None)
            self.process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.output)
        os.close(self.input)
        shutil.rmtree(self.folder, ignore_errors=True)

    def send(self, method, parameters, session):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.output, data):]
        return self.number

    def pump(self, seconds):
        """Takes messages that are there, or waits for some."""
        if not select.select([self.input], [], [], max(0, seconds))[0]:
            return
        data = os.read(self.input, 1 << 20)
        if not data:
            raise EOFError("Chromium has ended")
        *messages, self.buffer = (self.buffer + data).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self.answers[message["id"]] = message
            else:
                self.events.append(message)

    def call(self, method, session=None, **parameters):
        number = self.send(method, parameters, session)
        deadline = time.monotonic() + PATIENCE
        while number not in self.answers:
            assert time.monotonic() < deadline, f"Chromium does not answer {method}"
            self.pump(deadline - time.monotonic())
        answer = self.answers.pop(number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def page(self, address, *options):
        return Page(self, address, *options)


class Page:
    """A tab. `errors` collects what the console would show in red."""

    def __init__(self, browser, address, width=1280, height=800, scheme="light"):
        self.browser, self.address = browser, address
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.size(width, height)
        self.scheme(scheme)

    def __enter__(self):
        if self.address:
            self.open(self.address)
        return self

    def __exit__(self, *_):
        self.browser.call("Target.closeTarget", targetId=self.target)

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def open(self, address):
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def size(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def evaluate(self, expression):
        """The value of a JavaScript expression; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, f"{expression}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def wait(self, expression):
        """Waits until the expression is true, and returns its value."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                value = self.evaluate(expression)
            except AssertionError as error:  # a page that is just being left, or has not got so far
                value, last = None, error
            else:
                last = value
            if value not in (None, False, 0, ""):  # an element comes as {}
                return value
            assert time.monotonic() < deadline, f"{expression} did not come true: {last}\n{self.text()[:2000]}\n{self.errors()}"
            self.browser.pump(0.02)

    def text(self, selector="body"):
        return self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def wait_text(self, text, selector="body"):
        self.wait(f"(document.querySelector({json.dumps(selector)})?.innerText ?? '').includes({json.dumps(text)})")

    def click(self, selector, modifiers=0):
        """Clicks the middle of the element, as a person does: what lies above it gets the click."""
        spot = self.wait("(() => { const e = document.querySelector(%s); if (!e) return null; e.scrollIntoView({block: 'nearest'});"
                         " const r = e.getBoundingClientRect(); return r.width ? [r.x + r.width / 2, r.y + r.height / 2] : null; })()"
                         % json.dumps(selector))
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=spot[0], y=spot[1], button="left", clickCount=1, modifiers=modifiers)

    def drag(self, begin, end):
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=begin[0], y=begin[1], button="left", clickCount=1)
        for part in (0.3, 0.7, 1):
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=begin[0] + (end[0] - begin[0]) * part,
                      y=begin[1] + (end[1] - begin[1]) * part, button="left", buttons=1)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=end[0], y=end[1], button="left", clickCount=1)

    def hover(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, *keys):
        for key in keys:
            code, text = KEYS[key] if key in KEYS else (ord(key.upper()), key)
            self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, text=text)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def set(self, selector, text):
        """Puts text into a field in the place of what is there."""
        self.evaluate("(() => { const e = document.querySelector(%s); e.focus(); e.select?.(); })()" % json.dumps(selector))
        if text:
            self.type(text)
        else:
            self.evaluate("document.execCommand('delete')")

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def errors(self):
        """What went wrong in the page so far: exceptions, errors of the console, and of the network."""
        found = []
        self.browser.pump(0)
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            parameters = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                found.append(details.get("exception", {}).get("description") or details["text"])
            elif event["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert", "warning"):
                found.append(" ".join(str(argument.get("value", argument)) for argument in parameters["args"]))
            elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                found.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
        return found
