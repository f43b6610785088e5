"""errors.py: what can go wrong. Every error of the interface io.traind has a class of its name, with its parameters."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterable, Mapping, Optional, Sequence, Tuple, Type

if TYPE_CHECKING:
    from .status import Status


CONNECTIONS = "too many connections"  # so begins the refusal of one (daemon/server/traffic.c)
TOLD_JOBS = 10  # that an error names


def listed(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - TOLD_JOBS} more" if len(numbers) > TOLD_JOBS else ""
    return ", ".join(map(str, numbers[:TOLD_JOBS])) + more


class TraindError(Exception):
    """Any error of this package. `jobs`: the numbers of those that were waited for, and are not known to have ended."""
    jobs = ()  # type: Tuple[int, ...]

    def name_jobs(self, numbers: Iterable[int]) -> None:
        """Says which jobs were waited for: of a job that was just submitted nobody else may know the number."""
        self.jobs = tuple(numbers)
        self.args = (f"{self}; not known to have ended: {listed(self.jobs)}",)


class DaemonUnreachable(TraindError, ConnectionError):
    """No daemon answers, or it went away and did not come back. The text says what to start."""


class JobFailed(TraindError):
    """A job that was waited for has failed or was cancelled. `lacks`: what one lacks that ended well, ", but …"."""

    def __init__(self, status: Status, output: str = "", lacks: str = "") -> None:
        self.status = status
        self.output = output  # the end of what it printed
        self.lacks = lacks
        text = f"job {status.id} ({status.name}) {status.state}: {status.reason or 'no reason is known'}{lacks}"
        super().__init__(text + (f"; the last lines of its output:\n{output}" if output else ""))

    def __reduce__(self) -> Any:
        return JobFailed, (self.status, self.output, self.lacks)


class CallError(TraindError):
    """The daemon has answered a call with an error. `name` is that of the error, `parameters` what came with it."""

    def __init__(self, name: str, parameters: Mapping[str, Any]) -> None:
        self.name = name
        self.parameters: Dict[str, Any] = dict(parameters)
        self.message = str(parameters.get("message") or f"the daemon refused: {name} {self.parameters or ''}".rstrip())
        for key in getattr(type(self), "__annotations__", {}):
            setattr(self, key, parameters.get(key))
        super().__init__(self.message)

    def name_jobs(self, numbers: Iterable[int]) -> None:
        super().name_jobs(numbers)
        self.message = self.parameters["message"] = str(self)

    def __reduce__(self) -> Any:
        return type(self), (self.name, self.parameters), self.__dict__


class InvalidSpec(CallError, ValueError):
    """A key of the specification is wrong. `path` is the key, `nearest` the one that was perhaps meant."""
    path: Optional[str]
    nearest: Optional[str]


class InvalidDependency(CallError, ValueError):
    """`after` names a job that is missing, or jobs wait for each other."""
    path: Optional[str]
    job: Optional[int]


class NoSuchJob(CallError, LookupError):
    id: int


class NoSuchDevice(CallError, LookupError):
    device: str


class InvalidSpan(CallError, ValueError):
    """The span of time ends before it begins."""


class NoSuchCheckpoint(CallError, LookupError):
    id: int


class NoSuchProfile(CallError, LookupError):
    id: int


class NoSuchSnapshot(CallError, LookupError):
    id: int


class NoSuchSchedule(CallError, LookupError):
    id: int


class NoSuchAttempt(CallError, LookupError):
    id: int
    attempt: int


class InvalidSweep(CallError, ValueError):
    path: Optional[str]


class NoSuchSweep(CallError, LookupError):
    id: int


class InvalidGroup(CallError, ValueError):
    pass


class NotPermitted(CallError, PermissionError):
    pass


class NotMovable(CallError):
    """The job cannot leave its device, or cannot run on the requested one."""
    id: int


class InvalidState(CallError):
    """The job's state does not allow what was asked."""
    id: int
    state: str


class QuotaExceeded(CallError):
    pass


class TooManyConnections(QuotaExceeded):
    """The daemon has taken no further connection, and nothing of the call. That passes: calls are made again for a minute."""


class StorageFailed(CallError):
    pass


class MessageTooLarge(CallError):
    """The call, or its reply, has more than 1 MiB."""


class InternalError(CallError):
    """A defect of traind."""


def subclasses() -> Dict[str, Type[CallError]]:
    """The class of each error by its name on the wire."""
    return {"io.traind." + each.__name__: each for each in CallError.__subclasses__()}


def from_reply(name: str, parameters: Mapping[str, Any]) -> CallError:
    """The exception for an error reply. Errors of Varlink itself, and those of a newer daemon, are plain CallErrors."""
    known = subclasses().get(name)
    if known is QuotaExceeded and str(parameters.get("message")).startswith(CONNECTIONS):  # else it is a limit of jobs
        known = TooManyConnections
    if known:
        return known(name, parameters)
    if name == "org.varlink.service.MethodNotFound":
        told = (f"the daemon does not know {parameters.get('method')}: the name is no method of io.traind, or the daemon is older "
                "than this package, and a restart helps")
        return CallError(name, {**parameters, "message": told})
    if name == "org.varlink.service.InvalidParameter":
        return CallError(name, {**parameters, "message": f"the daemon refused the parameter \"{parameters.get('parameter')}\""})
    return CallError(name, parameters)
