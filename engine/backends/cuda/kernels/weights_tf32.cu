/* weights_tf32.cu: the gradient by the weights of 3x3 convolutions with stride 1 and padding 1, of
 * float32 by tensor cores in tf32: lines of 32 pixels, channels in multiples of 64. Images are
 * channels-last, filters [O,3,3,C].
 *
 * The product sums over pixels, but in channels-last images the pixels of an operand are not
 * adjacent. Tensor cores of 16 bits can read such operands from shared memory; those of tf32 cannot
 * (wgmma). For 64 channels of 32x32 with batch 512 on an H200, cuDNN 9.19 takes 387 us and this
 * kernel 199 us. For 128 channels of 16x16 and 256 of 8x8, a similar kernel was no faster than
 * cuDNN.
 *
 * A block has 64 outputs, 64 channels, all nine taps and a run of lines, which it takes one at a
 * time. Every pixel is read once: a line stays in shared memory until the line below it is done,
 * with a pixel of zeros at both ends. Four neighbouring threads have eight neighbouring pixels
 * each. A product may sum over the pixels in any order, as long as both operands agree, so each
 * step takes two pixels of each thread. The operands of the filter's three columns differ by a
 * shift of one pixel, which is kept in registers. Outputs and channels may be numbered in any
 * order, too: those of a thread are adjacent, so that it reads 16 bytes at a time. The PTX manual
 * describes the fragments ("Matrix Fragments for mma.m16n8k8"), with group = lane / 4 and member =
 * lane % 4. */
#include "engine/backends/cuda/kernels/values.cuh"

constexpr int TAPS = 9;
/* outputs and channels of a block, in quads of 16 bytes */
constexpr int TILE = 64, QUADS = TILE / 4;
constexpr int WIDTH = 32, CELLS = WIDTH + 2; /* of a line; in shared memory */
constexpr int WARPS = 12, THREADS = WARPS * 32;
constexpr int X_SLOTS = 6, Y_SLOTS = 4; /* lines in shared memory */
constexpr int X_SLOT = CELLS * QUADS, Y_SLOT = WIDTH * QUADS;
constexpr size_t SHARED_BYTES = sizeof(float4) * (X_SLOTS * X_SLOT + Y_SLOTS * Y_SLOT);

namespace
{

/* The index of a quad among those of its pixel. The eight threads that read at once have pixels
 * that are eight apart, and with this they read from all banks. */
__device__ inline int swizzle(int quad, int pixel)
{
    return quad ^ 2 * (pixel / 8 & 3);
}

__device__ inline void copy_quad(float4 *to, const float *from)
{
#if __CUDA_ARCH__ >= 800
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
        "l"(from));
#endif
}

/* Waits until the copies of all threads have arrived. */
__device__ inline void copies_wait()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;");
#endif
    __syncthreads();
}

/* Rounds to the nearest TF32 number; the unit ignores the bits below. Infinities and NaN keep their
 * bits: the addition would carry those of a NaN into the sign, and leave a zero. */
__device__ inline unsigned round_tf32(float value)
{
    return __float_as_uint(value) + (isfinite(value) ? 0x1000 : 0);
}

struct quad {
    unsigned value[4];
};

__device__ inline struct quad load_quad(const float4 *at)
{
    const float4 v = *at;

    return {{round_tf32(v.x), round_tf32(v.y), round_tf32(v.z), round_tf32(v.w)}};
}

__device__ inline void multiply_add(float (&sum)[4], unsigned a0, unsigned a1, unsigned a2,
                                    unsigned a3, unsigned b0, unsigned b1)
{
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#endif
}

/* ---- lines come ------------------------------------------------------------------------------ */

/* What a thread of the first COPIERS copies of each line: a quad of two pixels of either
 * operand. */
constexpr int COPIERS = WIDTH / 2 * QUADS;

struct copies {
    const float *x, *y; /* in the very first line */
    int channels, outputs;
    int x_to[2], y_to[2]; /* in a slot */
};

__device__ inline struct copies deal_copies(const struct cuda_weights_tf32 &d, const float *x,
                                            const float *y)
{
    const int first = threadIdx.x / QUADS, quad = threadIdx.x % QUADS;
    struct copies copies = {x + (int64_t)first * d.channels + quad * 4,
                            y + (int64_t)first * d.outputs + quad * 4, d.channels, d.outputs};

    for (int i = 0; i < 2; i++) {
        const int pixel = first + i * (WIDTH / 2), cell = pixel + 1;

        copies.x_to[i] = cell * QUADS + swizzle(quad, cell);
        copies.y_to[i] = pixel * QUADS + swizzle(quad, pixel);
    }
    return copies;
}

__device__ inline void fetch_x(const struct copies &copies, int line, float4 *slot)
{
    const float *from = copies.x + (int64_t)line * WIDTH * copies.channels;

    copy_quad(slot + copies.x_to[0], from);
    copy_quad(slot + copies.x_to[1], from + WIDTH / 2 * copies.channels);
}

__device__ inline void fetch_y(const struct copies &copies, int line, float4 *slot)
{
    const float *from = copies.y + (int64_t)line * WIDTH * copies.outputs;

    copy_quad(slot + copies.y_to[0], from);
    copy_quad(slot + copies.y_to[1], from + WIDTH / 2 * copies.outputs);
}

/* The slot of x for a number that may be behind the last or before the first. */
__device__ inline int wrap(int slot)
{
    return slot < 0 ? slot + X_SLOTS : slot >= X_SLOTS ? slot - X_SLOTS : slot;
}

/* ---- products -------------------------------------------------------------------------------- */

/* The part of a warp: a line of the filter, half the outputs, half the channels; and the thread's
 * lane. */
struct role {
    int line, half_y, half_x, group, member;
};

typedef float sums[2][3][4][4]; /* [two products of outputs][columns of the filter][channels] */

/* `x`: the line that the filter's line reads; `inside`: it is a line of the image. */
__device__ inline void add_line(const float4 *x, const float4 *y, const struct role &role,
                                bool inside, sums &sum)
{
    const int first = role.member * 8;
    const int quad_x = role.half_x * (QUADS / 2) + role.group;
    const struct quad zeros = {{0, 0, 0, 0}};
    struct quad b[4];

    x += first * QUADS;
    y += first * QUADS + swizzle(role.half_y * (QUADS / 2) + role.group, first);
    b[0] = inside ? load_quad(&x[swizzle(quad_x, first)]) : zeros;
    b[1] = inside ? load_quad(&x[QUADS + swizzle(quad_x, first)]) : zeros;
#pragma unroll
    for (int step = 0; step < 4; step++) {
        const struct quad a0 = load_quad(&y[2 * step * QUADS]),
                          a1 = load_quad(&y[(2 * step + 1) * QUADS]);
        const int next = 2 * step + 2, quad = swizzle(quad_x, first + next);

        b[2] = inside ? load_quad(&x[next * QUADS + quad]) : zeros;
        b[3] = inside ? load_quad(&x[(next + 1) * QUADS + quad]) : zeros;
#pragma unroll
        for (int column = 0; column < 3; column++)
#pragma unroll
            for (int n = 0; n < 4; n++)
#pragma unroll
                for (int m = 0; m < 2; m++)
                    multiply_add(sum[m][column][n], a0.value[2 * m], a0.value[2 * m + 1],
                                 a1.value[2 * m], a1.value[2 * m + 1], b[column].value[n],
                                 b[column + 1].value[n]);
        b[0] = b[2];
        b[1] = b[3];
    }
}

/* `part`: the address for the block's first output and channel. */
__device__ inline void store_sums(const struct role &role, int channels, const sums &sum,
                                  float *part)
{
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int column = 0; column < 3; column++) {
                const int output = role.half_y * (TILE / 2) + 4 * role.group + 2 * m + i / 2;
                const int channel = role.half_x * (TILE / 2) + 4 * (2 * role.member + i % 2);
                const float(&s)[4][4] = sum[m][column];

                *(float4 *)&part[((int64_t)output * TAPS + role.line * 3 + column) * channels +
                                 channel] = make_float4(s[0][i], s[1][i], s[2][i], s[3][i]);
            }
}

} // namespace

/* blockIdx.x: which run of lines; y: which 64 outputs; z: which 64 channels. */
__global__ void __launch_bounds__(THREADS, 1)
    tf32_weights_kernel(struct cuda_weights_tf32 d, const float *x, const float *y, float *parts)
{
    extern __shared__ float4 shared[];
    float4 *const xs = shared, *const ys = shared + X_SLOTS * X_SLOT;
    const int lines = d.batch * d.height;
    const int begin = (int)((int64_t)lines * blockIdx.x / gridDim.x),
              end = (int)((int64_t)lines * (blockIdx.x + 1) / gridDim.x);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const struct role role = {warp / 4, warp / 2 % 2, warp % 2, lane / 4, lane % 4};
    const struct copies copies = deal_copies(d, x + blockIdx.z * TILE, y + blockIdx.y * TILE);
    const bool brings = threadIdx.x < COPIERS;
    int x_slot = 1, y_slot = 0; /* of `line` */
    int above = begin % d.height;
    sums sum = {};

    for (int i = threadIdx.x; i < X_SLOTS * 2 * QUADS; i += THREADS)
        xs[i / (2 * QUADS) * X_SLOT + i / QUADS % 2 * (CELLS - 1) * QUADS + i % QUADS] =
            make_float4(0, 0, 0, 0);
    for (int i = -1; brings && i < 3; i++) {
        if (begin + i >= 0 && begin + i < lines)
            fetch_x(copies, begin + i, xs + (i + 1) * X_SLOT);
        if (i >= 0 && i < 2 && begin + i < lines)
            fetch_y(copies, begin + i, ys + i * Y_SLOT);
    }
    for (int line = begin; line < end; line += 2) {
        copies_wait(); /* and until all threads have read the lines whose slots are filled now */
        for (int k = 0; brings && k < 2; k++) {
            if (line + 3 + k < lines)
                fetch_x(copies, line + 3 + k, xs + wrap(x_slot + 3 + k) * X_SLOT);
            if (line + 2 + k < lines)
                fetch_y(copies, line + 2 + k, ys + (y_slot + 2 + k) % Y_SLOTS * Y_SLOT);
        }
        for (int i = 0; i < 2 && line + i < end; i++) {
            const bool inside =
                role.line == 1 || (role.line == 0 ? above > 0 : above < d.height - 1);

            add_line(xs + wrap(x_slot + role.line - 1) * X_SLOT, ys + y_slot * Y_SLOT, role, inside,
                     sum);
            x_slot = wrap(x_slot + 1);
            y_slot = (y_slot + 1) % Y_SLOTS;
            above = above + 1 == d.height ? 0 : above + 1;
        }
    }
    store_sums(role, d.channels, sum,
               parts + ((int64_t)blockIdx.x * d.outputs + blockIdx.y * TILE) * TAPS * d.channels +
                   blockIdx.z * TILE);
}

bool cuda_weights_tf32_is_possible(const struct cuda_weights_tf32 *d)
{
    return d->width == WIDTH && d->channels % TILE == 0 && d->outputs % TILE == 0;
}

cudaError_t cuda_weights_tf32(const struct cuda_weights_tf32 *d,
                              const struct cuda_weights_tf32_operands *operands,
                              cudaStream_t stream)
{
    const int tiles = d->outputs / TILE * (d->channels / TILE);
    const int64_t elements = (int64_t)d->outputs * TAPS * d->channels;
    const int64_t lines = (int64_t)d->batch * d->height;
    int64_t runs = (int64_t)(operands->part_bytes / (sizeof(float) * (size_t)elements));
    int device = 0, processors = 1;
    cudaError_t status = cudaGetDevice(&device);

    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (status == cudaSuccess)
        status = cudaFuncSetAttribute(
            tf32_weights_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)SHARED_BYTES);
    if (status != cudaSuccess)
        return status;
    runs = runs < lines ? runs : lines;
    runs = processors < tiles ? 1 : processors / tiles < runs ? processors / tiles : runs;
    tf32_weights_kernel<<<dim3((unsigned)runs, (unsigned)(d->outputs / TILE),
                               (unsigned)(d->channels / TILE)),
                          THREADS, SHARED_BYTES, stream>>>(
        *d, (const float *)operands->x, (const float *)operands->y, operands->parts);
    return cuda_column_sum({.at = operands->parts, .type = TENSOR_FLOAT32}, runs, elements,
                           operands->accumulate, operands->gradient, stream);
}
