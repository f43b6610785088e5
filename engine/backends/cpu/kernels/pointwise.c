/* pointwise.c: the table of operators for which element i of the result depends on element i of the
 * operands alone, with their kernels. */
#include "engine/backends/cpu/kernels/elements.h"
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/kernels/vector_math.h"

#include <math.h>

/* the derivative of erf at 0 */
#define TWO_OVER_ROOT_PI 1.12837916709551257f

typedef void pointwise_function(const struct graph_node *node, const float *a, const float *b,
                                float *y, int64_t count);

static void activation(const struct graph_node *node, const float *x, const float *none, float *y,
                       int64_t count)
{
    (void)none;
    KERNEL_NAME(activation_forward)(node->attributes.activation, x, y, count);
}

static void activation_backward(const struct graph_node *node, const float *dy, const float *saved,
                                float *dx, int64_t count)
{
    KERNEL_NAME(activation_backward)(node->attributes.activation, dy, saved, dx, count);
}

static void add(const struct graph_node *node, const float *a, const float *b, float *y,
                int64_t count)
{
    (void)node;
    KERNEL_NAME(add)(a, b, y, count);
}

static void leaky_relu(const struct graph_node *node, const float *x, const float *none, float *y,
                       int64_t count)
{
    const float slope = node->attributes.negative_slope;

    (void)none;
    FOR_EACH(y[i] = x[i] > 0.0f ? x[i] : slope * x[i])
}

static void leaky_relu_backward(const struct graph_node *node, const float *dy, const float *x,
                                float *dx, int64_t count)
{
    const float slope = node->attributes.negative_slope;

    FOR_EACH(dx[i] = x[i] > 0.0f ? dy[i] : slope * dy[i])
}

static void elu(const struct graph_node *node, const float *x, const float *none, float *y,
                int64_t count)
{
    const float alpha = node->attributes.elu_alpha;

    (void)none;
    FOR_EACH(y[i] = x[i] > 0.0f ? x[i] : alpha * vector_expm1(x[i]))
}

static void elu_backward(const struct graph_node *node, const float *dy, const float *x, float *dx,
                         int64_t count)
{
    const float alpha = node->attributes.elu_alpha;

    FOR_EACH(dx[i] = x[i] > 0.0f ? dy[i] : alpha * dy[i] * vector_exp(x[i]))
}

static void affine(const struct graph_node *node, const float *x, const float *none, float *y,
                   int64_t count)
{
    const float scale = node->attributes.affine.scale, offset = node->attributes.affine.offset;

    (void)none;
    FOR_EACH(y[i] = scale * x[i] + offset)
}

static void function(const struct graph_node *node, const float *x, const float *none, float *y,
                     int64_t count)
{
    const float exponent = node->attributes.function.exponent;

    (void)none;
    switch (node->attributes.function.kind) {
    case FUNCTION_EXP:
        FOR_EACH(y[i] = expf(x[i]))
        break;
    case FUNCTION_LOG:
        FOR_EACH(y[i] = logf(x[i]))
        break;
    case FUNCTION_SQRT:
        FOR_EACH(y[i] = sqrtf(x[i]))
        break;
    case FUNCTION_RECIPROCAL:
        FOR_EACH(y[i] = 1.0f / x[i])
        break;
    case FUNCTION_SIN:
        FOR_EACH(y[i] = sinf(x[i]))
        break;
    case FUNCTION_COS:
        FOR_EACH(y[i] = cosf(x[i]))
        break;
    case FUNCTION_ERF:
        FOR_EACH(y[i] = erff(x[i]))
        break;
    case FUNCTION_POWER:
        FOR_EACH(y[i] = powf(x[i], exponent))
        break;
    }
}

static void function_backward(const struct graph_node *node, const float *dy, const float *x,
                              float *dx, int64_t count)
{
    const float exponent = node->attributes.function.exponent;

    switch (node->attributes.function.kind) {
    case FUNCTION_EXP:
        FOR_EACH(dx[i] = dy[i] * expf(x[i]))
        break;
    case FUNCTION_LOG:
        FOR_EACH(dx[i] = dy[i] / x[i])
        break;
    case FUNCTION_SQRT:
        FOR_EACH(dx[i] = dy[i] * 0.5f / sqrtf(x[i]))
        break;
    case FUNCTION_RECIPROCAL:
        FOR_EACH(dx[i] = -dy[i] / (x[i] * x[i]))
        break;
    case FUNCTION_SIN:
        FOR_EACH(dx[i] = dy[i] * cosf(x[i]))
        break;
    case FUNCTION_COS:
        FOR_EACH(dx[i] = -dy[i] * sinf(x[i]))
        break;
    case FUNCTION_ERF:
        FOR_EACH(dx[i] = dy[i] * TWO_OVER_ROOT_PI * expf(-x[i] * x[i]))
        break;
    case FUNCTION_POWER: /* of exponent 0, at 0 too */
        FOR_EACH(dx[i] = exponent == 0.0f ? 0.0f : dy[i] * exponent * powf(x[i], exponent - 1.0f))
        break;
    }
}

static pointwise_function *const functions[OP_COUNT] = {
    [OP_ACTIVATION] = activation,
    [OP_ACTIVATION_BACKWARD] = activation_backward,
    [OP_ADD] = add,
    [OP_LEAKY_RELU] = leaky_relu,
    [OP_LEAKY_RELU_BACKWARD] = leaky_relu_backward,
    [OP_AFFINE] = affine,
    [OP_ELU] = elu,
    [OP_ELU_BACKWARD] = elu_backward,
    [OP_FUNCTION] = function,
    [OP_FUNCTION_BACKWARD] = function_backward,
};

void KERNEL_NAME(pointwise)(const struct graph_node *node, const float *a, const float *b, float *y,
                            int64_t count)
{
    functions[node->op](node, a, b, y, count);
}
