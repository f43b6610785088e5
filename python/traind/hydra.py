"""hydra.py: the points of Hydra's --multirun as jobs (hydra_plugins/traind_launcher.py is the plugin)."""
from __future__ import annotations

import functools
import logging
import os
import pathlib
from concurrent.futures import Future
from typing import Any, List, Sequence

from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus, configure_log, filter_overrides, run_job, setup_globals
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict

from .executor import Executor, function_name

log = logging.getLogger(__name__)
NAME_BYTES_MAX = 128


class PointFailed(Exception):
    """A point whose function raised: its job fails, and what Hydra wants to know of it comes back all the same."""

    def __init__(self, outcome: JobReturn) -> None:
        super().__init__(outcome)
        self.outcome = outcome


def run_point(context: HydraContext, function: TaskFunction, config: DictConfig, singletons: Any, overrides: List[str],
              number: int) -> JobReturn:
    """Within the job: what Hydra's own launcher does with a point."""
    Singleton.set_state(singletons)
    setup_globals()
    point = context.config_loader.load_sweep_config(config, overrides)
    with open_dict(point):
        point.hydra.job.id = os.environ["TRAIND_JOB"]
        point.hydra.job.num = number
    outcome = run_job(hydra_context=context, task_function=function, config=point, job_dir_key="hydra.sweep.dir",
                      job_subdir_key="hydra.sweep.subdir")
    if outcome.status != JobStatus.COMPLETED:
        raise PointFailed(outcome) from outcome._return_value
    return outcome


def launch(launcher: Any, job_overrides: Sequence[Sequence[str]], first: int) -> List[JobReturn]:
    """Submits all points, and waits for all of them. A point that fails ends no other."""
    check_cloudpickle()
    setup_globals()
    config = launcher.config
    configure_log(config.hydra.hydra_logging, config.hydra.verbose)
    pathlib.Path(str(config.hydra.sweep.dir)).mkdir(parents=True, exist_ok=True)
    log.info(f"Launching {len(job_overrides)} jobs of traind")
    run = functools.partial(run_point, launcher.context, launcher.function, config, Singleton.get_state())
    called, futures = function_name(launcher.function), []
    with Executor(launcher.max_jobs, socket=launcher.socket, **launcher.spec) as executor:
        for number, overrides in enumerate(job_overrides, first):
            told = " ".join(filter_overrides(overrides))
            log.info(f"\t#{number} : {told}")
            name = launcher.spec.get("name") or short(f"{config.hydra.job.name} {told}")
            futures.append(executor.submit_named(called, functools.partial(run, list(overrides), number), name=name))
        return [await_point(future, overrides) for future, overrides in zip(futures, job_overrides)]


def await_point(future: Future[JobReturn], overrides: Sequence[str]) -> JobReturn:
    """What the job has sent back, or that it failed without."""
    try:
        return future.result()
    except PointFailed as error:
        return error.outcome
    except Exception as error:  # noqa: B902 - Hydra raises it where the value is asked for
        outcome = JobReturn()
        outcome.overrides = list(overrides)
        outcome.status = JobStatus.FAILED
        outcome.return_value = error
        return outcome


def short(name: str) -> str:
    return name.encode()[:NAME_BYTES_MAX].decode(errors="ignore")


def check_cloudpickle() -> None:
    try:
        import cloudpickle  # noqa: F401
    except ImportError as error:
        raise ImportError("the launcher traind sends the program's function to its jobs by cloudpickle, which is not here: "
                          "pip install cloudpickle") from error
