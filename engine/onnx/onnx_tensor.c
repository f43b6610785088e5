/* onnx_tensor.c: the numbers of a tensor message, which lie in one of several fields or in another
 * file; see onnx_model.h. */
#include "base/cleanup.h"
#include "engine/onnx/onnx_model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

unsigned onnx_type_bytes(enum onnx_type type)
{
    switch (type) {
    case ONNX_FLOAT:
    case ONNX_INT32:
        return 4;
    case ONNX_INT64:
    case ONNX_DOUBLE:
        return 8;
    case ONNX_FLOAT16:
    case ONNX_BFLOAT16:
    case ONNX_INT16:
        return 2;
    case ONNX_UINT8:
    case ONNX_INT8:
    case ONNX_BOOL:
        return 1;
    }
    return 0;
}

bool onnx_type_is_float(enum onnx_type type)
{
    return type == ONNX_FLOAT || type == ONNX_DOUBLE || type == ONNX_FLOAT16 ||
           type == ONNX_BFLOAT16;
}

bool onnx_shape_fits(int rank, const int64_t *extent)
{
    int64_t strides = 1;

    for (int r = 0; r < rank; r++)
        if (extent[r] < 0 || __builtin_mul_overflow(strides, extent[r] ? extent[r] : 1, &strides))
            return false;
    return true;
}

static const char *name_of(const Onnx__Tensor *tensor)
{
    return tensor->name && *tensor->name ? tensor->name : "of a constant";
}

/* ---- other files ---- */

void onnx_externals_release(struct onnx_model *model)
{
    for (int i = 0; i < model->external_count; i++) {
        if (model->externals[i].bytes)
            munmap(model->externals[i].content, model->externals[i].bytes);
        free(model->externals[i].path);
    }
    free(model->externals);
}

/* Whether the path stays in the model's folder: weights from elsewhere would be a surprise. */
static bool path_is_inside(const char *path)
{
    size_t length;

    if (*path == '/' || !*path)
        return false;
    for (; *path; path += length + (path[length] == '/')) {
        length = strcspn(path, "/");
        if (length == 2 && path[0] == '.' && path[1] == '.')
            return false;
    }
    return true;
}

static bool lies_below(const char *path, const char *folder)
{
    size_t length = strlen(folder);

    length -= length && folder[length - 1] == '/';
    return strncmp(path, folder, length) == 0 && path[length] == '/';
}

/* Whether the file, without symbolic links, lies in the model's folder, or in that in which the
 * model's file really lies: a cache of models may have links to both. onnxruntime asks the same. */
static bool is_beside_model(const struct onnx_model *model, const char *real)
{
    AUTO_FREE char *folder = realpath(model->directory, NULL);
    AUTO_FREE char *file = realpath(model->path, NULL);
    char *slash = file ? strrchr(file, '/') : NULL;

    if (folder && lies_below(real, folder))
        return true;
    if (!slash)
        return false;
    *slash = '\0';
    return lies_below(real, file);
}

static int external_map(const struct onnx_model *model, struct onnx_external *external,
                        struct error *error)
{
    AUTO_FREE char *real = realpath(external->path, NULL);
    AUTO_CLOSE int file = real ? open(real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW) : -1;
    struct stat status;

    if (file < 0)
        return error_set_errno(error, -errno, "the file %s, which holds weights of the model",
                               external->path);
    if (!is_beside_model(model, real))
        return error_set(error, -EINVAL,
                         "%s, which should hold weights of the model, is a link to %s, outside of "
                         "the model's folder: copy the file there",
                         external->path, real);
    if (fstat(file, &status) < 0 || !S_ISREG(status.st_mode))
        return error_set(error, -EINVAL, "%s, which should hold weights of the model, is no file",
                         external->path);
    if (status.st_size == 0)
        return 0;
    external->content = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (external->content == MAP_FAILED)
        return error_set_errno(error, -errno, "cannot read %s", external->path);
    external->bytes = (size_t)status.st_size;
    return 0;
}

/* The file of weights, mapped the first time that it is asked for. */
static int external_find(struct onnx_model *model, const char *location,
                         const struct onnx_external **result, struct error *error)
{
    struct onnx_external external = {0}, *grown;
    int code;

    if (asprintf(&external.path, "%s/%s", model->directory, location) < 0)
        return error_no_memory(error, "a path");
    for (int i = 0; i < model->external_count; i++)
        if (strcmp(model->externals[i].path, external.path) == 0) {
            free(external.path);
            *result = &model->externals[i];
            return 0;
        }
    grown = realloc(model->externals, ((size_t)model->external_count + 1) * sizeof *grown);
    if (!grown) {
        free(external.path);
        return error_no_memory(error, "the model's files");
    }
    model->externals = grown;
    code = external_map(model, &external, error);
    if (code) {
        free(external.path);
        return code;
    }
    grown[model->external_count] = external;
    *result = &grown[model->external_count++];
    return 0;
}

static const char *pair_find(const Onnx__Tensor *tensor, const char *key)
{
    for (size_t i = 0; i < tensor->n_external_data; i++)
        if (tensor->external_data[i]->key && strcmp(tensor->external_data[i]->key, key) == 0)
            return tensor->external_data[i]->value;
    return NULL;
}

/* The whole number that the weights have by that key; `fallback`: they have none. */
static int pair_number(const Onnx__Tensor *tensor, const char *key, unsigned long long fallback,
                       unsigned long long *number, struct error *error)
{
    const char *text = pair_find(tensor, key);
    char *end = NULL;

    *number = fallback;
    if (!text)
        return 0;
    errno = 0;
    *number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno)
        return error_set(error, -EINVAL,
                         "the weights %s have the %s '%s' in their file, which is no number",
                         name_of(tensor), key, text);
    return 0;
}

static int external_read(struct onnx_model *model, const Onnx__Tensor *tensor, size_t bytes,
                         const void **data, struct error *error)
{
    const char *location = pair_find(tensor, "location");
    const struct onnx_external *external = NULL;
    unsigned long long begin, length;
    int code = pair_number(tensor, "offset", 0, &begin, error);

    if (code == 0)
        code = pair_number(tensor, "length", bytes, &length, error);
    if (code)
        return code;
    if (length != bytes)
        return error_set(error, -EINVAL,
                         "the weights %s have %llu bytes in a file of their own, but their shape "
                         "needs %zu: the model is damaged",
                         name_of(tensor), length, bytes);

    if (!location || !path_is_inside(location))
        return error_set(error, -EINVAL,
                         "the weights %s lie in the file '%s': it must be in the model's folder, "
                         "named without '..'",
                         name_of(tensor), location ? location : "");
    code = external_find(model, location, &external, error);
    if (code)
        return code;
    if (begin > external->bytes || bytes > external->bytes - begin)
        return error_set(error, -EINVAL,
                         "the file %s has %zu bytes, but the weights %s need %zu from %llu on: it "
                         "is cut off, or another model's",
                         external->path, external->bytes, name_of(tensor), bytes, begin);
    *data = (const char *)external->content + begin;
    return 0;
}

/* ---- numbers ---- */

/* Numbers of the field that the type has. */
static size_t field_numbers(const Onnx__Tensor *tensor, enum onnx_type type)
{
    return type == ONNX_FLOAT    ? tensor->n_float_data
           : type == ONNX_DOUBLE ? tensor->n_double_data
           : type == ONNX_INT64  ? tensor->n_int64_data
                                 : tensor->n_int32_data;
}

/* Writes the numbers of that field, of which there are `have`. */
static void field_copy(const Onnx__Tensor *tensor, enum onnx_type type, size_t have, void *to)
{
    if (!have)
        return;
    if (type == ONNX_FLOAT)
        memcpy(to, tensor->float_data, have * sizeof(float));
    else if (type == ONNX_DOUBLE)
        memcpy(to, tensor->double_data, have * sizeof(double));
    else if (type == ONNX_INT64)
        memcpy(to, tensor->int64_data, have * sizeof(int64_t));
    else if (type == ONNX_INT32)
        memcpy(to, tensor->int32_data, have * sizeof(int32_t));
    else
        for (size_t i = 0; i < have; i++)
            if (onnx_type_bytes(type) == 1)
                ((uint8_t *)to)[i] = (uint8_t)tensor->int32_data[i];
            else
                ((uint16_t *)to)[i] = (uint16_t)tensor->int32_data[i];
}

/* The shape, and its number of elements and of bytes. */
static int shape_read(const Onnx__Tensor *tensor, struct onnx_initializer *result, size_t *bytes,
                      struct error *error)
{
    int64_t count = 1;

    if (tensor->n_dims > ONNX_RANK_MAX)
        return error_set(error, -EINVAL, "the weights %s have %zu dimensions, at most %d are read",
                         name_of(tensor), tensor->n_dims, ONNX_RANK_MAX);
    result->rank = (int)tensor->n_dims;
    if (result->rank)
        memcpy(result->extent, tensor->dims, tensor->n_dims * sizeof *tensor->dims);
    if (!onnx_shape_fits(result->rank, result->extent))
        return error_set(error, -EINVAL, "the weights %s have an impossible shape",
                         name_of(tensor));
    for (int i = 0; i < result->rank; i++)
        count *= result->extent[i];
    result->store.count = count;
    if (__builtin_mul_overflow((size_t)count, onnx_type_bytes(result->store.type), bytes) ||
        count > INT64_MAX / 64)
        return error_set(error, -EINVAL, "the weights %s have an impossible shape",
                         name_of(tensor));
    return 0;
}

/* Numbers of a field of their own are copied to a buffer of their type. */
static int inline_read(const Onnx__Tensor *tensor, struct onnx_initializer *result, size_t bytes,
                       void **made, struct error *error)
{
    struct onnx_store *store = &result->store;

    if (tensor->has_raw_data && tensor->raw_data.len == bytes) {
        store->data = tensor->raw_data.data;
        return 0;
    }
    if (tensor->has_raw_data)
        return error_set(error, -EINVAL,
                         "the weights %s have %zu bytes, but their shape needs %zu: the file is "
                         "damaged",
                         name_of(tensor), tensor->raw_data.len, bytes);
    if (field_numbers(tensor, store->type) != (size_t)store->count)
        return error_set(error, -EINVAL,
                         "the weights %s have not as many numbers as their shape needs (%lld): the "
                         "file is damaged",
                         name_of(tensor), (long long)store->count);
    *made = malloc(bytes + 1);
    if (!*made)
        return error_no_memory(error, "the weights %s", name_of(tensor));
    store->data = *made;
    field_copy(tensor, store->type, (size_t)store->count, *made);
    return 0;
}

int onnx_tensor_read(struct onnx_model *model, const Onnx__Tensor *tensor,
                     struct onnx_initializer *result, void **made, struct error *error)
{
    size_t bytes = 0;
    int code;

    *made = NULL;
    *result = (struct onnx_initializer){.store = {.type = (enum onnx_type)tensor->data_type}};
    if (onnx_type_bytes(result->store.type) == 0)
        return error_set(error, -ERROR_UNSUPPORTED,
                         "the weights %s are of type %d of the ONNX standard, which traind does "
                         "not read; it reads floating-point numbers of 16 to 64 bits, whole "
                         "numbers and booleans",
                         name_of(tensor), tensor->data_type);
    code = shape_read(tensor, result, &bytes, error);
    if (code)
        return code;
    if (tensor->data_location == 1)
        return external_read(model, tensor, bytes, &result->store.data, error);
    return inline_read(tensor, result, bytes, made, error);
}
