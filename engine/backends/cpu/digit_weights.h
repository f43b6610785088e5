/* digit_weights.h: the weights of a linear layer as integers of three digits (kernels/digits.h). */
#pragma once

#include "base/error.h"
#include "engine/backends/cpu/kernels/digits.h"

#include <stdbool.h>

struct digit_weights {
    int64_t out, depth;
    struct int8_packing packing;
    /* packed, each aligned to MEMORY_ALIGNMENT: see struct digits_linear */
    int8_t *digits;
    int32_t *offset;
    float *scale;
    char *memory; /* owned: all three */
};

/* Room for [out, depth] weights. The caller releases it with digit_weights_release(). */
int digit_weights_create(int64_t out, int64_t depth, struct digit_weights *weights,
                         struct error *error);
void digit_weights_release(struct digit_weights *weights); /* of zeros: allowed */

/* Fills it. false: the numbers of a row differ too much, or are not finite, as
 * digits_pack_rows() says of rows. */
bool digit_weights_write(struct digit_weights *weights, const float *values);

/* Fills it for rows of bytes, so that byte k stands for (byte - mean[k]) factor[k]. Weights that
 * are not finite give results that are no numbers. */
void digit_weights_write_for_bytes(struct digit_weights *weights, const float *values,
                                   const float *mean, const float *factor);
