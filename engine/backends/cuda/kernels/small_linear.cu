/* small_linear.cu: see small_linear.h. A block has 16 warps and one 16 x 16 tile of results, or
 * several tiles whose sums are short. The threads that have the sums also compute what a launch
 * does besides (bias, activation, loss, update).
 *
 * Why not cuBLASLt: an MLP 784-256-10 with batches of 128 on an H200 (microseconds; launches of one
 * CUDA graph, the best of up to 8 algorithms of cuBLASLt 13). Forward with bias and ReLU takes 8.2
 * in float32, 5.8 in tf32, and 3.4 in bfloat16 without the ReLU. The last layer takes 5.0 and its
 * gradient 2.4 (tf32). The first layer's weights with the bias take 6.1, 5.1 and 4.0. Loss,
 * activation and update come in addition. Here the whole step is three launches: 13.7 with SGD and
 * 15.9 with AdamW in float32, 12.8 and 14.2 in tf32, 12.5 and 14.7 in bfloat16. One cooperative
 * launch of the same code for 20 steps, with barriers over the grid (1.3 each), took 14.9 and 16.8,
 * 13.6 and 15.4. Launches that overlap (programmatic dependent launch) saved nothing.
 *
 * Those were kernels for that one model. The kernels here take 20.2 for a step with Adam in
 * float32, including batches made on the device (launch_speed, 64 steps in a launch). Three changes
 * brought that down from 25.0. Operands of float32 in whole chunks have kernels without branches
 * for other types. Biases, labels and the update's operands are loaded before the sums. The head no
 * longer waits for its last block to add up the losses. */
#include "engine/backends/cuda/kernels/activations.cuh"
#include "engine/backends/cuda/kernels/metrics.cuh"
#include "engine/backends/cuda/kernels/small_linear.h"
#include "engine/backends/cuda/kernels/tile.cuh"
#include "engine/backends/cuda/kernels/update.cuh"

typedef float tile_sums[TILE * PITCH];

/* Chunks that a warp loads at once. With more, a second block would not fit on the multiprocessor;
 * a product has only one. */
constexpr int FLIGHT = 2, PRODUCT_FLIGHT = 4;

/* What a thread does with the tiles of its block, one number after the other. */
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

#define BY_TYPE(type, plain, LAUNCH)                  \
    do {                                              \
        switch (type) {                               \
        case TENSOR_TF32:                             \
            BY_PLAIN(TENSOR_TF32, plain, LAUNCH);     \
            break;                                    \
        case TENSOR_BFLOAT16:                         \
            BY_PLAIN(TENSOR_BFLOAT16, plain, LAUNCH); \
            break;                                    \
        case TENSOR_FLOAT16:                          \
            BY_PLAIN(TENSOR_FLOAT16, plain, LAUNCH);  \
            break;                                    \
        default:                                      \
            BY_PLAIN(TENSOR_FLOAT32, plain, LAUNCH);  \
        }                                             \
        return cudaGetLastError();                    \
    } while (0)
#define BY_PLAIN(type, plain, LAUNCH) \
    do {                              \
        if (plain)                    \
            LAUNCH(type, true);       \
        else                          \
            LAUNCH(type, false);      \
    } while (0)

/* Activations that networks seldom have are called, not inlined in every kernel: instructions have
 * to be fetched, too. */
__device__ __noinline__ static float activate_seldom(int kind, float x)
{
    return activate_any(kind, x);
}

__device__ __noinline__ static float activate_backward_seldom(int kind, float dy, float saved)
{
    return activate_backward_any(kind, dy, saved);
}

__device__ static inline float activate_small(int kind, float x)
{
    return kind < 0                  ? x
           : kind == ACTIVATION_RELU ? activate<ACTIVATION_RELU>(x)
                                     : activate_seldom(kind, x);
}

__device__ static inline float activate_backward_small(int kind, float dy, float saved)
{
    return kind < 0                  ? dy
           : kind == ACTIVATION_RELU ? activate_backward<ACTIVATION_RELU>(dy, saved)
                                     : activate_backward_seldom(kind, dy, saved);
}

template <int type, bool plain>
__device__ static inline float matrix_value(const struct cuda_small_matrix &m, int i)
{
    return plain ? plain_value<type>(m, i) : array_load(m.array, i);
}

/* ---- forward, and backward by the samples ---- */

/* What a number of the result needs beside its sum. It is loaded before the sum is begun. */
struct product_aside {
    bool inside;
    int64_t at;
    float other; /* forward: the bias; else: the number from which the derivative is computed */
};

template <bool forward>
__device__ static inline struct product_aside product_aside_of(const struct cuda_small_product &p,
                                                               int first, struct place at)
{
    const int down = (p.a.rows + TILE - 1) / TILE, tile = first + at.tile;
    const int row = tile % down * TILE + at.row, column = tile / down * TILE + at.column;
    struct product_aside aside = {row < p.a.rows && column < p.b.rows,
                                  (int64_t)row * p.b.rows + column, 0.0f};

    if (aside.inside && forward && p.bias)
        aside.other = p.bias[column];
    if (aside.inside && !forward && p.activation >= 0)
        aside.other = array_load(p.saved, aside.at);
    return aside;
}

template <bool forward>
__device__ static inline void product_finish(const struct cuda_small_product &p, float sum,
                                             const struct product_aside &aside)
{
    if (forward) {
        sum += aside.other;
        if (p.before.at)
            array_store(p.before, aside.at, sum);
        sum = activate_small(p.activation, sum);
    } else {
        sum = activate_backward_small(p.activation, sum, aside.other);
    }
    array_store(p.y, aside.at, sum);
}

template <int type, bool forward, bool plain>
__global__ void __launch_bounds__(THREADS, 1) product_kernel(struct cuda_small_product p)
{
    __shared__ tile_sums sums[WARPS];
    const int warp = threadIdx.x / 32, tiles = WARPS / p.parts;
    const int down = (p.a.rows + TILE - 1) / TILE, across = (p.b.rows + TILE - 1) / TILE;
    const int first = blockIdx.x * tiles, mine = first + warp / p.parts;
    struct product_aside aside = product_aside_of<forward>(p, first, place_of(threadIdx.x));

    if (mine < down * across)
        tile_part<type, true, forward, plain, plain ? PRODUCT_FLIGHT : FLIGHT>(
            p.a, p.b, mine % down * TILE, mine / down * TILE, warp % p.parts, p.parts, sums[warp],
            NULL);
    __syncthreads();
    for (int e = threadIdx.x; e < tiles * TILE * TILE; e += THREADS) {
        const struct place at = place_of(e);

        if (e >= THREADS)
            aside = product_aside_of<forward>(p, first, at);
        if (aside.inside)
            product_finish<forward>(
                p, tile_sum(&sums[at.tile * p.parts], p.parts, at.row, at.column), aside);
    }
}

cudaError_t cuda_small_product(int type, bool forward, const struct cuda_small_product *p,
                               cudaStream_t stream)
{
    const bool plain = matrix_is_plain(&p->a, type) && matrix_is_plain(&p->b, type);
    int tiles = WARPS / p->parts;
    int blocks = (tiles_of(p->a.rows) * tiles_of(p->b.rows) + tiles - 1) / tiles;

#define FORWARD(type, plain) product_kernel<type, true, plain><<<blocks, THREADS, 0, stream>>>(*p)
#define BACKWARD(type, plain) product_kernel<type, false, plain><<<blocks, THREADS, 0, stream>>>(*p)
    if (forward)
        BY_TYPE(type, plain, FORWARD);
    BY_TYPE(type, plain, BACKWARD);
#undef FORWARD
#undef BACKWARD
}

/* ---- the last layer with its loss ---- */

/* Sums over half a warp: the classes of a row. */
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

/* The largest value, and its first place. NaN counts as smaller than any number. */
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

/* What a thread needs for its logit beside the sum. It is loaded before the sum is begun. */
struct head_aside {
    float bias, factor; /* loss_factor() */
    int label;
};

__device__ static inline struct head_aside
head_aside_of(const struct cuda_scalars *scalars, const struct cuda_small_head &h, int row, int c)
{
    struct head_aside aside = {0.0f, loss_factor(scalars), 0};

    if (h.bias && c < h.weight.rows)
        aside.bias = h.bias[c];
    if (h.label && row < h.x.rows)
        aside.label = h.label[row];
    return aside;
}

/* What half a warp does with the logits of a row (z: one class each, -INFINITY beyond them); the
 * gradient of the loss by its logit. */
__device__ static float head_row(const struct cuda_small_head *h, const struct head_aside &aside,
                                 int row, float z, bool writes)
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
        bool known = aside.label >= 0 && aside.label < classes;
        float at_label = __shfl_sync(~0u, z, known ? aside.label : 0, TILE);

        wanted = c == aside.label ? 1.0f : 0.0f;
        lost = (double)total - (known ? at_label : NAN);
        likeliest = known ? aside.label : -1;
    } else {
        wanted = inside ? h->probability[i] : 0.0f;
        row_maximum(c < classes ? wanted : -INFINITY, &likeliest);
        weight = row_sum(wanted);
        lost = row_sum(inside ? (double)wanted * (total - z) : 0.0);
    }
    d = aside.factor / (float)h->x.rows * (weight * expf(z - total) - wanted);
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

/* By one warp: the losses of all rows, in a fixed order. */
__device__ static void add_losses(struct cuda_control *control, const struct cuda_scalars *scalars,
                                  const void *partial, int rows)
{
    const int lane = threadIdx.x % 32;
    const double *loss = (const double *)partial;
    const int32_t *correct = (const int32_t *)(loss + rows);
    double sum = 0;
    int right = 0;

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
        metrics_add(control, scalars, sum, rows, rows, right);
}

/* The block that comes last adds up the losses. */
__device__ static void head_metrics(struct cuda_control *control,
                                    const struct cuda_scalars *scalars,
                                    const struct cuda_small_head *h, unsigned blocks)
{
    __shared__ bool last;

    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicInc(&control->arrivals[0], blocks - 1) == blocks - 1;
        __threadfence();
    }
    __syncthreads();
    if (last && threadIdx.x < 32)
        add_losses(control, scalars, h->partial, h->x.rows);
}

template <int type, bool plain>
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
    struct head_aside aside = {0.0f, 0.0f, 0};
    float weight[TILE], saved = 0;

    if (at.tile == 0)
        aside = head_aside_of(scalars, h, row, at.column);
#pragma unroll
    for (int k = 0; k < TILE; k++) /* loaded before it is needed */
        weight[k] = has_dx && k < classes
                        ? rounded<type>(matrix_value<type, plain>(h.weight, k * features + column))
                        : 0.0f;
    if (has_dx && h.activation >= 0)
        saved = array_load(h.saved, (int64_t)row * features + column);
    tile_part<type, true, true, plain, FLIGHT>(h.x, h.weight, row0, 0, warp, WARPS, sums[warp],
                                               NULL);
    __syncthreads();
    if (at.tile == 0) {
        float z =
            at.column < classes ? tile_sum(sums, WARPS, at.row, at.column) + aside.bias : -INFINITY;

        d[at.row][at.column] = rounded<type>(head_row(&h, aside, row, z, column0 == 0));
    }
    __syncthreads();
    if (has_dx) {
        float sum = 0;

#pragma unroll
        for (int k = 0; k < TILE; k++)
            sum += d[at.row][k] * weight[k];
        array_store(h.dx, (int64_t)row * features + column,
                    activate_backward_small(h.activation, sum, saved));
    }
    if (column0 == 0 && !h.losses_wait)
        head_metrics(control, scalars, &h, down);
}

cudaError_t cuda_small_head(int type, struct cuda_control *control,
                            const struct cuda_scalars *scalars, const struct cuda_small_head *head,
                            cudaStream_t stream)
{
    const bool plain = matrix_is_plain(&head->x, type) && matrix_is_plain(&head->weight, type);
    int blocks = tiles_of(head->x.rows) * (head->dx.at ? tiles_of(head->x.terms) : 1);

#define HEAD(type, plain) \
    head_kernel<type, plain><<<blocks, THREADS, 0, stream>>>(control, scalars, *head)
    BY_TYPE(type, plain, HEAD);
#undef HEAD
}

/* ---- backward by the weights ---- */

/* A number of an item with its states, as far as it has them. */
struct item_value {
    float parameter, state0, state1, state2;
};

__device__ static inline struct item_value item_load(const struct cuda_item &item, int64_t i)
{
    struct item_value value = {};

    if (item.parameter) {
        value.parameter = item.parameter[i];
        value.state0 = item.state0 ? item.state0[i] : 0.0f;
        value.state1 = item.state1 ? item.state1[i] : 0.0f;
        value.state2 = item.state2 ? item.state2[i] : 0.0f;
    }
    return value;
}

__device__ static inline void item_store(const struct cuda_item &item, int64_t i,
                                         const struct item_value &value)
{
    item.parameter[i] = value.parameter;
    if (item.state0)
        item.state0[i] = value.state0;
    if (item.state1)
        item.state1[i] = value.state1;
    if (item.state2)
        item.state2[i] = value.state2;
}

__device__ __noinline__ static struct item_value
update_seldom(int formula, const float *c, float gradient, struct item_value value)
{
    update_value(formula, c, gradient, &value.parameter, &value.state0, &value.state1,
                 &value.state2);
    return value;
}

__device__ static inline struct item_value update_small(int formula, const float *c, float gradient,
                                                        struct item_value value)
{
    if (formula == FORMULA_SGD)
        update_sgd(c, gradient, &value.parameter, &value.state0);
    else if (formula == FORMULA_ADAM)
        update_adam(c, gradient, &value.parameter, &value.state0, &value.state1);
    else
        value = update_seldom(formula, c, gradient, value);
    return value;
}

/* What all threads of a block use for their updates. */
struct update_terms {
    float weight[UPDATE_COEFFICIENTS], bias[UPDATE_COEFFICIENTS], unscale, clip;
};

__device__ static inline void terms_load(struct update_terms &terms,
                                         const struct cuda_scalars *scalars,
                                         const struct cuda_small_weights &l)
{
    const int i = threadIdx.x % UPDATE_COEFFICIENTS, which = threadIdx.x / UPDATE_COEFFICIENTS;

    if (which == 0 && l.weight.parameter)
        terms.weight[i] = scalars->group[l.weight.group][i];
    if (which == 1 && l.bias.parameter)
        terms.bias[i] = scalars->group[l.bias.group][i];
    if (which == 2 && i == 0)
        terms.unscale = scalars->unscale;
    if (which == 3 && i == 0)
        terms.clip = scalars->clip_value;
}

/* Sums up a gradient, and updates its parameter. */
__device__ static inline void finish_gradient(const struct update_terms &terms, const float *c,
                                              bool accumulate, const struct cuda_item &item,
                                              struct item_value value, float sum, float *gradient)
{
    sum += accumulate ? *gradient : 0.0f;
    *gradient = sum;
    if (item.parameter)
        item_store(item, 0,
                   update_small(item.formula, c, clipped(terms.unscale * sum, terms.clip), value));
}

/* The item from its element `i` on. */
__device__ static inline struct cuda_item item_from(const struct cuda_item &item, int i)
{
    struct cuda_item from = item;

    from.parameter = item.parameter ? item.parameter + i : NULL;
    from.state0 = item.state0 ? item.state0 + i : NULL;
    from.state1 = item.state1 ? item.state1 + i : NULL;
    from.state2 = item.state2 ? item.state2 + i : NULL;
    return from;
}

/* The index of a number of a layer's gradient; -1: there is no such number. */
__device__ static inline int place_in_layer(const struct cuda_small_weights &l, int first,
                                            struct place at)
{
    const int down = (l.dy.rows + TILE - 1) / TILE, tile = first + at.tile;
    const int o = tile % down * TILE + at.row, i = tile / down * TILE + at.column;

    return o < l.dy.rows && i < l.x.rows ? o * l.x.rows + i : -1;
}

template <int type, bool plain>
__global__ void __launch_bounds__(THREADS, 2)
    weights_kernel(const struct cuda_scalars *scalars,
                   const __grid_constant__ struct cuda_small_layers layers, bool accumulate)
{
    __shared__ tile_sums sums[WARPS];
    __shared__ float rows[WARPS][TILE];
    __shared__ struct update_terms terms;
    const int warp = threadIdx.x / 32;
    struct item_value ahead;
    int number = 0, index;

    if (blockIdx.x == layers.first_block[layers.count]) { /* the block behind those of the layers */
        if (warp == 0)
            add_losses(layers.control, scalars, layers.losses, layers.loss_rows);
        return;
    }
    while ((int)blockIdx.x >= layers.first_block[number + 1])
        number++;
    const struct cuda_small_weights &l = layers.layer[number];
    const int tiles = WARPS / l.parts;
    const int down = (l.dy.rows + TILE - 1) / TILE, across = (l.x.rows + TILE - 1) / TILE;
    const int first = ((int)blockIdx.x - layers.first_block[number]) * tiles;
    const int mine = first + warp / l.parts;
    const int row = first * TILE + (int)threadIdx.x; /* of dy, for the tiles of the first column */

    /* loads what the first update needs beside the sums before these begin */
    terms_load(terms, scalars, l);
    index = place_in_layer(l, first, place_of(threadIdx.x));
    ahead = item_load(l.weight, max(index, 0));
    if (mine < down * across)
        tile_part<type, false, false, plain, FLIGHT>(
            l.dy, l.x, mine % down * TILE, mine / down * TILE, warp % l.parts, l.parts, sums[warp],
            l.bias_gradient && mine < down ? rows[warp] : NULL);
    __syncthreads();
#pragma unroll 1 /* keeps one copy of the update's instructions */
    for (int e = threadIdx.x; e < tiles * TILE * TILE; e += THREADS) {
        const struct place at = place_of(e);
        const float sum = tile_sum(&sums[at.tile * l.parts], l.parts, at.row, at.column);
        const struct item_value value = ahead;
        const int i = index;

        if (e + THREADS < tiles * TILE * TILE) {
            index = place_in_layer(l, first, place_of(e + THREADS));
            ahead = item_load(l.weight, max(index, 0));
        }
        if (i >= 0)
            finish_gradient(terms, terms.weight, accumulate, item_from(l.weight, i), value, sum,
                            l.gradient + i);
    }
    if (l.bias_gradient && threadIdx.x < tiles * TILE && row < l.dy.rows) {
        float sum = 0;

        for (int p = 0; p < l.parts; p++)
            sum += rows[threadIdx.x / TILE * l.parts + p][threadIdx.x % TILE];
        finish_gradient(terms, terms.bias, accumulate, item_from(l.bias, row),
                        item_load(l.bias, row), sum, l.bias_gradient + row);
    }
}

static bool layers_are_plain(const struct cuda_small_layers *layers, int type)
{
    for (int k = 0; k < layers->count; k++)
        if (!matrix_is_plain(&layers->layer[k].dy, type) ||
            !matrix_is_plain(&layers->layer[k].x, type))
            return false;
    return true;
}

cudaError_t cuda_small_weights(int type, const struct cuda_scalars *scalars,
                               struct cuda_small_layers *layers, bool accumulate,
                               cudaStream_t stream)
{
    const bool plain = layers_are_plain(layers, type);
    int blocks;

    layers->first_block[0] = 0;
    for (int k = 0; k < layers->count; k++) {
        const struct cuda_small_weights *l = &layers->layer[k];
        int tiles = WARPS / l->parts;

        layers->first_block[k + 1] =
            layers->first_block[k] +
            (tiles_of(l->dy.rows) * tiles_of(l->x.rows) + tiles - 1) / tiles;
    }
    blocks = layers->first_block[layers->count] + (layers->losses ? 1 : 0);
#define WEIGHTS(type, plain) \
    weights_kernel<type, plain><<<blocks, THREADS, 0, stream>>>(scalars, *layers, accumulate)
    BY_TYPE(type, plain, WEIGHTS);
#undef WEIGHTS
}
