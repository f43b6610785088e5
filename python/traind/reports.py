"""reports.py: what a job tells of itself: metrics and how far it is (docs/command-jobs.md, "Metrics")."""
from __future__ import annotations

import json
import os
import re
import time
import warnings
from typing import Any, Dict, Mapping, Optional, Set, SupportsFloat

from .values import is_utf8

METRICS_MAX = 256  # of one report
NAME_BYTES_MAX = 128
STEP_MAX = 9_000_000_000_000_000
KEYS = ("epoch", "progress")  # of a report, beside its step and its metrics
RESERVED = ("type", "n", "time")  # members of the spool's other records
TOLD_ANYWAY = ("step", "epoch")  # of what a trainer logs: the report has them
CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f]")


def in_job() -> bool:
    """Whether this process belongs to a job of traind."""
    return bool(os.environ.get("TRAIND_SPOOL"))


def number(name: str, value: SupportsFloat) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise ValueError(f"{name} is {value!r}; {'it must be' if name in KEYS else 'a metric is'} a number") from error


def is_step(value: object) -> bool:
    """Whether it is a whole number that a step may be; of any type, such as a tensor's."""
    try:
        return bool(0 <= value <= STEP_MAX and value == int(value))  # type: ignore
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return False


_left_out: Set[str] = set()  # names of which log_report() has told


def is_name(name: object) -> bool:
    return isinstance(name, str) and is_utf8(name) and name not in RESERVED and 0 < len(name.encode()) <= NAME_BYTES_MAX \
        and not CONTROL_CHARACTERS.search(name)


def check_name(name: object) -> None:
    if not is_name(name):
        raise ValueError(f"{name!r} names no metric: a name is a text of 1 to {NAME_BYTES_MAX} bytes in UTF-8 without control "
                         "characters, and none of " + ", ".join(RESERVED))


def line(step: Optional[int], epoch: Optional[float], progress: Optional[float], metrics: Dict[str, float]) -> bytes:
    """The report as one line of the spool; ValueError says what no line can say."""
    for name in metrics:
        check_name(name)
    if len(metrics) > METRICS_MAX:
        raise ValueError(f"{len(metrics)} metrics are too many for one report, which has at most {METRICS_MAX}")
    if metrics and step is None:
        raise ValueError("metrics need the step that they were measured at: report(step=10, loss=0.5)")
    if not metrics and progress is None:
        raise ValueError("nothing to report: give metrics, as in report(step=10, loss=0.5), or progress=0.4")
    if step is not None and not is_step(step):
        raise ValueError(f"step is {step!r}; it must be a whole number of at least 0")
    if progress is not None and not 0 <= progress <= 1:
        raise ValueError(f"progress is {progress!r}; it must be a number from 0 to 1")
    given = {"step": None if step is None else int(step), "epoch": epoch, "progress": progress, "time": time.time()}
    members = {key: value for key, value in given.items() if value is not None}
    return json.dumps({**members, **metrics}).encode() + b"\n"


def report(values: Optional[Mapping[str, SupportsFloat]] = None, *, step: Optional[int] = None, epoch: Optional[float] = None,
           progress: Optional[float] = None, **metrics: SupportsFloat) -> None:
    """Reports metrics of a step, as in report(step=10, loss=0.5), or the part of the job that is done, as in
    report(progress=0.4). `values`: metrics whose names are no Python names. Any process of the job may report.

    A metric is whatever float() takes, such as a tensor of one element. Outside of a job the arguments are checked, and
    nothing else happens: a script runs the same by hand."""
    try:
        rest: Dict[str, Any] = dict(values or {})
    except (TypeError, ValueError) as error:
        raise ValueError(f"{values!r} is no mapping of names to numbers: give metrics as in report({{\"loss\": 0.5}}, step=10)") from error
    step, epoch, progress = (take(rest, name, given) for name, given in (("step", step), ("epoch", epoch), ("progress", progress)))
    numbers = {name: number(name, value) for name, value in {**rest, **metrics}.items()}
    data = line(step, None if epoch is None else number("epoch", epoch),
                None if progress is None else number("progress", progress), numbers)
    if not in_job():
        return
    try:
        append(os.environ["TRAIND_SPOOL"], data)
    except OSError as error:  # a full disk is no reason to lose the training
        warnings.warn(f"a report was not stored: {error}", stacklevel=2)


def take(values: Dict[str, Any], name: str, given: Any) -> Any:
    """What is no metric, whether it is an argument of report() or stands among the values."""
    if name not in values:
        return given
    if given is not None:
        raise ValueError(f"{name} is given twice, as {given!r} and among the values as {values[name]!r}")
    return values.pop(name)


def log_report(values: Mapping[str, SupportsFloat], *, step: int, epoch: Optional[float], progress: Optional[float]) -> None:
    """Reports what a trainer logs. The names are its user's, and none of them may end the training: what no metric can be called
    is left out, and a warning says so once."""
    metrics = {}
    for name, value in values.items():
        if is_name(name) and name not in ("progress", *TOLD_ANYWAY):
            metrics[name] = value
        elif name not in TOLD_ANYWAY and name not in _left_out:
            _left_out.add(name)
            warnings.warn(f"{name!r} is logged, and no metric of traind can be called so: it is left out", stacklevel=3)
    names = list(metrics)
    for first in range(0, len(names), METRICS_MAX):
        report({name: metrics[name] for name in names[first:first + METRICS_MAX]}, step=step, epoch=epoch, progress=progress)


def append(spool: str, data: bytes) -> None:
    """One write, so that lines of several processes stay whole. It goes to the spool and not to descriptor 3, which a child
    process may have closed, or use for something else."""
    descriptor = os.open(spool, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOCTTY | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
