#!/usr/bin/python3
"""make_image_operations.py: writes tests/reference/data/image_operations.bin with torchvision 0.29.2 and Pillow 13.0.0: what each
operation of torchvision makes of one image, as planes [3][HEIGHT][WIDTH], one after the other in the order of OPERATIONS. The
test test_image_operations.c has the same list and makes the same image. Nobody but a person who changes this file runs it."""
import math
import os

import numpy
from PIL import Image
from torchvision.transforms.v2 import functional as F

WIDTH, HEIGHT = 23, 17
FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "image_operations.bin")


def shear(x, y):
    return lambda image: F.affine(image, angle=0.0, translate=[0, 0], scale=1.0, center=[0, 0],
                                  shear=[math.degrees(math.atan(x)), math.degrees(math.atan(y))])


def shift(x, y):
    return lambda image: F.affine(image, angle=0.0, translate=[x, y], scale=1.0, shear=[0.0, 0.0])


OPERATIONS = [
    lambda image: F.resized_crop(image, 2, 3, 11, 9, [HEIGHT, WIDTH]),
    lambda image: F.resized_crop(image, 0, 5, 17, 1, [HEIGHT, WIDTH]),
    F.vertical_flip,
    *[lambda image, f=f: F.adjust_brightness(image, f) for f in (0.3, 1.0, 1.7)],
    *[lambda image, f=f: F.adjust_contrast(image, f) for f in (0.0, 0.55, 1.9)],
    *[lambda image, f=f: F.adjust_saturation(image, f) for f in (0.1, 0.8, 1.45)],
    *[lambda image, f=f: F.adjust_sharpness(image, f) for f in (0.1, 0.7, 1.9)],
    *[lambda image, f=f: F.adjust_hue(image, f) for f in (-0.5, -0.13, 0.0, 0.31)],
    *[lambda image, f=f: F.posterize(image, f) for f in (1, 4, 8)],
    *[lambda image, f=f: F.solarize(image, f) for f in (0.0, 99.3, 255.0)],
    F.autocontrast,
    F.equalize,
    *[lambda image, f=f: F.rotate(image, f) for f in (-171.5, -30.0, 12.25, 90.0, 180.0)],
    shear(0.27, 0), shear(-0.3, 0), shear(0, 0.21), shear(0, -0.08),
    shift(7, 0), shift(-3, 0), shift(0, 5), shift(0, -9),
]


def main():
    y, x, c = numpy.mgrid[0:HEIGHT, 0:WIDTH, 0:3]
    image = Image.fromarray(((x * 9 + y * 5 + c * 37 + x * y * (c + 2) % 23) % 211 + 20).astype(numpy.uint8))
    with open(FILE, "wb") as file:
        for operation in OPERATIONS:
            file.write(numpy.asarray(operation(image)).transpose(2, 0, 1).tobytes())


main()
