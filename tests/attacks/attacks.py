"""attacks.py: helpers that the attacks share: a daemon in system mode that two ordinary users reach, running code as
one of them, and floods.

    import attacks
    with attacks.daemon("[Access]\\nJobsPerUser = 10\\n") as daemon:
        job = attacks.as_user(attacks.VICTIM, attacks.submit, daemon.socket, {"command": ["true"]})
        with attacks.Crowd(attacks.ATTACKER, flood_of_something, daemon.socket):
            attacks.check_answers(daemon)

tests/attacks/run makes the users and gives every attack a folder. The daemon is a private one, or the installed service where
TRAIND_ATTACKS_SERVICE is set (in the virtual machine). Every function that takes a user runs a forked copy of this process as that user.
"""
import multiprocessing
import os
import pwd
import select
import signal
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration"))
import traind  # noqa: E402
from traind import VarlinkError, skip, wait_until  # noqa: E402,F401

SERVICE = bool(os.environ.get("TRAIND_ATTACKS_SERVICE"))
UNDISTURBED = "TRAIND_ATTACKS_UNDISTURBED"  # seconds of a submission while nobody floods, where that is known
ANSWER_SECONDS = 0.2  # limit for the answer to a submission during any flood
# What one takes on two cores that are not emulated while nobody floods, at the median (measured: 1.2 to 1.5 ms). An emulated machine
# has as many times longer for its answers as it needs for this one.
NATIVE_SECONDS = 0.0012
SUBMISSIONS = 200  # of each of those who are measured
ROOT = pwd.getpwuid(0)
with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
    EMULATED = "QEMU TCG" in cpuinfo.read()


def find_user(variable):
    name = os.environ.get(variable)
    if os.geteuid() != 0 or not name:
        skip("an attack needs two ordinary users and root: start it with tests/attacks/run")
    return pwd.getpwnam(name)


VICTIM, ATTACKER = find_user("TRAIND_ATTACKS_VICTIM"), find_user("TRAIND_ATTACKS_ATTACKER")


# ---- the daemon ---------------------------------------------------------------------------------


class PrivateDaemon(traind.Daemon):
    """A private daemon for this attack, started by root: system mode, with as many descriptors as systemd gives to a
    service. Its socket admits every user, as the service's socket admits a group."""

    def __init__(self, config=""):
        super().__init__(config, wrapper=("prlimit", "--nofile=1024:"))

    def start(self):
        super().start()
        os.chmod(self.socket, 0o666)


class ServiceDaemon(traind.Daemon):
    """The installed service; `config` goes into a file of its configuration folder, which is removed after the attack."""

    UNITS = ("traind.socket", "traind.service")

    def __init__(self, config=""):
        super().__init__(config)
        self.state, self.socket = "/var/lib/traind", "/run/traind/traind.sock"
        text = open(self.config, encoding="utf-8").read()
        os.makedirs("/etc/traind/traind.conf.d", exist_ok=True)
        self.config = "/etc/traind/traind.conf.d/attack.conf"
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(text)

    @staticmethod
    def systemctl(*words):
        subprocess.run(["systemctl", *words], check=True, timeout=traind.PATIENCE)

    def start(self):
        self.systemctl("start", *self.UNITS)
        with self.connect() as client:
            client.call("Ping")

    def kill(self):
        """Kills the service, which systemd restarts."""
        self.systemctl("kill", "--signal=KILL", "--kill-whom=main", "traind.service")

    def stop(self):
        self.systemctl("stop", *self.UNITS)
        return 0

    def log_text(self):
        return subprocess.run(["journalctl", "--unit=traind", "--lines=60", "--no-pager"], capture_output=True, text=True,
                              check=False).stdout

    def remove(self):
        subprocess.run(["systemctl", "stop", *self.UNITS], check=False, timeout=traind.PATIENCE)
        os.unlink(self.config)
        super().remove()
        subprocess.run(["sh", "-c", "rm -rf /var/lib/traind/*"], check=False)


def daemon(config=""):
    """Makes the daemon; the `with` block starts it and removes it with every job."""
    return ServiceDaemon(config) if SERVICE else PrivateDaemon(config)


# ---- being somebody -----------------------------------------------------------------------------


def become(user):
    if user.pw_uid != 0:
        os.initgroups(user.pw_name, user.pw_gid)
        os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
        os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
    os.environ.update(HOME=user.pw_dir, USER=user.pw_name, LOGNAME=user.pw_name)
    os.chdir(user.pw_dir)


def start_as(user, function, *arguments):
    """Runs `function` in a process of that user; returns the process, and a pipe that delivers (failure, result)."""
    def run():
        try:
            become(user)
            sender.send((None, function(*arguments)))
        except BaseException:  # noqa: B902 - the parent raises it again
            sender.send((traceback.format_exc(), None))
        os._exit(0)
    receiver, sender = multiprocessing.Pipe(False)
    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    sender.close()
    return process, receiver


def result_of(started):
    process, receiver = started
    failure, result = receiver.recv()
    process.join()
    if failure:
        raise AssertionError(failure)
    return result


def as_user(user, function, *arguments):
    """Runs `function` as that user and returns its result."""
    return result_of(start_as(user, function, *arguments))


def call(path, method, parameters=None):
    """Makes one call on a connection of its own; returns the reply, or the name of its error."""
    with traind.Client(path) as client:
        try:
            return client.call(method, **(parameters or {}))
        except VarlinkError as error:
            return error.name


def submit(path, spec):
    """Submits a job; returns its number."""
    with traind.Client(path) as client:
        return client.submit(**spec)


def keep_calling(path, calls, begun=lambda: None, after=2):
    """Makes the calls of an iterator one after the other for ever, whatever the answers, on one connection after
    another."""
    made = 0
    while True:
        try:
            with traind.Client(path) as client:
                for method, parameters in calls:
                    made += 1
                    try:
                        client.call(method, **parameters)
                    except VarlinkError:
                        pass
                    if made == after:
                        begun()
                return
        except (OSError, EOFError):
            time.sleep(0.001)


def processes_of(user):
    """The pids of a user's processes, without those that have ended."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{int(entry)}/status", encoding="utf-8", errors="replace") as file:
                fields = dict(line.split(":", 1) for line in file)
        except (OSError, ValueError):
            continue
        if fields["State"].split()[0] not in "ZX" and int(fields["Uid"].split()[0]) == user.pw_uid:
            found.append(int(entry))
    return found


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Crowd:
    """Runs `function(ready, *arguments)` in this many processes of a user until the `with` block ends. The block begins
    after all have called ready()."""

    def __init__(self, user, function, *arguments, processes=1):
        self.user, self.function, self.arguments, self.count = user, function, arguments, processes
        self.processes = []

    def run(self, descriptor):
        try:
            os.setpgid(0, 0)
            become(self.user)
            self.function(lambda: os.write(descriptor, b"."), *self.arguments)
            signal.pause()
        except BaseException:  # noqa: B902
            traceback.print_exc()
        os._exit(1)

    def __enter__(self):
        reader, writer = os.pipe()
        for _ in range(self.count):
            process = multiprocessing.get_context("fork").Process(target=self.run, args=(writer,))
            process.start()
            self.processes.append(process)
        os.close(writer)
        ready, deadline = 0, time.monotonic() + traind.PATIENCE
        while ready < self.count:
            came, _, _ = select.select([reader], [], [], max(0, deadline - time.monotonic()))
            data = os.read(reader, 4096) if came else b""
            if not data:
                self.__exit__()
                raise AssertionError("the flood does not begin")
            ready += len(data)
        os.close(reader)
        return self

    def __exit__(self, *_):
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                process.kill()
            process.join()


# ---- how soon the others are answered -----------------------------------------------------------


def submission(client):
    client.submit(command=["true"], hold=True)


def time_calls(path, ask, count):
    """Seconds of each `ask(client)`, including its connection; inf if there was no answer."""
    seconds = []
    for _ in range(count):
        started = time.monotonic()
        try:
            with traind.Client(path, timeout=20) as client:
                ask(client)
            seconds.append(time.monotonic() - started)
        except (OSError, EOFError, VarlinkError) as error:
            print(f"no answer: {error!r}")
            seconds.append(float("inf"))
        if sum(seconds) > 60:
            break
        time.sleep(0.005)
    return sorted(seconds)


def quantile(values, part):
    """The nearest rank of sorted values."""
    return values[max(0, -(-len(values) * part // 100) - 1)]


def measure(daemon, ask=submission, count=SUBMISSIONS):
    """Seconds of calls that the other user and root make at the same time."""
    started = [start_as(user, time_calls, daemon.socket, ask, count) for user in (VICTIM, ROOT)]
    return [result_of(process) for process in started]


def answer_limit():
    """The limit in seconds. In an emulated machine tests/attacks/run first measures how long a submission takes without
    a flood."""
    if not EMULATED:
        return ANSWER_SECONDS
    undisturbed = os.environ.get(UNDISTURBED)
    if not undisturbed:
        skip("how soon an emulated machine has to answer is known when it was measured undisturbed: start it with tests/attacks/run")
    return ANSWER_SECONDS * max(1, float(undisturbed) / NATIVE_SECONDS)


def check_answers(daemon, ask=submission, what="submissions", count=SUBMISSIONS):
    """Checks, during a flood, that the other user's submissions are answered in time at the 99th percentile, and root's
    always."""
    limit = answer_limit()
    other, root = measure(daemon, ask, count)
    print(f"{what}: the other user's 99th percentile {quantile(other, 99) * 1000:.1f} ms, median {quantile(other, 50) * 1000:.1f};"
          f" root's {quantile(root, 99) * 1000:.1f}, median {quantile(root, 50) * 1000:.1f}, longest {root[-1] * 1000:.1f}", flush=True)
    assert quantile(other, 99) <= limit, f"the other user's {what} wait for more than {limit * 1000:.0f} ms"
    assert root[-1] <= limit, f"root's {what} wait for more than {limit * 1000:.0f} ms"


def check_flood(flood, *arguments, config="", processes=1):
    """Runs most floods: a daemon, `flood(ready, socket, *arguments)` by the attacker, and submissions of the others."""
    with daemon(config) as target, Crowd(ATTACKER, flood, target.socket, *arguments, processes=processes):
        check_answers(target)
