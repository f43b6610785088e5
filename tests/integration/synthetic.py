"""synthetic.py: small data sets that tests generate, and a reader of safetensors files."""
import gzip
import json
import os
import random
import struct
import zlib


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


def png(width, height, pixels):
    """A PNG file of RGB pixels, three bytes each."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    row = 3 * width
    lines = b"".join(b"\0" + pixels[y * row:(y + 1) * row] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(lines, 1)) + chunk(b"IEND", b""))


def write_image_folder(folder, name, count, classes=4, side=8, seed=1):
    """`count` images in folders class-0, class-1, …: a colour of each class, with noise. Returns the source."""
    draw = random.Random(seed)
    for c in range(classes):
        os.makedirs(os.path.join(folder, name, f"class-{c}"))
    for i in range(count):
        c = i % classes
        base = [200 if (c + 1) >> k & 1 else 50 for k in range(3)]
        noise = draw.randbytes(3 * side * side)
        pixels = bytes(base[k % 3] + noise[k] % 50 for k in range(3 * side * side))
        with open(os.path.join(folder, name, f"class-{c}", f"{i:05}.png"), "wb") as file:
            file.write(png(side, side, pixels))
    return {"format": "image_folder", "path": name}


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


def without_description(content):
    """The bytes of a checkpoint without a description of its model, as earlier versions wrote it; of the same length."""
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    del header["__metadata__"]["module"]
    return content[:8] + json.dumps(header, separators=(",", ":")).encode().ljust(length) + content[8 + length:]
