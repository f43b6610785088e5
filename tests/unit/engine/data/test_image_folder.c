/* test_image_folder.c: folders of images: their order, classes, sizes and channels. Every error
 * names its file. Images are decoded once, until a file changes. */
#include "tests/support/data_files.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { SIDE = 6, PIXELS = SIDE * SIDE };

static char folder[512];
static const char *path = folder;
static struct dataset_config config;
static char warnings[4096];
static atomic_int stop;

static void on_warning(void *context, const char *text)
{
    (void)context;
    snprintf(warnings + strlen(warnings), sizeof warnings - strlen(warnings), "%s\n", text);
}

static const struct dataset_events events = {.warning = on_warning, .stop = &stop};

static void run(const char *format, ...)
{
    char command[2048] = "set -e; cd \"$TMPDIR\"; ";
    size_t used = strlen(command);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(command + used, sizeof command - used, format, arguments);
    va_end(arguments);
    assert_int_equal(system(command), 0);
}

static const char *below(const char *name)
{
    static char paths[4][1024];
    static unsigned next;
    char *result = paths[next++ % 4];

    snprintf(result, sizeof paths[0], "%s/%s", folder, name);
    return result;
}

/* An image whose pixel p of channel c is (value + p + 50 c) modulo 256. */
static void write_image(const char *name, int value, int channels)
{
    uint8_t pixels[3 * PIXELS];

    for (int p = 0; p < PIXELS; p++)
        for (int c = 0; c < channels; c++)
            pixels[p * channels + c] = (uint8_t)(value + p + 50 * c);
    data_file_write_png(below(name), SIDE, SIDE, channels, pixels);
}

static int reset(void **state)
{
    (void)state;
    setenv("XDG_CACHE_HOME", data_file_path("cache"), 1);
    snprintf(folder, sizeof folder, "%s", data_file_path("images"));
    run("rm -rf images test cache; mkdir -p images/dog images/cat/b images/cat/a-b images/cat/a "
        "images/.hidden");
    write_image("dog/1.png", 60, 3);
    write_image("dog/0.PNG", 50, 1);
    write_image("cat/z.png", 10, 3);
    write_image("cat/b/x.png", 40, 3);
    write_image("cat/a-b/x.png", 30, 3);
    write_image("cat/a/x.png", 20, 3);
    run("echo text > images/cat/README.txt; echo text > images/notes; echo x > images/cat/.x.png; "
        "echo x > images/.hidden/x.png");
    config = (struct dataset_config){
        .format = DATASET_IMAGE_FOLDER, .paths = &path, .path_count = 1, .events = &events};
    warnings[0] = '\0';
    stop = 0;
    return 0;
}

static void test_order_and_content(void **state)
{
    /* torchvision.datasets.ImageFolder(…).samples of these names */
    static const int values[] = {10, 20, 30, 40, 50, 60}, labels[] = {0, 0, 0, 0, 1, 1};
    struct dataset *dataset = data_open(&config, NULL);

    (void)state;
    assert_int_equal(dataset->count, 6);
    assert_int_equal(dataset->classes, 2);
    assert_int_equal(dataset->class_count, 2);
    assert_string_equal(dataset->class_names[0], "cat");
    assert_string_equal(dataset->class_names[1], "dog");
    assert_int_equal(dataset->rank, 3);
    assert_int_equal(dataset->shape[0], 3);
    assert_int_equal(dataset->shape[1], SIDE);
    for (int i = 0; i < 6; i++) {
        const uint8_t *sample = dataset->samples[0] + (size_t)i * dataset->sample_stride;

        assert_int_equal(dataset->labels[i], labels[i]);
        for (int c = 0; c < 3; c++)
            for (int p = 0; p < PIXELS; p++) /* 50 is the grey one */
                assert_int_equal(sample[c * PIXELS + p],
                                 (uint8_t)(values[i] + p + (i == 4 ? 0 : 50 * c)));
    }
    assert_string_equal(warnings, "");
    dataset_close(dataset);
}

static void test_grey(void **state)
{
    struct dataset *dataset;

    (void)state;
    config.image.channels = 1;
    dataset = data_open(&config, NULL);
    assert_int_equal(dataset->shape[0], 1);
    assert_int_equal(dataset->samples[0][4 * PIXELS + 3], 53);
    /* R 60, G 110, B 160 */
    assert_int_equal(dataset->samples[0][5 * PIXELS],
                     (19595 * 60 + 38470 * 110 + 7471 * 160 + 32768) >> 16);
    dataset_close(dataset);
}

static void test_sizes(void **state)
{
    static const uint8_t pixels[3 * 8 * 5] = {0};
    struct dataset *dataset;

    (void)state;
    data_file_write_png(below("dog/05.png"), 8, 5, 3, pixels);
    data_expect_refusal(&config, NULL, -EINVAL, "images/dog/05.png has 8 x 5 pixels",
                        "images/cat/z.png 6 x 6", "data.train.resize", NULL);
    config.image.height = 4, config.image.width = 7;
    dataset = data_open(&config, NULL);
    assert_int_equal(dataset->count, 7);
    assert_int_equal(dataset->shape[1], 4);
    assert_int_equal(dataset->shape[2], 7);
    dataset_close(dataset);
}

/* Nothing of a set with an error is kept: the next opening reports the same. */
static void refuse(const char *first, const char *second)
{
    for (int i = 0; i < 2; i++)
        data_expect_refusal(&config, NULL, -EINVAL, first, second, NULL);
    run("test -z \"$(ls cache/traind/datasets 2> /dev/null)\"");
}

static void test_faults(void **state)
{
    static const struct {
        const char *make, *first, *second;
    } cases[] = {
        {"printf 'just text, which is long enough' > images/cat/m.png", "images/cat/m.png",
         "neither PNG, JPEG, WebP"},
        {": > images/cat/m.png", "images/cat/m.png", "is empty"},
        {"head -c 70 images/cat/z.png > images/cat/m.png", "images/cat/m.png", "damaged PNG"},
        {"head -c 300 \"$OLDPWD\"/tests/reference/data/images/rgb-420.jpg > images/cat/m.jpeg",
         "images/cat/m.jpeg", "damaged JPEG"},
        {"mkdir images/ant", "images/ant has no image", "remove it"},
        {"mkdir -p images/ant/below; echo > images/ant/x.txt", "images/ant has no image", ""},
        {"echo > images/dog/1.gif", "images/dog/1.gif", "convert it to PNG or JPEG"},
        {"echo > images/dog/IMG_1.HEIC", "images/dog/IMG_1.HEIC", "convert it to PNG or JPEG"},
        {"cp images/dog/1.png images/1.png", "images/1.png lies beside the class folders", ""},
        {"mkdir images/dog/9.jpg.d; mkfifo images/dog/9.jpg", "images/dog/9.jpg",
         "not a regular file"},
        {"rm -r images/dog images/cat", "has no subfolders", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        reset(NULL);
        run("%s", cases[i].make);
        refuse(cases[i].first, cases[i].second);
    }
    reset(NULL);
    run("ln -s ../cat images/cat/loop");
    data_expect_refusal(&config, NULL, -ELOOP, "link to a folder above", NULL);
    run("rm -r images");
    data_expect_refusal(&config, NULL, -ENOENT, "images", NULL);
    reset(NULL);
    run("ln -s nowhere images/cat/m.png");
    data_expect_refusal(&config, NULL, -ENOENT, "images/cat/m.png is a link", "not there", NULL);
}

/* Of several damaged files the first one is named, whichever thread finds it. */
static void test_first_fault(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        char name[64];

        snprintf(name, sizeof name, "dog/n%03d.png", i);
        write_image(name, i, 3);
    }
    run("for i in 150 151 152 170 199; do echo broken > images/dog/n$i.png; done");
    for (int i = 0; i < 20; i++)
        data_expect_refusal(&config, NULL, -EINVAL, "n150.png", NULL);
}

static void test_classes(void **state)
{
    (void)state;
    config.classes = 1;
    data_expect_refusal(&config, NULL, -EINVAL, "2 class folders", "1 classes", NULL);
    config.classes = 5;
    struct dataset *dataset = data_open(&config, NULL);
    assert_int_equal(dataset->classes, 5);
    dataset_close(dataset);
}

/* What torchvision 0.29.2 makes of the same image. */
static void test_resize_rules(void **state)
{
    static const uint8_t cropped[] = {13, 20, 27, 36, 43, 50, 60, 67, 74};
    static const uint8_t framed[] = {0, 0,  0,  0,  0,  0,   0, 0, 0, 7,  13, 20, 27, 33, 0, 0,
                                     0, 30, 36, 43, 50, 56,  0, 0, 0, 54, 60, 67, 74, 80, 0, 0,
                                     0, 77, 83, 90, 97, 103, 0, 0, 0, 0,  0,  0,  0,  0,  0, 0};
    static const uint8_t kept[] = {0,  0,  5,  10, 15, 20, 25, 30, 0,  0,  0,  20, 25, 30,
                                   35, 40, 45, 50, 0,  0,  0,  40, 45, 50, 55, 60, 65, 70,
                                   0,  0,  0,  60, 65, 70, 75, 80, 85, 90, 0,  0};
    static const uint8_t larger[] = {0, 1, 4, 6,  9,  11, 14, 16, 19, 21, 24, 26, 29, 30,
                                     5, 6, 9, 11, 14, 16, 19, 21, 24, 26, 29, 31, 34, 35};
    static const struct {
        int64_t shorter, crop_height, crop_width, height, width;
        const uint8_t *begin;
        size_t size;
    } rules[] = {{4, 3, 3, 3, 3, cropped, sizeof cropped},
                 {4, 6, 8, 6, 8, framed, sizeof framed},
                 {0, 4, 10, 4, 10, kept, sizeof kept},
                 {10, 0, 0, 10, 14, larger, sizeof larger}};
    uint8_t pixels[35];

    (void)state;
    run("rm -r images/dog images/cat; mkdir images/cat");
    for (int i = 0; i < 35; i++)
        pixels[i] = (uint8_t)(i / 7 * 20 + i % 7 * 5);
    data_file_write_png(below("cat/1.png"), 7, 5, 1, pixels);
    config.image.channels = 1;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct dataset *dataset;

        config.image.shorter = rules[i].shorter;
        config.image.crop_height = rules[i].crop_height;
        config.image.crop_width = rules[i].crop_width;
        dataset = data_open(&config, NULL);
        assert_int_equal(dataset->shape[1], rules[i].height);
        assert_int_equal(dataset->shape[2], rules[i].width);
        assert_memory_equal(dataset->samples[0], rules[i].begin, rules[i].size);
        dataset_close(dataset);
    }
}

/* One pixel wide and 40000 high: it would become 300 x 12000000. */
static void test_thin_images_become_no_giants(void **state)
{
    static uint8_t pixels[40000];

    (void)state;
    config.image.shorter = 300;
    data_file_write_png(below("cat/1.png"), 1, 40000, 1, pixels);
    data_expect_refusal(&config, NULL, -EINVAL, "cat/1.png has 1 x 40000 pixels",
                        "would make 300 x 12000000", NULL);
    config.image.crop_height = config.image.crop_width = 8;
    data_expect_refusal(&config, NULL, -EINVAL, "cat/1.png has 1 x 40000 pixels", NULL);
}

/* torchvision's Normalize behind ToTensor: (raw / 255 - mean) / deviation. */
static void test_given_constants(void **state)
{
    static const double mean[] = {0.485, 0.456, 0.406}, deviation[] = {0.229, 0.224, 0.225};
    struct dataset *dataset = data_open(&config, NULL);
    const struct dataset_view all = dataset_view_all(dataset);
    struct dataset_normalisation constants;
    float row[3 * PIXELS];
    const uint32_t index = 0;
    struct error error = {0};
    int32_t label;

    (void)state;
    assert_int_equal(dataset_normalisation_given(mean, deviation, 3, &all, &constants, &error), 0);
    assert_int_equal(dataset_gather(dataset, &constants, &index, 1, row, &label, &error), 0);
    for (int c = 0; c < 3; c++)
        for (int p = 0; p < PIXELS; p++)
            assert_float_equal(row[c * PIXELS + p],
                               ((uint8_t)(10 + p + 50 * c) / 255.0 - mean[c]) / deviation[c], 1e-6);
    dataset_normalisation_release(&constants);
    assert_int_equal(dataset_normalisation_given(mean, deviation, 2, &all, &constants, &error),
                     -EINVAL);
    assert_non_null(strstr(error.text, "has 2 constants, but the samples have 3"));
    dataset_close(dataset);
}

static void test_reference(void **state)
{
    struct dataset *train = data_open(&config, NULL), *test;
    static const uint8_t pixels[3 * 8 * 5] = {0};

    (void)state;
    run("mkdir -p test/cat test/dog; cp images/cat/z.png test/cat; cp images/dog/1.png test/dog");
    snprintf(folder, sizeof folder, "%s", data_file_path("test"));
    test = data_open(&config, train);
    assert_int_equal(test->count, 2);
    dataset_close(test);
    run("mv test/dog test/bird");
    data_expect_refusal(&config, train, -EINVAL, "\"bird\"", "no class of the training data", NULL);
    run("rm -r test/bird test/cat; mkdir test/dog; cp images/dog/1.png test/dog");
    test = data_open(&config, train);
    assert_int_equal(test->labels[0], 1);
    assert_string_equal(test->class_names[0], "cat");
    dataset_close(test);
    run("rm -r test/dog; mkdir test/cat; cp images/cat/z.png test/cat");
    run("mkdir test/dog test/emu; cp images/dog/1.png test/dog; cp images/dog/1.png test/emu");
    data_expect_refusal(&config, train, -EINVAL, "\"emu\"", "no class of the training data", NULL);
    run("rm -r test/emu");
    data_file_write_png(below("dog/1.png"), 8, 5, 3, pixels);
    data_expect_refusal(&config, train, -EINVAL, "test/dog/1.png has 8 x 5",
                        "those of the training data 6 x 6", NULL);
    dataset_close(train);
}

static ino_t cached_file(void)
{
    struct stat status;

    run("ln -f cache/traind/datasets/*.data cached");
    assert_int_equal(stat(data_file_path("cached"), &status), 0);
    return status.st_ino;
}

static void reopen(bool again, const char *warning)
{
    ino_t before = cached_file(), after;

    warnings[0] = '\0';
    dataset_close(data_open(&config, NULL));
    after = cached_file();
    assert_true((before != after) == again);
    if (warning ? !strstr(warnings, warning) : warnings[0])
        fail_msg("the warnings are \"%s\"", warnings);
}

/* Images are decoded again if a file was added, removed, renamed or changed, even if its size and
 * time were restored. */
static void test_changes(void **state)
{
    struct stat status;
    struct timespec times[2];

    (void)state;
    dataset_close(data_open(&config, NULL));
    reopen(false, NULL);
    run("cp images/dog/1.png images/dog/2.png");
    reopen(true, "changed");
    run("mv images/dog/2.png images/dog/3.png");
    reopen(true, "changed");
    run("rm images/dog/3.png");
    reopen(true, "changed");
    assert_int_equal(stat(below("dog/1.png"), &status), 0);
    times[0] = status.st_atim, times[1] = status.st_mtim;
    run("cp images/dog/1.png one; cat one > images/dog/1.png");
    assert_int_equal(utimensat(AT_FDCWD, below("dog/1.png"), times, 0), 0);
    reopen(true, "changed");
    reopen(false, NULL);
    /* another way of reading uses another file, and gives no warning */
    config.image.channels = 1;
    dataset_close(data_open(&config, NULL));
    config.image.channels = 3;
    run("test $(ls cache/traind/datasets/*.data | wc -l) = 2");
    assert_string_equal(warnings, "");
}

static void test_stop(void **state)
{
    (void)state;
    stop = 1;
    data_expect_refusal(&config, NULL, -EINTR, "interrupted while decoding the images in", NULL);
    run("test -z \"$(ls cache/traind/datasets)\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_order_and_content, reset),
        cmocka_unit_test_setup(test_grey, reset),
        cmocka_unit_test_setup(test_sizes, reset),
        cmocka_unit_test_setup(test_faults, reset),
        cmocka_unit_test_setup(test_first_fault, reset),
        cmocka_unit_test_setup(test_classes, reset),
        cmocka_unit_test_setup(test_resize_rules, reset),
        cmocka_unit_test_setup(test_thin_images_become_no_giants, reset),
        cmocka_unit_test_setup(test_given_constants, reset),
        cmocka_unit_test_setup(test_reference, reset),
        cmocka_unit_test_setup(test_changes, reset),
        cmocka_unit_test_setup(test_stop, reset),
    };

    if (!getenv("TMPDIR"))
        setenv("TMPDIR", "/tmp", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
