/* test_image_operations.c: changes to images are those of torchvision with Pillow's images
 * (tests/reference/make_image_operations.py), bit for bit. */
#include "base/file.h"
#include "engine/data/image_operations.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WIDTH = 23, HEIGHT = 17, CHANNELS = 3, BYTES = WIDTH * HEIGHT * CHANNELS };
enum { RESIZED_CROP, FLIP, BRIGHTNESS, CONTRAST, SATURATION, SHARPNESS, HUE, POSTERIZE, SOLARIZE };
enum { AUTOCONTRAST = SOLARIZE + 1, EQUALIZE, ROTATE, SHEAR_X, SHEAR_Y, SHIFT_X, SHIFT_Y };

/* The list of make_image_operations.py. */
static const struct operation {
    int kind;
    double numbers[4];
} operations[] = {{RESIZED_CROP, {2, 3, 11, 9}},
                  {RESIZED_CROP, {0, 5, 17, 1}},
                  {FLIP, {0}},
                  {BRIGHTNESS, {0.3}},
                  {BRIGHTNESS, {1}},
                  {BRIGHTNESS, {1.7}},
                  {CONTRAST, {0}},
                  {CONTRAST, {0.55}},
                  {CONTRAST, {1.9}},
                  {SATURATION, {0.1}},
                  {SATURATION, {0.8}},
                  {SATURATION, {1.45}},
                  {SHARPNESS, {0.1}},
                  {SHARPNESS, {0.7}},
                  {SHARPNESS, {1.9}},
                  {HUE, {-0.5}},
                  {HUE, {-0.13}},
                  {HUE, {0}},
                  {HUE, {0.31}},
                  {POSTERIZE, {1}},
                  {POSTERIZE, {4}},
                  {POSTERIZE, {8}},
                  {SOLARIZE, {0}},
                  {SOLARIZE, {99.3}},
                  {SOLARIZE, {255}},
                  {AUTOCONTRAST, {0}},
                  {EQUALIZE, {0}},
                  {ROTATE, {-171.5}},
                  {ROTATE, {-30}},
                  {ROTATE, {12.25}},
                  {ROTATE, {90}},
                  {ROTATE, {180}},
                  {SHEAR_X, {0.27}},
                  {SHEAR_X, {-0.3}},
                  {SHEAR_Y, {0.21}},
                  {SHEAR_Y, {-0.08}},
                  {SHIFT_X, {7}},
                  {SHIFT_X, {-3}},
                  {SHIFT_Y, {5}},
                  {SHIFT_Y, {-9}}};

static void image_make(uint8_t *bytes)
{
    for (int c = 0; c < CHANNELS; c++)
        for (int y = 0; y < HEIGHT; y++)
            for (int x = 0; x < WIDTH; x++)
                *bytes++ = (uint8_t)((x * 9 + y * 5 + c * 37 + x * y * (c + 2) % 23) % 211 + 20);
}

static void apply(const struct operation *operation, struct image_planes *image, uint8_t *scratch)
{
    const double *number = operation->numbers;
    float factor = (float)number[0];

    switch (operation->kind) {
    case RESIZED_CROP:
        image_crop_resize(image, (int64_t)number[0], (int64_t)number[1], (int64_t)number[2],
                          (int64_t)number[3], scratch);
        break;
    case FLIP:
        image_flip_vertically(image, scratch);
        break;
    case BRIGHTNESS:
        image_brightness(image, factor);
        break;
    case CONTRAST:
        image_contrast(image, factor);
        break;
    case SATURATION:
        image_saturation(image, factor);
        break;
    case SHARPNESS:
        image_sharpness(image, factor, scratch);
        break;
    case HUE:
        image_hue(image, number[0]);
        break;
    case POSTERIZE:
        image_posterize(image, (int)number[0]);
        break;
    case SOLARIZE:
        image_solarize(image, number[0]);
        break;
    case AUTOCONTRAST:
        image_autocontrast(image);
        break;
    case EQUALIZE:
        image_equalize(image);
        break;
    case ROTATE:
        image_rotate(image, number[0], scratch);
        break;
    case SHEAR_X:
        image_transform(image, (const double[]){1, number[0], 0, 0, 1, 0}, scratch);
        break;
    case SHEAR_Y:
        image_transform(image, (const double[]){1, 0, 0, number[0], 1, 0}, scratch);
        break;
    case SHIFT_X:
        image_transform(image, (const double[]){1, 0, -number[0], 0, 1, 0}, scratch);
        break;
    case SHIFT_Y:
        image_transform(image, (const double[]){1, 0, 0, 0, 1, -number[0]}, scratch);
        break;
    default:
        fail();
    }
}

static void test_as_torchvision(void **state)
{
    const size_t count = sizeof operations / sizeof *operations;
    uint8_t bytes[BYTES], *expected;
    uint8_t *scratch = malloc(image_operation_scratch(CHANNELS, HEIGHT, WIDTH));
    struct error error = {0};
    char *content;
    size_t size;

    (void)state;
    if (file_read(AT_FDCWD, "tests/reference/data/image_operations.bin", 1 << 20, &content, &size,
                  &error) < 0)
        fail_msg("%s", error.text);
    assert_int_equal(size, count * BYTES);
    for (size_t i = 0; i < count; i++) {
        struct image_planes image = {bytes, CHANNELS, HEIGHT, WIDTH};

        image_make(bytes);
        apply(&operations[i], &image, scratch);
        expected = (uint8_t *)content + i * BYTES;
        for (int k = 0; k < BYTES; k++)
            if (bytes[k] != expected[k])
                fail_msg("operation %zu: byte %d is %d and %d in torchvision", i, k, bytes[k],
                         expected[k]);
    }
    free(scratch);
    free(content);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_torchvision)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
