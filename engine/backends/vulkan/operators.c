/* operators.c: the table from operator to the function that records its work. */
#include "engine/backends/vulkan/operators.h"

#include "engine/backends/vulkan/matrices.h"

/* The result lies where the operand does (program.c), unless they are stored in two types. */
static int view_run(struct recorder *recorder, int32_t index, struct error *error)
{
    const struct backend_program *program = recorder->program;
    const struct graph_node *node = &program->graph->nodes[index];

    if (program->alias[node->output[0]] >= 0)
        return 0;
    return record_copy(recorder, program_address(program, node->input[0]),
                       program_address(program, node->output[0]),
                       program_elements(program, node->output[0]), error);
}

static const struct operator_row {
    vulkan_operator *run; /* NULL: the backend does not have the operator */
    size_t (*workspace)(const struct graph *graph, const struct graph_node *node);
    /* what it needs besides where cooperative matrices multiply the graph's type */
    size_t (*matrices_workspace)(const struct graph *graph, const struct graph_node *node);
    bool adds; /* it can add to a gradient that another node has written */
} rows[OP_COUNT] = {
    [OP_ACTIVATION] = {pointwise_run},
    [OP_ACTIVATION_BACKWARD] = {pointwise_run},
    [OP_LEAKY_RELU] = {pointwise_run},
    [OP_LEAKY_RELU_BACKWARD] = {pointwise_run},
    [OP_ELU] = {pointwise_run},
    [OP_ELU_BACKWARD] = {pointwise_run},
    [OP_ADD] = {pointwise_run},
    [OP_AFFINE] = {pointwise_run},
    [OP_FUNCTION] = {pointwise_run},
    [OP_FUNCTION_BACKWARD] = {pointwise_run},
    [OP_DROPOUT] = {dropout_run},
    [OP_DROPOUT_BACKWARD] = {dropout_run},
    [OP_CHANNEL_DROPOUT] = {dropout_run},
    [OP_CHANNEL_DROPOUT_BACKWARD] = {dropout_run},
    [OP_RESHAPE] = {view_run},
    [OP_CAST] = {view_run},
    [OP_LINEAR] = {linear_run},
    [OP_LINEAR_BACKWARD_DATA] = {linear_backward_data_run},
    [OP_LINEAR_BACKWARD_WEIGHTS] = {linear_backward_weights_run, linear_backward_weights_workspace,
                                    .adds = true},
    [OP_SLICE] = {columns_run},
    [OP_SLICE_BACKWARD] = {columns_run},
    [OP_CONCATENATE] = {concatenate_run},
    [OP_SPLIT] = {concatenate_run},
    [OP_PERMUTE] = {permute_run},
    [OP_TAKE] = {take_run},
    [OP_TAKE_BACKWARD] = {take_run, .adds = true},
    [OP_AXIS_SUM] = {axis_sum_run},
    [OP_AXIS_SUM_BACKWARD] = {axis_sum_backward_run},
    [OP_BROADCAST] = {broadcast_run},
    [OP_BROADCAST_BACKWARD_FIRST] = {broadcast_run},
    [OP_BROADCAST_BACKWARD_SECOND] = {broadcast_backward_second_run, .adds = true},
    [OP_FAKE_QUANTIZE] = {fake_quantize_run, fake_quantize_workspace},
    [OP_FAKE_QUANTIZE_BACKWARD] = {fake_quantize_run},
    [OP_FAKE_QUANTIZE_ROWS] = {fake_quantize_rows_run},
    [OP_CONV2D] = {convolution_run, convolution_workspace, convolution_last_workspace},
    [OP_CONV2D_BACKWARD_DATA] = {convolution_backward_data_run, convolution_workspace,
                                 convolution_last_workspace},
    [OP_CONV2D_BACKWARD_WEIGHTS] = {convolution_backward_weights_run,
                                    convolution_backward_weights_workspace,
                                    convolution_last_workspace, .adds = true},
    [OP_MAX_POOL2D] = {pool_run},
    [OP_MAX_POOL2D_BACKWARD] = {pool_backward_run},
    [OP_AVERAGE_POOL2D] = {pool_run},
    [OP_AVERAGE_POOL2D_BACKWARD] = {pool_backward_run},
    [OP_ADAPTIVE_AVERAGE_POOL2D] = {pool_run},
    [OP_ADAPTIVE_AVERAGE_POOL2D_BACKWARD] = {pool_backward_run},
    [OP_ADAPTIVE_MAX_POOL2D] = {pool_run},
    [OP_ADAPTIVE_MAX_POOL2D_BACKWARD] = {pool_backward_run},
    [OP_RESIZE2D] = {resize_run},
    [OP_RESIZE2D_BACKWARD] = {resize_run},
    [OP_CHANNEL_SCALE] = {channel_pointwise_run},
    [OP_CHANNEL_SCALE_BACKWARD] = {channel_scale_backward_run},
    [OP_CHANNEL_BIAS] = {channel_pointwise_run},
    [OP_CHANNEL_BIAS_BACKWARD] = {channel_bias_backward_run, channel_bias_backward_workspace,
                                  .adds = true},
    [OP_BATCH_NORM] = {batch_norm_run, batch_norm_workspace},
    [OP_BATCH_NORM_APPLY] = {batch_norm_run, batch_norm_workspace},
    [OP_BATCH_NORM_BACKWARD] = {batch_norm_backward_run, batch_norm_workspace, .adds = true},
    [OP_BATCH_NORM_FROZEN_BACKWARD] = {batch_norm_frozen_backward_run},
    [OP_GROUP_NORM] = {group_norm_run, group_norm_workspace},
    [OP_GROUP_NORM_BACKWARD] = {group_norm_backward_run, group_norm_workspace, .adds = true},
    [OP_EMBEDDING] = {embedding_run},
    [OP_EMBEDDING_BACKWARD] = {embedding_backward_run, embedding_backward_workspace, .adds = true},
    [OP_LAYER_NORM] = {row_norm_run},
    [OP_ADD_LAYER_NORM] = {row_norm_run},
    [OP_LAYER_NORM_BACKWARD] = {row_norm_backward_run, row_norm_backward_workspace, .adds = true},
    [OP_RMS_NORM] = {row_norm_run},
    [OP_ADD_RMS_NORM] = {row_norm_run},
    [OP_RMS_NORM_BACKWARD] = {row_norm_backward_run, row_norm_backward_workspace, .adds = true},
    [OP_ATTENTION] = {attention_run},
    [OP_ATTENTION_BACKWARD] = {attention_backward_run, attention_backward_workspace},
    [OP_ROTARY] = {rotary_run},
    [OP_ROTARY_BACKWARD] = {rotary_run},
    [OP_ADD_POSITIONS] = {add_positions_run},
    [OP_ADD_POSITIONS_BACKWARD] = {add_positions_backward_run, .adds = true},
    [OP_IMAGE_TOKENS] = {image_tokens_run},
    [OP_TOKEN_IMAGE] = {image_tokens_run},
    [OP_PREPEND_TOKEN] = {prepend_token_run},
    [OP_PREPEND_TOKEN_BACKWARD] = {prepend_token_backward_run, .adds = true},
    [OP_RECURRENT] = {recurrent_run, recurrent_workspace},
    [OP_RECURRENT_BACKWARD] = {recurrent_backward_run, recurrent_backward_workspace},
    [OP_RECURRENT_BACKWARD_WEIGHTS] = {recurrent_backward_weights_run,
                                       recurrent_backward_weights_workspace, .adds = true},
    [OP_CARRY_STATE] = {carry_state_run},
    [OP_SEQUENCE_LENGTHS] = {sequence_lengths_run},
    [OP_WINDOW_LENGTHS] = {window_lengths_run},
    [OP_MASK_STEPS] = {mask_steps_run},
    [OP_LAST_STEP] = {time_pool_run},
    [OP_LAST_STEP_BACKWARD] = {time_pool_backward_run},
    [OP_MEAN_OVER_TIME] = {time_pool_run},
    [OP_MEAN_OVER_TIME_BACKWARD] = {time_pool_backward_run},
    [OP_MAX_OVER_TIME] = {time_pool_run},
    [OP_MAX_OVER_TIME_BACKWARD] = {time_pool_backward_run},
    [OP_SOFTMAX] = {softmax_run},
    [OP_SOFTMAX_BACKWARD] = {softmax_run},
    [OP_BATCH_PRODUCT] = {batch_product_run},
    [OP_BOTH_STRANDS] = {both_strands_run},
    [OP_CAUSAL_CONV1D] = {causal_conv_run},
    [OP_CAUSAL_CONV1D_BACKWARD] = {causal_conv_backward_run, causal_conv_backward_workspace,
                                   .adds = true},
    [OP_SELECTIVE_SCAN] = {selective_scan_run, selective_scan_workspace},
    [OP_SELECTIVE_SCAN_BACKWARD] = {selective_scan_backward_run, selective_scan_backward_workspace,
                                    .adds = true},
    [OP_CROSS_ENTROPY] = {cross_entropy_run, loss_workspace},
    [OP_CROSS_ENTROPY_BACKWARD] = {cross_entropy_backward_run},
    [OP_MSE] = {mse_run, loss_workspace},
    [OP_MSE_BACKWARD] = {mse_run},
    [OP_VALUE_LOSS] = {value_loss_run, loss_workspace},
    [OP_VALUE_LOSS_BACKWARD] = {value_loss_run},
    [OP_FOCAL_LOSS] = {class_loss_run, loss_workspace},
    [OP_FOCAL_LOSS_BACKWARD] = {class_loss_run},
    [OP_ORDINAL_LOSS] = {class_loss_run, loss_workspace},
    [OP_ORDINAL_LOSS_BACKWARD] = {class_loss_run},
    [OP_HEAD_LOSSES] = {head_losses_run, loss_workspace},
    [OP_HEAD_LOSSES_BACKWARD] = {head_losses_run},
    [OP_TRIPLET_LOSS] = {triplet_loss_run, loss_workspace},
    [OP_TRIPLET_LOSS_BACKWARD] = {triplet_loss_backward_run},
    [OP_OPTIMIZER] = {update_run, update_workspace},
    [OP_MOVING_AVERAGE] = {moving_average_run},
};

vulkan_operator *vulkan_operator_of(enum graph_op op)
{
    return rows[op].run;
}

size_t vulkan_operator_workspace(const struct backend_program *program,
                                 const struct graph_node *node)
{
    const struct operator_row *row = &rows[node->op];
    size_t bytes = row->workspace ? row->workspace(program->graph, node) : 0;

    if (row->matrices_workspace && matrices_of_program(program))
        bytes += row->matrices_workspace(program->graph, node);
    return bytes;
}

bool vulkan_operator_adds(enum graph_op op)
{
    return rows[op].adds;
}
