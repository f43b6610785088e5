/* calibration_chains.h: calibrates a device whose nodes cannot be timed one by one: it times chains
 * of equal operators. */
#pragma once

#include "engine/train/calibration.h"

/* Sizes of the operators that are timed; they must be large enough to use the whole device. */
struct calibration_sizes {
    int64_t product; /* side of the square matrices; also the batch of the other chains */
    int64_t images, channels, side; /* shape of a convolution of 3x3 */
    int64_t activation; /* values per sample in the largest activation; the others have 1/8, … */
};

/* Fills in the speeds of products in the types of the set (1 << enum tensor_type), of memory and of
 * the smallest kernel. */
int calibration_measure_chains(const struct backend *backend, struct backend_device *device,
                               unsigned types, const struct calibration_sizes *sizes,
                               struct calibration *calibration, struct error *error);
