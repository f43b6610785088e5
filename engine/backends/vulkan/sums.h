/* sums.h: sums over parts that lie behind each other. */
#pragma once

#include "engine/backends/vulkan/vulkan.h"

/* sums[j] = the sum over the rows of x[row * stride + j] for each column j; or adds to it. */
struct strided_sums {
    VkDeviceAddress x, sums;
    int64_t rows, stride, columns;
    bool accumulate;
};
int record_strided_sums(struct recorder *recorder, const struct strided_sums *sums,
                        struct error *error);
