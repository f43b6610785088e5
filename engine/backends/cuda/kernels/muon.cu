/* muon.cu: the elementwise part of Muon; muon.c of the folder above has its products of
 * matrices. */
#include "engine/backends/cuda/kernels/update.cuh"

/* Writes the direction into x, and partial sums of its squares. */
__global__ void direction_kernel(struct cuda_muon m, float *x, double *squares)
{
    const float *c = group_coefficients(m.control, m.scalars, m.summed, m.item.group);
    const float factor = gradient_factor(m.control, m.scalars, m.summed);
    const float keep = c[COEFFICIENT_KEEP], take = c[COEFFICIENT_TAKE];
    double sum = 0;

    if (m.summed && m.control->skipped)
        return;
    FOR_EACH_ELEMENT(i, m.item.count)
    {
        float g = clipped(factor * array_load(m.item.gradient, i), m.scalars->clip_value);
        float momentum = keep * m.item.state0[i] + take * g;
        float direction = c[COEFFICIENT_NESTEROV] != 0 ? g + keep * (momentum - g) : momentum;

        m.item.state0[i] = momentum;
        x[i] = direction;
        sum += (double)direction * direction;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        squares[blockIdx.x] = sum;
}

/* x / |x|, in a launch of as many blocks as wrote partial sums. */
__global__ void normalise_kernel(const double *squares, double epsilon, float *x, int64_t count)
{
    double norm = sqrt(block_sum(threadIdx.x < gridDim.x ? squares[threadIdx.x] : 0.0));
    const float factor = (float)(1 / (norm > epsilon ? norm : epsilon));

    FOR_EACH_ELEMENT(i, count)
    x[i] *= factor;
}

cudaError_t cuda_muon_direction(const struct cuda_muon *muon, double epsilon, float *x,
                                double *squares, cudaStream_t stream)
{
    static_assert(CUDA_SQUARES_BLOCKS <= BLOCK, "a thread for each partial sum");
    direction_kernel<<<CUDA_SQUARES_BLOCKS, BLOCK, 0, stream>>>(*muon, x, squares);
    normalise_kernel<<<CUDA_SQUARES_BLOCKS, BLOCK, 0, stream>>>(squares, epsilon, x,
                                                                muon->item.count);
    return cudaGetLastError();
}

__global__ void muon_update_kernel(struct cuda_muon m, float scale, const float *x)
{
    const float *c = group_coefficients(m.control, m.scalars, m.summed, m.item.group);
    const float rate = c[COEFFICIENT_RATE] * scale, shrink = c[COEFFICIENT_SHRINK];

    if (m.summed && m.control->skipped)
        return;
    FOR_EACH_ELEMENT(i, m.item.count)
    m.item.parameter[i] = rounded_to(m.item.rounding, shrink * m.item.parameter[i] - rate * x[i]);
}

cudaError_t cuda_muon_update(const struct cuda_muon *muon, float scale, const float *x,
                             cudaStream_t stream)
{
    muon_update_kernel<<<blocks_for(muon->item.count), BLOCK, 0, stream>>>(*muon, scale, x);
    return cudaGetLastError();
}
