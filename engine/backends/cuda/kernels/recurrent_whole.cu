/* recurrent_whole.cu: LSTM and GRU: all steps in one launch (Diamos et al. 2016, "Persistent
 * RNNs").
 *
 * A block has UNITS units of the layer for all of its samples, and keeps the rows of the weights
 * that belong to them in shared memory. Groups of blocks with all units share some tiles of ROWS
 * samples. After each step the blocks of a group exchange what the next one needs through the
 * second-level cache, and wait for each other:
 *
 *   forward each block reads the states of all units and multiplies them with its own weights;
 *   backward it multiplies the gradients of its own gates with its weights, and each block adds up
 *   what all blocks have made for its units.
 *
 * Sums have a fixed order. Numbers of 16 bits have kernels of their own (recurrent_tensor.cu). */
#include "engine/backends/cuda/kernels/recurrent.cuh"

#include <limits.h>

static_assert(2 * PAIRS == BLOCK, "two halves of a block add up what comes from the others");

/* Element `column` = gate UNITS + unit of the block's weights for state k: 0 where there is
 * none. */
__device__ static inline float weight_at(const struct cuda_recurrent &r, int64_t first_unit,
                                         int column, int64_t k)
{
    const int64_t gate = column / UNITS, unit = first_unit + column % UNITS;

    if (gate >= gates_of(r) || unit >= r.hidden || k >= r.hidden)
        return 0.0f;
    return rounded_to(r.compute, r.weight[(gate * r.hidden + unit) * r.hidden + k]);
}

/* The products of the states state[k][ROWS] and the weights [k][COLUMNS], each warp for its part of
 * the k: to parts[warp][column][row]. A lane has four rows and four columns. */
__device__ static inline void multiply_states(const float *state, const float *weights,
                                              int64_t units, float *parts)
{
    const int warp = threadIdx.x / 32, row = threadIdx.x % 4 * 4, column = threadIdx.x % 32 / 4 * 4;
    const int64_t share = units / WARPS, first = warp * share;
    float sum[4][4] = {};

#pragma unroll 4
    for (int64_t k = first; k < first + share; k++) {
        const float4 a = *(const float4 *)(state + k * ROWS + row);
        const float4 b = *(const float4 *)(weights + k * COLUMNS + column);
        const float left[4] = {a.x, a.y, a.z, a.w}, right[4] = {b.x, b.y, b.z, b.w};

#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                sum[j][i] += left[i] * right[j];
    }
#pragma unroll
    for (int j = 0; j < 4; j++)
        *(float4 *)(parts + (warp * COLUMNS + column + j) * ROWS + row) =
            make_float4(sum[j][0], sum[j][1], sum[j][2], sum[j][3]);
}

static_assert(UNITS % WARPS == 0, "each warp has as many states");

/* The states [unit][ROWS] that the first step of a tile of samples begins with. */
__device__ static inline void load_first_states(const struct cuda_recurrent &r, int64_t tile,
                                                int64_t slot, float *state)
{
    for (int64_t at = threadIdx.x; at < slot; at += BLOCK) {
        const struct unit_place p = {
            .unit = at / ROWS, .sample = tile * ROWS + at % ROWS, .time = 0};
        const bool exists = p.unit < r.hidden && p.sample < r.batch;

        state[at] = exists ? rounded_to(r.compute, carried_at(r, p, r.h0)) : 0.0f;
    }
}

/* `exchange`: [2][group][unit][ROWS]. */
__global__ void __launch_bounds__(BLOCK)
    recurrent_forward_kernel(struct cuda_recurrent r, void *between, unsigned *arrivals)
{
    extern __shared__ __align__(16) float shared[];
    float *exchange = (float *)between;
    const int64_t units = padded_units(r), gates = gates_of(r), tiles = tiles_of(r);
    const int64_t first_unit = (int64_t)blockIdx.x * UNITS, slot = units * ROWS;
    const int row = threadIdx.x % ROWS, unit = threadIdx.x / ROWS % UNITS;
    const bool has_unit = threadIdx.x < PAIRS;
    float *weights = shared, *state = weights + units * COLUMNS, *parts = state + slot;
    struct meetings meetings = {arrivals + blockIdx.y, 0};
    float bias[GATES] = {};

    for (int64_t at = threadIdx.x; at < units * COLUMNS; at += BLOCK)
        weights[at % units * COLUMNS + at / units] =
            weight_at(r, first_unit, (int)(at / units), at % units);
#pragma unroll
    for (int g = 0; g < GATES; g++)
        if (g < gates && first_unit + unit < r.hidden)
            bias[g] = r.bias[g * r.hidden + first_unit + unit];
    for (int64_t tile = blockIdx.y; tile < tiles; tile += gridDim.y) {
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
                const float *from =
                    exchange + ((meetings.passed - 1) % 2 * gridDim.y + blockIdx.y) * slot;

                await(meetings);
                for (int64_t at = threadIdx.x * 4; at < slot; at += BLOCK * 4)
                    *(float4 *)(state + at) = __ldcg((const float4 *)(from + at));
            } else if (r.h0) {
                load_first_states(r, tile, slot, state);
            }
            if (number > 0 || r.h0) {
                __syncthreads();
                multiply_states(state, weights, units, parts);
                __syncthreads();
#pragma unroll
                for (int g = 0; g < GATES; g++)
                    for (int w = 0; has_unit && w < WARPS; w++)
                        sums[g] += parts[(w * COLUMNS + g * UNITS + unit) * ROWS + row];
            }
            if (exists)
                own = unit_forward(r, p, inside, input, sums, bias, own, &carried);
            if (exists && number + 1 == r.steps)
                leave(r, p, own, carried);
            if (number + 1 == r.steps)
                continue;
            if (has_unit)
                exchange[(meetings.passed % 2 * gridDim.y + blockIdx.y) * slot + p.unit * ROWS +
                         row] = rounded_to(r.compute, own);
            arrive(&meetings);
        }
    }
}

/* The gradients gradient[column][ROWS] times the weights [column][unit]: to to[unit][ROWS]. */
__device__ static inline void multiply_gradients(const float *gradient, const float *weights,
                                                 int64_t units, int columns, float *to)
{
    const int row = threadIdx.x % 4 * 4;

    for (int64_t unit = threadIdx.x / 4 * 4; unit < units; unit += BLOCK) {
        float sum[4][4] = {};

#pragma unroll 8
        for (int k = 0; k < columns; k++) {
            const float4 a = *(const float4 *)(gradient + k * ROWS + row);
            const float4 b = *(const float4 *)(weights + k * units + unit);
            const float left[4] = {a.x, a.y, a.z, a.w}, right[4] = {b.x, b.y, b.z, b.w};

#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    sum[j][i] += left[i] * right[j];
        }
#pragma unroll
        for (int j = 0; j < 4; j++)
            __stcg((float4 *)(to + (unit + j) * ROWS + row),
                   make_float4(sum[j][0], sum[j][1], sum[j][2], sum[j][3]));
    }
}

/* The sum of from[block][...] for the thread's pair, over its half of the blocks. */
__device__ static inline float add_blocks(const float *from, int64_t slot)
{
    const int half = threadIdx.x / PAIRS, middle = (int)(gridDim.x + 1) / 2;
    const int end = half ? (int)gridDim.x : middle;
    float sum = 0;

#pragma unroll 8
    for (int block = half ? middle : 0; block < end; block++)
        sum += __ldcg(from + block * slot + threadIdx.x % PAIRS);
    return sum;
}

/* `exchange`: [2][group][block][unit][ROWS]. */
__global__ void __launch_bounds__(BLOCK)
    recurrent_backward_kernel(struct cuda_recurrent r, void *between, unsigned *arrivals)
{
    extern __shared__ __align__(16) float shared[];
    float *exchange = (float *)between;
    const int64_t units = padded_units(r), tiles = tiles_of(r);
    const int64_t first_unit = (int64_t)blockIdx.x * UNITS, slot = units * ROWS;
    const int64_t group = slot * gridDim.x;
    const int row = threadIdx.x % ROWS, unit = threadIdx.x / ROWS % UNITS;
    const int columns = (int)gates_of(r) * UNITS;
    const bool has_unit = threadIdx.x < PAIRS;
    float *weights = shared, *gradient = weights + units * COLUMNS;
    float *halves = gradient + COLUMNS * ROWS;
    struct meetings meetings = {arrivals + blockIdx.y, 0};

    for (int64_t at = threadIdx.x; at < units * COLUMNS; at += BLOCK)
        weights[at] = weight_at(r, first_unit, (int)(at / units), at % units);
    for (int64_t tile = blockIdx.y; tile < tiles; tile += gridDim.y) {
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
                const float *from =
                    exchange + ((meetings.passed - 1) % 2 * gridDim.y + blockIdx.y) * group;

                await(meetings);
                sum = add_blocks(from + first_unit * ROWS, slot);
                if (!has_unit)
                    halves[threadIdx.x - PAIRS] = sum;
                __syncthreads();
                if (has_unit)
                    sum += halves[threadIdx.x];
            }
            if (exists)
                unit_backward(r, p, inside, saved, sum, &carried, product);
            if (number + 1 == r.steps)
                continue;
#pragma unroll
            for (int g = 0; g < GATES; g++)
                if (has_unit)
                    gradient[(g * UNITS + unit) * ROWS + row] = rounded_to(r.compute, product[g]);
            __syncthreads();
            multiply_gradients(gradient, weights, units, columns,
                               exchange + (meetings.passed % 2 * gridDim.y + blockIdx.y) * group +
                                   blockIdx.x * slot);
            arrive(&meetings);
        }
    }
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* Tensor cores multiply numbers of 16 bits from compute capability 8.0 on. */
static bool has_tensor_kernel(int compute)
{
    int major = 0;

    return recurrent_tensor_kernel(compute, false) && cuda_code_major(&major) == cudaSuccess &&
           major >= 8;
}

static const void *kernel_of(const struct cuda_recurrent_plan *plan, int compute, bool backward)
{
    if (plan->tensor)
        return recurrent_tensor_kernel(compute, backward);
    return backward ? (const void *)recurrent_backward_kernel
                    : (const void *)recurrent_forward_kernel;
}

static size_t shared_bytes(const struct cuda_recurrent_plan *plan, const struct cuda_recurrent *r,
                           bool backward)
{
    const int64_t units = padded_units(*r);
    const int64_t floats = backward ? units * COLUMNS + COLUMNS * ROWS + PAIRS
                                    : units * (COLUMNS + ROWS) + WARPS * COLUMNS * ROWS;

    return plan->tensor ? recurrent_tensor_shared_bytes(r, backward)
                        : (size_t)floats * sizeof(float);
}

static size_t exchange_bytes(const struct cuda_recurrent_plan *plan, const struct cuda_recurrent *r,
                             bool backward)
{
    if (plan->tensor)
        return recurrent_tensor_exchange_bytes(r, backward);
    return (size_t)(padded_units(*r) * ROWS * (backward ? plan->blocks : 1)) * sizeof(float);
}

/* How many blocks the device has room for at the same time; 0: it cannot run the kernel. */
static int resident_blocks(const void *kernel, size_t shared, int device)
{
    int most, processors, cooperative, resident;

    if (cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) !=
            cudaSuccess ||
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
        return 0;
    /* the attribute is of all plans, not of this one: another one of this kernel may be larger */
    if (!cooperative || shared > (size_t)most ||
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most) !=
            cudaSuccess ||
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, BLOCK, shared) !=
            cudaSuccess)
        return 0;
    return resident * processors;
}

bool cuda_recurrent_plan(const struct cuda_recurrent *recurrent, bool backward,
                         struct cuda_recurrent_plan *plan)
{
    const int64_t units = padded_units(*recurrent), tiles = tiles_of(*recurrent);
    int device;

    if (cudaGetDevice(&device) != cudaSuccess || units / UNITS > INT_MAX)
        return false;
    plan->tensor = has_tensor_kernel(recurrent->compute);
    plan->blocks = (int)(units / UNITS);
    plan->shared_bytes = shared_bytes(plan, recurrent, backward);
    plan->groups =
        resident_blocks(kernel_of(plan, recurrent->compute, backward), plan->shared_bytes, device) /
        plan->blocks;
    if (plan->groups < 1)
        return false;
    plan->groups = (int)(plan->groups < tiles ? plan->groups : tiles);
    plan->workspace_bytes = 2 * (size_t)plan->groups * exchange_bytes(plan, recurrent, backward) +
                            (size_t)plan->groups * sizeof(unsigned);
    return true;
}

static cudaError_t launch_sequence(const struct cuda_recurrent *recurrent,
                                   const struct cuda_recurrent_plan *plan, bool backward,
                                   void *workspace, cudaStream_t stream)
{
    const size_t counters = (size_t)plan->groups * sizeof(unsigned);
    unsigned *arrivals = (unsigned *)((char *)workspace + plan->workspace_bytes - counters);
    struct cuda_recurrent copy = *recurrent;
    void *arguments[] = {&copy, &workspace, &arrivals};
    cudaError_t status = cudaMemsetAsync(arrivals, 0, counters, stream);

    if (status != cudaSuccess)
        return status;
    return cudaLaunchCooperativeKernel(kernel_of(plan, recurrent->compute, backward),
                                       dim3((unsigned)plan->blocks, (unsigned)plan->groups),
                                       dim3(BLOCK), arguments, plan->shared_bytes, stream);
}

cudaError_t cuda_recurrent_sequence(const struct cuda_recurrent *recurrent,
                                    const struct cuda_recurrent_plan *plan, void *workspace,
                                    cudaStream_t stream)
{
    return launch_sequence(recurrent, plan, false, workspace, stream);
}

cudaError_t cuda_recurrent_sequence_backward(const struct cuda_recurrent *recurrent,
                                             const struct cuda_recurrent_plan *plan,
                                             void *workspace, cudaStream_t stream)
{
    return launch_sequence(recurrent, plan, true, workspace, stream);
}
