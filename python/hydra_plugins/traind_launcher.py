"""traind_launcher.py: a launcher of Hydra: every point of a --multirun is a job of traind. Needs hydra-core, cloudpickle.

    defaults:
      - override hydra/launcher: traind

Hydra finds this module by its folder's name, and loads it at the start of every program: traind/hydra.py has the rest.
"""
import dataclasses
from typing import Any, Dict, Optional, Sequence

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf


@dataclasses.dataclass
class LauncherConfig:
    """What a configuration may say at hydra.launcher."""
    _target_: str = "hydra_plugins.traind_launcher.TraindLauncher"
    max_jobs: int = 32  # in traind's hands at once; it runs as many as fit
    spec: Dict[str, Any] = dataclasses.field(default_factory=dict)  # keys of each job's specification
    socket: Optional[str] = None


ConfigStore.instance().store(group="hydra/launcher", name="traind", node=LauncherConfig, provider="traind")


class TraindLauncher(Launcher):
    def __init__(self, max_jobs: int, spec: Any, socket: Optional[str]) -> None:
        self.max_jobs, self.socket = max_jobs, socket
        self.spec = OmegaConf.to_container(OmegaConf.create(spec), resolve=True)

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.context, self.function, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        from traind.hydra import launch
        return launch(self, job_overrides, initial_job_idx)
