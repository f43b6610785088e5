"""What check-onnx and make_onnx.py share: batches for a case of onnx_models.py, ten steps of PyTorch, and dumps."""
import struct

import numpy
import torch
from torch import nn
from torch.nn import functional as F

STEPS = 10
TYPES = {"float32": 0, "int32": 1, "float64": 2}


def loss_of(model, samples, targets):
    output = model(samples.long() if samples.dtype == torch.int32 else samples)
    if hasattr(model, "output_heads"):
        parts = output.split([head["classes"] for head in model.output_heads], 1)
        return sum(head["weight"] * F.cross_entropy(part, targets[:, i].long()) for i, (head, part) in enumerate(zip(model.output_heads, parts)))
    if output.dim() == 3:
        output, targets = output.flatten(0, 1), targets.flatten()
    if targets.is_floating_point():
        return F.mse_loss(output, targets.to(output.dtype))
    return F.cross_entropy(output, targets.long())


def example_of(model, samples):
    """The samples as the arguments of an export."""
    samples = samples.long() if samples.dtype == torch.int32 else samples
    return model.parts(samples) if hasattr(model, "parts") else samples


def batches_of(case):
    source = torch.Generator().manual_seed(7)
    prototypes = torch.randn(case.classes, *case.shape, generator=source)
    result = []
    for _ in range(STEPS):
        if case.symbols:
            samples = torch.randint(0, case.classes, (case.batch, *case.shape), generator=source, dtype=torch.int32)
            targets = (samples.roll(-1, 1) if case.each else samples[:, -1]).contiguous()
        else:
            targets = torch.randint(0, case.classes, (case.batch,), generator=source, dtype=torch.int32)
            if case.values:
                targets = torch.randn(case.batch, case.classes, generator=source)
            labels = targets
            if hasattr(case.build, "output_heads"):
                targets = torch.stack([labels, (labels + 1) % case.classes], 1).contiguous()
            samples = (0 if case.values else prototypes[labels.long()]) + torch.randn(case.batch, *case.shape, generator=source)
        result.append((samples, targets))
    return result


def prepare(model):
    """Training mode as traind has it: batch norm with the batch's moments, no dropout, which an export lacks."""
    model.train()
    for module in model.modules():
        if isinstance(module, (nn.LSTM, nn.GRU, nn.MultiheadAttention)):
            module.dropout = 0.0
        if isinstance(module, nn.Dropout) or type(module).__name__ == "StochasticDepth":
            module.p = 0.0


def train(model, batches, rate):
    """The losses of training, and the gradients of the first step by the names of the parameters."""
    prepare(model)
    optimizer = torch.optim.SGD(model.parameters(), rate, momentum=0.9)
    losses, gradients = [], {}
    for samples, targets in batches:
        optimizer.zero_grad()
        loss = loss_of(model, samples, targets)
        loss.backward()
        if not losses:
            gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()
                         if parameter.grad is not None}
        optimizer.step()
        losses.append(loss.item())
    return losses, gradients


def write_dump(path, tensors):
    """tensors: {name: tensor, number or numbers}; float64 tensors are stored as float32, numbers as float64."""
    with open(path, "wb") as output:
        output.write(b"TDMP" + struct.pack("<I", len(tensors)))
        for key, value in tensors.items():
            array = numpy.asarray(value, dtype=numpy.float64) if not torch.is_tensor(value) else value.detach().numpy()
            if torch.is_tensor(value):
                array = array.astype(numpy.int32 if array.dtype.kind == "i" else numpy.float32)
            output.write(struct.pack("<I", len(key)) + key.encode() + struct.pack("<II", TYPES[array.dtype.name], array.ndim))
            output.write(struct.pack(f"<{array.ndim}q", *array.shape) + numpy.ascontiguousarray(array).tobytes())
