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
    float *balance; /* [depth], powers of two: the features have to be multiplied by them */
    char *memory;   /* owned: all four */
};

/* Room for [out, depth] weights. The caller releases it with digit_weights_release(). */
int digit_weights_create(int64_t out, int64_t depth, struct digit_weights *weights,
                         struct error *error);
void digit_weights_release(struct digit_weights *weights); /* of zeros: allowed */

/* Fills it, and balances the features: the mean sizes of their weights become alike. false: a row
 * has then a number of more than DIGITS_PEAK_MOST times the mean size of those that are not 0, or
 * one that is not finite. */
bool digit_weights_write(struct digit_weights *weights, const float *values);

/* Fills it for rows of bytes, so that byte k stands for (byte - mean[k]) factor[k]. Weights that
 * are not finite give results that are not finite. `taken`: weights that were filled like this, of
 * whose rounding errors these are made; NULL: of the weights themselves. false: a row has a number
 * that is so much larger than the others that the rounding errors of these count. */
bool digit_weights_write_for_bytes(struct digit_weights *weights, const float *values,
                                   const float *mean, const float *factor,
                                   const struct digit_weights *taken);
