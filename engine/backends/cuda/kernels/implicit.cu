/* implicit.cu: convolutions of any shape as matrix products whose operands are gathered from the
 * images ("implicit GEMM"), by tensor cores of compute capability 8.0 and above. float32 is
 * multiplied in tf32 or, if that is not allowed, as the sum of three products of TF32 numbers (as
 * in tile.cuh: an error of 2^-22 of each product). Numbers of 16 bits are TF32 numbers, so their
 * products are exact. Images are channels-last, filters [O,kh,kw,C/groups].
 *
 *              rows                    columns        terms
 *   forward    results' pixels         outputs        taps x inputs of the group
 *   by data    inputs' pixels          inputs         taps x outputs of the group
 *   by weights outputs of the group    taps x inputs  results' pixels
 *
 * With a stride, the inputs' pixels fall into stride x stride classes, by the taps that reach them.
 * Each class is a product of its own, in which every tap counts. If there are too few blocks, the
 * terms are divided among more of them. Their sums go to `parts` and are added up in order.
 *
 * A block has 32 WM x 32 WN results, a warp 32 x 32. Shared memory holds SLICE terms of each
 * operand. An operand whose terms are neighbours in device memory is stored as [row][term], one
 * whose rows are neighbours as [term][row], with quads of rows exchanged so that eight threads read
 * from all banks. A thread may have any terms or rows, as long as both operands agree (tile.cuh).
 * So all reads are of 16 bytes: the thread that is member t in its group of four has terms 4 t to 4
 * t + 3 of a slice. */
#include "engine/backends/cuda/kernels/implicit_load.cuh"

namespace
{

/* ---- products ---- */

/* Rounds to the nearest TF32 number; the unit ignores the bits below the mask. Infinities and NaN
 * keep their bits: the addition would carry those of a NaN into the sign, and leave a zero. */
__device__ inline unsigned nearest(float value)
{
    return __float_as_uint(value) + (isfinite(value) ? 0x1000 : 0);
}

__device__ inline void multiply_add(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* Splits a number: high + low is the number, with an error of 2^-21 of it. */
__device__ inline void divide(float value, unsigned &high, unsigned &low)
{
    high = nearest(value) & ~0x1fffu;
    low = __float_as_uint(value - __uint_as_float(high));
}

__device__ inline void load_quad(float (&to)[4], const float *from)
{
    const float4 four = *(const float4 *)from;

    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
}

/* a[i][h][j]: of product i, the rows of half h, term 4 t + j. SIDE: stored as [term][row]. */
template <bool SIDE, int ROWS>
__device__ inline void load_a(const float *stage, int first, float (&a)[2][2][4])
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;

    if (SIDE) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float four[4];

            load_quad(four, stage + exchanged(4 * t + j, first + 4 * g, ROWS));
#pragma unroll
            for (int r = 0; r < 4; r++)
                a[r / 2][r % 2][j] = four[r];
        }
    } else {
#pragma unroll
        for (int r = 0; r < 4; r++)
            load_quad(a[r / 2][r % 2], stage + (first + 8 * r + g) * SLICE + 4 * t);
    }
}

/* b[n][j]: of product n, term 4 t + j. */
template <bool SIDE, int ROWS>
__device__ inline void load_b(const float *stage, int first, float (&b)[4][4])
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;

    if (SIDE) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float four[4];

            load_quad(four, stage + exchanged(4 * t + j, first + 4 * g, ROWS));
#pragma unroll
            for (int n = 0; n < 4; n++)
                b[n][j] = four[n];
        }
    } else {
#pragma unroll
        for (int n = 0; n < 4; n++)
            load_quad(b[n], stage + (first + 8 * n + g) * SLICE + 4 * t);
    }
}

typedef float sums[2][4][4];

/* Tensor cores round sums towards zero. EXACT: they add up only a slice. */
template <bool EXACT>
__device__ inline void multiply_slice(const float (&a)[2][2][4], const float (&b)[4][4], sums &sum)
{
    sums some = {};
    sums &to = EXACT ? some : sum;

#pragma unroll
    for (int h = 0; h < 2; h++) {
        unsigned high[2][4], low[2][4];

#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const float value = a[i][k % 2][2 * h + k / 2];

                if (EXACT)
                    divide(value, high[i][k], low[i][k]);
                else
                    high[i][k] = nearest(value);
            }
#pragma unroll
        for (int n = 0; n < 4; n++) {
            unsigned b_high[2], b_low[2];

#pragma unroll
            for (int k = 0; k < 2; k++)
                if (EXACT)
                    divide(b[n][2 * h + k], b_high[k], b_low[k]);
                else
                    b_high[k] = nearest(b[n][2 * h + k]);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                if (EXACT) {
                    multiply_add(to[i][n], low[i], b_high);
                    multiply_add(to[i][n], high[i], b_low);
                }
                multiply_add(to[i][n], high[i], b_high);
            }
        }
    }
    if (EXACT)
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int n = 0; n < 4; n++)
#pragma unroll
                for (int k = 0; k < 4; k++)
                    sum[i][n][k] += some[i][n][k];
}

/* The row, among the warp's 32, of value k of product i, and its column in product n. */
template <bool SIDE> __device__ inline int row_of(int i, int k)
{
    const int g = threadIdx.x % 32 / 4;

    return SIDE ? 4 * g + 2 * i + k / 2 : 16 * i + g + 8 * (k / 2);
}

template <bool SIDE> __device__ inline int column_of(int n, int k)
{
    const int c = 2 * (threadIdx.x % 4) + k % 2;

    return SIDE ? 4 * c + n : 8 * n + c;
}

/* blockIdx.x: rows; y: columns; z: the group, the class and the split. */
template <typename T, enum cuda_depthwise_pass PASS, bool EXACT, int VEC, int WM, int WN>
__global__ void __launch_bounds__(32 * WM * WN)
    implicit_kernel(const __grid_constant__ struct task k, const T *from, const T *with,
                    const float *bias, struct cuda_array to)
{
    constexpr int THREADS = 32 * WM * WN, ROWS = WARP_TILE * WM, COLUMNS = WARP_TILE * WN;
    constexpr bool FORWARD = PASS == CUDA_DEPTHWISE_FORWARD, DATA = PASS == CUDA_DEPTHWISE_DATA;
    constexpr bool WEIGHTS = PASS == CUDA_DEPTHWISE_WEIGHTS;
    constexpr bool A_SIDE = WEIGHTS, B_SIDE = !FORWARD;
    __shared__ __align__(128) float stages[STAGES][(ROWS + COLUMNS) * SLICE];
    const int split = (int)blockIdx.z % k.splits, rest = (int)blockIdx.z / k.splits;
    const int group = rest / (k.classes * k.classes), its = rest % (k.classes * k.classes);
    const struct axis &h = k.axis[0][its / k.classes], &w = k.axis[1][its % k.classes];
    const int first_row = (int)blockIdx.x * ROWS, first_column = (int)blockIdx.y * COLUMNS;
    const int rows = WEIGHTS ? k.outputs : k.c.batch * h.extent * w.extent;
    const int columns = FORWARD ? k.outputs
                        : DATA  ? k.inputs
                                : k.inputs * k.c.kernel[0] * k.c.kernel[1];
    const int terms =
        WEIGHTS ? k.c.batch * k.c.out_height * k.c.out_width : h.taps * w.taps * k.depth;
    const int slices = (terms + SLICE - 1) / SLICE;
    const int begin = (int)((int64_t)slices * split / k.splits);
    const int end = (int)((int64_t)slices * (split + 1) / k.splits);
    const int warp = threadIdx.x / 32, warp_row = warp / WN * WARP_TILE,
              warp_column = warp % WN * WARP_TILE;
    const T *weight = FORWARD || DATA ? with + (int64_t)group * k.outputs * k.inputs *
                                                   k.c.kernel[0] * k.c.kernel[1]
                                      : with;
    gatherer<T, VEC, THREADS, ROWS> gather;
    filter_reader<T, VEC, THREADS, COLUMNS> filter;
    turned_filter_reader<T, VEC, THREADS, COLUMNS> turned;
    result_reader<T, VEC, THREADS, ROWS> result;
    patch_reader<T, VEC, THREADS, COLUMNS> patch;
    sums sum = {};

    if (first_row >= rows)
        return;
    if (WEIGHTS) {
        result.begin(first_row, begin);
        patch.begin(k, first_column, columns, begin);
    } else {
        gather.begin(k, h, w, first_row, group, begin);
        if (FORWARD)
            filter.begin(first_column, begin);
        else
            turned.begin(w, k.depth, first_column, begin);
    }
    auto bring = [&](int slice) {
        float *const stage = stages[(slice - begin) % STAGES];

        if (slice >= end)
            return;
        if (WEIGHTS) {
            result.bring(k, group, terms, from, stage);
            patch.bring(k, group, with, stage + ROWS * SLICE);
        } else {
            gather.bring(k, h, w, terms, from, stage);
            if (FORWARD)
                filter.bring(k, terms, weight, stage + ROWS * SLICE);
            else
                turned.bring(k, h, w, terms, weight, stage + ROWS * SLICE);
        }
    };
    auto put = [&](int slice) { /* stores what waits in registers */
                                float *const stage = stages[(slice - begin) % STAGES];

                                if (slice >= end)
                                    return;
                                if (WEIGHTS) {
                                    result.put(stage);
                                    patch.put(stage + ROWS * SLICE);
                                } else {
                                    gather.put(stage);
                                    if (FORWARD)
                                        filter.put(stage + ROWS * SLICE);
                                    else
                                        turned.put(stage + ROWS * SLICE);
                                }
    };
    auto multiply = [&](int slice) {
        const float *const stage = stages[(slice - begin) % STAGES];
        float a[2][2][4], b[4][4];

        load_a<A_SIDE, ROWS>(stage, warp_row, a);
        load_b<B_SIDE, COLUMNS>(stage + ROWS * SLICE, warp_column, b);
        multiply_slice<EXACT>(a, b, sum);
    };

    if (sizeof(T) == sizeof(float)) {
        for (int s = 0; s < STAGES - 1; s++) {
            bring(begin + s);
            copies_commit();
        }
        for (int slice = begin; slice < end; slice++) {
            copies_wait(); /* and until all threads have read the stage that is filled now */
            bring(slice + STAGES - 1);
            copies_commit();
            multiply(slice);
        }
    } else {
        bring(begin);
        put(begin);
        __syncthreads();
        for (int slice = begin; slice < end; slice++) {
            bring(slice + 1);
            multiply(slice);
            put(slice + 1);
            __syncthreads();
        }
    }
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int v = 0; v < 4; v += 2) {
            const int row = first_row + warp_row + row_of<A_SIDE>(i, v);
            int64_t at = 0; /* the index in the result */

            if (row >= rows)
                continue;
            if (WEIGHTS) {
                at = (int64_t)(group * k.outputs + row) * columns;
            } else {
                const int pixel = row % (h.extent * w.extent), n = row / (h.extent * w.extent);
                const int line = h.to + pixel / w.extent * h.to_step;
                const int column = w.to + pixel % w.extent * w.to_step;

                at = FORWARD
                         ? (int64_t)((n * k.c.out_height + line) * k.c.out_width + column) *
                                   k.c.outputs +
                               group * k.outputs
                         : (int64_t)((n * k.c.height + line) * k.c.width + column) * k.c.channels +
                               group * k.inputs;
            }
#pragma unroll
            for (int e = 0; e < 2; e++)
#pragma unroll
                for (int n = 0; n < 4; n++) {
                    const int column = first_column + warp_column + column_of<B_SIDE>(n, v + e);

                    if (column < columns)
                        array_store(to, split * k.part_elements + at + column,
                                    sum[i][n][v + e] +
                                        (FORWARD && bias ? bias[group * k.outputs + column] : 0));
                }
        }
}

/* to[i] (+)= the sum of the parts + bias[i % channels]. */
__global__ void implicit_total_kernel(const float *parts, int count, int64_t elements,
                                      const float *bias, int channels, bool accumulate,
                                      struct cuda_array to)
{
    FOR_EACH_ELEMENT(i, elements)
    {
        float total = 0;

#pragma unroll 8
        for (int p = 0; p < count; p++)
            total += parts[p * elements + i];
        total += bias ? bias[i % channels] : 0;
        array_store(to, i, accumulate ? array_load(to, i) + total : total);
    }
}

/* ---- launches ---- */

/* The pixels i = residue + stride q of the inputs, and the taps that read them. */
struct axis describe_data(int size, int results, int kernel, int stride, int padding, int dilation,
                          int residue)
{
    struct axis axis = {};
    int first = -1, second = -1;

    (void)results;
    axis.extent = (size - residue + stride - 1) / stride;
    axis.to = residue;
    axis.to_step = stride;
    axis.step = 1;
    for (int tap = 0; tap < kernel; tap++) {
        if ((residue + padding - tap * dilation) % stride)
            continue;
        axis.taps++;
        second = first >= 0 && second < 0 ? tap : second;
        first = first < 0 ? tap : first;
    }
    if (axis.taps > 0) {
        axis.tap = first;
        axis.tap_step = second < 0 ? 0 : second - first;
        axis.first = (residue + padding - first * dilation) / stride;
        axis.hop = -axis.tap_step * dilation / stride;
    }
    return axis;
}

struct axis describe_forward(int results, int kernel, int stride, int padding, int dilation)
{
    return {results, -padding, stride, kernel, dilation, 0, 1, 0, 1};
}

struct task describe(const struct cuda_convolution *c, enum cuda_depthwise_pass pass)
{
    struct task k = {};
    const int in[2] = {c->height, c->width}, out[2] = {c->out_height, c->out_width};
    const bool data = pass == CUDA_DEPTHWISE_DATA;

    k.c = *c;
    k.inputs = c->channels / c->groups;
    k.outputs = c->outputs / c->groups;
    k.classes = data ? max(c->stride[0], c->stride[1]) : 1;
    for (int a = 0; a < 2; a++)
        for (int i = 0; i < k.classes; i++) {
            if (!data)
                k.axis[a][i] = describe_forward(out[a], c->kernel[a], c->stride[a], c->padding[a],
                                                c->dilation[a]);
            else if (i < c->stride[a])
                k.axis[a][i] = describe_data(in[a], out[a], c->kernel[a], c->stride[a],
                                             c->padding[a], c->dilation[a], i);
        }
    k.read_height = data ? c->out_height : c->height;
    k.read_width = data ? c->out_width : c->width;
    k.read_channels = data ? c->outputs : c->channels;
    k.depth = data ? k.outputs : k.inputs;
    return k;
}

/* The rows, columns and terms of the largest class. */
struct extents {
    int64_t rows, columns, terms, elements; /* elements: those of the whole result */
};

struct extents extents_of(const struct task &k, enum cuda_depthwise_pass pass)
{
    const struct cuda_convolution &c = k.c;
    const int64_t pixels = (int64_t)c.batch * k.axis[0][0].extent * k.axis[1][0].extent;
    const int64_t taps = (int64_t)c.kernel[0] * c.kernel[1];

    if (pass == CUDA_DEPTHWISE_WEIGHTS)
        return {k.outputs, taps * k.inputs, (int64_t)c.batch * c.out_height * c.out_width,
                taps * k.inputs * c.outputs};
    if (pass == CUDA_DEPTHWISE_FORWARD)
        return {pixels, k.outputs, taps * k.inputs,
                (int64_t)c.batch * c.out_height * c.out_width * c.outputs};
    return {pixels, k.inputs, taps * k.outputs / (k.classes * k.classes) + 1,
            (int64_t)c.batch * c.height * c.width * c.channels};
}

/* Chooses how many parts the terms are divided into: enough for two rounds of blocks, with at least
 * eight slices each, as far as there is room for their sums. */
int choose_splits(const struct extents &e, int64_t blocks, size_t part_bytes)
{
    const int64_t wanted = (CUDA_IMPLICIT_BLOCKS + blocks - 1) / blocks;
    const int64_t longest = e.terms / (8 * SLICE);
    const int64_t room = (int64_t)(part_bytes / sizeof(float)) / e.elements;
    int64_t splits = wanted < longest ? wanted : longest;

    splits = splits < room ? splits : room;
    return splits < 1 ? 1 : (int)splits;
}

template <typename T, enum cuda_depthwise_pass PASS, bool EXACT, int VEC, int WM, int WN>
void launch(struct task k, const struct cuda_depthwise_operands *o, cudaStream_t stream)
{
    constexpr bool FORWARD = PASS == CUDA_DEPTHWISE_FORWARD, DATA = PASS == CUDA_DEPTHWISE_DATA;
    const struct extents e = extents_of(k, PASS);
    const int64_t x = (e.rows + WARP_TILE * WM - 1) / (WARP_TILE * WM),
                  y = (e.columns + WARP_TILE * WN - 1) / (WARP_TILE * WN),
                  z = (int64_t)k.c.groups * k.classes * k.classes;
    const struct cuda_array result = {FORWARD ? o->y
                                      : DATA  ? o->x
                                              : o->gradient,
                                      FORWARD || DATA ? k.c.type : (int)TENSOR_FLOAT32};
    const struct cuda_array parts = {o->parts, TENSOR_FLOAT32};
    const float *bias = FORWARD ? o->bias : NULL;
    bool apart;

    k.splits = choose_splits(e, x * y * z, o->part_bytes);
    apart = k.splits > 1 || (!FORWARD && !DATA && o->accumulate);
    k.part_elements = apart ? e.elements : 0;
    implicit_kernel<T, PASS, EXACT, VEC, WM, WN>
        <<<dim3((unsigned)x, (unsigned)y, (unsigned)(z * k.splits)), 32 * WM * WN, 0, stream>>>(
            k, (const T *)(FORWARD ? o->x : o->y), (const T *)(FORWARD || DATA ? o->weight : o->x),
            apart ? NULL : bias, apart ? parts : result);
    if (apart)
        implicit_total_kernel<<<blocks_for(e.elements), BLOCK, 0, stream>>>(
            o->parts, k.splits, e.elements, bias, k.c.outputs, !FORWARD && !DATA && o->accumulate,
            result);
}

template <typename T, enum cuda_depthwise_pass PASS, bool EXACT, int VEC>
void launch_tile(const struct task &k, int tile, const struct cuda_depthwise_operands *o,
                 cudaStream_t stream)
{
    if (tile == 0)
        launch<T, PASS, EXACT, VEC, 4, 2>(k, o, stream);
    else if (tile == 1)
        launch<T, PASS, EXACT, VEC, 2, 2>(k, o, stream);
    else if (tile == 2)
        launch<T, PASS, EXACT, VEC, 4, 1>(k, o, stream);
    else /* by the weights: for few outputs; else: gathered rows serve more columns */
        launch<T, PASS, EXACT, VEC, PASS == CUDA_DEPTHWISE_WEIGHTS ? 1 : 2, 4>(k, o, stream);
}

template <typename T, bool EXACT, int VEC>
void launch_pass(const struct task &k, enum cuda_depthwise_pass pass, int tile,
                 const struct cuda_depthwise_operands *o, cudaStream_t stream)
{
    if (pass == CUDA_DEPTHWISE_FORWARD)
        launch_tile<T, CUDA_DEPTHWISE_FORWARD, EXACT, VEC>(k, tile, o, stream);
    else if (pass == CUDA_DEPTHWISE_DATA)
        launch_tile<T, CUDA_DEPTHWISE_DATA, EXACT, VEC>(k, tile, o, stream);
    else
        launch_tile<T, CUDA_DEPTHWISE_WEIGHTS, EXACT, VEC>(k, tile, o, stream);
}

template <typename T, bool EXACT>
void launch_type(const struct task &k, enum cuda_depthwise_pass pass, int tile,
                 const struct cuda_depthwise_operands *o, cudaStream_t stream)
{
    if (k.inputs % 4 == 0 && (pass == CUDA_DEPTHWISE_FORWARD || k.outputs % 4 == 0))
        launch_pass<T, EXACT, 4>(k, pass, tile, o, stream);
    else
        launch_pass<T, EXACT, 1>(k, pass, tile, o, stream);
}

} // namespace

bool cuda_implicit_is_possible(const struct cuda_convolution *c, enum cuda_depthwise_pass pass,
                               size_t part_bytes)
{
    const int64_t most = 32000; /* places are 16-bit numbers */
    const int stride = c->stride[0] > c->stride[1] ? c->stride[0] : c->stride[1];

    if (pass == CUDA_DEPTHWISE_DATA && stride > RESIDUES)
        return false;
    for (int a = 0; a < 2; a++) {
        const int64_t size = a ? c->width : c->height, out = a ? c->out_width : c->out_height;

        if (size + (int64_t)c->kernel[a] * c->dilation[a] + c->padding[a] > most / 2 ||
            out * c->stride[a] > most / 2)
            return false;
    }
    const struct task k = describe(c, pass);
    const struct extents e = extents_of(k, pass);

    return (int64_t)c->groups * k.classes * k.classes * CUDA_IMPLICIT_BLOCKS < 65535 &&
           e.columns / WARP_TILE < 65535 &&
           (pass != CUDA_DEPTHWISE_WEIGHTS ||
            e.elements * (int64_t)sizeof(float) <= (int64_t)part_bytes);
}

cudaError_t cuda_implicit(const struct cuda_convolution *c, enum cuda_depthwise_pass pass, int tile,
                          const struct cuda_depthwise_operands *operands, cudaStream_t stream)
{
    const struct task k = describe(c, pass);

    if (c->type == TENSOR_BFLOAT16)
        launch_type<__nv_bfloat16, false>(k, pass, tile, operands, stream);
    else if (c->type == TENSOR_FLOAT16)
        launch_type<__half, false>(k, pass, tile, operands, stream);
    else if (c->tf32)
        launch_type<float, false>(k, pass, tile, operands, stream);
    else
        launch_type<float, true>(k, pass, tile, operands, stream);
    return cudaGetLastError();
}
