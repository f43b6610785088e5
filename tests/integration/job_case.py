"""job_case.py: what tests of jobs share: a daemon, a trainee that writes records, waiting for what no call reports."""
import os
import sqlite3
import time
import unittest

import traind

# A trainee in Python: numbered records into the spool, one write each.
SPOOL = """
import json, os, sys, time
spool = os.open(os.environ["TRAIND_SPOOL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
n = 0
def record(type_, **fields):
    global n
    n += 1
    os.write(spool, json.dumps({"n": n, "time": time.time(), "type": type_, **fields}).encode() + b"\\n")
"""


def python(script):
    return ["python3", "-c", SPOOL + script]


def until(condition, what="the condition", seconds=traind.PATIENCE):
    """Polls for a condition that no call of the daemon reports."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come")
        time.sleep(0.005)
    return value


class Case(unittest.TestCase):
    config = ""

    def setUp(self):
        self.daemon = traind.Daemon(config=self.config)
        self.addCleanup(self.daemon.remove)
        self.daemon.start()
        self.client = self.daemon.connect()
        self.addCleanup(lambda: self.client.close())

    def restart(self):
        """kill -9 of the daemon, a new one."""
        self.client.close()
        self.daemon.kill()
        self.daemon.start()
        self.client = self.daemon.connect()

    def run_job(self, command, **spec):
        job = self.client.submit(command=command, **spec)
        return self.client.wait(job)[0]

    def attempts(self, job):
        return self.client.call("Show", id=job)["attempts"]

    def pid_of(self, job, attempt=1):
        """The pid of the job's trainee. It is stored a moment after the start, perhaps after the first output."""
        return until(lambda: [each.get("pid") for each in self.attempts(job)[attempt - 1:attempt] if each.get("pid")],
                     f"the start of attempt {attempt}")[0]

    def wait_state(self, job, state):
        for reply in self.client.stream("Watch", ids=[job]):
            if reply["job"]["state"] == state:
                break
        self.client.close()  # the stream goes on
        self.client = self.daemon.connect()

    def wait_log(self, job, text, attempt=1):
        path = os.path.join(self.daemon.attempt_folder(job, attempt), "log")
        until(lambda: os.path.exists(path) and text in open(path).read(), f"{text!r} in the log")

    def rows(self, query, *values, database="traind.db"):
        with sqlite3.connect(f"file:{self.daemon.state}/{database}?mode=ro", uri=True) as connection:
            return connection.execute(query, values).fetchall()

    def marked(self, marker):
        """Processes with the marker in their environment."""
        found = []
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and marker.encode() in open(f"/proc/{name}/environ", "rb").read():
                    found.append(int(name))
            except OSError:
                pass
        return found
