"""torch_sequence_models.py: the models over sequences of symbols in PyTorch: what traind's must agree with in names, shapes
and results. Caduceus is written as its paper has it (Schiff et al. 2024, arXiv:2403.03234): half of the channels belong to
the reverse complement, which every layer turns around in time and channels and back (RCPS).
"""
import torch
from torch import nn
from torch.nn import functional as F


class Head(nn.Module):
    """Hidden layers and the output layer; the names are those of the whole model."""

    def __init__(self, width, hidden, outputs):
        super().__init__()
        self.hidden = nn.ModuleList()
        for features in hidden:
            self.hidden.append(nn.Linear(width, features))
            width = features
        self.output = nn.Linear(width, outputs)

    def classify(self, x):
        for layer in self.hidden:
            x = F.relu(layer(x))
        return self.output(x)


def lengths_of(symbols, padding):
    """Steps up to the last that is not the padding, at least 1; all without a padding."""
    if padding is None:
        return torch.full((len(symbols),), symbols.shape[1])
    return ((symbols != padding) * torch.arange(1, symbols.shape[1] + 1)).amax(1).clamp(min=1)


def masked(x, lengths):
    """Zeros behind the end of each sequence [features, 1, steps]."""
    return torch.stack([torch.cat([row[:, :, :length], torch.zeros_like(row[:, :, length:])], 2)
                        for row, length in zip(x, lengths.clamp(min=1).tolist())])


class TextCnn(Head):
    def __init__(self, outputs, vocabulary, embedding, filters, kernels, hidden, padding=None):
        super().__init__(filters * len(kernels), hidden, outputs)
        self.padding = padding
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.convs = nn.ModuleList(nn.Conv2d(embedding, filters, (1, kernel)) for kernel in kernels)

    def forward(self, symbols):
        x, lengths = self.embedding(symbols).transpose(1, 2).unsqueeze(2), lengths_of(symbols, self.padding)
        return self.classify(torch.cat([masked(F.relu(conv(x)), lengths + 1 - conv.kernel_size[1]).amax((2, 3))
                                        for conv in self.convs], 1))


class DnaCnn(Head):
    def __init__(self, outputs, vocabulary, length, embedding, channels, kernels, hidden, flatten=True, padding=None, mean=False):
        reduced = length
        for kernel in kernels:
            reduced = (reduced + 1 - kernel % 2) // 2
        super().__init__(channels[-1] * (reduced if flatten else 1), hidden, outputs)
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.convs = nn.ModuleList(nn.Conv2d(narrow, wide, (1, kernel), padding=(0, kernel // 2)) for narrow, wide, kernel
                                   in zip([embedding] + channels[:-1], channels, kernels))
        self.norms = nn.ModuleList(nn.BatchNorm2d(wide) for wide in channels)
        self.flatten, self.mean, self.padding = flatten, mean, None if flatten else padding

    def forward(self, symbols):
        lengths = lengths_of(symbols, self.padding)
        x = masked(self.embedding(symbols).transpose(1, 2).unsqueeze(2), lengths)
        for conv, norm in zip(self.convs, self.norms):
            x = F.max_pool2d(F.relu(norm(conv(x))), (1, 2))
            lengths = (lengths + 1 - conv.kernel_size[1] % 2) // 2
            x = masked(x, lengths)
        if self.mean:
            return self.classify(x.sum((2, 3)) / lengths.clamp(min=1)[:, None])
        return self.classify(x.flatten(1) if self.flatten else x.amax((2, 3)))


# ---- Caduceus ----------------------------------------------------------------------------------

def selective_scan(u, delta, a, b, c, d, z):
    """u, delta, z [B,T,D], a [D,N], b and c [B,T,N], d [D]: step by step (arXiv:2312.00752, section 3)."""
    step = F.softplus(delta).unsqueeze(3)
    h, y = 0, []
    for t in range(u.shape[1]):
        h = (step[:, t] * a).exp() * h + step[:, t] * u[:, t].unsqueeze(2) * b[:, t].unsqueeze(1)
        y.append((h * c[:, t].unsqueeze(1)).sum(2))
    return (torch.stack(y, 1) + d * u) * F.silu(z)


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt() * self.weight


class Mamba(nn.Module):
    def __init__(self, width, states, kernel, expand, projections=None):
        """`projections`: the Mamba whose in_proj and out_proj this one shares."""
        super().__init__()
        inner = expand * width
        self.rank, self.states = -(-width // 16), states
        self.projections = [projections]  # in a list: its parameters are not this module's
        if not projections:
            self.in_proj = nn.Linear(width, 2 * inner, bias=False)
            self.out_proj = nn.Linear(inner, width, bias=False)
        self.conv1d = nn.Conv1d(inner, inner, kernel, groups=inner, padding=kernel - 1)
        self.x_proj = nn.Linear(inner, self.rank + 2 * states, bias=False)
        self.dt_proj = nn.Linear(self.rank, inner)
        self.A_log = nn.Parameter(torch.arange(1., states + 1).log().repeat(inner, 1))
        self.D = nn.Parameter(torch.ones(inner))

    def forward(self, x):
        shared = self.projections[0] or self
        x, z = shared.in_proj(x).chunk(2, 2)
        u = F.silu(self.conv1d(x.transpose(1, 2))[..., :x.shape[1]]).transpose(1, 2)
        dt, b, c = self.x_proj(u).split([self.rank, self.states, self.states], 2)
        return shared.out_proj(selective_scan(u, self.dt_proj(dt), -self.A_log.exp(), b, c, self.D, z))


class BiMamba(nn.Module):
    def __init__(self, width, **options):
        super().__init__()
        self.mamba_fwd = Mamba(width, **options)
        self.mamba_rev = Mamba(width, **options, projections=self.mamba_fwd)

    def forward(self, x):
        return self.mamba_fwd(x) + self.mamba_rev(x.flip(1)).flip(1)


class Block(nn.Module):
    def __init__(self, width, norm, **options):
        super().__init__()
        self.norm = norm(width)
        self.mixer = BiMamba(width, **options)


class Caduceus(nn.Module):
    COMPLEMENT = torch.tensor([3, 2, 1, 0, 4, 5])  # A C G T N, padding

    def __init__(self, outputs, vocabulary, embedding, depth, states, kernel=4, expand=2, layer_norm=False,
                 reverse_complement=True, pooling="mean", length=None):
        super().__init__()

        def norm(width):
            return nn.LayerNorm(width, eps=1e-5) if layer_norm else RMSNorm(width, 1e-5)

        self.width, self.reverse_complement = embedding, reverse_complement
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.layers = nn.ModuleList(Block(embedding, norm, states=states, kernel=kernel, expand=expand)
                                    for _ in range(depth))
        self.norm_f = norm(embedding)
        self.pooling = pooling
        self.score = nn.Linear(embedding * (length if pooling == "flatten" else 1), outputs, bias=False)

    def both(self, module, x):
        """`module` over the channels of this strand, and over those of the other one as it is read."""
        if not self.reverse_complement:
            return module(x)
        this, other = x[..., :self.width], x[..., self.width:].flip(1, 2)
        return torch.cat([module(this), module(other).flip(1, 2)], 2)

    def forward(self, symbols):
        x = self.embedding(symbols)
        if self.reverse_complement:
            x = torch.cat([x, self.embedding(self.COMPLEMENT[symbols.long()].flip(1)).flip(1, 2)], 2)
        for layer in self.layers:
            x = x + self.both(layer.mixer, self.both(layer.norm, x))
        x = self.both(self.norm_f, x)
        if not self.reverse_complement:
            return self.score({"mean": x.mean(1), "max": x.amax(1), "flatten": x.flatten(1)}[self.pooling])
        this, other = x[..., :self.width], x[..., self.width:].flip(1, 2)
        if self.pooling == "max":
            return self.score(torch.maximum(this.amax(1), other.amax(1)))
        return (self.score(this.mean(1)) + self.score(other.mean(1))) / 2
