#!/usr/bin/env python3
"""A PyTorch script as a job of traind: `trainctl submit examples/pytorch-mlp.json`.

It works the same by hand. As a job it uses the device that traind has chosen (CUDA_VISIBLE_DEVICES decides what
torch.cuda sees), reports its loss on descriptor 3, saves its state when it is asked to make room (checkpoint_signal) and
goes on from there when it is started again. docs/command-jobs.md has the details.
"""
import argparse
import json
import os
import signal
import sys

import torch

REQUEUE = 75  # exit status: "saved, please queue me again"


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--samples", type=int, default=8192)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=64)
    return parser.parse_args()


def metrics_file():
    """Where reports go: descriptor 3 as a job, standard output by hand."""
    descriptor = os.environ.get("TRAIND_METRICS_FD")
    return open(int(descriptor), "w", buffering=1) if descriptor else sys.stdout


def samples(count):
    """Two spirals, the same in every run."""
    generator = torch.Generator().manual_seed(1)
    label = torch.arange(count) % 2
    radius = torch.rand(count, generator=generator)
    angle = 6 * radius + 3.14159 * label + 0.1 * torch.randn(count, generator=generator)
    return torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], 1), label


def main():
    args = options()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    metrics = metrics_file()
    folder = os.environ.get("TRAIND_CHECKPOINT_DIRECTORY", ".")
    path = os.path.join(folder, "pytorch-mlp.pt")
    asked = []  # the signal, once it has come
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda number, frame: asked.append(number))

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, args.hidden), torch.nn.ReLU(), torch.nn.Linear(args.hidden, args.hidden),
                                torch.nn.ReLU(), torch.nn.Linear(args.hidden, 2)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    features, labels = (tensor.to(device) for tensor in samples(args.samples))
    step = first = 0
    if os.path.exists(path):
        state = torch.load(path, map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = first = state["step"]
    batches = len(features) // args.batch_size
    print(f"device {device}, {torch.get_num_threads()} threads, from step {first}", flush=True)

    while step < args.epochs * batches:
        if asked:
            temporary = path + ".tmp"
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, temporary)
            os.replace(temporary, path)
            print(f"saved at step {step}", flush=True)
            return REQUEUE
        order = torch.randperm(len(features), generator=torch.Generator().manual_seed(step // batches))
        index = order[step % batches * args.batch_size:][:args.batch_size].to(device)
        loss = torch.nn.functional.cross_entropy(model(features[index]), labels[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % batches == 0:
            print(json.dumps({"step": step, "epoch": step // batches, "train_loss": loss.item(),
                              "progress": step / (args.epochs * batches)}), file=metrics)
    with torch.no_grad():
        accuracy = (model(features).argmax(1) == labels).float().mean().item()
    print(json.dumps({"step": step, "accuracy": accuracy}), file=metrics)
    if os.path.exists(path):
        os.remove(path)
    return 0


sys.exit(main())
