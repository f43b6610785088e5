"""mlflow.py: jobs as runs of MLflow, through MLflow's own client, wherever its tracking URI points. Needs mlflow.

    import traind.mlflow
    traind.mlflow.log(12, 13, experiment="fashion")

A run has the job's metrics, the keys of `model` and `train` as parameters, and how the job ended. Logging a job again adds
what is new.
"""
from __future__ import annotations

import json
import math
import operator
import re
from typing import Any, Dict, Iterator, List, Mapping, Optional, SupportsIndex, Tuple

import mlflow
from mlflow.entities import Metric, Param, Run, RunTag

from . import varlink
from .status import FINAL_STATES

JOB_TAG, ROWS_TAG = "traind.job", "traind.rows"  # which job the run is, and the cursor behind the rows that it has
ROWS, PARAMETERS = 1000, 100  # the most that MLflow takes at once
VALUE_BYTES = 500  # of a parameter; more is of no use in a table
ENDINGS = {"done": "FINISHED", "failed": "FAILED", "cancelled": "KILLED"}


def log(*jobs: SupportsIndex, experiment: str = "traind", client: Optional[mlflow.MlflowClient] = None,
        socket: Optional[str] = None) -> List[str]:
    """Logs the jobs, each as a run of the experiment, which is made if it is missing. Returns the runs' ids."""
    client = client or mlflow.MlflowClient()
    found = client.get_experiment_by_name(experiment)
    where = found.experiment_id if found else client.create_experiment(experiment)
    return [log_job(client, where, operator.index(job), socket or getattr(job, "socket", None)) for job in jobs]


def log_job(client: mlflow.MlflowClient, experiment: str, number: int, socket: Optional[str]) -> str:
    with varlink.Connection(socket) as connection:
        shown = connection.call("Show", id=number)  # before the rows: if it has ended by now, they are all
        job = shown["job"]
        run = find_run(client, experiment, job) or make_run(client, experiment, shown)
        identity: str = run.info.run_id
        after = int(run.data.tags.get(ROWS_TAG, 0))
        while True:
            page = connection.call("Metrics", id=number, after=after, limit=ROWS)
            if not page["rows"]:
                break
            after = page["next"]
            client.log_batch(identity, [metric_of(row) for row in page["rows"]], tags=[RunTag(ROWS_TAG, str(after))])
        if job["state"] in FINAL_STATES and run.info.status == "RUNNING":
            client.set_terminated(identity, ENDINGS[job["state"]], milliseconds(job["ended"]))
    return identity


def identity_of(job: Mapping[str, Any]) -> str:
    """Another daemon has a job of the same number, but not of the same moment."""
    return f"{job['id']} {job['submitted']:.6f}"


def find_run(client: mlflow.MlflowClient, experiment: str, job: Mapping[str, Any]) -> Optional[Run]:
    runs = client.search_runs([experiment], f"tags.`{JOB_TAG}` = '{identity_of(job)}'", max_results=1)
    return runs[0] if runs else None


def make_run(client: mlflow.MlflowClient, experiment: str, shown: Mapping[str, Any]) -> Run:
    job = shown["job"]
    run = client.create_run(experiment, milliseconds(job["started"] or job["submitted"]), {JOB_TAG: identity_of(job)},
                            f"{job['id']}-{job['name']}")
    parameters = [Param(re.sub(r"[^\w.\- /]", "_", path), text) for path, text in flatten(
        {key: value for key, value in shown["spec"].items() if key in ("model", "train")})]
    for first in range(0, len(parameters), PARAMETERS):
        client.log_batch(run.info.run_id, params=parameters[first:first + PARAMETERS])
    return run


def flatten(keys: Mapping[str, Any], prefix: str = "") -> Iterator[Tuple[str, str]]:
    for key, value in keys.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{key}.")
        elif value is not None:
            text = value if isinstance(value, str) else json.dumps(value)
            if len(text) <= VALUE_BYTES:
                yield prefix + key, text


def metric_of(row: Mapping[str, Any]) -> Metric:
    value = math.nan if row.get("value") is None else row["value"]
    return Metric(re.sub(r"[^\w.\- /]", "_", row["name"]), value, milliseconds(row["time"]), row["step"])


def milliseconds(seconds: float) -> int:
    return round(1000 * seconds)
