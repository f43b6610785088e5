#!/usr/bin/env python3
"""A search by Optuna whose trials are jobs of traind; what falls behind is cancelled. Needs optuna.

    python3 examples/python/optuna_search.py
"""
import pathlib
import sys

import optuna
import traind
import traind.optuna

TRAIN = str(pathlib.Path(__file__).parent / "train.py")


def job(trial):
    lr = trial.suggest_float("lr", 1e-4, 1, log=True)
    return traind.submit([sys.executable, TRAIN, f"--lr={lr}"], name=f"lr {lr:.2g}", resources={"cores": 1})


if __name__ == "__main__":
    study = optuna.create_study(pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=20))
    traind.optuna.optimize(study, job, n_trials=12, metric="loss", n_jobs=4)
    pruned = sum(trial.state == optuna.trial.TrialState.PRUNED for trial in study.trials)
    print(f"loss {study.best_value:.4f} by {study.best_params}; {pruned} of {len(study.trials)} trials were pruned")
