#!/usr/bin/python3
"""How many models of the kind of the ONNX model zoo train: 60 modules of torchvision and of PyTorch's own layers are exported by
python/traind/export.py, and each trains for one step. Prints what stops the others. `onnx_zoo.py NAME ...` tries some of them.
It needs PyTorch with onnxscript, and torchvision.
"""
import os
import sys
import tempfile

import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import onnx_models  # noqa: E402
from traind import export  # noqa: E402
import trajectories  # noqa: E402

# of torchvision, for images of 3 x 64 x 64 unless SIZES has another side
CLASSIFIERS = """squeezenet1_0 squeezenet1_1 shufflenet_v2_x0_5 shufflenet_v2_x1_0 mnasnet0_5 mnasnet1_0 mobilenet_v2
mobilenet_v3_small mobilenet_v3_large resnet18 resnet34 googlenet efficientnet_b0 efficientnet_b2 regnet_y_400mf regnet_x_400mf
regnet_y_1_6gf densenet121 swin_t convnext_tiny resnet50 resnext50_32x4d inception_v3 efficientnet_v2_s swin_v2_t maxvit_t
densenet169 resnet101 convnext_small wide_resnet50_2 vit_b_16 vit_b_32 alexnet vgg11 vgg11_bn vgg16 vgg19_bn""".split()
SEGMENTATION = "fcn_resnet50 deeplabv3_mobilenet_v3_large deeplabv3_resnet50 lraspp_mobilenet_v3_large".split()
SIZES = {"googlenet": 96, "inception_v3": 96, "alexnet": 96, "maxvit_t": 224, "swin_t": 64, "swin_v2_t": 64}
KEYS = {"googlenet": {"aux_logits": False, "init_weights": False}, "inception_v3": {"aux_logits": False, "init_weights": False},
        "vit_b_16": {"image_size": 64}, "vit_b_32": {"image_size": 64}}


class Dense(nn.Module):
    """A network for segmentation without its auxiliary output, which scores each pixel of the middle row as one."""

    def __init__(self, name):
        super().__init__()
        import torchvision
        build = getattr(torchvision.models.segmentation, name)
        self.network = build(weights=None, weights_backbone=None, num_classes=10)

    def forward(self, x):
        return self.network(x)["out"].mean((2, 3))


class Encoder(nn.Module):
    """Symbols or numbers, positions, PyTorch's encoder, a mean or the first step."""

    def __init__(self, symbols=50, width=64, norm_first=False, activation="relu", first=False, layers=2):
        super().__init__()
        self.first, self.symbols, self.places = first, nn.Embedding(symbols, width), nn.Parameter(torch.randn(16, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.1, activation, norm_first=norm_first, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False), nn.Linear(width, symbols)

    def forward(self, x):
        x = self.encoder(self.symbols(x) + self.places)
        return self.head(x[:, 0] if self.first else x.mean(1))


class Translator(nn.Module):
    """Encoder and decoder over the same symbols: attention from one sequence to another."""

    def __init__(self, symbols=50, width=64):
        super().__init__()
        self.symbols, self.head = nn.Embedding(symbols, width), nn.Linear(width, symbols)
        self.transformer = nn.Transformer(width, 4, 1, 1, 128, batch_first=True)

    def forward(self, x):
        x = self.symbols(x)
        return self.head(self.transformer(x, x)[:, -1])


class Recurrent(nn.Module):
    def __init__(self, cell, embeds=False, **keys):
        super().__init__()
        self.symbols = nn.Embedding(50, 32) if embeds else nn.Identity()
        self.cell = cell(32, 48, batch_first=True, **keys)
        self.head = nn.Linear(48 * (2 if keys.get("bidirectional") else 1), 50 if embeds else 10)

    def forward(self, x):
        return self.head(self.cell(self.symbols(x))[0][:, -1])


class Llama(nn.Module):
    """RMS norm and a gated network, as the newer language models have them, without rotation of positions."""

    def __init__(self, width=64):
        super().__init__()
        self.symbols, self.norm1, self.norm2 = nn.Embedding(50, width), nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up, self.down = nn.Linear(width, 128, False), nn.Linear(width, 128, False), nn.Linear(128, width, False)
        self.head = nn.Linear(width, 50, False)

    def forward(self, x):
        x = self.symbols(x)
        q, k, v = (part.unflatten(2, (4, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, 2))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return self.head((x + self.down(nn.functional.silu(self.gate(y)) * self.up(y)))[:, -1])


def signals():
    return nn.Sequential(nn.Conv1d(3, 16, 7, 2, 3), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(16, 32, 5),
                         nn.GELU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, 10))


def autoencoder():
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 4, 3, 2, 1), nn.ReLU(),
                         nn.ConvTranspose2d(4, 8, 2, 2), nn.ReLU(), nn.ConvTranspose2d(8, 10, 2, 2), nn.Sigmoid(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Mixer(nn.Module):
    """MLP-Mixer: linear layers over tokens, then over channels."""

    def __init__(self, width=32, tokens=64):
        super().__init__()
        self.patches, self.norm1, self.norm2 = nn.Conv2d(3, width, 8, 8), nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(nn.Linear(tokens, 32), nn.GELU(), nn.Linear(32, tokens))
        self.channels = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return self.head((x + self.channels(self.norm2(x))).mean(1))


SYMBOLS, STEPS = ("symbols", (16,)), ("numbers", (16, 32))
SMALL = {
    "encoder_post": (Encoder, SYMBOLS), "encoder_pre": (lambda: Encoder(norm_first=True), SYMBOLS),
    "encoder_gelu_first": (lambda: Encoder(activation="gelu", first=True, layers=4), SYMBOLS),
    "translator": (Translator, SYMBOLS), "llama": (Llama, SYMBOLS), "gpt": (onnx_models.Gpt, ("symbols", (12,))),
    "lstm": (lambda: Recurrent(nn.LSTM, num_layers=2), STEPS), "lstm_text": (lambda: Recurrent(nn.LSTM, True), SYMBOLS),
    "gru_both": (lambda: Recurrent(nn.GRU, bidirectional=True), STEPS), "rnn": (lambda: Recurrent(nn.RNN), STEPS),
    "signals": (signals, ("numbers", (3, 64))), "autoencoder": (autoencoder, ("numbers", (3, 32, 32))),
    "mixer": (Mixer, ("numbers", (3, 64, 64))), "unet": (lambda: onnx_models.UNet(True), ("numbers", (3, 16, 16))),
    "unet_resize": (lambda: onnx_models.UNet(False), ("numbers", (3, 16, 16))), "norms": (onnx_models.Norms, ("numbers", (3, 12, 12))),
    "pools": (onnx_models.Pools, ("numbers", (3, 9, 9))), "mlp": (onnx_models.mlp, ("numbers", (1, 8, 8))),
    "squeeze": (onnx_models.Squeeze, ("numbers", (3, 12, 12))),
}


def cases():
    import torchvision
    for name, (build, samples) in SMALL.items():
        yield name, build, samples
    for name in CLASSIFIERS:
        size = SIZES.get(name, 64)
        yield name, lambda name=name: getattr(torchvision.models, name)(num_classes=10, **KEYS.get(name, {})), \
            ("numbers", (3, size, size))
    for name in SEGMENTATION:
        yield name, lambda name=name: Dense(name), ("numbers", (3, 64, 64))


def attempt(name, build, kind, shape):
    """None, or what stops the model."""
    torch.manual_seed(1)
    model = build().eval()
    samples = torch.randint(0, 10, (2, *shape)) if kind == "symbols" else torch.randn(2, *shape)
    try:
        export.export(model, samples, f"{name}.onnx")
    except Exception as error:
        return f"export: {str(error).splitlines()[0][:150]}"
    with torch.no_grad():
        outputs = model(samples)
    specification = {"model": {"onnx": f"{name}.onnx", "classes": outputs.shape[-1]},
                     "data": {"train": {"format": "cifar_binary", "path": ["none"]}},
                     "train": {"max_steps": 1, "batch_size": 2, "precision": "float32", "optimizer": {"name": "sgd", "lr": 1e-3}}}
    targets = torch.zeros(2 if outputs.dim() == 2 else (2, *shape), dtype=torch.int32)
    if kind == "symbols":
        specification["data"]["train"] = {"format": "text", "path": ["none"]}
        specification["model"].update({"context": shape[0], "classes": outputs.shape[-1] if outputs.dim() == 3 else 50})
        samples = samples.int()
    try:
        losses, _, given = trajectories.train_here(name, specification, {}, [(samples, targets)])
    except SystemExit as error:
        return str(error).strip().removeprefix(f"{name}: trajectory: ")
    error = (given.reshape(outputs.shape) - outputs).abs().max().item() / (outputs.abs().max().item() or 1)
    if not error <= 1e-4 or not losses[0] < 1e4:
        return f"it trains, but its outputs differ by {error:.1e}, loss {losses[0]:.3g}"
    return None


def main():
    torch.set_num_threads(os.cpu_count())
    stopped, count = {}, 0
    with tempfile.TemporaryDirectory(prefix="traind-zoo.") as folder:
        os.chdir(folder)
        for name, build, (kind, shape) in cases():
            if sys.argv[1:] and name not in sys.argv[1:]:
                continue
            count += 1
            stopped[name] = attempt(name, build, kind, shape)
            print(f"{name:32} {stopped[name] or 'trains'}"[:400], flush=True)
            for left in os.listdir("."):
                os.remove(left)
    print(f"{sum(not reason for reason in stopped.values())} of {count} models train")


main()
