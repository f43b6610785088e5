/* safetensors_writer.c: writes files in the safetensors format. See safetensors.h. */
#include "base/alignment.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/text.h"
#include "engine/train/auto_json.h"
#include "engine/train/safetensors_internal.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct safetensors_writer {
    char *path, *temporary;
    int descriptor;
    struct sha256 hash;
    uint64_t written, expected; /* of the whole file */
};

static int check_tensors(const char *path, struct safetensors_tensor *tensors, int count,
                         struct error *error)
{
    for (int i = 0; i < count; i++) {
        struct safetensors_tensor *tensor = &tensors[i];

        if (!tensor->name[0] || strcmp(tensor->name, SAFETENSORS_METADATA_KEY) == 0 ||
            !text_is_utf8(tensor->name, strlen(tensor->name)))
            return error_set(error, -EINVAL, "%s: tensor %d has no usable name (\"%s\")", path, i,
                             tensor->name);
        if (tensor->rank < 0 || tensor->rank > SAFETENSORS_RANK_MAX ||
            !safetensors_tensor_bytes(tensor, &tensor->bytes))
            return error_set(error, -EINVAL, "%s: tensor %s has an impossible shape", path,
                             tensor->name);
        if (i && safetensors_type_bytes(tensor->type) > safetensors_type_bytes(tensor[-1].type))
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
    json_object_object_add(object, "dtype",
                           json_object_new_string(safetensors_type_name(tensor->type)));
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
        json_object_object_add(header, SAFETENSORS_METADATA_KEY, pairs);
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
    static const char blanks[SAFETENSORS_LENGTH_BYTES] = "        ";
    size_t length;
    const char *text = json_object_to_json_string_length(
        header, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &length);
    int result;

    if (!text)
        return safetensors_out_of_memory(writer->path, error);
    size_t padded = align_up(length, SAFETENSORS_LENGTH_BYTES);
    uint64_t stored = htole64(padded);
    if (padded > SAFETENSORS_HEADER_BYTES_MAX)
        return error_set(error, -EFBIG, "%s: the header would take %zu bytes, more than %d",
                         writer->path, padded, SAFETENSORS_HEADER_BYTES_MAX);
    writer->expected = SAFETENSORS_LENGTH_BYTES + padded + data_bytes;
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
        return safetensors_out_of_memory(path, error);
    made->descriptor = -1;
    made->path = strdup(path);
    if (!made->path || asprintf(&made->temporary, "%s.tmp", path) < 0) {
        made->temporary = NULL;
        result = safetensors_out_of_memory(path, error);
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
    result = file_sync_folder(AT_FDCWD, writer->path);
    if (result < 0)
        error_set_errno(error, result, "cannot sync the folder of %s", writer->path);
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
