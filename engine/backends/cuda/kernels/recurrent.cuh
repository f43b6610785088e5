/* recurrent.cuh: what the kernels of LSTM and GRU share: a step of one unit of a sample, forward
 * and backward, and how blocks meet that go through all steps together. */
#pragma once

#include "engine/backends/cuda/kernels/recurrent.h"
#include "engine/backends/cuda/kernels/values.cuh"

constexpr int GATES = 4;
/* Of a block that keeps its weights: samples at a time, units, and the rows of the weights that
 * belong to them. */
constexpr int ROWS = 16, UNITS = 8, COLUMNS = GATES * UNITS;
constexpr int WARPS = BLOCK / 32;
constexpr int PAIRS = ROWS * UNITS; /* threads that have a unit of a sample */

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

__device__ static inline int64_t time_of(const struct cuda_recurrent &r, int64_t number,
                                         bool backward)
{
    return r.reverse != backward ? r.steps - 1 - number : number;
}

/* ---- blocks that meet ----------------------------------------------------------------------- */

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

/* ---- by tensor cores (recurrent_tensor.cu) --------------------------------------------------- */

/* The kernel (struct cuda_recurrent, void *exchange, unsigned *arrivals); NULL: none for the
 * type. */
const void *recurrent_tensor_kernel(int type, bool backward);
size_t recurrent_tensor_shared_bytes(const struct cuda_recurrent *recurrent, bool backward);
/* Of what a group of blocks exchanges behind a step. */
size_t recurrent_tensor_exchange_bytes(const struct cuda_recurrent *recurrent, bool backward);
