/* triplet_loss.cu: the triplet loss, with the formulas of
 * engine/backends/cpu/kernels/triplet_loss.c. A block has an anchor. Derivatives are whole numbers
 * until they are divided by distances, so their sums are the same in any order. */
#include "engine/backends/cuda/kernels/launch.cuh"
#include "engine/backends/cuda/kernels/metrics.cuh"

#include <math.h>

/* An anchor and its row of `saved`. */
struct anchor {
    const int32_t *label;
    int64_t batch, index;
    float margin;
    const float *distance;
    float *derivative;
};

__device__ static inline bool is_positive(const struct anchor &anchor, int64_t i)
{
    return i != anchor.index && anchor.label[i] == anchor.label[anchor.index];
}

__device__ static inline bool is_negative(const struct anchor &anchor, int64_t i)
{
    return anchor.label[i] != anchor.label[anchor.index];
}

/* One that is not a number stays. */
__device__ static inline float loss_of(const struct anchor &anchor, int64_t positive,
                                       int64_t negative)
{
    const float loss = anchor.distance[positive] + anchor.margin - anchor.distance[negative];

    return loss <= 0 ? 0.0f : loss;
}

/* ---- which triplets ---- */

/* A sample at a distance; index -1: none. */
struct candidate {
    float distance;
    int64_t index;
};

/* Of equal distances the first sample. */
__device__ static inline struct candidate choose(const struct candidate &a,
                                                 const struct candidate &b, bool farthest)
{
    if (a.index < 0 || b.index < 0)
        return a.index < 0 ? b : a;
    if (a.distance == b.distance)
        return a.index < b.index ? a : b;
    return (farthest ? b.distance > a.distance : b.distance < a.distance) ? b : a;
}

/* The farthest positive, or the nearest negative; the whole block calls it. */
__device__ static struct candidate find_hardest(const struct anchor &anchor, bool positive)
{
    __shared__ struct candidate shared[BLOCK];
    struct candidate best = {0, -1};

    for (int64_t i = threadIdx.x; i < anchor.batch; i += BLOCK)
        if (positive ? is_positive(anchor, i) : is_negative(anchor, i))
            best = choose(best, {anchor.distance[i], i}, positive);
    __syncthreads(); /* other threads may still read the previous one */
    shared[threadIdx.x] = best;
    __syncthreads();
    for (int distance = BLOCK / 2; distance > 0; distance /= 2) {
        if (threadIdx.x < distance)
            shared[threadIdx.x] =
                choose(shared[threadIdx.x], shared[threadIdx.x + distance], positive);
        __syncthreads();
    }
    return shared[0];
}

/* The nearest negative farther than the positive, or else the farthest. */
__device__ static int64_t find_semi_hard(const struct anchor &anchor, int64_t positive)
{
    struct candidate beyond = {0, -1}, farthest = {0, -1};

    for (int64_t i = 0; i < anchor.batch; i++) {
        const struct candidate negative = {anchor.distance[i], i};

        if (!is_negative(anchor, i))
            continue;
        if (negative.distance > anchor.distance[positive])
            beyond = choose(beyond, negative, false);
        farthest = choose(farthest, negative, true);
    }
    return beyond.index >= 0 ? beyond.index : farthest.index;
}

/* The sum of losses of the triplets that a thread has looked at, and how many there are. */
struct mined {
    double loss;
    int triplets;
};

__device__ static struct mined mine_hard(const struct anchor &anchor)
{
    const struct candidate positive = find_hardest(anchor, true);
    const struct candidate negative = find_hardest(anchor, false);
    float loss;

    if (threadIdx.x > 0 || positive.index < 0 || negative.index < 0)
        return {0, 0};
    loss = loss_of(anchor, positive.index, negative.index);
    if (loss != 0) {
        anchor.derivative[positive.index] = 1;
        anchor.derivative[negative.index] = -1;
    }
    return {(double)loss, 1};
}

/* A thread has a positive. */
__device__ static struct mined mine_semi_hard(const struct anchor &anchor)
{
    struct mined mined = {0, 0};

    for (int64_t i = threadIdx.x; i < anchor.batch; i += BLOCK) {
        int64_t negative = is_positive(anchor, i) ? find_semi_hard(anchor, i) : -1;
        float loss;

        if (negative < 0)
            continue;
        loss = loss_of(anchor, i, negative);
        mined.loss += (double)loss;
        mined.triplets++;
        if (loss != 0) {
            anchor.derivative[i] = 1;
            atomicAdd(anchor.derivative + negative, -1.0f);
        }
    }
    return mined;
}

/* A thread has a sample, and finds its derivative; a positive counts the triplets, too. */
__device__ static struct mined mine_all(const struct anchor &anchor)
{
    struct mined mined = {0, 0};

    for (int64_t i = threadIdx.x; i < anchor.batch; i += BLOCK) {
        const bool positive = is_positive(anchor, i);
        int triplets = 0;

        if (i == anchor.index)
            continue;
        for (int64_t k = 0; k < anchor.batch; k++) {
            if (positive ? !is_negative(anchor, k) : !is_positive(anchor, k))
                continue;
            const float loss = positive ? loss_of(anchor, i, k) : loss_of(anchor, k, i);
            triplets += loss != 0;
            mined.loss += positive ? (double)loss : 0;
        }
        anchor.derivative[i] = (float)(positive ? triplets : -triplets);
        mined.triplets += positive ? triplets : 0;
    }
    return mined;
}

/* ---- forward ---- */

__device__ static float distance_of(const float *a, const float *b, int64_t features)
{
    float sum = 0;

    for (int64_t f = 0; f < features; f++)
        sum += (a[f] - b[f]) * (a[f] - b[f]);
    return sqrtf(sum);
}

__global__ void triplet_loss_kernel(const struct cuda_triplet_loss of, double *loss,
                                    int32_t *triplets)
{
    float *derivative = of.saved + blockIdx.x * of.row;
    float *distance = derivative + of.rows;
    const struct anchor anchor = {of.label,         of.rows,  (int64_t)blockIdx.x,
                                  of.config.margin, distance, derivative};
    struct mined mined;

    for (int64_t i = threadIdx.x; i < of.rows; i += BLOCK) {
        distance[i] =
            distance_of(of.x + anchor.index * of.features, of.x + i * of.features, of.features);
        derivative[i] = 0;
    }
    __syncthreads();
    mined = of.config.mining == TRIPLETS_HARD  ? mine_hard(anchor)
            : of.config.mining == TRIPLETS_ALL ? mine_all(anchor)
                                               : mine_semi_hard(anchor);
    __syncthreads();
    for (int64_t i = threadIdx.x; i < of.rows; i += BLOCK)
        derivative[i] = distance[i] == 0 ? 0.0f : derivative[i] / distance[i];
    mined.loss = block_sum(mined.loss);
    mined.triplets = block_sum(mined.triplets);
    if (threadIdx.x == 0) {
        derivative[2 * of.rows] = (float)mined.triplets;
        loss[blockIdx.x] = mined.loss;
        triplets[blockIdx.x] = mined.triplets;
    }
}

/* One block adds what the anchors have to the metrics. */
__global__ void triplet_metrics_kernel(const struct cuda_triplet_loss of, const double *loss,
                                       const int32_t *triplets)
{
    int64_t count = 0;
    double sum = 0;

    for (int64_t r = threadIdx.x; r < of.rows; r += BLOCK) {
        sum += loss[r];
        count += triplets[r];
    }
    sum = block_sum(sum);
    count = block_sum(count);
    if (threadIdx.x == 0)
        metrics_add(of.control, of.scalars, sum, of.rows, count, 0);
}

cudaError_t cuda_triplet_loss(const struct cuda_triplet_loss *loss, void *partial,
                              cudaStream_t stream)
{
    double *losses = (double *)partial;
    int32_t *triplets = (int32_t *)(losses + loss->rows);

    triplet_loss_kernel<<<(unsigned)loss->rows, BLOCK, 0, stream>>>(*loss, losses, triplets);
    triplet_metrics_kernel<<<1, BLOCK, 0, stream>>>(*loss, losses, triplets);
    return cudaGetLastError();
}

/* ---- backward ---- */

/* A block has a sample, a thread its features in turns. */
__global__ void triplet_loss_backward_kernel(const struct cuda_triplet_loss of, float *dx)
{
    const int64_t row = of.row, i = blockIdx.x;
    const float *own = of.x + i * of.features;
    double triplets = 0;
    float scale;

    for (int64_t r = threadIdx.x; r < of.rows; r += BLOCK)
        triplets += (double)of.saved[r * row + 2 * of.rows];
    triplets = block_sum(triplets);
    scale = triplets > 0 ? (float)((double)loss_factor(of.scalars) / triplets) : 0.0f;
    for (int64_t f = threadIdx.x; f < of.features; f += BLOCK) {
        float sum = 0;

        for (int64_t k = 0; k < of.rows; k++) {
            const float pull = of.saved[i * row + k] + of.saved[k * row + i];

            if (pull != 0)
                sum += pull * (own[f] - of.x[k * of.features + f]);
        }
        dx[i * of.features + f] = sum * scale;
    }
}

cudaError_t cuda_triplet_loss_backward(const struct cuda_triplet_loss *loss, float *dx,
                                       cudaStream_t stream)
{
    triplet_loss_backward_kernel<<<(unsigned)loss->rows, BLOCK, 0, stream>>>(*loss, dx);
    return cudaGetLastError();
}
