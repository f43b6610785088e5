/* operators.c: the table from operator to the function that records its work. */
#include "engine/backends/vulkan/vulkan.h"

/* The result lies where the operand does: program.c. */
static int view_run(struct recorder *recorder, int32_t node, struct error *error)
{
    (void)recorder;
    (void)node;
    (void)error;
    return 0;
}

static const struct operator_row {
    vulkan_operator *run; /* NULL: the backend does not have the operator */
    size_t (*workspace)(const struct graph *graph, const struct graph_node *node);
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
    [OP_LINEAR] = {linear_run},
    [OP_LINEAR_BACKWARD_DATA] = {linear_backward_data_run},
    [OP_LINEAR_BACKWARD_WEIGHTS] = {linear_backward_weights_run, .adds = true},
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
    [OP_CONCATENATE] = {columns_run},
    [OP_SPLIT] = {columns_run},
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
    [OP_OPTIMIZER] = {update_run},
    [OP_MOVING_AVERAGE] = {moving_average_run},
};

vulkan_operator *vulkan_operator_of(enum graph_op op)
{
    return rows[op].run;
}

size_t vulkan_operator_workspace(const struct graph *graph, const struct graph_node *node)
{
    return rows[node->op].workspace ? rows[node->op].workspace(graph, node) : 0;
}

bool vulkan_operator_adds(enum graph_op op)
{
    return rows[op].adds;
}
