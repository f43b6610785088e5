/* sums.h: strided sums, of which sums of rows and over an axis are special cases. */
#pragma once

#include "engine/backends/vulkan/vulkan.h"

/* Result r is `factor` times the sum of `terms` terms. The first lies at (r / result_inner)
 * result_outer_stride + (r % result_inner) result_inner_stride, and the places of the others are
 * counted from there in the same way. */
struct strided_sums {
    VkDeviceAddress x, sums;
    int64_t results, result_inner, result_outer_stride, result_inner_stride;
    int64_t terms, term_inner, term_outer_stride, term_inner_stride;
    float factor;
    uint32_t term;        /* TERM_... (shaders/shared.h) */
    VkDeviceAddress a, b; /* of a term that needs them */
    bool accumulate;      /* adds to what `sums` holds */
};
int record_sums(struct recorder *recorder, const struct strided_sums *sums, struct error *error);

/* sums[j] = the sum over the rows of x[row * stride + j] for each of the columns; or adds to it. */
struct row_sums {
    VkDeviceAddress x, sums;
    int64_t rows, stride, columns;
    bool accumulate;
};
int record_row_sums(struct recorder *recorder, const struct row_sums *sums, struct error *error);

/* sums[i] = the sum of parts_sums [parts, count] over the parts; or adds to it. */
int record_sum_parts(struct recorder *recorder, VkDeviceAddress parts_sums, int64_t parts,
                     int64_t count, VkDeviceAddress sums, bool accumulate, struct error *error);
