/* attention.h: the kernels of attention.c and tokens.c (kernels.h says what holds for all). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One head of one sequence: rows of queries, keys, values and results. A step's query begins `row`
 * numbers behind that of the step before, and so do keys, values and their gradients. */
struct attention_head {
    int64_t steps, keys; /* keys: the first of them that are attended to, at most `steps` */
    int64_t width;       /* of a query */
    int64_t row, result_row;
    bool causal;
    float scale; /* of the products of queries and keys */
};

/* Rotary positions: factor[2][steps][width / 2], the cosines and then the sines of the angles. */
struct rotary_shape {
    int64_t steps, heads, width;
    const float *factor;
    bool inverse; /* turns back: the gradient */
};

/* type, name, arguments */
/* clang-format off */
#define ATTENTION_KERNEL_LIST(KERNEL)                                                               \
    /* y = softmax(scale queries keys^T) values; log_sum_exp[steps] may be NULL */                  \
    KERNEL(void, attention_forward,                                                                 \
           (const struct attention_head *head, const float *query, const float *key,                \
            const float *value, float *scratch, float *y, float *log_sum_exp))                      \
    KERNEL(void, attention_backward,                                                                \
           (const struct attention_head *head, const float *query, const float *key,                \
            const float *value, const float *y, const float *log_sum_exp, const float *dy,          \
            float *scratch, float *dquery, float *dkey, float *dvalue))                             \
    /* Floats of scratch that either of them needs, 64-byte aligned */                              \
    KERNEL(int64_t, attention_scratch, (int64_t steps, int64_t width))                              \
    /* y = x[sample][step][query, key, value][head][width], queries and keys turned */              \
    KERNEL(void, rotary,                                                                            \
           (const struct rotary_shape *shape, const float *x, float *y, int64_t samples))
/* clang-format on */
