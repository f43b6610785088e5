#!/usr/bin/python3
"""make_dumps.py: writes tests/reference/data/dumps/ with PyTorch and scikit-learn (Debian's python3-torch,
python3-torchvision and python3-sklearn). README.md beside this file has the format and the contents; `make_dumps.py optimizers`
makes one folder anew. The tests read the committed dumps; nobody but a person who changes this file runs it.

Everything is computed in float64 from inputs that are exact in float32, so the only rounding in a comparison is that
of the engine under test (and of storing the expectation as float32).
"""
import os
import shutil
import sys

import torch
from torch.nn import functional as F

import torch_models
from dumps import FOLDER, random, state, write
from dumps_operators import operators
from dumps_optimizers import optimizers, schedules
from dumps_trajectories import trajectories

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
