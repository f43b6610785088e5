/* quantization.c: see quantization.h. */
#include "engine/train/quantization.h"

#include "base/cleanup.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 127 };

int quantization_quantize(const float *weights, int64_t rows, int64_t width, int8_t *quantized,
                          float *scale, struct error *error)
{
    for (int64_t r = 0; r < rows; r++, weights += width, quantized += width) {
        float most = 0;

        for (int64_t i = 0; i < width; i++) {
            if (!isfinite(weights[i]))
                return error_set(error, -EINVAL, "a weight is not a finite number");
            most = fmaxf(most, fabsf(weights[i]));
        }
        /* a row that is too small for the division is as good as 0 */
        scale[r] = most > LARGEST * __FLT_MIN__ ? most / LARGEST : 1.0f;
        for (int64_t i = 0; i < width; i++)
            quantized[i] = (int8_t)lrintf(weights[i] / scale[r]);
    }
    return 0;
}

/* A weight of the session and its float32 numbers, quantized. */
struct quantized_weight {
    struct session_tensor tensor;
    int8_t *values; /* owned */
    float *scale;   /* owned */
};

static void quantized_weight_release(struct quantized_weight *weight)
{
    free(weight->values);
    free(weight->scale);
}

static int quantized_weight_make(const struct checkpoint *checkpoint,
                                 const struct session_tensor *tensor,
                                 struct quantized_weight *weight, struct error *error)
{
    int64_t elements = graph_shape_elements(&tensor->shape), rows = tensor->shape.extent[0];
    AUTO_FREE float *floats = malloc((size_t)elements * sizeof *floats);
    int r;

    *weight = (struct quantized_weight){.tensor = *tensor,
                                        .values = malloc((size_t)elements),
                                        .scale = malloc((size_t)rows * sizeof(float))};
    if (!floats || !weight->values || !weight->scale)
        return error_set_errno(error, -ENOMEM, "cannot quantize the weights");
    r = checkpoint_read_weight(checkpoint, tensor, floats, error);
    if (r == 0 && (r = quantization_quantize(floats, rows, elements / rows, weight->values,
                                             weight->scale, error)) < 0)
        error_prefix(error, "%s", tensor->name);
    return r;
}

/* The weight whose factors the tensor has; false: it has none. */
static bool find_weight(const struct session *session, const char *scale,
                        struct session_tensor *weight)
{
    static const char suffix[] = "_scale";
    size_t length = strlen(scale);

    if (length < sizeof suffix || strcmp(scale + length + 1 - sizeof suffix, suffix) != 0)
        return false;
    length -= sizeof suffix - 1;
    for (int i = 0; session_tensor(session, i, weight) == 0; i++)
        if (weight->type == TENSOR_INT8 && strlen(weight->name) == length &&
            strncmp(weight->name, scale, length) == 0)
            return true;
    return false;
}

/* Writes the tensor number `index`, int8 or its factors. */
static int restore_quantized(const struct checkpoint *checkpoint, struct session *session,
                             int index, const struct session_tensor *weight, bool is_scale,
                             struct error *error)
{
    struct quantized_weight quantized;
    int r = quantized_weight_make(checkpoint, weight, &quantized, error);

    if (r == 0)
        r = session_write(session, index,
                          is_scale ? (const void *)quantized.scale : quantized.values, error);
    quantized_weight_release(&quantized);
    return r;
}

int quantization_restore(const struct checkpoint *checkpoint, struct session *session,
                         struct error *error)
{
    struct session_tensor tensor, weight;
    int r = 0;

    for (int i = 0; r == 0 && session_tensor(session, i, &tensor) == 0; i++) {
        bool is_scale = find_weight(session, tensor.name, &weight);

        if (!tensor.evaluated)
            continue;
        if (is_scale || tensor.type == TENSOR_INT8) {
            r = restore_quantized(checkpoint, session, i, is_scale ? &weight : &tensor, is_scale,
                                  error);
            continue;
        }
        r = checkpoint_read_weight(checkpoint, &tensor, session_scratch(session), error);
        if (r == 0 && tensor.constant)
            session_draw_constant(session, i, session_scratch(session));
        if (r == 0)
            r = session_write(session, i, session_scratch(session), error);
    }
    return r;
}
