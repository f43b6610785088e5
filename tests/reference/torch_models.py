"""torch_models.py: the built-in convolutional networks in PyTorch, from torchvision's own definitions (Debian's
python3-torchvision or a newer one): what traind's must agree with in names, shapes, initial weights and results.
"""
import torch
from torch import nn
from torchvision.models import efficientnet, mobilenetv3, resnet
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


def parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


MODELS = {"resnet18": resnet18, "mobilenet_v3_small": mobilenet_v3_small, "efficientnet_b0": efficientnet_b0}
