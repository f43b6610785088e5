"""jobs.py: submit, wait, follow: what programs do with jobs. `socket` names the daemon's; None finds it (address.py)."""
from __future__ import annotations

import operator
from typing import Any, Dict, Generator, Iterable, Iterator, List, Optional, Sequence, SupportsIndex, Union

from . import address, varlink
from .errors import InvalidState, JobFailed, NoSuchJob, TraindError, listed
from .metric_rows import Metric, Metrics
from .snapshot import with_snapshot
from .specification import Specification, complete
from .status import Status
from .torch_model import with_model

Names = Union[str, Sequence[str], None]  # of metrics; None: all

PAGE_ROWS = 2500
OUTPUT_TAIL = 2000  # bytes of output that the error of a failed job shows


def name_list(names: Names) -> Optional[List[str]]:
    return [names] if isinstance(names, str) else None if names is None else list(names)


def daemon_of(jobs: Sequence[SupportsIndex], socket: Optional[str]) -> Optional[str]:
    """The socket of the daemon that has these jobs, of which numbers say nothing: `socket`, else the jobs' own."""
    sockets = {} if socket else {address.choose(job.socket): job.socket for job in jobs if isinstance(job, Job)}
    if len(sockets) > 1:
        raise ValueError(f"these are jobs of several daemons ({', '.join(sockets)}); ask each daemon for its own")
    return socket or next(iter(sockets.values()), None)


class Job:
    """A job by its number. Each method asks the daemon, so threads and processes may share it."""

    def __init__(self, id: SupportsIndex, socket: Optional[str] = None, note: Optional[str] = None) -> None:
        self.id = operator.index(id)
        self.socket = socket
        self.note = note  # what traind has assumed when it was submitted

    def __index__(self) -> int:
        return self.id

    def __repr__(self) -> str:
        return f"Job({self.id})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and (self.id, self.socket) == (other.id, other.socket)

    def __hash__(self) -> int:
        return hash(self.id)

    def status(self) -> Status:
        return Status.from_reply(varlink.call("Show", socket=self.socket, id=self.id)["job"])

    def wait(self, timeout: Optional[float] = None) -> Status:
        """As wait() of one job."""
        return wait(self, socket=self.socket, timeout=timeout)[0]

    def follow(self) -> Iterator[Status]:
        """The present status, and one after each change and progress, until it has ended."""
        return follow(self, socket=self.socket)

    def metrics(self, names: Names = None) -> Metrics:
        return metrics(self, names, socket=self.socket)

    def follow_metrics(self, names: Names = None) -> Generator[Metric, None, None]:
        """The rows that there are, and each that comes, until the job has ended."""
        parameters: Dict[str, Any] = {"id": self.id, "names": name_list(names)}
        for reply in varlink.stream("Metrics", parameters, socket=self.socket):
            parameters["after"] = reply["next"]
            yield from map(Metric.from_reply, reply["rows"])

    def output(self, tail: Optional[int] = None) -> str:
        """What its present or last attempt has printed; `tail`: at most so many bytes of the end."""
        parts: List[str] = []
        offset = None
        while True:
            reply = varlink.call("Logs", socket=self.socket, id=self.id, offset=offset, tail=None if parts else tail)
            if not reply["text"]:
                return "".join(parts)
            parts.append(reply["text"])
            offset = reply["next"]

    def follow_output(self) -> Iterator[str]:
        """What its present or last attempt has printed, and what it prints until that ends."""
        parameters: Dict[str, Any] = {"id": self.id}
        for reply in varlink.stream("Logs", parameters, socket=self.socket):
            parameters.update(offset=reply["next"], attempt=reply["attempt"])
            yield reply["text"]

    def cancel(self) -> Status:
        return self._ask("Cancel")

    def pause(self, force: bool = False) -> Status:
        """Frees its device until resume(). force: a command that saves nothing, too, which begins again then."""
        return self._ask("Pause", force=force)

    def resume(self) -> Status:
        return self._ask("Resume")

    def hold(self) -> Status:
        """Keeps it from starting until release()."""
        return self._ask("Hold")

    def release(self) -> Status:
        return self._ask("Release")

    def _ask(self, method: str, **parameters: Any) -> Status:
        return Status.from_reply(varlink.call(method, socket=self.socket, id=self.id, **parameters)["job"])


def submit(job: Specification, *, socket: Optional[str] = None, **keys: Any) -> Job:
    """Queues a job: a command as a list of words, a specification as a dict, or the pathlib.Path of a JSON file.

    `keys` are keys of the specification (docs/job-spec.md): name="a", resources={"memory": "2 GiB"}, after=[other]. The job
    runs in the present folder, a command with the present environment. It is on disk when this returns.

    "model": {"torch": "model.py:Net", "input": "1,3,224,224"} is exported now, as a model in the ONNX format beside model.py.

    snapshot=True freezes the code that a command runs: what git tracks or does not ignore; snapshot=FOLDER all of that."""
    reply = varlink.call("Submit", socket=socket, spec=with_snapshot(with_model(complete(job, keys)), socket))
    return Job(reply["id"], socket, reply.get("note"))


def last_output(job: Job) -> str:
    """Of a job that has failed; nothing where it cannot be read: that it has failed matters more."""
    try:
        return job.output(tail=OUTPUT_TAIL)
    except TraindError:
        return ""


def cancel_unless_ended(job: Job) -> None:
    try:
        job.cancel()
    except (InvalidState, NoSuchJob):  # it has ended meanwhile
        pass


def may_run_on(jobs: Iterable[Job], error: TraindError) -> str:
    """The warning where jobs that nobody waits for any more could not be cancelled."""
    numbers = [job.id for job in jobs]
    return f"not cancelled, and may run on: {listed(numbers)}: {error}; `trainctl cancel {numbers[0]}` ends such a job"


def run(job: Specification, *, check: bool = True, timeout: Optional[float] = None, socket: Optional[str] = None,
        **keys: Any) -> Status:
    """Submits a job and waits for its end. check: raises JobFailed unless it is done. An interrupted wait leaves it running."""
    varlink.moment_after(timeout)  # what is wrong with it is said before there is a job
    submitted = submit(job, socket=socket, **keys)
    status = submitted.wait(timeout)
    if check and status.state != "done":
        raise JobFailed(status, last_output(submitted))
    return status


def wait(*jobs: SupportsIndex, timeout: Optional[float] = None, socket: Optional[str] = None) -> List[Status]:
    """Waits until all of them have ended, whatever way, and through restarts of the daemon. TimeoutError after `timeout`
    seconds; the jobs go on. It says so where the daemon has not answered in that time. A timeout of 0 asks once."""
    final = {status.id: status for status in follow(*jobs, timeout=timeout, socket=socket) if status.is_final}
    return [final[operator.index(job)] for job in jobs]


def follow(*jobs: SupportsIndex, timeout: Optional[float] = None, socket: Optional[str] = None) -> Iterator[Status]:
    """The present status of each, and one after each change and progress, until all have ended."""
    ids = [operator.index(job) for job in jobs]
    deadline = varlink.moment_after(timeout)
    if not ids:
        return
    left = dict.fromkeys(ids)
    try:
        for reply in varlink.stream("Watch", {"ids": ids}, socket=daemon_of(jobs, socket), deadline=deadline, at_once=len(left)):
            status = Status.from_reply(reply["job"])
            if status.is_final:
                left.pop(status.id, None)
            yield status
    except varlink.Unanswered as error:
        raise TimeoutError(f"after {timeout} s there is no answer: {error}; not known to have ended: {listed([*left])}") from error
    except varlink.TimeOver as error:
        raise TimeoutError(f"after {timeout} s these jobs have not ended, and go on: {listed([*left])}") from error
    except NoSuchJob:
        raise
    except TraindError as error:
        error.name_jobs(left)
        raise


def metrics(job: SupportsIndex, names: Names = None, *, socket: Optional[str] = None) -> Metrics:
    """All stored rows of a job, or those of some names, oldest first."""
    rows, after = Metrics(), None
    with varlink.Connection(daemon_of([job], socket)) as connection:
        while True:
            page = connection.call("Metrics", id=operator.index(job), names=name_list(names), after=after, limit=PAGE_ROWS)
            if not page["rows"]:
                return rows
            rows += map(Metric.from_reply, page["rows"])
            after = page["next"]
