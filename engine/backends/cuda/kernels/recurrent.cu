/* recurrent.cu: LSTM and GRU from step to step: all steps in one launch, or the gates of one step
 * behind a product; and the operands of the gradient by the weights.
 *
 * In one launch a block has UNITS units of the layer for all of its samples, and keeps the rows of
 * the weights that belong to them in shared memory (Diamos et al. 2016, "Persistent RNNs"). Groups
 * of blocks with all units share some tiles of ROWS samples. After each step the blocks of a group
 * exchange what the next one needs through the second-level cache, and wait for each other:
 *
 *   forward each block reads the states of all units and multiplies them with its own weights;
 *   backward it multiplies the gradients of its own gates with its weights, and each block adds up
 *   what all blocks have made for its units.
 *
 * Sums have a fixed order. */
#include "engine/backends/cuda/kernels/recurrent.h"
#include "engine/backends/cuda/kernels/values.cuh"

constexpr int ROWS = 16, UNITS = 8, GATES = 4;
constexpr int COLUMNS = GATES * UNITS; /* rows of the weights that a block has */
constexpr int WARPS = BLOCK / 32;
constexpr int PAIRS = ROWS * UNITS; /* threads that have a unit of a sample */

static_assert(2 * PAIRS == BLOCK, "two halves of a block add up what comes from the others");

static __host__ __device__ inline int64_t gates_of(const struct cuda_recurrent &r)
{
    return r.cell == RECURRENT_LSTM ? 4 : 3;
}

/* Units, filled up to whole blocks. */
static __host__ __device__ inline int64_t padded_units(const struct cuda_recurrent &r)
{
    return (r.hidden + UNITS - 1) / UNITS * UNITS;
}

static __host__ __device__ inline int64_t tiles_of(const struct cuda_recurrent &r)
{
    return (r.batch + ROWS - 1) / ROWS;
}

/* ---- one unit of a sample at one step -------------------------------------------------------- */

__device__ static inline float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* The unit, its sample, and the step as it lies in memory. */
struct unit_place {
    int64_t unit, sample, time;
};

__device__ static inline int64_t length_of(const struct cuda_recurrent &r, int64_t sample)
{
    const int64_t length = r.lengths ? r.lengths[sample] : r.steps;

    return length < r.steps ? length : r.steps;
}

/* A number of the unit's in an array [batch, hidden] of what is carried; NULL: 0. */
__device__ static inline float carried_at(const struct cuda_recurrent &r,
                                          const struct unit_place &p, const float *carried)
{
    return carried ? carried[p.sample * r.hidden + p.unit] : 0.0f;
}

/* Behind the last step: leaves the state and the cells' content to the next batch. */
__device__ static inline void leave(const struct cuda_recurrent &r, const struct unit_place &p,
                                    float state, float content)
{
    if (r.last_h)
        r.last_h[p.sample * r.hidden + p.unit] = state;
    if (r.last_c)
        r.last_c[p.sample * r.hidden + p.unit] = content;
}

/* What a step changes in place, before the first one: an LSTM's cells, a GRU's state. */
__device__ static inline const float *carried_first(const struct cuda_recurrent &r)
{
    return r.cell == RECURRENT_LSTM ? r.c0 : r.h0;
}

__device__ static inline int64_t row_of(const struct cuda_recurrent &r, const struct unit_place &p)
{
    return p.sample * r.steps + p.time;
}

__device__ static inline void load_input(const struct cuda_recurrent &r, const struct unit_place &p,
                                         float (&input)[GATES])
{
    const int64_t gates = gates_of(r), first = row_of(r, p) * gates * r.hidden + p.unit;

#pragma unroll
    for (int g = 0; g < GATES; g++)
        input[g] = g < gates ? array_load(r.input, first + g * r.hidden) : 0.0f;
}

__device__ static inline void store_gates(const struct cuda_recurrent &r,
                                          const struct unit_place &p, const float (&gates)[GATES])
{
    const int64_t first = row_of(r, p) * GATES * r.hidden + p.unit;

#pragma unroll
    for (int g = 0; g < GATES; g++)
        array_store(r.gates, first + g * r.hidden, gates[g]);
}

/* A step of the unit: `sums` of the state's product. `carried` changes; returns the state. Past the
 * end of the sequence the state stays, and the results are 0. */
__device__ static inline float unit_forward(const struct cuda_recurrent &r,
                                            const struct unit_place &p, bool inside,
                                            const float (&input)[GATES], const float (&sums)[GATES],
                                            const float (&bias)[GATES], float state, float *carried)
{
    const int64_t at = row_of(r, p) * r.hidden + p.unit;
    float gates[GATES] = {}, cell = 0, y = 0;

    if (inside && r.cell == RECURRENT_LSTM) {
        gates[0] = sigmoid(sums[0] + input[0] + bias[0]);
        gates[1] = sigmoid(sums[1] + input[1] + bias[1]);
        gates[2] = tanhf(sums[2] + input[2] + bias[2]);
        gates[3] = sigmoid(sums[3] + input[3] + bias[3]);
        *carried = cell = gates[1] * *carried + gates[0] * gates[2];
        state = y = gates[3] * tanhf(cell);
    } else if (inside) {
        gates[0] = sigmoid(sums[0] + input[0] + bias[0]);
        gates[1] = sigmoid(sums[1] + input[1] + bias[1]);
        gates[3] = sums[2] + bias[2];
        gates[2] = tanhf(input[2] + gates[0] * gates[3]);
        *carried = state = y = gates[2] + gates[1] * (*carried - gates[2]);
    }
    array_store(r.y, at, y);
    if (r.gates.at)
        store_gates(r, p, gates);
    if (r.cells.at)
        array_store(r.cells, at, cell);
    return state;
}

/* What a step back reads, apart from what the step behind it made. */
struct unit_saved {
    float gates[GATES], memory, before, dy;
};

__device__ static inline struct unit_saved load_saved(const struct cuda_recurrent &r,
                                                      const struct unit_place &p, int64_t length)
{
    const int64_t row = row_of(r, p), at = row * r.hidden + p.unit;
    const bool first = r.reverse ? p.time == length - 1 : p.time == 0;
    struct unit_saved saved;

#pragma unroll
    for (int g = 0; g < GATES; g++)
        saved.gates[g] = array_load(r.gates, (row * GATES + g) * r.hidden + p.unit);
    saved.memory = array_load(r.memory, at);
    saved.before = first ? carried_at(r, p, r.memory_first)
                         : array_load(r.memory, at + (r.reverse ? r.hidden : -r.hidden));
    saved.dy = array_load(r.dy, at);
    return saved;
}

/* A step back: `sum` is the gradient by the state from the step behind. `product` receives the
 * gradients by what the state's product gives. */
__device__ static inline void unit_backward(const struct cuda_recurrent &r,
                                            const struct unit_place &p, bool inside,
                                            const struct unit_saved &saved, float sum,
                                            float *carried, float (&product)[GATES])
{
    const int64_t gates = gates_of(r), first = row_of(r, p) * gates * r.hidden + p.unit;
    const float *gate = saved.gates;
    float input[GATES] = {};

    if (inside && r.cell == RECURRENT_LSTM) {
        const float i = gate[0], f = gate[1], g = gate[2], o = gate[3];
        const float dh = saved.dy + sum, squashed = tanhf(saved.memory);
        const float dc = *carried + dh * o * (1.0f - squashed * squashed);

        input[0] = dc * g * i * (1.0f - i);
        input[1] = dc * saved.before * f * (1.0f - f);
        input[2] = dc * i * (1.0f - g * g);
        input[3] = dh * squashed * o * (1.0f - o);
        *carried = dc * f;
    } else if (inside) {
        const float reset = gate[0], z = gate[1], n = gate[2], s = gate[3];
        const float dh = saved.dy + sum + *carried;

        input[2] = dh * (1.0f - z) * (1.0f - n * n);
        input[1] = dh * (saved.before - n) * z * (1.0f - z);
        input[0] = input[2] * s * reset * (1.0f - reset);
        *carried = dh * z;
    }
#pragma unroll
    for (int g = 0; g < GATES; g++) {
        product[g] = input[g];
        if (g < gates)
            array_store(r.dinput, first + g * r.hidden, input[g]);
    }
    if (r.cell == RECURRENT_GRU)
        product[2] *= gate[0];
}

/* ---- a launch for each step ------------------------------------------------------------------ */

__device__ static inline int64_t time_of(const struct cuda_recurrent &r, int64_t number,
                                         bool backward)
{
    return r.reverse != backward ? r.steps - 1 - number : number;
}

__global__ void recurrent_step_kernel(struct cuda_recurrent r, struct cuda_recurrent_step s)
{
    const int64_t gates = gates_of(r);

    FOR_EACH_ELEMENT(i, r.batch * r.hidden)
    {
        const struct unit_place p = {
            .unit = i % r.hidden, .sample = i / r.hidden, .time = time_of(r, s.number, false)};
        const bool inside = p.time < length_of(r, p.sample), first = s.number == 0;
        float input[GATES] = {}, sums[GATES] = {}, bias[GATES];
        float carried = first ? carried_at(r, p, carried_first(r)) : s.carried[i];
        float state = first ? carried_at(r, p, r.h0) : array_load(s.operand, i);

        if (inside)
            load_input(r, p, input);
#pragma unroll
        for (int g = 0; g < GATES; g++) {
            bias[g] = g < gates ? r.bias[g * r.hidden + p.unit] : 0.0f;
            if ((!first || r.h0) && g < gates)
                sums[g] = s.sums[(p.sample * gates + g) * r.hidden + p.unit];
        }
        state = unit_forward(r, p, inside, input, sums, bias, state, &carried);
        s.carried[i] = carried;
        array_store(s.operand, i, state);
        if (s.number + 1 == r.steps)
            leave(r, p, state, carried);
    }
}

cudaError_t cuda_recurrent_step(const struct cuda_recurrent *recurrent,
                                const struct cuda_recurrent_step *step, cudaStream_t stream)
{
    recurrent_step_kernel<<<blocks_for(recurrent->batch * recurrent->hidden), BLOCK, 0, stream>>>(
        *recurrent, *step);
    return cudaGetLastError();
}

__global__ void recurrent_step_backward_kernel(struct cuda_recurrent r,
                                               struct cuda_recurrent_step s)
{
    const int64_t gates = gates_of(r);

    FOR_EACH_ELEMENT(i, r.batch * r.hidden)
    {
        const struct unit_place p = {
            .unit = i % r.hidden, .sample = i / r.hidden, .time = time_of(r, s.number, true)};
        const int64_t length = length_of(r, p.sample);
        const bool inside = p.time < length;
        float carried = s.number > 0 ? s.carried[i] : 0.0f, product[GATES];
        struct unit_saved saved = {};

        if (inside)
            saved = load_saved(r, p, length);
        unit_backward(r, p, inside, saved, s.number > 0 ? s.sums[i] : 0.0f, &carried, product);
        s.carried[i] = carried;
#pragma unroll
        for (int g = 0; g < GATES; g++)
            if (g < gates)
                array_store(s.operand, (p.sample * gates + g) * r.hidden + p.unit, product[g]);
    }
}

cudaError_t cuda_recurrent_step_backward(const struct cuda_recurrent *recurrent,
                                         const struct cuda_recurrent_step *step,
                                         cudaStream_t stream)
{
    recurrent_step_backward_kernel<<<blocks_for(recurrent->batch * recurrent->hidden), BLOCK, 0,
                                     stream>>>(*recurrent, *step);
    return cudaGetLastError();
}

/* ---- all steps in one launch ----------------------------------------------------------------- */

/* A block's count of the group's meetings. */
struct meetings {
    unsigned *arrivals; /* of the group's blocks, on the device */
    unsigned passed;
};

/* Says that all of the block has written what the others read. */
__device__ static inline void arrive(struct meetings *meetings)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(meetings->arrivals, 1u);
    }
    meetings->passed++;
}

/* Waits until all blocks of the group have said so as often as this one. */
__device__ static inline void await(const struct meetings &meetings)
{
    if (threadIdx.x == 0) {
        const unsigned all = meetings.passed * gridDim.x;
        unsigned seen;

        do
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                         : "=r"(seen)
                         : "l"(meetings.arrivals)
                         : "memory");
        while (seen < all);
    }
    __syncthreads();
}

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
    recurrent_forward_kernel(struct cuda_recurrent r, float *exchange, unsigned *arrivals)
{
    extern __shared__ __align__(16) float shared[];
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
    recurrent_backward_kernel(struct cuda_recurrent r, float *exchange, unsigned *arrivals)
{
    extern __shared__ __align__(16) float shared[];
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

static const void *kernel_of(bool backward)
{
    return backward ? (const void *)recurrent_backward_kernel
                    : (const void *)recurrent_forward_kernel;
}

bool cuda_recurrent_plan(const struct cuda_recurrent *recurrent, bool backward,
                         struct cuda_recurrent_plan *plan)
{
    const int64_t units = padded_units(*recurrent), tiles = tiles_of(*recurrent);
    const int64_t floats = backward ? units * COLUMNS + COLUMNS * ROWS + PAIRS
                                    : units * (COLUMNS + ROWS) + WARPS * COLUMNS * ROWS;
    int device, most, processors, cooperative, resident;

    plan->blocks = (int)(units / UNITS);
    plan->shared_bytes = (size_t)floats * sizeof(float);
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) !=
            cudaSuccess ||
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
        return false;
    if (!cooperative || plan->shared_bytes > (size_t)most || plan->blocks > processors * 8)
        return false;
    /* of all plans, not of this one: another one of this kernel may be larger */
    if (cudaFuncSetAttribute(kernel_of(backward), cudaFuncAttributeMaxDynamicSharedMemorySize,
                             most) != cudaSuccess ||
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel_of(backward), BLOCK,
                                                      plan->shared_bytes) != cudaSuccess)
        return false;
    plan->groups = resident * processors / plan->blocks;
    if (plan->groups < 1)
        return false;
    plan->groups = (int)(plan->groups < tiles ? plan->groups : tiles);
    plan->workspace_bytes = (size_t)(2 * plan->groups * units * ROWS) * sizeof(float) *
                                (size_t)(backward ? plan->blocks : 1) +
                            (size_t)plan->groups * sizeof(unsigned);
    return true;
}

static cudaError_t launch_sequence(const struct cuda_recurrent *recurrent,
                                   const struct cuda_recurrent_plan *plan, bool backward,
                                   void *workspace, cudaStream_t stream)
{
    const size_t counters = (size_t)plan->groups * sizeof(unsigned);
    unsigned *arrivals = (unsigned *)((char *)workspace + plan->workspace_bytes - counters);
    float *exchange = (float *)workspace;
    struct cuda_recurrent copy = *recurrent;
    void *arguments[] = {&copy, &exchange, &arrivals};
    cudaError_t status = cudaMemsetAsync(arrivals, 0, counters, stream);

    if (status != cudaSuccess)
        return status;
    return cudaLaunchCooperativeKernel(kernel_of(backward),
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

/* ---- operands of the gradient by the weights ------------------------------------------------- */

__global__ void recurrent_previous_kernel(struct cuda_recurrent r, struct cuda_array y,
                                          struct cuda_array previous)
{
    FOR_EACH_ELEMENT(i, r.batch * r.steps * r.hidden)
    {
        const int64_t row = i / r.hidden;
        const struct unit_place p = {
            .unit = i % r.hidden, .sample = row / r.steps, .time = row % r.steps};
        const bool first = p.time == (r.reverse ? r.steps - 1 : 0);

        array_store(previous, i,
                    first ? carried_at(r, p, r.h0)
                          : array_load(y, i + (r.reverse ? r.hidden : -r.hidden)));
    }
}

cudaError_t cuda_recurrent_previous(const struct cuda_recurrent *recurrent, struct cuda_array y,
                                    struct cuda_array previous, cudaStream_t stream)
{
    const int64_t count = recurrent->batch * recurrent->steps * recurrent->hidden;

    recurrent_previous_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*recurrent, y, previous);
    return cudaGetLastError();
}

__global__ void recurrent_product_gradient_kernel(struct cuda_recurrent r, struct cuda_array gates,
                                                  struct cuda_array dinput,
                                                  struct cuda_array result)
{
    const int64_t width = gates_of(r) * r.hidden;

    FOR_EACH_ELEMENT(i, r.batch * r.steps * width)
    {
        const int64_t row = i / width, column = i % width;
        float value = array_load(dinput, i);

        if (r.cell == RECURRENT_GRU && column >= 2 * r.hidden)
            value *= array_load(gates, row * GATES * r.hidden + column - 2 * r.hidden);
        array_store(result, i, value);
    }
}

cudaError_t cuda_recurrent_product_gradient(const struct cuda_recurrent *recurrent,
                                            struct cuda_array gates, struct cuda_array dinput,
                                            struct cuda_array result, cudaStream_t stream)
{
    const int64_t count =
        recurrent->batch * recurrent->steps * gates_of(*recurrent) * recurrent->hidden;

    recurrent_product_gradient_kernel<<<blocks_for(count), BLOCK, 0, stream>>>(*recurrent, gates,
                                                                               dinput, result);
    return cudaGetLastError();
}
