/* safetensors.c: writes and reads weights in the safetensors format. */
#include "engine/train/safetensors.h"

#include "base/alignment.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/text.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum {
    LENGTH_BYTES = 8,             /* of the field with the header's length */
    HEADER_BYTES_MAX = 100000000, /* the limit of the reference implementation */
    HEADER_DEPTH_MAX = 4,         /* header, tensor, list, number */
    MAPPED_LITTLE_ENDIAN_ONLY = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
};
_Static_assert(MAPPED_LITTLE_ENDIAN_ONLY, "tensors are written and mapped as they lie in memory");

static const struct {
    const char *name;
    size_t bytes;
} types[] = {[SAFETENSORS_FLOAT32] = {"F32", 4}, [SAFETENSORS_INT32] = {"I32", 4},
             [SAFETENSORS_INT64] = {"I64", 8},   [SAFETENSORS_UINT8] = {"U8", 1},
             [SAFETENSORS_INT8] = {"I8", 1},     [SAFETENSORS_FLOAT64] = {"F64", 8},
             [SAFETENSORS_FLOAT16] = {"F16", 2}, [SAFETENSORS_BFLOAT16] = {"BF16", 2}};

enum { TYPE_COUNT = sizeof types / sizeof types[0] };

static const char metadata_key[] = "__metadata__";

size_t safetensors_type_bytes(enum safetensors_type type)
{
    return types[type].bytes;
}

const char *safetensors_type_name(enum safetensors_type type)
{
    return types[type].name;
}

static void json_release(struct json_object **object)
{
    json_object_put(*object);
}
#define AUTO_JSON CLEANUP(json_release)

/* The bytes of a tensor of this type and shape. False: they overflow, or an extent is negative. */
static bool tensor_bytes(const struct safetensors_tensor *tensor, size_t *bytes)
{
    *bytes = types[tensor->type].bytes;
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] < 0 || __builtin_mul_overflow(*bytes, (size_t)tensor->shape[i], bytes))
            return false;
    return *bytes <= INT64_MAX;
}

/* ---- writing ---- */

struct safetensors_writer {
    char *path, *temporary;
    int descriptor;
    struct sha256 hash;
    uint64_t written, expected; /* of the whole file */
};

static int out_of_memory(const char *path, struct error *error)
{
    return error_set(error, -ENOMEM, "not enough memory for the tensors of %s", path);
}

static int check_tensors(const char *path, struct safetensors_tensor *tensors, int count,
                         struct error *error)
{
    for (int i = 0; i < count; i++) {
        struct safetensors_tensor *tensor = &tensors[i];

        if (!tensor->name[0] || strcmp(tensor->name, metadata_key) == 0 ||
            !text_is_utf8(tensor->name, strlen(tensor->name)))
            return error_set(error, -EINVAL, "%s: tensor %d has no usable name (\"%s\")", path, i,
                             tensor->name);
        if (tensor->rank < 0 || tensor->rank > SAFETENSORS_RANK_MAX ||
            !tensor_bytes(tensor, &tensor->bytes))
            return error_set(error, -EINVAL, "%s: tensor %s has an impossible shape", path,
                             tensor->name);
        if (i && types[tensor->type].bytes > types[tensor[-1].type].bytes)
            return error_set(error, -EINVAL,
                             "%s: tensor %s would not lie aligned; order tensors by the size of "
                             "their elements, largest first",
                             path, tensor->name);
    }
    return 0;
}

static struct json_object *describe_tensor(const struct safetensors_tensor *tensor, size_t begin)
{
    struct json_object *object = json_object_new_object();
    struct json_object *shape = json_object_new_array(), *offsets = json_object_new_array();

    for (int i = 0; i < tensor->rank; i++)
        json_object_array_add(shape, json_object_new_int64(tensor->shape[i]));
    json_object_array_add(offsets, json_object_new_int64((int64_t)begin));
    json_object_array_add(offsets, json_object_new_int64((int64_t)(begin + tensor->bytes)));
    json_object_object_add(object, "dtype", json_object_new_string(types[tensor->type].name));
    json_object_object_add(object, "shape", shape);
    json_object_object_add(object, "data_offsets", offsets);
    return object;
}

/* Writes the header as JSON. `data_bytes` receives where the last tensor ends. */
static int describe_file(const char *path, const struct safetensors_pair *metadata,
                         int metadata_count, const struct safetensors_tensor *tensors, int count,
                         struct json_object *header, uint64_t *data_bytes, struct error *error)
{
    size_t begin = 0;

    if (metadata_count) {
        struct json_object *pairs = json_object_new_object();
        json_object_object_add(header, metadata_key, pairs);
        for (int i = 0; i < metadata_count; i++) {
            if (!text_is_utf8(metadata[i].key, strlen(metadata[i].key)) ||
                !text_is_utf8(metadata[i].value, strlen(metadata[i].value)))
                return error_set(error, -EINVAL, "%s: metadata %d is not valid UTF-8", path, i);
            json_object_object_add(pairs, metadata[i].key,
                                   json_object_new_string(metadata[i].value));
        }
    }
    for (int i = 0; i < count; i++) {
        if (json_object_object_get_ex(header, tensors[i].name, NULL))
            return error_set(error, -EINVAL, "%s: two tensors are named %s", path, tensors[i].name);
        json_object_object_add(header, tensors[i].name, describe_tensor(&tensors[i], begin));
        begin += tensors[i].bytes;
    }
    *data_bytes = begin;
    return 0;
}

static int writer_put(struct safetensors_writer *writer, const void *bytes, size_t size,
                      struct error *error)
{
    int result = file_write_all(writer->descriptor, bytes, size);

    if (result < 0)
        return error_set_errno(error, result, "cannot write %s", writer->temporary);
    sha256_add(&writer->hash, bytes, size);
    writer->written += size;
    return 0;
}

static int write_header(struct safetensors_writer *writer, struct json_object *header,
                        uint64_t data_bytes, struct error *error)
{
    static const char blanks[LENGTH_BYTES] = "        ";
    size_t length;
    const char *text = json_object_to_json_string_length(
        header, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &length);
    int result;

    if (!text)
        return out_of_memory(writer->path, error);
    size_t padded = align_up(length, LENGTH_BYTES);
    uint64_t stored = htole64(padded);
    if (padded > HEADER_BYTES_MAX)
        return error_set(error, -EFBIG, "%s: the header would take %zu bytes, more than %d",
                         writer->path, padded, HEADER_BYTES_MAX);
    writer->expected = LENGTH_BYTES + padded + data_bytes;
    result = writer_put(writer, &stored, sizeof stored, error);
    if (result == 0)
        result = writer_put(writer, text, length, error);
    if (result == 0)
        result = writer_put(writer, blanks, padded - length, error);
    return result;
}

int safetensors_writer_open(const char *path, const struct safetensors_pair *metadata,
                            int metadata_count, struct safetensors_tensor *tensors, int count,
                            struct safetensors_writer **writer, struct error *error)
{
    AUTO_JSON struct json_object *header = json_object_new_object();
    struct safetensors_writer *made;
    uint64_t data_bytes = 0;
    int result = check_tensors(path, tensors, count, error);

    if (result == 0)
        result = file_check_replaceable(path, error);
    if (result == 0)
        result = describe_file(path, metadata, metadata_count, tensors, count, header, &data_bytes,
                               error);
    if (result < 0)
        return result;
    made = calloc(1, sizeof *made);
    if (!made)
        return out_of_memory(path, error);
    made->descriptor = -1;
    made->path = strdup(path);
    if (!made->path || asprintf(&made->temporary, "%s.tmp", path) < 0) {
        made->temporary = NULL;
        result = out_of_memory(path, error);
        goto failed;
    }
    made->descriptor = open(made->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (made->descriptor < 0) {
        result = error_set_errno(error, -errno, "cannot create %s", made->temporary);
        goto failed;
    }
    sha256_begin(&made->hash);
    result = write_header(made, header, data_bytes, error);
    if (result == 0) {
        *writer = made;
        return 0;
    }
failed:
    safetensors_writer_abort(made);
    return result;
}

int safetensors_writer_add(struct safetensors_writer *writer, const void *data, size_t bytes,
                           struct error *error)
{
    if (bytes > writer->expected - writer->written)
        return error_set(error, -EINVAL, "%s: more data than the tensors of its header hold",
                         writer->path);
    return writer_put(writer, data, bytes, error);
}

static void writer_free(struct safetensors_writer *writer)
{
    cleanup_close(&writer->descriptor);
    free(writer->path);
    free(writer->temporary);
    free(writer);
}

static int sync_folder(const char *path, struct error *error)
{
    AUTO_FREE char *copy = strdup(path);
    AUTO_CLOSE int folder = -1;

    if (!copy)
        return out_of_memory(path, error);
    folder = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 || fsync(folder) < 0)
        return error_set_errno(error, -errno, "cannot sync the folder of %s", path);
    return 0;
}

int safetensors_writer_finish(struct safetensors_writer *writer,
                              char digest[SAFETENSORS_DIGEST_SIZE], uint64_t *file_bytes,
                              struct error *error)
{
    char hexadecimal[SHA256_HEX_SIZE];
    int result = 0;

    if (writer->written != writer->expected)
        result = error_set(error, -EINVAL, "%s: %" PRIu64 " bytes of the tensors' data are missing",
                           writer->path, writer->expected - writer->written);
    else if (fsync(writer->descriptor) < 0)
        result = error_set_errno(error, -errno, "cannot sync %s", writer->temporary);
    else if (rename(writer->temporary, writer->path) < 0)
        result = error_set_errno(error, -errno, "cannot rename %s", writer->temporary);
    if (result < 0) {
        safetensors_writer_abort(writer);
        return result;
    }
    result = sync_folder(writer->path, error);
    sha256_end(&writer->hash, hexadecimal);
    if (digest)
        memcpy(digest, hexadecimal, sizeof hexadecimal);
    if (file_bytes)
        *file_bytes = writer->written;
    writer_free(writer);
    return result;
}

void safetensors_writer_abort(struct safetensors_writer *writer)
{
    if (!writer)
        return;
    if (writer->descriptor >= 0)
        /* an open file has a name: NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker) */
        unlink(writer->temporary);
    writer_free(writer);
}

/* ---- reading ---- */

struct reader {
    const char *path;
    const uint8_t *data; /* the tensors, behind the header */
    size_t data_bytes;
    struct safetensors *file;
};

static int damaged(const struct reader *reader, const char *tensor, const char *what,
                   struct error *error)
{
    char shown[128];

    return error_set(error, -EINVAL, "%s: tensor \"%s\" %s; the file is damaged or not safetensors",
                     reader->path, text_escape_controls(tensor, shown, sizeof shown), what);
}

/* A non-negative integer, or -1 for anything else. */
static int64_t whole_number(struct json_object *value)
{
    int64_t number;

    if (!json_object_is_type(value, json_type_int))
        return -1;
    errno = 0;
    number = json_object_get_int64(value); /* saturates and sets errno if it exceeds int64 */
    return errno || number < 0 || number == INT64_MAX ? -1 : number;
}

static int read_type(const struct reader *reader, struct json_object *value,
                     struct safetensors_tensor *tensor, struct error *error)
{
    const char *name =
        json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";

    for (int i = 0; i < TYPE_COUNT; i++) {
        if (strcmp(types[i].name, name) == 0) {
            tensor->type = (enum safetensors_type)i;
            return 0;
        }
    }
    return damaged(reader, tensor->name,
                   "has a type other than F64, F32, F16, BF16, I64, I32, I8 and U8", error);
}

static int read_shape(const struct reader *reader, struct json_object *value,
                      struct safetensors_tensor *tensor, struct error *error)
{
    if (!json_object_is_type(value, json_type_array) ||
        json_object_array_length(value) > SAFETENSORS_RANK_MAX)
        return damaged(reader, tensor->name, "has no shape of at most 8 extents", error);
    tensor->rank = (int)json_object_array_length(value);
    for (int i = 0; i < tensor->rank; i++) {
        tensor->shape[i] = whole_number(json_object_array_get_idx(value, (size_t)i));
        if (tensor->shape[i] < 0)
            return damaged(reader, tensor->name, "has an extent that is no whole number", error);
    }
    if (!tensor_bytes(tensor, &tensor->bytes))
        return damaged(reader, tensor->name, "has a shape beyond all memory", error);
    return 0;
}

static int read_offsets(const struct reader *reader, struct json_object *value,
                        struct safetensors_tensor *tensor, struct error *error)
{
    int64_t begin, end;

    if (!json_object_is_type(value, json_type_array) || json_object_array_length(value) != 2)
        return damaged(reader, tensor->name, "has no pair of data_offsets", error);
    begin = whole_number(json_object_array_get_idx(value, 0));
    end = whole_number(json_object_array_get_idx(value, 1));
    if (begin < 0 || end < begin || (uint64_t)end > reader->data_bytes)
        return damaged(reader, tensor->name, "has data_offsets outside of the file", error);
    if ((uint64_t)(end - begin) != tensor->bytes)
        return damaged(reader, tensor->name, "has data_offsets that disagree with its shape",
                       error);
    tensor->data = reader->data + begin;
    return 0;
}

static int read_tensor(const struct reader *reader, const char *name, struct json_object *value,
                       struct safetensors_tensor *tensor, struct error *error)
{
    int result;

    *tensor = (struct safetensors_tensor){.name = name};
    if (!json_object_is_type(value, json_type_object) || json_object_object_length(value) != 3)
        return damaged(reader, name, "is not described by dtype, shape and data_offsets", error);
    result = read_type(reader, json_object_object_get(value, "dtype"), tensor, error);
    if (result == 0)
        result = read_shape(reader, json_object_object_get(value, "shape"), tensor, error);
    if (result == 0)
        result = read_offsets(reader, json_object_object_get(value, "data_offsets"), tensor, error);
    if (result < 0)
        return result;
    tensor->name = strdup(name);
    return tensor->name ? 0 : out_of_memory(reader->path, error);
}

static int read_metadata(const struct reader *reader, struct json_object *value,
                         struct error *error)
{
    struct safetensors *file = reader->file;
    char shown[128];

    if (!json_object_is_type(value, json_type_object))
        return error_set(error, -EINVAL, "%s: its metadata are no object", reader->path);
    int count = json_object_object_length(value);
    if (count == 0)
        return 0;
    file->metadata = calloc((size_t)count, sizeof *file->metadata);
    if (!file->metadata)
        return out_of_memory(reader->path, error);
    json_object_object_foreach (value, key, text) {
        struct safetensors_pair *pair = &file->metadata[file->metadata_count++];

        if (!json_object_is_type(text, json_type_string))
            return error_set(error, -EINVAL, "%s: metadata \"%s\" is no string", reader->path,
                             text_escape_controls(key, shown, sizeof shown));
        pair->key = strdup(key);
        pair->value = strdup(json_object_get_string(text));
        if (!pair->key || !pair->value)
            return out_of_memory(reader->path, error);
    }
    return 0;
}

static int compare_places(const void *left, const void *right)
{
    const struct safetensors_tensor *a = left, *b = right;

    if (a->data != b->data)
        return (const char *)a->data < (const char *)b->data ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes); /* empty tensors come first */
}

/* Checks that the tensors are adjacent from the beginning to the end of the data, each aligned. */
static int check_places(const struct reader *reader, struct error *error)
{
    struct safetensors *file = reader->file;
    const uint8_t *place = reader->data;

    qsort(file->tensors, (size_t)file->tensor_count, sizeof *file->tensors, compare_places);
    for (int i = 0; i < file->tensor_count; i++) {
        const struct safetensors_tensor *tensor = &file->tensors[i];

        if ((const uint8_t *)tensor->data != place)
            return damaged(reader, tensor->name,
                           (const uint8_t *)tensor->data < place ? "overlaps another"
                                                                 : "has a gap before it",
                           error);
        if ((uintptr_t)tensor->data % types[tensor->type].bytes)
            return damaged(reader, tensor->name, "does not lie aligned", error);
        place += tensor->bytes;
    }
    if (place != reader->data + reader->data_bytes)
        return error_set(error, -EINVAL, "%s: %zu bytes at its end belong to no tensor",
                         reader->path, (size_t)(reader->data + reader->data_bytes - place));
    return 0;
}

static int read_header(const struct reader *reader, const char *text, size_t length,
                       struct error *error)
{
    struct safetensors *file = reader->file;
    struct json_tokener *tokener = json_tokener_new_ex(HEADER_DEPTH_MAX);
    AUTO_JSON struct json_object *header = NULL;
    int result = 0;

    if (!tokener)
        return out_of_memory(reader->path, error);
    while (length && text[length - 1] == ' ')
        length--;
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    header = json_tokener_parse_ex(tokener, text, (int)length);
    bool complete = json_tokener_get_error(tokener) == json_tokener_success &&
                    json_tokener_get_parse_end(tokener) == length;
    json_tokener_free(tokener);
    if (!complete || !json_object_is_type(header, json_type_object))
        return error_set(error, -EINVAL,
                         "%s: its header is no JSON object; the file is damaged or not safetensors",
                         reader->path);
    file->tensors = calloc((size_t)json_object_object_length(header) + 1, sizeof *file->tensors);
    if (!file->tensors)
        return out_of_memory(reader->path, error);
    json_object_object_foreach (header, name, value) {
        if (strcmp(name, metadata_key) == 0)
            result = read_metadata(reader, value, error);
        else
            result = read_tensor(reader, name, value, &file->tensors[file->tensor_count], error);
        if (result < 0)
            return result;
        file->tensor_count += strcmp(name, metadata_key) != 0;
    }
    return check_places(reader, error);
}

static int map_file(const char *path, struct safetensors *file, struct error *error)
{
    AUTO_CLOSE int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;

    if (descriptor < 0 || fstat(descriptor, &status) < 0)
        return error_set_errno(error, -errno, "cannot open %s", path);
    if (!S_ISREG(status.st_mode) || status.st_size < LENGTH_BYTES + 2)
        return error_set(error, -EINVAL,
                         S_ISREG(status.st_mode) ? "%s is too short to be safetensors"
                                                 : "%s is not a regular file of safetensors",
                         path);
    file->mapping_bytes = (size_t)status.st_size;
    file->mapping = mmap(NULL, file->mapping_bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (file->mapping == MAP_FAILED) {
        file->mapping = NULL;
        return error_set_errno(error, -errno, "cannot map %s", path);
    }
    return 0;
}

int safetensors_open(const char *path, struct safetensors *file, struct error *error)
{
    uint64_t length;
    int result;

    *file = (struct safetensors){0};
    result = map_file(path, file, error);
    if (result < 0)
        return result;
    memcpy(&length, file->mapping, sizeof length);
    length = le64toh(length);
    if (length > HEADER_BYTES_MAX || length > file->mapping_bytes - LENGTH_BYTES) {
        safetensors_close(file);
        return error_set(error, -EINVAL,
                         "%s: its header should take %" PRIu64
                         " bytes, which do not fit; the file is truncated or not safetensors",
                         path, length);
    }
    const char *header = (const char *)file->mapping + LENGTH_BYTES;
    struct reader reader = {.path = path,
                            .data = (const uint8_t *)header + length,
                            .data_bytes = file->mapping_bytes - LENGTH_BYTES - length,
                            .file = file};
    result = read_header(&reader, header, length, error);
    if (result < 0)
        safetensors_close(file);
    return result;
}

void safetensors_close(struct safetensors *file)
{
    for (int i = 0; i < file->tensor_count; i++) {
        free((char *)(uintptr_t)file->tensors[i].name);
        if (file->tensors[i].owned)
            free((void *)(uintptr_t)file->tensors[i].data);
    }
    for (int i = 0; i < file->metadata_count; i++) {
        free((char *)(uintptr_t)file->metadata[i].key);
        free((char *)(uintptr_t)file->metadata[i].value);
    }
    free(file->tensors);
    free(file->metadata);
    if (file->mapping)
        munmap(file->mapping, file->mapping_bytes);
    *file = (struct safetensors){0};
}

int safetensors_append(struct safetensors *file, const struct safetensors_tensor *tensor,
                       struct error *error)
{
    struct safetensors_tensor *tensors =
        reallocarray(file->tensors, (size_t)file->tensor_count + 1, sizeof *tensors);
    char *name = strdup(tensor->name);

    if (tensors)
        file->tensors = tensors;
    if (!tensors || !name) {
        free(name);
        return error_no_memory(error, "the list of tensors");
    }
    tensors[file->tensor_count] = *tensor;
    tensors[file->tensor_count].name = name;
    tensors[file->tensor_count++].owned = true;
    return 0;
}

enum { PIECE = 1 << 20 }; /* bytes that are read at once */

/* Gives the pages of a piece of the tensor back. */
static void forget(const struct safetensors *file, const struct safetensors_tensor *tensor,
                   size_t done, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t offset = (size_t)((const char *)tensor->data - (const char *)file->mapping);
    size_t begin = (offset + done) / page * page;

    if (tensor->owned)
        return;
    madvise((char *)file->mapping + begin, offset + done + bytes - begin, MADV_DONTNEED);
}

void safetensors_read(const struct safetensors *file, const struct safetensors_tensor *tensor,
                      void *to)
{
    for (size_t done = 0; done < tensor->bytes; done += PIECE) {
        size_t bytes = tensor->bytes - done < PIECE ? tensor->bytes - done : PIECE;

        memcpy((char *)to + done, (const char *)tensor->data + done, bytes);
        forget(file, tensor, done, bytes);
    }
}

bool safetensors_is_float(const struct safetensors_tensor *tensor)
{
    return tensor->type == SAFETENSORS_FLOAT32 || tensor->type == SAFETENSORS_FLOAT64 ||
           tensor->type == SAFETENSORS_FLOAT16 || tensor->type == SAFETENSORS_BFLOAT16;
}

/* IEEE 754's binary16: 1 sign bit, 5 of the exponent, 10 of the mantissa. */
static float half_number(uint16_t bits)
{
    int exponent = bits >> 10 & 0x1f;
    float mantissa = (float)(bits & 0x3ff), number;

    if (exponent == 0x1f)
        number = bits & 0x3ff ? NAN : INFINITY;
    else if (exponent == 0)
        number = ldexpf(mantissa, -24);
    else
        number = ldexpf(1024 + mantissa, exponent - 25);
    return bits >> 15 ? -number : number;
}

static float number_at(const struct safetensors_tensor *tensor, size_t index)
{
    uint32_t bits;
    float number;

    switch (tensor->type) {
    case SAFETENSORS_FLOAT64:
        return (float)((const double *)tensor->data)[index];
    case SAFETENSORS_FLOAT16:
        return half_number(((const uint16_t *)tensor->data)[index]);
    case SAFETENSORS_BFLOAT16: /* the upper half of a float32 */
        bits = (uint32_t)((const uint16_t *)tensor->data)[index] << 16;
        memcpy(&number, &bits, sizeof number);
        return number;
    default:
        return ((const float *)tensor->data)[index];
    }
}

void safetensors_read_floats(const struct safetensors *file,
                             const struct safetensors_tensor *tensor, float *to)
{
    size_t size = safetensors_type_bytes(tensor->type), count = tensor->bytes / size;
    size_t step = PIECE / size;

    for (size_t first = 0; first < count; first += step) {
        size_t end = count - first < step ? count : first + step;

        for (size_t i = first; i < end; i++)
            to[i] = number_at(tensor, i);
        forget(file, tensor, first * size, (end - first) * size);
    }
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name)
{
    for (int i = 0; i < file->tensor_count; i++)
        if (strcmp(file->tensors[i].name, name) == 0)
            return &file->tensors[i];
    return NULL;
}

const char *safetensors_metadata(const struct safetensors *file, const char *key)
{
    for (int i = 0; i < file->metadata_count; i++)
        if (strcmp(file->metadata[i].key, key) == 0)
            return file->metadata[i].value;
    return NULL;
}
