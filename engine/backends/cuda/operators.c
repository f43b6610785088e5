/* operators.c: the functions that launch the work of each node, apart from products and the
 * update. */
#include "engine/backends/cuda/general.h"
#include "engine/backends/cuda/transformer.h"
#include "engine/graph/forward.h"
#include "engine/graph/operator.h"
#include "engine/graph/optimizer.h"

#include <errno.h>
#include <string.h>

static int64_t result_elements(const struct backend_program *program, const struct graph_node *node)
{
    return program_elements(program, node->output[0]);
}

static int checked(struct backend_program *program, const struct graph_node *node,
                   cudaError_t status, struct error *error)
{
    (void)program;
    return status == cudaSuccess ? 0 : cuda_fail(error, status, node->name);
}

int cuda_nothing(struct backend_program *program, int32_t index, struct error *error)
{
    (void)program;
    (void)index;
    (void)error;
    return 0;
}

int cuda_done_forward(struct backend_program *program, int32_t index, struct error *error)
{
    if (program->run.phases & PROGRAM_FORWARD)
        return 0;
    return error_set(error, -EINVAL, "%s: the backward part runs with the forward part",
                     program->graph->nodes[index].name);
}

/* Runs an operator for which element i of the result depends on element i of the operands alone. */
static int run_pointwise(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    int32_t second = node->input_count > 1 ? node->input[1] : -1;

    return checked(program, node,
                   cuda_pointwise(node, program_array(program, node->input[0]),
                                  program_array(program, second),
                                  program_array(program, node->output[0]),
                                  result_elements(program, node), program->device->stream),
                   error);
}

static int run_dropout(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    int64_t count = result_elements(program, node);
    struct cuda_layout layout = program_layout(program, node->output[0]);
    struct cuda_dropout_shape shape = {.pixels = layout.pixels};

    if (node->attributes.dropout.rows)
        shape.row = count / program->graph->batch;
    else if (layout.channels > 1 && layout.pixels > 1)
        shape.channels = layout.channels;
    return checked(program, node,
                   cuda_dropout(program->step_scalars, node->attributes.dropout.dropout_stream,
                                node->attributes.dropout.probability, &shape,
                                program_array(program, node->input[0]),
                                program_array(program, node->output[0]), count,
                                program->device->stream),
                   error);
}

static int run_cast(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];

    if (program->alias[node->output[0]] >= 0)
        return 0;
    return checked(program, node,
                   cuda_cast(program_array(program, node->input[0]),
                             program_array(program, node->output[0]),
                             result_elements(program, node), program->device->stream),
                   error);
}

static int run_embedding(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct graph_shape *table = &program->graph->tensors[node->input[1]].shape;

    return checked(program, node,
                   cuda_embedding((const int32_t *)program->address[node->input[0]],
                                  program_floats(program, node->input[1]),
                                  program_array(program, node->output[0]),
                                  program_elements(program, node->input[0]), table->extent[1],
                                  table->extent[0], program->device->stream),
                   error);
}

static int run_embedding_backward(struct backend_program *program, int32_t index,
                                  struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct graph_shape *table = &program->graph->tensors[node->output[0]].shape;

    return checked(
        program, node,
        cuda_embedding_backward((const int32_t *)program->address[node->input[0]],
                                program_array(program, node->input[1]),
                                program_floats(program, node->output[0]),
                                program_elements(program, node->input[0]), table->extent[1],
                                table->extent[0], program_accumulates(program, node, 0),
                                (float *)program->workspace[index], program->device->stream),
        error);
}

/* The sums of its parts, if there are several. */
static size_t embedding_workspace(const struct graph *graph, const struct graph_node *node)
{
    const struct graph_shape *table = &graph->tensors[node->output[0]].shape;
    int64_t count = graph_shape_elements(&graph->tensors[node->input[0]].shape);
    int parts = cuda_embedding_parts(count, table->extent[0]);

    return parts > 1 ? (size_t)(parts * table->extent[0] * table->extent[1]) * sizeof(float) : 0;
}

/* Converts between rows and images. If both are stored in the same order, the result is an alias or
 * a cast. */
static int run_reshape(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    struct cuda_array x = program_array(program, node->input[0]);
    struct cuda_array y = program_array(program, node->output[0]);
    int64_t count = result_elements(program, node);
    cudaStream_t stream = program->device->stream;

    if (program->alias[node->output[0]] >= 0)
        return 0;
    return checked(
        program, node,
        program_is_channels_last(program, node->output[0])
            ? cuda_layout_store(program_layout(program, node->output[0]), x, y, 0, count, stream)
            : cuda_layout_load(program_layout(program, node->input[0]), x, y, 0, count, stream),
        error);
}

/* ---- losses ---------------------------------------------------------------------------------- */

static struct cuda_cross_entropy describe_cross_entropy(const struct backend_program *program,
                                                        const struct graph_node *node,
                                                        int32_t log_sum_exp)
{
    const struct graph_tensor *logits = &program->graph->tensors[node->input[0]];
    const void *target = program->address[node->input[1]];
    bool soft = program->graph->tensors[node->input[1]].type == TENSOR_FLOAT32;
    int64_t classes = logits->shape.extent[logits->shape.rank - 1];

    return (struct cuda_cross_entropy){.control = program->control,
                                       .scalars = program->step_scalars,
                                       .logits = program_floats(program, node->input[0]),
                                       .label = soft ? NULL : target,
                                       .probability = soft ? target : NULL,
                                       .log_sum_exp = program_floats(program, log_sum_exp),
                                       .samples = program->graph->batch,
                                       .rows = program_elements(program, node->input[0]) / classes,
                                       .classes = classes,
                                       .tokens = !soft && logits->shape.rank == 3};
}

static int run_cross_entropy(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_cross_entropy loss = describe_cross_entropy(program, node, node->output[0]);

    return checked(program, node,
                   cuda_cross_entropy(&loss, program->workspace[index], program->device->stream),
                   error);
}

static int run_cross_entropy_backward(struct backend_program *program, int32_t index,
                                      struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct cuda_cross_entropy loss = describe_cross_entropy(program, node, node->input[2]);

    return checked(program, node,
                   cuda_cross_entropy_backward(&loss, program_floats(program, node->output[0]),
                                               program->device->stream),
                   error);
}

static int run_mse(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const float *prediction = program_floats(program, node->input[0]);
    const float *target = program_floats(program, node->input[1]);
    int64_t rows = program->graph->batch;
    int64_t features = program_elements(program, node->input[0]) / rows;
    cudaStream_t stream = program->device->stream;

    return checked(program, node,
                   node->op == OP_MSE
                       ? cuda_mse(program->control, program->step_scalars, prediction, target, rows,
                                  features, program->workspace[index], stream)
                       : cuda_mse_backward(program->step_scalars, prediction, target,
                                           program_floats(program, node->output[0]), rows, features,
                                           stream),
                   error);
}

static int run_value_loss(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const int64_t rows = program->graph->batch;
    const struct cuda_value_loss loss = {
        .control = program->control,
        .scalars = program->step_scalars,
        .prediction = program_floats(program, node->input[0]),
        .target = program_floats(program, node->input[1]),
        .rows = rows,
        .features = program_elements(program, node->input[0]) / rows,
        .targets = program_elements(program, node->input[1]) / rows,
        .config = program->graph->value_loss};
    cudaStream_t stream = program->device->stream;

    return checked(
        program, node,
        node->op == OP_VALUE_LOSS
            ? cuda_value_loss(&loss, program->workspace[index], stream)
            : cuda_value_loss_backward(&loss, program_floats(program, node->output[0]), stream),
        error);
}

/* The focal loss and that of classes in order. */
static int run_class_loss(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const bool forward = node->op == OP_FOCAL_LOSS || node->op == OP_ORDINAL_LOSS;
    const int64_t rows = program->graph->batch;
    const struct cuda_class_loss loss = {
        .control = program->control,
        .scalars = program->step_scalars,
        .logits = program_floats(program, node->input[0]),
        .label = (const int32_t *)program->address[node->input[1]],
        .log_sum_exp = program_floats(program, forward ? node->output[0] : node->input[2]),
        .rows = rows,
        .classes = program_elements(program, node->input[0]) / rows,
        .ordinal = node->op == OP_ORDINAL_LOSS || node->op == OP_ORDINAL_LOSS_BACKWARD,
        .gamma = node->attributes.focal_gamma};
    cudaStream_t stream = program->device->stream;

    return checked(
        program, node,
        forward ? cuda_class_loss(&loss, program->workspace[index], stream)
                : cuda_class_loss_backward(&loss, program_floats(program, node->output[0]), stream),
        error);
}

static int run_triplet_loss(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const bool forward = node->op == OP_TRIPLET_LOSS;
    const int64_t rows = program->graph->batch;
    const struct cuda_triplet_loss loss = {
        .control = program->control,
        .scalars = program->step_scalars,
        .x = program_floats(program, node->input[0]),
        .label = forward ? (const int32_t *)program->address[node->input[1]] : NULL,
        .saved = program_floats(program, forward ? node->output[0] : node->input[1]),
        .rows = rows,
        .row = triplet_row(rows),
        .features = program_elements(program, node->input[0]) / rows,
        .config = node->attributes.triplet};
    cudaStream_t stream = program->device->stream;

    return checked(program, node,
                   forward ? cuda_triplet_loss(&loss, program->workspace[index], stream)
                           : cuda_triplet_loss_backward(
                                 &loss, program_floats(program, node->output[0]), stream),
                   error);
}

static int run_head_losses(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];
    const struct graph *graph = program->graph;
    struct cuda_head_losses losses = {.control = program->control,
                                      .scalars = program->step_scalars,
                                      .logits = program_floats(program, node->input[0]),
                                      .label = (const int32_t *)program->address[node->input[1]],
                                      .rows = graph->batch,
                                      .classes = graph->tensors[node->input[0]].shape.extent[1],
                                      .labels = graph->tensors[node->input[1]].shape.extent[1],
                                      .head_count = graph->head_count};
    cudaStream_t stream = program->device->stream;

    memcpy(losses.heads, graph->heads, sizeof losses.heads);
    return checked(
        program, node,
        node->op == OP_HEAD_LOSSES
            ? cuda_head_losses(&losses, program->workspace[index], stream)
            : cuda_head_losses_backward(&losses, program_floats(program, node->output[0]), stream),
        error);
}

/* ---- statistics ------------------------------------------------------------------------------ */

static int run_moving_average(struct backend_program *program, int32_t index, struct error *error)
{
    const struct graph_node *node = &program->graph->nodes[index];

    return checked(
        program, node,
        cuda_moving_average(program->control, program->step_scalars, program->run.sums_squares,
                            node->attributes.copies, program_floats(program, node->input[1]),
                            program_floats(program, node->input[0]),
                            program_elements(program, node->input[0]), program->device->stream),
        error);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static cuda_operator *const operators[OP_COUNT] = {
    [OP_LINEAR] = linear_run,
    [OP_LINEAR_BACKWARD_DATA] = linear_backward_data_run,
    [OP_LINEAR_BACKWARD_WEIGHTS] = linear_backward_weights_run,
    [OP_CONV2D] = convolution_run,
    [OP_CONV2D_BACKWARD_DATA] = convolution_run,
    [OP_CONV2D_BACKWARD_WEIGHTS] = convolution_backward_weights_run,
    [OP_BATCH_NORM] = norm_run,
    [OP_BATCH_NORM_APPLY] = norm_run,
    [OP_BATCH_NORM_BACKWARD] = norm_backward_run,
    [OP_BATCH_NORM_FROZEN_BACKWARD] = norm_frozen_backward_run,
    [OP_MAX_POOL2D] = max_pool_run,
    [OP_MAX_POOL2D_BACKWARD] = max_pool_backward_run,
    [OP_AVERAGE_POOL2D] = average_pool_run,
    [OP_AVERAGE_POOL2D_BACKWARD] = average_pool_backward_run,
    [OP_CHANNEL_SCALE] = channel_scale_run,
    [OP_CHANNEL_SCALE_BACKWARD] = channel_scale_backward_run,
    [OP_EMBEDDING] = run_embedding,
    [OP_EMBEDDING_BACKWARD] = run_embedding_backward,
    [OP_LAYER_NORM] = row_norm_run,
    [OP_ADD_LAYER_NORM] = row_norm_run,
    [OP_LAYER_NORM_BACKWARD] = row_norm_backward_run,
    [OP_RMS_NORM] = row_norm_run,
    [OP_ADD_RMS_NORM] = row_norm_run,
    [OP_RMS_NORM_BACKWARD] = row_norm_backward_run,
    [OP_ATTENTION] = attention_run,
    [OP_ATTENTION_BACKWARD] = attention_run,
    [OP_ROTARY] = rotary_run,
    [OP_ROTARY_BACKWARD] = rotary_run,
    [OP_ADD_POSITIONS] = add_positions_run,
    [OP_ADD_POSITIONS_BACKWARD] = add_positions_backward_run,
    [OP_IMAGE_TOKENS] = image_tokens_run,
    [OP_TOKEN_IMAGE] = image_tokens_run,
    [OP_PREPEND_TOKEN] = prepend_token_run,
    [OP_PREPEND_TOKEN_BACKWARD] = prepend_token_backward_run,
    [OP_LAST_STEP] = step_pool_run,
    [OP_LAST_STEP_BACKWARD] = step_pool_backward_run,
    [OP_MEAN_OVER_TIME] = step_pool_run,
    [OP_MEAN_OVER_TIME_BACKWARD] = step_pool_backward_run,
    [OP_ACTIVATION] = run_pointwise,
    [OP_ACTIVATION_BACKWARD] = run_pointwise,
    [OP_LEAKY_RELU] = run_pointwise,
    [OP_LEAKY_RELU_BACKWARD] = run_pointwise,
    [OP_AFFINE] = run_pointwise,
    [OP_FUNCTION] = run_pointwise,
    [OP_FUNCTION_BACKWARD] = run_pointwise,
    [OP_ELU] = run_pointwise,
    [OP_ELU_BACKWARD] = run_pointwise,
    [OP_DROPOUT] = run_dropout,
    [OP_DROPOUT_BACKWARD] = run_dropout,
    [OP_ADD] = run_pointwise,
    [OP_CAST] = run_cast,
    [OP_RESHAPE] = run_reshape,
    [OP_CROSS_ENTROPY] = run_cross_entropy,
    [OP_CROSS_ENTROPY_BACKWARD] = run_cross_entropy_backward,
    [OP_MSE] = run_mse,
    [OP_MSE_BACKWARD] = run_mse,
    [OP_VALUE_LOSS] = run_value_loss,
    [OP_VALUE_LOSS_BACKWARD] = run_value_loss,
    [OP_FOCAL_LOSS] = run_class_loss,
    [OP_FOCAL_LOSS_BACKWARD] = run_class_loss,
    [OP_ORDINAL_LOSS] = run_class_loss,
    [OP_ORDINAL_LOSS_BACKWARD] = run_class_loss,
    [OP_TRIPLET_LOSS] = run_triplet_loss,
    [OP_TRIPLET_LOSS_BACKWARD] = run_triplet_loss,
    [OP_HEAD_LOSSES] = run_head_losses,
    [OP_HEAD_LOSSES_BACKWARD] = run_head_losses,
    [OP_RECURRENT] = recurrent_run,
    [OP_RECURRENT_BACKWARD] = recurrent_backward_run,
    [OP_RECURRENT_BACKWARD_WEIGHTS] = recurrent_backward_weights_run,
    [OP_CARRY_STATE] = carry_state_run,
    [OP_SEQUENCE_LENGTHS] = sequence_lengths_run,
    [OP_WINDOW_LENGTHS] = window_lengths_run,
    [OP_MASK_STEPS] = mask_steps_run,
    [OP_MAX_OVER_TIME] = max_over_time_run,
    [OP_MAX_OVER_TIME_BACKWARD] = max_over_time_backward_run,
    [OP_CONCATENATE] = columns_run,
    [OP_SPLIT] = columns_run,
    [OP_BOTH_STRANDS] = both_strands_run,
    [OP_CAUSAL_CONV1D] = causal_conv_run,
    [OP_CAUSAL_CONV1D_BACKWARD] = causal_conv_backward_run,
    [OP_SELECTIVE_SCAN] = selective_scan_run,
    [OP_SELECTIVE_SCAN_BACKWARD] = selective_scan_backward_run,
    [OP_SLICE] = slice_run,
    [OP_SLICE_BACKWARD] = slice_run,
    [OP_PERMUTE] = permute_run,
    [OP_TAKE] = take_run,
    [OP_TAKE_BACKWARD] = take_backward_run,
    [OP_AXIS_SUM] = axis_sum_run,
    [OP_AXIS_SUM_BACKWARD] = axis_sum_run,
    [OP_BROADCAST] = broadcast_run,
    [OP_BROADCAST_BACKWARD_FIRST] = broadcast_backward_first_run,
    [OP_BROADCAST_BACKWARD_SECOND] = broadcast_backward_second_run,
    [OP_SOFTMAX] = softmax_run,
    [OP_SOFTMAX_BACKWARD] = softmax_run,
    [OP_BATCH_PRODUCT] = batch_product_run,
    [OP_FAKE_QUANTIZE] = fake_quantize_run,
    [OP_FAKE_QUANTIZE_BACKWARD] = fake_quantize_backward_run,
    [OP_FAKE_QUANTIZE_ROWS] = fake_quantize_rows_run,
    [OP_ADAPTIVE_AVERAGE_POOL2D] = adaptive_pool_run,
    [OP_ADAPTIVE_AVERAGE_POOL2D_BACKWARD] = adaptive_pool_backward_run,
    [OP_ADAPTIVE_MAX_POOL2D] = adaptive_pool_run,
    [OP_ADAPTIVE_MAX_POOL2D_BACKWARD] = adaptive_pool_backward_run,
    [OP_RESIZE2D] = resize_run,
    [OP_RESIZE2D_BACKWARD] = resize_run,
    [OP_CHANNEL_BIAS] = channel_bias_run,
    [OP_CHANNEL_BIAS_BACKWARD] = channel_bias_backward_run,
    [OP_CHANNEL_DROPOUT] = channel_dropout_run,
    [OP_CHANNEL_DROPOUT_BACKWARD] = channel_dropout_run,
    [OP_GROUP_NORM] = group_norm_run,
    [OP_GROUP_NORM_BACKWARD] = group_norm_backward_run,
    [OP_OPTIMIZER] = update_run,
    [OP_MOVING_AVERAGE] = run_moving_average,
};

cuda_operator *cuda_operator_of(enum graph_op op)
{
    return operators[op];
}

size_t cuda_operator_workspace(const struct graph *graph, const struct graph_node *node)
{
    const struct graph_shape *operand = &graph->tensors[node->input[0]].shape;

    if (node->op == OP_EMBEDDING_BACKWARD)
        return embedding_workspace(graph, node);
    if (graph_node_scales_by_norms(graph, node))
        return (size_t)2 * CUDA_SQUARES_BLOCKS * sizeof(double);
    if (!graph_node_operator(node)->is_loss)
        return transformer_workspace(graph, node) + sequence_workspace(graph, node) +
               general_workspace(graph, node) + spatial_workspace(graph, node);
    return (size_t)(graph_shape_elements(operand) / operand->extent[operand->rank - 1]) *
           CUDA_LOSS_PARTIAL_BYTES;
}

bool cuda_operator_adds(enum graph_op op)
{
    switch (op) {
    case OP_LINEAR_BACKWARD_WEIGHTS:
    case OP_EMBEDDING_BACKWARD:
    case OP_LAYER_NORM_BACKWARD:
    case OP_RMS_NORM_BACKWARD:
    case OP_ADD_POSITIONS_BACKWARD:
    case OP_PREPEND_TOKEN_BACKWARD:
    case OP_RECURRENT_BACKWARD_WEIGHTS:
    case OP_CAUSAL_CONV1D_BACKWARD:
    case OP_SELECTIVE_SCAN_BACKWARD:
    case OP_TAKE_BACKWARD:
    case OP_BROADCAST_BACKWARD_SECOND:
    case OP_CHANNEL_BIAS_BACKWARD:
    case OP_GROUP_NORM_BACKWARD:
        return true;
    default:
        return false;
    }
}
