/* image_bmp.c: reads BMP files, as Pillow's BmpImagePlugin.py does: 1, 4, 8, 16, 24 and 32 bits a
 * pixel, palettes, masks, runs of equal pixels, rows from below or from above. The headers are
 * BITMAPCOREHEADER and BITMAPINFOHEADER to BITMAPV5HEADER (Microsoft's wingdi.h). */
#include "engine/data/image.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_HEADER = 14, CORE_HEADER = 12 };
enum { STORED, RUNS_8, RUNS_4, MASKS };

struct bmp {
    const char *path;
    const uint8_t *bytes;
    size_t size;
    uint32_t header, bits, compression, colours;
    bool upwards;
    size_t offset;        /* of the pixels */
    uint8_t palette[768]; /* red, green, blue */
    int place[3];         /* 32 bits: the byte of red, green and blue */
    bool six;             /* 16 bits: green has 6 of them */
    struct error *error;
};

static uint32_t number(const uint8_t *bytes, int length)
{
    uint32_t value = 0;

    for (int i = length - 1; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

static int damaged(const struct bmp *bmp, const char *what)
{
    return error_set(bmp->error, -EINVAL,
                     "%s is a damaged BMP file (%s); fetch it again or remove it", bmp->path, what);
}

static int unusual(const struct bmp *bmp, const char *what, uint32_t value)
{
    return error_set(bmp->error, -EINVAL,
                     "%s is a BMP file with %s %u, which is not read; convert it to PNG", bmp->path,
                     what, value);
}

static int size_read(struct bmp *bmp, struct image *image)
{
    const uint8_t *header = bmp->bytes + FILE_HEADER;
    bool core;
    int32_t height;

    if (bmp->size < FILE_HEADER + 4)
        return damaged(bmp, "it ends early");
    bmp->header = number(header, 4);
    core = bmp->header == CORE_HEADER;
    if (!core && bmp->header != 40 && bmp->header != 52 && bmp->header != 56 && bmp->header != 64 &&
        bmp->header != 108 && bmp->header != 124)
        return unusual(bmp, "a header of length", bmp->header);
    if (bmp->size < FILE_HEADER + bmp->header)
        return damaged(bmp, "it ends early");
    image->width = core ? (int64_t)number(header + 4, 2) : (int64_t)(int32_t)number(header + 4, 4);
    height = core ? (int32_t)number(header + 6, 2) : (int32_t)number(header + 8, 4);
    image->height = height < 0 ? -(int64_t)height : height;
    bmp->upwards = height >= 0;
    bmp->bits = number(header + (core ? 10 : 14), 2);
    bmp->compression = core ? STORED : number(header + 16, 4);
    bmp->colours = core ? 0 : number(header + 32, 4);
    image->channels = 3;
    return image->width < 1 || image->height < 1 ? damaged(bmp, "it has no pixels") : 0;
}

static int palette_read(struct bmp *bmp, size_t place)
{
    size_t entry = bmp->header == CORE_HEADER ? 3 : 4;

    if (bmp->colours == 0 || bmp->colours > 65536)
        return unusual(bmp, "a palette of", bmp->colours);
    if (bmp->size < place || (bmp->size - place) / entry < bmp->colours)
        return damaged(bmp, "its palette ends early");
    for (uint32_t i = 0; i < 256; i++)
        for (size_t c = 0; c < 3; c++)
            bmp->palette[3 * i + c] =
                i < bmp->colours ? bmp->bytes[place + i * entry + 2 - c] : (uint8_t)i;
    return 0;
}

/* The byte of a pixel that the mask has, or -1. */
static int mask_byte(uint32_t mask, uint32_t bits)
{
    for (int i = 0; i < (int)bits / 8; i++)
        if (mask == 0xffu << 8 * i)
            return i;
    return -1;
}

static int masks_read(struct bmp *bmp, size_t *place)
{
    uint32_t mask[3];
    bool known = true;

    if (bmp->header < 52) /* they follow the header */
        *place += 12;
    if (bmp->size < FILE_HEADER + 40 + 12)
        return damaged(bmp, "it ends early");
    for (int i = 0; i < 3; i++)
        mask[i] = number(bmp->bytes + FILE_HEADER + 40 + 4 * i, 4);
    if (bmp->bits == 16) {
        bmp->six = mask[0] == 0xf800 && mask[1] == 0x7e0 && mask[2] == 0x1f;
        known = bmp->six || (mask[0] == 0x7c00 && mask[1] == 0x3e0 && mask[2] == 0x1f);
    } else if (mask[0] || mask[1] || mask[2]) {
        for (int i = 0; i < 3; i++) {
            bmp->place[i] = mask_byte(mask[i], bmp->bits);
            known = known && bmp->place[i] >= 0;
        }
    }
    return known && bmp->bits >= 16 ? 0 : unusual(bmp, "a mask of colours", mask[0]);
}

/* Where the pixels are, and how to read one. */
static int form_read(struct bmp *bmp)
{
    size_t place = FILE_HEADER + bmp->header;
    bool runs = bmp->compression == RUNS_8 || bmp->compression == RUNS_4;
    int r = 0;

    if (bmp->bits != 1 && bmp->bits != 4 && bmp->bits != 8 && bmp->bits != 16 && bmp->bits != 24 &&
        bmp->bits != 32)
        return unusual(bmp, "bits a pixel:", bmp->bits);
    if (bmp->compression > MASKS || (runs && bmp->bits != (bmp->compression == RUNS_8 ? 8 : 4)))
        return unusual(bmp, "the compression", bmp->compression);
    for (int i = 0; i < 3; i++)
        bmp->place[i] = 2 - i;
    bmp->offset = number(bmp->bytes + 10, 4);
    if (!bmp->colours)
        bmp->colours = bmp->bits < 16 ? 1u << bmp->bits : 1;
    if (bmp->offset == place && bmp->bits <= 8) /* as if there were no palette */
        bmp->offset += (bmp->header == CORE_HEADER ? 3 : 4) * (size_t)bmp->colours;
    if (bmp->compression == MASKS)
        r = masks_read(bmp, &place);
    if (r == 0 && bmp->bits <= 8) {
        r = palette_read(bmp, place);
        place += (bmp->header == CORE_HEADER ? 3 : 4) * (size_t)bmp->colours;
    }
    if (!bmp->offset)
        bmp->offset = place;
    return r < 0 ? r : bmp->offset > bmp->size ? damaged(bmp, "it ends early") : 0;
}

/* ---- pixels ---- */

static void pixel_write(const struct bmp *bmp, const uint8_t *row, int64_t x, uint8_t *to)
{
    uint32_t shift, value;

    switch (bmp->bits) {
    case 32:
    case 24:
        for (int c = 0; c < 3; c++)
            to[c] = row[x * (bmp->bits / 8) + bmp->place[c]];
        return;
    case 16:
        value = number(row + 2 * x, 2);
        to[0] = (uint8_t)((value >> (bmp->six ? 11 : 10) & 31) * 255 / 31);
        to[1] = (uint8_t)(bmp->six ? (value >> 5 & 63) * 255 / 63 : (value >> 5 & 31) * 255 / 31);
        to[2] = (uint8_t)((value & 31) * 255 / 31);
        return;
    default:
        shift = 8 - bmp->bits - (uint32_t)(x * bmp->bits % 8);
        value = row[x * bmp->bits / 8] >> shift & ((1u << bmp->bits) - 1);
        memcpy(to, bmp->palette + 3 * (size_t)value, 3);
    }
}

static uint8_t *row_of(const struct bmp *bmp, const struct image *image, int64_t y)
{
    return image->pixels + 3 * image->width * (bmp->upwards ? image->height - 1 - y : y);
}

static int rows_read(const struct bmp *bmp, const struct image *image)
{
    size_t stride = ((size_t)image->width * bmp->bits + 31) / 32 * 4;
    /* nothing need fill up the last row */
    size_t least = ((size_t)image->width * bmp->bits + 7) / 8;
    size_t left = bmp->size - bmp->offset;

    if (left < least || (left - least) / stride < (size_t)image->height - 1)
        return damaged(bmp, "it ends early");
    for (int64_t y = 0; y < image->height; y++) {
        const uint8_t *row = bmp->bytes + bmp->offset + (size_t)y * stride;
        uint8_t *to = row_of(bmp, image, y);

        for (int64_t x = 0; x < image->width; x++)
            pixel_write(bmp, row, x, to + 3 * x);
    }
    return 0;
}

/* ---- runs of equal pixels ---- */

struct runs {
    const uint8_t *bytes; /* the file's */
    size_t size, place;
    bool four;
    uint8_t *data;
    size_t count, filled, width, x;
};

static void runs_put(struct runs *runs, uint8_t value, size_t count)
{
    size_t room = runs->count - runs->filled;

    count = count < room ? count : room;
    memset(runs->data + runs->filled, value, count);
    runs->filled += count;
}

static void runs_repeat(struct runs *runs, size_t count, uint8_t byte)
{
    size_t room = runs->x < runs->width ? runs->width - runs->x : 0;

    count = count < room ? count : room;
    for (size_t i = 0; i < count; i++)
        runs_put(runs, !runs->four ? byte : i % 2 ? byte & 15 : byte >> 4, 1);
    runs->x += count;
}

/* Pixels that are listed. Returns whether there are more to come. */
static bool runs_list(struct runs *runs, size_t count)
{
    size_t room = runs->count - runs->filled, length;
    size_t kept = count < room ? count : room;

    length = runs->four ? (kept + 1) / 2 : kept;
    if (runs->size - runs->place < length)
        return false;
    for (size_t i = 0; i < kept; i++) {
        uint8_t byte = runs->bytes[runs->place + (runs->four ? i / 2 : i)];

        runs_put(runs, !runs->four ? byte : i % 2 ? byte & 15 : byte >> 4, 1);
    }
    runs->place += length;
    runs->x += count;
    runs->place += runs->place % 2 && runs->place < runs->size;
    return true;
}

/* Carries out one instruction; false: it was the last one. */
static bool runs_next(struct runs *runs)
{
    uint8_t count, byte;

    if (runs->filled == runs->count || runs->size - runs->place < 2)
        return false;
    count = runs->bytes[runs->place];
    byte = runs->bytes[runs->place + 1];
    runs->place += 2;
    if (count) {
        runs_repeat(runs, count, byte);
    } else if (byte == 0) { /* the row ends */
        runs_put(runs, 0, (runs->width - runs->filled % runs->width) % runs->width);
        runs->x = 0;
    } else if (byte == 1) { /* the image ends */
        return false;
    } else if (byte == 2) { /* a step to the right and up */
        if (runs->size - runs->place < 2)
            return false;
        runs_put(runs, 0, runs->bytes[runs->place] + runs->bytes[runs->place + 1] * runs->width);
        runs->place += 2;
        runs->x = runs->filled % runs->width;
    } else {
        return runs_list(runs, byte);
    }
    return true;
}

static int runs_read(const struct bmp *bmp, const struct image *image)
{
    size_t count = (size_t)(image->width * image->height);
    struct runs runs = {.bytes = bmp->bytes,
                        .size = bmp->size,
                        .place = bmp->offset,
                        .four = bmp->compression == RUNS_4,
                        .data = malloc(count),
                        .count = count,
                        .width = (size_t)image->width};
    bool complete;

    if (!runs.data)
        return error_set(bmp->error, -ENOMEM, "not enough memory to read the image %s", bmp->path);
    while (runs_next(&runs))
        ;
    complete = runs.filled == count;
    for (int64_t y = 0; complete && y < image->height; y++)
        for (int64_t x = 0; x < image->width; x++)
            memcpy(row_of(bmp, image, y) + 3 * x,
                   bmp->palette + 3 * (size_t)runs.data[y * image->width + x], 3);
    free(runs.data);
    return complete ? 0 : damaged(bmp, "it ends early");
}

int image_bmp_read(const char *path, const uint8_t *bytes, size_t size, int inspect,
                   struct image *image, struct error *error)
{
    struct bmp bmp = {.path = path, .bytes = bytes, .size = size, .error = error};
    int r = size_read(&bmp, image);

    if (r < 0 || inspect)
        return r;
    r = form_read(&bmp);
    if (r == 0)
        r = image_reserve(path, image, error);
    if (r < 0)
        return r;
    return bmp.compression == RUNS_8 || bmp.compression == RUNS_4 ? runs_read(&bmp, image)
                                                                  : rows_read(&bmp, image);
}
