/* stem.cu: the first convolution of a network, of images with one or three channels, 3x3, strides 1
 * and 2, any padding, in 16 bits on tensor cores: forward, and the gradient by the weights. Images
 * are channels-last, filters [O,3,3,C].
 *
 * cuDNN 9.19 pads three channels to eight. On an H200, for 3 -> 64 channels of 32x32 with batch 512
 * in bfloat16, where 67 MB are written or read, it takes 91 us forward and 106 us by the weights.
 *
 * The filter's taps are numbered k = (r 3 + s) C + c. In channels-last images, the taps of one r
 * are adjacent in a line. With the lines in shared memory, and zeros around them, tap k of a result
 * is at the place of its first tap plus a distance that depends on k alone. Products are those of
 * mma.m16n8k16, whose fragments are described in the PTX manual ("Matrix Fragments for mma.m16n8k16
 * with floating point type"). Below, group = lane / 4 and member = lane % 4. */
#include "engine/backends/cuda/kernels/values.cuh"

#include <type_traits>

constexpr int WARPS = 4, THREADS = WARPS * 32;
constexpr int ROWS = 16; /* of a product: pixels or taps */

template <int C> struct taps {
    static constexpr int COUNT = 9 * C, STEPS = (COUNT + 15) / 16, OF_LINE = 3 * C;
};

__device__ static inline unsigned pack(uint16_t low, uint16_t high)
{
    return (unsigned)low | (unsigned)high << 16;
}

template <typename T>
__device__ static inline void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                           unsigned b1)
{
#if __CUDA_ARCH__ >= 800
    if constexpr (std::is_same_v<T, __nv_bfloat16>)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
            "{%8,%9}, {%0,%1,%2,%3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
            "{%8,%9}, {%0,%1,%2,%3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/* A band: `lines` neighbouring lines of an image's results, or fewer at its end. */
struct band {
    int64_t first; /* the number of its first pixel among all */
    int pixels;
};

/* The numbers of a padded line. */
template <int C> __host__ __device__ static inline int pitch_of(const struct cuda_stem &d)
{
    return (d.width + 2 * d.padding) * C;
}

/* Loads the lines that the band's results read, with zeros for the padding at each end. */
template <int C, int S>
__device__ static inline struct band load_band(const struct cuda_stem &d, int64_t index, int lines,
                                               const uint16_t *x, uint16_t *image)
{
    const int bands_of_image = (d.out_height + lines - 1) / lines;
    const int64_t n = index / bands_of_image;
    const int line = (int)(index % bands_of_image) * lines;
    const int count = line + lines <= d.out_height ? lines : d.out_height - line;
    const int pitch = pitch_of<C>(d), inside = d.width * C, outside = d.padding * C;

    __syncthreads(); /* other threads may still read the previous band */
    for (int l = threadIdx.x / 32; l < (count - 1) * S + 3; l += WARPS) {
        const int h = line * S - d.padding + l;
        const bool there = h >= 0 && h < d.height;
        const uint16_t *from = x + (n * d.height + h) * inside - outside;

#pragma unroll 4
        for (int i = threadIdx.x % 32; i < pitch; i += 32)
            image[l * pitch + i] =
                there && i >= outside && i < outside + inside ? __ldg(from + i) : (uint16_t)0;
    }
    __syncthreads();
    return {(n * d.out_height + line) * d.out_width, count * d.out_width};
}

/* The place of the first tap of the band's pixel p. For pixels beyond the last one, it is that of
 * the last. */
template <int C, int S>
__device__ static inline int first_tap(const struct cuda_stem &d, const struct band &band, int p)
{
    p = p < band.pixels ? p : band.pixels - 1;
    return p / d.out_width * S * pitch_of<C>(d) + p % d.out_width * S * C;
}

/* The distance of tap k from the first one. Taps that do not exist are multiplied by zeros, or
 * their sums are not used. */
template <int C> __device__ static inline int tap_distance(const struct cuda_stem &d, int k)
{
    return k < taps<C>::COUNT ? k / taps<C>::OF_LINE * pitch_of<C>(d) + k % taps<C>::OF_LINE : 0;
}

/* ---- forward: [pixels, taps] times [taps, outputs] ---- */

/* Column n of product j is output (j / 4) 32 + n / 2 8 + (j % 4) 2 + n % 2. So a thread has eight
 * neighbouring outputs of a pixel in four products, and four threads have 32. */
__device__ static inline int output_of(int j, int n)
{
    return j / 4 * 32 + n / 2 * 8 + j % 4 * 2 + n % 2;
}

template <typename T, int C, int S, int TILES>
__global__ void __launch_bounds__(THREADS)
    stem_forward_kernel(struct cuda_stem d, const uint16_t *x, const uint16_t *weight,
                        const float *bias, T *y, int lines)
{
    constexpr int STEPS = taps<C>::STEPS, COUNT = taps<C>::COUNT;
    extern __shared__ uint16_t image[];
    const int warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4, member = threadIdx.x % 4;
    const int first_output = blockIdx.y * TILES * 8;
    const int64_t bands = (int64_t)d.batch * ((d.out_height + lines - 1) / lines);
    unsigned filter[STEPS][TILES][2];
    int distance[STEPS][4]; /* of the taps 2 member, the next one, and both plus 8 */
    float start[TILES][2];

#pragma unroll
    for (int j = 0; j < TILES; j++) {
        const uint16_t *from = weight + (int64_t)(first_output + output_of(j, group)) * COUNT;

#pragma unroll
        for (int s = 0; s < STEPS; s++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int k = s * 16 + half * 8 + member * 2;

                filter[s][j][half] = pack(k < COUNT ? from[k] : (uint16_t)0,
                                          k + 1 < COUNT ? from[k + 1] : (uint16_t)0);
            }
#pragma unroll
        for (int i = 0; i < 2; i++)
            start[j][i] = bias ? bias[first_output + output_of(j, member * 2 + i)] : 0.0f;
    }
#pragma unroll
    for (int s = 0; s < STEPS; s++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            distance[s][i] = tap_distance<C>(d, s * 16 + i / 2 * 8 + member * 2 + i % 2);
    for (int64_t index = blockIdx.x; index < bands; index += gridDim.x) {
        const struct band band = load_band<C, S>(d, index, lines, x, image);

        for (int first = warp * ROWS; first < band.pixels; first += WARPS * ROWS) {
            const uint16_t *upper = image + first_tap<C, S>(d, band, first + group);
            const uint16_t *lower = image + first_tap<C, S>(d, band, first + group + 8);
            float sum[TILES][4];

#pragma unroll
            for (int j = 0; j < TILES; j++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    sum[j][i] = start[j][i % 2];
#pragma unroll
            for (int s = 0; s < STEPS; s++) {
                const unsigned pixels[4] = {pack(upper[distance[s][0]], upper[distance[s][1]]),
                                            pack(lower[distance[s][0]], lower[distance[s][1]]),
                                            pack(upper[distance[s][2]], upper[distance[s][3]]),
                                            pack(lower[distance[s][2]], lower[distance[s][3]])};

#pragma unroll
                for (int j = 0; j < TILES; j++)
                    multiply_add<T>(sum[j], pixels, filter[s][j][0], filter[s][j][1]);
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int pixel = first + group + i * 8;

                if (pixel >= band.pixels)
                    continue;
#pragma unroll
                for (int part = 0; part < TILES / 4; part++) {
                    struct group g;

#pragma unroll
                    for (int v = 0; v < GROUP; v++)
                        g.value[v] = sum[part * 4 + v / 2][i * 2 + v % 2];
                    group_store(y + (band.first + pixel) * d.outputs + first_output + part * 32 +
                                    member * 8,
                                g);
                }
            }
        }
    }
}

/* ---- by the weights: [taps, pixels] times [pixels, outputs] ---- */

/* Loads four matrices of 8x8, which are stored row by row in shared memory, transposed. */
__device__ static inline void load_transposed(unsigned (&to)[4], const uint16_t *row)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
#endif
}

/* Block (p, o) sums up the products of part p of the bands for TILES 8 outputs:
 * parts[p][tap][outputs]. */
template <typename T, int C, int S, int TILES>
__global__ void __launch_bounds__(THREADS)
    stem_weights_kernel(struct cuda_stem d, const uint16_t *x, const uint16_t *dy, float *parts,
                        int lines)
{
    constexpr int STEPS = taps<C>::STEPS, OUTPUTS = TILES * 8;
    constexpr int PITCH = OUTPUTS + 8; /* with 16 bytes more, eight rows are in different banks */
    extern __shared__ uint16_t image[];
    __shared__ alignas(16) uint16_t gradients[WARPS][ROWS][PITCH];
    __shared__ float total[STEPS * 16][OUTPUTS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int group = lane / 4, member = lane % 4, first_output = blockIdx.y * OUTPUTS;
    const int64_t bands = (int64_t)d.batch * ((d.out_height + lines - 1) / lines);
    float sum[STEPS][TILES][4] = {};
    int distance[STEPS][2];

#pragma unroll
    for (int s = 0; s < STEPS; s++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            distance[s][i] = tap_distance<C>(d, s * 16 + group + i * 8);
    for (int64_t index = blockIdx.x; index < bands; index += gridDim.x) {
        const struct band band = load_band<C, S>(d, index, lines, x, image);

        for (int first = warp * ROWS; first < band.pixels; first += WARPS * ROWS) {
            constexpr int PIECES = OUTPUTS / 8; /* of 16 bytes in a pixel */
            const uint16_t *pixel[4]; /* the pixels 2 member, the next one, and both plus 8 */

            __syncwarp();
#pragma unroll
            for (int i = 0; i < ROWS * PIECES / 32; i++) {
                const int row = (i * 32 + lane) / PIECES, piece = (i * 32 + lane) % PIECES;
                uint4 value = {0, 0, 0, 0};

                if (first + row < band.pixels)
                    value = *(const uint4 *)(dy + (band.first + first + row) * d.outputs +
                                             first_output + piece * 8);
                *(uint4 *)&gradients[warp][row][piece * 8] = value;
            }
#pragma unroll
            for (int i = 0; i < 4; i++)
                pixel[i] = image + first_tap<C, S>(d, band, first + i / 2 * 8 + member * 2 + i % 2);
            __syncwarp();
#pragma unroll
            for (int s = 0; s < STEPS; s++) {
                const int *to = distance[s];
                const unsigned samples[4] = {
                    pack(pixel[0][to[0]], pixel[1][to[0]]), pack(pixel[0][to[1]], pixel[1][to[1]]),
                    pack(pixel[2][to[0]], pixel[3][to[0]]), pack(pixel[2][to[1]], pixel[3][to[1]])};

#pragma unroll
                for (int j = 0; j < TILES; j += 2) {
                    /* outputs j 8: pixels 0 to 7, 8 to 15; then those of the next 8 outputs */
                    unsigned b[4];

                    load_transposed(b, &gradients[warp][lane % 16][(j + lane / 16) * 8]);
                    multiply_add<T>(sum[s][j], samples, b[0], b[1]);
                    multiply_add<T>(sum[s][j + 1], samples, b[2], b[3]);
                }
            }
        }
    }
    for (int w = 0; w < WARPS; w++) { /* one after the other, so that sums have a fixed order */
        __syncthreads();
        if (warp != w)
            continue;
#pragma unroll
        for (int s = 0; s < STEPS; s++)
#pragma unroll
            for (int j = 0; j < TILES; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    float *to = &total[s * 16 + group + i / 2 * 8][j * 8 + member * 2 + i % 2];

                    *to = w ? *to + sum[s][j][i] : sum[s][j][i];
                }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < taps<C>::COUNT * OUTPUTS; i += THREADS)
        parts[((int64_t)blockIdx.x * taps<C>::COUNT + i / OUTPUTS) * d.outputs + first_output +
              i % OUTPUTS] = total[i / OUTPUTS][i % OUTPUTS];
}

/* ---- launches ---- */

constexpr int IMAGE_BYTES = 20 << 10; /* of shared memory, beside the declared arrays */

static size_t line_bytes(const struct cuda_stem *d)
{
    return ((size_t)d->width + 2 * (size_t)d->padding) * (size_t)d->channels * sizeof(uint16_t);
}

/* How many lines there is room for, at most `most`. */
static int choose_lines(const struct cuda_stem *d, int most, size_t *bytes)
{
    const size_t line = line_bytes(d);
    int lines = most < d->out_height ? most : d->out_height;

    while (lines > 1 && ((lines - 1) * d->stride + 3) * line > IMAGE_BYTES)
        lines--;
    *bytes = ((lines - 1) * d->stride + 3) * line;
    return lines;
}

bool cuda_stem_is_possible(const struct cuda_stem *d)
{
    return (d->type == TENSOR_BFLOAT16 || d->type == TENSOR_FLOAT16) &&
           (d->channels == 1 || d->channels == 3) && d->outputs % 32 == 0 &&
           (d->stride == 1 || d->stride == 2) && 3 * line_bytes(d) <= IMAGE_BYTES;
}

template <typename T, int C, int S, int TILES>
static void launch(const struct cuda_stem *d, const struct cuda_stem_operands *o,
                   cudaStream_t stream)
{
    const unsigned slabs = (unsigned)(d->outputs / (TILES * 8));
    size_t bytes;
    int lines = choose_lines(d, o->gradient ? 4 : 8, &bytes);
    int64_t bands = (int64_t)d->batch * ((d->out_height + lines - 1) / lines);
    int64_t blocks = bands < (int64_t)CUDA_STEM_BLOCKS ? bands : (int64_t)CUDA_STEM_BLOCKS;

    if (!o->gradient) {
        stem_forward_kernel<T, C, S, TILES>
            <<<dim3((unsigned)blocks, slabs), THREADS, bytes, stream>>>(
                *d, (const uint16_t *)o->x, (const uint16_t *)o->weight, o->bias, (T *)o->y, lines);
        return;
    }
    const int64_t room =
        (int64_t)(o->part_bytes / (sizeof(float) * taps<C>::COUNT * (size_t)d->outputs));

    blocks = blocks < room ? blocks : room;
    stem_weights_kernel<T, C, S, TILES><<<dim3((unsigned)blocks, slabs), THREADS, bytes, stream>>>(
        *d, (const uint16_t *)o->x, (const uint16_t *)o->y, o->parts, lines);
    cuda_filter_total(o->parts, (int)blocks, d->outputs, taps<C>::COUNT, o->accumulate, o->gradient,
                      stream);
}

template <typename T, int C, int S>
static void launch_outputs(const struct cuda_stem *d, const struct cuda_stem_operands *operands,
                           cudaStream_t stream)
{
    if (d->outputs % 64 == 0)
        launch<T, C, S, 8>(d, operands, stream);
    else
        launch<T, C, S, 4>(d, operands, stream);
}

template <typename T>
static void launch_kind(const struct cuda_stem *d, const struct cuda_stem_operands *operands,
                        cudaStream_t stream)
{
    if (d->channels == 1 && d->stride == 1)
        launch_outputs<T, 1, 1>(d, operands, stream);
    else if (d->channels == 1)
        launch_outputs<T, 1, 2>(d, operands, stream);
    else if (d->stride == 1)
        launch_outputs<T, 3, 1>(d, operands, stream);
    else
        launch_outputs<T, 3, 2>(d, operands, stream);
}

cudaError_t cuda_stem(const struct cuda_stem *d, const struct cuda_stem_operands *operands,
                      cudaStream_t stream)
{
    if (d->type == TENSOR_BFLOAT16)
        launch_kind<__nv_bfloat16>(d, operands, stream);
    else
        launch_kind<__half>(d, operands, stream);
    return cudaGetLastError();
}
