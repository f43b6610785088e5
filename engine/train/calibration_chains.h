/* calibration_chains.h: the calibration of a device whose nodes cannot be timed one by one. */
#pragma once

#include "engine/train/calibration.h"

/* Of what is run; large enough to fill the device. */
struct calibration_sizes {
    int64_t product;                /* side of the square matrices, and samples of the rest */
    int64_t images, channels, side; /* of a convolution of 3x3 */
    int64_t activation; /* numbers of a sample in the largest activation; others have 1/8, … */
};

/* Fills in the speeds of products in the types of the set (1 << enum tensor_type), of memory and of
 * the smallest kernel. */
int calibration_measure_chains(const struct backend *backend, struct backend_device *device,
                               unsigned types, const struct calibration_sizes *sizes,
                               struct calibration *calibration, struct error *error);
