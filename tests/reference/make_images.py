#!/usr/bin/python3
"""make_images.py: writes tests/reference/data/images/ with Pillow (Debian's python3-pil): small PNG and JPEG files of every kind, and
for each what Pillow reads from it. README.md beside this file has the contents. Nobody but a person who changes this file runs it.

Pillow writes neither interlaced PNG files nor such of 16 bits; they are written here by the PNG specification.
"""
import math
import os
import random
import shutil
import struct
import zlib

from PIL import Image

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "images")
WIDTH, HEIGHT = 29, 21
RESIZED = (40, 11)  # width, height: wider and lower
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def pixels(channels):
    """Waves with noise."""
    return bytes(int(127 + 90 * math.sin(x * 0.4 + c) * math.cos(y * 0.3)) + random.randrange(-30, 31)
                 for y in range(HEIGHT) for x in range(WIDTH) for c in range(channels))


def image(mode):
    return Image.frombytes(mode, (WIDTH, HEIGHT), pixels(len(mode)))


def png(path, depth, colour, scanlines, interlaced=0):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" +
                   chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, colour, 0, 0, interlaced)) +
                   chunk(b"IDAT", zlib.compress(scanlines)) + chunk(b"IEND", b""))


def interlace(data, size):
    """The scan lines of Adam7's passes, unfiltered; a pixel has `size` bytes."""
    lines = b""
    for left, top, across, down in ADAM7:
        for y in range(top, HEIGHT, down):
            line = b"".join(data[(y * WIDTH + x) * size:][:size] for x in range(left, WIDTH, across))
            lines += b"\0" + line if line else b""
    return lines


def make_files():
    for mode in "L", "RGB", "RGBA", "LA":
        image(mode).save(f"{FOLDER}/{mode.lower()}.png")
    palette = image("RGB").quantize(40)
    palette.save(f"{FOLDER}/palette.png")
    palette.save(f"{FOLDER}/palette-transparent.png", transparency=3)
    image("RGB").quantize(7).save(f"{FOLDER}/palette-4-bits.png", bits=4)
    image("L").convert("1").save(f"{FOLDER}/black-and-white.png")
    image("RGB").save(f"{FOLDER}/rgb-transparent.png", transparency=(1, 2, 3))
    rgb = pixels(3)
    png(f"{FOLDER}/rgb-interlaced.png", 8, 2, interlace(rgb, 3), interlaced=1)
    wide = bytes(random.randrange(256) for _ in range(WIDTH * HEIGHT * 6))
    png(f"{FOLDER}/rgb-16-bits.png", 16, 2,
        b"".join(b"\0" + wide[y * WIDTH * 6:(y + 1) * WIDTH * 6] for y in range(HEIGHT)))
    image("RGB").save(f"{FOLDER}/rgb-420.jpg", quality=85, subsampling=2)
    image("RGB").save(f"{FOLDER}/rgb-444.jpg", quality=60, subsampling=0)
    image("RGB").save(f"{FOLDER}/rgb-progressive.jpg", quality=85, progressive=True)
    image("L").save(f"{FOLDER}/grey.jpg", quality=85)


def planes(picture):
    return b"".join(band.tobytes() for band in picture.split())


def main():
    random.seed(7)
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)
    make_files()
    for name in sorted(os.listdir(FOLDER)):
        picture = Image.open(f"{FOLDER}/{name}").convert("RGB")
        with open(f"{FOLDER}/{name}.planes", "wb") as file:
            for one in picture, picture.convert("L"), picture.resize(RESIZED, Image.BILINEAR):
                file.write(planes(one))


main()
