"""huggingface.py: a callback of Hugging Face's Trainer: logs become reports, and the training makes room. Needs transformers.

    trainer = transformers.Trainer(..., callbacks=[traind.huggingface.TraindCallback()])
    trainer.train(resume_from_checkpoint=traind.huggingface.last_checkpoint(trainer.args))
"""
from __future__ import annotations

import os
from typing import Any, Dict, Optional

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from . import checkpoints, reports


def last_checkpoint(args: TrainingArguments) -> Optional[str]:
    """The newest of the trainer's own checkpoints in `args.output_dir`, if this job has had an attempt before."""
    find: Any = get_last_checkpoint  # which has no types
    folder = args.output_dir or ""
    resumed = reports.in_job() and os.environ.get("TRAIND_RESUME", "0") != "0"
    found: Optional[str] = find(folder) if resumed and os.path.isdir(folder) else None
    return found


class TraindCallback(TrainerCallback):
    """Reports what the trainer logs. When traind asks for room, the trainer saves a checkpoint of its own and stops; the
    program ends with status 75. A training of several processes only reports: traind's signal reaches one of them."""

    def __init__(self) -> None:
        checkpoints.listen()

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl,
               logs: Optional[Dict[str, Any]] = None, **_: Any) -> None:
        values = {name: value for name, value in (logs or {}).items()
                  if isinstance(value, (int, float))}
        if state.is_world_process_zero and values:
            progress = min(1.0, state.global_step / state.max_steps) if state.max_steps > 0 else None
            reports.log_report(values, step=state.global_step, epoch=state.epoch, progress=progress)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if args.world_size == 1 and checkpoints.should_checkpoint():
            control.should_save = control.should_training_stop = True

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if args.world_size == 1 and checkpoints.should_checkpoint():
            raise SystemExit(checkpoints.REQUEUE)
