"""traind: jobs of the daemon traind from Python, and what a job says of itself. Standard library alone.

    import traind
    job = traind.submit(["python3", "train.py"], name="first")
    print(job.wait().metrics)

    traind.report(step=10, loss=0.5)  # in train.py

docs/python.md describes it.
"""
from . import errors
from .checkpoints import checkpoint, last_checkpoint, listen, should_checkpoint
from .errors import CallError, DaemonUnreachable, JobFailed, TraindError
from .jobs import Job, follow, metrics, run, submit, wait
from .metric_rows import Metric, Metrics
from .reports import in_job, report
from .snapshot import SnapshotFailed
from .status import Status
from .torch_model import ModelExportFailed
from .varlink import call

__version__ = "0.1.0"
__all__ = ["CallError", "DaemonUnreachable", "Job", "JobFailed", "Metric", "Metrics", "ModelExportFailed", "SnapshotFailed", "Status",
           "TraindError", "call", "checkpoint", "errors", "follow", "in_job", "last_checkpoint", "listen", "metrics", "report", "run",
           "should_checkpoint", "submit", "wait"]
