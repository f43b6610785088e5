/* test_image.c: files of images of every kind are read as Pillow reads them
 * (tests/reference/data/images and odd_images), bit for bit, also when resized and turned. Damaged
 * files are refused wherever the damage is. */
#include "base/file.h"
#include "engine/data/image.h"
#include "engine/data/image_resize.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WIDTH = 29, HEIGHT = 21, PLANE = WIDTH * HEIGHT, RESIZED_WIDTH = 40, RESIZED_HEIGHT = 11 };
enum { RESIZED_PLANE = RESIZED_WIDTH * RESIZED_HEIGHT };

static const char *reference = "tests/reference/data/images";

static uint8_t *read_file(const char *name, const char *suffix, size_t *size)
{
    char path[512], *content;
    struct error error;

    snprintf(path, sizeof path, "%s/%s%s", reference, name, suffix);
    if (file_read(AT_FDCWD, path, 1 << 20, &content, size, &error) < 0)
        fail_msg("%s", error.text);
    return (uint8_t *)content;
}

static void check_image(const char *name)
{
    static uint8_t planes[3 * PLANE], resized[3 * RESIZED_PLANE];
    struct image image = {0};
    struct image_resizer resizer = {0};
    struct error error = {0};
    size_t size, expected_size;
    uint8_t *bytes = read_file(name, "", &size),
            *expected = read_file(name, ".planes", &expected_size);

    assert_int_equal(expected_size, 4 * PLANE + 3 * RESIZED_PLANE);
    assert_int_equal(image_inspect(name, bytes, size, &image, &error), 0);
    assert_int_equal(image.width, WIDTH);
    assert_int_equal(image.height, HEIGHT);
    assert_null(image.pixels);
    if (image_decode(name, bytes, size, &image, &error) < 0)
        fail_msg("%s", error.text);
    image_to_planes(&image, 3, planes);
    assert_memory_equal(planes, expected, 3 * PLANE);
    assert_int_equal(image_resize(&resizer, planes, 3, HEIGHT, WIDTH, resized, RESIZED_HEIGHT,
                                  RESIZED_WIDTH, &error),
                     0);
    assert_memory_equal(resized, expected + 4 * PLANE, sizeof resized);
    image_to_planes(&image, 1, planes);
    assert_memory_equal(planes, expected + 3 * PLANE, PLANE);
    image_resizer_release(&resizer);
    image_release(&image);
    free(bytes);
    free(expected);
}

static void for_each_image(void (*check)(const char *name), int least)
{
    DIR *folder = opendir(reference);
    struct dirent *entry;
    int count = 0;

    assert_non_null(folder);
    while ((entry = readdir(folder))) {
        const char *dot = strrchr(entry->d_name, '.');

        if (entry->d_name[0] != '.' && strcmp(dot, ".planes") != 0 && strcmp(dot, ".rgb") != 0) {
            check(entry->d_name);
            count++;
        }
    }
    closedir(folder);
    assert_true(count >= least);
}

static void test_as_pillow(void **state)
{
    (void)state;
    for_each_image(check_image, 15);
}

static void expect_damaged(const char *name, const uint8_t *bytes, size_t size)
{
    struct image image = {0};
    struct error error = {0};

    if (image_decode(name, bytes, size, &image, &error) == 0)
        fail_msg("%s was read although it is damaged", name);
    assert_int_equal(error.code, -EINVAL);
    assert_non_null(strstr(error.text, name));
    image_release(&image);
}

static bool is_png(const char *name)
{
    return strcmp(strrchr(name, '.'), ".png") == 0;
}

/* A file may end too early at any place; the rest is never made up. The last 2 bytes of a JPEG file
 * are its end marker, and the last 12 of a PNG file the end chunk: without them it is not
 * complete. */
static void check_truncated(const char *name)
{
    size_t size;
    uint8_t *bytes = read_file(name, "", &size);

    for (size_t kept = 0; kept < size; kept += kept < size - 40 ? 7 : 1)
        expect_damaged(name, bytes, kept);
    free(bytes);
}

static void test_truncated(void **state)
{
    (void)state;
    for_each_image(check_truncated, 15);
}

/* Every chunk of a PNG file that holds pixels or the palette has a checksum. */
static void check_flipped_bit(const char *name)
{
    size_t size;
    uint8_t *bytes = read_file(name, "", &size);

    for (size_t i = 0; is_png(name) && i + 12 <= size;) {
        uint32_t length = (uint32_t)bytes[i] << 24 | (uint32_t)bytes[i + 1] << 16 |
                          (uint32_t)bytes[i + 2] << 8 | bytes[i + 3];
        if (i == 0) {
            i = 8;
            continue;
        }
        if (length && bytes[i + 4] < 'a') { /* upper case: the chunk is needed for the pixels */
            bytes[i + 8 + length / 2] ^= 1;
            expect_damaged(name, bytes, size);
            bytes[i + 8 + length / 2] ^= 1;
        }
        i += 12 + length;
    }
    free(bytes);
}

static void test_flipped_bit(void **state)
{
    (void)state;
    for_each_image(check_flipped_bit, 15);
}

/* ---- odd files ---- */

static uint8_t *decode_rgb(const char *name, const uint8_t *bytes, size_t size, struct image *image,
                           struct error *error)
{
    uint8_t *rgb, *planes;
    size_t pixels;

    if (image_decode(name, bytes, size, image, error) < 0)
        return NULL;
    pixels = (size_t)(image->width * image->height);
    planes = malloc(3 * pixels);
    rgb = malloc(3 * pixels);
    image_to_planes(image, 3, planes);
    for (size_t i = 0; i < 3 * pixels; i++)
        rgb[i] = planes[i % 3 * pixels + i / 3];
    free(planes);
    return rgb;
}

/* Of grey with 16 bits a pixel the upper 8 are kept. Pillow takes each number above 255 as
 * white. */
static uint8_t *expect_upper_bytes(const char *name, const uint8_t *bytes)
{
    uint8_t *expected = calloc(1, 8 + 3 * 19 * 13);

    expected[0] = 19;
    expected[4] = 13;
    for (int i = 0; i < 3 * 19 * 13; i++) /* the rows follow the file's header of 8 bytes */
        expected[8 + i] = bytes[8 + i / 3 * 2 + (strstr(name, "big") == NULL)];
    return expected;
}

static void check_odd_image(const char *name)
{
    struct image image = {0}, inspected = {0};
    struct error error = {0};
    size_t size, expected_size;
    uint8_t *bytes = read_file(name, "", &size), *expected, *rgb;

    if (strcmp(name, "grey-16.png") == 0) { /* the numbers of grey-16.tif in another order */
        free(bytes);
        return;
    }
    expected = strncmp(name, "grey-16", 7) == 0 ? expect_upper_bytes(name, bytes)
                                                : read_file(name, ".rgb", &expected_size);
    rgb = decode_rgb(name, bytes, size, &image, &error);
    if (!rgb)
        fail_msg("%s", error.text);
    assert_int_equal(image_inspect(name, bytes, size, &inspected, &error), 0);
    assert_int_equal(inspected.width, expected[0]);
    assert_int_equal(inspected.height, expected[4]);
    assert_int_equal(image.width, expected[0]);
    assert_int_equal(image.height, expected[4]);
    for (int64_t i = 0; i < 3 * image.width * image.height; i++)
        if (rgb[i] != expected[8 + i])
            fail_msg("%s: byte %lld is %d and %d in Pillow", name, (long long)i, rgb[i],
                     expected[8 + i]);
    image_release(&image);
    free(rgb);
    free(expected);
    free(bytes);
}

static void test_odd_as_pillow(void **state)
{
    (void)state;
    reference = "tests/reference/data/odd_images";
    for_each_image(check_odd_image, 60);
}

/* Reads a damaged file: either what is left of it makes an image, or the error names the file. */
static bool is_refused(const char *name, const uint8_t *bytes, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1); /* so that a sanitizer sees what is read behind it */
    struct image image = {0};
    struct error error = {0};
    int r;

    memcpy(exact, bytes, size);
    r = image_decode(name, exact, size, &image, &error);
    if (r < 0)
        assert_non_null(strstr(error.text, name));
    if (r < 0)
        assert_int_equal(error.code, -EINVAL);
    image_release(&image);
    free(exact);
    return r < 0;
}

static void check_damaged_odd_image(const char *name)
{
    size_t size;
    uint8_t *bytes = read_file(name, "", &size);
    uint32_t random = 1;

    for (size_t kept = 0; kept < size; kept += 1 + size / 40)
        if (!is_refused(name, bytes, kept) && kept < size / 2)
            fail_msg("%s was read with %zu of %zu bytes", name, kept, size);
    for (int i = 0; i < 300; i++) {
        size_t place;

        random = random * 1664525 + 1013904223; /* Numerical Recipes' generator */
        place = (size_t)(random >> 8) % (i % 2 ? size : size < 96 ? size : 96);
        bytes[place] ^= (uint8_t)(1u << (random & 7));
        is_refused(name, bytes, size);
        if (i % 3) /* every third damage stays */
            bytes[place] ^= (uint8_t)(1u << (random & 7));
    }
    free(bytes);
}

static void test_odd_damaged(void **state)
{
    (void)state;
    reference = "tests/reference/data/odd_images";
    for_each_image(check_damaged_odd_image, 60);
}

static void test_no_image(void **state)
{
    static const uint8_t text[] = "not a picture at all";
    static const uint8_t gif[] = {'G', 'I', 'F', '8', '9', 'a'};
    /* a PNG header that announces 60000 x 60000 pixels; its checksum is right */
    static const uint8_t bomb[] =
        "\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\xea\x60\0\0\xea\x60\x08\x02\0\0\0\x0f\xb0\xe2\x15"
        "\0\0\0\0IDAT";
    struct image image = {0};
    struct error error = {0};

    (void)state;
    assert_int_equal(image_decode("a.png", text, sizeof text, &image, &error), -EINVAL);
    assert_non_null(strstr(error.text, "a.png is neither PNG, JPEG, WebP"));
    assert_int_equal(image_decode("b.gif", gif, sizeof gif, &image, &error), -EINVAL);
    assert_int_equal(image_decode("c.png", gif, 0, &image, &error), -EINVAL);
    assert_non_null(strstr(error.text, "c.png is empty"));
    assert_int_equal(image_decode("d.png", bomb, sizeof bomb, &image, &error), -EINVAL);
    assert_non_null(strstr(error.text, "d.png has 60000 x 60000 pixels"));
    image_release(&image);
}

/* A mask of the fourth byte of pixels that have three: that of the last is behind the file. */
static void test_bmp_masks(void **state)
{
    static const uint8_t header[66] = {66, 77, 70, 0, 0, 0, 0,   0, 0,   0, 66, 0,   0, 0, 40, 0, 0,
                                       0,  1,  0,  0, 0, 1, 0,   0, 0,   1, 0,  24,  0, 3, 0,  0, 0,
                                       4,  0,  0,  0, 0, 0, 0,   0, 0,   0, 0,  0,   0, 0, 0,  0, 0,
                                       0,  0,  0,  0, 0, 0, 255, 0, 255, 0, 0,  255, 0, 0, 0};
    uint8_t *bytes = malloc(sizeof header + 3);
    struct image image = {0};
    struct error error = {0};

    (void)state;
    assert_non_null(bytes);
    memcpy(bytes, header, sizeof header);
    memset(bytes + sizeof header, 9, 3);
    assert_int_equal(image_decode("mask.bmp", bytes, sizeof header + 3, &image, &error), -EINVAL);
    assert_non_null(strstr(error.text, "a mask of colours"));
    image_release(&image);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bmp_masks),   cmocka_unit_test(test_as_pillow),
        cmocka_unit_test(test_truncated),   cmocka_unit_test(test_flipped_bit),
        cmocka_unit_test(test_no_image),    cmocka_unit_test(test_odd_as_pillow),
        cmocka_unit_test(test_odd_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
