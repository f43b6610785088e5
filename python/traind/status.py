"""status.py: what the daemon tells of a job. proto/io.traind.varlink says what each member means."""
from __future__ import annotations

import dataclasses
import math
from typing import Any, Dict, Mapping, Optional, Type, TypeVar

FINAL_STATES = ("done", "failed", "cancelled")

Record = TypeVar("Record")


def read(record: Type[Record], reply: Mapping[str, Any]) -> Record:
    """The dataclass of a reply. A member that the reply lacks is None; one that this package does not know is left out."""
    return record(**{field.name: reply.get(field.name) for field in dataclasses.fields(record)})  # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True)
class Progress:
    step: int
    steps: Optional[int]
    epoch: Optional[float]
    epochs: Optional[int]
    loss: Optional[float]
    samples_per_second: Optional[float]
    seconds_left: Optional[float]
    fraction: Optional[float]


@dataclasses.dataclass(frozen=True)
class Best:
    metric: str
    value: float
    step: int
    epoch: Optional[float]


@dataclasses.dataclass(frozen=True)
class Status:
    """A job as it is at one moment. Where its number is wanted, it stands for that."""
    id: int
    name: str
    kind: str  # native, command
    state: str  # queued, starting, running, preempting, paused, done, failed, cancelled
    user: str
    priority: int
    device: Optional[str]
    reason: Optional[str]  # one sentence: why it runs where it runs, why it waits, or how it ended
    wait_reason: Optional[str]
    attempt: int
    submitted: float
    started: Optional[float]
    ended: Optional[float]
    ran: Optional[float]
    exit_status: Optional[int]
    progress: Optional[Progress]
    metrics: Dict[str, float]  # the last value of each; NaN: it is not finite
    best: Optional[Best]
    held: bool
    group: Optional[str]
    sweep: Optional[int]
    pinned: Optional[str]
    queue_position: Optional[int]
    expected_start: Optional[float]

    @classmethod
    def from_reply(cls, reply: Mapping[str, Any]) -> Status:
        progress, best = reply.get("progress"), reply.get("best")
        metrics = {**reply["metrics"], **dict.fromkeys(reply.get("nonfinite") or (), math.nan)}
        return read(cls, {**reply, "progress": progress and read(Progress, progress), "best": best and read(Best, best),
                          "metrics": metrics})

    def __index__(self) -> int:
        return self.id

    @property
    def is_final(self) -> bool:
        """Whether it has ended, for good or ill."""
        return self.state in FINAL_STATES
