/* sums.h: strided sums, of which sums of columns and over an axis are special cases. */
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

/* The sums of the columns of x [rows, columns]. */
static inline struct strided_sums column_sums(VkDeviceAddress x, int64_t rows, int64_t columns,
                                              VkDeviceAddress sums, bool accumulate)
{
    return (struct strided_sums){.x = x,
                                 .sums = sums,
                                 .results = columns,
                                 .result_inner = columns,
                                 .result_inner_stride = 1,
                                 .terms = rows,
                                 .term_inner = 1,
                                 .term_outer_stride = columns,
                                 .factor = 1,
                                 .term = TERM_SAME,
                                 .accumulate = accumulate};
}
