/* implicit_load.cuh: loads implicit.cu's operands into shared memory: the description of a product,
 * and a loader for each kind of operand. A thread of a loader has a term, or a column, that
 * advances by slices. Everything is in the anonymous namespace of the file that includes it. */
#pragma once

#include "engine/backends/cuda/kernels/values.cuh"

namespace
{

constexpr int SLICE = 16, STAGES = 3, WARP_TILE = 32, RESIDUES = CUDA_IMPLICIT_STRIDE_MAX;

/* One axis of the pixels i of a class: their first tap reads first + i step, and each further tap
 * reads `hop` more. */
struct axis {
    int extent;      /* how many pixels the class has */
    int first, step; /* in the tensor that is read */
    int taps, hop;
    int tap, tap_step; /* in the filter */
    int to, to_step;   /* where pixel i is in the result */
};

struct task {
    struct cuda_convolution c;
    int inputs, outputs; /* per group */
    int classes;         /* along each axis */
    struct axis axis[2][RESIDUES];
    int read_height, read_width, read_channels; /* of the gathered tensor */
    int depth;                                  /* its channels per group */
    int splits;
    int64_t part_elements; /* elements of a part; with one split there are no parts */
};

/* ---- copies to shared memory, zeros where there is nothing to copy ---- */

template <int VEC>
__device__ inline void copy(float *to, const float *from, const float *valid, bool inside)
{
#if __CUDA_ARCH__ >= 800
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    const int bytes = inside ? 4 * VEC : 0;

    from = inside ? from : valid;
    if (VEC == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from),
                     "r"(bytes));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from),
                     "r"(bytes));
#endif
}

/* What a thread loads of a slice: VEC numbers, OWN times. float32 is copied asynchronously; other
 * types wait in registers until put() converts them. */
template <typename T, int VEC, int OWN> struct carrier {
    struct alignas(VEC * sizeof(T)) some {
        T value[VEC];
    } held[OWN];

    __device__ void take(int o, const T *from, const T *, bool inside, float *)
    {
#pragma unroll
        for (int v = 0; v < VEC; v++)
            held[o].value[v] = from_float<T>(0.0f);
        if (inside)
            held[o] = *(const struct some *)from;
    }
    __device__ void put(int o, float *to)
    {
        if (VEC == 4)
            *(float4 *)to = make_float4(to_float(held[o].value[0]), to_float(held[o].value[1]),
                                        to_float(held[o].value[2]), to_float(held[o].value[3]));
        else
            *to = to_float(held[o].value[0]);
    }
};
template <int VEC, int OWN> struct carrier<float, VEC, OWN> {
    __device__ void take(int, const float *from, const float *valid, bool inside, float *to)
    {
        copy<VEC>(to, from, valid, inside);
    }
    __device__ void put(int, float *)
    {
    }
};

__device__ inline void copies_commit()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#endif
}

/* Waits until all but the last STAGES - 2 groups have arrived, for all threads. */
__device__ inline void copies_wait()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
#endif
    __syncthreads();
}

/* The index of a row in [term][row]. */
__device__ inline int exchanged(int term, int row, int rows)
{
    return term * rows + ((row / 4 ^ 2 * (term / 4 & 3)) * 4 + row % 4);
}

/* ---- loaders ---- */

/* Taps and channels in the order of the terms. */
struct terms {
    int term, channel, i, j; /* tap (i, j) of the class */
};

__device__ inline struct terms terms_begin(const struct axis &w, int depth, int term)
{
    const int tap = term / depth;

    return {term, term % depth, tap / max(w.taps, 1), tap % max(w.taps, 1)};
}

__device__ inline void terms_advance(struct terms &t, const struct axis &w, int depth)
{
    t.term += SLICE;
    t.channel += SLICE;
    while (t.channel >= depth) {
        t.channel -= depth;
        if (++t.j == w.taps) {
            t.j = 0;
            t.i++;
        }
    }
}

/* [row][term] of the gathered operand. A thread has `rows` rows, each with the place that its tap
 * (0, 0) reads. */
template <typename T, int VEC, int THREADS, int ROWS> struct gatherer {
    static constexpr int COLUMNS = SLICE / VEC, STEP = THREADS / COLUMNS, OWN = ROWS / STEP;
    carrier<T, VEC, OWN> carried;
    int base[OWN];
    short2 place[OWN]; /* line and column; a missing pixel has a place far outside */
    struct terms at;

    __device__ static int slot(int o)
    {
        return ((int)threadIdx.x / COLUMNS + o * STEP) * SLICE + (int)threadIdx.x % COLUMNS * VEC;
    }

    __device__ void put(float *to)
    {
#pragma unroll
        for (int o = 0; o < OWN; o++)
            carried.put(o, to + slot(o));
    }

    __device__ void begin(const struct task &k, const struct axis &h, const struct axis &w,
                          int first_row, int group, int slice)
    {
        const int pixels = h.extent * w.extent;

#pragma unroll
        for (int o = 0; o < OWN; o++) {
            const int row = first_row + (int)threadIdx.x / COLUMNS + o * STEP;
            const int n = row / pixels, pixel = row % pixels;
            const int line = h.first + pixel / w.extent * h.step;
            const int column = w.first + pixel % w.extent * w.step;

            base[o] = ((n * k.read_height + line) * k.read_width + column) * k.read_channels +
                      group * k.depth;
            place[o] = n < k.c.batch ? make_short2((short)line, (short)column)
                                     : make_short2(-32768, -32768);
        }
        at = terms_begin(w, k.depth, slice * SLICE + (int)threadIdx.x % COLUMNS * VEC);
    }

    __device__ void bring(const struct task &k, const struct axis &h, const struct axis &w,
                          int terms, const T *from, float *to)
    {
        const int line = at.i * h.hop, column = at.j * w.hop;
        const int offset = (line * k.read_width + column) * k.read_channels + at.channel;
        const bool exists = at.term < terms;

#pragma unroll
        for (int o = 0; o < OWN; o++) {
            const bool inside = exists && (unsigned)(place[o].x + line) < (unsigned)k.read_height &&
                                (unsigned)(place[o].y + column) < (unsigned)k.read_width;

            carried.take(o, from + base[o] + offset, from, inside, to + slot(o));
        }
        terms_advance(at, w, k.depth);
    }
};

/* [row][term] of the filters of a group's outputs, as they are stored. */
template <typename T, int VEC, int THREADS, int ROWS> struct filter_reader {
    static constexpr int COLUMNS = SLICE / VEC, STEP = THREADS / COLUMNS, OWN = ROWS / STEP;
    carrier<T, VEC, OWN> carried;
    int term, first;

    __device__ static int slot(int o)
    {
        return ((int)threadIdx.x / COLUMNS + o * STEP) * SLICE + (int)threadIdx.x % COLUMNS * VEC;
    }

    __device__ void put(float *to)
    {
#pragma unroll
        for (int o = 0; o < OWN; o++)
            carried.put(o, to + slot(o));
    }

    __device__ void begin(int first_output, int slice)
    {
        first = first_output + (int)threadIdx.x / COLUMNS;
        term = slice * SLICE + (int)threadIdx.x % COLUMNS * VEC;
    }

    __device__ void bring(const struct task &k, int terms, const T *weight, float *to)
    {
#pragma unroll
        for (int o = 0; o < OWN; o++)
            carried.take(o, weight + (int64_t)(first + o * STEP) * terms + term, weight,
                         term < terms && first + o * STEP < k.outputs, to + slot(o));
        term += SLICE;
    }
};

/* [term][row]: a thread has a term, and every STEP-th group of VEC rows from its own on. */
template <int VEC, int THREADS, int ROWS> struct side_by_side {
    static constexpr int STEP = THREADS / SLICE, OWN = ROWS / VEC / STEP;

    __device__ static int term()
    {
        return (int)threadIdx.x / STEP;
    }
    __device__ static int row(int o)
    {
        return ((int)threadIdx.x % STEP + o * STEP) * VEC;
    }
    __device__ static int slot(int o)
    {
        return exchanged(term(), row(o), ROWS);
    }
};

/* The filters for the gradient by the data: terms are taps x outputs of the group, rows its
 * inputs. */
template <typename T, int VEC, int THREADS, int ROWS> struct turned_filter_reader {
    typedef side_by_side<VEC, THREADS, ROWS> own;
    carrier<T, VEC, own::OWN> carried;
    struct terms at;
    int first;

    __device__ void put(float *to)
    {
#pragma unroll
        for (int o = 0; o < own::OWN; o++)
            carried.put(o, to + own::slot(o));
    }

    __device__ void begin(const struct axis &w, int depth, int first_input, int slice)
    {
        first = first_input;
        at = terms_begin(w, depth, slice * SLICE + own::term());
    }

    __device__ void bring(const struct task &k, const struct axis &h, const struct axis &w,
                          int terms, const T *weight, float *to)
    {
        const int tap = (h.tap + at.i * h.tap_step) * k.c.kernel[1] + w.tap + at.j * w.tap_step;
        const T *from =
            weight + ((int64_t)at.channel * k.c.kernel[0] * k.c.kernel[1] + tap) * k.inputs;

#pragma unroll
        for (int o = 0; o < own::OWN; o++) {
            const int row = own::row(o);

            carried.take(o, from + first + row, weight, at.term < terms && first + row < k.inputs,
                         to + own::slot(o));
        }
        terms_advance(at, w, k.depth);
    }
};

/* The gradient with respect to the results: terms are their pixels, rows the outputs of the
 * group. */
template <typename T, int VEC, int THREADS, int ROWS> struct result_reader {
    typedef side_by_side<VEC, THREADS, ROWS> own;
    carrier<T, VEC, own::OWN> carried;
    int first, term;

    __device__ void put(float *to)
    {
#pragma unroll
        for (int o = 0; o < own::OWN; o++)
            carried.put(o, to + own::slot(o));
    }

    __device__ void begin(int first_output, int slice)
    {
        first = first_output;
        term = slice * SLICE + own::term();
    }

    __device__ void bring(const struct task &k, int group, int terms, const T *dy, float *to)
    {
        const T *from = dy + (int64_t)term * k.c.outputs + group * k.outputs;

#pragma unroll
        for (int o = 0; o < own::OWN; o++) {
            const int row = own::row(o);

            carried.take(o, from + first + row, dy, term < terms && first + row < k.outputs,
                         to + own::slot(o));
        }
        term += SLICE;
    }
};

/* What the filter's taps read, for the gradient by the weights: terms are the results' pixels, rows
 * taps x inputs. */
template <typename T, int VEC, int THREADS, int ROWS> struct patch_reader {
    typedef side_by_side<VEC, THREADS, ROWS> own;
    carrier<T, VEC, own::OWN> carried;
    int offset[own::OWN];
    short2 place[own::OWN]; /* of the tap */
    int term, n, line, column;

    __device__ void put(float *to)
    {
#pragma unroll
        for (int o = 0; o < own::OWN; o++)
            carried.put(o, to + own::slot(o));
    }

    __device__ void begin(const struct task &k, int first, int columns, int slice)
    {
#pragma unroll
        for (int o = 0; o < own::OWN; o++) {
            const int row = first + own::row(o), channel = row % k.inputs, tap = row / k.inputs;
            const int i = tap / k.c.kernel[1] * k.c.dilation[0];
            const int j = tap % k.c.kernel[1] * k.c.dilation[1];

            offset[o] = (i * k.c.width + j) * k.c.channels + channel;
            place[o] = row < columns ? make_short2((short)i, (short)j) : make_short2(-32768, 0);
        }
        term = slice * SLICE + own::term();
        n = term / (k.c.out_height * k.c.out_width);
        line = term / k.c.out_width % k.c.out_height;
        column = term % k.c.out_width;
    }

    __device__ void bring(const struct task &k, int group, const T *x, float *to)
    {
        const int top = line * k.c.stride[0] - k.c.padding[0];
        const int left = column * k.c.stride[1] - k.c.padding[1];
        const int base =
            ((n * k.c.height + top) * k.c.width + left) * k.c.channels + group * k.inputs;

#pragma unroll
        for (int o = 0; o < own::OWN; o++) {
            const bool inside = n < k.c.batch &&
                                (unsigned)(top + place[o].x) < (unsigned)k.c.height &&
                                (unsigned)(left + place[o].y) < (unsigned)k.c.width;

            carried.take(o, x + base + offset[o], x, inside, to + own::slot(o));
        }
        term += SLICE;
        column += SLICE;
        while (column >= k.c.out_width) {
            column -= k.c.out_width;
            if (++line == k.c.out_height) {
                line = 0;
                n++;
            }
        }
    }
};

} // namespace
