"""traind: jobs of the daemon traind from Python. Standard library alone.

    import traind
    job = traind.submit(["python3", "train.py"], name="first")
    print(job.wait().metrics)

docs/python.md describes it.
"""
from . import errors
from .errors import CallError, DaemonUnreachable, JobFailed, TraindError
from .jobs import Job, follow, metrics, run, submit, wait
from .metrics import Metric, Metrics
from .status import Status
from .varlink import call

__version__ = "0.1.0"
__all__ = ["CallError", "DaemonUnreachable", "Job", "JobFailed", "Metric", "Metrics", "Status", "TraindError", "call", "errors",
           "follow", "metrics", "run", "submit", "wait"]
