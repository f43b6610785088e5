"""step_speed_torch.py: PyTorch's side of step-speed: a process that runs a number of training steps for each line it is sent.

    step_speed_torch.py MODEL SETTING THREADS STEPS

SETTING is `default` or some of `channels_last`, `compile`, `bfloat16`, `without_onednn`, joined by "+". It answers each line as
tests/helpers/step_speed does: seconds on the wall clock, seconds of processor time, 0. `--versions` prints what is installed;
`--export MODEL FILE` writes the model in the ONNX format (python/traind/export.py), which needs onnxscript.
"""
import os
import sys
import time

import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "reference"))

IMAGE = (3, 32, 32)


def chain(model_name):
    """The models that need no torchvision: (module, batch, sample shape)."""
    if model_name == "cnn":
        return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1),
                             nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 49, 128), nn.ReLU(),
                             nn.Linear(128, 10)), 64, (1, 28, 28)
    features, hidden, classes = (int(n) for n in model_name.split("-")[1:])
    return nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, classes)), {784: 128}.get(features, 64), \
        (features,)


class Recurrent(nn.Module):
    """The last step of recurrent layers and a linear layer."""

    def __init__(self, kind, features, hidden, layers, bidirectional):
        super().__init__()
        self.layers = getattr(nn, kind.upper())(features, hidden, layers, batch_first=True, bidirectional=bidirectional)
        self.head = nn.Linear(hidden * (1 + bidirectional), 10)
        self.hidden = hidden

    def forward(self, x):
        y = self.layers(x)[0]
        if not self.layers.bidirectional:
            return self.head(y[:, -1])
        return self.head(torch.cat([y[:, -1, :self.hidden], y[:, 0, self.hidden:]], 1))


def recurrent(model_name):
    """lstm-FEATURES-HIDDEN-STEPS-BATCH[-LAYERS[-bidirectional]]"""
    kind, features, hidden, steps, batch, *more = model_name.split("-")
    model = Recurrent(kind, int(features), int(hidden), int(more[0]) if more else 1, len(more) > 1)
    return model, int(batch), (int(steps), int(features))


def transformer(model_name):
    """gpt-DEPTH-HEADS-EMBEDDING-CONTEXT-BATCH of 65 symbols, vit-DEPTH-HEADS-EMBEDDING-PATCH-BATCH of 32x32:
    (module, batch, sample shape)."""
    import torch_models  # needs torchvision
    kind, *numbers = model_name.split("-")
    depth, heads, embedding, last, batch = map(int, numbers)
    if kind == "gpt":
        return torch_models.GPT(65, last, embedding, depth, heads), batch, (last,)
    return torch_models.vit(10, patch=last, embedding=embedding, depth=depth, heads=heads), batch, IMAGE


class UNet(nn.Module):
    """Two levels down and up again, for images of 64x64; the scores are means over the pixels."""

    def __init__(self, widths=(32, 64, 128)):
        super().__init__()
        self.first, self.second, self.third = (self.twice(a, b) for a, b in zip((3, *widths), widths))
        self.up, self.wide = nn.ConvTranspose2d(widths[2], widths[1], 2, 2, bias=False), self.twice(2 * widths[1], widths[1])
        self.last_up, self.last = nn.ConvTranspose2d(widths[1], widths[0], 2, 2, bias=False), self.twice(2 * widths[0], widths[0])
        self.head, self.pool = nn.Conv2d(widths[0], 10, 1), nn.MaxPool2d(2)

    @staticmethod
    def twice(inputs, outputs):
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
                             nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())

    def forward(self, x):
        a = self.first(x)
        b = self.second(self.pool(a))
        y = self.wide(torch.cat([b, self.up(self.third(self.pool(b)))], 1))
        return self.head(self.last(torch.cat([a, self.last_up(y)], 1))).mean((2, 3))


def export_model(model_name, path):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
    from traind import export
    torch.manual_seed(0)
    model, _, shape = build(model_name)
    export.export(model, torch.randint(0, 65, (2, *shape)) if model_name.startswith("gpt") else torch.randn(2, *shape), path)


def build(model_name):
    if model_name == "unet":
        return UNet(), 16, (3, 64, 64)
    if model_name.startswith(("lstm", "gru")):
        return recurrent(model_name)
    if model_name.startswith(("gpt", "vit")):
        return transformer(model_name)
    if model_name == "cnn" or model_name.startswith("mlp"):
        return chain(model_name)
    from torch_models import MODELS  # needs torchvision
    return MODELS[model_name](10), 128, IMAGE


def optimizer_of(model):
    if any(isinstance(module, nn.LayerNorm) for module in model.modules()):
        return torch.optim.AdamW(model.parameters(), 0.01, weight_decay=0.01, fused=True)
    momentum = 0.9 if any(isinstance(module, nn.BatchNorm2d) for module in model.modules()) else 0.0
    try:  # one pass over each parameter; newer versions have it on the CPU
        return torch.optim.SGD(model.parameters(), 0.01, momentum=momentum, fused=True)
    except (TypeError, RuntimeError):
        return torch.optim.SGD(model.parameters(), 0.01, momentum=momentum)


def main():
    if sys.argv[1] == "--versions":
        print("PyTorch " + torch.__version__.split("+")[0])
        return
    if sys.argv[1] == "--export":
        export_model(sys.argv[2], sys.argv[3])
        return
    model_name, setting, threads, steps = sys.argv[1], sys.argv[2].split("+"), int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(threads)
    torch.backends.mkldnn.enabled = "without_onednn" not in setting
    torch.manual_seed(0)
    model, batch, shape = build(model_name)
    x = torch.randn(batch, *shape)
    y = torch.randint(0, 10, (batch,))
    if model_name.startswith("gpt"):
        x, y = torch.randint(0, 65, (2, batch, *shape))
    if "channels_last" in setting:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    optimizer = optimizer_of(model)
    loss_function = nn.CrossEntropyLoss()

    def forward():
        with torch.autocast("cpu", torch.bfloat16, enabled="bfloat16" in setting):
            return loss_function(model(x).flatten(0, -2), y.flatten())

    if "compile" in setting:
        forward = torch.compile(forward)
    for line in sys.stdin:
        wall, processor = time.perf_counter(), time.process_time()
        for _ in range(steps):
            optimizer.zero_grad(set_to_none=True)
            forward().backward()
            optimizer.step()
        print(time.perf_counter() - wall, time.process_time() - processor, 0, flush=True)


if __name__ == "__main__":  # cuda/torch_speed.py takes a model from here
    main()
