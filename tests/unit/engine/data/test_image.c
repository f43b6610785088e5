/* test_image.c: PNG and JPEG files of every kind are read as Pillow reads them
 * (tests/reference/data/images), bit for bit, also when resized. Damaged files are refused wherever
 * the damage is. */
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

static uint8_t *read_file(const char *name, const char *suffix, size_t *size)
{
    char path[512], *content;
    struct error error;

    snprintf(path, sizeof path, "tests/reference/data/images/%s%s", name, suffix);
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
    DIR *folder = opendir("tests/reference/data/images");
    struct dirent *entry;
    int count = 0;

    assert_non_null(folder);
    while ((entry = readdir(folder))) {
        const char *dot = strrchr(entry->d_name, '.');

        if (dot && (strcmp(dot, ".png") == 0 || strcmp(dot, ".jpg") == 0)) {
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

static void test_no_image(void **state)
{
    static const uint8_t text[] = "not a picture at all";
    static const uint8_t bmp[] = {'B', 'M', 0, 0};
    /* a PNG header that announces 60000 x 60000 pixels; its checksum is right */
    static const uint8_t bomb[] =
        "\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\xea\x60\0\0\xea\x60\x08\x02\0\0\0\x0f\xb0\xe2\x15"
        "\0\0\0\0IDAT";
    struct image image = {0};
    struct error error = {0};

    (void)state;
    assert_int_equal(image_decode("a.png", text, sizeof text, &image, &error), -EINVAL);
    assert_non_null(strstr(error.text, "a.png is neither PNG nor JPEG"));
    assert_int_equal(image_decode("b.png", bmp, sizeof bmp, &image, &error), -EINVAL);
    assert_int_equal(image_decode("c.png", bmp, 0, &image, &error), -EINVAL);
    assert_non_null(strstr(error.text, "c.png is empty"));
    assert_int_equal(image_decode("d.png", bomb, sizeof bomb, &image, &error), -EINVAL);
    assert_non_null(strstr(error.text, "d.png has 60000 x 60000 pixels"));
    image_release(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_pillow),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_flipped_bit),
        cmocka_unit_test(test_no_image),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
