/* layout.cu: converts tensors between PyTorch's order and channels-last, and between stored types:
 * batches that arrive, weights that are read and written, images that become rows. */
#include "engine/backends/cuda/kernels/values.cuh"

/* The index of canonical element i in a channels-last tensor. */
template <typename Index>
__device__ static inline Index place(Index i, Index channels, Index pixels)
{
    Index row = i / (channels * pixels), c = i / pixels % channels, p = i % pixels;

    return (row * pixels + p) * channels + c;
}

/* ---- whole images ---- */

/* Whole images are transposed by tiles in shared memory, which are read and written in the order of
 * memory: some pixels and channels of an image, or some whole images. */
struct tile {
    int images, channels, pixels;
    unsigned per_channels, per_pixels; /* inverse_of() */
};

constexpr int EACH = 4;            /* elements of a thread, all of which are asked for at once */
constexpr int TILE = EACH * BLOCK; /* elements of a tile, at most */
constexpr int SIDE = 32; /* channels, or pixels, that are read at once if there are so many */
constexpr int INVERSE_BITS = 22;

/* 2^INVERSE_BITS / divisor, rounded up. x / divisor == (x * inverse) >> INVERSE_BITS for all x <
 * TILE and divisors up to TILE: the product is too large by less than x, so the quotient by less
 * than TILE / 2^INVERSE_BITS, which is less than 1 / divisor. */
static unsigned inverse_of(int divisor)
{
    return ((1u << INVERSE_BITS) + (unsigned)divisor - 1) / (unsigned)divisor;
}

__device__ static inline int divide(int x, unsigned inverse)
{
    return (int)(((unsigned)x * inverse) >> INVERSE_BITS);
}

/* Rows of a tile in shared memory have an odd length, so that neither they nor columns meet in a
 * bank. */
__host__ __device__ static inline int pitch_of(const struct tile &tile)
{
    return tile.channels | 1;
}

static struct tile tile_of(int channels, int pixels)
{
    struct tile tile = {1, SIDE, SIDE, 0, 0};

    if (channels * (int64_t)pixels <= TILE)
        tile = {TILE / (channels * pixels), channels, pixels, 0, 0};
    else if (channels <= SIDE)
        tile = {1, channels, TILE / channels, 0, 0};
    else if (pixels <= SIDE)
        tile = {1, TILE / pixels, pixels, 0, 0};
    tile.per_channels = inverse_of(tile.channels);
    tile.per_pixels = inverse_of(tile.pixels);
    return tile;
}

/* What there is of images behind the first of a tile. */
struct rest {
    int images, channels, pixels;
};

/* A place in an array, from the first of the tile; -1: it is beyond the images. */
struct tile_place {
    int in_array, in_tile;
};

/* The place of element `at` of a tile, in the order of the array. */
__device__ static inline struct tile_place place_of(const struct tile &tile,
                                                    const struct rest &rest, int channels,
                                                    int pixels, bool channels_last, int at)
{
    const int row = divide(at, channels_last ? tile.per_channels : tile.per_pixels);
    const int inner = at - row * (channels_last ? tile.channels : tile.pixels);
    const int n = divide(row, channels_last ? tile.per_pixels : tile.per_channels);
    const int outer = row - n * (channels_last ? tile.pixels : tile.channels);
    const int c = channels_last ? inner : outer, p = channels_last ? outer : inner;
    const bool inside = n < tile.images && n < rest.images && c < rest.channels && p < rest.pixels;
    const int in_image = channels_last ? p * channels + c : c * pixels + p;

    return {inside ? n * channels * pixels + in_image : -1,
            (n * tile.pixels + p) * pitch_of(tile) + c};
}

/* Every block transposes some tiles. What is read has a type that the kernel is compiled for:
 * without a choice at every access, all reads are under way at the same time. */
template <typename T>
__global__ void __launch_bounds__(BLOCK)
    transpose_kernel(struct tile tile, int images, int channels, int pixels, bool to_channels_last,
                     const T *from, struct cuda_array to)
{
    extern __shared__ float shared[];
    const int across = (channels + tile.channels - 1) / tile.channels;
    const int down = (pixels + tile.pixels - 1) / tile.pixels;
    const int tiles = (images + tile.images - 1) / tile.images * across * down;

    for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
        const int n = t / (across * down) * tile.images;
        const int c = t % across * tile.channels, p = t / across % down * tile.pixels;
        const struct rest rest = {images - n, channels - c, pixels - p};
        const int canonical = (n * channels + c) * pixels + p;
        const int last = (n * pixels + p) * channels + c;

        struct tile_place place[EACH];
        T value[EACH];

#pragma unroll
        for (int k = 0; k < EACH; k++) {
            place[k] = place_of(tile, rest, channels, pixels, !to_channels_last,
                                (int)threadIdx.x + k * BLOCK);
            if (place[k].in_array >= 0)
                value[k] = from[(to_channels_last ? canonical : last) + place[k].in_array];
        }
        __syncthreads(); /* others may still read the tile before */
#pragma unroll
        for (int k = 0; k < EACH; k++)
            if (place[k].in_array >= 0)
                shared[place[k].in_tile] = to_float(value[k]);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            place[k] = place_of(tile, rest, channels, pixels, to_channels_last,
                                (int)threadIdx.x + k * BLOCK);
            if (place[k].in_array >= 0)
                array_store(to, (to_channels_last ? last : canonical) + place[k].in_array,
                            shared[place[k].in_tile]);
        }
    }
}

/* Whether elements are whole images, which the kernels above take. */
static bool are_images(struct cuda_layout layout, int64_t first, int64_t count)
{
    return layout.channels > 1 && layout.pixels > 1 && first == 0 && count <= INT32_MAX &&
           count % (layout.channels * layout.pixels) == 0;
}

template <typename T>
static void transpose_typed(struct cuda_layout layout, int64_t count, bool to_channels_last,
                            const T *from, struct cuda_array to, cudaStream_t stream)
{
    const int channels = (int)layout.channels, pixels = (int)layout.pixels;
    const struct tile tile = tile_of(channels, pixels);
    const size_t shared = sizeof(float) * (size_t)(tile.images * tile.pixels * pitch_of(tile));

    transpose_kernel<<<blocks_for(count / EACH), BLOCK, shared, stream>>>(
        tile, (int)(count / (layout.channels * layout.pixels)), channels, pixels, to_channels_last,
        from, to);
}

/* ---- whole images of quads ---- */

/* A block's threads: each has four channels of four pixels. */
struct squares {
    int images, down,
        across; /* quads: `across` along the axis that is written, `down` along the other */
};

static struct squares squares_of(int fast, int slow)
{
    constexpr int WRITTEN = 32; /* quads that are written side by side, if there are so many */
    struct squares block = {1, 1, fast < WRITTEN ? fast : WRITTEN};

    block.down = slow < BLOCK / block.across ? slow : BLOCK / block.across;
    block.across = fast < BLOCK / block.down ? fast : BLOCK / block.down;
    if (block.across == fast && block.down == slow)
        block.images = BLOCK / (fast * slow);
    return block;
}

/* Transposes images of slow x fast quads: of channels and pixels, in the order in which they are
 * read, fast being the axis that lies side by side in what is written. A thread transposes its
 * square in registers. What neighbours write lies side by side; of what they read each has a part,
 * and the cache the rest. */
template <typename T>
__global__ void __launch_bounds__(BLOCK)
    transpose_squares_kernel(struct squares block, int images, int slow, int fast, const T *from,
                             T *to)
{
    const int tiles_across = (fast + block.across - 1) / block.across;
    const int tiles_down = (slow + block.down - 1) / block.down;
    const int tile = (int)blockIdx.x / tiles_across;
    const int f = (int)blockIdx.x % tiles_across * block.across + (int)threadIdx.x % block.across;
    const int line = (int)threadIdx.x / block.across;
    const int s = tile % tiles_down * block.down + line % block.down;
    const int n = tile / tiles_down * block.images + line / block.down;
    struct quad<T> read[QUAD], written[QUAD];

    if (line >= block.down * block.images || f >= fast || s >= slow || n >= images)
        return;
    from += (int64_t)n * slow * fast * QUAD * QUAD;
    to += (int64_t)n * slow * fast * QUAD * QUAD;
#pragma unroll
    for (int k = 0; k < QUAD; k++)
        read[k] = *(const struct quad<T> *)(from + ((f * QUAD + k) * slow + s) * QUAD);
#pragma unroll
    for (int k = 0; k < QUAD; k++)
#pragma unroll
        for (int i = 0; i < QUAD; i++)
            written[i].number[k] = read[k].number[i];
#pragma unroll
    for (int i = 0; i < QUAD; i++)
        *(struct quad<T> *)(to + ((s * QUAD + i) * fast + f) * QUAD) = written[i];
}

template <typename T>
static void transpose_squares(struct cuda_layout layout, int64_t count, bool to_channels_last,
                              const T *from, T *to, cudaStream_t stream)
{
    const int channels = (int)layout.channels / QUAD, pixels = (int)layout.pixels / QUAD;
    const int fast = to_channels_last ? channels : pixels;
    const int slow = to_channels_last ? pixels : channels;
    const struct squares block = squares_of(fast, slow);
    const int images = (int)(count / (layout.channels * layout.pixels));
    const int tiles = (images + block.images - 1) / block.images *
                      ((slow + block.down - 1) / block.down) *
                      ((fast + block.across - 1) / block.across);

    transpose_squares_kernel<<<(unsigned)tiles, BLOCK, 0, stream>>>(block, images, slow, fast, from,
                                                                    to);
}

static void transpose(struct cuda_layout layout, int64_t count, bool to_channels_last,
                      struct cuda_array from, struct cuda_array to, cudaStream_t stream)
{
    if (from.type == to.type && layout.channels % QUAD == 0 && layout.pixels % QUAD == 0)
        return to.type == TENSOR_FLOAT32
                   ? transpose_squares(layout, count, to_channels_last, (const uint32_t *)from.at,
                                       (uint32_t *)to.at, stream)
                   : transpose_squares(layout, count, to_channels_last, (const uint16_t *)from.at,
                                       (uint16_t *)to.at, stream);
    if (from.type == TENSOR_BFLOAT16)
        transpose_typed(layout, count, to_channels_last, (const __nv_bfloat16 *)from.at, to,
                        stream);
    else if (from.type == TENSOR_FLOAT16)
        transpose_typed(layout, count, to_channels_last, (const __half *)from.at, to, stream);
    else
        transpose_typed(layout, count, to_channels_last, (const float *)from.at, to, stream);
}

/* ---- parts of them ---- */

template <typename Index>
__global__ void store_kernel(Index channels, Index pixels, struct cuda_array canonical,
                             struct cuda_array stored, Index first, Index count)
{
    FOR_EACH_ELEMENT(i, count)
    array_store(stored, place(first + (Index)i, channels, pixels), array_load(canonical, i));
}

template <typename Index>
__global__ void load_kernel(Index channels, Index pixels, struct cuda_array stored,
                            struct cuda_array canonical, Index first, Index count)
{
    FOR_EACH_ELEMENT(i, count)
    array_store(canonical, i, array_load(stored, place(first + (Index)i, channels, pixels)));
}

/* Divisions of 32-bit integers are several times faster. */
static bool is_short(int64_t first, int64_t count)
{
    return first + count <= INT32_MAX;
}

cudaError_t cuda_layout_store(struct cuda_layout layout, struct cuda_array canonical,
                              struct cuda_array stored, int64_t first, int64_t count,
                              cudaStream_t stream)
{
    const int64_t c = layout.channels, p = layout.pixels;

    if (are_images(layout, first, count))
        transpose(layout, count, true, canonical, stored, stream);
    else if (is_short(first, count))
        store_kernel<int32_t><<<blocks_for(count), BLOCK, 0, stream>>>(
            (int32_t)c, (int32_t)p, canonical, stored, (int32_t)first, (int32_t)count);
    else
        store_kernel<int64_t>
            <<<blocks_for(count), BLOCK, 0, stream>>>(c, p, canonical, stored, first, count);
    return cudaGetLastError();
}

cudaError_t cuda_layout_load(struct cuda_layout layout, struct cuda_array stored,
                             struct cuda_array canonical, int64_t first, int64_t count,
                             cudaStream_t stream)
{
    const int64_t c = layout.channels, p = layout.pixels;

    if (are_images(layout, first, count))
        transpose(layout, count, false, stored, canonical, stream);
    else if (is_short(first, count))
        load_kernel<int32_t><<<blocks_for(count), BLOCK, 0, stream>>>(
            (int32_t)c, (int32_t)p, stored, canonical, (int32_t)first, (int32_t)count);
    else
        load_kernel<int64_t>
            <<<blocks_for(count), BLOCK, 0, stream>>>(c, p, stored, canonical, first, count);
    return cudaGetLastError();
}
