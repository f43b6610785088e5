"""checkpoints.py: a job that makes room: it saves its state when it is asked to, and goes on from there later.

    path = traind.last_checkpoint("model.pt")           # None: from the beginning
    ...
    if traind.should_checkpoint():
        with traind.checkpoint("model.pt") as path:
            torch.save(state, path)                     # then the process ends with status 75: "queue me again"

The job says that it does so by `preemptible=True`, or by the signal that it wants (docs/command-jobs.md, "Making room").
"""
from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import threading
import warnings
from typing import Iterator, Optional

from .reports import in_job

REQUEUE = 75  # exit status: "saved, please queue me again"
SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)  # those of `checkpoint_signal` that have no other use in Python

_asked = False
_listening = False


def _take_signal(number: int, frame: object) -> None:
    global _asked
    _asked = True


def listen() -> None:
    """Lets the signals that ask for a checkpoint set should_checkpoint(), unless the program handles them. A signal that comes
    before this ends the process, which is as good: nothing is lost that was not saved."""
    global _listening
    if _listening or not in_job():
        return
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("only the main thread can take signals: call traind.listen() there, before other threads begin")
    for number in SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _take_signal)
    _listening = True
    os.register_at_fork(after_in_child=_forget)


def _forget() -> None:
    """In a child: traind asks it for nothing, and SIGTERM has to end it, as multiprocessing.Pool.terminate() expects."""
    global _asked, _listening
    for number in SIGNALS:
        if signal.getsignal(number) is _take_signal:
            signal.signal(number, signal.SIG_DFL)
    _asked = _listening = False


def should_checkpoint() -> bool:
    """Whether traind has asked this job to save its state and leave. Outside of a job: False."""
    listen()
    return _asked


def checkpoint_folder() -> pathlib.Path:
    """The folder that all attempts of this job share; outside of a job the present one."""
    if not in_job():
        return pathlib.Path()
    shared = os.environ.get("TRAIND_CHECKPOINT_DIRECTORY")
    if shared:
        return pathlib.Path(shared)
    warnings.warn("this job keeps no checkpoints: what it saves is lost with this attempt. Submit it with preemptible=True, or with "
                  "retry={\"limit\": 1}", stacklevel=3)
    return pathlib.Path(os.environ["TRAIND_ATTEMPT_DIRECTORY"])


def last_checkpoint(name: str = "checkpoint") -> Optional[pathlib.Path]:
    """What checkpoint(name) has saved last, in this attempt or in one before. None: nothing yet."""
    listen()
    path = checkpoint_folder() / name
    for each in (path, _beside(path, ".old")):  # killed while a folder was replaced
        if each.exists():
            return each
    return None


@contextlib.contextmanager
def checkpoint(name: str = "checkpoint") -> Iterator[pathlib.Path]:
    """Gives the path of a file, or folder, to be written. When the block is through, that replaces the checkpoint of this
    name; one that was not finished replaces nothing. If traind has asked the job to leave, the process then ends with
    status 75, by SystemExit, and is queued again."""
    path = checkpoint_folder() / name
    new = _beside(path, ".new")
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove(new)
    yield new
    if not new.exists():
        raise FileNotFoundError(f"the block of traind.checkpoint({name!r}) wrote nothing to the path that it was given")
    _replace(new, path)
    if should_checkpoint():
        raise SystemExit(REQUEUE)


def _beside(path: pathlib.Path, ending: str) -> pathlib.Path:
    return path.with_name(path.name + ending)


def _replace(new: pathlib.Path, path: pathlib.Path) -> None:
    """Renames it, so that a kill or a power cut at any moment leaves the old one or the new one, whole."""
    old = _beside(path, ".old")
    for each in [new, *new.rglob("*")] if new.is_dir() else [new]:
        if each.is_file() or each.is_dir():  # not a link to what is not there, or a pipe
            _sync(each)
    if path.is_dir() or (new.is_dir() and path.exists()):  # neither can be replaced by the other, or by a folder, in one step
        _remove(old)
        path.rename(old)
    new.replace(path)
    _sync(path.parent)
    _remove(old)


def _sync(path: pathlib.Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: pathlib.Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
