"""The modules that check-onnx and make_onnx.py export."""
import dataclasses
from typing import Callable

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
    large: bool = False  # takes a minute


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


def vision(name, size=64, rate=2e-4, **keys):
    def build():
        import torchvision
        return getattr(torchvision.models, name)(num_classes=10, **keys)
    return Case(build, (3, size, size), large=True, rate=rate)


MODELS = {
    "mlp": Case(mlp, (1, 8, 8), rate=0.1),
    "convnet": Case(ConvNet, (3, 12, 12), batch=4, rate=0.02),
    "resnet18": vision("resnet18"),
    "resnet50": vision("resnet50"),
    "vgg11_bn": vision("vgg11_bn"),
    "mobilenet_v3_small": vision("mobilenet_v3_small"),
    "efficientnet_b0": vision("efficientnet_b0"),
    "densenet121": vision("densenet121"),
    "convnext_tiny": vision("convnext_tiny"),
    "vit_b_16": vision("vit_b_16", image_size=64),
}
