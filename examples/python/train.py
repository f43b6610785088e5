#!/usr/bin/env python3
"""A training that reports its loss, makes room when it is asked to, and goes on from there. Standard library alone.

    trainctl run --preemptible --follow -- python3 examples/python/train.py

It fits a straight line to noisy points by gradient descent. By hand it works the same, without reports.
"""
import argparse
import json
import random

import traind

POINTS = 256


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=200)
    return parser.parse_args()


def points():
    """Around the line y = 3 x - 1, the same in every run."""
    source = random.Random(1)
    return [(x, 3 * x - 1 + source.gauss(0, 0.1)) for x in (source.uniform(-1, 1) for _ in range(POINTS))]


def fit(lr, steps):
    """The loss at the end."""
    data, loss = points(), None
    state = {"step": 0, "slope": 0.0, "offset": 0.0}
    saved = traind.last_checkpoint("line.json")
    if saved:
        state = json.loads(saved.read_text())
        print(f"goes on from step {state['step']}", flush=True)
    while state["step"] < steps:
        errors = [(state["slope"] * x + state["offset"] - y, x) for x, y in data]
        state["slope"] -= lr * sum(error * x for error, x in errors) * 2 / POINTS
        state["offset"] -= lr * sum(error for error, _ in errors) * 2 / POINTS
        state["step"] += 1
        loss = sum(error * error for error, _ in errors) / POINTS
        traind.report(step=state["step"], progress=state["step"] / steps, loss=loss)
        if traind.should_checkpoint():
            with traind.checkpoint("line.json") as path:  # leaves this program when it is through
                path.write_text(json.dumps(state))
    print(f"y = {state['slope']:.3f} x + {state['offset']:.3f}")
    return loss


def main():
    args = options()
    print(f"loss {fit(args.lr, args.steps):.5f}")


if __name__ == "__main__":
    main()
