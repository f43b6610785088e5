"""The modules that check-onnx and make_onnx.py export."""
import dataclasses
from typing import Callable

import torch
from torch import nn


@dataclasses.dataclass
class Case:
    build: Callable[[], nn.Module]
    shape: tuple
    classes: int = 10
    batch: int = 8
    rate: float = 0.01
    symbols: bool = False  # indices instead of numbers
    each: bool = False  # of a text: the next symbol at each place
    values: bool = False  # numbers to predict instead of classes
    large: bool = False  # takes a minute
    opset: int | None = None  # None: PyTorch's choice


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 16), nn.Tanh(),
                         nn.Linear(16, 10))


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(8)
        self.conv3 = nn.Conv2d(8, 16, 3, stride=2, groups=2)
        self.pool, self.mean = nn.MaxPool2d(2), nn.AvgPool2d(2)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x = self.pool(self.bn1(self.conv1(x)).relu())
        x = (self.bn2(self.conv2(x)) + x).relu()
        x = nn.functional.adaptive_avg_pool2d(self.conv3(self.mean(x)).sigmoid(), 1)
        return self.head(x.flatten(1))


class Lstm(nn.Module):
    def __init__(self, cell=nn.LSTM, **keys):
        super().__init__()
        self.rnn = cell(8, 16, 2, batch_first=True, **keys)
        self.head = nn.Linear(32 if keys else 16, 10)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


class Squeeze(nn.Module):
    """Squeeze and excite, concatenation, SiLU, layer scale, GELU, tokens and back."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.squeeze, self.excite = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)
        self.wide = nn.Conv2d(16, 5, 3, padding=1)
        self.norm, self.up, self.down = nn.LayerNorm(21), nn.Linear(21, 32), nn.Linear(32, 21)
        self.scale = nn.Parameter(torch.full((21, 1, 1), 0.5))
        self.head = nn.Linear(21, 10)

    def forward(self, x):
        x = nn.functional.silu(self.stem(x))
        s = self.excite(nn.functional.relu(self.squeeze(x.mean((2, 3), keepdim=True))))
        x = x * s.sigmoid()
        x = torch.cat([x, self.wide(x)], 1)
        y = self.down(nn.functional.gelu(self.up(self.norm(x.permute(0, 2, 3, 1))))).permute(0, 3, 1, 2)
        return self.head((x + self.scale * y).mean((2, 3)))


class Gpt(nn.Module):
    """A decoder as PyTorch's own layers have it, and one that is written out, with a tied output."""

    def __init__(self, symbols=20, width=16, steps=12):
        super().__init__()
        self.symbols, self.places = nn.Embedding(symbols, width), nn.Embedding(steps, width)
        self.block = nn.TransformerEncoderLayer(width, 4, 32, batch_first=True, norm_first=True, dropout=0.0)
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.head = nn.Linear(width, symbols, bias=False)
        self.head.weight = self.symbols.weight

    def forward(self, x):
        steps = x.shape[1]
        y = self.symbols(x) + self.places(torch.arange(steps))
        y = self.block(y, src_mask=nn.Transformer.generate_square_subsequent_mask(steps), is_causal=True)
        q, k, v = self.qkv(self.norm(y)).split(16, 2)
        q, k, v = (part.view(-1, steps, 2, 8).transpose(1, 2) for part in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * 8 ** -0.5
        scores = scores.masked_fill(torch.triu(torch.ones(steps, steps, dtype=torch.bool), 1), float("-inf"))
        y = y + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, steps, 16))
        return self.head(y)


class Vit(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.patches = nn.Conv2d(1, width, 4, 4)
        self.token, self.places = nn.Parameter(torch.randn(1, 1, width)), nn.Parameter(torch.randn(1, 5, width))
        self.block = nn.TransformerEncoderLayer(width, 2, 32, activation="gelu", batch_first=True, dropout=0.0)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.block(x)[:, 0])


class General(nn.Module):
    """What has no operator of its own: products of samples, softmax, axes in any order, broadcasts, slices."""

    def __init__(self):
        super().__init__()
        self.up, self.gate, self.head = nn.Linear(8, 24), nn.Linear(8, 24), nn.Linear(24, 10)
        self.shift, self.scale = nn.Parameter(torch.randn(24)), nn.Parameter(torch.rand(6, 1) + 0.5)

    def forward(self, x):
        a, b = self.up(x), self.gate(x)
        y = a[:, 1:7] * b[:, :6].sigmoid() / self.scale - self.shift
        y = y.view(-1, 6, 4, 6).permute(0, 2, 3, 1)
        z = (y @ y.transpose(-1, -2) * 0.1 + 1).softmax(-1) @ y
        p, q = z.permute(0, 3, 2, 1).reshape(-1, 6, 24).chunk(2, 2)
        y = torch.cat([q, p * 2], 2)
        return self.head((y - y.mean(1, keepdim=True) + 3 * y).mean(1))


class Wide(nn.Module):
    """More inputs of a concatenation than a node of the graph has."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 2, 3), nn.Linear(34, 10)

    def forward(self, x):
        x = self.conv(x)
        return self.head(torch.cat([x * (i + 1) for i in range(17)], 1).mean((2, 3)))


class Pools(nn.Module):
    """Adaptive pools whose windows differ, sizes that change, pixels that become channels and back."""

    def __init__(self):
        super().__init__()
        self.conv, self.up = nn.Conv2d(3, 8, 3, padding=1), nn.ConvTranspose2d(8, 6, 3, 2, 1, 1, groups=2)
        self.prelu, self.one, self.selu = nn.PReLU(6), nn.PReLU(), nn.SELU()
        self.mean, self.wide, self.largest = nn.AdaptiveAvgPool2d((5, 4)), nn.AdaptiveAvgPool2d(7), nn.AdaptiveMaxPool2d(1)
        self.shuffle, self.unshuffle = nn.PixelShuffle(2), nn.PixelUnshuffle(2)
        self.mix, self.head = nn.Conv2d(6, 16, 3), nn.Linear(16 + 16 + 16, 10)

    def forward(self, x):
        x = self.up(self.selu(self.conv(x)))
        y = self.mix(self.wide(self.mean(self.prelu(x))))
        z = self.one(nn.functional.hardtanh(self.unshuffle(self.shuffle(y[:, :, :4, :4])), -0.5, 0.7)).abs()
        return self.head(torch.cat([y.mean((2, 3)), y.amax((2, 3)), self.largest(z).flatten(1)], 1))


class Norms(nn.Module):
    """Group and instance norms, with and without weights, of images and signals."""

    def __init__(self):
        super().__init__()
        self.conv1, self.group = nn.Conv2d(3, 8, 3), nn.GroupNorm(4, 8)
        self.conv2, self.instance = nn.Conv2d(8, 8, 3), nn.InstanceNorm2d(8, affine=True)
        self.conv3, self.plain, self.batch = nn.Conv2d(8, 8, 3), nn.InstanceNorm2d(8), nn.BatchNorm2d(8, affine=False)
        self.conv4, self.whole, self.signal = nn.Conv1d(8, 6, 3), nn.GroupNorm(1, 6), nn.InstanceNorm1d(6, affine=True)
        self.head = nn.Linear(12, 10)
        for norm in (self.group, self.instance, self.whole, self.signal):
            nn.init.uniform_(norm.weight, 0.5, 1.5), nn.init.uniform_(norm.bias, -0.5, 0.5)

    def forward(self, x):
        x = self.instance(self.conv2(self.group(self.conv1(x)).relu())).relu()
        x = self.batch(self.plain(self.conv3(x)).relu()).flatten(2)
        x = self.signal(self.whole(self.conv4(x)).tanh())
        return self.head(torch.cat([x[:, :, 3], x.mean(2)], 1))


class UNet(nn.Module):
    """Two levels, whose images become larger by transposed convolutions or by interpolation. It gives a number for each pixel."""

    def __init__(self, transposed):
        super().__init__()
        self.one, self.two, self.three = self.block(3, 4), self.block(4, 8), self.block(8, 16)
        self.up2, self.up1 = (nn.ConvTranspose2d(n, n // 2, 2, 2) if transposed else nn.Conv2d(n, n // 2, 1) for n in (16, 8))
        self.back2, self.back1, self.head = self.block(16, 8), self.block(8, 4), nn.Conv2d(4, 1, 1)
        self.transposed = transposed

    @staticmethod
    def block(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1),
                             nn.BatchNorm2d(b), nn.ReLU())

    def larger(self, up, x, mode):
        return up(x) if self.transposed else nn.functional.interpolate(up(x), scale_factor=2, mode=mode)

    def forward(self, x):
        one = self.one(x)
        two = self.two(nn.functional.max_pool2d(one, 2))
        x = self.three(nn.functional.max_pool2d(two, 2))
        x = self.back2(torch.cat([two, self.larger(self.up2, x, "bilinear")], 1))
        x = self.back1(torch.cat([one, self.larger(self.up1, x, "nearest")], 1))
        return self.head(x).flatten(1)


class Ends(nn.Module):
    """An image and a row of numbers go in, the scores of two heads come out. Without the row both go in and out side by side, as
    traind has them."""
    output_heads = ({"name": "kind", "classes": 4, "labels": 1, "weight": 1.0}, {"name": "colour", "classes": 3, "labels": 1, "weight": 0.5})

    def __init__(self):
        super().__init__()
        self.conv, self.row = nn.Conv2d(1, 4, 3), nn.Linear(5, 8)
        self.kind, self.colour = nn.Linear(24, 4), nn.Linear(24, 3)

    @staticmethod
    def parts(x):
        return x[:, :16].reshape(-1, 1, 4, 4), x[:, 16:]

    def forward(self, image, row=None):
        if row is None:
            return torch.cat(self(*self.parts(image)), 1)
        x = torch.cat([self.conv(image).relu().flatten(1), self.row(row).tanh()], 1)
        return self.kind(x), self.colour(x)


class Places(nn.Module):
    """What takes numbers by constant places: padding, windows at the edge, steps, lists of indices, rows of a table, masks."""

    def __init__(self):
        super().__init__()
        self.conv, self.table = nn.Conv2d(3, 8, 3, 2), nn.Parameter(torch.randn(7, 2) * 0.5)
        self.register_buffer("places", torch.arange(4)[:, None] - torch.arange(4)[None] + 3)
        self.register_buffer("mask", torch.ones(4, 4).tril().bool())
        self.wide, self.head = nn.Conv2d(8, 8, 3), nn.Linear(56, 10)

    def forward(self, x):
        y = self.conv(nn.functional.pad(x, (0, 1, 1, 0)))
        y = nn.functional.max_pool2d(y, 3, 2, ceil_mode=True) + nn.functional.avg_pool2d(
            y, 3, 2, ceil_mode=True, count_include_pad=False)
        y = self.wide(nn.functional.pad(y, (1, 1, 1, 1), mode="reflect"))[:, :, :, [2, 0, 1]][:, ::2]
        z = nn.functional.avg_pool2d(x, 3, 3, 1, count_include_pad=False)[:, :2].flatten(2)[:, :, :4]
        z = (z[:, :, :, None] - z[:, :, None, :]).square() + self.table[self.places].permute(2, 0, 1)
        z = z.masked_fill(~self.mask, -1.0).softmax(1)
        return self.head(torch.cat([y.flatten(1), z.roll(1, 2).flatten(1)[:, ::2], y.sum((1, 2)), y.mean(3).sum(2),
                                    y.amax((2, 3)).expand(-1, -1)], 1)[:, :56])


class Functions(nn.Module):
    """Functions of each number, sums over any axes, RMS norm, a norm of length 1."""

    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down, self.head = nn.Linear(8, 16), nn.RMSNorm(16), nn.Linear(16, 6), nn.Linear(6, 10)

    def forward(self, x):
        y = self.norm(self.up(x))
        y = y.sin() + (0.1 * y).cos() + (0.3 * y).exp() + (y.square() + 1).log() + (y.abs() + 0.5).pow(1.5)
        y = nn.functional.normalize(self.down(y), dim=1) * y.sum((1, 2), keepdim=True).abs().add(1).rsqrt()
        y = y - y.mean((1, 2), keepdim=True) + (y * y).sum(1, keepdim=True).reciprocal()
        return self.head(y.log_softmax(1).sum(1))


class Cross(nn.Module):
    """Attention from one sequence to another, as nn.MultiheadAttention and as Einsum; a plain recurrent layer, step by step."""

    def __init__(self):
        super().__init__()
        self.up, self.attention = nn.Linear(6, 12), nn.MultiheadAttention(12, 3, batch_first=True)
        self.scores, self.rnn, self.head = nn.Linear(12, 12), nn.RNN(12, 8, batch_first=True), nn.Linear(8, 10)
        self.mix = nn.Parameter(torch.randn(4, 7) * 0.3)

    def forward(self, x):
        y = self.up(x)
        z = self.attention(y[:, :4], y, y)[0]
        z = z + torch.einsum("bij,bjd->bid", torch.einsum("bid,bjd->bij", self.scores(z), y).softmax(-1), y) + self.mix @ y
        return self.head(self.rnn(z)[0][:, -1])


class Decoder(nn.Module):
    """Attention and RMS norm as operators of their own (opset 23): causal, with a mask, with fewer keys than queries, to fewer steps;
    a parameter that is a column and has the name of what a node gives; symbols of one kind."""

    def __init__(self, symbols=20, width=16, steps=9):
        super().__init__()
        self.symbols, self.norm, self.t = nn.Embedding(symbols, width), nn.RMSNorm(width), nn.Parameter(torch.randn(width, 1) * 0.3)
        self.kinds = nn.Embedding(2, width)
        self.queries, self.keys, self.values = (nn.Linear(width, n, False) for n in (width, width // 2, width // 2))
        self.register_buffer("near", (torch.arange(steps)[:, None] - torch.arange(steps)).abs() < 3)
        self.wide, self.head = nn.Linear(width, 3 * width), nn.Linear(width, symbols)

    def forward(self, x):
        x = self.norm(self.symbols(x) + self.kinds(torch.ones_like(x)))
        q, k, v = (part(x).unflatten(2, (-1, 4)).transpose(1, 2) for part in (self.queries, self.keys, self.values))
        attend = nn.functional.scaled_dot_product_attention
        y = attend(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), attn_mask=self.near).transpose(1, 2).flatten(2)
        y = y + attend(q, q[:, :, :5], q[:, :, :5], scale=0.3).transpose(1, 2).flatten(2)
        q, k, v = (part.unflatten(2, (4, 4)).transpose(1, 2) for part in self.wide(y).chunk(3, 2))
        y = x + attend(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        return self.head(y * (1 + nn.functional.linear(y, self.t.t())))


class Shared(nn.Module):
    """Two images go through the same layers, as those of a signature that is compared; layers that are repeated."""

    def __init__(self):
        super().__init__()
        self.conv1, self.norm, self.conv2 = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.Conv2d(16, 16, 3, padding=1)
        self.point, self.depth = nn.Conv2d(16, 16, 1, bias=False), nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.up, self.signal = nn.ConvTranspose2d(16, 16, 2, 2), nn.Conv1d(16, 16, 3, padding=1)
        self.rnn, self.gru, self.head = nn.LSTM(16, 16, batch_first=True), nn.GRU(16, 16, batch_first=True), nn.Linear(32, 10)

    def one(self, x):
        x = nn.functional.max_pool2d(self.norm(self.conv1(x)).relu(), 2)
        x = self.depth(self.conv2(self.norm(self.point(self.conv2(self.depth(self.point(x)))))).relu())
        x = nn.functional.avg_pool2d(self.up(self.up(x)), 4).flatten(2)
        x = self.signal(self.signal(x).relu()).transpose(1, 2)
        return self.gru(self.gru(self.rnn(self.rnn(x)[0])[0])[0])[0][:, -1]

    def forward(self, x):
        a, b = self.one(x[:, :1]), self.one(x[:, 1:])
        return self.head(torch.cat([(a - b).abs(), a * b], 1))


class Planes(nn.Module):
    """Images combined with constants of their whole shape, also with such that repeat a parameter."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.head = nn.Conv2d(1, 8, 3), nn.Conv2d(8, 16, 3), nn.Linear(16, 10)
        self.shift, self.scale = nn.Parameter(torch.randn(8, 6, 6)), nn.Parameter(torch.rand(1, 16, 4, 4) + 0.5)
        self.column = nn.Parameter(torch.rand(16, 1, 1) + 0.5)
        self.register_buffer("mask", torch.arange(16 * 4 * 4).remainder(3).reshape(16, 4, 4) > 0)

    def forward(self, x):
        x = (self.conv1(x) + self.shift).relu()
        x = (self.conv2(x) * self.scale).masked_fill(~self.mask, 0.25)
        return self.head((x / self.column.expand(16, 4, 4)).sum((2, 3)))


def vision(name, size=64, rate=1e-4, **keys):
    def build():
        import torchvision
        return getattr(torchvision.models, name)(num_classes=10, **keys)
    return Case(build, (3, size, size), large=True, rate=rate)


class Computed(nn.Module):
    """Parameters that are computed from parameters: weight norm, spectral norm, normalised weights, a softmax of factors, a
    temperature, positions by a small network. A matrix that is tied to its transposed, and one for each of several experts."""

    def __init__(self):
        super().__init__()
        parametrizations = nn.utils.parametrizations
        self.signal = parametrizations.weight_norm(nn.Conv1d(2, 6, 3, padding=2))
        self.image = parametrizations.weight_norm(nn.Conv2d(1, 6, 3, padding=1))
        self.up = parametrizations.weight_norm(nn.ConvTranspose1d(6, 6, 2, stride=2))
        self.rows = parametrizations.weight_norm(nn.Linear(6, 12))
        self.spectral = parametrizations.spectral_norm(nn.Linear(12, 12))
        self.mixed = nn.Parameter(torch.randn(3) * 0.3)
        self.register_buffer("places", torch.linspace(-1, 1, 8).unsqueeze(1))
        self.position = nn.Sequential(nn.Linear(1, 5), nn.ReLU(), nn.Linear(5, 6))
        self.narrow = nn.Parameter(torch.randn(12, 12) * 0.3)
        self.classes = nn.Parameter(torch.randn(10, 12))
        self.temperature = nn.Parameter(torch.tensor(1.5))
        self.tied, self.experts = nn.Parameter(torch.randn(5, 12) * 0.3), nn.Parameter(torch.randn(2, 12, 12) * 0.3)

    def train(self, mode=True):
        super().train(mode)
        self.spectral.parametrizations.weight[0].eval()  # an export has the vectors of its moment; PyTorch would go on
        return self

    def forward(self, x):
        functions = nn.functional
        y = self.signal(x)[:, :, :-2].relu()
        y = self.up(y)[:, :, ::2] + self.position(self.places).t()
        z = self.image((x[:, :1].unsqueeze(2) + x[:, 1:].unsqueeze(3))).tanh()
        factors = self.mixed.softmax(0)
        mixed = torch.stack([y.mean(2), z.mean((2, 3)), y.amax(2)], 1) * factors[None, :, None]
        w = self.rows(mixed.sum(1)).relu()
        w = functions.linear(self.spectral(w), self.narrow / 12 ** 0.5) + functions.linear(w, torch.tanh(self.narrow))
        w = w + functions.linear(functions.linear(w, self.tied).tanh(), self.tied.t())
        w = torch.einsum("bi,eij->bej", w, self.experts).relu().sum(1)
        return self.temperature.exp() * functions.normalize(w, dim=-1) @ functions.normalize(self.classes, dim=-1).t()


class Factors(nn.Module):
    """Weights of convolutions that others read, too: norms of weight norm, also by groups and of few channels, and the same layer
    over single pixels."""

    def __init__(self):
        super().__init__()
        weight_norm = nn.utils.parametrizations.weight_norm
        self.stem = weight_norm(nn.Conv2d(3, 16, 3, padding=1))
        self.square = weight_norm(nn.Conv2d(16, 16, 3, padding=1, bias=False))
        self.groups = weight_norm(nn.Conv2d(16, 8, 3, padding=1, groups=4))
        self.depth = weight_norm(nn.Conv2d(8, 8, 3, groups=8))
        self.up = weight_norm(nn.ConvTranspose2d(8, 8, 2, stride=2))
        self.point, self.head = nn.Conv2d(8, 8, 1), nn.Linear(8, 10)

    def forward(self, x):
        x = self.up(self.depth(self.groups(self.square(self.stem(x).relu()).relu()).tanh()))
        return self.head((self.point(x) * self.point(x.mean((2, 3), keepdim=True)).sigmoid()).amax((2, 3)))


class Extremes(nn.Module):
    """The larger and smaller of two, extremes along any axis, their smooth forms, CELU; what is compared with thresholds."""

    def __init__(self):
        super().__init__()
        self.rows, self.more = nn.Linear(8, 12), nn.Linear(12, 24)
        self.bound = nn.Parameter(torch.randn(12) * 0.1)
        self.celu = nn.CELU(0.7)
        self.head = nn.Linear(12 + 8 + 24 + 12, 10)

    def forward(self, x):
        y = self.celu(self.rows(x))  # [B, 8, 12]
        y = torch.maximum(y, self.bound)
        z = self.more(y)
        a, b = z.chunk(2, -1)
        largest = torch.minimum(torch.maximum(a, b), y + 1).logsumexp(1)
        functions = nn.functional
        least = functions.hardshrink(z.amin(1), 0.2) + functions.softshrink(z[:, 0], 0.1) + functions.threshold(z[:, 1], 0.1, 0.5)
        return self.head(torch.cat([largest, z.amax(2), least, z.view(-1, 8, 12, 2).max(-1)[0].amax(1)], 1))


class Orders(nn.Module):
    """A factorization machine: a matrix and its squares; norms of columns behind the product; a factor of 0; scores that are far
    apart."""

    def __init__(self):
        super().__init__()
        self.linear, self.factors = nn.Linear(8, 6), nn.Parameter(torch.randn(8, 6) * 0.3)
        self.classes, self.nothing = nn.Parameter(torch.randn(6, 10)), nn.Parameter(torch.randn(6, 6))

    def forward(self, x):
        y = self.linear(x) + 0.5 * ((x @ self.factors).square() - x.square() @ self.factors.square())
        y = y + nn.functional.linear(y, self.nothing * 0.0)
        y = y + 1e-3 * (y * 500).log_softmax(-1) + 1e-3 * nn.functional.logsigmoid(y * 500)
        return (y @ self.classes) / self.classes.norm(dim=0)


class Columns(nn.Module):
    """Tables of single columns, of parts of the symbols, and of symbols in a square."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(20, width) for width in (2, 3, 5))
        self.part, self.image, self.conv = nn.Embedding(20, 4), nn.Embedding(20, 4), nn.Conv2d(4, 6, 2)
        self.head = nn.Linear(20, 20)

    def forward(self, x):
        columns = [table(x[:, 2 * i]) for i, table in enumerate(self.tables)]
        image = self.conv(self.image(x.view(-1, 3, 3)).permute(0, 3, 1, 2)).mean((2, 3))
        return self.head(torch.cat([*columns, self.part(x[:, 2:5]).mean(1), image], 1))


class Mixed(nn.Module):
    """Weights, biases and choices that are computed, in the forms that ordinary modules have: softplus and triangles of matrices, a
    bias times a factor, factors upon factors, a matrix for each feature, tiles, a norm over two axes, shares of zeros."""

    def __init__(self):
        super().__init__()
        self.norm, self.bilinear = nn.LayerNorm([4, 6]), nn.Bilinear(6, 6, 5)
        self.symmetric, self.positive = nn.Parameter(torch.randn(6, 6) * 0.4), nn.Parameter(torch.randn(6, 6))
        self.one, self.two, self.bias = (nn.Parameter(torch.rand(n) + 0.5) for n in (6, 6, 6))
        self.features, self.nodes = nn.Parameter(torch.randn(4, 6, 3) * 0.4), nn.Parameter(torch.randn(4, 2))
        self.plain = nn.Parameter(torch.randn(6, 6) * 0.4)
        self.token, self.start = nn.Parameter(torch.randn(1, 1, 6)), nn.Parameter(torch.randn(6))
        self.cell, self.head = nn.GRUCell(6, 6), nn.Linear(5 + 6 + 12 + 6 + 6, 10)

    def forward(self, x):
        functions = nn.functional
        y = self.norm(x)
        w = self.symmetric.triu() + self.symmetric.triu(1).t()
        y = functions.linear(y, w, self.bias * 0.5) + functions.linear(y, functions.softplus(self.positive))
        y = y @ (self.two * (self.symmetric * self.one.unsqueeze(1) * 0.7)).t()
        y = torch.einsum("ij,bjd->bid", (self.nodes @ self.nodes.t()).softmax(1), y)
        first, count = self.token.repeat(x.shape[0], 1, 1), x.shape[0]
        rows = self.start.expand(count, 2, 6).reshape(-1, 6)
        rows = self.cell(y[:, :2].reshape(-1, 6), rows).view(count, 2, 6).sum(1)
        shares = torch.zeros(count, 5, 1).softmax(1)
        y = torch.cat([first, y], 1)
        z = (y[:, 1:].unsqueeze(2) @ self.features).squeeze(2).tanh()
        a = torch.where(y[:, 1] > 0.1, self.bias, y[:, 2]) + functions.softplus(self.start)
        b = torch.addmm(self.one, y[:, 3], self.plain, beta=0.5, alpha=2.0)
        return self.head(torch.cat([self.bilinear(y[:, 1], y[:, 2]), a, z.flatten(1), (shares * y.repeat(1, 1, 2)[:, :, 3:9]).sum(1),
                                    b * rows], 1))


class Cells(nn.Module):
    """Loops over cells that begin with a learnt state, and with 0; learnt queries; a row of zeros beside the samples."""

    def __init__(self):
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTMCell(5, 7), nn.GRUCell(5, 7), nn.RNN(7, 6, batch_first=True, bidirectional=True)
        self.first = nn.Parameter(torch.randn(7) * 0.3)
        self.queries = nn.Parameter(torch.randn(3, 7) * 0.3)
        self.keys = nn.Linear(7, 7)
        self.head = nn.Linear(7 + 12 + 7, 10)

    def forward(self, x):
        h = self.first.expand(x.shape[0], 7)
        c, g, states = torch.zeros_like(h), h, []
        for t in range(x.shape[1]):
            h, c = self.lstm(x[:, t], (h, c))
            g = self.gru(x[:, t], g)
            states.append(h + g)
        y = torch.stack(states, 1)
        y = torch.cat([torch.zeros(x.shape[0], 1, 7), y], 1)
        shares = (self.queries.unsqueeze(0).expand(x.shape[0], -1, -1) @ self.keys(y).transpose(1, 2)).softmax(-1)
        return self.head(torch.cat([g, self.rnn(y)[0].mean(1), (shares @ y).mean(1)], 1))


class Bags(nn.Module):
    """Bags of symbols, and texts whose padding is masked."""

    def __init__(self):
        super().__init__()
        self.mean, self.sum, self.largest = (nn.EmbeddingBag(20, 6, mode=mode) for mode in ("mean", "sum", "max"))
        self.table = nn.Embedding(20, 16)
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True)
        self.head = nn.Linear(34, 20)

    def forward(self, x):
        shown = ((x != 0) & (x < 18)).float().unsqueeze(-1)
        y = self.layer(self.table(x), src_key_padding_mask=x == 0)
        y = (y.masked_fill(x.unsqueeze(-1) == 3, 0.5) * shown).sum(1) / shown.sum(1).clamp(min=1)
        return self.head(torch.cat([self.mean(x), self.sum(x), self.largest(x), y], 1))


MODELS = {
    "mlp": Case(mlp, (1, 8, 8), rate=0.1),
    "convnet": Case(ConvNet, (3, 12, 12), batch=4, rate=0.02),
    "squeeze": Case(Squeeze, (3, 12, 12), batch=4, rate=0.02),
    "wide": Case(Wide, (1, 6, 6), rate=1e-4),
    "lstm": Case(Lstm, (9, 8), rate=0.1),
    "gru": Case(lambda: Lstm(nn.GRU, bidirectional=True), (9, 8), rate=0.1),
    "gpt": Case(Gpt, (12,), classes=20, rate=0.05, symbols=True, each=True),
    "decoder": Case(Decoder, (9,), classes=20, rate=0.05, symbols=True, each=True, opset=23),
    "vit": Case(Vit, (1, 8, 8), rate=0.02),
    "general": Case(General, (8, 8), rate=0.02),
    "pools": Case(Pools, (3, 9, 9), batch=4, rate=0.02),
    "places": Case(Places, (3, 12, 12), batch=4, rate=0.02),
    "functions": Case(Functions, (8, 8), rate=0.02),
    "cross": Case(Cross, (7, 6), rate=0.05),
    "norms": Case(Norms, (3, 12, 12), batch=4, rate=0.02),
    "unet": Case(lambda: UNet(True), (3, 12, 12), classes=144, batch=4, rate=0.02, values=True),
    "unet_resize": Case(lambda: UNet(False), (3, 12, 12), classes=144, batch=4, rate=0.02, values=True),
    "planes": Case(Planes, (1, 8, 8), rate=0.01),
    "shared": Case(Shared, (2, 8, 8), rate=0.1),
    "ends": Case(Ends, (21,), classes=3, rate=0.1),
    "computed": Case(Computed, (2, 8), rate=0.02),
    "factors": Case(Factors, (3, 8, 8), batch=4, rate=0.05),
    "orders": Case(Orders, (8,), rate=0.02),
    "columns": Case(Columns, (9,), classes=20, rate=0.05, symbols=True),
    "mixed": Case(Mixed, (4, 6), rate=0.02),
    "extremes": Case(Extremes, (8, 8), rate=0.02),
    "cells": Case(Cells, (4, 5), rate=0.05),
    "bags": Case(Bags, (9,), classes=20, rate=0.05, symbols=True),
    "resnet18": vision("resnet18", zero_init_residual=True),
    "resnet50": vision("resnet50", zero_init_residual=True),
    "vgg11_bn": vision("vgg11_bn"),
    "mobilenet_v3_small": vision("mobilenet_v3_small"),
    "efficientnet_b0": vision("efficientnet_b0"),
    "densenet121": vision("densenet121"),
    "convnext_tiny": vision("convnext_tiny"),
    "vit_b_16": vision("vit_b_16", image_size=64),
}
