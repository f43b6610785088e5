/* operator_list.h: the operators of the training graph, each with its inputs -> outputs. "d" means
 * "gradient of the loss by"; "?" marks a tensor that may be absent (-1). B is the batch, C are
 * channels, H W an image's height and width, T steps of a sequence, I O features. Each has a
 * descriptor (operator.h). graph.h includes this list. */
#pragma once

/* clang-format off */
#define GRAPH_OPERATORS(OPERATOR)                                                                 \
    /* x[B,I] weight[O,I] bias[O]? -> y[B,O]; x may be [B,T,I] */                                 \
    OPERATOR(LINEAR, linear)                                                                      \
    /* dy[B,O] weight[O,I] -> dx[B,I] */                                                          \
    OPERATOR(LINEAR_BACKWARD_DATA, linear_backward_data)                                          \
    /* x[B,I] dy[B,O] -> dweight[O,I] dbias[O]? */                                                \
    OPERATOR(LINEAR_BACKWARD_WEIGHTS, linear_backward_weights)                                    \
    /* x[B,I] weight[O,I] int8 bias[O]? scale[O] -> y[B,O]; x may be [B,T,I].                     \
     * graph_quantize() makes it of a LINEAR */                                           \
    OPERATOR(LINEAR_INT8, linear_int8)                                                            \
    /* x[B,I] uint8, weight[O,I] bias[O]? -> y[B,O] = linear((x - mean) factor).                   \
     * graph_read_bytes() makes it of a LINEAR */                                                 \
    OPERATOR(LINEAR_BYTES, linear_bytes)                                                          \
    /* x[B,C,H,W] weight[O,C/groups,kh,kw] bias[O]? -> y[B,O,H',W'] */                            \
    OPERATOR(CONV2D, conv2d)                                                                      \
    /* dy weight -> dx; in the forward part it is a transposed convolution */                     \
    OPERATOR(CONV2D_BACKWARD_DATA, conv2d_backward_data)                                          \
    /* x dy -> dweight dbias? */                                                                  \
    OPERATOR(CONV2D_BACKWARD_WEIGHTS, conv2d_backward_weights)                                    \
    /* x[B,C,H,W] uint8, weight int8, bias[O]?, scale[O], then of a batch norm (or -1) weight bias   \
     * running_mean running_var [O], addend[B,O,H',W'] uint8? -> y, uint8 or float32: what the     \
     * convolution, the norm, the sum and perhaps a ReLU make. graph_quantize() makes it */        \
    OPERATOR(CONV2D_INT8, conv2d_int8)                                                            \
    /* x -> y uint8, same shape: x / scale + zero, rounded, from 0 to 255 */                      \
    OPERATOR(QUANTIZE, quantize)                                                                  \
    /* x uint8 -> y = scale (x - zero) */                                                         \
    OPERATOR(DEQUANTIZE, dequantize)                                                              \
    /* x range[2] -> no output: the range, which is 0 at first, is widened to all of x */         \
    OPERATOR(OBSERVE, observe)                                                                    \
    /* x range[2] -> y, same shape: x as uint8 of that range would hold it, float32. When training  \
     * the range follows those of the batches; 0 0: no batch was seen yet, y is x */              \
    OPERATOR(FAKE_QUANTIZE, fake_quantize)                                                        \
    /* dy x range[2] -> dx: dy, or 0 where x was cut to the range */                              \
    OPERATOR(FAKE_QUANTIZE_BACKWARD, fake_quantize_backward)                                      \
    /* x -> y: each row as integers of its own range would hold it. A row of samples, along the last \
     * axis, as 0 to 255; a row of a weight, all behind its first axis, as -127 to 127 */         \
    OPERATOR(FAKE_QUANTIZE_ROWS, fake_quantize_rows)                                              \
    /* x -> y, arg (uint8, shape of y: position within its window, row by row); arg only          \
     * when training. In a quantized graph x and y may be uint8 */                                \
    OPERATOR(MAX_POOL2D, max_pool2d)                                                              \
    /* dy arg -> dx */                                                                            \
    OPERATOR(MAX_POOL2D_BACKWARD, max_pool2d_backward)                                            \
    /* x -> y; padding counts as zeros (PyTorch's default) */                                     \
    OPERATOR(AVERAGE_POOL2D, average_pool2d)                                                      \
    /* dy -> dx */                                                                                \
    OPERATOR(AVERAGE_POOL2D_BACKWARD, average_pool2d_backward)                                    \
    /* x[B,C,H,W] -> y[B,C,H',W']: pixel i of an axis is the mean over those from i H / H',         \
     * rounded down, to before (i + 1) H / H', rounded up */                                      \
    OPERATOR(ADAPTIVE_AVERAGE_POOL2D, adaptive_average_pool2d)                                    \
    /* dy -> dx */                                                                                \
    OPERATOR(ADAPTIVE_AVERAGE_POOL2D_BACKWARD, adaptive_average_pool2d_backward)                  \
    /* the same windows; x -> y, arg (uint8, position within a window whose rows have             \
     * W / W' + 2 pixels); arg only when training */                                              \
    OPERATOR(ADAPTIVE_MAX_POOL2D, adaptive_max_pool2d)                                            \
    /* dy arg -> dx */                                                                            \
    OPERATOR(ADAPTIVE_MAX_POOL2D_BACKWARD, adaptive_max_pool2d_backward)                          \
    /* x[B,C,H,W] -> y[B,C,H',W'] */                                                              \
    OPERATOR(RESIZE2D, resize2d)                                                                  \
    /* dy -> dx */                                                                                \
    OPERATOR(RESIZE2D_BACKWARD, resize2d_backward)                                                \
    /* x[B,C,...] bias[C] -> y */                                                                 \
    OPERATOR(CHANNEL_BIAS, channel_bias)                                                          \
    /* dy -> dbias */                                                                             \
    OPERATOR(CHANNEL_BIAS_BACKWARD, channel_bias_backward)                                        \
    /* x[B,C,...] weight[C] bias[C] -> y, mean[B,groups], inverse_std[B,groups]; the last two     \
     * only when training */                                                                      \
    OPERATOR(GROUP_NORM, group_norm)                                                              \
    /* dy x weight mean inverse_std -> dx dweight dbias */                                        \
    OPERATOR(GROUP_NORM_BACKWARD, group_norm_backward)                                            \
    /* x[B,C,...] weight[C] bias[C] running_mean[C] running_var[C] -> y, mean[C],                 \
     * inverse_std[C]; when training, normalises with the batch's (biased) variance and moves     \
     * the running values by `momentum` (variance unbiased), else uses the running values and     \
     * has y alone as output */                                                                   \
    OPERATOR(BATCH_NORM, batch_norm)                                                              \
    /* x weight bias mean inverse_std -> y: the same y again, from the moments that               \
     * OP_BATCH_NORM found */                                                                     \
    OPERATOR(BATCH_NORM_APPLY, batch_norm_apply)                                                  \
    /* x dy weight mean inverse_std -> dx dweight dbias */                                        \
    OPERATOR(BATCH_NORM_BACKWARD, batch_norm_backward)                                            \
    /* dy weight running_var -> dx, of a batch norm that uses its running values */               \
    OPERATOR(BATCH_NORM_FROZEN_BACKWARD, batch_norm_frozen_backward)                              \
    /* x[B,T,D] or x[B,D], weight[D] bias[D]? -> y, inverse_std[B,T], mean[B,T]; the last two     \
     * only when training */                                                                      \
    OPERATOR(LAYER_NORM, layer_norm)                                                              \
    /* x weight bias? residual -> y, sum, inverse_std, mean: the same of sum = x + residual */    \
    OPERATOR(ADD_LAYER_NORM, add_layer_norm)                                                      \
    /* dy x weight inverse_std dsum? mean -> dx dweight dbias?; x is what was normalised, dsum    \
     * is added to dx */                                                                          \
    OPERATOR(LAYER_NORM_BACKWARD, layer_norm_backward)                                            \
    /* x[B,T,D] or x[B,D], weight[D] (none) -> y = x weight / sqrt(mean of x x over D +           \
     * epsilon), inverse_root[B,T]; the last only when training */                                \
    OPERATOR(RMS_NORM, rms_norm)                                                                  \
    /* x weight (none) residual -> y, sum, inverse_root: the same of sum = x + residual */        \
    OPERATOR(ADD_RMS_NORM, add_rms_norm)                                                          \
    /* dy x weight inverse_root dsum? (none) -> dx dweight */                                     \
    OPERATOR(RMS_NORM_BACKWARD, rms_norm_backward)                                                \
    /* qkv[B,T,3D] lengths[B]? int32 -> y[B,T,D], log_sum_exp[B,heads,T]; the last only when      \
     * training. A step attends to all steps before `lengths`; causal: to those up to itself */   \
    OPERATOR(ATTENTION, attention)                                                                \
    /* dy qkv y log_sum_exp lengths? -> dqkv */                                                   \
    OPERATOR(ATTENTION_BACKWARD, attention_backward)                                              \
    /* qkv[B,T,3D] -> y: queries and keys turned by an angle that grows with their step */        \
    OPERATOR(ROTARY, rotary)                                                                      \
    /* dy -> dqkv */                                                                              \
    OPERATOR(ROTARY_BACKWARD, rotary_backward)                                                    \
    /* x[B,T,D] positions[T,D] -> y, their sum */                                                 \
    OPERATOR(ADD_POSITIONS, add_positions)                                                        \
    /* dy -> dpositions */                                                                        \
    OPERATOR(ADD_POSITIONS_BACKWARD, add_positions_backward)                                      \
    /* x[B,C,H,W] -> y[B,HW,C] */                                                                 \
    OPERATOR(IMAGE_TOKENS, image_tokens)                                                          \
    /* x[B,T,C] -> y[B,C,H,W] with HW = T */                                                      \
    OPERATOR(TOKEN_IMAGE, token_image)                                                            \
    /* x[B,T,D] token[D] -> y[B,1+T,D] */                                                         \
    OPERATOR(PREPEND_TOKEN, prepend_token)                                                        \
    /* dy -> dx dtoken */                                                                         \
    OPERATOR(PREPEND_TOKEN_BACKWARD, prepend_token_backward)                                      \
    /* x -> y */                                                                                  \
    OPERATOR(ACTIVATION, activation)                                                              \
    /* dy saved -> dx; saved is y (ReLU, ReLU6, tanh, sigmoid, hardsigmoid) or x (the others) */  \
    OPERATOR(ACTIVATION_BACKWARD, activation_backward)                                            \
    /* x -> y = x where x > 0, else negative_slope x */                                           \
    OPERATOR(LEAKY_RELU, leaky_relu)                                                              \
    /* dy x -> dx */                                                                              \
    OPERATOR(LEAKY_RELU_BACKWARD, leaky_relu_backward)                                            \
    /* x -> y = x where x > 0, else alpha (e^x - 1) */                                            \
    OPERATOR(ELU, elu)                                                                            \
    /* dy x -> dx */                                                                              \
    OPERATOR(ELU_BACKWARD, elu_backward)                                                          \
    /* index[B,T] int32, weight[V,D] -> y[B,T,D] */                                               \
    OPERATOR(EMBEDDING, embedding)                                                                \
    /* index dy -> dweight */                                                                     \
    OPERATOR(EMBEDDING_BACKWARD, embedding_backward)                                              \
    /* x -> y = x / (1-p) where kept; the mask is drawn from (seed, node's `dropout_stream`,      \
     * number of the batch, element index in the whole batch), with `rows` one for each sample:   \
     * stochastic depth */                                                                        \
    OPERATOR(DROPOUT, dropout)                                                                    \
    /* dy -> dx, the same mask drawn again */                                                     \
    OPERATOR(DROPOUT_BACKWARD, dropout_backward)                                                  \
    /* x[B,C,...] -> y = x / (1-p) where the channel is kept */                                   \
    OPERATOR(CHANNEL_DROPOUT, channel_dropout)                                                    \
    /* dy -> dx, the same mask drawn again */                                                     \
    OPERATOR(CHANNEL_DROPOUT_BACKWARD, channel_dropout_backward)                                  \
    /* a b -> y, equal shapes */                                                                  \
    OPERATOR(ADD, add)                                                                            \
    /* x[B,C,H,W] scale[B,C,1,1] -> y = x scale */                                                \
    OPERATOR(CHANNEL_SCALE, channel_scale)                                                        \
    /* dy x scale -> dx dscale */                                                                 \
    OPERATOR(CHANNEL_SCALE_BACKWARD, channel_scale_backward)                                      \
    /* x -> y, same elements in row-major order, batch kept */                                    \
    OPERATOR(RESHAPE, reshape)                                                                    \
    /* input[B,T,gates H] weight[gates H,H] bias[gates H] lengths[B]? and, where state is         \
     * carried, h0[S,H] c0[S,H] (LSTM) -> y[B,T,H], gates[B,T,4H], cells[B,T,H] (LSTM), and,      \
     * where it is carried, the last h[B,H] and c[B,H] (graph_recurrent_results()); gates and     \
     * cells only when training. input is that of the gates (LSTM: i f g o, GRU: r z n), which    \
     * a linear layer made; weight and bias are the state's. lengths (int32): steps from          \
     * lengths[b] on give 0. The first B rows of h0 and c0 are the state before the first step,   \
     * which is 0 without them */                                                                 \
    OPERATOR(RECURRENT, recurrent)                                                                \
    /* The same with weight int8 and behind h0 and c0 (-1: 0) scale[gates H].                      \
     * graph_quantize() makes it of a RECURRENT */                                        \
    OPERATOR(RECURRENT_INT8, recurrent_int8)                                                      \
    /* gates weight dy memory lengths? and, where state is carried, that of memory before the     \
     * first step -> dinput; memory is the cells (LSTM) or y (GRU) */                             \
    OPERATOR(RECURRENT_BACKWARD, recurrent_backward)                                              \
    /* y dinput gates? (GRU) and, where state is carried, h0 -> dweight dbias */                  \
    OPERATOR(RECURRENT_BACKWARD_WEIGHTS, recurrent_backward_weights)                              \
    /* value[B,H] state[S,H] -> no output: the first B rows of the state become the value */      \
    OPERATOR(CARRY_STATE, carry_state)                                                            \
    /* index[B,T] int32 -> lengths[B] int32: steps up to the last that is not the padding         \
     * symbol, at least 1 */                                                                      \
    OPERATOR(SEQUENCE_LENGTHS, sequence_lengths)                                                  \
    /* lengths[B] int32 -> windows[B] int32: (lengths[b] + more) / stride, at least 1 */          \
    OPERATOR(WINDOW_LENGTHS, window_lengths)                                                      \
    /* x[B,T,F] lengths[B] -> y: steps from lengths[b] on become 0 */                             \
    OPERATOR(MASK_STEPS, mask_steps)                                                              \
    /* x[B,T,F] lengths[B]? -> y[B,F]: of step lengths[b] - 1 or, with `reverse`, of step 0 */    \
    OPERATOR(LAST_STEP, last_step)                                                                \
    /* dy lengths? -> dx */                                                                       \
    OPERATOR(LAST_STEP_BACKWARD, last_step_backward)                                              \
    /* x[B,T,F] lengths[B]? -> y[B,F]: the mean of the first lengths[b] steps */                  \
    OPERATOR(MEAN_OVER_TIME, mean_over_time)                                                      \
    /* dy lengths? -> dx */                                                                       \
    OPERATOR(MEAN_OVER_TIME_BACKWARD, mean_over_time_backward)                                    \
    /* x[B,T,F] lengths[B]? -> y[B,F], position[B,F] (int32; only when training): the largest     \
     * of the first lengths[b] numbers of each feature, and where it stands */                    \
    OPERATOR(MAX_OVER_TIME, max_over_time)                                                        \
    /* dy position -> dx[B,T,F] */                                                                \
    OPERATOR(MAX_OVER_TIME_BACKWARD, max_over_time_backward)                                      \
    /* a[...,F] b[...,G] ... -> y[...,F+G+...]; of images [B,C,H,W] the channels */                                                 \
    OPERATOR(CONCATENATE, concatenate)                                                            \
    /* x[...,F+G+...] -> a[...,F] b[...,G] ... */                                                 \
    OPERATOR(SPLIT, split)                                                                        \
    /* x[B,F] or x[B,T,F] -> y[...,N]: columns from `first` on */                                 \
    OPERATOR(SLICE, slice)                                                                        \
    /* dy -> dx, 0 outside of those columns */                                                    \
    OPERATOR(SLICE_BACKWARD, slice_backward)                                                      \
    /* x[B,N] or x[B,T,F] -> y: the axes of each sample in another order */                       \
    OPERATOR(PERMUTE, permute)                                                                    \
    /* x -> y = scale x + offset */                                                               \
    OPERATOR(AFFINE, affine)                                                                      \
    /* x -> y = f(x), number by number (struct function_attributes) */                            \
    OPERATOR(FUNCTION, function)                                                                  \
    /* dy x -> dx */                                                                              \
    OPERATOR(FUNCTION_BACKWARD, function_backward)                                                \
    /* x[B,outer,N,inner] or a parameter [outer,N,inner], map[2M+N+1] -> y[B,outer,M,inner]: row  \
     * i is row map[i] of x, or 0 where map[i] is -1; struct take_attributes has the map */       \
    OPERATOR(TAKE, take)                                                                          \
    /* dy map -> dx */                                                                            \
    OPERATOR(TAKE_BACKWARD, take_backward)                                                        \
    /* x[B,outer,N,inner] -> y[B,outer,inner]: sums over N, times a factor */                     \
    OPERATOR(AXIS_SUM, axis_sum)                                                                  \
    /* dy -> dx */                                                                                \
    OPERATOR(AXIS_SUM_BACKWARD, axis_sum_backward)                                                \
    /* a b -> y, shape of a: element (o, k, i) of a sample of a, with element k of b, which is a  \
     * parameter or batched */                                                                    \
    OPERATOR(BROADCAST, broadcast)                                                                \
    /* dy a? b? -> da */                                                                          \
    OPERATOR(BROADCAST_BACKWARD_FIRST, broadcast_backward_first)                                  \
    /* dy a? b? -> db */                                                                          \
    OPERATOR(BROADCAST_BACKWARD_SECOND, broadcast_backward_second)                                \
    /* x[B,T,F] or x[B,F] -> y: each row e^x over the sum of e^x */                               \
    OPERATOR(SOFTMAX, softmax)                                                                    \
    /* dy y -> dx */                                                                              \
    OPERATOR(SOFTMAX_BACKWARD, softmax_backward)                                                  \
    /* a b -> y[B,groups rows,columns]: of each sample `groups` products of matrices, each of     \
     * which may be read transposed. It is its own gradient */                                    \
    OPERATOR(BATCH_PRODUCT, batch_product)                                                        \
    /* index[B,T] int32 -> [B,2T] int32: the sequence, then its reverse complement */             \
    OPERATOR(BOTH_STRANDS, both_strands)                                                          \
    /* x[B,ST,D] weight[D,1,K] bias[D] -> y[B,ST,D]: S sequences one behind another, each from    \
     * its beginning, or reversed from its end */                                                 \
    OPERATOR(CAUSAL_CONV1D, causal_conv1d)                                                        \
    /* dy x weight bias -> dx dweight dbias */                                                    \
    OPERATOR(CAUSAL_CONV1D_BACKWARD, causal_conv1d_backward)                                      \
    /* u[B,ST,D] delta[B,ST,D] A_log[D,N] B[B,ST,N] C[B,ST,N] D[D] z[B,ST,D]? -> y[B,ST,D],       \
     * states[B,S chunks,N,D] at the beginning of each chunk of SCAN_CHUNK steps; the last only   \
     * when training */                                                                           \
    OPERATOR(SELECTIVE_SCAN, selective_scan)                                                      \
    /* dy u delta A_log B C D z? states -> du ddelta dA_log dB dC dD dz? */                       \
    OPERATOR(SELECTIVE_SCAN_BACKWARD, selective_scan_backward)                                    \
    /* x -> y, same shape: rounded to the type of y, to the nearest, ties to even; beyond         \
     * the range of y infinite */                                                                 \
    OPERATOR(CAST, cast)                                                                          \
    /* logits[B,C] target -> log_sum_exp[B]; adds to the step's metrics: loss (mean over the      \
     * batch), correct (argmax == label). The target is label[B] int32, or probability[B,C]       \
     * float32: then the loss of a row is the sum of -probability log softmax, and its label      \
     * the argmax. Of logits[B,T,C] and label[B,T] each step of a sequence is a row; rows with    \
     * the label -1 do not count, and the mean is over the others (torch's ignore_index) */       \
    OPERATOR(CROSS_ENTROPY, cross_entropy)                                                        \
    /* logits target log_sum_exp -> dlogits, times gradient_scale */                              \
    OPERATOR(CROSS_ENTROPY_BACKWARD, cross_entropy_backward)                                      \
    /* prediction[B,F] target[B,F] float32 -> (no tensor); loss is the mean over all              \
     * elements */                                                                                \
    OPERATOR(MSE, mse)                                                                            \
    /* prediction target -> dprediction, times gradient_scale */                                  \
    OPERATOR(MSE_BACKWARD, mse_backward)                                                          \
    /* prediction[B,F] target[B,F] float32 -> (no tensor); of Q quantiles prediction[B,F Q] */    \
    OPERATOR(VALUE_LOSS, value_loss)                                                              \
    /* prediction target -> dprediction, times gradient_scale */                                  \
    OPERATOR(VALUE_LOSS_BACKWARD, value_loss_backward)                                            \
    /* logits[B,C] label[B] int32 -> log_sum_exp[B] */                                            \
    OPERATOR(FOCAL_LOSS, focal_loss)                                                              \
    /* logits label log_sum_exp -> dlogits, times gradient_scale */                               \
    OPERATOR(FOCAL_LOSS_BACKWARD, focal_loss_backward)                                            \
    /* logits[B,C] label[B] int32 -> log_sum_exp[B] */                                            \
    OPERATOR(ORDINAL_LOSS, ordinal_loss)                                                          \
    /* logits label log_sum_exp -> dlogits, times gradient_scale */                               \
    OPERATOR(ORDINAL_LOSS_BACKWARD, ordinal_loss_backward)                                        \
    /* embedding[B,F] label[B] int32 -> triplets[B,2B+1] (triplet_row()) */                       \
    OPERATOR(TRIPLET_LOSS, triplet_loss)                                                          \
    /* embedding triplets -> dembedding, times gradient_scale */                                  \
    OPERATOR(TRIPLET_LOSS_BACKWARD, triplet_loss_backward)                                        \
    /* logits[B,C] label[B,L] int32 -> (no tensor); loss is the sum of the losses of              \
     * graph->heads, times their weights */                                                       \
    OPERATOR(HEAD_LOSSES, head_losses)                                                            \
    /* logits label -> dlogits, times gradient_scale */                                           \
    OPERATOR(HEAD_LOSSES_BACKWARD, head_losses_backward)                                          \
    /* parameter gradient state0? state1? -> no output: parameter and states change in place      \
     * by the settings of its group. State: SGD, Lion, Muon momentum; Adam, AdamW, NAdam          \
     * first_moment second_moment; RMSprop second_moment, then momentum; Adagrad square_sum;      \
     * Adadelta second_moment step_moment */                                                      \
    OPERATOR(OPTIMIZER, optimizer)                                                                \
    /* value average -> no output: average = (1 - share) average + share value in place,          \
     * with the step's average_share; copies where that is 1 */                                   \
    OPERATOR(MOVING_AVERAGE, moving_average)
/* clang-format on */
