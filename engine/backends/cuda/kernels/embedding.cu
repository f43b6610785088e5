/* embedding.cu: copies rows of a table by their index, and sums up the gradient of each row in the
 * order of the positions, so that the same bits come out every time. */
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

cudaError_t cuda_embedding(const int32_t *index, const float *weight, struct cuda_array y,
                           int64_t count, int64_t width, int64_t vocabulary, cudaStream_t stream)
{
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

/* A block has `rows` rows of the table, and BLOCK columns, one for each thread. */
constexpr int ROWS_MAX = 16;
/* How many gradients a thread asks for before it adds the first one: a symbol that is frequent,
 * such as the blank of a text, keeps one block waiting for memory. They are added in their
 * order. */
constexpr int AHEAD = 16;

__global__ void embedding_backward_kernel(const int32_t *index, struct cuda_array dy,
                                          float *dweight, int64_t count, int64_t width,
                                          int64_t vocabulary, int rows, bool accumulate)
{
    __shared__ float sum[ROWS_MAX][BLOCK];
    __shared__ int found[BLOCK];
    const int64_t low = (int64_t)blockIdx.x * rows;
    const int64_t column = (int64_t)blockIdx.y * BLOCK + threadIdx.x;

    for (int r = 0; r < rows; r++)
        sum[r][threadIdx.x] = 0;
    for (int64_t first = 0; first < count; first += BLOCK) {
        const int total = find_positions(index, first, count, low, rows, found);

        for (int k = 0; k < total && column < width; k += AHEAD) {
            float gradient[AHEAD];
            int row[AHEAD];

#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                if (k + i < total) {
                    gradient[i] = array_load(dy, (first + found[k + i]) * width + column);
                    row[i] = (int)(index[first + found[k + i]] - low);
                }
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                if (k + i < total)
                    sum[row[i]][threadIdx.x] += gradient[i];
        }
    }
    for (int r = 0; r < rows && low + r < vocabulary && column < width; r++) {
        float *to = &dweight[(low + r) * width + column];

        *to = accumulate ? *to + sum[r][threadIdx.x] : sum[r][threadIdx.x];
    }
}

cudaError_t cuda_embedding_backward(const int32_t *index, struct cuda_array dy, float *dweight,
                                    int64_t count, int64_t width, int64_t vocabulary,
                                    bool accumulate, cudaStream_t stream)
{
    /* every block reads all indices, so large tables are divided among fewer blocks */
    const int rows = vocabulary <= 4096 ? 1 : ROWS_MAX;
    const dim3 grid((unsigned)((vocabulary + rows - 1) / rows),
                    (unsigned)((width + BLOCK - 1) / BLOCK));

    embedding_backward_kernel<<<grid, BLOCK, 0, stream>>>(index, dy, dweight, count, width,
                                                          vocabulary, rows, accumulate);
    return cudaGetLastError();
}
