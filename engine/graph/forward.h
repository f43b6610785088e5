/* forward.h: the forward operators and the losses: the functions that build the forward part of a
 * training graph. */
#pragma once

#include "engine/graph/graph.h"

/* Forward operators: each appends a node and returns the id of its result, or a negative errno.
 * `name` is the layer's: it prefixes the names of its tensors ("3" gives the parameters "3.weight"
 * and "3.bias") and appears in messages. If shapes do not agree, the error names the layer and the
 * shapes. Initial weights are drawn as PyTorch draws them. */
int32_t graph_input(struct graph *graph, enum tensor_type type, const int64_t *sample_shape,
                    int rank);
/* The lengths of the sequences, an input beside the samples: each 1 to the number of steps. */
int32_t graph_lengths(struct graph *graph);
int32_t graph_linear(struct graph *graph, int32_t input, const char *name, int64_t features,
                     bool bias);
/* The same with parameters that the graph has already: weight[O,I] and bias[O] (-1: none). Others
 * may use them, too: an output may be tied to an embedding (Press and Wolf 2016,
 * arXiv:1608.05859). */
int32_t graph_linear_shared(struct graph *graph, int32_t input, const char *name, int32_t weight,
                            int32_t bias);
int32_t graph_conv2d(struct graph *graph, int32_t input, const char *name, int64_t channels,
                     const struct conv_attributes *attributes, bool bias);
/* Pools take a padding of at most half the kernel; dilation and groups must be 1. */
int32_t graph_max_pool2d(struct graph *graph, int32_t input, const char *name,
                         const struct conv_attributes *attributes);
int32_t graph_average_pool2d(struct graph *graph, int32_t input, const char *name,
                             const struct conv_attributes *attributes);
/* The mean, or the largest number, of windows that divide the image into height x width parts as
 * equal as possible; neighbours may share a row or column. */
int32_t graph_adaptive_average_pool2d(struct graph *graph, int32_t input, const char *name,
                                      int64_t height, int64_t width);
int32_t graph_adaptive_max_pool2d(struct graph *graph, int32_t input, const char *name,
                                  int64_t height, int64_t width);
/* The parameters are "<name>.weight" [C,channels/groups,kh,kw] and "<name>.bias". output_padding is
 * added to the height and width of the result, which several sizes of a convolution's operand
 * share. */
int32_t graph_conv_transpose2d(struct graph *graph, int32_t input, const char *name,
                               int64_t channels, const struct conv_attributes *attributes,
                               const int output_padding[2], bool bias);
int32_t graph_resize2d(struct graph *graph, int32_t input, const char *name,
                       const struct resize *resize);
/* The same for sequences [B,C,L] -> [B,C',L'], by what the attributes say of axis 1. `scale` is
 * that of struct resize. */
int32_t graph_conv1d(struct graph *graph, int32_t input, const char *name, int64_t channels,
                     const struct conv_attributes *attributes, bool bias);
int32_t graph_conv_transpose1d(struct graph *graph, int32_t input, const char *name,
                               int64_t channels, const struct conv_attributes *attributes,
                               int output_padding, bool bias);
int32_t graph_max_pool1d(struct graph *graph, int32_t input, const char *name,
                         const struct conv_attributes *attributes);
int32_t graph_average_pool1d(struct graph *graph, int32_t input, const char *name,
                             const struct conv_attributes *attributes);
int32_t graph_adaptive_average_pool1d(struct graph *graph, int32_t input, const char *name,
                                      int64_t length);
int32_t graph_adaptive_max_pool1d(struct graph *graph, int32_t input, const char *name,
                                  int64_t length);
int32_t graph_resize1d(struct graph *graph, int32_t input, const char *name, int64_t length,
                       double scale, enum resize_mode mode);
/* The mean of each channel: [B,C,H,W] -> [B,C,1,1]. */
int32_t graph_global_average_pool2d(struct graph *graph, int32_t input, const char *name);
int32_t graph_batch_norm(struct graph *graph, int32_t input, const char *name, float epsilon,
                         float momentum);
/* Normalises the channels of each sample [B,C,...] in groups. */
int32_t graph_group_norm(struct graph *graph, int32_t input, const char *name, int groups,
                         float epsilon);
/* Normalise the last dimension, the row. `bias`: the layer has one. */
int32_t graph_layer_norm(struct graph *graph, int32_t input, const char *name, float epsilon,
                         bool bias);
int32_t graph_rms_norm(struct graph *graph, int32_t input, const char *name, float epsilon);
/* The same of input + residual; `sum` receives that tensor, for the next residual. */
int32_t graph_add_layer_norm(struct graph *graph, int32_t input, int32_t residual, const char *name,
                             float epsilon, bool bias, int32_t *sum);
int32_t graph_add_rms_norm(struct graph *graph, int32_t input, int32_t residual, const char *name,
                           float epsilon, int32_t *sum);
/* Attention among the steps of a sequence. `input` is [B,T,3D]: of each step the query, the key and
 * the value, in each of which the heads lie side by side. `lengths`: an int32 input [B] with the
 * steps of each sequence that may be attended to, or -1 for all. */
int32_t graph_attention(struct graph *graph, int32_t input, const char *name, int heads,
                        bool causal, int32_t lengths);
/* Rotary positions (Su et al. 2021, arXiv:2104.09864) for such an input: of each head's query and
 * key, number i of the first half and number i of the second half are turned by the angle
 * step / base^(2i / width). */
int32_t graph_rotary(struct graph *graph, int32_t input, const char *name, int heads, float base);
/* A parameter of that whole name, for the layers below. */
int32_t graph_parameter(struct graph *graph, const char *name, const struct graph_shape *shape,
                        struct initializer initializer);
/* A parameter of that whole name, or a statistic, whose first values are given. */
int32_t graph_given_parameter(struct graph *graph, const char *name, bool statistic,
                              const struct graph_shape *shape, struct initializer initializer);
/* Makes the next layer that has a parameter "<layer>.<suffix>" take this tensor instead of a new
 * one. Its shape must be what the layer wants. `suffix` must outlive that layer's call. */
void graph_bind_parameter(struct graph *graph, const char *suffix, int32_t tensor);
/* Adds a parameter of T x D numbers to each sequence [B,T,D]. */
int32_t graph_add_positions(struct graph *graph, int32_t input, const char *name,
                            int32_t positions);
/* Pixels as steps: [B,C,H,W] -> [B,HW,C]. */
int32_t graph_image_tokens(struct graph *graph, int32_t input, const char *name);
/* Steps as the only row of pixels of an image: [B,T,D] -> [B,D,1,T]. */
int32_t graph_token_image(struct graph *graph, int32_t input, const char *name);
/* The same of steps that are the pixels of images, row by row: [B,HW,C] -> [B,C,H,W]. */
int32_t graph_tokens_to_image(struct graph *graph, int32_t input, const char *name, int64_t height,
                              int64_t width);
/* Puts a parameter of D numbers before each sequence: [B,T,D] -> [B,1+T,D]. */
int32_t graph_prepend_token(struct graph *graph, int32_t input, const char *name, int32_t token);
int32_t graph_activation(struct graph *graph, int32_t input, const char *name,
                         enum activation_kind kind);
int32_t graph_leaky_relu(struct graph *graph, int32_t input, const char *name,
                         float negative_slope);
int32_t graph_elu(struct graph *graph, int32_t input, const char *name, float alpha);
int32_t graph_embedding(struct graph *graph, int32_t input, const char *name, int64_t vocabulary,
                        int64_t width);
/* Returns `input` itself when the graph is not for training or `probability` is 0. */
int32_t graph_dropout(struct graph *graph, int32_t input, const char *name, float probability);
/* Drops whole samples (Huang et al. 2016, arXiv:1603.09382; torchvision's StochasticDepth in mode
 * "row"). Returns `input` itself in the same cases as graph_dropout(). */
int32_t graph_stochastic_depth(struct graph *graph, int32_t input, const char *name,
                               float probability);
/* Drops whole channels of samples [B,C,...]. Returns `input` itself in the same cases. */
int32_t graph_channel_dropout(struct graph *graph, int32_t input, const char *name,
                              float probability);
int32_t graph_add(struct graph *graph, int32_t a, int32_t b, const char *name);
/* Multiplies each channel of the images in `input` by its number in `scale`. */
int32_t graph_channel_scale(struct graph *graph, int32_t input, int32_t scale, const char *name);
/* Reshapes to [B, all other extents multiplied]. Returns `input` itself if it has that shape. */
int32_t graph_flatten(struct graph *graph, int32_t input, const char *name);
/* The same numbers of each sample, row-major, in another shape of `rank` extents. Returns `input`
 * itself if it has that shape. */
int32_t graph_reshape(struct graph *graph, int32_t input, const char *name, const int64_t *sample,
                      int rank);
/* One direction of layer `number` of an LSTM or GRU: [B,T,F] -> [B,T,hidden]. Parameters have
 * torch's names: "<name>.weight_ih_l0", "<name>.bias_hh_l1_reverse". `lengths`: a tensor, or -1 if
 * all sequences are as long as the batch. */
struct recurrent_layer {
    enum recurrent_cell cell;
    int64_t hidden;
    int number;
    bool reverse;
    /* It begins with the state that the batch before left, not with 0, and no gradient passes from
     * batch to batch. Not with lengths */
    bool carries_state;
};
int32_t graph_recurrent(struct graph *graph, int32_t input, int32_t lengths, const char *name,
                        const struct recurrent_layer *layer);
/* Places of h0 and c0 among its node's inputs, where state is carried; and of the weights' scale,
 * where they are int8. */
enum { RECURRENT_H0 = 4, RECURRENT_C0, RECURRENT_SCALE };
/* The results of a recurrent layer; -1: it has none. */
struct recurrent_results {
    int32_t y, gates, cells, last_h, last_c;
};
struct recurrent_results graph_recurrent_results(const struct graph_node *node);
/* Makes recurrent layers that carry state leave it to the next batch: appends the OP_CARRY_STATE
 * behind the forward part or, in a graph for training, behind the backward part, which reads the
 * state before the first step. After graph_recompute(). */
int graph_carry_states(struct graph *graph, struct error *error);
/* Gates of the cell, by which the rows of its weights are multiplied. */
int recurrent_cell_gates(enum recurrent_cell cell);
/* [B,T] int32 -> [B] int32: the lengths of sequences of symbols that `padding` fills up. */
int32_t graph_sequence_lengths(struct graph *graph, int32_t input, const char *name,
                               int32_t padding);
/* The lengths that sequences of such lengths have behind convolutions and pools. */
int32_t graph_window_lengths(struct graph *graph, int32_t lengths, const char *name,
                             const struct window_lengths *windows);
/* [B,T,F]: what lies behind the end of each sequence becomes 0. */
int32_t graph_mask_steps(struct graph *graph, int32_t input, int32_t lengths, const char *name);
/* [B,T,F] -> [B,F]: the last step of each sequence; with `reverse` the first one, at which a layer
 * that reads backwards ends. */
int32_t graph_last_step(struct graph *graph, int32_t input, int32_t lengths, const char *name,
                        bool reverse);
/* [B,T,F] -> [B,F]: the first step. */
int32_t graph_first_step(struct graph *graph, int32_t input, const char *name);
/* [B,T,F] -> [B,F]: the mean over the steps of each sequence, without its padding. */
int32_t graph_mean_over_time(struct graph *graph, int32_t input, int32_t lengths, const char *name);
/* The largest number of each feature: [B,T,F] -> [B,F]. `lengths` (-1: all are T) is an int32
 * tensor with the length of each sequence, 1 to T; the padding behind it does not count. */
int32_t graph_max_over_time(struct graph *graph, int32_t input, int32_t lengths, const char *name);
/* Tensors side by side along their last axis, images along their channels; their other extents must
 * agree. At most GRAPH_OUTPUTS_MAX. */
int32_t graph_concatenate(struct graph *graph, const int32_t *inputs, int count, const char *name);
/* The parts of such a tensor, of these widths, into `outputs`. 0 or a negative errno. */
int graph_split(struct graph *graph, int32_t input, const int64_t *widths, int count,
                int32_t *outputs, const char *name);
/* Columns `first` to before first + count of rows: [B,F] -> [B,count], or [B,T,F]. */
int32_t graph_slice(struct graph *graph, int32_t input, int64_t first, int64_t count,
                    const char *name);
/* The axes of each sample in another order: a tensor of rank 2 or 3 -> [B,F], F being the last of
 * the axes that `permute` orders, or with more than one axis before it [B,T,F]. */
int32_t graph_permute(struct graph *graph, int32_t input, const struct permute_attributes *permute,
                      const char *name);
/* scale x + offset */
int32_t graph_affine(struct graph *graph, int32_t input, float scale, float offset,
                     const char *name);
/* Combines a with b, which has fewer elements or as many (struct broadcast_attributes). a has rank
 * 2 or 3, or any rank if b has as many elements. */
int32_t graph_broadcast(struct graph *graph, int32_t a, int32_t b,
                        const struct broadcast_attributes *broadcast, const char *name);
/* A function of each number. */
int32_t graph_function(struct graph *graph, int32_t input,
                       const struct function_attributes *function, const char *name);
/* Rows of a tensor of rank 2 or 3, or of a parameter, by their numbers in `map` (struct
 * take_attributes): [B,outer to inner]. */
int32_t graph_take(struct graph *graph, int32_t input, int32_t map,
                   const struct take_attributes *take, const char *name);
/* How many numbers the map of such rows has; fills the part of it that the gradient reads, from the
 * `to` numbers that stand at its beginning. */
int64_t take_map_elements(const struct take_attributes *take);
void take_map_invert(const struct take_attributes *take, double *map);
/* Sums over an axis of a tensor of rank 2 or 3 (struct axis_sum_attributes): [B,outer inner]. */
int32_t graph_axis_sum(struct graph *graph, int32_t input, const struct axis_sum_attributes *sum,
                       const char *name);
/* The softmax of each row. */
int32_t graph_softmax(struct graph *graph, int32_t input, const char *name);
/* Products of matrices of which a sample of a and b has `groups` each; both have rank 2 or 3. */
int32_t graph_batch_product(struct graph *graph, int32_t a, int32_t b,
                            const struct batch_product_attributes *product, const char *name);
/* Numbers of nucleotides and behind them those of the reverse complement: [B,T] -> [B,2T].
 * complement[i] is the symbol that pairs with symbol i; a number outside of `symbols` stays. */
int32_t graph_both_strands(struct graph *graph, int32_t input, const uint8_t *complement,
                           int symbols, const char *name);
/* The parameters are "<name>.weight" [D,1,kernel] and "<name>.bias" [D]. */
enum { CAUSAL_KERNEL_MAX = 16 };
struct causal_conv {
    int kernel, sequences; /* struct time_attributes */
    bool reverse, silu;
};
int32_t graph_causal_conv1d(struct graph *graph, int32_t input, const char *name,
                            const struct causal_conv *conv);
/* The parameters are "<name>.A_log" [D,N] and "<name>.D" [D]. delta is what softplus is applied to.
 * z may be -1: no gate. */
enum { SCAN_CHUNK = 32 };
struct scan_inputs {
    int32_t u, delta, b, c, z;
    int sequences; /* struct time_attributes */
    bool reverse;
};
int32_t graph_selective_scan(struct graph *graph, const struct scan_inputs *scan, const char *name);

/* Replaces the initializer of a parameter, whose id graph_find_tensor() gives; the default is that
 * of PyTorch's layer. */
int graph_set_initializer(struct graph *graph, int32_t parameter, struct initializer initializer);

/* Append the loss that ends the forward part, and make the target input: labels, probabilities of
 * the classes (soft), or values (MSE). */
int32_t graph_cross_entropy(struct graph *graph, int32_t logits);
int32_t graph_soft_cross_entropy(struct graph *graph, int32_t logits);
int32_t graph_mse(struct graph *graph, int32_t prediction);
/* Of several quantiles, prediction[B, F quantiles] has those of a value side by side. */
int32_t graph_value_loss(struct graph *graph, int32_t prediction,
                         const struct value_loss_config *config);
/* Of one label for each row [B,C]; gamma 0 is the cross entropy. */
int32_t graph_focal_loss(struct graph *graph, int32_t logits, float gamma);
/* Of one label for each row [B,C], whose classes are in order. */
int32_t graph_ordinal_loss(struct graph *graph, int32_t logits);
/* Of one label for each row [B,F], the embedding of a sample. */
int32_t graph_triplet_loss(struct graph *graph, int32_t embeddings,
                           const struct triplet_loss_config *config);
/* Appends the sum of the losses of the heads, at most GRAPH_HEADS_MAX, and its target. */
int32_t graph_head_losses(struct graph *graph, int32_t logits, const struct loss_head *heads,
                          int count);
