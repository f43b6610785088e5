#!/usr/bin/env python3
"""torch_speed: PyTorch's training steps on a GPU, one batch that stays there: torch_speed.py MODEL BATCH MODE

MODE: float32, tf32 or bfloat16 (autocast), then -compile, -graph (the whole step as one CUDA graph) or both. Says "ready" when warm;
for each line on standard input then measures for half a second and prints the seconds of a step.
"""
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

WINDOW = 0.5


class Residual(nn.Module):
    def __init__(self, before, channels, stride):
        super().__init__()
        self.first = nn.Conv2d(before, channels, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)
        self.shortcut = nn.Identity() if before == channels else nn.Sequential(
            nn.Conv2d(before, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        y = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.second_norm(self.second(y)) + self.shortcut(x))


def resnet18():
    blocks = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    before = 64
    for stage, channels in enumerate((64, 128, 256, 512)):
        for block in range(2):
            blocks.append(Residual(before, channels, 2 if stage and not block else 1))
            before = channels
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def make(name, batch):
    labels = torch.randint(10, (batch,), device="cuda")
    if name == "mlp":
        model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)).cuda()
        return (model, torch.randn(batch, 784, device="cuda"), labels,
                torch.optim.AdamW(model.parameters(), 1e-3, fused=True, capturable=True))
    model = resnet18().cuda().to(memory_format=torch.channels_last)
    samples = torch.randn(batch, 3, 32, 32, device="cuda").to(memory_format=torch.channels_last)
    return model, samples, labels, torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=5e-4, fused=True)


def step_function(name, batch, mode):
    words = mode.split("-")
    model, samples, labels, optimizer = make(name, batch)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = words[0] == "tf32"
    torch.backends.cudnn.benchmark = True

    def loss_of(x, y):
        with torch.autocast("cuda", torch.bfloat16, enabled=words[0] == "bfloat16"):
            return F.cross_entropy(model(x).float(), y)

    forward = torch.compile(loss_of) if "compile" in words else loss_of

    def step():
        optimizer.zero_grad(set_to_none=True)
        forward(samples, labels).backward()
        optimizer.step()

    return capture(step) if "graph" in words else step


def capture(step):
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def seconds_of(step, count):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / count


def main():
    step = step_function(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    seconds_of(step, 10)
    count = max(10, int(WINDOW / seconds_of(step, 20)))
    seconds_of(step, count)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(seconds_of(step, count), flush=True)


main()
