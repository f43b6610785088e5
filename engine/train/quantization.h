/* quantization.h: weights of 8 bits, made of the float32 weights of a checkpoint. Each row of a
 * weight, which makes one of the layer's results, has a factor of its own (per channel). By it the
 * row's largest number becomes 127 or -127: int8 times factor is the weight. */
#pragma once

#include "engine/train/checkpoint.h"

/* Quantizes [rows, width]. -EINVAL if a number is not finite. */
int quantization_quantize(const float *weights, int64_t rows, int64_t width, int8_t *quantized,
                          float *scale, struct error *error);

/* Fills a session whose evaluation is quantized from a checkpoint of float32 weights: the moving
 * averages if it has them, as checkpoint_restore() does. -EINVAL with a sentence that names a
 * tensor which is missing, has another shape or a number that is not finite. */
int quantization_restore(const struct checkpoint *checkpoint, struct session *session,
                         struct error *error);
