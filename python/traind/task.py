"""task.py: the program of a job that calls one function: python3 -m traind.task NAME. TRAIND_TASK is the folder with the call.

The folder is that of Call (executor.py), which reads the result. NAME only tells people, and traind, which function it is:
traind learns the memory and time of each name.
"""
from __future__ import annotations

import multiprocessing.spawn
import os
import pathlib
import pickle
import sys
import traceback
from typing import Any, Callable, Tuple

CALL, RESULT = "call", "result"


def run(folder: pathlib.Path) -> int:
    """Calls the function and stores what it returns, or what it raises; the exit status. SystemExit passes through: a
    function may leave to make room."""
    result = folder / RESULT
    result.unlink(missing_ok=True)  # of an attempt before
    function = load(folder / CALL)
    try:
        outcome: Tuple[bool, Any, str] = (True, function(), "")
    except Exception as error:  # noqa: B902 - the caller of the function handles it
        traceback.print_exc()
        outcome = (False, error, traceback.format_exc())
    try:
        data = pickler().dumps(outcome)
        if not outcome[0]:
            pickle.loads(data)  # many an exception cannot be made of its arguments
    except Exception as error:  # noqa: B902 - pickle raises whatever the object's own code does
        what = "the result" if outcome[0] else f"the error ({outcome[1]!r})"
        outcome = (False, TypeError(f"{what} of the job cannot be sent back: {error}"), outcome[2] or traceback.format_exc())
        print(outcome[1], file=sys.stderr)
        data = pickle.dumps(outcome)
    new = result.with_suffix(".new")
    new.write_bytes(data)
    new.replace(result)
    return 0 if outcome[0] else 1


def load(path: pathlib.Path) -> Callable[[], Any]:
    with open(path, "rb") as file:
        multiprocessing.spawn.prepare(pickle.load(file))
        function: Callable[[], Any] = pickle.load(file)
        return function


def pickler() -> Any:
    """cloudpickle where it is installed: functions of a notebook, and those without a name, go along, too. Else pickle."""
    try:
        import cloudpickle
    except ImportError:
        return pickle
    return cloudpickle


if __name__ == "__main__":
    sys.exit(run(pathlib.Path(os.environ["TRAIND_TASK"])))
