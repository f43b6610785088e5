/* operators.h: the functions that record the operators' work, by their files. A node may need
 * workspace: the functions beside them tell how many bytes. operators.c has the table. */
#pragma once

#include "engine/backends/vulkan/vulkan.h"

/* ---- attention.c ---- */

vulkan_operator attention_run, attention_backward_run, rotary_run;
size_t attention_backward_workspace(const struct graph *graph, const struct graph_node *node);

/* ---- batch_norm.c ---- */

vulkan_operator batch_norm_run, batch_norm_frozen_backward_run, batch_norm_backward_run;
size_t batch_norm_workspace(const struct graph *graph, const struct graph_node *node);

/* ---- convolution.c ---- */

vulkan_operator convolution_run, convolution_backward_data_run, convolution_backward_weights_run;
size_t convolution_workspace(const struct graph *graph, const struct graph_node *node);
size_t convolution_backward_weights_workspace(const struct graph *graph,
                                              const struct graph_node *node);
/* For operands whose channels lie side by side, behind the rest of the workspace. */
size_t convolution_last_workspace(const struct graph *graph, const struct graph_node *node);

/* ---- elementwise.c ---- */

vulkan_operator pointwise_run, dropout_run;

/* ---- embedding.c ---- */

vulkan_operator embedding_run, embedding_backward_run;
size_t embedding_backward_workspace(const struct graph *graph, const struct graph_node *node);

/* ---- general.c ---- */

vulkan_operator columns_run, concatenate_run, permute_run, take_run, axis_sum_run,
    axis_sum_backward_run, broadcast_run, broadcast_backward_second_run;

/* ---- group_norm.c ---- */

vulkan_operator group_norm_run, group_norm_backward_run;
size_t group_norm_workspace(const struct graph *graph, const struct graph_node *node);

/* ---- images.c ---- */

vulkan_operator channel_pointwise_run, channel_scale_backward_run, channel_bias_backward_run,
    resize_run;
size_t channel_bias_backward_workspace(const struct graph *graph, const struct graph_node *node);

/* ---- linear.c ---- */

vulkan_operator linear_run, linear_backward_data_run, linear_backward_weights_run;
size_t linear_backward_weights_workspace(const struct graph *graph, const struct graph_node *node);

/* ---- losses.c ---- */

vulkan_operator cross_entropy_run, cross_entropy_backward_run, mse_run;
size_t loss_workspace(const struct graph *graph, const struct graph_node *node);
/* Adds up what the rows of a loss have left in the node's workspace: the losses and, behind them,
 * which rows are `correct`, or the labels that each has (TARGET_COUNTS). */
int record_loss_sum(struct recorder *recorder, int32_t index, uint32_t target, bool counts_correct,
                    struct error *error);

/* ---- pooling.c ---- */

vulkan_operator pool_run, pool_backward_run;

/* ---- quantization.c ---- */

vulkan_operator fake_quantize_run, fake_quantize_rows_run;
size_t fake_quantize_workspace(const struct graph *graph, const struct graph_node *node);

/* ---- recurrent.c ---- */

vulkan_operator recurrent_run, recurrent_backward_run, recurrent_backward_weights_run,
    carry_state_run;
size_t recurrent_workspace(const struct graph *graph, const struct graph_node *node);
size_t recurrent_backward_workspace(const struct graph *graph, const struct graph_node *node);
size_t recurrent_backward_weights_workspace(const struct graph *graph,
                                            const struct graph_node *node);

/* ---- row_norm.c ---- */

vulkan_operator row_norm_run, row_norm_backward_run;
size_t row_norm_backward_workspace(const struct graph *graph, const struct graph_node *node);

/* ---- scan.c ---- */

vulkan_operator selective_scan_run, selective_scan_backward_run;
size_t selective_scan_workspace(const struct graph *graph, const struct graph_node *node);
size_t selective_scan_backward_workspace(const struct graph *graph, const struct graph_node *node);

/* ---- sequences.c ---- */

vulkan_operator sequence_lengths_run, window_lengths_run, mask_steps_run, both_strands_run,
    causal_conv_run, causal_conv_backward_run;
size_t causal_conv_backward_workspace(const struct graph *graph, const struct graph_node *node);

/* ---- softmax.c ---- */

vulkan_operator softmax_run, batch_product_run;

/* ---- time_pool.c ---- */

vulkan_operator time_pool_run, time_pool_backward_run;

/* ---- tokens.c ---- */

vulkan_operator add_positions_run, add_positions_backward_run, image_tokens_run, prepend_token_run,
    prepend_token_backward_run;

/* ---- update.c ---- */

vulkan_operator update_run, moving_average_run;
/* What the update rounds parameters to: ROUNDING_... (shaders/shared.h). */
uint32_t update_rounding(const struct graph *graph);
/* The partial sums of the gradients' norm. */
int32_t update_squares(const struct graph *graph);

/* ---- value_losses.c ---- */

vulkan_operator value_loss_run, class_loss_run, head_losses_run, triplet_loss_run,
    triplet_loss_backward_run;
/* Writes the numbers that the loss is set to, and that its shaders read, to `numbers`; returns how
 * many there are. NULL: it only counts. */
int loss_numbers(const struct graph *graph, float *numbers);

/* ---- whole_updates.c ---- */

vulkan_operator update_whole_run;
size_t update_workspace(const struct graph *graph, const struct graph_node *node);
