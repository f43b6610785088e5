/* test_safetensors.c: files are written and read back, and invalid files are refused. */
#include "base/sha256.h"
#include "engine/train/safetensors.h"
#include "tests/support/data_files.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const float weight[2][3] = {{1, -2.5f, 3}, {1e-38f, 5, 6}};
static const int64_t step[] = {INT64_MIN, 7};
static const uint8_t flags[] = {1, 2, 3};
static const char strange[] = "quote\" back\\slash / tab\t newline\n é 😀";

static const char *write_example(const char *name, char *digest, uint64_t *bytes)
{
    struct safetensors_tensor tensors[] = {
        {.name = "step", .type = SAFETENSORS_INT64, .rank = 1, .shape = {2}},
        {.name = "0.weight", .type = SAFETENSORS_FLOAT32, .rank = 2, .shape = {2, 3}},
        {.name = "scalar", .type = SAFETENSORS_INT32, .rank = 0},
        {.name = "empty", .type = SAFETENSORS_FLOAT32, .rank = 2, .shape = {0, 4}},
        {.name = strange, .type = SAFETENSORS_UINT8, .rank = 1, .shape = {3}}};
    struct safetensors_pair metadata[] = {{"format", "pt"}, {strange, strange}};
    const int32_t scalar = -9;
    const char *path = data_file_path(name);
    struct safetensors_writer *writer;
    struct error error = {0};

    unlink(path); /* of an earlier run in the same folder */
    if (safetensors_writer_open(path, metadata, 2, tensors, 5, &writer, &error) < 0)
        fail_msg("%s", error.text);
    assert_int_equal(tensors[1].bytes, sizeof weight);
    assert_int_equal(access(path, F_OK), -1); /* the file has no name before it is complete */
    assert_int_equal(safetensors_writer_add(writer, step, sizeof step, &error), 0);
    assert_int_equal(safetensors_writer_add(writer, weight[0], sizeof weight[0], &error), 0);
    assert_int_equal(safetensors_writer_add(writer, weight[1], sizeof weight[1], &error), 0);
    assert_int_equal(safetensors_writer_add(writer, &scalar, sizeof scalar, &error), 0);
    assert_int_equal(safetensors_writer_add(writer, flags, sizeof flags, &error), 0);
    if (safetensors_writer_finish(writer, digest, bytes, &error) < 0)
        fail_msg("%s", error.text);
    return path;
}

static char *read_whole(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    char *content = malloc(65536);

    assert_non_null(file);
    *size = fread(content, 1, 65536, file);
    fclose(file);
    return content;
}

static void test_round_trip(void **state)
{
    char digest[SAFETENSORS_DIGEST_SIZE], expected[SHA256_HEX_SIZE];
    uint64_t bytes;
    const char *path = write_example("example.safetensors", digest, &bytes);
    struct safetensors file;
    struct error error = {0};
    struct sha256 hash;
    size_t size;
    char *content = read_whole(path, &size);

    (void)state;
    assert_int_equal(size, bytes);
    sha256_begin(&hash);
    sha256_add(&hash, content, size);
    sha256_end(&hash, expected);
    assert_string_equal(digest, expected);
    assert_int_equal((8 + (uint8_t)content[0] + 256 * (uint8_t)content[1]) % 8, 0);
    free(content);

    if (safetensors_open(path, &file, &error) < 0)
        fail_msg("%s", error.text);
    assert_int_equal(file.tensor_count, 5);
    const struct safetensors_tensor *tensor = safetensors_find(&file, "0.weight");
    assert_int_equal(tensor->type, SAFETENSORS_FLOAT32);
    assert_int_equal(tensor->rank, 2);
    assert_int_equal(tensor->shape[0], 2);
    assert_int_equal(tensor->shape[1], 3);
    assert_memory_equal(tensor->data, weight, sizeof weight);
    tensor = safetensors_find(&file, "step");
    assert_memory_equal(tensor->data, step, sizeof step);
    assert_int_equal(safetensors_find(&file, "empty")->bytes, 0);
    assert_int_equal(*(const int32_t *)safetensors_find(&file, "scalar")->data, -9);
    assert_memory_equal(safetensors_find(&file, strange)->data, flags, sizeof flags);
    assert_null(safetensors_find(&file, "absent"));
    assert_string_equal(safetensors_metadata(&file, "format"), "pt");
    assert_string_equal(safetensors_metadata(&file, strange), strange);
    assert_null(safetensors_metadata(&file, "absent"));
    safetensors_close(&file);
}

static void test_no_temporary_file(void **state)
{
    struct safetensors_tensor tensor = {
        .name = "a", .type = SAFETENSORS_FLOAT32, .rank = 1, .shape = {2}};
    const char *path = data_file_path("partial");
    struct safetensors_writer *writer;
    struct error error = {0};
    float values[3] = {0};

    (void)state;
    data_file_write_text("partial", "old");
    assert_int_equal(safetensors_writer_open(path, NULL, 0, &tensor, 1, &writer, &error), 0);
    assert_int_equal(access(data_file_path("partial.tmp"), F_OK), 0);
    assert_int_equal(safetensors_writer_add(writer, values, 12, &error), -EINVAL);
    assert_int_equal(safetensors_writer_add(writer, values, 4, &error), 0);
    assert_int_equal(safetensors_writer_finish(writer, NULL, NULL, &error), -EINVAL);
    assert_non_null(strstr(error.text, "4 bytes"));
    assert_int_equal(access(data_file_path("partial.tmp"), F_OK), -1);

    assert_int_equal(safetensors_writer_open(path, NULL, 0, &tensor, 1, &writer, &error), 0);
    safetensors_writer_abort(writer);
    safetensors_writer_abort(NULL);
    assert_int_equal(access(data_file_path("partial.tmp"), F_OK), -1);
    size_t size;
    char *content = read_whole(path, &size);
    assert_memory_equal(content, "old", 3);
    free(content);

    path = data_file_path("no/such/folder");
    assert_int_equal(safetensors_writer_open(path, NULL, 0, &tensor, 1, &writer, &error), -ENOENT);
}

static void test_writer_refusals(void **state)
{
    static const struct {
        struct safetensors_tensor tensors[2];
        const char *piece;
    } cases[] = {
        {{{.name = "", .rank = 0}, {.name = "b"}}, "name"},
        {{{.name = "__metadata__"}, {.name = "b"}}, "name"},
        {{{.name = "a"}, {.name = "a"}}, "two tensors are named a"},
        {{{.name = "\xff"}, {.name = "b"}}, "name"},
        {{{.name = "a", .type = SAFETENSORS_UINT8}, {.name = "b"}}, "aligned"},
        {{{.name = "a", .rank = 1, .shape = {-1}}, {.name = "b"}}, "impossible shape"},
        {{{.name = "a", .rank = 2, .shape = {1ll << 40, 1ll << 40}}, {.name = "b"}}, "impossible"},
        {{{.name = "a", .rank = 9}, {.name = "b"}}, "impossible"}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct safetensors_tensor tensors[2];
        struct safetensors_writer *writer;
        struct error error = {0};

        memcpy(tensors, cases[i].tensors, sizeof tensors);
        assert_int_equal(
            safetensors_writer_open(data_file_path("bad"), NULL, 0, tensors, 2, &writer, &error),
            -EINVAL);
        assert_non_null(strstr(error.text, cases[i].piece));
        assert_int_equal(access(data_file_path("bad.tmp"), F_OK), -1);
    }
}

/* Writes and opens a file with this header (padded to a multiple of 8) and `data` zero bytes. */
static int open_header(const char *header, size_t data, struct error *error)
{
    static char content[8192];
    size_t length = strlen(header), padded = (length + 7) / 8 * 8;
    uint64_t stored = padded;
    struct safetensors file;

    memcpy(content, &stored, 8);
    memset(content + 8, ' ', padded);
    memcpy(content + 8, header, length);
    memset(content + 8 + padded, 0, data);
    int result =
        safetensors_open(data_file_write("header", content, 8 + padded + data), &file, error);
    if (result == 0)
        safetensors_close(&file);
    return result;
}

#define TENSOR(type, shape, offsets) \
    "{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void test_headers(void **state)
{
    static const struct {
        const char *header;
        size_t data;
        const char *piece; /* a piece of the error; NULL: the file is accepted */
    } cases[] = {
        {"{}", 0, NULL},
        {"{\"a\":" TENSOR("F32", "[2]", "[0,8]") "}", 8, NULL},
        {"{\"__metadata__\":{},\"a\":" TENSOR("F32", "[]", "[0,4]") "}", 4, NULL},
        {"{\"b\":" TENSOR("U8", "[3]", "[4,7]") ",\"a\":" TENSOR("F32", "[1]", "[0,4]") "}", 7,
         NULL},
        {"{\"a\":" TENSOR("F32", "[2]", "[0,8]") "}", 9, "1 bytes at its end"},
        {"{\"a\":" TENSOR("F32", "[2]", "[0,8]") "}", 7, "outside of the file"},
        {"{\"a\":" TENSOR("F32", "[2]", "[0,4]") "}", 8, "disagree with its shape"},
        {"{\"a\":" TENSOR("F32", "[1]", "[4,8]") "}", 8, "gap before"},
        {"{\"a\":" TENSOR("F32", "[2]", "[0,8]") ",\"b\":" TENSOR("F32", "[2]", "[4,12]") "}", 12,
         "overlaps"},
        {"{\"a\":" TENSOR("F32", "[2]", "[0,8]") ",\"b\":" TENSOR("F32", "[2]", "[0,8]") "}", 8,
         "overlaps"},
        {"{\"a\":" TENSOR("F32", "[1]", "[0,4]") ",\"a\":" TENSOR("F32", "[1]", "[4,8]") "}", 8,
         "gap before"},
        {"{\"a\":" TENSOR("U8", "[1]", "[0,1]") ",\"b\":" TENSOR("F32", "[1]", "[1,5]") "}", 5,
         "aligned"},
        {"{\"a\":" TENSOR("F32", "[-1]", "[0,4]") "}", 4, "no whole number"},
        {"{\"a\":" TENSOR("F32", "[1.0]", "[0,4]") "}", 4, "no whole number"},
        {"{\"a\":" TENSOR("F32", "[\"1\"]", "[0,4]") "}", 4, "no whole number"},
        {"{\"a\":" TENSOR("F32", "[99999999999999999999]", "[0,4]") "}", 4, "no whole number"},
        {"{\"a\":" TENSOR("F32", "[4294967296,4294967296]", "[0,0]") "}", 0, "beyond all memory"},
        {"{\"a\":" TENSOR("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, "at most 8"},
        {"{\"a\":" TENSOR("F8_E4M3", "[8]", "[0,8]") "}", 8, NULL},
        {"{\"a\":" TENSOR("U64", "[]", "[0,8]") ",\"b\":" TENSOR("BOOL", "[3]", "[8,11]") "}", 11,
         NULL},
        {"{\"a\":" TENSOR("F4", "[16]", "[0,8]") "}", 8, "a type that is not known"},
        {"{\"a\":" TENSOR("F32", "1", "[0,4]") "}", 4, "no shape"},
        {"{\"a\":" TENSOR("F32", "[1]", "[0,4,8]") "}", 4, "pair of data_offsets"},
        {"{\"a\":" TENSOR("F32", "[1]", "[4,0]") "}", 4, "outside"},
        {"{\"a\":" TENSOR("F32", "[1]", "[-4,0]") "}", 4, "outside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "not described"},
        {"{\"a\":3}", 0, "not described"},
        {"{\"a\":null}", 0, "not described"},
        {"{\"__metadata__\":{\"x\":1}}", 0, "metadata \"x\" is no string"},
        {"{\"__metadata__\":[]}", 0, "metadata are no object"},
        {"[]", 0, "no JSON object"},
        {"{", 0, "no JSON object"},
        {"{} x", 0, "no JSON object"},
        {"{\"a\":[[[[[[]]]]]]}", 0, "no JSON object"},
        {"{\"\xff\":1}", 0, "no JSON object"},
        {"{\"a\":" TENSOR("F32", "[NaN]", "[0,4]") "}", 4, ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error = {0};
        int result = open_header(cases[i].header, cases[i].data, &error);

        if (!cases[i].piece && result < 0)
            fail_msg("%s: %s", cases[i].header, error.text);
        if (cases[i].piece && (result != -EINVAL || !strstr(error.text, cases[i].piece)))
            fail_msg("%s: %d, %s", cases[i].header, result, error.text);
    }
}

/* Numbers of other programs become float32: 1, -2, the smallest of float16, and infinity. */
static void test_floats(void **state)
{
    static const char header[] = "{\"d\":" TENSOR("F64", "[2]", "[0,16]") ",\"h\":" TENSOR(
        "F16", "[4]", "[16,24]") ",\"b\":" TENSOR("BF16", "[2]",
                                                  "[24,28]") ",\"u\":" TENSOR("U8", "[4]",
                                                                              "[28,32]") "}       ";
    const double doubles[] = {1, -2};
    const uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x7c00}, bfloats[] = {0x3f80, 0xc000};
    const float expected[] = {1, -2, 0x1p-24f, INFINITY};
    uint64_t length = (sizeof header - 1) / 8 * 8;
    char content[512] = {0};
    struct safetensors file;
    struct error error = {0};

    (void)state;
    memcpy(content, &length, 8);
    memcpy(content + 8, header, length);
    memcpy(content + 8 + length, doubles, sizeof doubles);
    memcpy(content + 8 + length + 16, halves, sizeof halves);
    memcpy(content + 8 + length + 24, bfloats, sizeof bfloats);
    if (safetensors_open(data_file_write("floats", content, 8 + length + 32), &file, &error) < 0)
        fail_msg("%s", error.text);
    assert_false(safetensors_is_float(safetensors_find(&file, "u")));
    for (int i = 0; i < 3; i++) {
        const struct safetensors_tensor *tensor =
            safetensors_find(&file, (const char *const[]){"d", "h", "b"}[i]);
        float values[4];

        assert_true(safetensors_is_float(tensor));
        safetensors_read_floats(&file, tensor, values);
        assert_memory_equal(values, expected, (size_t)tensor->shape[0] * sizeof *values);
    }
    safetensors_close(&file);
}

static void test_every_truncation(void **state)
{
    const char *path = write_example("whole", NULL, NULL);
    size_t size;
    char *content = read_whole(path, &size);

    (void)state;
    for (size_t cut = 0; cut < size; cut++) {
        struct safetensors file;
        struct error error = {0};
        const char *cut_path = data_file_write("cut", content, cut);
        assert_int_equal(safetensors_open(cut_path, &file, &error), -EINVAL);
        assert_non_null(strstr(error.text, "cut"));
    }
    free(content);
    struct safetensors file;
    assert_int_equal(safetensors_open(data_file_path("absent"), &file, NULL), -ENOENT);
    assert_int_equal(safetensors_open(data_file_path("."), &file, NULL), -EINVAL);
    mkfifo(data_file_path("fifo"), 0600);
    assert_int_equal(safetensors_open(data_file_path("fifo"), &file, NULL), -EINVAL);
}

static void test_absurd_length(void **state)
{
    static const uint64_t lengths[] = {UINT64_MAX, 1ull << 63, 100000001, 100, 3};

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char content[16] = "";
        struct safetensors file;
        struct error error = {0};

        memcpy(content, &lengths[i], 8);
        memcpy(content + 8, "{}      ", 8);
        assert_int_equal(safetensors_open(data_file_write("length", content, 16), &file, &error),
                         -EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),      cmocka_unit_test(test_no_temporary_file),
        cmocka_unit_test(test_writer_refusals), cmocka_unit_test(test_floats),
        cmocka_unit_test(test_headers),         cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_absurd_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
