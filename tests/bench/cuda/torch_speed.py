#!/usr/bin/env python3
"""torch_speed: PyTorch's training steps on a GPU, each on one batch that stays there: torch_speed.py CASES

CASES: a JSON list of {"model": as in a job's specification, "sample": [...], "batch", "mode"}. A mode: float32, tf32 or bfloat16
(autocast), then -nchw (images channels-first, not last), -compile, -graph (the whole step as one CUDA graph). Answers each case with
"ready" when it is warm, or "error" and why; for each number of a case on standard input then measures for half a second and prints the
seconds of a step. `--export MODELS` writes models in the ONNX format: a JSON list of {"model", "sample", "path"}.
"""
import copy
import json
import os
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "reference"), os.path.join(HERE, "..")]

WINDOW = 0.5
CLASSES, SYMBOLS = 10, 65
KEPT = []  # what a captured step reads: its model and batch must not be given back
ACTIVATIONS = {"relu": nn.ReLU, "silu": nn.SiLU, "gelu": nn.GELU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "hardswish": nn.Hardswish,
               "hardsigmoid": nn.Hardsigmoid}


class SqueezeExcite(nn.Module):
    def __init__(self, channels, squeeze):
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(channels, squeeze, 1), nn.Conv2d(squeeze, channels, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.expand(F.relu(self.reduce(x.mean((2, 3), keepdim=True)))))


def layer_of(layer, shape):
    """A layer of the specification's, behind results of that shape."""
    kind = layer["type"]
    if kind == "linear":
        return nn.Linear(shape[1], layer["features"])
    if kind == "conv2d":
        return nn.Conv2d(shape[1], layer["channels"], layer["kernel"], layer.get("stride", 1), layer.get("padding", 0),
                         layer.get("dilation", 1), layer.get("groups", 1), layer.get("bias", True))
    if kind == "max_pool2d":
        return nn.MaxPool2d(layer["kernel"], layer.get("stride"), layer.get("padding", 0))
    if kind == "average_pool2d":
        return nn.AvgPool2d(layer["kernel"], layer.get("stride"), layer.get("padding", 0))
    if kind == "squeeze_excite":
        return SqueezeExcite(shape[1], layer["squeeze"])
    return {"batch_norm": lambda: nn.BatchNorm2d(shape[1]), "flatten": nn.Flatten,
            "global_average_pool2d": lambda: nn.AdaptiveAvgPool2d(1), **ACTIVATIONS}[kind]()


def layers_of(model):
    """A model of the specification's that is a chain, as its list of layers."""
    if model["name"] == "layers":
        return model["layers"]
    layers = [{"type": "flatten"}] if model["name"] == "mlp" else []
    for channels in model.get("channels", []):
        layers += [{"type": "conv2d", "channels": channels, "kernel": 3, "padding": 1}, {"type": "relu"},
                   {"type": "max_pool2d", "kernel": 2}]
    layers += [{"type": "flatten"}] if layers else []
    for features in model["hidden"]:
        layers += [{"type": "linear", "features": features}, {"type": "relu"}]
    return layers + [{"type": "linear", "features": CLASSES}]


def build(model, sample):
    if model["name"] in ("mlp", "cnn", "layers"):
        x, chain = torch.zeros(2, *sample), []
        for layer in layers_of(model):
            chain.append(layer_of(layer, x.shape))
            x = chain[-1](x)
        return nn.Sequential(*chain), x.shape[1]
    if model["name"] == "unet":
        from step_speed_torch import UNet
        return UNet(), CLASSES
    if model["name"] in ("lstm", "gru"):
        from step_speed_torch import Recurrent
        return Recurrent(model["name"], sample[-1], model["hidden_size"], 1, False), CLASSES
    if model["name"] == "gpt":
        from torch_models import GPT
        return GPT(SYMBOLS, model["context"], model["embedding"], model["depth"], model["heads"]), SYMBOLS
    from torch_models import MODELS  # needs torchvision
    if model["name"] not in MODELS:
        import torchvision
        return getattr(torchvision.models, model["name"])(num_classes=CLASSES), CLASSES
    options = {key: value for key, value in model.items() if key != "name"}
    return MODELS[model["name"]](CLASSES, sample[0], **options), CLASSES


def make(case, channels_last):
    model, classes = build(case["model"], case["sample"])
    batch = case["batch"]
    model, samples = model.cuda(), torch.randn(batch, *case["sample"], device="cuda")
    if channels_last and samples.dim() == 4:
        model, samples = model.to(memory_format=torch.channels_last), samples.to(memory_format=torch.channels_last)
    labels = torch.randint(classes, (batch,), device="cuda")
    if case["model"]["name"] == "gpt":
        samples, labels = torch.randint(classes, (2, batch, *case["sample"]), device="cuda")
    options = copy.copy(case["optimizer"])
    optimizer = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[options.pop("name")]
    capturable = {"capturable": True} if optimizer is torch.optim.AdamW else {}
    return model, samples, labels, optimizer(model.parameters(), options.pop("lr"), fused=True, **options, **capturable)


def step_function(case):
    words = case["mode"].split("-")
    model, samples, labels, optimizer = make(case, "nchw" not in words)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = words[0] == "tf32"
    torch.backends.cudnn.benchmark = True

    def loss_of(x, y):
        with torch.autocast("cuda", torch.bfloat16, enabled=words[0] == "bfloat16"):
            return F.cross_entropy(model(x).float().flatten(0, -2), y.flatten())

    forward = torch.compile(loss_of, dynamic=False) if "compile" in words else loss_of

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
    KEPT.append((graph, step))
    return graph.replay


def seconds_of(step, count):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / count


def warm(case):
    """(step, how many of them are measured)"""
    torch._dynamo.reset()  # a case more is no recompilation
    step = step_function(case)
    seconds_of(step, 10)
    count = max(10, int(WINDOW / seconds_of(step, 20)))
    return step, count


def export_models(models):
    sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "python"))
    from traind import export
    for wanted in models:
        try:
            torch.manual_seed(0)
            model, _ = build(wanted["model"], wanted["sample"])
            symbols = wanted["model"]["name"] == "gpt"
            export.export(model, (torch.randint(SYMBOLS, (2, *wanted["sample"])) if symbols else torch.randn(2, *wanted["sample"])),
                          wanted["path"])
        except Exception as error:  # traind then says that the file is missing
            print(f"{wanted['model']['name']} is not exported: {str(error).strip().splitlines()[0][:200]}", file=sys.stderr)


def main():
    if sys.argv[1] == "--export":
        export_models(json.loads(sys.argv[2]))
        return
    steps = []
    for case in json.loads(sys.argv[1]):
        try:
            steps.append(warm(case))
            print("ready", flush=True)
        except Exception as error:  # whatever a library says of a shape: the others count all the same
            steps.append(None)
            print("error", (str(error).strip().splitlines() or [type(error).__name__])[0][:200], flush=True)
    for line in sys.stdin:
        step, count = steps[int(line)]
        seconds_of(step, max(10, count // 10))
        print(seconds_of(step, count), flush=True)


main()
