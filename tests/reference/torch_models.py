"""torch_models.py: the built-in networks in PyTorch, most from torchvision's own definitions (Debian's
python3-torchvision or a newer one): what traind's must agree with in names, shapes, initial weights and results.
"""
import torch
from torch import nn
from torchvision.models import efficientnet, mobilenetv3, resnet, vision_transformer
from torchvision.models._utils import _make_divisible


def resnet18(classes, channels=3, width=1.0):
    """torchvision's resnet18 with the stem that is usual for small images: conv1 is 3x3 with stride 1, no maximum pool.
    `width` multiplies the channels, which torchvision has no parameter for."""
    wide = [_make_divisible(64 * 2 ** stage * width, 8) for stage in range(4)]
    model = resnet.resnet18(num_classes=classes)
    model.inplanes = wide[0]
    model.conv1 = nn.Conv2d(channels, wide[0], 3, padding=1, bias=False)
    model.bn1 = nn.BatchNorm2d(wide[0])
    model.maxpool = nn.Identity()
    for stage in range(4):
        layer = model._make_layer(resnet.BasicBlock, wide[stage], 2, stride=2 if stage else 1)
        setattr(model, f"layer{stage + 1}", layer)
    model.fc = nn.Linear(wide[3], classes)
    for module in model.modules():  # as ResNet.__init__ does
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model


def with_stem(model, channels, stride):
    """The first convolution takes `channels` and moves by `stride`; drawn anew when it changes."""
    old = model.features[0][0]
    if (old.in_channels, old.stride) != (channels, (stride, stride)):
        model.features[0][0] = nn.Conv2d(channels, old.out_channels, 3, stride, padding=1, bias=False)
        nn.init.kaiming_normal_(model.features[0][0].weight, mode="fan_out")
    return model


def mobilenet_v3_small(classes, channels=3, width=1.0, stem_stride=2, dropout=0.2):
    settings, last = mobilenetv3._mobilenet_v3_conf("mobilenet_v3_small", width_mult=width)
    return with_stem(mobilenetv3.MobileNetV3(settings, last, num_classes=classes, dropout=dropout), channels, stem_stride)


def efficientnet_b0(classes, channels=3, width=1.0, stem_stride=2, dropout=0.2, stochastic_depth=0.2):
    settings, last = efficientnet._efficientnet_conf("efficientnet_b0", width_mult=width, depth_mult=1.0)
    model = efficientnet.EfficientNet(settings, dropout, stochastic_depth_prob=stochastic_depth, num_classes=classes,
                                      last_channel=last)
    return with_stem(model, channels, stem_stride)


def vit(classes, channels=3, size=32, patch=4, embedding=192, depth=12, heads=3, mlp_ratio=4, mean=False, dropout=0.0):
    """torchvision's VisionTransformer for images of `channels`; with `mean` without its class token."""
    model = vision_transformer.VisionTransformer(size, patch, depth, heads, embedding, round(embedding * mlp_ratio),
                                                 dropout, num_classes=classes)
    if channels != 3:
        model.conv_proj = nn.Conv2d(channels, embedding, patch, patch)
        nn.init.trunc_normal_(model.conv_proj.weight, std=(channels * patch * patch) ** -0.5)
        nn.init.zeros_(model.conv_proj.bias)
    if mean:
        model.class_token = None
        model.encoder.pos_embedding = nn.Parameter(model.encoder.pos_embedding[:, 1:].detach().clone())
        model.forward = lambda x: model.heads(model.encoder(model._process_input(x)).mean(1))
    return model


class Attention(nn.Module):
    """nanoGPT's CausalSelfAttention; rotary positions as arXiv:2104.09864 has them, on the halves of each head."""

    def __init__(self, embedding, heads, rotary):
        super().__init__()
        self.heads, self.rotary = heads, rotary
        self.c_attn, self.c_proj = nn.Linear(embedding, 3 * embedding), nn.Linear(embedding, embedding)

    @staticmethod
    def turn(x):
        half = x.shape[-1] // 2
        angles = torch.arange(x.shape[-2])[:, None] / 10000 ** (torch.arange(half, dtype=torch.float64) / half)
        cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        first, second = x.chunk(2, -1)
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)

    def forward(self, x):
        batch, steps, width = x.shape
        query, key, value = self.c_attn(x).reshape(batch, steps, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if self.rotary:
            query, key = self.turn(query), self.turn(key)
        if hasattr(nn.functional, "scaled_dot_product_attention"):
            y = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            products = query @ key.transpose(2, 3) * key.shape[-1] ** -0.5
            future = torch.ones(steps, steps, dtype=torch.bool).triu(1)
            y = products.masked_fill(future, -torch.inf).softmax(3) @ value
        return self.c_proj(y.transpose(1, 2).reshape(batch, steps, width))


class Block(nn.Module):
    def __init__(self, embedding, heads, rotary):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(embedding), Attention(embedding, heads, rotary)
        self.ln_2 = nn.LayerNorm(embedding)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(embedding, 4 * embedding), "c_proj": nn.Linear(4 * embedding, embedding)})

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp["c_proj"](nn.functional.gelu(self.mlp["c_fc"](self.ln_2(x))))


class GPT(nn.Module):
    """nanoGPT's model without dropout: names, initial weights, an output tied to the embedding."""

    def __init__(self, vocabulary, context=64, embedding=128, depth=4, heads=4, rotary=False):
        super().__init__()
        parts = {"wte": nn.Embedding(vocabulary, embedding)}
        if not rotary:
            parts["wpe"] = nn.Embedding(context, embedding)
        parts["h"] = nn.ModuleList(Block(embedding, heads, rotary) for _ in range(depth))
        parts["ln_f"] = nn.LayerNorm(embedding)
        self.transformer = nn.ModuleDict(parts)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                scale = (2 * depth) ** -0.5 if name.endswith("c_proj.weight") else 1
                nn.init.normal_(parameter, std=0.02 * scale)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, symbols):
        x = self.transformer["wte"](symbols)
        if "wpe" in self.transformer:
            x = x + self.transformer["wpe"].weight[:symbols.shape[1]]
        for block in self.transformer["h"]:
            x = block(x)
        return nn.functional.linear(self.transformer["ln_f"](x), self.transformer["wte"].weight)


def gpt(classes, **options):
    return GPT(classes, **options)


class Recurrent(nn.Module):
    """lstm and gru: of symbols the last of the vocabulary fills up short sequences. `last` is the state behind the last step
    that each direction of the last layer has read."""

    def __init__(self, kind, classes, features, hidden, layers=1, bidirectional=False, vocabulary=0, mean=False,
                 has_lengths=False):
        super().__init__()
        self.has_lengths = has_lengths  # of numbers: steps of 0 fill up short sequences
        self.padding, self.mean, self.bidirectional = vocabulary - 1, mean, bidirectional
        if vocabulary:
            self.embedding = nn.Embedding(vocabulary, features)
        self.kind = kind
        setattr(self, kind, getattr(nn, kind.upper())(features, hidden, layers, batch_first=True, bidirectional=bidirectional))
        self.head = nn.Linear(hidden * (1 + bidirectional), classes)

    @staticmethod
    def lengths_of(x):
        return ((x != 0).any(2) * torch.arange(1, x.shape[1] + 1)).amax(1)

    def forward(self, x):
        lengths = torch.full((len(x),), x.shape[1])
        if self.has_lengths:
            lengths = self.lengths_of(x)
        if self.padding >= 0:
            lengths = ((x != self.padding) * torch.arange(1, x.shape[1] + 1)).amax(1)
            x = self.embedding(x)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y, state = getattr(self, self.kind)(packed)
        if self.mean:
            return self.head(nn.utils.rnn.pad_packed_sequence(y, batch_first=True)[0].sum(1) / lengths.to(x.dtype)[:, None])
        last = state[0] if isinstance(state, tuple) else state
        return self.head(torch.cat(list(last[-1 - self.bidirectional:]), 1))


class Carried(nn.Module):
    """lstm and gru of a text that carry state: in training each batch begins with the detached state of the one before."""

    def __init__(self, kind, symbols, features, hidden, layers):
        super().__init__()
        self.kind, self.state = kind, None
        self.embedding = nn.Embedding(symbols, features)
        setattr(self, kind, getattr(nn, kind.upper())(features, hidden, layers, batch_first=True))
        self.head = nn.Linear(hidden, symbols)

    def forward(self, x):
        y, state = getattr(self, self.kind)(self.embedding(x), self.state if self.training else None)
        if self.training:
            self.state = tuple(part.detach() for part in state) if isinstance(state, tuple) else state.detach()
        return self.head(y)


def parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


MODELS = {"resnet18": resnet18, "mobilenet_v3_small": mobilenet_v3_small, "efficientnet_b0": efficientnet_b0, "vit": vit,
          "gpt": gpt}
