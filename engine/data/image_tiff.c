/* image_tiff.c: reads the first image of a TIFF file by libtiff (its TIFFOpen(3), TIFFReadTile(3)
 * and TIFFReadEncodedStrip(3)): grey, RGB, palettes, CMYK, and YCbCr that is compressed as JPEG; 1
 * to 16 bits a sample, in strips or tiles, in one plane or several. */
#include "engine/data/image.h"
#include "engine/data/image_orientation.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>

enum { SAMPLES_MAX = 8, ALLOCATION_MAX = 1 << 29 };

struct tiff_reader {
    const char *path;
    const uint8_t *bytes;
    size_t size, place;
    struct error *error;
    char message[200];
    TIFF *tiff;
    uint32_t width, height;
    uint16_t bits, samples, photometric, planar, format;
    bool premultiplied;
    const uint16_t *map[3]; /* of a palette */
    uint8_t *row;           /* owned: [width][samples], each in 8 bits */
};

/* ---- libtiff reads from memory ---- */

static tmsize_t on_read(thandle_t data, void *buffer, tmsize_t size)
{
    struct tiff_reader *reader = data;
    size_t left = reader->size - reader->place, count = (size_t)size < left ? (size_t)size : left;

    memcpy(buffer, reader->bytes + reader->place, count);
    reader->place += count;
    return (tmsize_t)count;
}

static tmsize_t on_write(thandle_t data, void *buffer, tmsize_t size)
{
    (void)data;
    (void)buffer;
    (void)size;
    return -1;
}

static toff_t on_seek(thandle_t data, toff_t offset, int whence)
{
    struct tiff_reader *reader = data;
    toff_t place = whence == SEEK_CUR   ? reader->place + offset
                   : whence == SEEK_END ? reader->size + offset
                                        : offset;

    reader->place = place > reader->size ? reader->size : (size_t)place;
    return place;
}

static int on_close(thandle_t data)
{
    (void)data;
    return 0;
}

static toff_t on_size(thandle_t data)
{
    return ((struct tiff_reader *)data)->size;
}

static int on_error(TIFF *tiff, void *data, const char *module, const char *format,
                    va_list arguments)
{
    struct tiff_reader *reader = data;

    (void)tiff;
    (void)module;
    if (!reader->message[0]) /* the first one is the cause */
        vsnprintf(reader->message, sizeof reader->message, format, arguments);
    return 1;
}

static int on_warning(TIFF *tiff, void *data, const char *module, const char *format,
                      va_list arguments)
{
    (void)tiff;
    (void)data;
    (void)module;
    (void)format;
    (void)arguments;
    return 1;
}

static TIFF *reader_open(struct tiff_reader *reader)
{
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
    TIFF *tiff;

    if (!options)
        return NULL;
    TIFFOpenOptionsSetMaxSingleMemAlloc(options, ALLOCATION_MAX);
    TIFFOpenOptionsSetErrorHandlerExtR(options, on_error, reader);
    TIFFOpenOptionsSetWarningHandlerExtR(options, on_warning, reader);
    tiff = TIFFClientOpenExt(reader->path, "rm", reader, on_read, on_write, on_seek, on_close,
                             on_size, NULL, NULL, options);
    TIFFOpenOptionsFree(options);
    return tiff;
}

static int damaged(const struct tiff_reader *reader)
{
    return error_set(reader->error, -EINVAL,
                     "%s is a damaged TIFF file (libtiff: %s); fetch it again or remove it",
                     reader->path, reader->message[0] ? reader->message : "it has no image");
}

static int unusual(const struct tiff_reader *reader, const char *what, unsigned value)
{
    return error_set(reader->error, -EINVAL,
                     "%s is a TIFF file with %s %u, which is not read; convert it to PNG",
                     reader->path, what, value);
}

/* ---- form ---- */

static int size_read(struct tiff_reader *reader, struct image *image)
{
    uint16_t orientation = 1;

    if (!TIFFGetField(reader->tiff, TIFFTAG_IMAGEWIDTH, &reader->width) ||
        !TIFFGetField(reader->tiff, TIFFTAG_IMAGELENGTH, &reader->height))
        return damaged(reader);
    TIFFGetFieldDefaulted(reader->tiff, TIFFTAG_ORIENTATION, &orientation);
    image->width = reader->width;
    image->height = reader->height;
    image->channels = 3;
    image->orientation = orientation >= 1 && orientation <= 8 ? orientation : 1;
    return image->width < 1 || image->height < 1 ? damaged(reader) : 0;
}

/* How many samples of a pixel are colours. */
static int colours_of(const struct tiff_reader *reader)
{
    return reader->photometric == PHOTOMETRIC_RGB || reader->photometric == PHOTOMETRIC_YCBCR ? 3
           : reader->photometric == PHOTOMETRIC_SEPARATED                                     ? 4
                                                                                              : 1;
}

static int colours_check(struct tiff_reader *reader)
{
    uint16_t *red, *green, *blue, compression = COMPRESSION_NONE;

    TIFFGetFieldDefaulted(reader->tiff, TIFFTAG_COMPRESSION, &compression);
    switch (reader->photometric) {
    case PHOTOMETRIC_PALETTE:
        if (reader->bits > 8)
            return unusual(reader, "a palette and bits a sample:", reader->bits);
        if (!TIFFGetField(reader->tiff, TIFFTAG_COLORMAP, &red, &green, &blue))
            return damaged(reader);
        reader->map[0] = red;
        reader->map[1] = green;
        reader->map[2] = blue;
        return 0;
    case PHOTOMETRIC_YCBCR:
        if (compression != COMPRESSION_JPEG || reader->planar != PLANARCONFIG_CONTIG)
            return unusual(reader, "YCbCr colours and the compression", compression);
        TIFFSetField(reader->tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
        return 0;
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK:
    case PHOTOMETRIC_RGB:
    case PHOTOMETRIC_SEPARATED:
        return 0;
    default:
        return unusual(reader, "the kind of colours", reader->photometric);
    }
}

static int form_read(struct tiff_reader *reader)
{
    uint16_t extras = 0, *kinds = NULL;
    bool wide;

    TIFFGetFieldDefaulted(reader->tiff, TIFFTAG_BITSPERSAMPLE, &reader->bits);
    TIFFGetFieldDefaulted(reader->tiff, TIFFTAG_SAMPLESPERPIXEL, &reader->samples);
    TIFFGetFieldDefaulted(reader->tiff, TIFFTAG_SAMPLEFORMAT, &reader->format);
    TIFFGetFieldDefaulted(reader->tiff, TIFFTAG_PLANARCONFIG, &reader->planar);
    TIFFGetFieldDefaulted(reader->tiff, TIFFTAG_EXTRASAMPLES, &extras, &kinds);
    if (!TIFFGetField(reader->tiff, TIFFTAG_PHOTOMETRIC, &reader->photometric))
        reader->photometric = PHOTOMETRIC_MINISWHITE;
    wide = reader->bits != 1 && reader->bits != 2 && reader->bits != 4 && reader->bits != 8 &&
           reader->bits != 16;
    if (wide || (reader->bits < 8 && reader->samples > 1))
        return unusual(reader, "bits a sample:", reader->bits);
    if (reader->format != SAMPLEFORMAT_UINT && reader->format != SAMPLEFORMAT_VOID)
        return unusual(reader, "samples that are no whole numbers from 0: SampleFormat",
                       reader->format);
    if (reader->samples > SAMPLES_MAX || reader->samples < colours_of(reader))
        return unusual(reader, "samples a pixel:", reader->samples);
    reader->premultiplied = extras && kinds && kinds[0] == EXTRASAMPLE_ASSOCALPHA &&
                            reader->samples == colours_of(reader) + extras;
    return colours_check(reader);
}

/* ---- pixels ---- */

/* Writes `count` samples of a line as bytes, `step` apart: of 16 bits the upper 8, and of fewer
 * the number itself. */
static void samples_unpack(const struct tiff_reader *reader, const uint8_t *line, size_t count,
                           uint8_t *to, size_t step)
{
    unsigned bits = reader->bits;

    for (size_t i = 0; i < count; i++, to += step) {
        uint16_t wide;

        if (bits == 8) {
            *to = line[i];
        } else if (bits == 16) { /* in the order of this machine */
            memcpy(&wide, line + 2 * i, 2);
            *to = (uint8_t)(wide >> 8);
        } else {
            *to = (uint8_t)(line[i * bits / 8] >> (8 - bits - i * bits % 8) & ((1u << bits) - 1));
        }
    }
}

static uint8_t clip(unsigned value)
{
    return (uint8_t)(value > 255 ? 255 : value);
}

/* Divides the colours by alpha, as Pillow does. */
static void colours_divide(uint8_t *colours, int count, unsigned alpha)
{
    for (int c = 0; alpha && alpha < 255 && c < count; c++)
        colours[c] = clip(255u * colours[c] / alpha);
}

static void pixel_write(const struct tiff_reader *reader, const uint8_t *samples, uint8_t *to)
{
    unsigned most = reader->bits >= 8 ? 255 : (1u << reader->bits) - 1, grey;

    switch (reader->photometric) {
    case PHOTOMETRIC_PALETTE:
        for (int c = 0; c < 3; c++)
            to[c] = (uint8_t)(reader->map[c][samples[0]] >> 8);
        return;
    case PHOTOMETRIC_SEPARATED:
        image_cmyk_to_rgb(samples, to);
        return;
    case PHOTOMETRIC_RGB:
    case PHOTOMETRIC_YCBCR:
        memcpy(to, samples, 3);
        if (reader->premultiplied)
            colours_divide(to, 3, samples[3]);
        return;
    default:
        grey = reader->photometric == PHOTOMETRIC_MINISWHITE ? most - samples[0] : samples[0];
        memset(to, (int)(grey * (255 / most)), 3);
        if (reader->premultiplied)
            colours_divide(to, 3, samples[1]);
    }
}

/* `step`: from the samples of one pixel to those of the next. */
static void row_write(const struct tiff_reader *reader, const uint8_t *samples, size_t count,
                      size_t step, uint8_t *to)
{
    for (size_t x = 0; x < count; x++)
        pixel_write(reader, samples + x * step, to + 3 * x);
}

/* ---- blocks: strips or tiles ---- */

struct blocks {
    bool tiles;
    int planes;             /* that are read apart; 1: the samples of a pixel lie together */
    uint32_t width, height; /* of a block */
    tmsize_t size;
    uint8_t *block;   /* owned */
    uint8_t *samples; /* owned: [height][width][planes] of the image; NULL: together */
};

static size_t line_bytes(const struct tiff_reader *reader, const struct blocks *blocks)
{
    size_t together = blocks->planes > 1 ? 1 : reader->samples;

    return ((size_t)blocks->width * together * reader->bits + 7) / 8;
}

/* Puts a block that begins at (x, y) into the image, as far as it lies in it. */
static void block_write(struct tiff_reader *reader, const struct blocks *blocks,
                        const struct image *image, uint32_t x, uint32_t y, int plane)
{
    size_t together = blocks->planes > 1 ? 1 : reader->samples;
    size_t stride = line_bytes(reader, blocks);
    size_t across = reader->width - x < blocks->width ? reader->width - x : blocks->width;

    for (uint32_t i = 0; i < blocks->height && y + i < reader->height; i++) {
        const uint8_t *line = blocks->block + i * stride;
        size_t pixel = (size_t)(y + i) * reader->width + x;

        if (blocks->samples) {
            samples_unpack(reader, line, across,
                           blocks->samples + pixel * (size_t)blocks->planes + plane,
                           (size_t)blocks->planes);
        } else {
            samples_unpack(reader, line, across * together, reader->row, 1);
            row_write(reader, reader->row, across, together, image->pixels + 3 * pixel);
        }
    }
}

static int block_read(struct tiff_reader *reader, const struct blocks *blocks, uint32_t x,
                      uint32_t y, int plane)
{
    tmsize_t expected = blocks->size, got;

    if (blocks->tiles) {
        got = TIFFReadTile(reader->tiff, blocks->block, x, y, 0, (uint16_t)plane);
    } else {
        uint32_t rows = reader->height - y < blocks->height ? reader->height - y : blocks->height;

        expected = TIFFVStripSize(reader->tiff, rows);
        got = TIFFReadEncodedStrip(reader->tiff, TIFFComputeStrip(reader->tiff, y, (uint16_t)plane),
                                   blocks->block, blocks->size);
    }
    return got < 0 || got < expected ? damaged(reader) : 0;
}

static int blocks_read(struct tiff_reader *reader, const struct blocks *blocks,
                       const struct image *image)
{
    for (int plane = 0; plane < blocks->planes; plane++)
        for (uint32_t y = 0; y < reader->height; y += blocks->height)
            for (uint32_t x = 0; x < reader->width; x += blocks->width) {
                int r = block_read(reader, blocks, x, y, plane);

                if (r < 0)
                    return r;
                block_write(reader, blocks, image, x, y, plane);
            }
    if (blocks->samples)
        row_write(reader, blocks->samples, (size_t)reader->width * reader->height,
                  (size_t)blocks->planes, image->pixels);
    return 0;
}

static int blocks_lay_out(struct tiff_reader *reader, struct blocks *blocks)
{
    size_t pixels = (size_t)reader->width * reader->height;

    blocks->tiles = TIFFIsTiled(reader->tiff) != 0;
    blocks->planes = reader->planar == PLANARCONFIG_SEPARATE && reader->samples > 1
                         ? colours_of(reader) + reader->premultiplied
                         : 1;
    blocks->width = reader->width;
    if (blocks->tiles) {
        TIFFGetField(reader->tiff, TIFFTAG_TILEWIDTH, &blocks->width);
        TIFFGetField(reader->tiff, TIFFTAG_TILELENGTH, &blocks->height);
        blocks->size = TIFFTileSize(reader->tiff);
    } else {
        TIFFGetFieldDefaulted(reader->tiff, TIFFTAG_ROWSPERSTRIP, &blocks->height);
        if (blocks->height > reader->height)
            blocks->height = reader->height;
        blocks->size = TIFFStripSize(reader->tiff);
    }
    if (blocks->size <= 0 || blocks->width == 0 || blocks->height == 0)
        return damaged(reader);
    if (blocks->size > ALLOCATION_MAX || blocks->width > IMAGE_SIDE_MAX * 2)
        return unusual(reader, "blocks of this many rows:", blocks->height);
    if (line_bytes(reader, blocks) > (size_t)blocks->size / blocks->height)
        return unusual(reader, "colours that lie in fewer bytes than they need:", reader->bits);
    blocks->block = calloc(1, (size_t)blocks->size);
    reader->row = malloc((size_t)blocks->width * reader->samples);
    if (blocks->planes > 1)
        blocks->samples = malloc(pixels * (size_t)blocks->planes);
    return blocks->block && reader->row && (blocks->samples || blocks->planes == 1)
               ? 0
               : error_set(reader->error, -ENOMEM, "not enough memory to read the image %s",
                           reader->path);
}

static int pixels_read(struct tiff_reader *reader, const struct image *image)
{
    struct blocks blocks = {0};
    int r = blocks_lay_out(reader, &blocks);

    if (r == 0)
        r = blocks_read(reader, &blocks, image);
    free(blocks.block);
    free(blocks.samples);
    free(reader->row);
    return r;
}

int image_tiff_read(const char *path, const uint8_t *bytes, size_t size, int inspect,
                    struct image *image, struct error *error)
{
    struct tiff_reader reader = {.path = path, .bytes = bytes, .size = size, .error = error};
    int r;

    reader.tiff = reader_open(&reader);
    r = reader.tiff ? size_read(&reader, image) : damaged(&reader);
    if (r == 0 && !inspect) {
        r = form_read(&reader);
        if (r == 0)
            r = image_reserve(path, image, error);
        if (r == 0)
            r = pixels_read(&reader, image);
    }
    if (reader.tiff)
        TIFFClose(reader.tiff);
    return r;
}
