/* selective_scan.cu: the selective scan (engine/graph/operators/selective_scan.c has the formulas)
 * and its gradients. A sequence is cut into chunks of SCAN_CHUNK steps, which are computed at the
 * same time: as the recurrence is linear, the state behind a chunk is what the chunk makes of zero,
 * plus the state before it times the chunk's decay (Blelloch 1990, "Prefix sums and their
 * applications"). Forward is three launches:
 *
 *   what each chunk makes of zero, and the sum of its steps, which gives its decay;
 *   from chunk to chunk, the states before each;
 *   the results, from those states.
 *
 * Backward does the same with the gradients by the states, in the reverse order. The last of its
 * launches makes the states of a chunk anew, so that the memory does not grow with steps times
 * states. */
#include "engine/backends/cuda/kernels/sequence.h"
#include "engine/backends/cuda/kernels/values.cuh"
#include "engine/graph/forward.h"

constexpr int CHANNELS = 32; /* of a block: a warp, a thread for each */
constexpr int STATES = 16;   /* that a thread keeps in registers at a time */
constexpr unsigned WARP = 0xffffffffu;

static_assert(SCAN_CHUNK == CHANNELS, "a lane has the sum over the channels of one step");

__host__ __device__ static inline int64_t chunks_of(const struct cuda_scan &s)
{
    return (s.length + SCAN_CHUNK - 1) / SCAN_CHUNK;
}

static int64_t slabs_of(const struct cuda_scan &s)
{
    return (s.channels + CHANNELS - 1) / CHANNELS;
}

/* A thread's channel in a chunk of steps, counted in the order of the walk. */
struct scan_place {
    int64_t chunk; /* of all sequences' */
    int64_t slab, channel, row, first;
    int count;
    bool inside; /* there is such a channel */
};

__device__ static inline struct scan_place place_of(const struct cuda_scan &s, int64_t slabs)
{
    const int64_t chunks = chunks_of(s);
    struct scan_place p;

    p.chunk = blockIdx.x / slabs;
    p.slab = blockIdx.x % slabs;
    p.channel = p.slab * CHANNELS + threadIdx.x;
    p.inside = p.channel < s.channels;
    p.row = p.chunk / chunks * s.length;
    p.first = p.chunk % chunks * SCAN_CHUNK;
    p.count = (int)(s.length - p.first < SCAN_CHUNK ? s.length - p.first : SCAN_CHUNK);
    return p;
}

/* The row of step i of the chunk. */
__device__ static inline int64_t row_of(const struct cuda_scan &s, const struct scan_place &p,
                                        int i)
{
    const int64_t t = p.first + i;

    return p.row + (s.reverse ? s.length - 1 - t : t);
}

__device__ static inline int64_t element(const struct cuda_scan &s, const struct scan_place &p,
                                         int i)
{
    return row_of(s, p, i) * s.channels + p.channel;
}

__device__ static inline int64_t kept_at(const struct cuda_scan &s, const struct scan_place &p,
                                         int64_t n)
{
    return (p.chunk * s.states + n) * s.channels + p.channel;
}

__device__ static inline float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

__device__ static inline float softplus(float x)
{
    return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
}

__device__ static inline float decay_of(const struct cuda_scan &s, int64_t channel, int64_t n)
{
    return -expf(s.a_log[channel * s.states + n]);
}

/* The gradient by the sum of C h and D u: behind the gate. */
__device__ static inline float gated(const struct cuda_scan &s, int64_t at, float dy)
{
    if (s.z.at) {
        const float z = array_load(s.z, at);

        dy *= z * sigmoid(z);
    }
    return dy;
}

/* [step][lane]: the lanes' own numbers. */
typedef float by_step[SCAN_CHUNK][CHANNELS];

/* Steps behind the end of a sequence are 0, which changes no state; their number is 0, too. Returns
 * the sum of the steps. */
__device__ static inline float load_steps(const struct cuda_scan &s, const struct scan_place &p,
                                          by_step step)
{
    float total = 0;

    for (int i = 0; i < SCAN_CHUNK; i++) {
        float value = 0;

        if (i < p.count && p.inside)
            value = softplus(array_load(s.delta, element(s, p, i)));
        step[i][threadIdx.x] = value;
        total += value;
    }
    return total;
}

__device__ static inline void load_inputs(const struct cuda_scan &s, const struct scan_place &p,
                                          by_step step, by_step input)
{
    for (int i = 0; i < SCAN_CHUNK; i++)
        input[i][threadIdx.x] = i < p.count && p.inside
                                    ? step[i][threadIdx.x] * array_load(s.u, element(s, p, i))
                                    : 0.0f;
}

__device__ static inline void load_gradients(const struct cuda_scan &s, const struct scan_place &p,
                                             by_step dy)
{
    for (int i = 0; i < SCAN_CHUNK; i++) {
        const int64_t at = element(s, p, i);

        dy[i][threadIdx.x] = i < p.count && p.inside ? gated(s, at, array_load(s.dy, at)) : 0.0f;
    }
}

/* Loads B or C of the chunk, for STATES states from n on. The warp calls it. */
__device__ static inline void load_states(const struct cuda_scan &s, const struct scan_place &p,
                                          const struct cuda_array &from, int64_t n,
                                          float (*to)[STATES])
{
    __syncwarp();
    for (int at = threadIdx.x; at < SCAN_CHUNK * STATES; at += CHANNELS) {
        const int i = at / STATES, k = at % STATES;

        to[i][k] = i < p.count && n + k < s.states
                       ? array_load(from, row_of(s, p, i) * s.states + n + k)
                       : 0.0f;
    }
    __syncwarp();
}

/* ---- forward --------------------------------------------------------------------------------- */

/* RESULTS: begins with the states before the chunk, and writes y. Else: begins with zero, and
 * writes the states behind the chunk and the sums of its steps. */
template <bool RESULTS> __global__ void scan_kernel(struct cuda_scan s, int64_t slabs, float *sums)
{
    __shared__ by_step step, input, y;
    __shared__ float b[SCAN_CHUNK][STATES], c[SCAN_CHUNK][STATES];
    const struct scan_place p = place_of(s, slabs);
    const int lane = threadIdx.x;
    const float total = load_steps(s, p, step);

    load_inputs(s, p, step, input);
    for (int i = 0; RESULTS && i < SCAN_CHUNK; i++)
        y[i][lane] = 0;
    for (int64_t n = 0; n < s.states; n += STATES) {
        float a[STATES], h[STATES];

        load_states(s, p, s.b, n, b);
        if (RESULTS)
            load_states(s, p, s.c, n, c);
#pragma unroll
        for (int k = 0; k < STATES; k++) {
            const bool exists = p.inside && n + k < s.states;

            a[k] = exists ? decay_of(s, p.channel, n + k) : 0.0f;
            h[k] = RESULTS && exists ? s.kept[kept_at(s, p, n + k)] : 0.0f;
        }
        for (int i = 0; i < SCAN_CHUNK; i++) {
            const float by = step[i][lane], in = input[i][lane];
            float sum = RESULTS ? y[i][lane] : 0.0f;

#pragma unroll
            for (int k = 0; k < STATES; k++) {
                h[k] = __expf(by * a[k]) * h[k] + in * b[i][k];
                if (RESULTS)
                    sum += h[k] * c[i][k];
            }
            if (RESULTS)
                y[i][lane] = sum;
        }
#pragma unroll
        for (int k = 0; k < STATES; k++)
            if (!RESULTS && p.inside && n + k < s.states)
                s.kept[kept_at(s, p, n + k)] = h[k];
    }
    if (!RESULTS && p.inside)
        sums[p.chunk * s.channels + p.channel] = total;
    for (int i = 0; RESULTS && p.inside && i < p.count; i++) {
        const int64_t at = element(s, p, i);

        array_store(s.y, at, gated(s, at, y[i][lane] + s.d[p.channel] * array_load(s.u, at)));
    }
}

/* In place of what each chunk makes of zero writes what comes to it from the chunks before. BACK:
 * goes from the last chunk to the first. */
template <bool BACK>
__global__ void scan_chunks_kernel(struct cuda_scan s, const float *sums, float *states)
{
    const int64_t chunks = chunks_of(s), row = s.states * s.channels;

    FOR_EACH_ELEMENT(i, s.sequences * row)
    {
        const int64_t sequence = i / row, channel = i % s.channels;
        const float a = decay_of(s, channel, i % row / s.channels);
        float carried = 0;

#pragma unroll 4
        for (int64_t k = 0; k < chunks; k++) {
            const int64_t chunk = sequence * chunks + (BACK ? chunks - 1 - k : k);
            float *at = states + chunk * row + i % row;
            const float own = *at;

            *at = carried;
            carried = __expf(a * sums[chunk * s.channels + channel]) * carried + own;
        }
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

/* What each chunk makes of a gradient of zero behind it: the gradient by the state before it. */
__global__ void scan_gradient_kernel(struct cuda_scan s, int64_t slabs, float *sums,
                                     float *gradients)
{
    __shared__ by_step step, dy;
    __shared__ float c[SCAN_CHUNK][STATES];
    const struct scan_place p = place_of(s, slabs);
    const int lane = threadIdx.x;
    const float total = load_steps(s, p, step);

    load_gradients(s, p, dy);
    for (int64_t n = 0; n < s.states; n += STATES) {
        float a[STATES], carried[STATES] = {};

        load_states(s, p, s.c, n, c);
#pragma unroll
        for (int k = 0; k < STATES; k++)
            a[k] = p.inside && n + k < s.states ? decay_of(s, p.channel, n + k) : 0.0f;
        for (int i = SCAN_CHUNK - 1; i >= 0; i--) {
            const float by = step[i][lane], g = dy[i][lane];

#pragma unroll
            for (int k = 0; k < STATES; k++)
                carried[k] = (carried[k] + g * c[i][k]) * __expf(by * a[k]);
        }
#pragma unroll
        for (int k = 0; k < STATES; k++)
            if (p.inside && n + k < s.states)
                gradients[kept_at(s, p, n + k)] = carried[k];
    }
    if (p.inside)
        sums[p.chunk * s.channels + p.channel] = total;
}

/* A stage of lane_sums(): a lane passes half of its numbers on, and adds those that it gets to the
 * other half. */
template <int HALF> __device__ static inline void fold_lanes(float (&value)[SCAN_CHUNK])
{
    const bool upper = threadIdx.x & HALF;

#pragma unroll
    for (int j = 0; j < HALF; j++) {
        const float given = upper ? value[j] : value[j + HALF];
        const float kept = upper ? value[j + HALF] : value[j];

        value[j] = kept + __shfl_xor_sync(WARP, given, HALF);
    }
    if constexpr (HALF > 1)
        fold_lanes<HALF / 2>(value);
}

/* The sum over the lanes of value[i], for lane i, in a fixed order. */
__device__ static inline float lane_sums(float (&value)[SCAN_CHUNK])
{
    fold_lanes<SCAN_CHUNK / 2>(value);
    return value[0];
}

/* Sums of a launch: dA is written in place of the gradients by the states. */
struct scan_sums {
    float *gradients; /* [chunk][state][channel] */
    float *dd;        /* [chunk][channel] */
    float *db, *dc;   /* [slab][row][state] */
    int64_t rows;
};

struct scan_gradients {
    by_step step, input, dy, dstep, dinput, y;
    float b[SCAN_CHUNK], c[SCAN_CHUNK];
};

/* State n of the thread's channel. */
__device__ static inline void state_back(const struct cuda_scan &s, const struct scan_place &p,
                                         const struct scan_sums &sums, struct scan_gradients &w,
                                         int64_t n)
{
    const int lane = threadIdx.x;
    const float a = p.inside ? decay_of(s, p.channel, n) : 0.0f;
    const float before = p.inside ? s.kept[kept_at(s, p, n)] : 0.0f;
    float carried = p.inside ? sums.gradients[kept_at(s, p, n)] : 0.0f;
    float h[SCAN_CHUNK], decay[SCAN_CHUNK], state = before, da = 0;

    __syncwarp();
    w.b[lane] = lane < p.count ? array_load(s.b, row_of(s, p, lane) * s.states + n) : 0.0f;
    w.c[lane] = lane < p.count ? array_load(s.c, row_of(s, p, lane) * s.states + n) : 0.0f;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < SCAN_CHUNK; i++) {
        decay[i] = __expf(w.step[i][lane] * a);
        h[i] = state = decay[i] * state + w.input[i][lane] * w.b[i];
        w.y[i][lane] += state * w.c[i];
    }
#pragma unroll
    for (int i = SCAN_CHUNK - 1; i >= 0; i--) {
        const float dy = w.dy[i][lane], last = i ? h[i ? i - 1 : 0] : before;
        const float dh = carried + dy * w.c[i];

        w.dinput[i][lane] += dh * w.b[i];
        carried = dh * decay[i];
        w.dstep[i][lane] += carried * last * a;
        da += carried * last * w.step[i][lane];
        h[i] = dy * h[i];                 /* from here on the summands of dC */
        decay[i] = dh * w.input[i][lane]; /* and of dB */
    }
    if (p.inside)
        sums.gradients[kept_at(s, p, n)] = da;

    const float dc = lane_sums(h), db = lane_sums(decay);
    if (lane < p.count) {
        const int64_t at = (p.slab * sums.rows + row_of(s, p, lane)) * s.states + n;

        sums.db[at] = db;
        sums.dc[at] = dc;
    }
}

/* du, ddelta, dz, and the sum dD. */
__device__ static inline void end_back(const struct cuda_scan &s, const struct scan_place &p,
                                       const struct scan_sums &sums, const struct scan_gradients &w)
{
    const int lane = threadIdx.x;
    const float d = s.d[p.channel];
    float dd = 0;

    for (int i = 0; i < p.count; i++) {
        const int64_t at = element(s, p, i);
        const float u = array_load(s.u, at), dinput = w.dinput[i][lane], dy = w.dy[i][lane];

        dd += dy * u;
        array_store(s.ddelta, at,
                    (w.dstep[i][lane] + dinput * u) * sigmoid(array_load(s.delta, at)));
        if (s.z.at) {
            const float z = array_load(s.z, at), g = sigmoid(z), y = w.y[i][lane] + d * u;

            array_store(s.dz, at, array_load(s.dy, at) * y * g * (1.0f + z * (1.0f - g)));
        }
        array_store(s.du, at, dinput * w.step[i][lane] + dy * d);
    }
    sums.dd[p.chunk * s.channels + p.channel] = dd;
}

__global__ void scan_backward_kernel(struct cuda_scan s, int64_t slabs, struct scan_sums sums)
{
    __shared__ struct scan_gradients w;
    const struct scan_place p = place_of(s, slabs);

    load_steps(s, p, w.step);
    load_inputs(s, p, w.step, w.input);
    load_gradients(s, p, w.dy);
    for (int i = 0; i < SCAN_CHUNK; i++)
        w.dstep[i][threadIdx.x] = w.dinput[i][threadIdx.x] = w.y[i][threadIdx.x] = 0;
    for (int64_t n = 0; n < s.states; n++)
        state_back(s, p, sums, w, n);
    if (p.inside)
        end_back(s, p, sums, w);
}

/* db and dc: the sums over the slabs. */
__global__ void scan_slabs_kernel(const float *parts, int64_t slabs, int64_t count,
                                  struct cuda_array sum)
{
    FOR_EACH_ELEMENT(i, count)
    {
        float total = 0;

        for (int64_t k = 0; k < slabs; k++)
            total += parts[k * count + i];
        array_store(sum, i, total);
    }
}

/* dA_log[channel, state] (+)= dA A, as A = -exp(A_log); da: [state, channel]. */
__global__ void scan_decay_kernel(struct cuda_scan s, const float *da)
{
    FOR_EACH_ELEMENT(i, s.channels * s.states)
    {
        const int64_t channel = i / s.states, n = i % s.states;
        const float value = da[n * s.channels + channel] * decay_of(s, channel, n);

        s.da_log[i] = s.accumulate_a ? s.da_log[i] + value : value;
    }
}

static struct cuda_array floats(float *at)
{
    return (struct cuda_array){.at = at, .type = TENSOR_FLOAT32};
}

int64_t cuda_scan_kept(const struct cuda_scan *scan)
{
    return scan->sequences * chunks_of(*scan) * scan->states * scan->channels;
}

size_t cuda_scan_scratch(const struct cuda_scan *scan)
{
    return (size_t)(scan->sequences * chunks_of(*scan) * scan->channels) * sizeof(float);
}

cudaError_t cuda_selective_scan(const struct cuda_scan *scan, cudaStream_t stream)
{
    const int64_t slabs = slabs_of(*scan), chunks = scan->sequences * chunks_of(*scan);
    const unsigned blocks = (unsigned)(chunks * slabs);

    scan_kernel<false><<<blocks, CHANNELS, 0, stream>>>(*scan, slabs, scan->scratch);
    scan_chunks_kernel<false>
        <<<blocks_for(scan->sequences * scan->states * scan->channels), BLOCK, 0, stream>>>(
            *scan, scan->scratch, scan->kept);
    scan_kernel<true><<<blocks, CHANNELS, 0, stream>>>(*scan, slabs, scan->scratch);
    return cudaGetLastError();
}

size_t cuda_scan_backward_scratch(const struct cuda_scan *scan)
{
    const int64_t chunks = scan->sequences * chunks_of(*scan);
    const int64_t rows = scan->sequences * scan->length;

    return (size_t)(cuda_scan_kept(scan) + 2 * chunks * scan->channels +
                    scan->states * scan->channels + 2 * slabs_of(*scan) * rows * scan->states) *
           sizeof(float);
}

cudaError_t cuda_selective_scan_backward(const struct cuda_scan *scan, cudaStream_t stream)
{
    const int64_t slabs = slabs_of(*scan), chunks = scan->sequences * chunks_of(*scan);
    const int64_t row = scan->states * scan->channels;
    const unsigned blocks = (unsigned)(chunks * slabs);
    const int64_t rows = scan->sequences * scan->length, numbers = rows * scan->states;
    float *steps = scan->scratch + cuda_scan_kept(scan), *da;
    struct scan_sums sums;
    cudaError_t status;

    sums.gradients = scan->scratch;
    sums.rows = rows;
    sums.dd = steps + chunks * scan->channels;
    da = sums.dd + chunks * scan->channels;
    sums.db = da + row;
    sums.dc = sums.db + slabs * numbers;
    scan_gradient_kernel<<<blocks, CHANNELS, 0, stream>>>(*scan, slabs, steps, sums.gradients);
    scan_chunks_kernel<true>
        <<<blocks_for(scan->sequences * row), BLOCK, 0, stream>>>(*scan, steps, sums.gradients);
    scan_backward_kernel<<<blocks, CHANNELS, 0, stream>>>(*scan, slabs, sums);
    scan_slabs_kernel<<<blocks_for(numbers), BLOCK, 0, stream>>>(sums.db, slabs, numbers, scan->db);
    scan_slabs_kernel<<<blocks_for(numbers), BLOCK, 0, stream>>>(sums.dc, slabs, numbers, scan->dc);
    status = cuda_column_sum(floats(sums.gradients), chunks, row, false, da, stream);
    if (status != cudaSuccess)
        return status;
    scan_decay_kernel<<<blocks_for(row), BLOCK, 0, stream>>>(*scan, da);
    return cuda_column_sum(floats(sums.dd), chunks, scan->channels, scan->accumulate_d, scan->dd,
                           stream);
}
