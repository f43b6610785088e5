/* operators.c: the table of the CPU backend: for each operator, the functions that compute its
 * nodes. */
#include "engine/backends/cpu/program.h"
/* clang-format off */
#define LINEAR .prepare = linear_prepare, .release = linear_release
#define RECURRENT                                                                                 \
    .prepare = recurrent_prepare, .bind = recurrent_bind, .release = recurrent_release
#define CONVOLUTION                                                                               \
    .prepare = convolution_prepare, .bind = convolution_bind, .release = convolution_release,     \
    .suits_tiles = tiles_suit_convolution
#define NORM_ACTIVATIONS                                                                          \
    (FUSION_ACTIVATION(ACTIVATION_RELU) | FUSION_ACTIVATION(ACTIVATION_SILU) |                    \
     FUSION_ACTIVATION(ACTIVATION_HARDSWISH))
#define NORM_FUSES .fuses = {.activations = NORM_ACTIVATIONS, .adds = true}
#define ROW_NORM_BACKWARD .prepare = row_norm_backward_prepare, .bind = row_norm_backward_bind, .adds = true
#define SLICES(step) .bind = slices_bind, .run = step
#define ROTARY .prepare = rotary_prepare, SLICES(rotary_run), .release = rotary_release
#define POINTWISE SLICES(pointwise_run), .elementwise = true
#define TILES(step, suits) .run_tiles = step, .suits_tiles = suits

const struct operator_table cpu_operators = {.by_operator = {
    [OP_LINEAR] = {LINEAR, .bind = linear_bind, .fuses = {.activations = FUSION_ANY_ACTIVATION}},
    [OP_LINEAR_BACKWARD_DATA] = {LINEAR, .bind = linear_bind},
    [OP_LINEAR_BACKWARD_WEIGHTS] = {LINEAR, .bind = linear_backward_weights_bind, .adds = true},
    [OP_CONV2D] = {CONVOLUTION,
                   .fuses = {.activations = FUSION_ACTIVATION(ACTIVATION_RELU)}},
    [OP_CONV2D_BACKWARD_DATA] = {CONVOLUTION},
    [OP_CONV2D_BACKWARD_WEIGHTS] = {CONVOLUTION},
    [OP_MAX_POOL2D] = {SLICES(max_pool_run), TILES(tiles_max_pool_run, tiles_suit_images)},
    [OP_MAX_POOL2D_BACKWARD] = {SLICES(max_pool_backward_run),
                                TILES(tiles_max_pool_backward_run, tiles_suit_images)},
    [OP_AVERAGE_POOL2D] = {SLICES(average_pool_run), TILES(tiles_average_run, tiles_suit_average)},
    [OP_AVERAGE_POOL2D_BACKWARD] = {SLICES(average_pool_backward_run),
                                    TILES(tiles_average_backward_run, tiles_suit_average)},
    [OP_ADAPTIVE_AVERAGE_POOL2D] = {SLICES(adaptive_average_run)},
    [OP_ADAPTIVE_AVERAGE_POOL2D_BACKWARD] = {SLICES(adaptive_average_backward_run)},
    [OP_ADAPTIVE_MAX_POOL2D] = {SLICES(adaptive_max_run)},
    [OP_ADAPTIVE_MAX_POOL2D_BACKWARD] = {SLICES(adaptive_max_backward_run)},
    [OP_RESIZE2D] = {SLICES(resize_run)},
    [OP_RESIZE2D_BACKWARD] = {SLICES(resize_backward_run)},
    [OP_CHANNEL_BIAS] = {SLICES(channel_bias_run)},
    [OP_CHANNEL_BIAS_BACKWARD] = {.bind = channel_bias_backward_bind, .adds = true},
    [OP_GROUP_NORM] = {.prepare = group_norm_prepare, SLICES(group_norm_run)},
    [OP_GROUP_NORM_BACKWARD] = {.prepare = group_norm_prepare, .bind = group_norm_backward_bind,
                                .adds = true},
    [OP_BATCH_NORM] = {.prepare = batch_norm_prepare, .bind = batch_norm_bind, NORM_FUSES,
                       .suits_tiles = tiles_suit_images},
    [OP_BATCH_NORM_APPLY] = {.prepare = batch_norm_prepare, .bind = batch_norm_apply_bind, NORM_FUSES,
                             .suits_tiles = tiles_suit_images},
    [OP_BATCH_NORM_BACKWARD] = {.prepare = batch_norm_prepare, .bind = batch_norm_backward_bind,
                                NORM_FUSES, .suits_tiles = tiles_suit_images},
    [OP_LAYER_NORM] = {.bind = row_norm_bind},
    [OP_ADD_LAYER_NORM] = {.bind = row_norm_bind},
    [OP_LAYER_NORM_BACKWARD] = {ROW_NORM_BACKWARD},
    [OP_RMS_NORM] = {.bind = row_norm_bind},
    [OP_ADD_RMS_NORM] = {.bind = row_norm_bind},
    [OP_RMS_NORM_BACKWARD] = {ROW_NORM_BACKWARD},
    [OP_ATTENTION] = {.prepare = attention_prepare, .bind = attention_bind},
    [OP_ATTENTION_BACKWARD] = {.prepare = attention_prepare, .bind = attention_bind},
    [OP_ROTARY] = {ROTARY},
    [OP_ROTARY_BACKWARD] = {ROTARY},
    [OP_ADD_POSITIONS] = {SLICES(add_positions_run)},
    [OP_ADD_POSITIONS_BACKWARD] = {.bind = add_positions_backward_bind, .adds = true},
    [OP_IMAGE_TOKENS] = {.prepare = image_tokens_prepare, SLICES(image_tokens_run)},
    [OP_TOKEN_IMAGE] = {.prepare = image_tokens_prepare, SLICES(token_image_run)},
    [OP_PREPEND_TOKEN] = {SLICES(prepend_token_run)},
    [OP_PREPEND_TOKEN_BACKWARD] = {.bind = prepend_token_backward_bind, .adds = true},
    [OP_ACTIVATION] = {POINTWISE, TILES(tiles_relu_run, tiles_suit_relu)},
    [OP_ACTIVATION_BACKWARD] = {POINTWISE,
                                TILES(tiles_relu_backward_run, tiles_suit_relu)},
    [OP_EMBEDDING] = {.bind = embedding_bind},
    [OP_EMBEDDING_BACKWARD] = {.bind = embedding_bind, .adds = true},
    [OP_DROPOUT] = {SLICES(dropout_run)},
    [OP_DROPOUT_BACKWARD] = {SLICES(dropout_run)},
    [OP_CHANNEL_DROPOUT] = {.prepare = channel_dropout_prepare, SLICES(channel_dropout_run)},
    [OP_CHANNEL_DROPOUT_BACKWARD] = {.prepare = channel_dropout_prepare,
                                     SLICES(channel_dropout_run)},
    [OP_ADD] = {POINTWISE, TILES(tiles_add_run, tiles_suit_images)},
    [OP_LEAKY_RELU] = {POINTWISE},
    [OP_LEAKY_RELU_BACKWARD] = {POINTWISE},
    [OP_ELU] = {POINTWISE},
    [OP_ELU_BACKWARD] = {POINTWISE},
    [OP_CHANNEL_SCALE] = {SLICES(channel_scale_run)},
    [OP_CHANNEL_SCALE_BACKWARD] = {SLICES(channel_scale_backward_run)},
    [OP_RESHAPE] = {.prepare = reshape_prepare, SLICES(reshape_run),
                    TILES(tiles_reshape_run, tiles_suit_images)},
    [OP_MAX_OVER_TIME] = {SLICES(max_over_time_run)},
    [OP_MAX_OVER_TIME_BACKWARD] = {SLICES(max_over_time_backward_run)},
    [OP_CONCATENATE] = {SLICES(concatenate_run)},
    [OP_SPLIT] = {SLICES(split_run)},
    [OP_SLICE] = {SLICES(slice_run)},
    [OP_SLICE_BACKWARD] = {SLICES(slice_backward_run)},
    [OP_PERMUTE] = {SLICES(permute_run)},
    [OP_AFFINE] = {POINTWISE},
    [OP_BROADCAST] = {SLICES(broadcast_run)},
    [OP_BROADCAST_BACKWARD_FIRST] = {SLICES(broadcast_backward_first_run)},
    [OP_BROADCAST_BACKWARD_SECOND] = {.bind = broadcast_backward_second_bind, .adds = true},
    [OP_SOFTMAX] = {SLICES(softmax_run)},
    [OP_SOFTMAX_BACKWARD] = {SLICES(softmax_backward_run)},
    [OP_BATCH_PRODUCT] = {SLICES(batch_product_run)},
    [OP_BOTH_STRANDS] = {SLICES(both_strands_run)},
    [OP_CAUSAL_CONV1D] = {.bind = causal_conv_bind},
    [OP_CAUSAL_CONV1D_BACKWARD] = {.prepare = causal_conv_backward_prepare,
                                   .bind = causal_conv_backward_bind, .adds = true},
    [OP_SELECTIVE_SCAN] = {.prepare = selective_scan_prepare, .bind = selective_scan_bind},
    [OP_SELECTIVE_SCAN_BACKWARD] = {.prepare = selective_scan_prepare,
                                    .bind = selective_scan_backward_bind, .adds = true},
    [OP_CAST] = {.prepare = cast_prepare, .bind = cast_bind, .release = cast_release,
                 .suits_tiles = tiles_suit_all},
    [OP_RECURRENT] = {RECURRENT},
    [OP_RECURRENT_BACKWARD] = {RECURRENT},
    [OP_RECURRENT_BACKWARD_WEIGHTS] = {.prepare = recurrent_weights_prepare,
                                       .bind = recurrent_weights_bind,
                                       .release = recurrent_weights_release},
    [OP_CARRY_STATE] = {.bind = carry_state_bind},
    [OP_SEQUENCE_LENGTHS] = {SLICES(sequence_lengths_run)},
    [OP_WINDOW_LENGTHS] = {SLICES(window_lengths_run)},
    [OP_MASK_STEPS] = {SLICES(mask_steps_run)},
    [OP_LAST_STEP] = {SLICES(last_step_run)},
    [OP_LAST_STEP_BACKWARD] = {SLICES(last_step_backward_run)},
    [OP_MEAN_OVER_TIME] = {SLICES(mean_over_time_run)},
    [OP_MEAN_OVER_TIME_BACKWARD] = {SLICES(mean_over_time_backward_run)},
    [OP_CROSS_ENTROPY] = {.bind = cross_entropy_bind, .run = cross_entropy_run},
    [OP_CROSS_ENTROPY_BACKWARD] = {.bind = cross_entropy_bind,
                                   .run = cross_entropy_backward_run},
    [OP_MSE] = {SLICES(mse_run)},
    [OP_MSE_BACKWARD] = {SLICES(mse_backward_run)},
    [OP_VALUE_LOSS] = {SLICES(value_loss_run)},
    [OP_VALUE_LOSS_BACKWARD] = {SLICES(value_loss_backward_run)},
    [OP_FOCAL_LOSS] = {SLICES(focal_loss_run)},
    [OP_FOCAL_LOSS_BACKWARD] = {SLICES(focal_loss_backward_run)},
    [OP_HEAD_LOSSES] = {SLICES(head_losses_run)},
    [OP_HEAD_LOSSES_BACKWARD] = {SLICES(head_losses_backward_run)},
    [OP_OPTIMIZER] = {.bind = optimizer_bind},
    [OP_MOVING_AVERAGE] = {.bind = moving_average_bind},
}, .muon = {.prepare = muon_prepare, .bind = muon_bind, .release = muon_release}};
/* clang-format on */

bool graph_suits_tiles(const struct graph *graph)
{
    return tiles_suit_graph(&cpu_operators, graph);
}
