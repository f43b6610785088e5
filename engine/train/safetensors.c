/* safetensors.c: reads files in the safetensors format. See safetensors.h. */
#include "base/cleanup.h"
#include "base/half.h"
#include "base/text.h"
#include "engine/train/auto_json.h"
#include "engine/train/safetensors_internal.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *name;
    size_t bytes;
} types[] = {[SAFETENSORS_FLOAT32] = {"F32", 4},
             [SAFETENSORS_INT32] = {"I32", 4},
             [SAFETENSORS_INT64] = {"I64", 8},
             [SAFETENSORS_UINT8] = {"U8", 1},
             [SAFETENSORS_INT8] = {"I8", 1},
             [SAFETENSORS_FLOAT64] = {"F64", 8},
             [SAFETENSORS_FLOAT16] = {"F16", 2},
             [SAFETENSORS_BFLOAT16] = {"BF16", 2},
             [SAFETENSORS_BOOL] = {"BOOL", 1},
             [SAFETENSORS_INT16] = {"I16", 2},
             [SAFETENSORS_UINT16] = {"U16", 2},
             [SAFETENSORS_UINT32] = {"U32", 4},
             [SAFETENSORS_UINT64] = {"U64", 8},
             [SAFETENSORS_FLOAT8_E4M3] = {"F8_E4M3", 1},
             [SAFETENSORS_FLOAT8_E5M2] = {"F8_E5M2", 1}};

enum { TYPE_COUNT = sizeof types / sizeof types[0] };
enum { HEADER_DEPTH_MAX = 4 /* header, tensor, list, number */ };

size_t safetensors_type_bytes(enum safetensors_type type)
{
    return types[type].bytes;
}

const char *safetensors_type_name(enum safetensors_type type)
{
    return types[type].name;
}

bool safetensors_tensor_bytes(const struct safetensors_tensor *tensor, size_t *bytes)
{
    *bytes = types[tensor->type].bytes;
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] < 0 || __builtin_mul_overflow(*bytes, (size_t)tensor->shape[i], bytes))
            return false;
    return *bytes <= INT64_MAX;
}

int safetensors_out_of_memory(const char *path, struct error *error)
{
    return error_set(error, -ENOMEM, "not enough memory for the tensors of %s", path);
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
    return damaged(reader, tensor->name, "has a type that is not known (F32 and the like)", error);
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
    if (!safetensors_tensor_bytes(tensor, &tensor->bytes))
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
    return tensor->name ? 0 : safetensors_out_of_memory(reader->path, error);
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
        return safetensors_out_of_memory(reader->path, error);
    json_object_object_foreach (value, key, text) {
        struct safetensors_pair *pair = &file->metadata[file->metadata_count++];

        if (!json_object_is_type(text, json_type_string))
            return error_set(error, -EINVAL, "%s: metadata \"%s\" is no string", reader->path,
                             text_escape_controls(key, shown, sizeof shown));
        pair->key = strdup(key);
        pair->value = strdup(json_object_get_string(text));
        if (!pair->key || !pair->value)
            return safetensors_out_of_memory(reader->path, error);
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
        return safetensors_out_of_memory(reader->path, error);
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
        return safetensors_out_of_memory(reader->path, error);
    json_object_object_foreach (header, name, value) {
        if (strcmp(name, SAFETENSORS_METADATA_KEY) == 0)
            result = read_metadata(reader, value, error);
        else
            result = read_tensor(reader, name, value, &file->tensors[file->tensor_count], error);
        if (result < 0)
            return result;
        file->tensor_count += strcmp(name, SAFETENSORS_METADATA_KEY) != 0;
    }
    return check_places(reader, error);
}

static int map_file(const char *path, struct safetensors *file, struct error *error)
{
    AUTO_CLOSE int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;

    if (descriptor < 0 || fstat(descriptor, &status) < 0)
        return error_set_errno(error, -errno, "cannot open %s", path);
    if (!S_ISREG(status.st_mode) || status.st_size < SAFETENSORS_LENGTH_BYTES + 2)
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
    if (length > SAFETENSORS_HEADER_BYTES_MAX ||
        length > file->mapping_bytes - SAFETENSORS_LENGTH_BYTES) {
        safetensors_close(file);
        return error_set(error, -EINVAL,
                         "%s: its header should take %" PRIu64
                         " bytes, which do not fit; the file is truncated or not safetensors",
                         path, length);
    }
    const char *header = (const char *)file->mapping + SAFETENSORS_LENGTH_BYTES;
    struct reader reader = {.path = path,
                            .data = (const uint8_t *)header + length,
                            .data_bytes = file->mapping_bytes - SAFETENSORS_LENGTH_BYTES - length,
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

static float number_at(const struct safetensors_tensor *tensor, size_t index)
{
    uint32_t bits;
    float number;

    switch (tensor->type) {
    case SAFETENSORS_FLOAT64:
        return (float)((const double *)tensor->data)[index];
    case SAFETENSORS_FLOAT16:
        return half_to_float(((const uint16_t *)tensor->data)[index]);
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
