/* recurrent_tensor.cu: LSTM and GRU: all steps in one launch, as in recurrent_whole.cu, with
 * products by tensor cores of weights and states of 16 bits.
 *
 * Here blocks exchange what they multiply, forward and backward: the states of all units, or the
 * gradients of all gates, rounded to the type. Each block reads all of it, and multiplies it
 * with the rows, or the columns, of the weights that make its own units. Warps have a part of
 * the terms each. Their sums are added in a fixed order. */
#include "engine/backends/cuda/kernels/fragments.cuh"
#include "engine/backends/cuda/kernels/recurrent.cuh"

constexpr int DEPTH = 16; /* terms of a product of fragments */
constexpr int GAP = 8;    /* numbers behind each row, which puts eight rows into different banks */
constexpr int SUM_PITCH = ROWS + 4;

/* The terms of a block's products: the units, or the gates of all units. */
static __host__ __device__ inline int64_t terms_of(const struct cuda_recurrent &r, bool backward)
{
    return padded_units(r) * (backward ? GATES : 1);
}

static __host__ __device__ inline int64_t padded_terms(const struct cuda_recurrent &r,
                                                       bool backward)
{
    return (terms_of(r, backward) + DEPTH - 1) / DEPTH * DEPTH;
}

/* A block's results: the gates of its units, or the gradients of their states. */
template <bool BACKWARD> constexpr int RESULTS = BACKWARD ? UNITS : COLUMNS;

/* The weight that term `k` of result `n` is multiplied with; 0 where there is none. Backward the
 * terms are [block][gate][unit]. */
template <bool BACKWARD>
__device__ static inline float weight_of(const struct cuda_recurrent &r, int64_t first_unit, int n,
                                         int64_t k)
{
    const int64_t gate = BACKWARD ? k % COLUMNS / UNITS : n / UNITS;
    const int64_t row = BACKWARD ? k / COLUMNS * UNITS + k % UNITS : first_unit + n % UNITS;
    const int64_t column = BACKWARD ? first_unit + n : k;

    if (gate >= gates_of(r) || row >= r.hidden || column >= r.hidden)
        return 0.0f;
    return r.weight[(gate * r.hidden + row) * r.hidden + column];
}

/* The block's part of shared memory. */
template <typename T> struct operands {
    int64_t pitch;
    T *weights;  /* [results][pitch] */
    T *given;    /* [ROWS][pitch] */
    float *sums; /* [warp][results][SUM_PITCH] */
};

template <typename T, bool BACKWARD>
__device__ static inline struct operands<T> lay_out(const struct cuda_recurrent &r, float *shared) {
    struct operands<T> operands;

    operands.pitch = padded_terms(r, BACKWARD) + GAP;
    operands.sums = shared;
    operands.weights = (T *)(shared + WARPS * RESULTS<BACKWARD> * SUM_PITCH);
    operands.given = operands.weights + RESULTS<BACKWARD> * operands.pitch;
    return operands;
}

/* Fills in the weights, and zeros behind the terms. */
template <typename T, bool BACKWARD>
__device__ static inline void load_weights(const struct cuda_recurrent &r, int64_t first_unit,
                                           const struct operands<T> &operands)
{
    for (int64_t at = threadIdx.x; at < RESULTS<BACKWARD> * operands.pitch; at += BLOCK) {
        const int64_t k = at % operands.pitch;
        const bool is_term = k < terms_of(r, BACKWARD);

        operands.weights[at] = from_float<T>(
            is_term ? weight_of<BACKWARD>(r, first_unit, (int)(at / operands.pitch), k) : 0.0f);
    }
    for (int64_t at = threadIdx.x; at < ROWS * operands.pitch; at += BLOCK)
        operands.given[at] = from_float<T>(0.0f);
}

/* Copies what all blocks of the group have given, [ROWS][terms]. Rows begin at 16 bytes. */
template <typename T>
__device__ static inline void load_given(const T *exchange, int64_t terms,
                                         const struct operands<T> &operands)
{
    const int64_t chunks = terms / GROUP;

    for (int64_t at = threadIdx.x; at < ROWS * chunks; at += BLOCK) {
        const int64_t row = at / chunks, k = at % chunks * GROUP;

        *(uint4 *)(operands.given + row * operands.pitch + k) =
            __ldcg((const uint4 *)(exchange + row * terms + k));
    }
}

/* The states that the first step of a tile of samples begins with. */
template <typename T>
__device__ static inline void load_first_states(const struct cuda_recurrent &r, int64_t tile,
                                                const struct operands<T> &operands)
{
    for (int64_t at = threadIdx.x; at < ROWS * r.hidden; at += BLOCK) {
        const struct unit_place p = {
            .unit = at % r.hidden, .sample = tile * ROWS + at / r.hidden, .time = 0};

        operands.given[at / r.hidden * operands.pitch + p.unit] =
            from_float<T>(p.sample < r.batch ? carried_at(r, p, r.h0) : 0.0f);
    }
}

/* Each warp multiplies every WARPS-th part of the terms. */
template <typename T, bool BACKWARD>
__device__ static inline void multiply_given(const struct cuda_recurrent &r,
                                             const struct operands<T> &operands)
{
    constexpr int TILES = RESULTS<BACKWARD> / 8;
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const T *given = operands.given + g * operands.pitch + 2 * t;
    const T *weights = operands.weights + g * operands.pitch + 2 * t;
    float sum[TILES][4] = {};

#pragma unroll 2
    for (int64_t k = warp * DEPTH; k < padded_terms(r, BACKWARD); k += WARPS * DEPTH) {
        const uint32_t a[4] = {*(const uint32_t *)(given + k),
                               *(const uint32_t *)(given + 8 * operands.pitch + k),
                               *(const uint32_t *)(given + k + 8),
                               *(const uint32_t *)(given + 8 * operands.pitch + k + 8)};

#pragma unroll
        for (int n = 0; n < TILES; n++) {
            const T *b = weights + 8 * n * operands.pitch + k;

            fragment_multiply<T>(sum[n], a, *(const uint32_t *)b, *(const uint32_t *)(b + 8));
        }
    }
#pragma unroll
    for (int n = 0; n < TILES; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            operands.sums[(warp * RESULTS<BACKWARD> + 8 * n + 2 * t + i % 2) * SUM_PITCH + g +
                          8 * (i / 2)] = sum[n][i];
}

/* The sum of all warps for one of the block's results and samples. */
template <typename T, bool BACKWARD>
__device__ static inline float result_of(const struct operands<T> &operands, int n, int row)
{
    float sum = 0;

#pragma unroll
    for (int w = 0; w < WARPS; w++)
        sum += operands.sums[(w * RESULTS<BACKWARD> + n) * SUM_PITCH + row];
    return sum;
}

/* Where the blocks of the group leave, or have left, what goes from one step to the next: two
 * places, [ROWS][terms], that take turns. */
template <typename T, bool BACKWARD>
__device__ static inline T *exchanged(const struct cuda_recurrent &r, void *exchange,
                                      unsigned number)
{
    return (T *)exchange +
           (number % 2 * gridDim.y + blockIdx.y) * (int64_t)ROWS * terms_of(r, BACKWARD);
}

/* `exchange`: [2][group][ROWS][unit]. */
template <typename T>
__global__ void __launch_bounds__(BLOCK)
    recurrent_tensor_forward_kernel(struct cuda_recurrent r, void *exchange, unsigned *arrivals)
{
    extern __shared__ __align__(16) float shared[];
    const struct operands<T> operands = lay_out<T, false>(r, shared);
    const int64_t terms = terms_of(r, false), gates = gates_of(r);
    const int64_t first_unit = (int64_t)blockIdx.x * UNITS;
    const int row = threadIdx.x / UNITS % ROWS, unit = threadIdx.x % UNITS;
    const bool has_unit = threadIdx.x < PAIRS;
    struct meetings meetings = {arrivals + blockIdx.y, 0};
    float bias[GATES] = {};

    load_weights<T, false>(r, first_unit, operands);
    __syncthreads();
#pragma unroll
    for (int g = 0; g < GATES; g++)
        if (g < gates && first_unit + unit < r.hidden)
            bias[g] = r.bias[g * r.hidden + first_unit + unit];
    for (int64_t tile = blockIdx.y; tile < tiles_of(r); tile += gridDim.y) {
        struct unit_place p = {.unit = first_unit + unit, .sample = tile * ROWS + row, .time = 0};
        const bool exists = has_unit && p.unit < r.hidden && p.sample < r.batch;
        const int64_t length = exists ? length_of(r, p.sample) : 0;
        float carried = exists ? carried_at(r, p, carried_first(r)) : 0.0f;
        float own = exists ? carried_at(r, p, r.h0) : 0.0f;

        for (int64_t number = 0; number < r.steps; number++) {
            float input[GATES] = {}, sums[GATES] = {};
            bool inside;

            p.time = time_of(r, number, false);
            inside = p.time < length;
            if (inside)
                load_input(r, p, input);
            if (number > 0) {
                await(meetings);
                load_given(exchanged<T, false>(r, exchange, meetings.passed - 1), terms, operands);
            } else if (r.h0) {
                load_first_states(r, tile, operands);
            }
            if (number > 0 || r.h0) {
                __syncthreads();
                multiply_given<T, false>(r, operands);
                __syncthreads();
#pragma unroll
                for (int g = 0; g < GATES; g++)
                    if (has_unit)
                        sums[g] = result_of<T, false>(operands, g * UNITS + unit, row);
            }
            if (exists)
                own = unit_forward(r, p, inside, input, sums, bias, own, &carried);
            if (exists && number + 1 == r.steps)
                leave(r, p, own, carried);
            if (number + 1 == r.steps)
                continue;
            if (has_unit)
                exchanged<T, false>(r, exchange, meetings.passed)[row * terms + p.unit] =
                    from_float<T>(own);
            arrive(&meetings);
        }
    }
}

/* `exchange`: [2][group][ROWS][block][gate][unit]. */
template <typename T>
__global__ void __launch_bounds__(BLOCK)
    recurrent_tensor_backward_kernel(struct cuda_recurrent r, void *exchange, unsigned *arrivals)
{
    extern __shared__ __align__(16) float shared[];
    const struct operands<T> operands = lay_out<T, true>(r, shared);
    const int64_t terms = terms_of(r, true);
    const int64_t first_unit = (int64_t)blockIdx.x * UNITS;
    const int row = threadIdx.x / UNITS % ROWS, unit = threadIdx.x % UNITS;
    const bool has_unit = threadIdx.x < PAIRS;
    struct meetings meetings = {arrivals + blockIdx.y, 0};

    load_weights<T, true>(r, first_unit, operands);
    __syncthreads();
    for (int64_t tile = blockIdx.y; tile < tiles_of(r); tile += gridDim.y) {
        struct unit_place p = {.unit = first_unit + unit, .sample = tile * ROWS + row, .time = 0};
        const bool exists = has_unit && p.unit < r.hidden && p.sample < r.batch;
        const int64_t length = exists ? length_of(r, p.sample) : 0;
        float carried = 0;

        for (int64_t number = 0; number < r.steps; number++) {
            struct unit_saved saved = {};
            float sum = 0, product[GATES] = {};
            bool inside;

            p.time = time_of(r, number, true);
            inside = p.time < length;
            if (inside)
                saved = load_saved(r, p, length);
            if (number > 0) {
                await(meetings);
                load_given(exchanged<T, true>(r, exchange, meetings.passed - 1), terms, operands);
                __syncthreads();
                multiply_given<T, true>(r, operands);
                __syncthreads();
                if (has_unit)
                    sum = result_of<T, true>(operands, unit, row);
            }
            if (exists)
                unit_backward(r, p, inside, saved, sum, &carried, product);
            if (number + 1 == r.steps)
                continue;
#pragma unroll
            for (int g = 0; g < GATES; g++)
                if (has_unit)
                    exchanged<T, true>(
                        r, exchange,
                        meetings.passed)[row * terms + blockIdx.x * COLUMNS + g * UNITS + unit] =
                        from_float<T>(product[g]);
            arrive(&meetings);
        }
    }
}

template <typename T> static const void *kernel_of(bool backward)
{
    return backward ? (const void *)recurrent_tensor_backward_kernel<T>
                    : (const void *)recurrent_tensor_forward_kernel<T>;
}

const void *recurrent_tensor_kernel(int type, bool backward)
{
    return type == TENSOR_BFLOAT16  ? kernel_of<__nv_bfloat16>(backward)
           : type == TENSOR_FLOAT16 ? kernel_of<__half>(backward)
                                    : NULL;
}

size_t recurrent_tensor_shared_bytes(const struct cuda_recurrent *recurrent, bool backward)
{
    const int64_t results = backward ? UNITS : COLUMNS;

    return (size_t)(WARPS * results * SUM_PITCH) * sizeof(float) +
           (size_t)((results + ROWS) * (padded_terms(*recurrent, backward) + GAP)) *
               sizeof(uint16_t);
}

size_t recurrent_tensor_exchange_bytes(const struct cuda_recurrent *recurrent, bool backward)
{
    return (size_t)(ROWS * terms_of(*recurrent, backward)) * sizeof(uint16_t);
}
