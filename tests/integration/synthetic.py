"""synthetic.py: small data sets that tests make themselves, and a reader of safetensors files."""
import gzip
import json
import os
import random
import struct


def write_idx(folder, name, count, classes=4, side=8, seed=1, compress=False):
    """Images of `classes` blurred patterns with noise, and their labels. Returns the `idx` source."""
    draw = random.Random(seed)
    patterns = []
    for c in range(classes):
        pattern = random.Random(1000 + c)
        patterns.append([pattern.choice((40, 180)) for _ in range(side * side)])
    labels = bytes(draw.randrange(classes) for _ in range(count))
    pixels = bytearray()
    for label in labels:
        pixels += bytes(min(255, max(0, value + draw.randrange(-60, 61))) for value in patterns[label])
    write = gzip.open if compress else open
    suffix = ".gz" if compress else ""
    with write(os.path.join(folder, f"{name}-images{suffix}"), "wb") as file:
        file.write(struct.pack(">IIII", 0x803, count, side, side) + pixels)
    with write(os.path.join(folder, f"{name}-labels{suffix}"), "wb") as file:
        file.write(struct.pack(">II", 0x801, count) + labels)
    return {"format": "idx", "images": f"{name}-images{suffix}", "labels": f"{name}-labels{suffix}"}


def read_safetensors(path):
    """(metadata, {name: (dtype, shape, bytes)})"""
    with open(path, "rb") as file:
        content = file.read()
    length, = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = (entry["dtype"], entry["shape"], content[8 + length + begin:8 + length + end])
    return metadata, tensors
