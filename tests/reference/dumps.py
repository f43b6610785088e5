"""dumps.py: the file of a dump (README.md), and how its tensors are drawn. make_dumps.py writes them all."""
import os
import struct

import numpy as np
import torch
from torch.nn import functional as F

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


def loss_of(y, target):
    if target.is_floating_point():
        return F.mse_loss(y, target)
    return F.cross_entropy(y.flatten(0, -2), target.long().flatten(), ignore_index=-1)
