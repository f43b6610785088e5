"""What the checks beside a live PyTorch share: ten steps in traind (the helper trajectory), and files of tensors.

TRAIND_PLUGIN is a backend's plugin, of which device 0 computes (build/lib/traind-cuda.so); else the CPU does.
"""
import json
import os
import struct
import subprocess
import sys

import numpy
import torch

BUILD = os.path.abspath(os.environ.get("BUILD", "build"))
HELPER = os.path.join(BUILD, "tests", "helpers", "trajectory")


def write_safetensors(path, tensors):
    arrays = {name: numpy.ascontiguousarray(tensor.detach().numpy()) for name, tensor in tensors.items()}
    header, offset = {}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": {"float32": "F32", "int32": "I32"}[array.dtype.name], "shape": list(array.shape),
                        "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            file.write(array.tobytes())


def read_safetensors(path):
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    header.pop("__metadata__", None)
    return {name: torch.from_numpy(numpy.frombuffer(data[entry["data_offsets"][0]:entry["data_offsets"][1]],
                                                    dtype=numpy.float32).reshape(entry["shape"]).copy())
            for name, entry in header.items()}


def train_here(name, specification, weights, batches):
    """The losses of traind, its weights behind the last step, and its outputs for the first batch before training."""
    tensors = dict(weights)
    for step, (samples, targets) in enumerate(batches):
        tensors.update({f"samples.{step}": samples, f"targets.{step}": targets})
    write_safetensors(f"{name}.safetensors", tensors)
    with open(f"{name}.json", "w") as file:
        json.dump(specification, file)
    plugin = [os.environ["TRAIND_PLUGIN"]] if "TRAIND_PLUGIN" in os.environ else []
    result = subprocess.run([HELPER, f"{name}.json", f"{name}.safetensors", f"{name}.trained", *plugin],
                            capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{name}: {result.stderr}")
    trained = read_safetensors(f"{name}.trained")
    outputs = trained.pop("outputs")
    return [float(line) for line in result.stdout.split()], trained, outputs


def distance(a, b):
    return max(abs(x - y) for x, y in zip(a, b))
