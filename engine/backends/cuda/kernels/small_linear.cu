/* small_linear.cu: see small_linear.h. A block has 16 warps and one 16 x 16 tile of results, or
 * several whose sums are short; what each launch does along (bias, activation, loss, update) the
 * threads do that have the sums.
 *
 * Why not cuBLASLt: an MLP 784-256-10 with batches of 128 on an H200 (microseconds; launches of one
 * CUDA graph, the best of up to 8 algorithms of cuBLASLt 13): forward with bias and ReLU 8.2 in
 * float32, 5.8 in tf32, and 3.4 in bfloat16 without the ReLU; the last layer 5.0 and its gradient 2.4
 * (tf32); the first layer's weights with the bias 6.1, 5.1, 4.0; beside that loss, activation and
 * update. Here the whole step is three launches: 13.7 with SGD and 15.9 with AdamW in float32, 12.8
 * and 14.2 in tf32, 12.5 and 14.7 in bfloat16. One cooperative launch of the same code for 20 steps,
 * with barriers over the grid (1.3 each), took 14.9 and 16.8, 13.6 and 15.4; launches that overlap
 * (programmatic dependent launch) saved nothing. Those were kernels of that one model; these here
 * take 25.1 a step with Adam in float32, batches made on the device included (launch_speed, 64 steps
 * to a launch), 27.1 where the first two are bound to registers for two blocks and spill. */
#include "engine/backends/cuda/kernels/small_linear.h"

#include "engine/backends/cuda/kernels/activations.cuh"
#include "engine/backends/cuda/kernels/metrics.cuh"
#include "engine/backends/cuda/kernels/tile.cuh"
#include "engine/backends/cuda/kernels/update.cuh"

typedef float tile_sums[TILE * PITCH];

/* What a thread has to do with the tiles of its block, one number after the other. */
struct place {
    int tile, row, column; /* tile: among the block's */
};
__device__ static inline struct place place_of(int element)
{
    return {element / (TILE * TILE), element / TILE % TILE, element % TILE};
}

static int tiles_of(int extent)
{
    return (extent + TILE - 1) / TILE;
}

#define BY_TYPE(type, LAUNCH)     \
    do {                          \
        switch (type) {           \
        case TENSOR_TF32:         \
            LAUNCH(TENSOR_TF32);  \
            break;                \
        case TENSOR_BFLOAT16:     \
            LAUNCH(TENSOR_BFLOAT16); \
            break;                \
        case TENSOR_FLOAT16:      \
            LAUNCH(TENSOR_FLOAT16); \
            break;                \
        default:                  \
            LAUNCH(TENSOR_FLOAT32); \
        }                         \
        return cudaGetLastError(); \
    } while (0)

/* ---- forward, and backward by the samples ---- */

template <int type, bool forward>
__global__ void __launch_bounds__(THREADS, 1) product_kernel(struct cuda_small_product p)
{
    __shared__ tile_sums sums[WARPS];
    const int warp = threadIdx.x / 32, tiles = WARPS / p.parts;
    const int down = (p.a.rows + TILE - 1) / TILE, across = (p.b.rows + TILE - 1) / TILE;
    const int first = blockIdx.x * tiles, mine = first + warp / p.parts;

    if (mine < down * across)
        tile_part<type, true, forward>(p.a, p.b, mine % down * TILE, mine / down * TILE,
                                       warp % p.parts, p.parts, sums[warp], NULL);
    __syncthreads();
    for (int e = threadIdx.x; e < tiles * TILE * TILE; e += THREADS) {
        const struct place at = place_of(e);
        const int tile = first + at.tile;
        const int row = tile % down * TILE + at.row, column = tile / down * TILE + at.column;
        const int64_t i = (int64_t)row * p.b.rows + column;
        float sum;

        if (tile >= down * across || row >= p.a.rows || column >= p.b.rows)
            continue;
        sum = tile_sum(&sums[at.tile * p.parts], p.parts, at.row, at.column);
        if (forward) {
            sum += p.bias ? p.bias[column] : 0.0f;
            if (p.before.at)
                array_store(p.before, i, sum);
            sum = activate_any(p.activation, sum);
        } else if (p.activation >= 0) {
            sum = activate_backward_any(p.activation, sum, array_load(p.saved, i));
        }
        array_store(p.y, i, sum);
    }
}

cudaError_t cuda_small_product(int type, bool forward, const struct cuda_small_product *p,
                               cudaStream_t stream)
{
    int tiles = WARPS / p->parts;
    int blocks = (tiles_of(p->a.rows) * tiles_of(p->b.rows) + tiles - 1) / tiles;

#define FORWARD(type) product_kernel<type, true><<<blocks, THREADS, 0, stream>>>(*p)
#define BACKWARD(type) product_kernel<type, false><<<blocks, THREADS, 0, stream>>>(*p)
    if (forward)
        BY_TYPE(type, FORWARD);
    BY_TYPE(type, BACKWARD);
#undef FORWARD
#undef BACKWARD
}

/* ---- the last layer with its loss ---- */

/* Over half a warp: a row's classes. */
__device__ static inline float row_sum(float x)
{
#pragma unroll
    for (int distance = TILE / 2; distance; distance /= 2)
        x += __shfl_xor_sync(~0u, x, distance);
    return x;
}

__device__ static inline double row_sum(double x)
{
#pragma unroll
    for (int distance = TILE / 2; distance; distance /= 2)
        x += __shfl_xor_sync(~0u, x, distance);
    return x;
}

/* The largest, and the first place where it is; NaN counts as smaller than anything. */
__device__ static inline float row_maximum(float x, int *place)
{
    int at = threadIdx.x % TILE;

    x = isnan(x) ? -INFINITY : x;
#pragma unroll
    for (int distance = TILE / 2; distance; distance /= 2) {
        float other = __shfl_xor_sync(~0u, x, distance);
        int other_at = __shfl_xor_sync(~0u, at, distance);

        if (other > x || (other == x && other_at < at)) {
            x = other;
            at = other_at;
        }
    }
    *place = at;
    return x;
}

/* What half a warp does with the logits of a row (z: one class each, -INFINITY beyond them); the
 * gradient of the loss by its logit. */
__device__ static float head_row(const struct cuda_scalars *scalars,
                                 const struct cuda_small_head *h, int row, float z, bool writes)
{
    const int c = threadIdx.x % TILE, classes = h->weight.rows;
    const bool inside = c < classes && row < h->x.rows;
    const int64_t i = (int64_t)row * classes + c;
    double *loss = (double *)h->partial;
    int32_t *correct = (int32_t *)(loss + h->x.rows);
    int best, likeliest = 0;
    float top = row_maximum(z, &best);
    float total = top + logf(row_sum(c < classes ? expf(z - top) : 0.0f));
    float wanted = 0, weight = 1, d;
    double lost;

    if (h->label) {
        int label = row < h->x.rows ? h->label[row] : 0;
        bool known = label >= 0 && label < classes;
        float at_label = __shfl_sync(~0u, z, known ? label : 0, TILE);

        wanted = c == label ? 1.0f : 0.0f;
        lost = (double)total - (known ? at_label : NAN);
        likeliest = known ? label : -1;
    } else {
        wanted = inside ? h->probability[i] : 0.0f;
        row_maximum(c < classes ? wanted : -INFINITY, &likeliest);
        weight = row_sum(wanted);
        lost = row_sum(inside ? (double)wanted * (total - z) : 0.0);
    }
    d = loss_factor(scalars) / (float)h->x.rows * (weight * expf(z - total) - wanted);
    if (writes && inside) {
        h->logits[i] = z;
        if (h->dlogits)
            h->dlogits[i] = d;
        if (c == 0) {
            h->log_sum_exp[row] = total;
            loss[row] = lost;
            correct[row] = best == likeliest;
        }
    }
    return inside ? d : 0.0f;
}

/* The block that comes last adds up the losses, in the order of the rows, by its first warp. */
__device__ static void head_metrics(struct cuda_control *control,
                                    const struct cuda_scalars *scalars,
                                    const struct cuda_small_head *h, unsigned blocks)
{
    __shared__ bool last;
    const int lane = threadIdx.x % 32, rows = h->x.rows;
    const double *loss = (const double *)h->partial;
    const int32_t *correct = (const int32_t *)(loss + rows);
    double sum = 0;
    int right = 0;

    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicInc(&control->arrivals[0], blocks - 1) == blocks - 1;
        __threadfence();
    }
    __syncthreads();
    if (!last || threadIdx.x >= 32)
        return;
    for (int r = lane; r < rows; r += 32) {
        sum += __ldcg(&loss[r]);
        right += __ldcg(&correct[r]);
    }
#pragma unroll
    for (int distance = 16; distance; distance /= 2) {
        sum += __shfl_xor_sync(~0u, sum, distance);
        right += __shfl_xor_sync(~0u, right, distance);
    }
    if (lane == 0)
        metrics_add(control, scalars, sum, rows, right);
}

template <int type>
__global__ void __launch_bounds__(THREADS, 1)
    head_kernel(struct cuda_control *control, const struct cuda_scalars *scalars,
                struct cuda_small_head h)
{
    __shared__ tile_sums sums[WARPS];
    __shared__ float d[TILE][TILE + 1];
    const int down = (h.x.rows + TILE - 1) / TILE;
    const int row0 = blockIdx.x % down * TILE, column0 = blockIdx.x / down * TILE;
    const int warp = threadIdx.x / 32, classes = h.weight.rows, features = h.weight.terms;
    const struct place at = place_of(threadIdx.x);
    const int row = row0 + at.row, column = column0 + at.column;
    const bool has_dx = h.dx.at && at.tile == 0 && row < h.x.rows && column < features;
    float weight[TILE], saved = 0;

#pragma unroll
    for (int k = 0; k < TILE; k++) /* asked for before it is needed */
        weight[k] = has_dx && k < classes
                        ? rounded<type>(array_load(h.weight.array, (int64_t)k * features + column))
                        : 0.0f;
    if (has_dx && h.activation >= 0)
        saved = array_load(h.saved, (int64_t)row * features + column);
    tile_part<type, true, true>(h.x, h.weight, row0, 0, warp, WARPS, sums[warp], NULL);
    __syncthreads();
    if (at.tile == 0) {
        float z = tile_sum(sums, WARPS, at.row, at.column);

        if (at.column < classes)
            z += h.bias ? h.bias[at.column] : 0.0f;
        else
            z = -INFINITY;
        d[at.row][at.column] = rounded<type>(head_row(scalars, &h, row, z, column0 == 0));
    }
    __syncthreads();
    if (has_dx) {
        float sum = 0;

#pragma unroll
        for (int k = 0; k < TILE; k++)
            sum += d[at.row][k] * weight[k];
        array_store(h.dx, (int64_t)row * features + column,
                    activate_backward_any(h.activation, sum, saved));
    }
    if (column0 == 0)
        head_metrics(control, scalars, &h, down);
}

cudaError_t cuda_small_head(int type, struct cuda_control *control,
                            const struct cuda_scalars *scalars, const struct cuda_small_head *head,
                            cudaStream_t stream)
{
    int blocks = tiles_of(head->x.rows) * (head->dx.at ? tiles_of(head->x.terms) : 1);

#define HEAD(type) head_kernel<type><<<blocks, THREADS, 0, stream>>>(control, scalars, *head)
    BY_TYPE(type, HEAD);
#undef HEAD
}

/* ---- backward by the weights ---- */

__device__ static inline void finish_gradient(const struct cuda_scalars *scalars, bool accumulate,
                                              const struct cuda_item *item, float sum,
                                              float *gradient, int64_t i)
{
    sum += accumulate ? gradient[i] : 0.0f;
    gradient[i] = sum;
    if (item->parameter)
        update_element(item, scalars->group[item->group],
                       clipped(scalars->unscale * sum, scalars->clip_value), i);
}

template <int type>
__global__ void __launch_bounds__(THREADS, 2)
    weights_kernel(const struct cuda_scalars *scalars,
                   const __grid_constant__ struct cuda_small_layers layers, bool accumulate)
{
    __shared__ tile_sums sums[WARPS];
    __shared__ float rows[WARPS][TILE];
    const int warp = threadIdx.x / 32;
    int number = 0;

    while ((int)blockIdx.x >= layers.first_block[number + 1])
        number++;
    const struct cuda_small_weights &l = layers.layer[number];
    const int tiles = WARPS / l.parts, outputs = l.dy.rows, inputs = l.x.rows;
    const int down = (outputs + TILE - 1) / TILE, across = (inputs + TILE - 1) / TILE;
    const int first = ((int)blockIdx.x - layers.first_block[number]) * tiles;
    const int mine = first + warp / l.parts;

    if (mine < down * across)
        tile_part<type, false, false>(l.dy, l.x, mine % down * TILE, mine / down * TILE,
                                      warp % l.parts, l.parts, sums[warp],
                                      l.bias_gradient && mine < down ? rows[warp] : NULL);
    __syncthreads();
    for (int e = threadIdx.x; e < tiles * TILE * TILE; e += THREADS) {
        const struct place at = place_of(e);
        const int tile = first + at.tile;
        const int o = tile % down * TILE + at.row, i = tile / down * TILE + at.column;

        if (tile >= down * across || o >= outputs || i >= inputs)
            continue;
        finish_gradient(scalars, accumulate, &l.weight,
                        tile_sum(&sums[at.tile * l.parts], l.parts, at.row, at.column), l.gradient,
                        (int64_t)o * inputs + i);
        if (l.bias_gradient && i == 0) {
            float sum = 0;

            for (int p = 0; p < l.parts; p++)
                sum += rows[at.tile * l.parts + p][at.row];
            finish_gradient(scalars, accumulate, &l.bias, sum, l.bias_gradient, o);
        }
    }
}

cudaError_t cuda_small_weights(int type, const struct cuda_scalars *scalars,
                               struct cuda_small_layers *layers, bool accumulate,
                               cudaStream_t stream)
{
    layers->first_block[0] = 0;
    for (int k = 0; k < layers->count; k++) {
        const struct cuda_small_weights *l = &layers->layer[k];
        int tiles = WARPS / l->parts;

        layers->first_block[k + 1] =
            layers->first_block[k] +
            (tiles_of(l->dy.rows) * tiles_of(l->x.rows) + tiles - 1) / tiles;
    }
#define WEIGHTS(type)                                                                      \
    weights_kernel<type><<<layers->first_block[layers->count], THREADS, 0, stream>>>(scalars, \
                                                                                     *layers, accumulate)
    BY_TYPE(type, WEIGHTS);
#undef WEIGHTS
}
