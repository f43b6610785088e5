"""traind.py: helpers of the integration tests: a private daemon in a temporary folder and a small raw Varlink client.

    with traind.Daemon() as daemon:
        client = daemon.connect()
        job = client.call("Submit", spec={"command": ["true"]})["id"]
        for reply in client.stream("Watch", ids=[job]): ...

Uses only the standard library. Everything lies below TMPDIR (tests/run-checks gives each test its own), and nothing is left running.
"""
import json
import multiprocessing
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("BUILD", os.path.join(ROOT, "build")))
BIN = os.path.join(BUILD, "bin")
with open(os.path.join(BIN, "traind"), "rb") as program:
    SANITIZED = b"__asan_init" in program.read()  # memory figures mean nothing then
PATIENCE = 180.0 if SANITIZED else 60.0  # seconds after which whatever a test waits for will not come any more
FINAL_STATES = ("done", "failed", "cancelled")


def skip(reason):
    """Ends the test as skipped; run-checks prints the reason."""
    print(reason)
    sys.exit(77)


def wait_until(condition, what):
    """Polls for a condition that no event announces."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def as_user(uid, function, *arguments, groups=(), **keywords):
    """Runs `function` in a process of that user."""
    def run():
        os.setgroups(list(groups))
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        try:
            queue.put((None, function(*arguments, **keywords)))
        except BaseException:  # noqa: B902 - the parent raises it again
            queue.put((traceback.format_exc(), None))
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=run)
    process.start()
    failure, result = queue.get()
    process.join()
    if failure:
        raise AssertionError(failure)
    return result


def errors_of_interface():
    """For each error of io.traind, the parameters that a reply must have."""
    found = {}
    with open(os.path.join(ROOT, "proto", "io.traind.varlink"), encoding="utf-8") as file:
        for name, fields in re.findall(r"^error (\w+) \(([^)]*)\)", file.read(), re.MULTILINE):
            found["io.traind." + name] = {field.split(":")[0].strip() for field in fields.split(",") if ": ?" not in field}
    return found


ERRORS = errors_of_interface()


class VarlinkError(Exception):
    """An error reply: .name without the interface, .parameters. Its parameters are checked against the interface."""

    def __init__(self, full_name, parameters):
        self.full_name = full_name
        missing = ERRORS.get(full_name, set()) - set(parameters)
        if full_name.startswith("io.traind.") and not full_name.startswith("io.traind.Worker."):
            assert full_name in ERRORS and not missing, f"{full_name} {parameters} lacks {missing}"
        self.name = full_name.rsplit(".", 1)[1]
        self.parameters = parameters
        super().__init__(f"{full_name}: {parameters.get('message', parameters)}")


class Client:
    """One connection. Calls may be sent ahead with send() and read with receive()."""

    def __init__(self, path, timeout=PATIENCE):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # of a connect that waits for room in the queue, as that of other programs does: with settimeout() it would not
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(timeout), 0))
        try:
            self.socket.connect(path)
        except OSError:
            self.socket.close()
            raise
        self.socket.settimeout(timeout)
        self.buffer = bytearray()

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send_bytes(self, data):
        self.socket.sendall(data)

    def send(self, method, parameters=None, **envelope):
        """`method` without a dot belongs to io.traind."""
        message = {"method": method if "." in method else "io.traind." + method, **envelope}
        if parameters is not None:
            message["parameters"] = parameters
        self.send_bytes(json.dumps(message).encode() + b"\0")

    def receive(self):
        """The next reply's parameters and whether more follow. EOFError when the service hung up."""
        message = self.receive_message()
        if "error" in message:
            raise VarlinkError(message["error"], message.get("parameters") or {})
        return message.get("parameters", {}), message.get("continues", False)

    def receive_message(self):
        searched = 0
        while (end := self.buffer.find(0, searched)) < 0:
            searched = len(self.buffer)
            data = self.socket.recv(1 << 16)
            if not data:
                raise EOFError("the service closed the connection")
            self.buffer += data
        message = json.loads(self.buffer[:end].decode())
        del self.buffer[:end + 1]
        return message

    def call(self, method, **parameters):
        self.send(method, parameters)
        return self.receive()[0]

    def stream(self, method, **parameters):
        """Yields each reply's parameters, the last one included."""
        self.send(method, parameters, more=True)
        continues = True
        while continues:
            reply, continues = self.receive()
            yield reply

    # what most tests need

    def submit(self, **spec):
        return self.call("Submit", spec=spec)["id"]

    def job(self, job):
        return self.call("Show", id=job)["job"]

    def list(self, **parameters):
        """Every job on every page, newest first."""
        jobs, before = [], None
        while True:
            page = self.call("List", **parameters, **({"before": before} if before else {}))
            jobs += page["jobs"]
            before = page.get("next")
            if not before:
                return jobs

    def wait(self, *jobs):
        """The jobs' final form, in the order given."""
        final = {}
        for reply in self.stream("Watch", ids=list(jobs)):
            if reply["job"]["state"] in FINAL_STATES:
                final[reply["job"]["id"]] = reply["job"]
        return [final[job] for job in jobs]


class Daemon:
    """A private traind. Starts with the `with` block, or by start(); ends with it, jobs included."""

    def __init__(self, config="", arguments=(), environment=None, wrapper=()):
        self.folder = tempfile.mkdtemp(prefix="traind-test.")
        os.chmod(self.folder, 0o755)
        self.state = os.path.join(self.folder, "state")
        self.socket = os.path.join(self.folder, "traind.sock")
        self.config = os.path.join(self.folder, "traind.conf")
        self.log = os.path.join(self.folder, "log")
        self.arguments = list(arguments)
        self.environment = dict(os.environ, **(environment or {}))
        self.wrapper = list(wrapper)
        self.process = None
        with open(self.config, "w", encoding="utf-8") as file:
            # a calibration takes some ten seconds: tests do without, unless they say otherwise
            file.write(config + ("" if "Calibrate" in config else "\n[Jobs]\nCalibrate = no\n"))

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, kind, *_):
        if kind:
            print(f"--- log of the daemon\n{self.log_text()}---", file=sys.stderr)
        self.remove()

    def command(self):
        return [*self.wrapper, os.path.join(BIN, "traind"), "--state-dir", self.state, "--socket", self.socket,
                "--config", self.config, *self.arguments]

    def start(self):
        """Starts it (again) and waits until it answers."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=self.environment)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with self.connect() as client:
                    client.call("Ping")
                return
            except (FileNotFoundError, ConnectionError, EOFError):
                pass
            if self.process.poll() is not None:
                raise RuntimeError(f"traind ended with {self.process.returncode}:\n{self.log_text()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"traind does not answer:\n{self.log_text()}")
            time.sleep(0.002)

    def connect(self):
        return Client(self.socket)

    def let_users_in(self):
        """Admits users who are not in the group, too."""
        os.chmod(self.socket, 0o666)
        folder = os.environ.get("TMPDIR", "/tmp")
        mode = os.stat(folder).st_mode & 0o7777
        if not mode & 0o001:  # of run-checks; /tmp itself stays as it is
            os.chmod(folder, mode | 0o011)

    def kill(self):
        """kill -9, as a power cut for the daemon alone."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        """SIGTERM; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def log_text(self):
        try:
            with open(self.log, encoding="utf-8", errors="replace") as log:
                return log.read()
        except FileNotFoundError:
            return ""

    def attempt_folder(self, job, attempt=1):
        return os.path.join(self.state, "jobs", str(job // 1000), f"{job}.{attempt}")

    def attempt_beside(self, job, what, attempt=1):
        """The path of a file that the daemon trusts: "json" (attempt.json), "exit.json", "sock"."""
        return self.attempt_folder(job, attempt) + "." + what

    def remove(self):
        """Ends the daemon and all its jobs, and removes the folder."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        deadline = time.monotonic() + PATIENCE
        while (pids := self.job_processes()) and time.monotonic() < deadline:
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.01)
        wrong = [line for line in self.log_text().splitlines() if "does not keep to the interface" in line]
        shutil.rmtree(self.folder, ignore_errors=True)
        assert not wrong, wrong

    def job_processes(self):
        """Processes of this daemon's jobs: shims, trainees and their children."""
        found, marker = [], os.path.join(self.state, "jobs").encode()
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                with open(f"/proc/{entry}/environ", "rb") as environment, open(f"/proc/{entry}/cmdline", "rb") as line:
                    if marker in environment.read() or marker in line.read():
                        found.append(int(entry))
            except OSError:
                pass
        return found
