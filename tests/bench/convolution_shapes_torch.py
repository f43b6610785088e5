"""convolution_shapes_torch.py: PyTorch's side of convolution-shapes: trains stacks of convolutions.

    convolution_shapes_torch.py THREADS

Each line on standard input is "SHAPE SETTING STEPS" (helpers/convolution_speed.c says what a SHAPE is; SETTING is "eager", or some of
"channels_last" and "compile" joined by "+"); it answers with the seconds of that many training steps, or with "failed" and why. Of a
SHAPE all settings that were asked for are kept until another comes.
"""
import sys
import time

import torch
from torch import nn


def build_convolutions(batch, sample, layers):
    channels, height, width = (int(n) for n in sample.split("x"))
    x, modules = torch.randn(batch, channels, height, width), []
    for layer in layers.split(","):
        out, kernel, *rest = layer.split(".")
        out, (stride, dilation, groups) = int(out), (int(n) for n in rest)
        kernel = [int(n) for n in kernel.split("x")]
        kernel = kernel if len(kernel) == 2 else 2 * kernel
        single = [kernel[d] == 1 and kernel[1 - d] > 1 for d in range(2)]
        stride, dilation = [1 if s else stride for s in single], [1 if s else dilation for s in single]
        padding = [dilation[d] * (kernel[d] - 1) // 2 for d in range(2)]
        modules += [nn.Conv2d(channels, out, kernel, stride, padding, dilation, groups), nn.ReLU()]
        channels = out
    return x, [*modules, nn.AdaptiveAvgPool2d(1), nn.Flatten()], channels


def build_linear(batch, features, layers):
    features, modules = int(features), []
    x = torch.randn(batch, features)
    for out in (int(n) for n in layers.split(",")):
        modules += [nn.Linear(features, out), nn.ReLU()]
        features = out
    return x, modules, features


def build(shape):
    batch, sample, layers = shape.split("/")
    batch = int(batch)
    x, modules, features = (build_convolutions if "x" in sample else build_linear)(batch, sample, layers)
    return nn.Sequential(*modules, nn.Linear(features, 10)), x, torch.randint(0, 10, (batch,))


def make_step(shape, setting):
    model, x, y = build(shape)
    if "channels_last" in setting:
        if x.dim() != 4:
            raise ValueError("no images")
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4, fused=True)
    loss_function = nn.CrossEntropyLoss()

    def forward():
        return loss_function(model(x), y)

    if "compile" in setting:
        forward = torch.compile(forward)

    def step():
        optimizer.zero_grad(set_to_none=True)
        forward().backward()
        optimizer.step()

    return step


def main():
    torch.set_num_threads(int(sys.argv[1]))
    torch.manual_seed(0)
    kept, last = {}, None
    for line in sys.stdin:
        shape, setting, steps = line.split()
        if shape != last:
            kept, last = {}, shape
            torch._dynamo.reset()
        try:
            if setting not in kept:
                kept[setting] = make_step(shape, setting)
            begin = time.perf_counter()
            for _ in range(int(steps)):
                kept[setting]()
            print(time.perf_counter() - begin, flush=True)
        except Exception as error:  # what a setting cannot do must not end the others
            print("failed", str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__, flush=True)


main()
