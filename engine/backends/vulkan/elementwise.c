/* elementwise.c: operators whose element i depends on element i of the operands alone, and
 * dropout. */
#include "base/philox.h"
#include "engine/backends/vulkan/operators.h"

#include <errno.h>
#include <math.h>

/* shaders/activations.glsl and pointwise.comp have these numbers */
_Static_assert(ACTIVATION_RELU == 0 && ACTIVATION_SILU == 1 && ACTIVATION_GELU == 2 &&
                   ACTIVATION_TANH == 3 && ACTIVATION_SIGMOID == 4 && ACTIVATION_HARDSWISH == 5 &&
                   ACTIVATION_HARDSIGMOID == 6 && ACTIVATION_RELU6 == 7 &&
                   ACTIVATION_GELU_TANH == 8 && ACTIVATION_MISH == 9 && ACTIVATION_SOFTPLUS == 10,
               "as in activations.glsl");
_Static_assert(FUNCTION_EXP == 0 && FUNCTION_LOG == 1 && FUNCTION_SQRT == 2 &&
                   FUNCTION_RECIPROCAL == 3 && FUNCTION_SIN == 4 && FUNCTION_COS == 5 &&
                   FUNCTION_ERF == 6,
               "as in pointwise.comp");

enum { WORKGROUP = 256 };

/* What pointwise.comp computes for a node. */
struct pointwise {
    uint32_t operation, kind;
    float first, second;
};

static struct pointwise describe_pointwise(const struct graph_node *node)
{
    switch (node->op) {
    case OP_ACTIVATION:
        return (struct pointwise){POINTWISE_ACTIVATION, node->attributes.activation, 0, 0};
    case OP_ACTIVATION_BACKWARD:
        return (struct pointwise){POINTWISE_ACTIVATION_BACKWARD, node->attributes.activation, 0, 0};
    case OP_AFFINE:
        return (struct pointwise){POINTWISE_AFFINE, 0, node->attributes.affine.scale,
                                  node->attributes.affine.offset};
    case OP_LEAKY_RELU:
        return (struct pointwise){POINTWISE_LEAKY_RELU, 0, node->attributes.negative_slope, 0};
    case OP_LEAKY_RELU_BACKWARD:
        return (struct pointwise){POINTWISE_LEAKY_RELU_BACKWARD, 0, node->attributes.negative_slope,
                                  0};
    case OP_ELU:
        return (struct pointwise){POINTWISE_ELU, 0, node->attributes.elu_alpha, 0};
    case OP_ELU_BACKWARD:
        return (struct pointwise){POINTWISE_ELU_BACKWARD, 0, node->attributes.elu_alpha, 0};
    case OP_FUNCTION:
        return (struct pointwise){POINTWISE_FUNCTION, node->attributes.function.kind,
                                  node->attributes.function.exponent, 0};
    case OP_FUNCTION_BACKWARD:
        return (struct pointwise){POINTWISE_FUNCTION_BACKWARD, node->attributes.function.kind,
                                  node->attributes.function.exponent, 0};
    default:
        return (struct pointwise){POINTWISE_ADD, 0, 0, 0};
    }
}

int pointwise_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const struct pointwise pointwise = describe_pointwise(node);
    const int64_t count = program_elements(program, node->output[0]);
    const bool has_second = node->input_count > 1;
    struct {
        VkDeviceAddress a, b, y;
        uint32_t count;
        float first, second;
    } push = {.a = program_address(program, node->input[0]),
              .b = program_address(program, has_second ? node->input[1] : -1),
              .y = program_address(program, node->output[0]),
              .first = pointwise.first,
              .second = pointwise.second};
    const bool pairs = record_has_pairs(push.a | push.b | push.y, count);
    const struct launch launch = {
        .shader = SHADER_pointwise,
        .constants = {WORKGROUP, pointwise.operation, pointwise.kind, has_second, pairs},
        .constant_count = 5,
        .push = &push,
        .push_bytes = sizeof push,
        .addresses = 3,
        .groups = {record_groups(pairs ? count / 2 : count, WORKGROUP)}};

    push.count = (uint32_t)(pairs ? count / 2 : count);
    return record_launch(recorder, &launch, error);
}

/* How many neighbours share a number of the mask. */
static int64_t mask_row(const struct graph *graph, const struct graph_node *node)
{
    const struct graph_shape *shape = &graph->tensors[node->output[0]].shape;
    int64_t elements = graph_shape_elements(shape);

    if (node->op == OP_CHANNEL_DROPOUT || node->op == OP_CHANNEL_DROPOUT_BACKWARD)
        return elements / (shape->extent[0] * shape->extent[1]);
    return node->attributes.dropout.rows ? elements / graph->batch : 1;
}

int dropout_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];
    const int64_t count = program_elements(program, node->output[0]);
    const float probability = node->attributes.dropout.probability;
    const uint64_t stream = philox_stream(PHILOX_DROPOUT, node->attributes.dropout.dropout_stream);
    const struct {
        VkDeviceAddress x, y, scalars;
        uint32_t count, row, stream[2], threshold;
        float scale;
    } push = {.x = program_address(program, node->input[0]),
              .y = program_address(program, node->output[0]),
              .scalars = recorder->scalars,
              .count = (uint32_t)count,
              .row = (uint32_t)mask_row(program->graph, node),
              .stream = {(uint32_t)stream, (uint32_t)(stream >> 32)},
              .threshold = (uint32_t)ceil((double)probability * 0x1p24),
              .scale = 1.0f / (1.0f - probability)};
    const struct launch launch = {.shader = SHADER_dropout,
                                  .constants = {WORKGROUP},
                                  .constant_count = 1,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .addresses = 3,
                                  .groups = {record_groups(count, WORKGROUP)}};

    return record_launch(recorder, &launch, error);
}
