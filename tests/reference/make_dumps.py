#!/usr/bin/python3
"""make_dumps.py: writes tests/reference/data/dumps/ with PyTorch and scikit-learn (Debian's python3-torch,
python3-torchvision and python3-sklearn). README.md beside this file has the format and the contents; `make_dumps.py optimizers`
makes one folder anew. The tests read the committed dumps; nobody but a person who changes this file runs it.

Everything is computed in float64 from inputs that are exact in float32, so the only rounding in a comparison is that
of the engine under test (and of storing the expectation as float32).
"""
import copy
import functools
import importlib
import inspect
import os
import shutil
import struct
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import torch_models
import torch_optimizers
import torch_sequence_models

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "dumps")
TYPES = {"float32": 0, "int32": 1, "float64": 2}


def write(kind, name, tensors):
    """tensors: {name: tensor or number}; float64 tensors are stored as float32, numbers as float64 of rank 0."""
    path = os.path.join(FOLDER, kind, name + ".dump")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as output:
        output.write(b"TDMP" + struct.pack("<I", len(tensors)))
        for key, value in tensors.items():
            if torch.is_tensor(value):
                array = value.detach().numpy()
                array = array.astype(np.int32 if array.dtype.kind == "i" else np.float32)
            else:
                array = np.asarray(value, dtype=np.float64)
            encoded = key.encode()
            output.write(struct.pack("<I", len(encoded)) + encoded)
            output.write(struct.pack("<II", TYPES[array.dtype.name], array.ndim))
            output.write(struct.pack(f"<{array.ndim}q", *array.shape))
            output.write(np.ascontiguousarray(array).tobytes())


def random(*shape, scale=1.0):
    """Normal draws that float32 holds exactly."""
    return (torch.randn(*shape) * scale).to(torch.float32).to(torch.float64)


def randomise(module):
    """Parameters and statistics that float32 holds exactly, none of them at a special value."""
    with torch.no_grad():
        for name, tensor in list(module.named_parameters()) + list(module.named_buffers()):
            if name.endswith("running_var"):
                tensor.copy_(random(*tensor.shape).abs() + 0.5)
            elif tensor.is_floating_point():
                fan = tensor[0].numel() if tensor.dim() > 1 else 1
                tensor.copy_(random(*tensor.shape, scale=fan ** -0.5))


def state(module, prefix=""):
    return {prefix + key: value.clone() for key, value in module.state_dict().items() if "num_batches" not in key}


# ---- operators ---------------------------------------------------------------------------------

def operator(name, forward, x, module=None, target=None, training=True, **attributes):
    """One operator between the samples and an MSE (or, with integer targets, cross-entropy) loss."""
    torch.manual_seed(sum(map(ord, name)))
    x = x()
    if x.is_floating_point():
        x = x.float().double()
    tensors = {"samples": x.clone()}
    tensors.update({"attribute/" + key: value for key, value in attributes.items()})
    chain = nn.Sequential(module) if module else None
    if chain:
        chain.double().train(training)
        randomise(chain)
        tensors.update(state(chain))
    if x.is_floating_point():
        x.requires_grad_(training)
    y = forward(x) if forward else chain(x)
    if target is None:
        target = random(y.shape[0], y[0].numel())
    tensors["target"] = target
    y = y.flatten(1)
    if "compute_type" in attributes:
        low = [low for number, low in LOW_TYPES.values() if number == attributes["compute_type"]][0]
        tensors["target"] = target = clear_of_ties(y.detach(), target, low)
    if name.split("-")[0] in LOSSES:
        loss = LOSSES[name.split("-")[0]](y, target, attributes)
    elif name.startswith("cross_entropy-soft"):
        loss = F.cross_entropy(y, target)
    else:
        loss = loss_of(y, target)
    tensors["expected/output"] = y
    tensors["expected/loss"] = loss.item()
    if training:
        loss.backward()
        if x.is_floating_point():
            tensors["expected/input.gradient"] = x.grad
        for key, parameter in chain.named_parameters() if chain else ():
            tensors[f"expected/{key}.gradient"] = parameter.grad
        for key, value in state(chain).items() if chain else ():
            if "running" in key:
                tensors["expected/" + key] = value
    tensors["attribute/training"] = float(training)
    write("operators", name, tensors)


def focal(y, target, attributes):
    log_probability = F.log_softmax(y, 1).gather(1, target.long()[:, None])[:, 0]
    return -((1 - log_probability.exp()) ** attributes["gamma"] * log_probability).mean()


def quantile(y, target, attributes):
    error, q = target - y, attributes["parameter"]
    return torch.maximum(q * error, (q - 1) * error).mean()


def ordinal(y, target, _):
    """The binary cross entropy of each cumulative probability: the ranked ignorance score of Tödter and Ahrens 2012."""
    cumulative = F.softmax(y, 1).cumsum(1)[:, :-1]
    return F.binary_cross_entropy(cumulative, (target[:, None] <= torch.arange(y.shape[1] - 1)).double())


MINING = {"hard": 0, "all": 1, "semi_hard": 2}  # enum triplet_mining


def triplets_of(distance, label, mining):
    """The triplets (anchor, positive, negative) that count, one by one."""
    everything = range(len(label))
    for anchor in everything:
        positives = [i for i in everything if i != anchor and label[i] == label[anchor]]
        negatives = [i for i in everything if label[i] != label[anchor]]
        if not positives or not negatives:
            continue
        d = distance[anchor].tolist()
        if mining == "hard":
            yield anchor, max(positives, key=d.__getitem__), min(negatives, key=d.__getitem__)
        elif mining == "all":
            yield from ((anchor, p, n) for p in positives for n in negatives)
        else:
            for p in positives:
                beyond = [n for n in negatives if d[n] > d[p]]
                yield anchor, p, min(beyond, key=d.__getitem__) if beyond else max(negatives, key=d.__getitem__)


def triplet_loss(y, label, mining, margin):
    """The mean of PyTorch's triplet margin loss over the mined triplets; of `all`, over those whose loss is not 0."""
    found = list(triplets_of(torch.cdist(y.detach(), y.detach()), label.tolist(), mining))
    if not found:
        return y.sum() * 0
    anchor, positive, negative = torch.tensor(found).T
    losses = F.triplet_margin_loss(y[anchor], y[positive], y[negative], margin, eps=0, reduction="none")
    counts = (losses > 0).sum().clamp(min=1) if mining == "all" else len(losses)
    return losses.sum() / counts


def clear_samples(count, features, label, margin):
    """Samples none of whose triplets is at the point where another one is mined, or its loss begins."""
    while True:
        x = random(count, features).float().double()
        d = torch.cdist(x, x)
        same = label[:, None] == label
        positive, negative = same & ~torch.eye(count, dtype=torch.bool), ~same
        over = torch.where(positive[:, :, None] & negative[:, None, :], d[:, :, None] - d[:, None, :], torch.inf)
        alike = torch.where(positive[:, :, None] & positive[:, None, :] | negative[:, :, None] & negative[:, None, :],
                            d[:, :, None] - d[:, None, :], torch.inf) + torch.diag(torch.tensor(torch.inf).repeat(count))
        if min(over.abs().min(), (over + margin).abs().min(), alike.abs().min()) > 0.01:
            return x


def triplet(y, label, attributes):
    mining = next(name for name, number in MINING.items() if number == attributes["mining"])
    return triplet_loss(y, label, mining, attributes["margin"])


def numbers(attributes):
    count = int(attributes.get("numbers", 0))
    return torch.tensor([attributes[f"number{i}"] for i in range(count)], dtype=torch.float64) if count else None


def binary_cross_entropy(y, target, attributes):
    return F.binary_cross_entropy_with_logits(y, target, pos_weight=numbers(attributes))


def quantiles(y, target, attributes):
    q = numbers(attributes)
    error = target[:, :, None] - y.unflatten(1, (-1, len(q)))
    return torch.maximum(q * error, (q - 1) * error).mean()


LOSSES = {"mae": lambda y, target, _: F.l1_loss(y, target),
          "huber": lambda y, target, attributes: F.huber_loss(y, target, delta=attributes["parameter"]),
          "quantile": quantile, "focal": focal,
          "smooth_l1": lambda y, target, attributes: F.smooth_l1_loss(y, target, beta=attributes["parameter"]),
          "binary_cross_entropy": binary_cross_entropy, "quantiles": quantiles, "ordinal": ordinal,
          "triplet": triplet,
          "cosine": lambda y, target, _: (1 - F.cosine_similarity(y, target)).mean()}
LOW_TYPES = {"bfloat16": (1, torch.bfloat16), "float16": (2, torch.float16)}  # numbers of enum tensor_type


class LowProduct(torch.autograd.Function):
    """A layer as graph_lower_precision() has it: the operands of its products are rounded, forward and backward, sums
    are not. A bias' gradient sums the rounded gradients of the results."""

    @staticmethod
    def forward(context, x, weight, bias, function, low):
        x, weight = x.to(low).double(), weight.to(low).double()
        context.save_for_backward(x, weight, bias)
        context.function, context.low = function, low
        return function(x, weight, bias)

    @staticmethod
    def backward(context, dy):
        inputs = [None if tensor is None else tensor.detach().requires_grad_() for tensor in context.saved_tensors]
        with torch.enable_grad():
            y = context.function(*inputs)
        present = [tensor for tensor in inputs if tensor is not None]
        gradients = torch.autograd.grad(y, present, dy.to(context.low).double())
        return (*gradients, *[None] * (5 - len(gradients)))


def clear_of_ties(y, target, low):
    """Targets for which the error of float32 in y does not decide to which neighbour the loss' gradient is rounded."""
    error = 4e-6 * y.abs().max()
    while True:
        below, above = (((y - target + way) * 2 / y.numel()).to(low) for way in (-error, error))
        if torch.equal(below, above):
            return target
        target = torch.where(below == above, target, target + 0.0625)


def lowered(module, name):
    """The layer's function with its products in the type of that name."""
    def function(x, weight, bias):
        if isinstance(module, nn.Linear):
            return F.linear(x, weight, bias)
        if isinstance(module, nn.ConvTranspose2d):
            return F.conv_transpose2d(x, weight, bias, module.stride, module.padding, module.output_padding,
                                      module.groups, module.dilation)
        return F.conv2d(x, weight, bias, module.stride, module.padding, module.dilation, module.groups)

    return lambda x: LowProduct.apply(x, module.weight, module.bias, function, LOW_TYPES[name][1])


def layer(name, shape, module, compute, **attributes):
    """A linear layer or convolution; with `compute` in that type."""
    if compute:
        attributes["compute_type"] = float(LOW_TYPES[compute][0])
    operator(name, lowered(module, compute) if compute else None, lambda: random(*shape), module, **attributes)


def linear(name, *shape, features, bias=True, compute=None):
    layer("linear-" + name, shape, nn.Linear(shape[-1], features, bias=bias), compute, features=features,
          bias=float(bias))


def window(kernel, stride, padding, dilation=(1, 1)):
    parts = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    return {f"{key}_{axis}": float(pair[i]) for key, pair in parts.items() for i, axis in enumerate(("h", "w"))}


def conv(name, *shape, channels, kernel=(3, 3), stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, bias=True,
         compute=None):
    module = nn.Conv2d(shape[1], channels, kernel, stride, padding, dilation, groups, bias)
    layer("conv2d-" + name, shape, module, compute, channels=channels, bias=float(bias), groups=float(groups),
          **window(kernel, stride, padding, dilation))


def conv_transpose(name, *shape, channels, kernel, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, bias=True,
                   output_padding=(0, 0), compute=None):
    module = nn.ConvTranspose2d(shape[1], channels, kernel, stride, padding, output_padding, groups, bias, dilation)
    layer("conv_transpose2d-" + name, shape, module, compute, channels=channels, bias=float(bias), groups=float(groups),
          output_padding_h=float(output_padding[0]), output_padding_w=float(output_padding[1]),
          **window(kernel, stride, padding, dilation))


def conv1d(kind, name, *shape, channels, kernel, stride=1, padding=0, dilation=1, groups=1, bias=True):
    module = kind(shape[1], channels, kernel, stride=stride, padding=padding, dilation=dilation, groups=groups, bias=bias)
    operator(f"{'conv1d' if kind is nn.Conv1d else 'conv_transpose1d'}-{name}", None, lambda: random(*shape), module,
             channels=channels, bias=float(bias), groups=float(groups), output_padding_w=0.0,
             **window((1, kernel), (1, stride), (0, padding), (1, dilation)))


def group_norm(name, *shape, groups, epsilon=1e-5, training=True, shift=1.0):
    operator("group_norm-" + name, None, lambda: random(*shape) * 2 + shift, nn.GroupNorm(groups, shape[1], epsilon),
             training=training, groups=float(groups), epsilon=epsilon)


RESIZE_MODES = {"nearest": 0, "bilinear": 1, "corners": 2}  # enum resize_mode


def resize(mode, *shape, scale=0.0, size=None, name="plain", align_corners=None):
    target = torch.Size(int(extent * scale) for extent in shape[2:]) if scale else size
    function = functools.partial(F.interpolate, size=size, scale_factor=scale or None, mode=mode,
                                 align_corners=align_corners)
    operator(f"resize2d-{mode}-{name}", function, lambda: random(*shape), scale=scale, height=float(target[0]),
             width=float(target[1]), mode=float(RESIZE_MODES["corners" if align_corners else mode]))


def pool(kind, name, *shape, kernel, stride, padding=(0, 0)):
    module = {"max_pool2d": nn.MaxPool2d, "average_pool2d": nn.AvgPool2d}[kind](kernel, stride, padding)
    operator(f"{kind}-{name}", None, lambda: random(*shape), module, groups=1.0, **window(kernel, stride, padding))


def batch_norm(name, *shape, training=True, epsilon=1e-5, momentum=0.1):
    kind = nn.BatchNorm1d if len(shape) == 2 else nn.BatchNorm2d
    operator("batch_norm-" + name, None, lambda: random(*shape) * 2 + 1, kind(shape[1], epsilon, momentum),
             training=training, epsilon=epsilon, momentum=momentum)


class RMSNorm(nn.Module):
    """torch.nn.RMSNorm, which Debian's PyTorch lacks."""

    def __init__(self, width, epsilon):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.epsilon) * self.weight


def row_norm(kind, name, *shape, epsilon=1e-5, bias=True, training=True, scale=2.0, shift=1.0):
    """layer_norm, rms_norm: of x. add_layer_norm, add_rms_norm: of tanh(x) + x, plus that sum."""
    if kind.endswith("layer_norm"):
        module = nn.LayerNorm(shape[-1], epsilon)
        if not bias:
            module.register_parameter("bias", None)
    else:
        module = RMSNorm(shape[-1], epsilon)

    def add(x):
        both = torch.tanh(x) + x
        return module(both) + both

    def normalise(x):
        return F.layer_norm(x, module.normalized_shape, module.weight, None, epsilon) if not bias else module(x)

    forward = add if kind.startswith("add") else normalise
    operator(f"{kind}-{name}", forward, lambda: random(*shape) * scale + shift, module, epsilon=epsilon,
             bias=float(bias), training=training)


def attention(name, batch, steps, heads, width, causal):
    """Of packed queries, keys and values [B, T, 3, heads, width]."""
    def forward(x):
        query, key, value = x.reshape(batch, steps, 3, heads, width).permute(2, 0, 3, 1, 4)
        products = query @ key.transpose(2, 3) * width ** -0.5
        if causal:
            products = products.masked_fill(torch.ones(steps, steps).triu(1).bool(), -torch.inf)
        return (products.softmax(3) @ value).transpose(1, 2).reshape(batch, steps, heads * width)

    operator("attention-" + name, forward, lambda: random(batch, steps, 3 * heads * width), heads=float(heads),
             causal=float(causal))


def rotary(name, batch, steps, heads, width):
    def forward(x):
        angles = torch.arange(steps).double()[:, None] / 100.0 ** (torch.arange(0, width, 2).double() / width)
        cosine, sine = angles.cos()[None, :, None, None], angles.sin()[None, :, None, None]
        parts = x.reshape(batch, steps, 3, heads, width)
        first, second = parts[:, :, :2].chunk(2, -1)
        turned = torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)
        return torch.cat([turned, parts[:, :, 2:]], 2).flatten(2)

    operator("rotary-" + name, forward, lambda: random(batch, steps, 3 * heads * width), heads=float(heads))


class Parameter(nn.Module):
    """A parameter `weight` that a function combines with the samples."""

    def __init__(self, shape, function):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(*shape))
        self.function = function

    def forward(self, x):
        return self.function(x, self.weight)


def tokens():
    operator("add_positions-plain", None, lambda: random(3, 5, 8), Parameter((5, 8), lambda x, w: x + w))
    operator("add_positions-batched", None, lambda: random(2, 7, 5), Parameter((1, 7, 5), lambda x, w: x + w))
    operator("prepend_token-plain", None, lambda: random(3, 5, 8),
             Parameter((1, 1, 8), lambda x, w: torch.cat([w.expand(len(x), -1, -1), x], 1)))
    operator("image_tokens-plain", lambda x: x.flatten(2).transpose(1, 2), lambda: random(3, 5, 2, 3))
    operator("image_tokens-blocked", lambda x: x.flatten(2).transpose(1, 2), lambda: random(2, 32, 3, 3))
    operator("first_step-plain", lambda x: x[:, 0], lambda: random(3, 5, 8))
    operator("last_step-plain", lambda x: x[:, -1], lambda: random(3, 5, 8))
    operator("mean_over_time-plain", lambda x: x.mean(1), lambda: random(3, 5, 7))


def philox(seed, stream, index):
    """Philox4x32-10 (Salmon et al., SC 2011) as in base/philox.h: the four words of one draw."""
    w = [index & 0xFFFFFFFF, index >> 32, stream & 0xFFFFFFFF, stream >> 32]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        first, second = 0xD2511F53 * w[0], 0xCD9E8D57 * w[2]
        w = [second >> 32 ^ w[1] ^ key[0], second & 0xFFFFFFFF, first >> 32 ^ w[3] ^ key[1], first & 0xFFFFFFFF]
        key = [key[0] + 0x9E3779B9 & 0xFFFFFFFF, key[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return w


PHILOX_DROPOUT = 4  # enum philox_stream


def stochastic_depth(name, *shape, probability, seed, batch):
    """As dropout() below, but sample n is decided as element n is there, with all of its values."""
    probability = float(np.float32(probability))
    stream = PHILOX_DROPOUT << 32 | 2
    words = [philox(seed, stream, (batch << 32) + n // 4)[n % 4] for n in range(shape[0])]
    kept = torch.tensor([(word >> 8) / 2 ** 24 >= probability for word in words], dtype=torch.float64)
    mask = kept.reshape([-1] + [1] * (len(shape) - 1)) / (1 - probability)
    operator("stochastic_depth-" + name, lambda x: (x + torch.tanh(x)) * mask, lambda: random(*shape),
             probability=probability, seed=seed, batch=batch)


def channel_dropout(name, *shape, probability, seed, batch):
    """As dropout() below, but channel c of sample n is decided as element n C + c is there."""
    probability = float(np.float32(probability))
    stream = PHILOX_DROPOUT << 32 | 2
    count = shape[0] * shape[1]
    words = [philox(seed, stream, (batch << 32) + e // 4)[e % 4] for e in range(count)]
    kept = torch.tensor([(word >> 8) / 2 ** 24 >= probability for word in words], dtype=torch.float64)
    mask = kept.reshape(list(shape[:2]) + [1] * (len(shape) - 2)) / (1 - probability)
    operator("channel_dropout-" + name, lambda x: (x + torch.tanh(x)) * mask, lambda: random(*shape),
             probability=probability, seed=seed, batch=batch)


def channel_scale(name, *shape):
    """x times the sigmoid of its channels' means."""
    operator("channel_scale-" + name, lambda x: x * torch.sigmoid(x.mean((2, 3), keepdim=True)), lambda: random(*shape) * 2)


def global_average_pool(name, *shape):
    operator("global_average_pool2d-" + name, None, lambda: random(*shape), nn.AdaptiveAvgPool2d(1))


def dropout(name, *shape, probability, seed, batch):
    """x + tanh(x) under the mask of the graph's third node (two are before it). Element e of the batch is decided by
    word e % 4 of draw batch * 2^32 + e / 4: kept where its 24 high bits, as a fraction, reach the probability."""
    probability = float(np.float32(probability))
    stream = PHILOX_DROPOUT << 32 | 2
    words = [philox(seed, stream, (batch << 32) + e // 4)[e % 4] for e in range(int(np.prod(shape)))]
    kept = torch.tensor([(word >> 8) / 2 ** 24 >= probability for word in words], dtype=torch.float64)
    mask = kept.reshape(shape) / (1 - probability)
    operator("dropout-" + name, lambda x: (x + torch.tanh(x)) * mask, lambda: random(*shape), probability=probability,
             seed=seed, batch=batch)


def operators():
    linear("plain", 8, 16, features=12)
    linear("odd", 7, 13, features=5)
    linear("one-row", 1, 9, features=3)
    linear("no-bias", 6, 10, features=17, bias=False)
    linear("wide", 33, 65, features=31)
    linear("sequence", 4, 5, 6, features=7)
    conv("plain", 2, 3, 8, 8, channels=4, padding=(1, 1))
    conv("odd", 3, 5, 7, 9, channels=7)
    conv("blocked", 2, 16, 6, 6, channels=32, padding=(1, 1))
    conv("one-by-one", 2, 6, 5, 5, channels=9, kernel=(1, 1))
    conv("five", 2, 1, 12, 12, channels=6, kernel=(5, 5), padding=(2, 2))
    conv("stride", 2, 4, 9, 9, channels=5, stride=(2, 2), padding=(1, 1))
    conv("uneven", 2, 3, 10, 7, channels=4, kernel=(3, 2), stride=(2, 1), padding=(1, 0))
    conv("dilation", 2, 3, 11, 11, channels=4, dilation=(2, 2), padding=(2, 2))
    conv("groups", 2, 6, 7, 7, channels=9, groups=3, padding=(1, 1))
    conv("depthwise", 2, 8, 7, 7, channels=8, groups=8, padding=(1, 1))
    conv("no-bias", 2, 3, 6, 6, channels=4, bias=False, stride=(2, 2))
    for low in LOW_TYPES:
        linear(low, 24, 40, features=33, compute=low)
        linear(low + "-sequence", 4, 5, 6, features=7, bias=False, compute=low)
        conv(low, 2, 16, 6, 5, channels=32, padding=(1, 1), compute=low)
        conv(low + "-first", 2, 3, 9, 9, channels=16, stride=(2, 2), padding=(1, 1), compute=low)
        conv(low + "-one", 2, 1, 8, 8, channels=16, kernel=(5, 5), compute=low)
        conv(low + "-odd", 3, 5, 6, 5, channels=7, compute=low)
        conv(low + "-depthwise", 2, 16, 6, 6, channels=16, groups=16, padding=(1, 1), compute=low)
    pool("max_pool2d", "plain", 2, 3, 8, 8, kernel=(2, 2), stride=(2, 2))
    pool("max_pool2d", "odd", 3, 5, 7, 9, kernel=(2, 2), stride=(2, 2))
    pool("max_pool2d", "overlap", 2, 4, 9, 9, kernel=(3, 3), stride=(2, 2), padding=(1, 1))
    pool("max_pool2d", "uneven", 2, 3, 10, 7, kernel=(3, 2), stride=(2, 3), padding=(1, 0))
    pool("average_pool2d", "plain", 2, 3, 8, 8, kernel=(2, 2), stride=(2, 2))
    pool("average_pool2d", "odd", 3, 5, 7, 9, kernel=(2, 2), stride=(2, 2))
    pool("average_pool2d", "overlap", 2, 4, 9, 9, kernel=(3, 3), stride=(2, 2), padding=(1, 1))
    pool("average_pool2d", "whole", 2, 5, 4, 4, kernel=(4, 4), stride=(4, 4))
    batch_norm("features", 9, 6)
    batch_norm("features-odd", 7, 19, epsilon=1e-3, momentum=0.3)
    batch_norm("images", 3, 4, 5, 6)
    batch_norm("images-blocked", 2, 32, 4, 4)
    batch_norm("features-evaluation", 5, 7, training=False)
    batch_norm("images-evaluation", 2, 5, 4, 3, training=False)
    for kind, function in (("relu", torch.relu), ("silu", F.silu), ("gelu", F.gelu), ("tanh", torch.tanh),
                           ("sigmoid", torch.sigmoid), ("hardswish", F.hardswish), ("hardsigmoid", F.hardsigmoid),
                           ("relu6", F.relu6), ("gelu_tanh", functools.partial(F.gelu, approximate="tanh")),
                           ("mish", F.mish), ("softplus", F.softplus)):
        operator(f"{kind}-plain", function, lambda: random(6, 16) * 2)
        operator(f"{kind}-odd", function, lambda: random(3, 5, 3, 7) * 4)
    operator("elu-plain", F.elu, lambda: random(6, 16) * 2, alpha=1.0)
    operator("elu-alpha", functools.partial(F.elu, alpha=-0.7), lambda: random(3, 5, 3, 7) * 4, alpha=-0.7)
    embedding = nn.Embedding(11, 5)
    operator("embedding-plain", None, lambda: torch.randint(0, 11, (6, 4)), embedding, vocabulary=11, width=5)
    embedding = nn.Embedding(3, 16)
    operator("embedding-repeated", None, lambda: torch.randint(0, 3, (9, 7)), embedding, vocabulary=3, width=16)
    operator("add-plain", lambda x: x + torch.tanh(x), lambda: random(5, 7))
    operator("flatten-plain", lambda x: x.flatten(1), lambda: random(3, 4, 5))
    operator("mse-plain", lambda x: x, lambda: random(5, 3))
    dropout("rows", 7, 37, probability=0.3, seed=42, batch=1)
    dropout("images", 3, 5, 3, 7, probability=0.5, seed=(7 << 32) + 9, batch=12)
    dropout("images-blocked", 3, 16, 5, 5, probability=0.1, seed=(1 << 52) + 3, batch=(1 << 20) + 5)
    torch.manual_seed(1)
    operator("cross_entropy-plain", lambda x: x, lambda: random(8, 10) * 3, target=torch.randint(0, 10, (8,)).int())
    operator("cross_entropy-odd", lambda x: x, lambda: random(7, 17) * 20, target=torch.randint(0, 17, (7,)).int())
    operator("cross_entropy-two", lambda x: x, lambda: random(5, 2), target=torch.randint(0, 2, (5,)).int())
    conv("depthwise-five", 3, 16, 9, 7, channels=16, groups=16, kernel=(5, 5), padding=(2, 2), bias=False)
    conv("depthwise-five-stride", 3, 8, 7, 8, channels=8, groups=8, kernel=(5, 5), padding=(2, 2), stride=(2, 2))
    conv("depthwise-small", 5, 16, 2, 2, channels=16, groups=16, padding=(1, 1), bias=False)
    conv("depthwise-small-five", 9, 24, 2, 2, channels=24, groups=24, kernel=(5, 5), padding=(2, 2), bias=False)
    conv("depthwise-odd", 3, 5, 6, 5, channels=5, groups=5, padding=(1, 1))
    conv("depthwise-seven", 2, 8, 7, 9, channels=8, groups=8, kernel=(7, 7), padding=(3, 3), stride=(1, 2))
    conv("depthwise-uneven", 2, 16, 7, 6, channels=16, groups=16, kernel=(2, 4), padding=(1, 2), stride=(2, 1))
    conv("pixels", 5, 24, 1, 1, channels=7, kernel=(1, 1))
    conv("pixels-blocked", 9, 16, 1, 1, channels=32, kernel=(1, 1), bias=False)
    conv("pixels-groups", 5, 16, 1, 1, channels=8, kernel=(1, 1), groups=2)
    channel_scale("plain", 3, 5, 4, 6)
    channel_scale("blocked", 2, 32, 5, 3)
    channel_scale("blocked-eight", 3, 24, 7, 7)
    channel_scale("large", 1, 8, 13, 11)
    channel_scale("pixel", 3, 8, 1, 1)
    global_average_pool("plain", 2, 5, 7, 3)
    global_average_pool("large", 1, 8, 11, 13)
    global_average_pool("blocked", 2, 16, 3, 5)
    global_average_pool("blocked-eight", 2, 24, 2, 2)
    channel_dropout("images", 5, 7, 2, 3, probability=0.3, seed=5, batch=3)
    channel_dropout("images-blocked", 3, 16, 2, 3, probability=0.5, seed=(3 << 40) + 1, batch=9)
    channel_dropout("sequence", 4, 6, 5, probability=0.4, seed=8, batch=2)
    stochastic_depth("images", 9, 3, 2, 3, probability=0.3, seed=5, batch=3)
    stochastic_depth("images-blocked", 7, 16, 2, 3, probability=0.5, seed=(3 << 40) + 1, batch=9)
    torch.manual_seed(2)
    mixed = torch.rand(8, 10).softmax(1)
    operator("cross_entropy-soft", lambda x: x, lambda: random(8, 10) * 3, target=mixed.float().double())
    smoothed = F.one_hot(torch.randint(0, 17, (7,)), 17) * 0.9 + 0.1 / 17
    operator("cross_entropy-soft-odd", lambda x: x, lambda: random(7, 17) * 20, target=smoothed.float().double())
    operator("cross_entropy-soft-sum", lambda x: x, lambda: random(5, 3), target=torch.rand(5, 3).float().double())
    row_norm("layer_norm", "rows", 9, 24)
    row_norm("layer_norm", "sequence", 3, 7, 37, epsilon=1e-3)
    row_norm("layer_norm", "plain-scale", 4, 5, 16, bias=False)
    row_norm("layer_norm", "long", 1, 70, 33)
    row_norm("layer_norm", "far", 5, 40, scale=1.0, shift=10.0)
    row_norm("layer_norm", "evaluation", 3, 2, 19, training=False)
    row_norm("add_layer_norm", "sequence", 3, 5, 48)
    row_norm("add_layer_norm", "odd", 7, 13, epsilon=1e-3)
    row_norm("add_layer_norm", "evaluation", 2, 3, 18, training=False)
    row_norm("rms_norm", "rows", 9, 24)
    row_norm("rms_norm", "sequence", 3, 7, 37, epsilon=1e-3)
    row_norm("rms_norm", "evaluation", 3, 2, 19, training=False)
    row_norm("add_rms_norm", "sequence", 3, 5, 48)
    row_norm("add_rms_norm", "odd", 7, 13, epsilon=1e-3)
    attention("plain", 3, 5, 2, 8, causal=False)
    attention("causal", 3, 7, 2, 8, causal=True)
    attention("odd", 2, 13, 3, 5, causal=False)
    attention("odd-causal", 1, 29, 3, 5, causal=True)
    attention("blocks", 1, 150, 1, 4, causal=False)
    attention("blocks-causal", 1, 203, 1, 3, causal=True)
    attention("one", 4, 1, 2, 16, causal=True)
    rotary("plain", 3, 6, 2, 6)
    rotary("odd", 2, 17, 1, 2)
    tokens()
    conv_transpose("plain", 2, 3, 5, 5, channels=4, kernel=(3, 3))
    conv_transpose("double", 2, 16, 4, 4, channels=8, kernel=(2, 2), stride=(2, 2))
    conv_transpose("uneven", 2, 6, 5, 4, channels=9, kernel=(4, 3), stride=(2, 3), padding=(1, 0), output_padding=(1, 2))
    conv_transpose("dilation", 3, 4, 5, 6, channels=5, kernel=(3, 2), dilation=(2, 2), padding=(2, 1), bias=False)
    conv_transpose("groups", 2, 8, 3, 5, channels=12, kernel=(3, 3), stride=(2, 2), groups=4, padding=(1, 1))
    conv_transpose("blocked", 2, 32, 4, 3, channels=16, kernel=(4, 4), stride=(2, 2), padding=(1, 1))
    conv_transpose("pixels", 5, 6, 1, 1, channels=7, kernel=(1, 1))
    for kind in (nn.Conv1d, nn.ConvTranspose1d):
        conv1d(kind, "plain", 3, 5, 11, channels=8, kernel=3, padding=1)
        conv1d(kind, "odd", 2, 16, 9, channels=12, kernel=4, stride=2, padding=1, dilation=2, groups=4, bias=False)
        conv1d(kind, "blocked", 2, 16, 7, channels=32, kernel=3, stride=3)
    operator("resize1d-linear", functools.partial(F.interpolate, scale_factor=2.0, mode="linear"), lambda: random(3, 5, 7),
             length=14.0, scale=2.0)
    for low in LOW_TYPES:
        conv_transpose(low, 2, 16, 4, 3, channels=16, kernel=(4, 4), stride=(2, 2), padding=(1, 1), bias=False, compute=low)
    group_norm("images", 3, 6, 5, 4, groups=3)
    group_norm("blocked", 2, 32, 3, 5, groups=8, epsilon=1e-3)
    group_norm("one", 3, 24, 4, 4, groups=1)
    group_norm("instances", 2, 5, 7, 3, groups=5)
    group_norm("rows", 7, 12, groups=4)
    group_norm("sequence", 3, 8, 33, groups=2)
    group_norm("far", 2, 8, 15, 15, groups=2, shift=10.0)
    group_norm("evaluation", 2, 9, 3, 3, groups=3, training=False)
    for kind, parameter in (("mae", 0.0), ("huber", 0.7), ("quantile", 0.9), ("cosine", 0.0)):
        operator(f"{kind}-plain", lambda x: x, lambda: random(7, 5) * 2, parameter=float(np.float32(parameter)))
    operator("binary_cross_entropy-plain", lambda x: x, lambda: random(9, 6) * 4,
             target=torch.randint(0, 2, (9, 6)).double(), parameter=0.0)
    for gamma in (0.0, 2.0):
        operator(f"focal-{int(gamma)}", lambda x: x, lambda: random(8, 5) * 3, target=torch.randint(0, 5, (8,)).int(),
                 gamma=gamma)
    operator("smooth_l1-plain", lambda x: x, lambda: random(7, 5) * 2, parameter=float(np.float32(0.7)))
    for name, weights in (("weight", (3.5,)), ("weights", (0.25, 1.0, 2.0, 8.0, 0.5, 31.0))):
        operator(f"binary_cross_entropy-{name}", lambda x: x, lambda: random(9, 6) * 4,
                 target=torch.randint(0, 2, (9, 6)).double(), parameter=0.0, numbers=float(len(weights)),
                 **{f"number{i}": weight for i, weight in enumerate(weights)})
    operator("quantiles-plain", lambda x: x, lambda: random(7, 6) * 2, target=random(7, 2), parameter=0.0, numbers=3.0,
             number0=0.125, number1=0.5, number2=0.9375)
    for mining, number in MINING.items():
        for name, margin, count, features in (("plain", 1.0, 9, 5), ("wide", 0.5, 9, 33), ("apart", 1e-3, 8, 3),
                                              ("alone", 1.0, 4, 4)):
            label = torch.arange(count).int() * 7 % 13 % (4 if name != "alone" else 13)
            operator(f"triplet-{mining}-{name}", lambda x: x, lambda: clear_samples(count, features, label, margin),
                     target=label, mining=float(number), margin=margin)
    for classes in (2, 5, 33):
        operator(f"ordinal-{classes}", lambda x: x, lambda classes=classes: random(8, classes) * 3,
                 target=torch.randint(0, classes, (8,)).int())
    for kind, module in (("adaptive_average", nn.AdaptiveAvgPool2d), ("max_adaptive", nn.AdaptiveMaxPool2d)):
        for name, shape, size in (("plain", (2, 3, 8, 6), (4, 3)), ("odd", (3, 5, 7, 9), (3, 4)),
                                  ("blocked", (2, 16, 10, 7), (7, 7)), ("eight", (2, 24, 5, 5), (3, 2))):
            operator(f"{kind}_pool2d-{name}", None, lambda shape=shape: random(*shape), module(size),
                     height=float(size[0]), width=float(size[1]))
    resize("nearest", 2, 3, 4, 5, scale=2.0)
    resize("nearest", 2, 16, 5, 3, size=(8, 7), name="odd")
    resize("nearest", 2, 5, 6, 7, scale=0.5, name="smaller")
    resize("bilinear", 2, 3, 4, 5, scale=2.0)
    resize("bilinear", 2, 24, 5, 3, size=(8, 7), name="odd")
    resize("bilinear", 3, 5, 6, 7, scale=1.7, name="fraction")
    resize("bilinear", 2, 16, 9, 8, size=(3, 5), name="smaller")
    resize("bilinear", 2, 4, 4, 5, scale=3.0, name="corners", align_corners=True)
    resize("bilinear", 2, 8, 4, 5, size=(1, 9), name="corners-one", align_corners=True)


# ---- optimizers --------------------------------------------------------------------------------

class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, arXiv:2302.06675, algorithm 2, with decoupled weight decay."""

    def __init__(self, parameters, lr, betas, weight_decay):
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("momentum", torch.zeros_like(p))
                update = torch.sign(beta1 * m + (1 - beta1) * p.grad)
                p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * update)
                m.mul_(beta2).add_(p.grad, alpha=1 - beta2)


class ScheduleFreeAdamW(torch.optim.Optimizer):
    """Defazio et al. 2024, arXiv:2405.15682, algorithm 1, written from the paper: the parameters are y, where gradients are taken;
    z is the base, and x, the model, the mean of all z. The learning rates' largest squares are the weights of the mean, as in the
    authors' AdamWScheduleFree."""

    def __init__(self, parameters, lr, betas, eps, weight_decay):
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self.steps, self.sum, self.largest = 0, 0.0, 0.0

    @torch.no_grad()
    def step(self):
        self.steps += 1
        self.largest = max([self.largest] + [group["lr"] for group in self.param_groups])
        self.sum += self.largest ** 2
        share = self.largest ** 2 / self.sum
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for y in group["params"]:
                state = self.state[y]
                if not state:
                    state.update(z=y.clone(), x=y.clone(), exp_avg_sq=torch.zeros_like(y))
                z, x, v = state["z"], state["x"], state["exp_avg_sq"]
                v.mul_(beta2).addcmul_(y.grad, y.grad, value=1 - beta2)
                direction = y.grad / ((v / (1 - beta2 ** self.steps)).sqrt() + group["eps"])
                z.sub_(group["lr"] * (direction + group["weight_decay"] * y))
                x.mul_(1 - share).add_(share * z)
                y.copy_((1 - beta1) * z + beta1 * x)


# torch's name of a state: ours
STATES = {"sgd": {"momentum_buffer": "momentum"}, "adam": {"exp_avg": "first_moment", "exp_avg_sq": "second_moment"},
          "adamw": {"exp_avg": "first_moment", "exp_avg_sq": "second_moment"},
          "rmsprop": {"square_avg": "second_moment", "momentum_buffer": "momentum"}, "lion": {"momentum": "momentum"},
          "adagrad": {"sum": "square_sum"}, "adadelta": {"square_avg": "second_moment", "acc_delta": "step_moment"},
          "nadam": {"exp_avg": "first_moment", "exp_avg_sq": "second_moment"}}
STATES["muon"] = {"momentum_buffer": "momentum", **STATES["adamw"]}
STATES["adamax"] = {"exp_avg": "first_moment", "exp_inf": "largest_gradient"}
STATES["amsgrad"] = {**STATES["adam"], "max_exp_avg_sq": "largest_moment"}
STATES["schedule_free_adamw"] = {"z": "base", "x": "average", "exp_avg_sq": "second_moment"}
STATES["lamb"] = STATES["adamw"]
# settings that only some optimizers have; the others' dumps do not mention them
OWN_SETTINGS = {"adagrad": {"learning_rate_decay": 0.0, "initial_square_sum": 0.0},
                "muon": {"iterations": 5, "match_adamw": False},
                "amsgrad": {"decoupled_weight_decay": False},
                "nadam": {"momentum_decay": 4e-3, "decoupled_weight_decay": False}}


def make_optimizer(kind, parameters, lr, **options):
    """Returns the optimizer and its settings as attributes (those of struct optimizer_config)."""
    settings = {"momentum": 0.0, "nesterov": False, "dampening": 0.0, "weight_decay": 0.0, "beta1": 0.9,
                "beta2": 0.99 if kind == "lion" else 0.999, "epsilon": 1e-8, "alpha": 0.99, **OWN_SETTINGS.get(kind, {})}
    assert not set(options) - set(settings)
    settings.update(options)
    s = settings
    betas = (s["beta1"], s["beta2"])
    optimizer = {
        "sgd": lambda: torch.optim.SGD(parameters, lr, s["momentum"], s["dampening"], s["weight_decay"], s["nesterov"]),
        "adam": lambda: torch.optim.Adam(parameters, lr, betas, s["epsilon"], s["weight_decay"]),
        "adamw": lambda: torch.optim.AdamW(parameters, lr, betas, s["epsilon"], s["weight_decay"]),
        "rmsprop": lambda: torch.optim.RMSprop(parameters, lr, s["alpha"], s["epsilon"], s["weight_decay"],
                                               s["momentum"]),
        "lion": lambda: Lion(parameters, lr, betas, s["weight_decay"]),
        "adagrad": lambda: torch.optim.Adagrad(parameters, lr, s["learning_rate_decay"], s["weight_decay"],
                                               s["initial_square_sum"], s["epsilon"]),
        "adadelta": lambda: torch.optim.Adadelta(parameters, lr, s["alpha"], s["epsilon"], s["weight_decay"]),
        "lamb": lambda: torch_optimizers.Lamb(parameters, lr, betas, s["epsilon"], s["weight_decay"]),
        "adamax": lambda: torch.optim.Adamax(parameters, lr, betas, s["epsilon"], s["weight_decay"]),
        "amsgrad": lambda: (torch.optim.AdamW if s["decoupled_weight_decay"] else torch.optim.Adam)(
            parameters, lr, betas, s["epsilon"], s["weight_decay"], amsgrad=True),
        "schedule_free_adamw": lambda: ScheduleFreeAdamW(parameters, lr, betas, s["epsilon"], s["weight_decay"]),
        "muon": lambda: MuonAndAdamW(parameters, lr, s),
        "nadam": lambda: torch.optim.NAdam(parameters, lr, betas, s["epsilon"], s["weight_decay"], s["momentum_decay"],
                                           s["decoupled_weight_decay"]),
    }[kind]()
    attributes = {"attribute/" + key: float(value) for key, value in settings.items()}
    attributes["attribute/optimizer"] = float(list(STATES).index(kind))
    return optimizer, attributes


@functools.cache
def make_muon_exact():
    module = importlib.import_module("torch.optim._muon")
    exact = inspect.getsource(module._zeropower_via_newtonschulz).replace("dtype=torch.bfloat16, ", "dtype=grad.dtype, ")
    assert "bfloat16" not in exact
    exec(exact, module.__dict__)  # pylint: disable=exec-used


class MuonAndAdamW:
    """torch.optim.Muon for the matrices, AdamW for the rest; the iterations in the parameters' precision, not bfloat16."""

    def __init__(self, parameters, lr, settings):
        make_muon_exact()
        parameters = list(parameters)
        adjust = "match_rms_adamw" if settings["match_adamw"] else "original"
        self.matrices = torch.optim.Muon([p for p in parameters if p.dim() == 2], lr, settings["weight_decay"],
                                         settings["momentum"], settings["nesterov"], eps=settings["epsilon"],
                                         ns_steps=settings["iterations"], adjust_lr_fn=adjust)
        self.others = torch.optim.AdamW([p for p in parameters if p.dim() != 2], lr, weight_decay=0.01)
        self.param_groups = self.matrices.param_groups + self.others.param_groups

    @property
    def state(self):
        return {**self.others.state, **self.matrices.state}

    def step(self):
        self.matrices.step()
        self.others.step()


def optimizer_case(name, lr, steps=5, shape=(13, 7), clip_norm=0, clip_value=0, bias=None, average_decay=0, **options):
    """Updates of the parameters of Linear(13, 7) with given gradients; the rate changes on the way. bias: the weight
    decay and the factor of the learning rate that the bias has as a group of its own."""
    torch.manual_seed(sum(map(ord, name)))
    kind = name.split("-")[0]
    chain = nn.Sequential(nn.Linear(*shape)).double()
    randomise(chain)
    tensors = state(chain)
    rates = [lr / 2 ** (step // 2) for step in range(steps)]
    parameters = chain.parameters()
    if bias:
        parameters = [{"params": [chain[0].weight]}, {"params": [chain[0].bias], "weight_decay": bias[0]}]
    optimizer, attributes = make_optimizer(kind, parameters, lr, **options)
    tensors.update(attributes)
    if bias:
        tensors.update({"attribute/bias_weight_decay": bias[0], "attribute/bias_learning_rate_scale": bias[1]})
    clips = {"attribute/clip_norm": clip_norm, "attribute/clip_value": clip_value}
    tensors.update({key: value for key, value in clips.items() if value})
    tensors["attribute/steps"] = len(rates)
    if average_decay:
        tensors["attribute/average_decay"] = average_decay
        averages = torch.optim.swa_utils.AveragedModel(
            chain, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(average_decay))
    for step, rate in enumerate(rates, 1):
        for group, scale in zip(optimizer.param_groups, (1, bias[1] if bias else 1), strict=False):
            group["lr"] = rate * scale
        tensors[f"attribute/learning_rate/{step}"] = rate
        for key, parameter in chain.named_parameters():
            parameter.grad = random(*parameter.shape, scale=0.3)
            tensors[f"gradient/{step}/{key}"] = parameter.grad.clone()
        if clip_norm:
            nn.utils.clip_grad_norm_(chain.parameters(), clip_norm)
        if clip_value:
            nn.utils.clip_grad_value_(chain.parameters(), clip_value)
        optimizer.step()
        tensors.update({f"expected/{step}/{key}": value for key, value in state(chain).items()})
        if average_decay:
            averages.update_parameters(chain)
    if average_decay:
        tensors.update({f"expected/state/{key}.average": value for key, value in state(averages.module).items()})
    for key, parameter in chain.named_parameters():
        for theirs, ours in STATES[kind].items():
            if optimizer.state.get(parameter, {}).get(theirs) is not None:
                tensors[f"expected/state/{key}.{ours}"] = optimizer.state[parameter][theirs]
    write("optimizers", name, tensors)


def optimizers():
    optimizer_case("sgd-plain", 0.1)
    optimizer_case("sgd-decay", 0.1, weight_decay=0.05)
    optimizer_case("sgd-momentum", 0.1, momentum=0.9)
    optimizer_case("sgd-dampening", 0.1, momentum=0.9, dampening=0.3, weight_decay=0.01)
    optimizer_case("sgd-nesterov", 0.1, momentum=0.9, nesterov=True, weight_decay=0.01)
    optimizer_case("adam-plain", 0.01)
    optimizer_case("adam-decay", 0.01, weight_decay=0.1, beta1=0.8, beta2=0.95, epsilon=1e-3)
    optimizer_case("adamw-plain", 0.01, weight_decay=0.01)
    optimizer_case("adamw-strong", 0.05, weight_decay=0.5, beta1=0.7, beta2=0.9, epsilon=1e-2)
    optimizer_case("rmsprop-plain", 0.01)
    optimizer_case("rmsprop-momentum", 0.01, momentum=0.9, weight_decay=0.05, alpha=0.9, epsilon=1e-4)
    optimizer_case("lion-plain", 0.01)
    optimizer_case("lion-decay", 0.01, weight_decay=0.3, beta1=0.8, beta2=0.95)
    optimizer_case("adagrad-plain", 0.05, steps=10, epsilon=1e-10)
    optimizer_case("adagrad-decay", 0.05, steps=10, epsilon=1e-3, weight_decay=0.1, learning_rate_decay=0.2,
                   initial_square_sum=0.5)
    optimizer_case("adadelta-plain", 1.0, steps=10, alpha=0.9, epsilon=1e-6)
    optimizer_case("adadelta-decay", 0.5, steps=10, alpha=0.7, epsilon=1e-3, weight_decay=0.1)
    optimizer_case("nadam-plain", 0.02, steps=10)
    optimizer_case("nadam-decay", 0.02, steps=10, weight_decay=0.1, momentum_decay=0.05, beta1=0.8, beta2=0.95,
                   epsilon=1e-3)
    optimizer_case("sgd-clip-value", 0.1, momentum=0.9, weight_decay=0.05, clip_value=0.25)
    optimizer_case("adam-clip-both", 0.01, clip_norm=1.5, clip_value=0.2)
    optimizer_case("adamw-groups", 0.02, weight_decay=0.4, bias=(0.0, 3.0))
    optimizer_case("sgd-groups", 0.1, momentum=0.9, nesterov=True, weight_decay=0.1, bias=(0.3, 0.5))
    optimizer_case("adam-average", 0.05, steps=10, average_decay=0.9)
    optimizer_case("sgd-average", 0.1, steps=10, average_decay=0.3)
    optimizer_case("muon-wide", 0.05, steps=10, momentum=0.95, nesterov=True, weight_decay=0.1, epsilon=1e-7)
    optimizer_case("muon-tall", 0.01, steps=4, shape=(36, 50), momentum=0.9, epsilon=1e-7, match_adamw=True, weight_decay=0.3)
    optimizer_case("adamax-plain", 0.02, steps=10)
    optimizer_case("adamax-decay", 0.02, steps=10, weight_decay=0.1, beta1=0.8, beta2=0.95, epsilon=1e-3)
    optimizer_case("amsgrad-plain", 0.02, steps=10, beta2=0.9)
    optimizer_case("amsgrad-decoupled", 0.02, steps=10, weight_decay=0.3, beta2=0.8, decoupled_weight_decay=True)
    optimizer_case("schedule_free_adamw-plain", 0.05, steps=10)
    optimizer_case("schedule_free_adamw-decay", 0.05, steps=10, weight_decay=0.1, beta1=0.8, beta2=0.95, epsilon=1e-3)
    optimizer_case("lamb-plain", 0.02, steps=10)
    optimizer_case("lamb-decay", 0.02, steps=10, weight_decay=0.1, beta1=0.8, beta2=0.95, epsilon=1e-3)
    optimizer_case("nadam-decoupled", 0.02, steps=10, weight_decay=0.3, decoupled_weight_decay=True)


# ---- schedules ---------------------------------------------------------------------------------

SCHEDULES = ["constant", "cosine", "step", "multi_step", "linear", "polynomial", "one_cycle", "plateau"]


def scheduled(name, kind, make, steps, warmup=0, momentum=False, **attributes):
    """The learning rate (and momentum) of each step; a warm-up as LinearLR in a SequentialLR."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1, momentum=0.9)
    schedulers = torch.optim.lr_scheduler
    scheduler = make(schedulers, optimizer)
    if warmup:
        rise = schedulers.LinearLR(optimizer, 1 / warmup, 1, max(warmup - 1, 1))
        scheduler = schedulers.SequentialLR(optimizer, [rise, scheduler], [warmup])
    rates, momenta = [], []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        momenta.append(optimizer.param_groups[0]["momentum"])
        optimizer.step()
        scheduler.step()
    tensors = {"attribute/" + key: float(value) for key, value in attributes.items()}
    tensors.update({"attribute/schedule": float(SCHEDULES.index(kind)), "attribute/warmup_steps": float(warmup),
                    "attribute/learning_rate": 0.1, "attribute/steps": float(steps),
                    "expected/learning_rates": rates})
    if momentum:
        tensors["expected/momenta"] = momenta
    write("schedules", name, tensors)


def plateau(name, metric, values, **options):
    """ReduceLROnPlateau: the learning rate after each measurement."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    mode = "min" if metric.endswith("loss") else "max"
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode, **options)
    rates = []
    for value in values:
        scheduler.step(value)
        rates.append(optimizer.param_groups[0]["lr"])
    tensors = {"attribute/" + key: float(value) for key, value in
               {"factor": 0.1, "patience": 10, "threshold": 1e-4, "cooldown": 0, "min_lr": 0, **options,
                "threshold_mode": options.get("threshold_mode", "rel") == "rel"}.items()}
    tensors.update({"attribute/schedule": float(SCHEDULES.index("plateau")), "attribute/learning_rate": 0.1,
                    "attribute/maximises": float(mode == "max"), "values": list(values),
                    "expected/learning_rates": rates})
    write("schedules", name, tensors)


def schedules():
    scheduled("constant-warmup", "constant", lambda s, o: s.ConstantLR(o, 1, 1), 12, warmup=5)
    for warmup, suffix in ((0, ""), (4, "-warmup")):
        scheduled("cosine" + suffix, "cosine", lambda s, o: s.CosineAnnealingLR(o, 20, eta_min=0.01), 20 + warmup, warmup,
                  total_steps=20 + warmup, minimum=0.01)
        scheduled("step" + suffix, "step", lambda s, o: s.StepLR(o, 3, gamma=0.3), 16, warmup, every_steps=3, factor=0.3)
        scheduled("multi_step" + suffix, "multi_step", lambda s, o: s.MultiStepLR(o, [2, 5, 11], gamma=0.2), 18, warmup,
                  factor=0.2, milestone_0=2, milestone_1=5, milestone_2=11)
        scheduled("linear" + suffix, "linear", lambda s, o: s.LinearLR(o, 1, 0.25, 15), 15 + warmup, warmup,
                  total_steps=15 + warmup, minimum=0.025)
        scheduled("polynomial" + suffix, "polynomial", lambda s, o: s.PolynomialLR(o, 15, power=1.7), 15 + warmup, warmup,
                  total_steps=15 + warmup, power=1.7)
    cycle = {"rise": 0.3, "start_divisor": 25, "end_divisor": 1e4, "lowest_momentum": 0.85, "highest_momentum": 0.95}
    scheduled("one_cycle", "one_cycle", lambda s, o: s.OneCycleLR(o, 0.1, 31), 31, momentum=True, total_steps=31, **cycle)
    cycle.update(rise=0.45, start_divisor=10, end_divisor=50, lowest_momentum=0.6, highest_momentum=0.9)
    scheduled("one_cycle-linear", "one_cycle",
              lambda s, o: s.OneCycleLR(o, 0.1, 20, pct_start=0.45, anneal_strategy="linear", div_factor=10,
                                        final_div_factor=50, base_momentum=0.6, max_momentum=0.9),
              20, momentum=True, total_steps=20, linear=1, **cycle)
    torch.manual_seed(3)
    falling = [1 / (i + 1) + 0.05 * torch.rand(1).item() for i in range(40)]
    flat = [0.5 + 0.02 * torch.rand(1).item() for _ in range(40)]
    plateau("plateau-falling", "validation_loss", falling, factor=0.5, patience=2, threshold=0.02)
    plateau("plateau-cooldown", "validation_loss", flat, factor=0.3, patience=1, cooldown=3, min_lr=0.004)
    plateau("plateau-absolute", "validation_loss", falling, factor=0.5, patience=0, threshold=0.01, threshold_mode="abs")
    plateau("plateau-accuracy", "validation_accuracy", [1 - value for value in falling + flat], factor=0.5, patience=3,
            threshold=0.01)
    plateau("plateau-nan", "validation_loss", [float("nan"), 1.0, float("nan"), float("nan"), 0.9, 0.8, 0.8, 0.8], factor=0.5,
            patience=1)


# ---- trajectories ------------------------------------------------------------------------------

STEPS = 10
EXPECTED_ELEMENTS_MAX = 2000  # the losses behind an update tell of larger tensors; dumps stay small


def autocast_losses(chain, batches, optimizer, lr, **options):
    """What the steps on the batches lose under torch.autocast in bfloat16, with the weights in float32. Tells something
    of models alone whose losses do not blow small differences up, as those of tiny batches under batch norm do."""
    chain = chain.float()
    optimizer, _ = make_optimizer(optimizer, chain.parameters(), lr, **options)
    losses = []
    for x, t in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = chain(x.float())
        loss = loss_of(y.float(), t)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def least_relu_input(chain, x):
    """How near to 0 a ReLU of the module gets, of all that it reads. The module's statistics stay as they are."""
    least = []

    def look(_, inputs):
        least.append(inputs[0].abs().min().item())

    probe = copy.deepcopy(chain)
    for module in probe.modules():
        if isinstance(module, nn.ReLU):
            module.register_forward_pre_hook(look)
    with torch.no_grad():
        probe(x)
    return min(least)


def trajectory(name, chain, samples, targets, optimizer, lr, average_decay=0, autocast=False, relu_margin=0, **options):
    """Ten training steps, each with a batch of its own; then the loss on the first batch in evaluation mode, of the moving
    averages where they are kept. samples, targets: functions of the number of the step. relu_margin: a batch is drawn
    again while a ReLU reads a number nearer to 0 than this, where rounding would decide whether its gradient is passed."""
    torch.manual_seed(sum(map(ord, name)))
    chain.double().train()
    tensors = state(chain.float())  # PyTorch's own initial weights
    chain.double()
    chain.load_state_dict({key: value.double() for key, value in tensors.items()}, strict=False)
    kind, initial = optimizer, copy.deepcopy(chain)
    optimizer, attributes = make_optimizer(kind, chain.parameters(), lr, **options)
    tensors.update(attributes)
    tensors["attribute/steps"] = STEPS
    tensors["attribute/learning_rate"] = lr
    if average_decay:
        tensors["attribute/average_decay"] = average_decay
        averages = torch.optim.swa_utils.AveragedModel(
            chain, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(average_decay), use_buffers=True)
    losses, batches = [], []
    for step in range(1, STEPS + 1):
        x = samples(step)
        while relu_margin and least_relu_input(chain, x) < relu_margin:
            x = samples(step)
        t = targets(step, x)
        batches.append((x, t))
        tensors[f"samples/{step}"] = x
        tensors[f"target/{step}"] = t
        if getattr(chain, "has_lengths", False):
            tensors[f"lengths/{step}"] = chain.lengths_of(x).int()
        optimizer.zero_grad()
        loss = loss_of(chain(x), t)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if average_decay:
            averages.update_parameters(chain)
    evaluated = (averages.module if average_decay else chain).eval()
    tensors["expected/evaluation_loss"] = loss_of(evaluated(batches[0][0]), batches[0][1]).item()
    if average_decay:
        tensors.update({"expected/average/" + key: value for key, value in state(evaluated).items()})
    tensors["expected/losses"] = losses
    if autocast:
        tensors["expected/autocast_losses"] = autocast_losses(initial, batches, kind, lr, **options)
    tensors.update({"expected/" + key: value for key, value in state(chain).items()
                    if value.numel() <= EXPECTED_ELEMENTS_MAX})
    print(f"{name:20} {losses[0]:9.5f} -> {losses[-1]:9.5f}")
    write("trajectories", name, tensors)


def loss_of(y, target):
    if target.is_floating_point():
        return F.mse_loss(y, target)
    return F.cross_entropy(y.flatten(0, -2), target.long().flatten(), ignore_index=-1)


def small_images(_):
    return random(8, 3, 12, 12)


def brightest(_, x):
    return (x.mean((1, 2, 3)) * 30 + 1.5).clamp(0, 2).int()


def trajectories():
    torch.manual_seed(7)
    prototypes = random(5, 20)

    def vectors(_):
        return (random(16, 20) + prototypes[torch.randint(0, 5, (16,))]).float().double()

    def nearest(_, x):
        return (x @ prototypes.T).argmax(1).int()

    def mlp(normalised):
        layers = []
        for wide, narrow in ((20, 24), (24, 16)):
            layers += [nn.Linear(wide, narrow)] + [nn.BatchNorm1d(narrow)] * normalised + [nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(16, 5))

    trajectory("mlp", mlp(False), vectors, nearest, "sgd", 0.1, momentum=0.9, autocast=True)
    # A bias before batch normalisation has no gradient but for rounding; an epsilon above that keeps the update from
    # magnifying it.
    trajectory("mlp-batch-norm", mlp(True), vectors, nearest, "adamw", 0.01, weight_decay=0.01, epsilon=1e-3,
               autocast=True)

    def images(_):
        return random(8, 2, 11, 11)

    def cnn(normalised):
        layers = []
        for narrow, wide in ((2, 6), (6, 8)):
            layers += [nn.Conv2d(narrow, wide, 3, padding=1)] + [nn.BatchNorm2d(wide)] * normalised
            layers += [nn.ReLU(), nn.MaxPool2d(2)]
        layers += [nn.Flatten(), nn.Linear(32, 12)] + [nn.BatchNorm1d(12)] * normalised + [nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(12, 3))

    trajectory("cnn", cnn(False), images, brightest, "adam", 0.005, autocast=True)
    trajectory("cnn-batch-norm", cnn(True), images, brightest, "sgd", 0.05, momentum=0.9, nesterov=True)

    trajectory("cnn-average", cnn(True), images, brightest, "adamw", 0.02, average_decay=0.8, epsilon=1e-3)

    def contexts(_):
        return torch.randint(0, 13, (24, 4)).int()

    def following(_, x):
        return (x[:, -1] * 2 + 1) % 13

    trajectory("char_mlp", nn.Sequential(nn.Embedding(13, 6), nn.Flatten(), nn.Linear(24, 32), nn.Tanh(),
                                         nn.Linear(32, 13)), contexts, following, "rmsprop", 0.003, momentum=0.5)

    def smooth(_, x):
        return torch.stack((x[:, 0] * x[:, 1], torch.sin(x[:, 2])), 1).float().double()

    trajectory("regression", nn.Sequential(nn.Linear(6, 18), nn.GELU(), nn.Linear(18, 18), nn.SiLU(),
                                           nn.Linear(18, 2)), lambda _: random(20, 6), smooth, "lion", 0.003,
               weight_decay=0.1)

    torch.manual_seed(18)

    trajectory("resnet18", torch_models.resnet18(3, width=0.0625), small_images, brightest, "sgd", 0.02, momentum=0.9,
               weight_decay=5e-4, relu_margin=2e-5)
    torch.manual_seed(19)
    trajectory("mobilenet_v3_small", torch_models.mobilenet_v3_small(3, width=0.125, stem_stride=1, dropout=0.0),
               small_images, brightest, "sgd", 0.02, momentum=0.9)
    # Its first gradients are some 200 long, and the loss so curved that with larger steps PyTorch's own float32 and float64
    # part after a few.
    torch.manual_seed(20)
    trajectory("efficientnet_b0", torch_models.efficientnet_b0(3, channels=1, width=0.0625, stem_stride=1, dropout=0.0,
                                                               stochastic_depth=0.0),
               lambda _: random(16, 1, 20, 20), brightest, "sgd", 2e-5, momentum=0.9)
    recurrent_trajectories()


def recurrent_trajectories():
    """Numbers; and symbols of sequences of several lengths, which symbol 12 fills up."""
    def numbers(_):
        return random(12, 9, 5)

    def rising(_, x):
        return (x[:, -3:].mean((1, 2)) * 4 + 1.5).clamp(0, 2).int()

    def symbols(_):
        x = torch.randint(0, 12, (12, 9))
        lengths = torch.randint(1, 10, (12,))
        lengths[0] = 9
        x[torch.arange(9)[None] >= lengths[:, None]] = 12
        return x.int()

    def first(_, x):
        return x[:, 0] % 3

    for kind in ("lstm", "gru"):
        torch.manual_seed(21)
        trajectory(kind, torch_models.Recurrent(kind, 3, 5, 19), numbers, rising, "sgd", 0.5, momentum=0.9)
        torch.manual_seed(22)
        trajectory(kind + "-bidirectional", torch_models.Recurrent(kind, 3, 6, 17, 2, True, 13), symbols, first, "sgd", 0.5,
                   momentum=0.9)
        torch.manual_seed(23)
        trajectory(kind + "-mean", torch_models.Recurrent(kind, 3, 6, 17, 2, False, 13, True), symbols, first, "sgd", 0.5,
                   momentum=0.9)

    def texts(_):
        return torch.randint(0, 11, (6, 9)).int()

    def next_symbols(step, x):
        target = torch.cat([x[:, 1:], x[:, :1]], 1) * 3 % 11
        if step > 5:
            target[1:3, 4:] = -1  # as of a shorter sequence: these do not count
        return target.int()

    small = {"context": 9, "embedding": 24, "depth": 2, "heads": 3}
    torch.manual_seed(21)
    trajectory("gpt", torch_models.gpt(11, **small), texts, next_symbols, "adamw", 0.003, weight_decay=0.1,
               epsilon=1e-3)  # the gradient by a key's bias is rounding alone
    torch.manual_seed(22)
    trajectory("gpt-rotary", torch_models.gpt(11, **small, rotary=True), texts, next_symbols, "sgd", 0.1, momentum=0.9)
    patches = {"size": 12, "patch": 4, "embedding": 24, "depth": 2, "heads": 3, "mlp_ratio": 2}
    torch.manual_seed(23)
    trajectory("vit", torch_models.vit(3, **patches), small_images, brightest, "sgd", 0.05, momentum=0.9)
    torch.manual_seed(24)
    trajectory("vit-mean", torch_models.vit(3, channels=2, **patches, mean=True), lambda _: random(8, 2, 12, 12), brightest,
               "sgd", 0.05, momentum=0.9)
    carried_trajectories()
    lengths_trajectories()
    sequence_trajectories()


def lengths_trajectories():
    """Sequences of 1 to 9 steps of numbers."""
    def numbers(_):
        x = random(12, 9, 5)
        x[torch.arange(9)[None] >= torch.randint(1, 10, (12,))[:, None]] = 0
        return x

    def rising(_, x):
        return (x.sum((1, 2)) + 1.5).clamp(0, 2).int()

    for kind in ("lstm", "gru"):
        torch.manual_seed(26)
        trajectory(kind + "-lengths", torch_models.Recurrent(kind, 3, 5, 13, 2, True, mean=kind == "gru", has_lengths=True),
                   numbers, rising, "sgd", 0.5, momentum=0.9)


def carried_trajectories():
    """Six streams of a text, in windows end to end: truncated back-propagation through time."""
    window, streams = 5, 6
    for kind in ("lstm", "gru"):
        torch.manual_seed(25)
        text = torch.randint(0, 11, (streams, STEPS * window + 1))
        text[:, 2:] = (text[:, 1:-1] + 3 * text[:, :-2] + (text[:, 2:] == 0)) % 11  # what comes depends on what was

        def part(step, behind):
            return text[:, (step - 1) * window + behind:step * window + behind].int()

        trajectory(kind + "-carried", torch_models.Carried(kind, 11, 6, 17, 2), lambda step: part(step, 0),
                   lambda step, _: part(step, 1), "sgd", 0.5, momentum=0.9)


def sequence_trajectories():
    """Models over nucleotides: A C G T N and a padding."""
    def sequences(_):
        return torch.randint(0, 5, (12, 22)).int()

    def rich(_, x):
        return ((x == 1) | (x == 2)).sum(1).clamp(7, 9).sub(7).int()

    torch.manual_seed(31)
    trajectory("text_cnn", torch_sequence_models.TextCnn(3, 6, embedding=7, filters=5, kernels=[3, 6], hidden=[8]),
               sequences, rich, "adam", 0.01)
    for flatten in (True, False):
        torch.manual_seed(32)
        trajectory("dna_cnn" + "-max" * (not flatten),
                   torch_sequence_models.DnaCnn(3, 6, 22, embedding=4, channels=[16, 9], kernels=[5, 4], hidden=[8],
                                                flatten=flatten),
                   sequences, rich, "sgd", 0.05, momentum=0.9)
    padded_trajectories()
    for name, options in (("caduceus", {}), ("caduceus-layer-norm", {"layer_norm": True}),
                          ("caduceus-one-strand", {"reverse_complement": False}), ("caduceus-max", {"pooling": "max"}),
                          ("caduceus-flatten", {"reverse_complement": False, "pooling": "flatten", "length": 22})):
        torch.manual_seed(33)
        trajectory(name, torch_sequence_models.Caduceus(3, 6, embedding=20, depth=2, states=5, **options), sequences, rich,
                   "adamw", 0.01, epsilon=1e-3, weight_decay=0.01)


def padded_trajectories():
    """Sequences of 1 to 22 nucleotides, which symbol 5 fills up."""
    def sequences(_):
        x = torch.randint(0, 5, (12, 22))
        lengths = torch.randint(1, 23, (12,))
        x[torch.arange(22)[None] >= lengths[:, None]] = 5
        return x.int()

    def rich(_, x):
        return (((x == 1) | (x == 2)).sum(1) * 5 // (x != 5).sum(1)).clamp(1, 3).sub(1).int()

    torch.manual_seed(34)
    trajectory("text_cnn-padded", torch_sequence_models.TextCnn(3, 6, embedding=7, filters=5, kernels=[3, 6], hidden=[8],
                                                                padding=5), sequences, rich, "sgd", 0.1, momentum=0.9)
    trajectory("dna_cnn-padded", torch_sequence_models.DnaCnn(3, 6, 22, embedding=4, channels=[16, 9], kernels=[5, 4], hidden=[8],
                                                              flatten=False, padding=5), sequences, rich, "sgd", 0.05,
               momentum=0.9)


# ---- state_dicts -------------------------------------------------------------------------------

# ---- metrics -----------------------------------------------------------------------------------

def metrics_case(name, logits, labels):
    """The metrics by scikit-learn; AUC is left out where it is not defined."""
    from sklearn_metrics import class_metrics

    logits, labels = logits.to(torch.float32).to(torch.float64), labels.to(torch.int32)
    tensors = {"logits": logits, "labels": labels}
    for metric, value in class_metrics(logits.numpy(), labels.numpy()).items():
        tensors["expected/" + metric] = value
    write("metrics", name, tensors)


def metrics():
    def labelled(count, classes, scale=1.0):
        labels = torch.randint(classes, (count,))
        logits = random(count, classes)
        logits[torch.arange(count), labels] += scale
        return logits, labels

    torch.manual_seed(5)
    metrics_case("two", *labelled(101, 2))
    logits, labels = labelled(97, 2)
    metrics_case("two-tied", (logits * 2).round() / 2, labels)
    metrics_case("two-rare", logits, (torch.arange(97) % 24 == 0).long())
    metrics_case("two-one-predicted", torch.stack([logits[:, 0].abs() + 9, logits[:, 1]], 1), labels)
    metrics_case("two-one-labelled", logits, torch.zeros(97).long())
    metrics_case("five", *labelled(203, 5))
    logits, labels = labelled(150, 4)
    metrics_case("four-tied", logits[torch.randint(12, (150,))], labels)  # rows repeat: no rounding decides
    metrics_case("four-large", logits * 50, labels)
    labels[labels == 2] = 1
    metrics_case("four-one-missing", logits, labels)
    logits[:, 2] = -30
    metrics_case("four-one-unmet", logits, labels)


def value_metrics_case(name, outputs, targets, units):
    """MSE, RMSE, MAE and R2 by scikit-learn, of values that are `units` each."""
    from sklearn import metrics as sk

    outputs, targets = outputs.to(torch.float32).to(torch.float64), targets.to(torch.float32).to(torch.float64)
    truth, predicted = (targets * units).numpy(), (outputs * units).numpy()
    write("value_metrics", name, {
        "outputs": outputs, "targets": targets, "units": units,
        "expected/mse": sk.mean_squared_error(truth, predicted), "expected/mae": sk.mean_absolute_error(truth, predicted),
        "expected/rmse": sk.root_mean_squared_error(truth, predicted), "expected/r2": sk.r2_score(truth, predicted)})


def value_metrics():
    torch.manual_seed(6)
    targets = random(53, 3)
    outputs = targets + 0.3 * random(53, 3)
    one = torch.ones(3, dtype=torch.float64)
    value_metrics_case("three", outputs, targets, one)
    value_metrics_case("three-units", outputs, targets, torch.tensor([0.0078125, 250.0, 3.0], dtype=torch.float64))
    value_metrics_case("far", outputs[:, :1] + 1000, targets[:, :1] + 1000, one[:1])
    targets[:, 1] = 0.5
    outputs[:, 2] = targets[:, 2] = -2
    value_metrics_case("constant", outputs, targets, one)


def state_dicts():
    """The names and shapes of each model in its full size, one a line, in the order of the state_dict."""
    os.makedirs(os.path.join(FOLDER, "state_dicts"))
    for name, build in torch_models.MODELS.items():
        with open(os.path.join(FOLDER, "state_dicts", name + ".txt"), "w") as output:
            for key, value in state(build(10)).items():
                output.write(f"{key} {'x'.join(map(str, value.shape))}\n")


# ---- quantization_aware ------------------------------------------------------------------------

def fake_quantize(observer, **options):
    """PyTorch's FakeQuantize, with all 256 values of activations and 255 of weights."""
    from torch.ao import quantization
    return quantization.FakeQuantize.with_args(observer=getattr(quantization, observer), **options)


def quantization_aware():
    """Of float32, because PyTorch's fake quantization rounds float32 numbers."""
    activations = fake_quantize("MovingAverageMinMaxObserver", quant_min=0, quant_max=255, dtype=torch.quint8)
    weights = fake_quantize("PerChannelMinMaxObserver", quant_min=-127, quant_max=127, dtype=torch.qint8,
                            qscheme=torch.per_channel_symmetric, ch_axis=0)
    torch.manual_seed(7)
    fake, tensors = activations(), {}
    for i, scale in enumerate([1.0, 3.0, 0.2]):  # the second batch is cut to the range, which follows slowly
        x, target = (torch.randn(6, 10) * scale).requires_grad_(), torch.randn(6, 10)
        y = fake(x)
        F.mse_loss(y, target).backward()
        observer = fake.activation_post_process
        tensors |= {f"x/{i}": x, f"target/{i}": target, f"expected/y/{i}": y, f"expected/dx/{i}": x.grad,
                    f"expected/range/{i}": torch.stack([observer.min_val, observer.max_val])}
    write("quantization_aware", "ranges", tensors)

    qconfig = torch.ao.quantization.QConfig(activation=activations, weight=weights)
    fake, module = activations(), torch.ao.nn.intrinsic.qat.ConvBn2d(3, 5, 3, padding=1, bias=False, qconfig=qconfig)
    with torch.no_grad():
        module.bn.weight.copy_(torch.randn(5))
        module.bn.bias.copy_(torch.randn(5))
    x, target = torch.randn(4, 3, 6, 6), torch.randn(4, 180)
    y = module(fake(x)).flatten(1)
    F.mse_loss(y, target).backward()
    # the fold adds the weight's rounding error to the gradient by the norm's weight; here it is left out
    scale = module.bn.weight.detach().clone().requires_grad_()
    plain = F.conv2d(fake(x), weights()(module.weight.detach()), padding=1)
    F.mse_loss(F.batch_norm(plain, None, None, scale, module.bn.bias.detach(), training=True).flatten(1), target).backward()
    write("quantization_aware", "conv-bn", {
        "x": x, "target": target, "0.weight": module.weight, "1.weight": module.bn.weight, "1.bias": module.bn.bias,
        "expected/y": y, "expected/d0.weight": module.weight.grad, "expected/d1.weight": scale.grad,
        "expected/d1.bias": module.bn.bias.grad})


PARTS = {"operators": operators, "optimizers": optimizers, "schedules": schedules, "trajectories": trajectories,
         "metrics": metrics, "value_metrics": value_metrics, "state_dicts": state_dicts,
         "quantization_aware": quantization_aware}

if __name__ == "__main__":
    torch.set_num_threads(1)
    for part in sys.argv[1:] or PARTS:
        shutil.rmtree(os.path.join(FOLDER, part), ignore_errors=True)
        PARTS[part]()
