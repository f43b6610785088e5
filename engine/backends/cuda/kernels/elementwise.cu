/* elementwise.cu: activations, sums, casts, dropout. Element i of the result depends on element i
 * of the operands alone, so results may overwrite operands of the same type. */
#include "base/philox.h"
#include "engine/backends/cuda/kernels/activations.cuh"
#include "engine/backends/cuda/kernels/values.cuh"

#include <math.h>

/* ---- y = op(a, b), or op(a, 0) where there is no b ---- */

template <typename Op>
__global__ void map_kernel(Op op, struct cuda_array a, struct cuda_array b, struct cuda_array y,
                           int64_t count)
{
    FOR_EACH_ELEMENT(g, (count + GROUP - 1) / GROUP)
    {
        const int64_t first = g * GROUP;

        if (first + GROUP <= count) {
            struct group x = array_load_group(a, first), other = {}, result;

            if (b.at)
                other = array_load_group(b, first);
#pragma unroll
            for (int k = 0; k < GROUP; k++)
                result.value[k] = op(x.value[k], other.value[k]);
            array_store_group(y, first, result);
        } else {
            for (int64_t i = first; i < count; i++)
                array_store(y, i, op(array_load(a, i), b.at ? array_load(b, i) : 0.0f));
        }
    }
}

/* The same with all arrays of 16 bits of one type: both loads are under way at the same time. */
template <typename T, typename Op>
__global__ void map_typed_kernel(Op op, const T *a, const T *b, T *y, int64_t count)
{
    FOR_EACH_ELEMENT(g, (count + GROUP - 1) / GROUP)
    {
        const int64_t first = g * GROUP;

        if (first + GROUP <= count) {
            union packed<T> x, other;
            struct group result;

            packed_load(&x, a + first);
            if (b)
                packed_load(&other, b + first);
#pragma unroll
            for (int k = 0; k < GROUP; k++)
                result.value[k] = op(to_float(x.value[k]), b ? to_float(other.value[k]) : 0.0f);
            group_store(y + first, result);
        } else {
            for (int64_t i = first; i < count; i++)
                y[i] = from_float<T>(op(to_float(a[i]), b ? to_float(b[i]) : 0.0f));
        }
    }
}

template <typename Op>
static cudaError_t map(Op op, struct cuda_array a, struct cuda_array b, struct cuda_array y,
                       int64_t count, cudaStream_t stream)
{
    const unsigned blocks = blocks_for((count + GROUP - 1) / GROUP);
    const bool same = a.type == y.type && (!b.at || b.type == y.type);

    if (same && y.type == TENSOR_BFLOAT16)
        map_typed_kernel<<<blocks, BLOCK, 0, stream>>>(op, (const __nv_bfloat16 *)a.at,
                                                       (const __nv_bfloat16 *)b.at,
                                                       (__nv_bfloat16 *)y.at, count);
    else if (same && y.type == TENSOR_FLOAT16)
        map_typed_kernel<<<blocks, BLOCK, 0, stream>>>(op, (const __half *)a.at,
                                                       (const __half *)b.at, (__half *)y.at, count);
    else
        map_kernel<<<blocks, BLOCK, 0, stream>>>(op, a, b, y, count);
    return cudaGetLastError();
}

template <int kind> struct activation_op {
    __device__ float operator()(float x, float) const
    {
        return activate<kind>(x);
    }
};
template <int kind> struct activation_backward_op {
    __device__ float operator()(float dy, float saved) const
    {
        return activate_backward<kind>(dy, saved);
    }
};
struct leaky_relu_op {
    float slope;
    __device__ float operator()(float x, float) const
    {
        return x > 0.0f ? x : slope * x;
    }
};
struct leaky_relu_backward_op {
    float slope;
    __device__ float operator()(float dy, float x) const
    {
        return x > 0.0f ? dy : slope * dy;
    }
};
struct elu_op {
    float alpha;
    __device__ float operator()(float x, float) const
    {
        return x > 0.0f ? x : alpha * expm1f(x);
    }
};
struct elu_backward_op {
    float alpha;
    __device__ float operator()(float dy, float x) const
    {
        return x > 0.0f ? dy : alpha * dy * __expf(x);
    }
};
struct affine_op {
    float scale, offset;
    __device__ float operator()(float x, float) const
    {
        return scale * x + offset;
    }
};
template <int kind> struct function_op {
    float exponent;
    __device__ float operator()(float x, float) const
    {
        switch (kind) {
        case FUNCTION_EXP:
            return expf(x);
        case FUNCTION_LOG:
            return logf(x);
        case FUNCTION_SQRT:
            return sqrtf(x);
        case FUNCTION_RECIPROCAL:
            return 1.0f / x;
        case FUNCTION_SIN:
            return sinf(x);
        case FUNCTION_COS:
            return cosf(x);
        case FUNCTION_ERF:
            return erff(x);
        default:
            return powf(x, exponent);
        }
    }
};
template <int kind> struct function_backward_op {
    float exponent;
    __device__ float operator()(float dy, float x) const
    {
        switch (kind) {
        case FUNCTION_EXP:
            return dy * expf(x);
        case FUNCTION_LOG:
            return dy / x;
        case FUNCTION_SQRT:
            return dy * 0.5f / sqrtf(x);
        case FUNCTION_RECIPROCAL:
            return -dy / (x * x);
        case FUNCTION_SIN:
            return dy * cosf(x);
        case FUNCTION_COS:
            return -dy * sinf(x);
        case FUNCTION_ERF:
            return dy * 1.12837916709551257390f * expf(-x * x); /* 2 / sqrt(pi) */
        default:
            return exponent == 0.0f ? 0.0f : dy * exponent * powf(x, exponent - 1.0f);
        }
    }
};
#define EVERY_FUNCTION(DO)  \
    DO(FUNCTION_EXP)        \
    DO(FUNCTION_LOG)        \
    DO(FUNCTION_SQRT)       \
    DO(FUNCTION_RECIPROCAL) \
    DO(FUNCTION_SIN)        \
    DO(FUNCTION_COS)        \
    DO(FUNCTION_ERF)        \
    DO(FUNCTION_POWER)
struct add_op {
    __device__ float operator()(float a, float b) const
    {
        return a + b;
    }
};
struct same_op {
    __device__ float operator()(float a, float) const
    {
        return a;
    }
};

cudaError_t cuda_activation(int kind, struct cuda_array x, struct cuda_array y, int64_t count,
                            cudaStream_t stream)
{
    switch (kind) {
#define DO(name) \
    case name:   \
        return map(activation_op<name>(), x, (struct cuda_array){}, y, count, stream);
        EVERY_ACTIVATION(DO)
#undef DO
    default:
        return cudaErrorInvalidValue;
    }
}

cudaError_t cuda_activation_backward(int kind, struct cuda_array dy, struct cuda_array saved,
                                     struct cuda_array dx, int64_t count, cudaStream_t stream)
{
    switch (kind) {
#define DO(name) \
    case name:   \
        return map(activation_backward_op<name>(), dy, saved, dx, count, stream);
        EVERY_ACTIVATION(DO)
#undef DO
    default:
        return cudaErrorInvalidValue;
    }
}

static cudaError_t function_map(const struct function_attributes *function, bool backward,
                                struct cuda_array a, struct cuda_array b, struct cuda_array y,
                                int64_t count, cudaStream_t stream)
{
    switch (function->kind) {
#define DO(kind)                                                                                 \
    case kind:                                                                                   \
        return backward                                                                          \
                   ? map(function_backward_op<kind>{function->exponent}, a, b, y, count, stream) \
                   : map(function_op<kind>{function->exponent}, a, b, y, count, stream);
        EVERY_FUNCTION(DO)
#undef DO
    default:
        return cudaErrorInvalidValue;
    }
}

/* The table from operator to kernel. */
cudaError_t cuda_pointwise(const struct graph_node *node, struct cuda_array a, struct cuda_array b,
                           struct cuda_array y, int64_t count, cudaStream_t stream)
{
    switch (node->op) {
    case OP_ACTIVATION:
        return cuda_activation((int)node->attributes.activation, a, y, count, stream);
    case OP_ACTIVATION_BACKWARD:
        return cuda_activation_backward((int)node->attributes.activation, a, b, y, count, stream);
    case OP_ADD:
        return map(add_op(), a, b, y, count, stream);
    case OP_AFFINE:
        return map(affine_op{node->attributes.affine.scale, node->attributes.affine.offset}, a, b,
                   y, count, stream);
    case OP_FUNCTION:
    case OP_FUNCTION_BACKWARD:
        return function_map(&node->attributes.function, node->op == OP_FUNCTION_BACKWARD, a, b, y,
                            count, stream);
    case OP_LEAKY_RELU:
        return map(leaky_relu_op{node->attributes.negative_slope}, a, b, y, count, stream);
    case OP_LEAKY_RELU_BACKWARD:
        return map(leaky_relu_backward_op{node->attributes.negative_slope}, a, b, y, count, stream);
    case OP_ELU:
        return map(elu_op{node->attributes.elu_alpha}, a, b, y, count, stream);
    case OP_ELU_BACKWARD:
        return map(elu_backward_op{node->attributes.elu_alpha}, a, b, y, count, stream);
    default:
        return cudaErrorInvalidValue;
    }
}

cudaError_t cuda_cast(struct cuda_array x, struct cuda_array y, int64_t count, cudaStream_t stream)
{
    return map(same_op(), x, (struct cuda_array){}, y, count, stream);
}

__global__ void casts_kernel(struct cuda_casts casts)
{
    int k = 0;

    while ((int)blockIdx.x >= casts.first_block[k + 1])
        k++;
    const struct cuda_cast &cast = casts.cast[k];
    const int64_t block = (int)blockIdx.x - casts.first_block[k];
    const int64_t first = (block * BLOCK + threadIdx.x) * GROUP;

    if (first + GROUP <= cast.elements)
        array_store_group(cast.to, first, group_load(cast.from + first));
    else
        for (int64_t i = first; i < cast.elements; i++)
            array_store(cast.to, i, cast.from[i]);
}

cudaError_t cuda_cast_many(struct cuda_casts *casts, cudaStream_t stream)
{
    const int64_t part = (int64_t)BLOCK * GROUP; /* the elements of a block */

    casts->first_block[0] = 0;
    for (int k = 0; k < casts->count; k++)
        casts->first_block[k + 1] =
            casts->first_block[k] + (int)((casts->cast[k].elements + part - 1) / part);
    casts_kernel<<<(unsigned)casts->first_block[casts->count], BLOCK, 0, stream>>>(*casts);
    return cudaGetLastError();
}

/* ---- dropout: the CPU's masks (engine/backends/cpu/kernels/rows.c) ---- */

__device__ static struct philox draw(uint64_t seed, uint64_t stream, uint64_t index)
{
    struct philox c = {
        {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)}};
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);

    for (int round = 0; round < 10; round++) {
        uint32_t high0 = __umulhi(0xD2511F53u, c.word[0]), low0 = 0xD2511F53u * c.word[0];
        uint32_t high1 = __umulhi(0xCD9E8D57u, c.word[2]), low1 = 0xCD9E8D57u * c.word[2];

        c = {{high1 ^ c.word[1] ^ key0, low1, high0 ^ c.word[3] ^ key1, low0}};
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return c;
}

/* The parameters with which dropout draws its mask. */
struct mask {
    uint64_t seed, stream, base;
    uint32_t threshold;
    float scale;
};

__device__ static inline float factor_of(const struct mask &mask, uint32_t word)
{
    return word >> 8 >= mask.threshold ? mask.scale : 0.0f;
}

__device__ static inline float factor_at(const struct mask &mask, int64_t element)
{
    struct philox bits = draw(mask.seed, mask.stream, mask.base + (uint64_t)element / 4);

    return factor_of(mask, bits.word[element % 4]);
}

/* The element's index in PyTorch's order; channels 0: the tensor is stored in that order. */
__device__ static inline int64_t canonical_index(int64_t i, int64_t channels, int64_t pixels)
{
    int64_t c, p;

    if (channels == 0)
        return i;
    c = i % channels;
    p = i / channels % pixels;
    return i / (channels * pixels) * (channels * pixels) + c * pixels + p;
}

/* The number of the mask that the element gets. */
__device__ static inline int64_t number_of(const struct cuda_dropout_shape &shape, int64_t i)
{
    if (shape.row == 0)
        return canonical_index(i, shape.channels, shape.pixels);
    if (shape.channels > 0)
        return i / (shape.row * shape.channels) * shape.channels + i % shape.channels;
    return i / shape.row;
}

constexpr int64_t ROWS_AT_ONCE = 65535; /* the largest second dimension of a grid */

/* One draw for each row, whose length is a multiple of eight. */
__global__ void dropout_rows_kernel(const struct cuda_scalars *scalars, struct mask mask,
                                    int64_t row, struct cuda_array x, struct cuda_array y)
{
    const int64_t groups_of_row = row / GROUP;

    mask.base = (uint64_t)scalars->batch << 32;
    mask.seed = scalars->seed;
    const float factor = factor_at(mask, blockIdx.y);
    for (int64_t g = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; g < groups_of_row;
         g += (int64_t)gridDim.x * blockDim.x) {
        const int64_t at = ((int64_t)blockIdx.y * groups_of_row + g) * GROUP;
        struct group v = array_load_group(x, at);

#pragma unroll
        for (int k = 0; k < GROUP; k++)
            v.value[k] *= factor;
        array_store_group(y, at, v);
    }
}

/* A thread has eight elements: two draws, if they are in PyTorch's order. */
__global__ void dropout_kernel(const struct cuda_scalars *scalars, struct mask mask,
                               struct cuda_dropout_shape shape, struct cuda_array x,
                               struct cuda_array y, int64_t count)
{
    mask.base = (uint64_t)scalars->batch << 32;
    mask.seed = scalars->seed;
    FOR_EACH_ELEMENT(g, (count + GROUP - 1) / GROUP)
    {
        const int64_t first = g * GROUP;

        if (first + GROUP > count || shape.row > 0 || shape.channels > 0) {
            for (int64_t i = first; i < count && i < first + GROUP; i++) {
                array_store(y, i, array_load(x, i) * factor_at(mask, number_of(shape, i)));
            }
            continue;
        }
        struct group v = array_load_group(x, first);
        for (int half = 0; half < 2; half++) {
            struct philox bits =
                draw(mask.seed, mask.stream, mask.base + (uint64_t)(first / 4 + half));

#pragma unroll
            for (int k = 0; k < 4; k++)
                v.value[4 * half + k] *= factor_of(mask, bits.word[k]);
        }
        array_store_group(y, first, v);
    }
}

cudaError_t cuda_dropout(const struct cuda_scalars *scalars, uint32_t dropout_stream,
                         float probability, const struct cuda_dropout_shape *shape,
                         struct cuda_array x, struct cuda_array y, int64_t count,
                         cudaStream_t stream)
{
    struct mask mask = {.seed = 0,
                        .stream = philox_stream(PHILOX_DROPOUT, dropout_stream),
                        .base = 0,
                        .threshold = (uint32_t)ceil((double)probability * 0x1p24),
                        .scale = 1.0f / (1.0f - probability)};

    if (shape->row > 0 && shape->channels == 0 && shape->row % GROUP == 0 &&
        count / shape->row <= ROWS_AT_ONCE) {
        const int64_t blocks = (shape->row / GROUP + BLOCK - 1) / BLOCK;

        dropout_rows_kernel<<<dim3((unsigned)(blocks < 1024 ? blocks : 1024),
                                   (unsigned)(count / shape->row)),
                              BLOCK, 0, stream>>>(scalars, mask, shape->row, x, y);
        return cudaGetLastError();
    }
    dropout_kernel<<<blocks_for((count + GROUP - 1) / GROUP), BLOCK, 0, stream>>>(
        scalars, mask, *shape, x, y, count);
    return cudaGetLastError();
}

/* torch.lerp, which starts from the nearer end. */
__global__ void moving_average_kernel(const struct cuda_control *control,
                                      const struct cuda_scalars *scalars, bool summed, bool copies,
                                      float *average, const float *value, int64_t count)
{
    const float share = copies ? 1.0f : scalars->average_share, decay = 1.0f - share;

    if (summed && control->skipped)
        return;
    FOR_EACH_ELEMENT(i, count)
    average[i] = share < 0.5f ? average[i] + share * (value[i] - average[i])
                              : value[i] - decay * (value[i] - average[i]);
}

cudaError_t cuda_moving_average(const struct cuda_control *control,
                                const struct cuda_scalars *scalars, bool summed, bool copies,
                                float *average, const float *value, int64_t count,
                                cudaStream_t stream)
{
    moving_average_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(control, scalars, summed, copies,
                                                                   average, value, count);
    return cudaGetLastError();
}
