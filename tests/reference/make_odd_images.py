#!/usr/bin/python3
"""make_odd_images.py: writes tests/reference/data/odd_images/ with Pillow 13.0.0: small images of the kinds that cameras, scanners
and programs leave behind, and for each what Pillow reads from it: its width and height (4 bytes each, little-endian), then
ImageOps.exif_transpose(Image.open(file)).convert("RGB"). README.md beside this file has the contents. Nobody but a person who
changes this file runs it.

What Pillow does not write (tiles, planes, masks, runs, old headers) is written here by the formats' specifications.
"""
import io
import math
import os
import random
import shutil
import struct
import zlib

from PIL import Image, ImageOps

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "odd_images")
WIDTH, HEIGHT = 19, 13
# Pillow takes each number above 255 as white, so it shows nothing of these; traind keeps the upper 8 bits
NOT_AS_PILLOW = {"grey-16.png", "grey-16.tif", "grey-16-big.tif"}


def values(count, width=WIDTH, height=HEIGHT):
    """Waves with noise, `count` for each pixel."""
    return bytes(int(127 + 90 * math.sin(x * 0.4 + c) * math.cos(y * 0.3)) + random.randrange(-30, 31)
                 for y in range(height) for x in range(width) for c in range(count))


def image(mode):
    return Image.frombytes(mode, (WIDTH, HEIGHT), values(len(mode)))


def save(name, picture, **options):
    picture.save(os.path.join(FOLDER, name), **options)


def write(name, content):
    with open(os.path.join(FOLDER, name), "wb") as file:
        file.write(content)


# ---- PNG ----

def png(depth, colour, rows, before=b"", after=b""):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, colour, 0, 0, 0)) +
            (chunk(b"eXIf", before) if before else b"") +
            chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))) +
            (chunk(b"eXIf", after) if after else b"") + chunk(b"IEND", b""))


def rows(data, count=HEIGHT):
    length = len(data) // count
    return [data[i * length:][:length] for i in range(count)]


def exif(orientation, order="<"):
    return ((b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IH", 8, 2) +
            struct.pack(order + "HHIHH", 0x112, 3, 1, orientation, 0) + struct.pack(order + "HHII", 0x11a, 4, 1, 72) +
            struct.pack(order + "I", 0))


def make_png():
    noise = random.randbytes(WIDTH * HEIGHT * 8)
    write("rgba-16.png", png(16, 6, rows(noise)))
    write("grey-alpha-16.png", png(16, 4, rows(noise[:WIDTH * HEIGHT * 4])))
    write("grey-16.png", png(16, 0, rows(noise[:WIDTH * HEIGHT * 2])))
    write("grey-2.png", png(2, 0, rows(noise[:HEIGHT * ((WIDTH * 2 + 7) // 8)])))
    write("exif-before.png", png(8, 2, rows(values(3)), before=exif(6)))
    write("exif-after.png", png(8, 0, rows(values(1)), after=exif(3, ">")))


# ---- JPEG and WebP ----

def make_jpeg():
    for orientation in range(1, 9):
        save(f"exif-{orientation}.jpg", image("RGB"), quality=80, exif=b"Exif\0\0" + exif(orientation, "<>"[orientation % 2]))
    save("exif-grey.jpg", image("L"), quality=80, exif=b"Exif\0\0" + exif(8))
    save("cmyk.jpg", image("CMYK"), quality=80)
    save("cmyk-progressive.jpg", image("CMYK"), quality=80, progressive=True, exif=b"Exif\0\0" + exif(5))
    save("rgb-unchanged.jpg", image("RGB"), quality=80, keep_rgb=True)
    save("restarts-422.jpg", image("RGB"), quality=70, subsampling=1, restart_marker_blocks=1)
    buffer = io.BytesIO()
    image("RGB").save(buffer, "JPEG", quality=75)
    write("bytes-behind.jpg", buffer.getvalue() + b"behind the end")


def make_webp():
    save("lossy.webp", image("RGB"), quality=70)
    save("lossless.webp", image("RGB"), lossless=True)
    save("lossy-alpha.webp", image("RGBA"), quality=70)
    save("lossless-alpha.webp", image("RGBA"), lossless=True, exact=True)
    save("exif.webp", image("RGB"), quality=70, exif=exif(7))
    save("animated.webp", image("RGB"), save_all=True, append_images=[image("RGB")], duration=50, lossless=True)


# ---- BMP ----

def bmp(bits, data, compression=0, palette=b"", masks=b"", height=HEIGHT, header=40, width=WIDTH):
    extra = masks if header == 40 else masks.ljust(header - 40, b"\0")
    offset = 14 + 40 + len(extra) + len(palette)
    colours = len(palette) // 4
    return (b"BM" + struct.pack("<IHHI", offset + len(data), 0, 0, offset) +
            struct.pack("<IiiHHIIiiII", header, width, height, 1, bits, compression, len(data), 0, 0, colours, 0) +
            extra + palette + data)


def padded(bits):
    """Noise as rows of whole 4 bytes."""
    return random.randbytes((WIDTH * bits + 31) // 32 * 4 * HEIGHT)


def make_bmp():
    colours = random.randbytes(4 * 256)
    write("bits-1.bmp", bmp(1, padded(1), palette=colours[:8]))
    write("bits-4.bmp", bmp(4, padded(4), palette=colours[:64]))
    write("bits-8.bmp", bmp(8, padded(8), palette=colours))
    write("few-colours.bmp", bmp(8, bytes(value % 40 for value in padded(8)), palette=colours[:160]))
    write("bits-16.bmp", bmp(16, padded(16)))
    write("bits-565.bmp", bmp(16, padded(16), 3, masks=struct.pack("<III", 0xf800, 0x7e0, 0x1f)))
    write("bits-24.bmp", bmp(24, padded(24)))
    write("downwards.bmp", bmp(24, padded(24), height=-HEIGHT))
    write("bits-32.bmp", bmp(32, padded(32)))
    write("masks-32.bmp", bmp(32, padded(32), 3, masks=struct.pack("<IIII", 0xff, 0xff00, 0xff0000, 0xff000000), header=108))
    core = b"BM" + struct.pack("<IHHI", 26 + len(padded(24)), 0, 0, 26) + struct.pack("<IHHHH", 12, WIDTH, HEIGHT, 1, 24)
    write("core.bmp", core + padded(24))
    runs = b"".join(bytes([7, y, 0, 5, *range(y, y + 5), 0, WIDTH - 12, 9, 0, 0]) for y in range(HEIGHT))
    write("runs-8.bmp", bmp(8, runs + b"\0\1", 1, palette=colours))
    runs = b"".join(bytes([7, 0x3a, 0, 5, 0x12, 0x34, 0x50, 0, WIDTH - 12, 0x9c, 0, 0]) for y in range(HEIGHT))
    write("runs-4.bmp", bmp(4, runs + b"\0\1", 2, palette=colours[:64]))


# ---- TIFF ----

def tiff(blocks, photometric, bits, samples, order="<", tile=None, planar=1, extra=None, more=()):
    """A file with blocks (strips of one row, or tiles) that are not compressed."""
    tags = {256: ("I", WIDTH), 257: ("I", HEIGHT), 258: ("H", *[bits] * samples), 259: ("H", 1), 262: ("H", photometric),
            277: ("H", samples), 284: ("H", planar), **dict(more)}
    if extra is not None:
        tags[338] = ("H", extra)
    where, sizes = (324, 325) if tile else (273, 279)
    if tile:
        tags[322], tags[323] = ("I", tile), ("I", tile)
    else:
        tags[278] = ("I", 1)
    place, offsets = 8, []
    for block in blocks:
        offsets.append(place)
        place += len(block)
    body = b"".join(blocks)
    body += b"\0" * (len(body) % 2)
    tags[where], tags[sizes] = ("I", *offsets), ("I", *map(len, blocks))
    directory, data, begin = b"", b"", 8 + len(body)
    after = begin + 2 + 12 * len(tags) + 4
    for tag in sorted(tags):
        kind, *numbers = tags[tag]
        packed = struct.pack(order + kind * len(numbers), *numbers)
        if len(packed) > 4:
            data, packed = data + packed, struct.pack(order + "I", after + len(data))
        directory += struct.pack(order + "HHI", tag, 3 if kind == "H" else 4, len(numbers)) + packed.ljust(4, b"\0")
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", begin)
    return head + body + struct.pack(order + "H", len(tags)) + directory + struct.pack(order + "I", 0) + data


def tiles(data, samples, side):
    blocks = []
    for top in range(0, HEIGHT, side):
        for left in range(0, WIDTH, side):
            block = b""
            for y in range(top, top + side):
                for x in range(left, left + side):
                    inside = x < WIDTH and y < HEIGHT
                    block += data[(y * WIDTH + x) * samples:][:samples] if inside else b"\0" * samples
            blocks.append(block)
    return blocks


def make_tiff():
    rgb = image("RGB")
    for name in "raw", "tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg":
        save(f"{name.replace('tiff_', '').replace('_', '-')}.tif", rgb, compression=name)
    save("lines-g4.tif", image("L").convert("1"), compression="group4")
    save("palette.tif", rgb.quantize(30))
    save("rgba.tif", image("RGBA"))
    save("grey-alpha.tif", image("LA"), compression="tiff_lzw")
    save("cmyk.tif", image("CMYK"), compression="tiff_lzw")
    save("orientation.tif", rgb, tiffinfo={274: 6})
    save("big.tif", rgb, big_tiff=True)
    write("white-is-0.tif", tiff(rows(values(1)), 0, 8, 1))
    write("tiles.tif", tiff(tiles(values(3), 3, 16), 2, 8, 3, tile=16))
    data = values(3)
    planes = [row for c in range(3) for row in rows(data[c::3])]
    write("planes.tif", tiff(planes, 2, 8, 3, planar=2))
    wide = random.randbytes(WIDTH * HEIGHT * 6)
    write("rgb-16.tif", tiff(rows(wide), 2, 16, 3))
    write("rgb-16-big.tif", tiff(rows(wide), 2, 16, 3, order=">"))
    write("grey-16.tif", tiff(rows(wide[:WIDTH * HEIGHT * 2]), 1, 16, 1))
    write("grey-16-big.tif", tiff(rows(wide[:WIDTH * HEIGHT * 2]), 1, 16, 1, order=">"))
    write("premultiplied.tif", tiff(rows(values(4)), 2, 8, 4, extra=1))
    nibbles = [random.randbytes((WIDTH + 1) // 2) for _ in range(HEIGHT)]
    write("grey-4.tif", tiff(nibbles, 1, 4, 1))
    colours = [random.randrange(65536) for _ in range(48)]
    write("palette-4.tif", tiff(nibbles, 3, 4, 1, more=[(320, ("H", *colours))]))


def main():
    random.seed(11)
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)
    make_png()
    make_jpeg()
    make_webp()
    make_bmp()
    make_tiff()
    for name in sorted(os.listdir(FOLDER)):
        if name in NOT_AS_PILLOW:
            continue
        picture = ImageOps.exif_transpose(Image.open(os.path.join(FOLDER, name))).convert("RGB")
        write(name + ".rgb", struct.pack("<II", *picture.size) + picture.tobytes())


main()
