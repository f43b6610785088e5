/* test_idx: images and labels in IDX files, plain and packed, whole and damaged. */
#include "tests/support/data_files.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

/* 3 images of 2 x 2 and their labels */
static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 3,  0,  0,   0,   2,   0, 0,
                                 0, 2, 0, 1, 2, 3, 4, 51, 52, 255, 100, 102, 0, 7};
static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 2, 0, 1};

static struct dataset_config config_of(const char *const *images_path, const char *labels_path)
{
    return (struct dataset_config){
        .format = DATASET_IDX, .paths = images_path, .path_count = 1, .labels_path = labels_path};
}

static const char *write_packed(const char *name, const uint8_t *content, size_t size, int members)
{
    const char *path = data_file_path(name);

    unlink(path);
    for (int i = 0; i < members; i++) { /* each opening for appending begins a member */
        gzFile file = gzopen(path, "ab");
        size_t begin = size * (size_t)i / (size_t)members;
        size_t end = size * (size_t)(i + 1) / (size_t)members;
        assert_int_equal(gzwrite(file, content + begin, (unsigned)(end - begin)), end - begin);
        gzclose(file);
    }
    return path;
}

static void check_content(const struct dataset *dataset)
{
    static const uint32_t indices[] = {1, 0};
    struct dataset_normalisation normalisation;
    struct dataset_view all = dataset_view_all(dataset);
    float rows[2][4];
    int32_t targets[2];
    struct error error;

    assert_int_equal(dataset->count, 3);
    assert_int_equal(dataset->rank, 3);
    assert_int_equal(dataset->shape[0], 1);
    assert_int_equal(dataset->shape[1], 2);
    assert_int_equal(dataset->shape[2], 2);
    assert_int_equal(dataset->classes, 3);
    assert_int_equal(
        dataset_normalisation_measure(DATASET_NORMALISE_NONE, &all, &normalisation, &error), 0);
    assert_int_equal(dataset_gather(dataset, &normalisation, indices, 2, rows, targets, &error), 0);
    for (int i = 0; i < 8; i++)
        assert_float_equal(rows[i / 4][i % 4], images[16 + (i < 4 ? 4 + i : i - 4)] / 255.0, 1e-7);
    assert_int_equal(targets[0], 0);
    assert_int_equal(targets[1], 2);
    dataset_normalisation_release(&normalisation);
}

static void test_plain(void **state)
{
    const char *path = data_file_write("images", images, sizeof images);
    struct dataset_config config =
        config_of(&path, data_file_write("labels", labels, sizeof labels));
    struct dataset *dataset = data_open(&config, NULL);

    (void)state;
    check_content(dataset);
    assert_int_equal(dataset->mapped_bytes, sizeof images + sizeof labels);
    assert_int_equal(dataset->memory_bytes, 0);
    dataset_close(dataset);
}

static void test_packed(void **state)
{
    (void)state;
    for (int members = 1; members <= 3; members++) {
        const char *path = write_packed("images.gz", images, sizeof images, members);
        struct dataset_config config =
            config_of(&path, write_packed("labels.gz", labels, sizeof labels, members));
        struct dataset *dataset = data_open(&config, NULL);

        check_content(dataset);
        assert_int_equal(dataset->mapped_bytes, 0);
        assert_int_equal(dataset->memory_bytes, sizeof images + sizeof labels);
        dataset_close(dataset);
    }
}

static void test_large_packed(void **state)
{
    static uint8_t big[16 + 70000 * 4] = {0, 0, 8, 3, 0, 1, 0x11, 0x70, 0, 0, 0, 2, 0, 0, 0, 2};
    static uint8_t big_labels[8 + 70000] = {0, 0, 8, 1, 0, 1, 0x11, 0x70};

    (void)state;
    for (size_t i = 0; i < 70000; i++)
        big[16 + 4 * i] = (uint8_t)(i * 7), big_labels[8 + i] = (uint8_t)(i % 10);
    const char *path = write_packed("big.gz", big, sizeof big, 1);
    struct dataset_config config =
        config_of(&path, write_packed("big-labels.gz", big_labels, sizeof big_labels, 1));
    struct dataset *dataset = data_open(&config, NULL);
    assert_int_equal(dataset->count, 70000);
    assert_memory_equal(dataset->samples[0], big + 16, sizeof big - 16);
    dataset_close(dataset);
}

/* Relative paths begin in the configuration's folder. */
static void test_directory(void **state)
{
    const char *path = "images";
    struct dataset_config config = config_of(&path, "labels");

    (void)state;
    config.directory = data_file_path(".");
    data_file_write("images", images, sizeof images);
    data_file_write("labels", labels, sizeof labels);
    dataset_close(data_open(&config, NULL));
    /* a slash at its end is not said twice */
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s/", data_file_path("absent"));
    config.directory = folder;
    data_expect_refusal(&config, NULL, -ENOENT, "absent/images", (const char *)NULL);
}

static void test_shapes(void **state)
{
    uint8_t rows[] = {0, 0, 8, 2, 0, 0, 0, 3, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6};
    uint8_t colour[20 + 3 * 2] = {0, 0, 8, 4, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1};
    const char *path = data_file_write("rows", rows, sizeof rows);
    struct dataset_config config =
        config_of(&path, data_file_write("labels", labels, sizeof labels));
    struct dataset *dataset = data_open(&config, NULL);

    (void)state;
    assert_int_equal(dataset->rank, 1);
    assert_int_equal(dataset->shape[0], 2);
    path = data_file_write("colour", colour, sizeof colour);
    struct dataset *other = data_open(&config, NULL);
    assert_int_equal(other->rank, 3);
    assert_int_equal(other->shape[0], 2);
    assert_int_equal(other->shape[2], 1);
    data_expect_refusal(&config, dataset, -EINVAL, "[2,1,1]", "[2]", "agree", NULL);
    dataset_close(other);
    dataset_close(dataset);
}

static void test_standard(void **state)
{
    const char *path = data_file_write("images", images, sizeof images);
    struct dataset_config config =
        config_of(&path, data_file_write("labels", labels, sizeof labels));
    struct dataset *dataset = data_open(&config, NULL);
    struct dataset_view view = {.dataset = dataset, .first = 0, .count = 2};
    struct dataset_normalisation normalisation;
    struct error error;
    double mean = 0, variance = 0;

    (void)state;
    assert_int_equal(
        dataset_normalisation_measure(DATASET_NORMALISE_STANDARD, &view, &normalisation, &error),
        0);
    for (int i = 0; i < 8; i++)
        mean += images[16 + i] / 8.0;
    for (int i = 0; i < 8; i++)
        variance += (images[16 + i] - mean) * (images[16 + i] - mean) / 8;
    assert_int_equal(normalisation.groups, 1);
    assert_float_equal(normalisation.mean[0], mean, 1e-4);
    assert_float_equal(normalisation.factor[0] * sqrt(variance), 1, 1e-6);
    dataset_normalisation_release(&normalisation);
    dataset_close(dataset);
}

static void test_missing(void **state)
{
    const char *path = data_file_path("absent");
    struct dataset_config config =
        config_of(&path, data_file_write("labels", labels, sizeof labels));

    (void)state;
    data_expect_refusal(&config, NULL, -ENOENT, "absent", "No such file", NULL);
    path = data_file_path(".");
    data_expect_refusal(&config, NULL, -EINVAL, "not a regular file", NULL);
    path = data_file_path("fifo");
    assert_int_equal(mkfifo(path, 0600), 0);
    data_expect_refusal(&config, NULL, -EINVAL, "not a regular file", NULL);
    path = data_file_write("empty", "", 0);
    data_expect_refusal(&config, NULL, -EINVAL, "empty", "is empty", NULL);
}

static void test_every_truncation(void **state)
{
    const char *labels_path = data_file_write("labels", labels, sizeof labels);

    (void)state;
    for (size_t size = 1; size < sizeof images; size++) {
        const char *path = data_file_write("short", images, size);
        struct dataset_config config = config_of(&path, labels_path);
        data_expect_refusal(&config, NULL, -EINVAL, "short", NULL);
    }
    const char *path = data_file_write("images", images, sizeof images);
    for (size_t size = 1; size < sizeof labels; size++) {
        struct dataset_config config = config_of(&path, data_file_write("short", labels, size));
        data_expect_refusal(&config, NULL, -EINVAL, "short", NULL);
    }
    uint8_t longer[sizeof images + 1] = {0};
    memcpy(longer, images, sizeof images);
    path = data_file_write("long", longer, sizeof longer);
    struct dataset_config config = config_of(&path, labels_path);
    data_expect_refusal(&config, NULL, -EINVAL, "too long", "12 bytes", NULL);
}

static void test_damaged_packing(void **state)
{
    uint8_t packed[256];
    const char *path = write_packed("images.gz", images, sizeof images, 1);
    FILE *file = fopen(path, "rb");
    size_t size = fread(packed, 1, sizeof packed, file);
    const char *labels_path = data_file_write("labels", labels, sizeof labels);

    (void)state;
    fclose(file);
    for (size_t cut = 18; cut < size; cut++) {
        path = data_file_write("cut.gz", packed, cut);
        struct dataset_config config = config_of(&path, labels_path);
        data_expect_refusal(&config, NULL, -EINVAL, "cut.gz", "truncated", "fetch", NULL);
    }
    packed[size - 6] ^= 1; /* a bit of the checksum */
    path = data_file_write("bad.gz", packed, size);
    struct dataset_config config = config_of(&path, labels_path);
    data_expect_refusal(&config, NULL, -EINVAL, "bad.gz", "damaged gzip", NULL);
}

static void test_wrong_content(void **state)
{
    const char *path = data_file_write("images", images, sizeof images);
    const char *labels_path = data_file_write("labels", labels, sizeof labels);
    struct dataset_config config = config_of(&path, labels_path);
    uint8_t changed[sizeof images];

    (void)state;
    config.classes = 2;
    data_expect_refusal(&config, NULL, -EINVAL, "labels", "label 2 of sample 0 (byte 8)",
                        "2 classes", NULL);
    config.classes = 0;

    path = labels_path; /* the two files swapped */
    config.labels_path = data_file_path("images");
    data_expect_refusal(&config, NULL, -EINVAL, "1 dimension;", "labels file?", NULL);
    path = data_file_path("images");
    data_expect_refusal(&config, NULL, -EINVAL, "3 dimensions", "images file?", NULL);

    uint8_t fewer[] = {0, 0, 8, 1, 0, 0, 0, 2, 2, 0};
    config.labels_path = data_file_write("fewer", fewer, sizeof fewer);
    data_expect_refusal(&config, NULL, -EINVAL, "3 images", "2 labels", NULL);

    config.labels_path = labels_path;
    memcpy(changed, images, sizeof images);
    changed[0] = 'P';
    path = data_file_write("magic", changed, sizeof changed);
    data_expect_refusal(&config, NULL, -EINVAL, "no IDX file", "50 00 08 03", NULL);
    changed[0] = 0;
    changed[2] = 0x0d;
    path = data_file_write("magic", changed, sizeof changed);
    data_expect_refusal(&config, NULL, -EINVAL, "32-bit float", NULL);
    memset(changed + 4, 0xff, 12);
    changed[2] = 8;
    path = data_file_write("magic", changed, sizeof changed);
    data_expect_refusal(&config, NULL, -EINVAL, "absurd", NULL);
    memset(changed + 4, 0, 4);
    path = data_file_write("magic", changed, sizeof changed);
    data_expect_refusal(&config, NULL, -EINVAL, "is 0", NULL);

    path = data_file_path("images");
    config.target = DATASET_TARGET_VALUE;
    data_expect_refusal(&config, NULL, -EINVAL, "idx", "cross_entropy", NULL);
}

static void test_changed_file(void **state)
{
    const char *path = data_file_write("images", images, sizeof images);
    struct dataset_config config =
        config_of(&path, data_file_write("labels", labels, sizeof labels));
    struct dataset *dataset = data_open(&config, NULL);
    struct error error = {0};

    (void)state;
    assert_int_equal(dataset_check_files(dataset, &error), 0);
    assert_int_equal(truncate(path, 20), 0);
    assert_int_equal(dataset_check_files(dataset, &error), -ERROR_STALE_FILE);
    assert_non_null(strstr(error.text, "from 28 to 20 bytes"));
    dataset_close(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),           cmocka_unit_test(test_packed),
        cmocka_unit_test(test_large_packed),    cmocka_unit_test(test_directory),
        cmocka_unit_test(test_shapes),          cmocka_unit_test(test_standard),
        cmocka_unit_test(test_missing),         cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_damaged_packing), cmocka_unit_test(test_wrong_content),
        cmocka_unit_test(test_changed_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
