/* attention.cuh: what both kinds of kernels for attention share: where the numbers of a head lie,
 * and which keys a query attends to. */
#pragma once

#include "engine/backends/cuda/kernels/transformer.h"
#include "engine/backends/cuda/kernels/values.cuh"

/* The head of a sample that a block has. Element (step, i) of the queries lies at query +
 * step * row + i, of y at result + step * result_row + i. */
struct head {
    int64_t query, key, value, result;
    int64_t row, result_row;
    int64_t sums; /* of log_sum_exp and delta */
    int keys;     /* steps that may be attended to */
    float scale;
};

__device__ static inline struct head head_of(const struct cuda_attention &attention, int64_t number)
{
    const int64_t sample = number / attention.heads, of = number % attention.heads;
    const int64_t features = (int64_t)attention.heads * attention.width;
    int64_t keys = attention.lengths ? attention.lengths[sample] : attention.steps;
    struct head head;

    keys = max((int64_t)0, min(keys, attention.steps));
    head.row = 3 * features;
    head.result_row = features;
    head.query = sample * attention.steps * head.row + of * attention.width;
    head.key = head.query + features;
    head.value = head.key + features;
    head.result = sample * attention.steps * head.result_row + of * attention.width;
    head.sums = number * attention.steps;
    head.keys = (int)keys;
    head.scale = rsqrtf((float)attention.width);
    return head;
}

/* The end of the keys that some of the queries before `end` attend to. */
__device__ static inline int keys_before(const struct cuda_attention &attention,
                                         const struct head &head, int end)
{
    return attention.causal ? min(head.keys, end) : head.keys;
}

__device__ static inline bool is_seen(const struct cuda_attention &attention,
                                      const struct head &head, int query, int key)
{
    return key < head.keys && query < attention.steps && (!attention.causal || key <= query);
}
