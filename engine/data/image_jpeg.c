/* image_jpeg.c: reads JPEG files by libjpeg-turbo (its libjpeg.txt). For damaged files the library
 * fills in grey or old blocks, and warns. Here a warning about pixels is an error. libjpeg reports
 * errors by longjmp(), so variables that live across its calls are in a structure that the caller
 * of the guarded function owns. */
#include "engine/data/image.h"
#include "engine/data/image_orientation.h"

#include <errno.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* jpeglib.h relies on the headers before it */
#include <jpeglib.h>
/* and jerror.h on it */
#include <jerror.h>

struct jpeg_reader {
    const char *path;
    const uint8_t *bytes;
    size_t size;
    bool inspect;
    struct image *image;
    struct error *error;
    int result;
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr messages;
    jmp_buf fault;
    char message[JMSG_LENGTH_MAX];
    uint8_t *row; /* of a file in CMYK; owned */
};

static void on_error(j_common_ptr jpeg)
{
    struct jpeg_reader *reader = jpeg->client_data;

    jpeg->err->format_message(jpeg, reader->message);
    longjmp(reader->fault, 1);
}

static void on_message(j_common_ptr jpeg, int level)
{
    /* warnings about bytes between segments, and about odd headers: no pixels are missing */
    static const int harmless[] = {JWRN_ADOBE_XFORM, JWRN_EXTRANEOUS_DATA, JWRN_JFIF_MAJOR,
                                   JWRN_TOO_MUCH_DATA};

    if (level >= 0)
        return; /* this is a trace, not a warning */
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        if (jpeg->err->msg_code == harmless[i])
            return;
    on_error(jpeg);
}

static int orientation_of(const struct jpeg_decompress_struct *jpeg)
{
    for (const struct jpeg_marker_struct *marker = jpeg->marker_list; marker; marker = marker->next)
        if (marker->data_length >= 6 && memcmp(marker->data, "Exif\0\0", 6) == 0)
            return image_exif_orientation(marker->data, marker->data_length);
    return 1;
}

/* Files in CMYK hold inverted numbers, as Adobe's programs write them. */
static void row_from_cmyk(const uint8_t *row, int64_t width, uint8_t *to)
{
    for (int64_t x = 0; x < width; x++, row += 4, to += 3) {
        const uint8_t cmyk[4] = {255 - row[0], 255 - row[1], 255 - row[2], 255 - row[3]};

        image_cmyk_to_rgb(cmyk, to);
    }
}

/* All calls that may jump. */
static void read_guarded(struct jpeg_reader *reader)
{
    struct jpeg_decompress_struct *jpeg = &reader->jpeg;
    struct image *image = reader->image;

    if (setjmp(reader->fault)) {
        reader->result =
            error_set(reader->error, -EINVAL,
                      "%s is a damaged JPEG file (libjpeg: %s); fetch it again or remove it",
                      reader->path, reader->message);
        return;
    }
    jpeg_create_decompress(jpeg);
    jpeg_mem_src(jpeg, reader->bytes, reader->size);
    jpeg_save_markers(jpeg, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(jpeg, TRUE);
    image->width = jpeg->image_width;
    image->height = jpeg->image_height;
    image->channels = jpeg->num_components == 1 ? 1 : 3;
    image->orientation = orientation_of(jpeg);
    reader->result = reader->inspect ? 1 : image_reserve(reader->path, image, reader->error);
    if (reader->result != 0)
        return;
    jpeg->out_color_space = image->channels == 1        ? JCS_GRAYSCALE
                            : jpeg->num_components == 4 ? JCS_CMYK
                                                        : JCS_RGB;
    jpeg_start_decompress(jpeg);
    if (jpeg->num_components == 4)
        reader->row = malloc((size_t)image->width * 4);
    while (jpeg->output_scanline < jpeg->output_height) {
        uint8_t *to = image->pixels + (size_t)jpeg->output_scanline * (size_t)image->width *
                                          (size_t)image->channels;
        JSAMPROW row = jpeg->num_components == 4 ? reader->row : to;

        if (!row)
            ERREXIT1(jpeg, JERR_OUT_OF_MEMORY, 0);
        jpeg_read_scanlines(jpeg, &row, 1);
        if (jpeg->num_components == 4)
            row_from_cmyk(row, image->width, to);
    }
    jpeg_finish_decompress(jpeg);
}

int image_jpeg_read(const char *path, const uint8_t *bytes, size_t size, int inspect,
                    struct image *image, struct error *error)
{
    struct jpeg_reader reader = {.path = path,
                                 .bytes = bytes,
                                 .size = size,
                                 .inspect = inspect,
                                 .image = image,
                                 .error = error};

    reader.jpeg.err = jpeg_std_error(&reader.messages);
    reader.messages.error_exit = on_error;
    reader.messages.emit_message = on_message;
    reader.jpeg.client_data = &reader;
    read_guarded(&reader);
    jpeg_destroy_decompress(&reader.jpeg);
    free(reader.row);
    return reader.result < 0 ? reader.result : 0;
}
