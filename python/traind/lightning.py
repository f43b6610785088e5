"""lightning.py: a callback of PyTorch Lightning: metrics become reports, and the training makes room. Needs lightning.

    callback = traind.lightning.TraindCallback()
    trainer = lightning.Trainer(callbacks=[callback])
    trainer.fit(model, ckpt_path=callback.last_checkpoint())
"""
from __future__ import annotations

import signal
import sys
from typing import Any, Dict, Optional

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback

from . import checkpoints, reports

NAME = "lightning.ckpt"
TERMINATED = 128 + signal.SIGTERM  # as a shell has it


class TraindCallback(Callback):
    """Reports what the module logs every `every_n_steps` steps (None: as often as the trainer logs), and at the end of each
    epoch and validation. When traind asks for room, it saves the trainer's state and ends the program with status 75. A
    training of several processes only reports: traind's signal reaches one of them."""

    def __init__(self, every_n_steps: Optional[int] = None) -> None:
        self.every_n_steps = every_n_steps
        self.moments: Dict[str, str] = {}  # metric: when it is measured. The trainer keeps values until the next measurement
        checkpoints.listen()

    def last_checkpoint(self) -> Optional[str]:
        """For fit(ckpt_path=...): where the attempt before was. None: from the beginning."""
        path = checkpoints.last_checkpoint(NAME)
        return str(path) if path else None

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int) -> None:
        interval: int = self.every_n_steps or vars(trainer).get("log_every_n_steps", 50)  # which its types do not show
        if batch_idx == 0 or (interval and trainer.global_step % interval == 0):
            self.report(trainer, "step")
        if trainer.world_size == 1 and checkpoints.should_checkpoint():
            with checkpoints.checkpoint(NAME) as path:  # leaves the program
                trainer.save_checkpoint(path)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Lightning ends by itself at traind's signal, between two batches of a validation, for example, with the status of a training
        that is complete."""
        if not isinstance(exception, SystemExit) or exception.code or not checkpoints.should_checkpoint():
            return
        if trainer.world_size > 1:
            sys.exit(TERMINATED)
        with checkpoints.checkpoint(NAME) as path:  # leaves the program
            trainer.save_checkpoint(path)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.sanity_checking:
            self.report(trainer, "validation")

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.report(trainer, "epoch")

    def report(self, trainer: Trainer, moment: str) -> None:
        """Reports the metrics that first appeared at this kind of moment: the others' values are old."""
        found = {name: value for name, value in trainer.callback_metrics.items() if value.numel() == 1}
        values = {name: value for name, value in found.items() if self.moments.setdefault(name, moment) == moment}
        if trainer.is_global_zero and values:
            reports.log_report(values, step=trainer.global_step, epoch=trainer.current_epoch, progress=progress(trainer))


def progress(trainer: Trainer) -> Optional[float]:
    """The part of the training that is done; None: it has no known end."""
    steps = trainer.estimated_stepping_batches
    return min(1.0, trainer.global_step / steps) if 0 < steps < float("inf") else None
