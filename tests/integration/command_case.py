"""command_case.py: trainctl against a service that the test scripts (fake_daemon.py)."""
import json
import os
import subprocess
import tempfile
import unittest

from fake_daemon import FakeDaemon

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRAINCTL = os.path.join(os.path.abspath(os.environ.get("BUILD", "build")), "bin", "trainctl")
DEVICE = {"name": "cpu", "id": "cpu", "kind": "cpu", "model": "Fast CPU", "cores": 8, "features": ["avx2", "fma"],
          "memory_total": 16 << 30, "memory_used": 3 << 30, "memory_booked": 1 << 30, "high_watermark_ratio": 0.85,
          "slots": 2, "jobs": [3, 4], "health": "healthy"}


class CommandCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.socket = self.path("s")
        self.handlers = {}
        self.service = FakeDaemon(self.socket, self.handlers)
        self.service.__enter__()
        self.addCleanup(self.service.__exit__)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return self.path(name)

    def run_it(self, *arguments, status=0, stdin="", **environment):
        process = subprocess.run([TRAINCTL, *arguments], input=stdin, capture_output=True, text=True, timeout=30,
                                 cwd=self.folder, env={**os.environ, "TRAIND_SOCKET": self.socket, **environment})
        self.assertEqual(process.returncode, status, process.stdout + process.stderr)
        self.errors = process.stderr
        return process.stdout

    def sent(self, method):
        return [parameters for name, parameters in self.service.calls if name == method]
