/* image_png.c: reads PNG files by libpng (http://www.libpng.org/pub/png/libpng-manual.txt). libpng
 * reports errors by longjmp(), so variables that live across its calls are in a structure that the
 * caller of the guarded function owns. */
#include "engine/data/image.h"
#include "engine/data/image_orientation.h"

#include <errno.h>
#include <png.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct png_reader {
    const char *path;
    const uint8_t *bytes;
    size_t size, used;
    bool inspect;
    struct image *image;
    struct error *error;
    int result;
    png_structp png;
    png_infop info;
    png_bytep *rows;
    char message[128];
};

static void on_error(png_structp png, png_const_charp message)
{
    struct png_reader *reader = png_get_error_ptr(png);

    snprintf(reader->message, sizeof reader->message, "%s", message);
    png_longjmp(png, 1);
}

/* After these warnings libpng goes on without losing a pixel. Most are about odd ancillary
 * chunks. */
static void on_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void on_read(png_structp png, png_bytep output, size_t length)
{
    struct png_reader *reader = png_get_io_ptr(png);

    if (length > reader->size - reader->used)
        png_error(png, "it ends early");
    memcpy(output, reader->bytes + reader->used, length);
    reader->used += length;
}

static void ask_for_bytes(struct png_reader *reader)
{
    png_structp png = reader->png;
    png_byte type = png_get_color_type(png, reader->info);

    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(png);
    if (!(type & PNG_COLOR_MASK_COLOR))
        png_set_expand_gray_1_2_4_to_8(png);
    png_set_strip_16(png);
    png_set_strip_alpha(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, reader->info);
}

/* All calls that may jump. */
static void read_guarded(struct png_reader *reader)
{
    struct image *image = reader->image;
    png_structp png = reader->png;

    if (setjmp(png_jmpbuf(png))) {
        reader->result =
            error_set(reader->error, -EINVAL,
                      "%s is a damaged PNG file (libpng: %s); fetch it again or remove it",
                      reader->path, reader->message);
        return;
    }
    png_set_user_limits(png, IMAGE_SIDE_MAX, IMAGE_SIDE_MAX);
    png_set_read_fn(png, reader, on_read);
    png_read_info(png, reader->info);
    image->width = png_get_image_width(png, reader->info);
    image->height = png_get_image_height(png, reader->info);
    /* the mask is also set for palettes */
    image->channels = png_get_color_type(png, reader->info) & PNG_COLOR_MASK_COLOR ? 3 : 1;
    if (reader->inspect)
        return;
    ask_for_bytes(reader);
    reader->result = image_reserve(reader->path, image, reader->error);
    if (reader->result < 0)
        return;
    size_t row = (size_t)image->width * (size_t)image->channels;
    if (png_get_rowbytes(png, reader->info) != row)
        png_error(png, "an unexpected form of pixels");
    reader->rows = malloc((size_t)image->height * sizeof *reader->rows);
    if (!reader->rows)
        png_error(png, "not enough memory");
    for (int64_t y = 0; y < image->height; y++)
        reader->rows[y] = image->pixels + (size_t)y * row;
    png_read_image(png, reader->rows);
    png_read_end(png, NULL);
}

/* The chunk of EXIF data may stand before or behind the pixels. What is no chunk is left to
 * libpng's errors. */
static int orientation_of(const uint8_t *bytes, size_t size)
{
    for (size_t place = 8; size - place >= 12;) {
        size_t length = (size_t)bytes[place] << 24 | (size_t)bytes[place + 1] << 16 |
                        (size_t)bytes[place + 2] << 8 | bytes[place + 3];

        if (length > size - place - 12)
            return 1;
        if (memcmp(bytes + place + 4, "eXIf", 4) == 0)
            return image_exif_orientation(bytes + place + 8, length);
        place += 12 + length;
    }
    return 1;
}

int image_png_read(const char *path, const uint8_t *bytes, size_t size, int inspect,
                   struct image *image, struct error *error)
{
    struct png_reader reader = {.path = path,
                                .bytes = bytes,
                                .size = size,
                                .inspect = inspect,
                                .image = image,
                                .error = error};

    image->orientation = orientation_of(bytes, size);
    reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_error, on_warning);
    if (reader.png)
        reader.info = png_create_info_struct(reader.png);
    if (reader.info)
        read_guarded(&reader);
    else
        reader.result = error_set(error, -ENOMEM, "not enough memory to read the image %s", path);
    png_destroy_read_struct(&reader.png, &reader.info, NULL);
    free(reader.rows);
    return reader.result;
}
