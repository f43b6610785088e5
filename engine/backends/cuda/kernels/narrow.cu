/* narrow.cu: the gradient by the data of convolutions with few channels and any number of filters.
 * A block has a band of lines of an image. First it multiplies the gradients of results by taps of
 * the filters, as a product of two matrices. Then every pixel adds up the products of its taps.
 * Taps of several lines of the filters take their turn together: so many that filters and products
 * fit into a block's memory, and that neighbouring bands do not multiply too much twice. Images are
 * channels-last, filters [O,kh,kw,C]. */
#include "engine/backends/cuda/kernels/taps.cuh"
#include "engine/backends/cuda/kernels/values.cuh"

namespace
{

constexpr int SHARED_MOST = 48 << 10;                 /* bytes of a block, which every device has */
constexpr int THREADS = 128, BLOCKS_OF_PROCESSOR = 4; /* of a block; side by side */
constexpr int BLOCKS_AIM = 528;                       /* so many blocks keep a large GPU busy */
constexpr int TILE = 4;          /* a thread's products: so many results times so many columns */
constexpr int DEPTH = 16;        /* filters whose products are added up at once */
constexpr int PITCH = DEPTH + 4; /* so that eight rows of four numbers lie in different banks */
/* Loading a gradient or a filter, and the latencies of a turn, in products; see cost_of(). */
constexpr int LOADING = 8, WAITING = 1024;
constexpr int STRANDS = 32; /* the most threads that divide the results of a pass */

/* How the work is divided: a block has a band of an image, and goes through the filter's lines a
 * few at a time. */
struct division {
    int height;  /* of a band, in lines of the image */
    int count;   /* bands of an image */
    int taps;    /* lines of the filter that take their turn together */
    int turns;   /* until all had theirs */
    int results; /* the most lines of results that one turn reads */
};

/* Products of a result in one turn: for each tap and channel one. */
__host__ __device__ inline int columns_of(const struct cuda_convolution &c, int taps)
{
    return taps * c.kernel[1] * c.channels;
}

/* The first line of results of which the filter's line `tap` or one before it reaches line h or one
 * below it. */
__host__ __device__ inline int first_result(const struct cuda_convolution &c, int h, int tap)
{
    const int scaled = h + c.padding[0] - tap * c.dilation[0];

    return scaled <= 0 ? 0 : (scaled + c.stride[0] - 1) / c.stride[0];
}

struct division divide(const struct cuda_convolution &c, int height, int taps)
{
    const int lines = (height - 1 + (taps - 1) * c.dilation[0]) / c.stride[0] + 1;

    return {height, (c.height + height - 1) / height, taps, (c.kernel[0] + taps - 1) / taps,
            lines < c.out_height ? lines : c.out_height};
}

/* The distance of two columns of filters: whole steps of DEPTH, and four more for the banks. */
__host__ __device__ inline int filter_pitch(const struct cuda_convolution &c)
{
    return (c.outputs + DEPTH - 1) / DEPTH * DEPTH + 4;
}

/* The tiles that cover so many results or columns. */
__host__ __device__ inline int tiles_of(int count)
{
    return (count + TILE - 1) / TILE;
}

/* The threads that divide the results of a pass; each of them has as many others beside it as there
 * are tiles of columns. 0: there are more columns than threads. */
__host__ __device__ inline int strands_of(const struct cuda_convolution &c,
                                          const struct division &d)
{
    const int threads = THREADS / tiles_of(columns_of(c, d.taps));
    const int results = tiles_of(d.results * c.out_width);
    const int most = threads < STRANDS ? threads : STRANDS;

    return results < most ? results : most;
}

/* A block's memory holds the filters, gradients of a pass, products, and with several turns the
 * sums between them. */
int64_t shared_bytes(const struct cuda_convolution &c, const struct division &d)
{
    const int64_t columns = columns_of(c, d.taps), results = (int64_t)d.results * c.out_width;
    const int64_t sums = d.turns == 1 ? 0 : (int64_t)d.height * c.width * c.channels;

    return (int64_t)sizeof(float) * (columns * (filter_pitch(c) + results) +
                                     (int64_t)TILE * strands_of(c, d) * PITCH + sums);
}

/* What a division costs: in each turn products, gradients and filters to load, and waiting; times
 * the blocks, or as many as the GPU has room for. */
int64_t cost_of(const struct cuda_convolution &c, const struct division &d)
{
    const int64_t results = (int64_t)d.results * c.out_width, blocks = (int64_t)d.count * c.batch;
    const int64_t columns = columns_of(c, d.taps);
    const int64_t turn = results * (columns + LOADING) + LOADING * columns + WAITING;

    return d.turns * turn * (blocks > BLOCKS_AIM ? blocks : BLOCKS_AIM);
}

/* The cheapest division of those that fit. turns 0: none does. */
struct division choose_division(const struct cuda_convolution &c)
{
    struct division best = {};

    for (int taps = c.kernel[0]; taps > 0; taps--)
        for (int bands = 1; bands < 2 * c.height; bands *= 2) {
            const struct division d = divide(c, (c.height + bands - 1) / bands, taps);

            if (strands_of(c, d) > 0 && shared_bytes(c, d) <= SHARED_MOST &&
                (best.turns == 0 || cost_of(c, d) < cost_of(c, best)))
                best = d;
        }
    return best;
}

/* One turn of a band: some lines of the filter, and the lines of results that they reach. */
struct turn {
    int tap, taps;
    int top, lines;
};

/* `low`: the band's first line of the image, of `height`. */
__device__ inline struct turn turn_of(const struct cuda_convolution &c, const struct division &d,
                                      int index, int low, int height)
{
    const int tap = index * d.taps, taps = min(d.taps, c.kernel[0] - tap);
    const int top = first_result(c, low, tap + taps - 1);
    const int lowest = low + height - 1 + c.padding[0] - tap * c.dilation[0];

    return {tap, taps, top, lowest < 0 ? 0 : min(lowest / c.stride[0] + 1, c.out_height) - top};
}

/* Loads the filter's lines of a turn as filters[column][output], and zeros for outputs beyond the
 * last one. */
template <typename T>
__device__ inline void load_filters(const struct cuda_convolution &c, const struct turn &t,
                                    const T *weight, float *filters)
{
    const int columns = columns_of(c, t.taps), all = columns_of(c, c.kernel[0]);
    const int pitch = filter_pitch(c);
    const T *from = weight + columns_of(c, t.tap);

#pragma unroll 4
    for (int at = threadIdx.x; at < columns * (pitch - 4); at += THREADS) {
        const int o = at / columns, column = at % columns;

        filters[column * pitch + o] =
            o < c.outputs ? to_float(from[(int64_t)o * all + column]) : 0.0f;
    }
}

/* Loads DEPTH gradients, from `output` on, of the results from `first` on: gradients[row][k]. */
template <typename T>
__device__ inline void load_gradients(const struct cuda_convolution &c, const T *dy, int first,
                                      int rows, int last, int output, float *gradients)
{
#pragma unroll 4
    for (int at = threadIdx.x; at < rows * DEPTH; at += THREADS) {
        const int row = at / DEPTH, o = output + at % DEPTH;
        const int64_t from = (int64_t)min(first + row, last) * c.outputs;

        gradients[row * PITCH + at % DEPTH] = o < c.outputs ? to_float(dy[from + o]) : 0.0f;
    }
}

/* Adds the products of DEPTH gradients of TILE rows, `apart` rows from each other, and as many
 * weights of TILE columns. */
__device__ inline void multiply(const float *gradients, int apart,
                                const float *const (&filter)[TILE], float (&sum)[TILE][TILE])
{
#pragma unroll
    for (int k = 0; k < DEPTH; k += 4) {
        float4 row[TILE], column[TILE];

#pragma unroll
        for (int i = 0; i < TILE; i++) {
            row[i] = *(const float4 *)(gradients + i * apart * PITCH + k);
            column[i] = *(const float4 *)(filter[i] + k);
        }
#pragma unroll
        for (int i = 0; i < TILE; i++)
#pragma unroll
            for (int j = 0; j < TILE; j++) {
                sum[i][j] += row[i].x * column[j].x;
                sum[i][j] += row[i].y * column[j].y;
                sum[i][j] += row[i].z * column[j].z;
                sum[i][j] += row[i].w * column[j].w;
            }
    }
}

/* Stores the products of a turn's results as products[result][column]. In a pass each thread has a
 * tile, whose results are `strands` apart. */
template <typename T>
__device__ inline void multiply_results(const struct cuda_convolution &c, const struct turn &t,
                                        int strands, const T *dy, const float *filters,
                                        float *gradients, float *products)
{
    const int columns = columns_of(c, t.taps), results = t.lines * c.out_width;
    const int strand = (int)threadIdx.x % strands, left = (int)threadIdx.x / strands * TILE;
    const float *filter[TILE];

#pragma unroll
    for (int j = 0; j < TILE; j++)
        filter[j] = filters + min(left + j, columns - 1) * filter_pitch(c);
    for (int first = 0; first < results; first += strands * TILE) {
        float sum[TILE][TILE] = {};

        for (int o = 0; o < c.outputs; o += DEPTH) {
            __syncthreads(); /* others may still read the gradients before */
            load_gradients(c, dy, first, strands * TILE, results - 1, o, gradients);
            __syncthreads();
            if (left >= columns)
                continue;
            const float *const from[TILE] = {filter[0] + o, filter[1] + o, filter[2] + o,
                                             filter[3] + o};

            multiply(gradients + strand * PITCH, strands, from, sum);
        }
#pragma unroll
        for (int i = 0; i < TILE; i++)
#pragma unroll
            for (int j = 0; j < TILE; j++)
                if (first + strand + i * strands < results && left + j < columns)
                    products[(first + strand + i * strands) * columns + left + j] = sum[i][j];
    }
}

/* The sum of the turn's products of a channel of pixel (h, w). */
__device__ inline float add_taps(const struct cuda_convolution &c, const struct turn &t,
                                 const float *products, int h, int w, int channel)
{
    const int columns = columns_of(c, t.taps);
    float sum = 0;

    for (int i = 0; i < t.taps; i++) {
        const int above =
            result_of(h, t.tap + i, c.padding[0], c.dilation[0], c.stride[0], c.out_height);

        for (int j = 0; above >= 0 && j < c.kernel[1]; j++) {
            const int beside =
                result_of(w, j, c.padding[1], c.dilation[1], c.stride[1], c.out_width);

            if (beside >= 0)
                sum += products[((above - t.top) * c.out_width + beside) * columns +
                                (i * c.kernel[1] + j) * c.channels + channel];
        }
    }
    return sum;
}

template <typename T>
__global__ void __launch_bounds__(THREADS, BLOCKS_OF_PROCESSOR)
    narrow_data_kernel(struct cuda_convolution c, struct division d, const T *dy, const T *weight,
                       T *dx)
{
    extern __shared__ __align__(16) float filters[];
    const int strands = strands_of(c, d);
    float *const gradients = filters + columns_of(c, d.taps) * filter_pitch(c);
    float *const products = gradients + TILE * strands * PITCH;
    float *const sums = products + columns_of(c, d.taps) * d.results * c.out_width;

    for (int task = blockIdx.x; task < c.batch * d.count; task += gridDim.x) {
        const int n = task / d.count, low = task % d.count * d.height;
        const int height = min(d.height, c.height - low);
        T *const to = dx + (int64_t)(n * c.height + low) * c.width * c.channels;

        for (int i = 0; i < d.turns; i++) {
            const struct turn t = turn_of(c, d, i, low, height);
            const T *from = dy + ((int64_t)n * c.out_height + t.top) * c.out_width * c.outputs;

            if (d.turns > 1 || task == blockIdx.x)
                load_filters(c, t, weight, filters);
            __syncthreads(); /* nor may others still read the products before */
            multiply_results(c, t, strands, from, filters, gradients, products);
            __syncthreads();
            for (int at = threadIdx.x; at < height * c.width * c.channels; at += THREADS) {
                const int pixel = at / c.channels, h = low + pixel / c.width, w = pixel % c.width;
                const float before = i > 0 ? sums[at] : 0.0f;
                const float sum = before + add_taps(c, t, products, h, w, at % c.channels);

                if (i + 1 < d.turns)
                    sums[at] = sum;
                else
                    to[at] = from_float<T>(sum);
            }
        }
    }
}

template <typename T>
void launch(const struct cuda_convolution &c, const struct cuda_depthwise_operands *o,
            cudaStream_t stream)
{
    const struct division d = choose_division(c);
    const int64_t tasks = (int64_t)c.batch * d.count, most = CUDA_DIRECT_BLOCKS;

    narrow_data_kernel<<<(unsigned)(tasks < most ? tasks : most), THREADS,
                         (size_t)shared_bytes(c, d), stream>>>(c, d, (const T *)o->y,
                                                               (const T *)o->weight, (T *)o->x);
}

} // namespace

bool cuda_narrow_is_possible(const struct cuda_convolution *c)
{
    return c->groups == 1 && c->channels <= CUDA_NARROW_CHANNELS && choose_division(*c).turns > 0;
}

cudaError_t cuda_narrow_data(const struct cuda_convolution *c,
                             const struct cuda_depthwise_operands *operands, cudaStream_t stream)
{
    if (c->type == TENSOR_BFLOAT16)
        launch<__nv_bfloat16>(*c, operands, stream);
    else if (c->type == TENSOR_FLOAT16)
        launch<__half>(*c, operands, stream);
    else
        launch<float>(*c, operands, stream);
    return cudaGetLastError();
}
