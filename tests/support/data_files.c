/* data_files.c: small files in the test's temporary folder. */
#include "tests/support/data_files.h"

#include "engine/data/description.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

const char *data_file_path(const char *name)
{
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];
    const char *folder = getenv("TMPDIR");

    snprintf(path, sizeof paths[0], "%s/%s", folder ? folder : "/tmp", name);
    return path;
}

const char *data_file_write(const char *name, const void *content, size_t size)
{
    const char *path = data_file_path(name);
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path;
}

const char *data_file_write_text(const char *name, const char *text)
{
    return data_file_write(name, text, strlen(text));
}

static void put_number(uint8_t *at, uint32_t number)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(number >> (24 - 8 * i));
}

static void write_chunk(FILE *file, const char *kind, const uint8_t *data, size_t size)
{
    uint8_t number[4];

    put_number(number, (uint32_t)size);
    fwrite(number, 1, 4, file);
    fwrite(kind, 1, 4, file);
    fwrite(data, 1, size, file);
    put_number(number, (uint32_t)crc32_z(crc32_z(0, (const uint8_t *)kind, 4), data, size));
    fwrite(number, 1, 4, file);
}

void data_file_write_png(const char *path, int width, int height, int channels,
                         const uint8_t *pixels)
{
    uint8_t header[13] = {[8] = 8, [9] = channels == 3 ? 2 : 0};
    size_t row = (size_t)width * (size_t)channels, size = (row + 1) * (size_t)height;
    uLongf packed_size = compressBound(size);
    uint8_t *lines = calloc(1, size), *packed = malloc(packed_size);
    FILE *file = fopen(path, "wb");

    assert_true(lines && packed && file);
    for (int y = 0; y < height; y++) /* each row begins with its filter: none */
        memcpy(lines + (size_t)y * (row + 1) + 1, pixels + (size_t)y * row, row);
    assert_int_equal(compress(packed, &packed_size, lines, size), Z_OK);
    put_number(header, (uint32_t)width);
    put_number(header + 4, (uint32_t)height);
    fwrite("\x89PNG\r\n\x1a\n", 1, 8, file);
    write_chunk(file, "IHDR", header, sizeof header);
    write_chunk(file, "IDAT", packed, packed_size);
    write_chunk(file, "IEND", header, 0);
    assert_int_equal(fclose(file), 0);
    free(lines);
    free(packed);
}

struct dataset *data_open(const struct dataset_config *config, const struct dataset *reference)
{
    struct dataset *dataset = NULL;
    struct error error = {0};

    if (dataset_open(config, reference, &dataset, &error) < 0)
        fail_msg("%s", error.text);
    return dataset;
}

struct dataset *data_describe(const struct dataset *dataset)
{
    char *text = dataset_description_format(dataset);
    struct dataset *described = NULL;
    struct error error = {0};

    assert_non_null(text);
    if (dataset_description_parse(text, &described, &error) < 0)
        fail_msg("%s", error.text);
    free(text);
    return described;
}

void data_expect_refusal(const struct dataset_config *config, const struct dataset *reference,
                         int code, ...)
{
    struct dataset *dataset = NULL;
    struct error error = {0};
    const char *piece;
    va_list pieces;

    if (dataset_open(config, reference, &dataset, &error) == 0) {
        dataset_close(dataset);
        fail_msg("the data set was accepted");
    }
    assert_null(dataset);
    assert_int_equal(error.code, code);
    va_start(pieces, code);
    while ((piece = va_arg(pieces, const char *)))
        if (!strstr(error.text, piece))
            fail_msg("\"%s\" is not in \"%s\"", piece, error.text);
    va_end(pieces);
}
