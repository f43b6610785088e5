/* lamb.cu: LAMB, as engine/backends/cpu/operator_lamb.c. The rate with its bias correction is in
 * the coefficients: s below is the direction times the rate, and a step is s times
 * rate |w| / |s|. */
#include "engine/backends/cuda/kernels/update.cuh"

/* rate (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon) + decay w) */
__device__ static inline float rated_direction(const float *c, float w, float m, float v)
{
    return c[COEFFICIENT_RATE] * m / (sqrtf(v) / c[COEFFICIENT_ROOT] + c[COEFFICIENT_EPSILON]) +
           c[COEFFICIENT_OWN] * c[COEFFICIENT_DECAY] * w;
}

/* Updates the moments, and writes partial sums of the squares of w, and behind them of s. */
__global__ void lamb_moments_kernel(struct cuda_lamb l, double *squares)
{
    const float *c = group_coefficients(l.control, l.scalars, l.summed, l.item.group);
    const float factor = gradient_factor(l.control, l.scalars, l.summed);
    double parameter = 0, direction = 0;

    if (l.summed && l.control->skipped)
        return;
    FOR_EACH_ELEMENT(i, l.item.count)
    {
        const float g = clipped(factor * array_load(l.item.gradient, i), l.scalars->clip_value);
        const float m = c[COEFFICIENT_KEEP] * l.item.state0[i] + c[COEFFICIENT_TAKE] * g;
        const float v = c[COEFFICIENT_KEEP2] * l.item.state1[i] + c[COEFFICIENT_TAKE2] * g * g;
        const float w = l.item.parameter[i], s = rated_direction(c, w, m, v);

        l.item.state0[i] = m;
        l.item.state1[i] = v;
        parameter += (double)w * w;
        direction += (double)s * s;
    }
    parameter = block_sum(parameter);
    direction = block_sum(direction);
    if (threadIdx.x > 0)
        return;
    squares[blockIdx.x] = parameter;
    squares[CUDA_SQUARES_BLOCKS + blockIdx.x] = direction;
}

__global__ void lamb_step_kernel(struct cuda_lamb l, const double *squares)
{
    const float *c = group_coefficients(l.control, l.scalars, l.summed, l.item.group);
    const bool has = threadIdx.x < CUDA_SQUARES_BLOCKS;
    double parameter, direction;
    float factor = 1;

    if (l.summed && l.control->skipped)
        return;
    parameter = block_sum(has ? squares[threadIdx.x] : 0.0);
    direction = block_sum(has ? squares[CUDA_SQUARES_BLOCKS + threadIdx.x] : 0.0);
    if (parameter > 0 && direction > 0)
        factor = (float)((double)c[COEFFICIENT_OWN] * sqrt(parameter / direction));
    FOR_EACH_ELEMENT(i, l.item.count)
    {
        const float w = l.item.parameter[i];

        l.item.parameter[i] =
            rounded_to(l.item.rounding,
                       w - factor * rated_direction(c, w, l.item.state0[i], l.item.state1[i]));
    }
}

cudaError_t cuda_lamb(const struct cuda_lamb *lamb, double *squares, cudaStream_t stream)
{
    static_assert(CUDA_SQUARES_BLOCKS <= BLOCK, "a thread for each partial sum");
    lamb_moments_kernel<<<CUDA_SQUARES_BLOCKS, BLOCK, 0, stream>>>(*lamb, squares);
    lamb_step_kernel<<<blocks_for(lamb->item.count), BLOCK, 0, stream>>>(*lamb, squares);
    return cudaGetLastError();
}
