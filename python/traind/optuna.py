"""optuna.py: the trials of an Optuna study as jobs: ask, submit, prune by what they report, tell. Needs optuna.

    def job(trial):
        lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
        return traind.submit(["python3", "train.py", f"--lr={lr}"])

    traind.optuna.optimize(study, job, n_trials=40, metric="validation_loss")

The jobs know nothing of Optuna and need no storage that all of them reach: they report metrics, as native jobs do anyway.
"""
from __future__ import annotations

import contextlib
import math
import threading
import warnings
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from typing import Callable, Optional, Sequence, Union

import optuna
from optuna.trial import Trial, TrialState

from .errors import TraindError
from .interruption import Interruption
from .jobs import Job, cancel_unless_ended, may_run_on

MakeJob = Callable[[Trial], Job]


def optimize(study: optuna.Study, job: MakeJob, n_trials: int, *, metric: Union[str, Sequence[str]], n_jobs: int = 8) -> None:
    """Runs the trials, at most `n_jobs` at once. `job` submits that of a trial. `metric`: the value of a trial is the last one
    that its job reports; a study of several directions takes as many metrics, and prunes nothing.

    A pruned trial's job is cancelled. One whose job does not end well, or reports nothing, fails. After an error or an
    interrupt all jobs that run are cancelled."""
    metrics = [metric] if isinstance(metric, str) else list(metric)
    if len(metrics) != len(study.directions):
        raise ValueError(f"the study has {len(study.directions)} directions, and metric names {len(metrics)}: {metric!r}")
    search = Search(study, job, metrics)
    with ThreadPoolExecutor(n_jobs, thread_name_prefix="traind") as threads:
        trials = [threads.submit(search.run_trial) for _ in range(n_trials)]
        try:
            for trial in as_completed(trials):
                trial.result()
        except BaseException:
            search.interruption.set()
            raise


class Search:
    """What the threads of one optimize() share."""

    def __init__(self, study: optuna.Study, make_job: MakeJob, metrics: Sequence[str]) -> None:
        self.study, self.make_job, self.metrics = study, make_job, metrics
        self.turn = threading.Lock()  # suggestions follow each other
        self.interruption = Interruption()  # each thread cancels its own job then

    def run_trial(self) -> None:
        with self.turn:
            if self.interruption.is_set():
                return
            trial = self.study.ask()
            job = self.start(trial)
        if job is None:
            return
        try:
            trial.set_user_attr("job", job.id)
            with self.interruption.here():
                values = self.follow(trial, job)
        except optuna.TrialPruned:
            cancel(job)
            self.study.tell(trial, state=TrialState.PRUNED)
        except BaseException as error:
            cancel(job)
            self.fail(trial, error)
        else:
            self.study.tell(trial, values, state=None if values else TrialState.FAIL)

    def start(self, trial: Trial) -> Optional[Job]:
        """The trial's job; None: the trial has ended without one."""
        try:
            with self.interruption.here():
                job = self.make_job(trial)
            if not isinstance(job, Job):
                raise TypeError(f"the function that makes a trial's job returned {job!r}; it must return the job that "
                                "traind.submit() gives")
            return job
        except optuna.TrialPruned:
            self.study.tell(trial, state=TrialState.PRUNED)
        except BaseException as error:
            self.fail(trial, error)
        return None

    def fail(self, trial: Trial, error: BaseException) -> None:
        """Ends the search by the error, which is what interrupted it where it was interrupted before."""
        interrupted = isinstance(error, CancelledError) and self.interruption.is_set()
        self.interruption.set()
        self.study.tell(trial, state=TrialState.FAIL)
        if not interrupted:
            raise error

    def follow(self, trial: Trial, job: Job) -> Optional[Sequence[float]]:
        """The trial's values; None: it has failed. TrialPruned: the pruner has ended it."""
        last = dict.fromkeys(self.metrics, math.nan)
        with contextlib.closing(job.follow_metrics(self.metrics)) as rows:  # so that its connection is free to cancel the job
            for row in rows:
                last[row.name] = row.value
                if len(self.metrics) == 1 and not math.isnan(row.value):
                    trial.report(row.value, row.step)
                    if trial.should_prune():
                        raise optuna.TrialPruned
        status = job.wait()
        missing = [name for name, value in last.items() if math.isnan(value)]
        if status.state == "done" and not missing:
            return list(last.values())
        why = status.reason if status.state != "done" else f"it reported no number as {' and '.join(missing)}"
        warnings.warn(f"trial {trial.number} has failed: job {job.id} is {status.state}: {why}")
        return None


def cancel(job: Job) -> None:
    try:
        cancel_unless_ended(job)
    except TraindError as error:
        warnings.warn(may_run_on([job], error))
