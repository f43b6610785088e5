"""executor.py: functions as jobs, by the interface of concurrent.futures.

    from traind.executor import Executor

    with Executor(resources={"memory": "1 GiB"}) as executor:
        print(list(executor.map(evaluate, candidates)))
"""
from __future__ import annotations

import collections
import concurrent.futures
import functools
import os
import pathlib
import pickle
import shutil
import site
import sys
import tempfile
import threading
import warnings
import weakref
from typing import Any, Callable, Deque, Dict, Optional, Tuple, TypeVar

from . import device_guess, task
from .errors import JobFailed, NoSuchJob, TraindError
from .interruption import Interruption
from .jobs import Job, cancel_unless_ended, last_output, may_run_on, submit
from .specification import shell_environment
from .status import Status

Result = TypeVar("Result")
OWN_KEYS = ("command", "model", "data", "train")  # of the specification: a call is a command of its own
NO_RESULT = ", but the function left its program, as by sys.exit(), and returned nothing"
WORKERS = 32  # each waits on a connection, of which a user has ConnectionsPerUser (64)
STACK_LEVEL = 5  # of a warning: who ended the executor, more or less


class RemoteError(Exception):
    """The traceback of an exception in its job: the cause of that exception here."""

    def __str__(self) -> str:
        return f"in the job:\n{self.args[0]}"


def function_name(function: Callable[..., Any]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{getattr(function, '__module__', None) or '?'}.{name}"


def main_module() -> Dict[str, str]:
    """How a new process imports what is `__main__` here, as multiprocessing does; its keys are those of spawn.prepare()."""
    main = sys.modules["__main__"]
    name, path = getattr(main.__spec__, "name", None), getattr(main, "__file__", None)
    if name:
        return {"init_main_from_name": name}
    return {"init_main_from_path": os.path.abspath(path)} if path else {}


def folder_of_functions() -> Dict[str, str]:
    """Where functions run: here, if this folder is still there. Its key is that of spawn.prepare()."""
    try:
        return {"dir": os.getcwd()}
    except FileNotFoundError:
        return {}


def module_path() -> Optional[str]:
    """PYTHONPATH for a job, where this package does not lie where each Python looks."""
    here = str(pathlib.Path(__file__).resolve().parent.parent)
    given = os.environ.get("PYTHONPATH")
    if here in [*site.getsitepackages(), site.getusersitepackages(), *(given or "").split(os.pathsep)]:
        return given
    return os.pathsep.join(filter(None, (here, given)))


class Call:
    """One call of a function as a job, in a folder of its own: the call lies there, later its result."""

    def __init__(self, folder: pathlib.Path, called: str, function: Callable[[], Any]) -> None:
        self.folder, self.called = folder, called
        pickler = task.pickler()
        data = pickler.dumps(function)
        needs_main = pickler is pickle and b"__main__" in data
        preparation = {"sys_path": sys.path, **folder_of_functions(), **(main_module() if needs_main else {})}
        (folder / task.CALL).write_bytes(pickle.dumps(preparation) + data)

    def submit(self, socket: Optional[str], keys: Dict[str, Any]) -> Job:
        environment = {**keys.get("environment", {})}
        path = module_path()
        if path:
            environment.setdefault("PYTHONPATH", path)
        guess = {} if device_guess.names_device(keys) else device_guess.of_functions()
        device = {"device": {**(keys.get("device") or {}), **guess}} if guess else {}
        shell = {**keys.get("shell_environment", shell_environment()), "TRAIND_TASK": str(self.folder)}
        return submit([sys.executable, "-m", "traind.task", self.called], socket=socket,
                      **{"name": self.called.rsplit(".", 1)[-1][:128], **keys, **device, "environment": environment,
                         "shell_environment": shell})

    def result(self, job: Job, status: Status) -> Any:
        """What the function of a job that has ended returned. Raises what it raised, or JobFailed where the job ended otherwise. The
        folder goes."""
        try:
            succeeded, value, text = pickle.loads((self.folder / task.RESULT).read_bytes())
        except FileNotFoundError:
            raise JobFailed(status, last_output(job), NO_RESULT if status.state == "done" else "") from None
        finally:
            self.remove()
        if not succeeded:
            value.__cause__ = RemoteError(text)
            raise value
        return value

    def remove(self) -> None:
        """Arguments and results may be large, and an executor may make many calls."""
        shutil.rmtree(self.folder, ignore_errors=True)


Waiting = Tuple["concurrent.futures.Future[Any]", Call, Dict[str, Any]]  # a call that is no job yet, with its job's keys


def remove_empty(folder: str) -> None:
    """Unless it has files that a job may need: each call removes its own."""
    try:
        os.rmdir(folder)
    except OSError:
        pass


class Executor(concurrent.futures.Executor):
    """Runs each call as a job. `max_workers`: how many jobs are in traind's hands at once; it runs as many as fit. `keys`:
    keys of each job's specification.

    Function, arguments and result are pickled; a script's own functions need the usual `if __name__ == "__main__"`."""

    def __init__(self, max_workers: int = WORKERS, *, socket: Optional[str] = None, **keys: Any) -> None:
        if keys.get("snapshot"):
            raise ValueError("functions are imported from where they lie, so a snapshot would freeze nothing; submit() a "
                             "command with snapshot=True")
        for name in OWN_KEYS:
            if name in keys:
                raise ValueError(f"{name} cannot be set: each job of an executor runs a function; traind.submit() takes {name}")
        self._socket, self._keys = socket, keys
        self._threads = concurrent.futures.ThreadPoolExecutor(max_workers, thread_name_prefix="traind")
        self._folder = tempfile.mkdtemp(prefix="traind-tasks.")
        weakref.finalize(self, remove_empty, self._folder)
        self._lock = threading.Lock()  # never held while the daemon is asked
        self._turn = threading.Lock()  # to submit a job
        self._interruption = Interruption()
        self._waiting: Deque[Waiting] = collections.deque()
        self._left: Dict[Job, Call] = {}  # could not be cancelled when their wait failed, so they may run
        self._closed = False

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Result]:
        return self.submit_named(function_name(fn), functools.partial(fn, *args, **kwargs))

    def submit_named(self, called: str, function: Callable[[], Result], /, **keys: Any) -> concurrent.futures.Future[Result]:
        """As submit(). `called`: the name by which traind learns what such calls take. `keys`: of this job alone."""
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")  # in the words of concurrent.futures
        folder = pathlib.Path(tempfile.mkdtemp(dir=self._folder))
        try:
            call = Call(folder, called, function)
            future: concurrent.futures.Future[Result] = concurrent.futures.Future()
            future.add_done_callback(lambda ended: call.remove() if ended.cancelled() else None)
            with self._lock:
                self._threads.submit(self._run_next)
                self._waiting.append((future, call, {**self._keys, **keys}))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return future

    def _take_next(self) -> Optional[Waiting]:
        with self._lock:
            while self._waiting:
                taken = self._waiting.popleft()
                if taken[0].set_running_or_notify_cancel():
                    return taken
        return None

    def _run_next(self) -> None:
        """Runs the call that waits longest: jobs are submitted in the order of the calls, whichever thread comes first."""
        with self._turn:
            taken = self._take_next()
            if not taken:
                return
            future, call, keys = taken
            try:
                with self._interruption.here():
                    job = call.submit(self._socket, keys)
            except BaseException as error:  # noqa: B902 - it belongs to whoever asks for the result
                call.remove()
                future.set_exception(error)
                return
        status = self._await(future, call, job)
        if status and not future.done():
            try:
                future.set_result(call.result(job, status))
            except BaseException as error:  # noqa: B902
                future.set_exception(error)

    def _await(self, future: concurrent.futures.Future[Any], call: Call, job: Job) -> Optional[Status]:
        """Waits for the job's end. One that cannot be waited for is cancelled: nobody would get its result. None: the future has the
        error, and the job is gone, or may run."""
        try:
            with self._interruption.here():
                return job.wait()
        except concurrent.futures.CancelledError:  # by terminate()
            pass
        except BaseException as error:  # noqa: B902
            future.set_exception(error)
        try:
            cancel_unless_ended(job)
            status = job.wait()
            if future.done():
                call.remove()
            return status
        except BaseException as error:  # noqa: B902
            if isinstance(error, NoSuchJob):
                call.remove()
            else:
                with self._lock:
                    self._left[job] = call
            if not future.done():
                future.set_exception(error)
        return None

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._closed = True
        if cancel_futures:
            with self._lock:
                waiting = [*self._waiting]
                self._waiting.clear()
            for future, _, _ in waiting:
                if future.cancel():
                    future.set_running_or_notify_cancel()  # else wait() and as_completed() would wait for it for ever
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        if wait:
            self._end_left()
            remove_empty(self._folder)

    def _end_left(self) -> None:
        """Tries once more to cancel what may run. The files of what cannot be cancelled stay."""
        while self._left:
            job, call = next(iter(self._left.items()))
            try:
                cancel_unless_ended(job)
                job.wait()
            except NoSuchJob:
                pass
            except TraindError as error:  # it would be that of the others, too
                warnings.warn(f"{may_run_on(self._left, error)}. Files of theirs stay in {self._folder}", stacklevel=STACK_LEVEL)
                return
            call.remove()
            del self._left[job]

    def terminate(self) -> None:
        """Cancels all that has not ended, jobs included, and waits for their end."""
        self._interruption.set()  # the threads that wait cancel their jobs: they free the connections for that
        self.shutdown(cancel_futures=True)

    def __exit__(self, kind: Any, *_: object) -> None:
        """After an error, or an interrupt, nobody will want the results."""
        if kind:
            self.terminate()
        else:
            self.shutdown()
