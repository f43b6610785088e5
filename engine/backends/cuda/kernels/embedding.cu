/* embedding.cu: copies rows of a table by their index, and sums up the gradient of each row in a
 * fixed order, so that the same bits come out every time: by parts of the positions if a row is
 * frequent, and then over the parts. */
#include "engine/backends/cuda/kernels/values.cuh"

#include <math.h>

__global__ void embedding_kernel(const int32_t *index, const float *weight, struct cuda_array y,
                                 int64_t width, int64_t vocabulary, int64_t count)
{
    FOR_EACH_ELEMENT(i, count * width)
    {
        const int64_t row = index[i / width];
        const bool known = row >= 0 && row < vocabulary;

        array_store(y, i, known ? weight[row * width + i % width] : NAN);
    }
}

/* The same eight numbers at a time, for widths that are multiples of eight. */
__global__ void embedding_groups_kernel(const int32_t *index, const float *weight,
                                        struct cuda_array y, int64_t width, int64_t vocabulary,
                                        int64_t count)
{
    const int64_t groups = width / GROUP;

    FOR_EACH_ELEMENT(g, count * groups)
    {
        const int64_t row = index[g / groups];
        struct group value;

        if (row >= 0 && row < vocabulary)
            value = group_load(weight + row * width + g % groups * GROUP);
        else
            for (int k = 0; k < GROUP; k++)
                value.value[k] = NAN;
        array_store_group(y, g * GROUP, value);
    }
}

cudaError_t cuda_embedding(const int32_t *index, const float *weight, struct cuda_array y,
                           int64_t count, int64_t width, int64_t vocabulary, cudaStream_t stream)
{
    if (width % GROUP == 0) {
        embedding_groups_kernel<<<blocks_for(count * width / GROUP), BLOCK, 0, stream>>>(
            index, weight, y, width, vocabulary, count);
        return cudaGetLastError();
    }
    embedding_kernel<<<blocks_for(count * width), BLOCK, 0, stream>>>(index, weight, y, width,
                                                                      vocabulary, count);
    return cudaGetLastError();
}

/* Finds the positions, among the BLOCK from `first` on, whose index is in [low, low + rows), in
 * order. `found` receives them as offsets from first; returns how many there are. The whole block
 * calls it. */
__device__ static int find_positions(const int32_t *index, int64_t first, int64_t count,
                                     int64_t low, int64_t rows, int *found)
{
    __shared__ int warps[BLOCK / 32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int64_t at = first + threadIdx.x;
    const bool ours = at < count && index[at] >= low && index[at] < low + rows;
    const unsigned votes = __ballot_sync(0xffffffffu, ours);
    int before = 0, total = 0;

    __syncthreads(); /* other threads may still read the previous list */
    if (lane == 0)
        warps[warp] = __popc(votes);
    __syncthreads();
    for (int w = 0; w < BLOCK / 32; w++) {
        before += w < warp ? warps[w] : 0;
        total += warps[w];
    }
    if (ours)
        found[before + __popc(votes & ((1u << lane) - 1))] = threadIdx.x;
    __syncthreads();
    return total;
}

/* A block has this many rows of a large table, and BLOCK columns, one for each thread. */
constexpr int ROWS = 16;
/* How many gradients a thread asks for before it adds the first one: a symbol that is frequent,
 * such as the blank of a text, keeps one block waiting for memory. They are added in their
 * order. */
constexpr int AHEAD = 16;

/* A part has at least so many positions; the most frequent row of it keeps a block busy. */
constexpr int64_t POSITIONS_OF_PART = 2 * BLOCK, PARTS_MAX = 256;
/* A row of the table occurs at least so often in a part, on average: its sum costs a store and a
 * load of float32. */
constexpr int64_t OCCURRENCES_OF_PART = 4;

/* Block (x, y, z) has `rows` rows of the table, BLOCK columns, and one part of the positions. If
 * there are several parts, `sums` has a table for each. */
template <typename T, int rows>
__global__ void embedding_backward_kernel(const int32_t *index, const T *dy, float *sums,
                                          int64_t count, int64_t width, int64_t vocabulary,
                                          int64_t positions, bool accumulate)
{
    __shared__ float sum[rows][BLOCK];
    __shared__ int found[BLOCK];
    const int64_t low = (int64_t)blockIdx.x * rows;
    const int64_t column = (int64_t)blockIdx.y * BLOCK + threadIdx.x;
    const int64_t begin = blockIdx.z * positions;
    const int64_t end = begin + positions < count ? begin + positions : count;

    for (int r = 0; r < rows; r++)
        sum[r][threadIdx.x] = 0;
    for (int64_t first = begin; first < end; first += BLOCK) {
        const int total = find_positions(index, first, end, low, rows, found);

        for (int k = 0; k < total && column < width; k += AHEAD) {
            T gradient[AHEAD];
            int row[AHEAD];

#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                if (k + i < total) {
                    gradient[i] = dy[(first + found[k + i]) * width + column];
                    row[i] = rows > 1 ? (int)(index[first + found[k + i]] - low) : 0;
                }
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                if (k + i < total)
                    sum[row[i]][threadIdx.x] += to_float(gradient[i]);
        }
    }
    for (int r = 0; r < rows && low + r < vocabulary && column < width; r++) {
        float *to = &sums[(blockIdx.z * vocabulary + low + r) * width + column];

        *to = accumulate ? *to + sum[r][threadIdx.x] : sum[r][threadIdx.x];
    }
}

int cuda_embedding_parts(int64_t count, int64_t vocabulary)
{
    const int64_t by_positions = count / POSITIONS_OF_PART;
    const int64_t by_rows = count / vocabulary / OCCURRENCES_OF_PART;
    const int64_t parts = by_positions < by_rows ? by_positions : by_rows;

    return (int)(parts < 1 ? 1 : parts < PARTS_MAX ? parts : PARTS_MAX);
}

template <typename T>
static void launch_backward(const int32_t *index, const void *dy, float *sums, int64_t count,
                            int64_t width, int64_t vocabulary, int parts, bool accumulate,
                            cudaStream_t stream)
{
    const int64_t positions = (count + parts - 1) / parts;
    /* every block reads all indices of its part, so large tables are divided among fewer blocks */
    const int rows = vocabulary <= 4096 ? 1 : ROWS;
    const dim3 grid((unsigned)((vocabulary + rows - 1) / rows),
                    (unsigned)((width + BLOCK - 1) / BLOCK), (unsigned)parts);

    if (rows == 1)
        embedding_backward_kernel<T, 1><<<grid, BLOCK, 0, stream>>>(
            index, (const T *)dy, sums, count, width, vocabulary, positions, accumulate);
    else
        embedding_backward_kernel<T, ROWS><<<grid, BLOCK, 0, stream>>>(
            index, (const T *)dy, sums, count, width, vocabulary, positions, accumulate);
}

cudaError_t cuda_embedding_backward(const int32_t *index, struct cuda_array dy, float *dweight,
                                    int64_t count, int64_t width, int64_t vocabulary,
                                    bool accumulate, float *sums_of_parts, cudaStream_t stream)
{
    const int parts = cuda_embedding_parts(count, vocabulary);
    const bool adds = accumulate && parts == 1;
    float *sums = parts > 1 ? sums_of_parts : dweight;

    switch (dy.type) {
    case TENSOR_BFLOAT16:
        launch_backward<__nv_bfloat16>(index, dy.at, sums, count, width, vocabulary, parts, adds,
                                       stream);
        break;
    case TENSOR_FLOAT16:
        launch_backward<__half>(index, dy.at, sums, count, width, vocabulary, parts, adds, stream);
        break;
    default:
        launch_backward<float>(index, dy.at, sums, count, width, vocabulary, parts, adds, stream);
    }
    if (parts == 1)
        return cudaGetLastError();
    return cuda_column_sum(cuda_array{sums, TENSOR_FLOAT32}, parts, vocabulary * width, accumulate,
                           dweight, stream);
}
