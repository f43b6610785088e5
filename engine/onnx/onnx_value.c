/* onnx_value.c: what operators read of the present node: inputs, attributes, lists of numbers; and
 * the errors and the memory of an import. See onnx_value.h. */
#include "engine/onnx/onnx_value.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct onnx_block {
    struct onnx_block *next;
    max_align_t content[];
};

void *onnx_allocate(struct onnx_import *import, size_t count, size_t bytes)
{
    struct onnx_block *block = NULL;
    size_t size;

    if (!__builtin_mul_overflow(count, bytes, &size) && size < SIZE_MAX / 2)
        block = calloc(1, sizeof *block + size);
    if (!block) {
        if (!import->error.code)
            error_no_memory(&import->error, "the model's constants");
        return NULL;
    }
    block->next = import->blocks;
    import->blocks = block;
    return block->content;
}

void onnx_blocks_release(struct onnx_import *import)
{
    while (import->blocks) {
        struct onnx_block *block = import->blocks;

        import->blocks = block->next;
        free(block);
    }
}

int onnx_fail(struct onnx_import *import, const char *format, ...)
{
    char sentence[ERROR_TEXT_MAX - 256];
    va_list arguments;

    if (import->error.code)
        return import->error.code;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return error_set(&import->error, -EINVAL, "node %s (%s) of the model: %s", import->node->name,
                     import->node->proto->op_type, sentence);
}

struct onnx_extent_text onnx_extent_text(int64_t extent)
{
    struct onnx_extent_text result;

    if (extent < ONNX_BATCH)
        snprintf(result.text, sizeof result.text, "%lld", (long long)extent);
    else if (extent == ONNX_BATCH)
        snprintf(result.text, sizeof result.text, "the batch");
    else
        snprintf(result.text, sizeof result.text, "the batch times %lld",
                 (long long)(extent / ONNX_BATCH));
    return result;
}

int onnx_missing(struct onnx_import *import, const char *format, ...)
{
    char reason[256];
    char *grown = NULL;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    for (int i = 0; i < import->node->output_count; i++)
        if (import->node->output[i] >= 0)
            import->values[import->node->output[i]].kind = ONNX_UNKNOWN;
    if (import->missing_count++ >= ONNX_LISTED_MAX)
        return 0;
    if (asprintf(&grown, "%s%s%s (node %s)%s%s", import->missing ? import->missing : "",
                 import->missing ? ", " : "", import->node->proto->op_type, import->node->name,
                 *reason ? ": " : "", reason) < 0)
        return 0;
    free(import->missing);
    import->missing = grown;
    return 0;
}

const struct onnx_value *onnx_input(const struct onnx_import *import, int index)
{
    static const struct onnx_value absent = {.kind = ONNX_ABSENT};

    if (index >= import->node->input_count || import->node->input[index] < 0)
        return &absent;
    if (index < ONNX_REPLACED_MAX && import->replaced[index].kind != ONNX_ABSENT)
        return &import->replaced[index];
    return &import->values[import->node->input[index]];
}

bool onnx_has_input(const struct onnx_import *import, int index)
{
    return onnx_input(import, index)->kind != ONNX_ABSENT;
}

struct onnx_value *onnx_output(struct onnx_import *import, int index)
{
    if (index >= import->node->output_count || import->node->output[index] < 0)
        return &import->nowhere;
    return &import->values[import->node->output[index]];
}

bool onnx_output_is_read(const struct onnx_import *import, int index)
{
    int32_t output = onnx_node_output(import->node, index);

    return output >= 0 && import->model->readers[output] > 0;
}

bool onnx_more_is_read(const struct onnx_import *import)
{
    for (int i = 1; i < import->node->output_count; i++)
        if (onnx_output_is_read(import, i))
            return true;
    return false;
}

/* The types of the ONNX standard. Files that proto3 wrote leave out numbers that are 0. */
enum { TYPE_FLOAT = 1, TYPE_INT = 2 };

int64_t onnx_attribute_int(const struct onnx_import *import, const char *name, int64_t fallback)
{
    const Onnx__Attribute *attribute = onnx_attribute(import->node, name);

    return attribute && (attribute->has_i || attribute->type == TYPE_INT) ? attribute->i : fallback;
}

float onnx_attribute_float(const struct onnx_import *import, const char *name, float fallback)
{
    const Onnx__Attribute *attribute = onnx_attribute(import->node, name);

    return attribute && (attribute->has_f || attribute->type == TYPE_FLOAT) ? attribute->f
                                                                            : fallback;
}

const char *onnx_attribute_text(const struct onnx_import *import, const char *name,
                                const char *fallback, char *buffer, size_t size)
{
    const Onnx__Attribute *attribute = onnx_attribute(import->node, name);

    if (!attribute || !attribute->has_s)
        return fallback;
    snprintf(buffer, size, "%.*s", (int)(attribute->s.len < size ? attribute->s.len : size),
             (const char *)attribute->s.data);
    return buffer;
}

int onnx_integers(struct onnx_import *import, const char *name, int index, int64_t *numbers,
                  int most)
{
    const struct onnx_value *value = index < 0 ? NULL : onnx_input(import, index);
    const Onnx__Attribute *attribute = onnx_attribute(import->node, name);
    int64_t count;

    if (value && value->kind == ONNX_CONSTANT)
        count = onnx_value_elements(value);
    else if (value && value->kind != ONNX_ABSENT)
        return onnx_fail(import, "%s depends on the samples", name);
    else if (attribute)
        count = (int64_t)attribute->n_ints;
    else
        return -1;
    if (count > most)
        return onnx_fail(import, "%s has %lld numbers, at most %d are possible", name,
                         (long long)count, most);
    for (int i = 0; i < count; i++)
        numbers[i] =
            value && value->kind == ONNX_CONSTANT ? onnx_integer(value, i) : attribute->ints[i];
    return (int)count;
}

int onnx_axis(struct onnx_import *import, int64_t axis, int rank)
{
    rank -= import->alone;
    if (axis < -rank || axis >= rank) {
        onnx_fail(import, "there is no axis %lld of %d", (long long)axis, rank);
        return -1;
    }
    return (int)(axis < 0 ? axis + rank : axis) + import->alone;
}
