"""dumps_operators.py: the dumps of single operators and losses, for make_dumps.py."""
import functools

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from dumps import loss_of, random, randomise, state, write


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
