"""page_case.py: what tests of traind-web's pages share: a daemon, traind-web, a Chromium, and what a person does with them."""
import json
import unittest

import browser
import traind
import web

web.need()
if not browser.PROGRAM:
    traind.skip("no Chromium: apt install chromium")

REPORTER = """
import json, math, os, sys
report, begin, count = os.fdopen(3, "w"), int(sys.argv[1]), int(sys.argv[2])
for step in range(begin, begin + count):
    loss = 2 * math.exp(-step / 300) + 0.01 * (step % 7)
    print(json.dumps({"step": step, "epoch": step / 100, "train_loss": loss, "validation_loss": loss + 0.1}), file=report)
report.flush()
print("reported", count, "values", flush=True)
"""

# waits for a line in a FIFO, then reports some more, or two values that are no numbers, until it is told to end
LIVE = """
import json, os, sys
report, step, odd = os.fdopen(3, "w"), 0, 0
print("ready", flush=True)
while True:
    with open(sys.argv[1]) as orders:
        for order in orders:
            if order.strip() == "end": sys.exit(0)
            if order.strip() == "odd":
                odd += 2
                print(*(json.dumps({"step": at, "odd": float("nan")}) for at in (odd - 1, odd)), sep="\\n", file=report, flush=True)
                continue
            for _ in range(int(order)):
                step += 1
                print(json.dumps({"step": step, "train_loss": 1 / step}), file=report)
            report.flush()
            print("step", step, flush=True)
"""
LABELS = """(() => { // the texts that a chart's axes have, each with whether it lies within the picture
    const found = [], write = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        const width = this.measureText(text).width, left = this.textAlign === "right" ? x - width : this.textAlign === "center" ? x - width / 2 : x;
        (window.labels ??= new Map()).set(this.canvas.getAttribute("aria-label") + "|" + Math.round(y) + "|" + Math.round(x), [text, left >= 0]);
        return write.call(this, text, x, y);
    };
})()"""


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = cls.enterClassContext(traind.Daemon("[Jobs]\nCpuSlots = 1\n"))
        cls.client = cls.enterClassContext(cls.daemon.connect())
        cls.site = cls.enterClassContext(web.Web(cls.daemon.socket))
        cls.chromium = cls.enterClassContext(browser.Browser())
        cls.fill()

    @classmethod
    def fill(cls):
        pass

    def page(self, view="jobs", *options):
        page = self.enterContext(self.chromium.page(self.site.address, *options))
        page.wait("document.querySelector('h1')")
        if view != "jobs":
            self.go(page, view)
        self.addCleanup(lambda: self.assertEqual(page.errors(), []))  # runs before the page is closed
        return page

    def go(self, page, view):
        page.evaluate(f"location.hash = {json.dumps('#/' + view)}")
        page.wait("!document.querySelector('main .view') || location.hash.startsWith(%s)" % json.dumps("#/" + view.split("?")[0]))

    def rows(self, page):
        """Numbers of the jobs that the list shows."""
        return page.evaluate("[...document.querySelectorAll('.job-space .job-row:not([hidden])')].map((row) => Number(row.dataset.job))")

    def wait_rows(self, page, expected):
        page.wait("JSON.stringify([...document.querySelectorAll('.job-space .job-row:not([hidden])')].map((row) => Number(row.dataset.job)))"
                  f" === JSON.stringify({json.dumps(expected)})")

    @classmethod
    def submit(cls, **spec):
        return cls.client.submit(**{"directory": "/", "command": ["true"], **spec})

    @classmethod
    def reporter(cls, name, begin=0, count=1000, **more):
        return cls.submit(name=name, command=["python3", "-c", REPORTER, str(begin), str(count)], **more)
