/* broadcast.cu: two tensors combined number by number, of which the second may repeat, and the
 * gradients. Sums have a fixed order. */
#include "engine/backends/cuda/kernels/general.h"
#include "engine/backends/cuda/kernels/values.cuh"

constexpr int COLUMNS = 32, ROWS = BLOCK / COLUMNS;

/* ---- what each kind computes ---- */

template <int KIND> __device__ static inline float combined(float a, float b)
{
    switch (KIND) {
    case BROADCAST_ADD:
        return a + b;
    case BROADCAST_SUBTRACT:
        return a - b;
    case BROADCAST_SUBTRACT_REVERSE:
        return b - a;
    case BROADCAST_MULTIPLY:
        return a * b;
    case BROADCAST_DIVIDE:
        return a / b;
    default:
        return b / a;
    }
}

template <int KIND> __device__ static inline float by_first(float dy, float a, float b)
{
    switch (KIND) {
    case BROADCAST_ADD:
    case BROADCAST_SUBTRACT:
        return dy;
    case BROADCAST_SUBTRACT_REVERSE:
        return -dy;
    case BROADCAST_MULTIPLY:
        return dy * b;
    case BROADCAST_DIVIDE:
        return dy / b;
    default:
        return -dy * b / (a * a);
    }
}

template <int KIND> __device__ static inline float by_second(float dy, float a, float b)
{
    switch (KIND) {
    case BROADCAST_ADD:
    case BROADCAST_SUBTRACT_REVERSE:
        return dy;
    case BROADCAST_SUBTRACT:
        return -dy;
    case BROADCAST_MULTIPLY:
        return dy * a;
    case BROADCAST_DIVIDE:
        return -dy * a / (b * b);
    default:
        return dy / a;
    }
}

#define EVERY_KIND(DO)             \
    DO(BROADCAST_ADD)              \
    DO(BROADCAST_SUBTRACT)         \
    DO(BROADCAST_SUBTRACT_REVERSE) \
    DO(BROADCAST_MULTIPLY)         \
    DO(BROADCAST_DIVIDE)           \
    DO(BROADCAST_DIVIDE_REVERSE)

/* Where b has the number that element i of a meets. */
__device__ static inline int64_t place_in_second(const struct cuda_broadcast &broadcast, int64_t i)
{
    const int64_t k = i / broadcast.how.inner % broadcast.how.middle;

    if (broadcast.shared)
        return k;
    return i / (broadcast.how.outer * broadcast.how.middle * broadcast.how.inner) *
               broadcast.how.middle +
           k;
}

__device__ static inline float load_if_there(const struct cuda_array &array, int64_t i)
{
    return array.at ? array_load(array, i) : 0.0f;
}

/* Numbers of b: WIDTH side by side, or the same one for WIDTH neighbours of a. */
template <int WIDTH, bool SIDE_BY_SIDE>
__device__ static inline void load_second(const struct cuda_array &b, int64_t at,
                                          float (&value)[WIDTH])
{
    if (SIDE_BY_SIDE && b.at) {
        load<WIDTH>(b, at, value);
        return;
    }
    const float same = load_if_there(b, at);

#pragma unroll
    for (int k = 0; k < WIDTH; k++)
        value[k] = same;
}

/* ---- forward, and the gradient by the first ---- */

template <int KIND, int WIDTH, bool SIDE_BY_SIDE>
__global__ void forward_kernel(struct cuda_broadcast broadcast, struct cuda_array a,
                               struct cuda_array b, struct cuda_array y, int64_t count)
{
    FOR_EACH_ELEMENT(g, count / WIDTH)
    {
        float x[WIDTH], other[WIDTH];

        load<WIDTH>(a, g * WIDTH, x);
        load_second<WIDTH, SIDE_BY_SIDE>(b, place_in_second(broadcast, g * WIDTH), other);
#pragma unroll
        for (int k = 0; k < WIDTH; k++)
            x[k] = combined<KIND>(x[k], other[k]);
        store<WIDTH>(y, g * WIDTH, x);
    }
}

template <int KIND, int WIDTH, bool SIDE_BY_SIDE>
__global__ void first_kernel(struct cuda_broadcast broadcast, struct cuda_array dy,
                             struct cuda_array a, struct cuda_array b, struct cuda_array da,
                             int64_t count)
{
    FOR_EACH_ELEMENT(g, count / WIDTH)
    {
        float gradient[WIDTH], x[WIDTH] = {}, other[WIDTH];

        load<WIDTH>(dy, g * WIDTH, gradient);
        if (a.at)
            load<WIDTH>(a, g * WIDTH, x);
        load_second<WIDTH, SIDE_BY_SIDE>(b, place_in_second(broadcast, g * WIDTH), other);
#pragma unroll
        for (int k = 0; k < WIDTH; k++)
            gradient[k] = by_first<KIND>(gradient[k], x[k], other[k]);
        store<WIDTH>(da, g * WIDTH, gradient);
    }
}

/* How eight neighbours of a meet b: eight side by side, one alone, or neither. */
enum pattern { SINGLE, GROUP_BY_GROUP, GROUP_BY_ONE };

static enum pattern pattern_of(const struct broadcast_attributes *how)
{
    if (how->inner == 1 && how->middle % GROUP == 0)
        return GROUP_BY_GROUP;
    return how->inner % GROUP == 0 ? GROUP_BY_ONE : SINGLE;
}

static int64_t elements_of(const struct cuda_broadcast *broadcast)
{
    return broadcast->batch * broadcast->how.outer * broadcast->how.middle * broadcast->how.inner;
}

template <int KIND>
static void launch_forward(const struct cuda_broadcast &broadcast, struct cuda_array a,
                           struct cuda_array b, struct cuda_array y, cudaStream_t stream)
{
    const int64_t count = elements_of(&broadcast);

    switch (pattern_of(&broadcast.how)) {
    case GROUP_BY_GROUP:
        forward_kernel<KIND, GROUP, true>
            <<<blocks_for(count / GROUP), BLOCK, 0, stream>>>(broadcast, a, b, y, count);
        break;
    case GROUP_BY_ONE:
        forward_kernel<KIND, GROUP, false>
            <<<blocks_for(count / GROUP), BLOCK, 0, stream>>>(broadcast, a, b, y, count);
        break;
    default:
        forward_kernel<KIND, 1, true>
            <<<blocks_for(count), BLOCK, 0, stream>>>(broadcast, a, b, y, count);
    }
}

template <int KIND>
static void launch_first(const struct cuda_broadcast &broadcast, struct cuda_array dy,
                         struct cuda_array a, struct cuda_array b, struct cuda_array da,
                         cudaStream_t stream)
{
    const int64_t count = elements_of(&broadcast);

    switch (pattern_of(&broadcast.how)) {
    case GROUP_BY_GROUP:
        first_kernel<KIND, GROUP, true>
            <<<blocks_for(count / GROUP), BLOCK, 0, stream>>>(broadcast, dy, a, b, da, count);
        break;
    case GROUP_BY_ONE:
        first_kernel<KIND, GROUP, false>
            <<<blocks_for(count / GROUP), BLOCK, 0, stream>>>(broadcast, dy, a, b, da, count);
        break;
    default:
        first_kernel<KIND, 1, true>
            <<<blocks_for(count), BLOCK, 0, stream>>>(broadcast, dy, a, b, da, count);
    }
}

cudaError_t cuda_broadcast(const struct cuda_broadcast *broadcast, struct cuda_array a,
                           struct cuda_array b, struct cuda_array y, cudaStream_t stream)
{
    switch (broadcast->how.kind) {
#define DO(kind)                                           \
    case kind:                                             \
        launch_forward<kind>(*broadcast, a, b, y, stream); \
        break;
        EVERY_KIND(DO)
#undef DO
    }
    return cudaGetLastError();
}

cudaError_t cuda_broadcast_backward_first(const struct cuda_broadcast *broadcast,
                                          struct cuda_array dy, struct cuda_array a,
                                          struct cuda_array b, struct cuda_array da,
                                          cudaStream_t stream)
{
    switch (broadcast->how.kind) {
#define DO(kind)                                              \
    case kind:                                                \
        launch_first<kind>(*broadcast, dy, a, b, da, stream); \
        break;
        EVERY_KIND(DO)
#undef DO
    }
    return cudaGetLastError();
}

/* ---- the gradient by the second: a sum for each of its numbers ---- */

/* The sums of a launch: `results` times `middle`, each over `terms`, which are divided into
 * `parts`. */
struct sums {
    int64_t results, terms, parts, part;
};

constexpr int64_t PART_TERMS_MIN = 64, PARTS_MAX = 256;
constexpr int64_t SUMS_AT_ONCE = 4096; /* so many keep a large GPU busy without parts */

static struct sums sums_of(const struct cuda_broadcast *broadcast)
{
    const struct broadcast_attributes *how = &broadcast->how;
    struct sums sums;
    int64_t blocks;

    sums.results = broadcast->shared ? 1 : broadcast->batch;
    sums.terms = how->outer * how->inner * (broadcast->shared ? broadcast->batch : 1);
    blocks = sums.results * (how->inner == 1 ? (how->middle + COLUMNS - 1) / COLUMNS : how->middle);
    sums.parts = SUMS_AT_ONCE / blocks;
    if (sums.parts > sums.terms / PART_TERMS_MIN)
        sums.parts = sums.terms / PART_TERMS_MIN;
    sums.parts = sums.parts < 1 ? 1 : sums.parts > PARTS_MAX ? PARTS_MAX : sums.parts;
    sums.part = (sums.terms + sums.parts - 1) / sums.parts;
    return sums;
}

/* Term t of number k of a result. */
template <int KIND>
__device__ static inline float term(const struct cuda_broadcast &broadcast, const struct sums &sums,
                                    const struct cuda_array &dy, const struct cuda_array &a,
                                    float b, int64_t result, int64_t k, int64_t t)
{
    const struct broadcast_attributes &how = broadcast.how;
    const int64_t outer = result * (sums.terms / how.inner) + t / how.inner;
    const int64_t i = (outer * how.middle + k) * how.inner + t % how.inner;

    return by_second<KIND>(array_load(dy, i), load_if_there(a, i), b);
}

/* Where a sum goes: a part's place, or the gradient itself. */
struct sum_result {
    struct cuda_array db;
    float *parts; /* [parts, results, middle]; NULL: there is one part */
    bool accumulate;
};

__device__ static inline void store_sum(const struct sum_result &to, int64_t part, int64_t count,
                                        int64_t at, float sum)
{
    if (to.parts)
        to.parts[part * count + at] = sum;
    else
        array_store(to.db, at, sum + (to.accumulate ? array_load(to.db, at) : 0.0f));
}

/* inner is 1: a block has COLUMNS neighbours of b, and ROWS threads share the terms of each. */
template <int KIND>
__global__ void columns_kernel(struct cuda_broadcast broadcast, struct sums sums,
                               int64_t column_blocks, struct cuda_array dy, struct cuda_array a,
                               struct cuda_array b, struct sum_result to)
{
    __shared__ float shared[ROWS][COLUMNS];
    const int lane = threadIdx.x / COLUMNS, column = threadIdx.x % COLUMNS;
    const int64_t middle = broadcast.how.middle, result = blockIdx.x / column_blocks;
    const int64_t k = blockIdx.x % column_blocks * COLUMNS + column, at = result * middle + k;
    const int64_t first = blockIdx.y * sums.part, end = min(first + sums.part, sums.terms);
    const float other = k < middle ? load_if_there(b, at) : 0;
    float sum = 0;

    for (int64_t t = first + lane; t < end && k < middle; t += ROWS)
        sum += term<KIND>(broadcast, sums, dy, a, other, result, k, t);
    shared[lane][column] = sum;
    __syncthreads();
    if (lane > 0 || k >= middle)
        return;
    for (int i = 1; i < ROWS; i++)
        sum += shared[i][column];
    store_sum(to, blockIdx.y, sums.results * middle, at, sum);
}

/* A warp has one number of b if it has few terms, a block if they are many. */
template <int KIND, int THREADS>
__global__ void rows_kernel(struct cuda_broadcast broadcast, struct sums sums, struct cuda_array dy,
                            struct cuda_array a, struct cuda_array b, struct sum_result to)
{
    const int64_t middle = broadcast.how.middle, count = sums.results * middle;
    const int64_t at = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) / THREADS;
    const int64_t first = blockIdx.y * sums.part, end = min(first + sums.part, sums.terms);
    const int lane = threadIdx.x % THREADS;
    float other, sum = 0;

    if (at >= count)
        return; /* with all of its threads */
    other = load_if_there(b, at);
    for (int64_t t = first + lane; t < end; t += THREADS)
        sum += term<KIND>(broadcast, sums, dy, a, other, at / middle, at % middle, t);
    sum = row_sum<THREADS>(sum);
    if (lane == 0)
        store_sum(to, blockIdx.y, count, at, sum);
}

/* Every number of b meets one of a. */
template <int KIND>
__global__ void single_kernel(struct cuda_array dy, struct cuda_array a, struct cuda_array b,
                              struct cuda_array db, int64_t count)
{
    FOR_EACH_ELEMENT(i, count)
    array_store(db, i,
                by_second<KIND>(array_load(dy, i), load_if_there(a, i), load_if_there(b, i)));
}

__global__ void add_parts_kernel(struct sum_result to, int64_t parts, int64_t count)
{
    FOR_EACH_ELEMENT(i, count)
    {
        float sum = to.accumulate ? array_load(to.db, i) : 0.0f;

        for (int64_t part = 0; part < parts; part++)
            sum += to.parts[part * count + i];
        array_store(to.db, i, sum);
    }
}

template <int KIND>
static void launch_second(const struct cuda_broadcast &broadcast, struct cuda_array dy,
                          struct cuda_array a, struct cuda_array b, struct sum_result to,
                          cudaStream_t stream)
{
    const int64_t middle = broadcast.how.middle, blocks = (middle + COLUMNS - 1) / COLUMNS;
    const struct sums sums = sums_of(&broadcast);
    const int64_t count = sums.results * middle;

    if (sums.terms == 1 && !to.accumulate) {
        single_kernel<KIND><<<blocks_for(count), BLOCK, 0, stream>>>(dy, a, b, to.db, count);
        return;
    }
    if (sums.parts == 1)
        to.parts = NULL;
    if (broadcast.how.inner == 1)
        columns_kernel<KIND>
            <<<dim3((unsigned)(sums.results * blocks), (unsigned)sums.parts), BLOCK, 0, stream>>>(
                broadcast, sums, blocks, dy, a, b, to);
    else if (sums.part <= WARP_COLUMNS_MAX)
        rows_kernel<KIND, WARP_THREADS>
            <<<dim3(blocks_for_warps(count), (unsigned)sums.parts), BLOCK, 0, stream>>>(
                broadcast, sums, dy, a, b, to);
    else
        rows_kernel<KIND, BLOCK><<<dim3((unsigned)count, (unsigned)sums.parts), BLOCK, 0, stream>>>(
            broadcast, sums, dy, a, b, to);
    if (to.parts)
        add_parts_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(to, sums.parts, count);
}

size_t cuda_broadcast_scratch(const struct cuda_broadcast *broadcast)
{
    const struct sums sums = sums_of(broadcast);

    return sums.parts == 1
               ? 0
               : (size_t)(sums.parts * sums.results * broadcast->how.middle) * sizeof(float);
}

cudaError_t cuda_broadcast_backward_second(const struct cuda_broadcast *broadcast,
                                           struct cuda_array dy, struct cuda_array a,
                                           struct cuda_array b, bool accumulate,
                                           struct cuda_array db, float *scratch,
                                           cudaStream_t stream)
{
    const struct sum_result to = {db, scratch, accumulate};

    switch (broadcast->how.kind) {
#define DO(kind)                                               \
    case kind:                                                 \
        launch_second<kind>(*broadcast, dy, a, b, to, stream); \
        break;
        EVERY_KIND(DO)
#undef DO
    }
    return cudaGetLastError();
}
