/* image_jpeg.c: reads JPEG files by libjpeg-turbo (its libjpeg.txt). For damaged files the library
 * fills in grey or old blocks, and warns. Here a warning about pixels is an error. libjpeg reports
 * errors by longjmp(), so variables that live across its calls are in a structure that the caller
 * of the guarded function owns. */
#include "engine/data/image.h"

#include <errno.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
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
    jpeg_read_header(jpeg, TRUE);
    image->width = jpeg->image_width;
    image->height = jpeg->image_height;
    image->channels = jpeg->num_components == 1 ? 1 : 3;
    if (jpeg->num_components > 3) {
        reader->result = error_set(reader->error, -EINVAL,
                                   "%s is a JPEG file in CMYK; convert it to RGB", reader->path);
        return;
    }
    reader->result = reader->inspect ? 1 : image_reserve(reader->path, image, reader->error);
    if (reader->result != 0)
        return;
    jpeg->out_color_space = image->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW row = image->pixels + (size_t)jpeg->output_scanline * (size_t)image->width *
                                           (size_t)image->channels;

        jpeg_read_scanlines(jpeg, &row, 1);
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
    return reader.result < 0 ? reader.result : 0;
}
