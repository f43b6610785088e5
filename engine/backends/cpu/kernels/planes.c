/* planes.c: the products of planes.h; planes_images.c makes the planes. Sums stay in registers over
 * the whole length of a product: some rows times some vectors. There are as many sums as the
 * registers hold beside their operands. */
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/kernels/vector.h"

/* ---- results: rows × vectors ----------------------------------------------------------------- */

#if defined(__AVX512F__)
enum { ROWS_MAX = 14 };
/* rows and vectors of a tile: the sums, the vectors and one number fit into 32 registers */
#define PLANES_TILES(TILE) \
    TILE(1, 8)             \
    TILE(2, 8)             \
    TILE(3, 8)             \
    TILE(4, 6)             \
    TILE(5, 5)             \
    TILE(6, 4)             \
    TILE(7, 4)             \
    TILE(8, 3)             \
    TILE(9, 3)             \
    TILE(10, 2)            \
    TILE(11, 2)            \
    TILE(12, 2)            \
    TILE(13, 2)            \
    TILE(14, 2)
#else
enum { ROWS_MAX = 6 };
#define PLANES_TILES(TILE) TILE(1, 8) TILE(2, 5) TILE(3, 3) TILE(4, 2) TILE(5, 2) TILE(6, 2)
#endif

int64_t KERNEL_NAME(planes_block)(int64_t rows)
{
    int64_t blocks = (rows + ROWS_MAX - 1) / ROWS_MAX;

    return (rows + blocks - 1) / blocks;
}

static ALWAYS_INLINE void multiply_tile(const int rows, const int vectors, int64_t depth,
                                        const float *a, const float *b, const int32_t *offset,
                                        const int32_t *place, float *c, int64_t c_stride,
                                        bool accumulate)
{
    vector sum[ROWS_MAX][PLANES_VECTORS];
    const float *from[PLANES_VECTORS];

#pragma GCC unroll 8
    for (int n = 0; n < vectors; n++)
        from[n] = b + place[n];
#pragma GCC unroll 16
    for (int m = 0; m < rows; m++)
#pragma GCC unroll 8
        for (int n = 0; n < vectors; n++)
            sum[m][n] = accumulate ? *(const vector *)(c + m * c_stride + n * VECTOR) : (vector){0};
    for (int64_t r = 0; r < depth; r++, a += rows) {
        int64_t step = offset[r];
        vector f[PLANES_VECTORS];

#pragma GCC unroll 8
        for (int n = 0; n < vectors; n++)
            f[n] = *(const loose_vector *)(from[n] + step);
#pragma GCC unroll 16
        for (int m = 0; m < rows; m++)
#pragma GCC unroll 8
            for (int n = 0; n < vectors; n++)
                sum[m][n] += a[m] * f[n];
    }
#pragma GCC unroll 16
    for (int m = 0; m < rows; m++)
#pragma GCC unroll 8
        for (int n = 0; n < vectors; n++)
            *(vector *)(c + m * c_stride + n * VECTOR) = sum[m][n];
}

/* Computes all columns. If the tiles do not divide them evenly, the last tile begins earlier. */
#define DEFINE_MULTIPLY(rows, count)                                                            \
    static void multiply_##rows(int64_t depth, const float *a, const float *b,                  \
                                const int32_t *offset, const struct planes_columns *columns,    \
                                float *c, int64_t c_stride, bool accumulate)                    \
    {                                                                                           \
        int64_t v = 0;                                                                          \
                                                                                                \
        for (; v + (count) <= columns->vectors; v += (count))                                   \
            multiply_tile(rows, count, depth, a, b, offset, columns->place + v, c + v * VECTOR, \
                          c_stride, accumulate);                                                \
        for (; v + 4 <= columns->vectors && (count) > 4; v += 4)                                \
            multiply_tile(rows, (count) > 4 ? 4 : 1, depth, a, b, offset, columns->place + v,   \
                          c + v * VECTOR, c_stride, accumulate);                                \
        for (; v + 2 <= columns->vectors; v += 2)                                               \
            multiply_tile(rows, 2, depth, a, b, offset, columns->place + v, c + v * VECTOR,     \
                          c_stride, accumulate);                                                \
        for (; v < columns->vectors; v++)                                                       \
            multiply_tile(rows, 1, depth, a, b, offset, columns->place + v, c + v * VECTOR,     \
                          c_stride, accumulate);                                                \
    }
PLANES_TILES(DEFINE_MULTIPLY)

typedef void multiply_function(int64_t depth, const float *a, const float *b, const int32_t *offset,
                               const struct planes_columns *columns, float *c, int64_t c_stride,
                               bool accumulate);

void KERNEL_NAME(planes_multiply)(int64_t rows, int64_t depth, const float *a, const float *b,
                                  const int32_t *offset, const struct planes_columns *columns,
                                  float *c, int64_t c_stride, bool accumulate)
{
#define LIST_MULTIPLY(rows, count) multiply_##rows,
    static multiply_function *const functions[] = {PLANES_TILES(LIST_MULTIPLY)};

    functions[rows - 1](depth, a, b, offset, columns, c, c_stride, accumulate);
}

/* ---- gradients of weights: rows × places of the kernel --------------------------------------- */

enum {
    GRADIENT_ROWS = 4,
    /* vectors of pixels that are summed at once: what they read stays in the first-level cache */
    GRADIENT_VECTORS = 96
};
#if defined(__AVX512F__)
enum { GRADIENT_DEPTH = 8 };
static const int gradient_depth[GRADIENT_ROWS] = {
    8, 8, 8, 6}; /* the greatest depth at once, by the number of rows */
#define GRADIENT_DEPTHS(TILE, rows) \
    TILE(rows, 1)                   \
    TILE(rows, 2)                   \
    TILE(rows, 3) TILE(rows, 4) TILE(rows, 5) TILE(rows, 6) TILE(rows, 7) TILE(rows, 8)
#else
enum { GRADIENT_DEPTH = 5 };
static const int gradient_depth[GRADIENT_ROWS] = {5, 5, 3, 2};
#define GRADIENT_DEPTHS(TILE, rows) \
    TILE(rows, 1) TILE(rows, 2) TILE(rows, 3) TILE(rows, 4) TILE(rows, 5)
#endif

/* Adds the upper half of the lanes to the lower half, and so on. */
static ALWAYS_INLINE float sum_lanes(const vector *x)
{
    vector sum = *x;

#if defined(__AVX512F__)
    sum += __builtin_shufflevector(sum, sum, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    sum += __builtin_shufflevector(sum, sum, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    sum += __builtin_shufflevector(sum, sum, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    sum += __builtin_shufflevector(sum, sum, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
#else
    sum += __builtin_shufflevector(sum, sum, 4, 5, 6, 7, 0, 1, 2, 3);
    sum += __builtin_shufflevector(sum, sum, 2, 3, 0, 1, 6, 7, 4, 5);
    sum += __builtin_shufflevector(sum, sum, 1, 0, 3, 2, 5, 4, 7, 6);
#endif
    return sum[0];
}

static ALWAYS_INLINE void gradient_tile(const int rows, const int depth, int64_t vectors,
                                        const float *dy, int64_t dy_stride, const float *b,
                                        const int32_t *offset, const int32_t *place,
                                        const int32_t *index, float *dweight,
                                        int64_t dweight_stride)
{
    vector sum[GRADIENT_ROWS][GRADIENT_DEPTH];
    const float *from[GRADIENT_DEPTH];

#pragma GCC unroll 8
    for (int r = 0; r < depth; r++)
        from[r] = b + offset[r];
#pragma GCC unroll 4
    for (int m = 0; m < rows; m++)
#pragma GCC unroll 8
        for (int r = 0; r < depth; r++)
            sum[m][r] = (vector){0};
    for (int64_t v = 0; v < vectors; v++, dy += VECTOR) {
        int64_t step = place[v];
        vector d[GRADIENT_ROWS];

#pragma GCC unroll 4
        for (int m = 0; m < rows; m++)
            d[m] = *(const vector *)(dy + m * dy_stride);
#pragma GCC unroll 8
        for (int r = 0; r < depth; r++) {
            vector f = *(const loose_vector *)(from[r] + step);

#pragma GCC unroll 4
            for (int m = 0; m < rows; m++)
                sum[m][r] += d[m] * f;
        }
    }
#pragma GCC unroll 4
    for (int m = 0; m < rows; m++)
#pragma GCC unroll 8
        for (int r = 0; r < depth; r++)
            dweight[m * dweight_stride + index[r]] += sum_lanes(&sum[m][r]);
}

#define DEFINE_GRADIENT(rows, depth)                                                           \
    static void gradient_##rows##_##depth(int64_t vectors, const float *dy, int64_t dy_stride, \
                                          const float *b, const int32_t *offset,               \
                                          const int32_t *place, const int32_t *index,          \
                                          float *dweight, int64_t dweight_stride)              \
    {                                                                                          \
        gradient_tile(rows, depth, vectors, dy, dy_stride, b, offset, place, index, dweight,   \
                      dweight_stride);                                                         \
    }
GRADIENT_DEPTHS(DEFINE_GRADIENT, 1)
GRADIENT_DEPTHS(DEFINE_GRADIENT, 2)
GRADIENT_DEPTHS(DEFINE_GRADIENT, 3)
GRADIENT_DEPTHS(DEFINE_GRADIENT, 4)

typedef void gradient_function(int64_t vectors, const float *dy, int64_t dy_stride, const float *b,
                               const int32_t *offset, const int32_t *place, const int32_t *index,
                               float *dweight, int64_t dweight_stride);

/* The bounds of part i, if `count` is divided evenly into the fewest parts of at most `most`. */
static int64_t even_part(int64_t count, int64_t most, int64_t i)
{
    int64_t parts = (count + most - 1) / most;

    return count * i / parts;
}

void KERNEL_NAME(planes_gradient)(int64_t rows, int64_t depth, const float *dy, int64_t dy_stride,
                                  const float *b, const int32_t *offset,
                                  const struct planes_columns *columns, const int32_t *index,
                                  float *dweight, int64_t dweight_stride)
{
#define LIST_GRADIENT(rows, depth) gradient_##rows##_##depth,
    static gradient_function *const functions[GRADIENT_ROWS][GRADIENT_DEPTH] = {
        {GRADIENT_DEPTHS(LIST_GRADIENT, 1)},
        {GRADIENT_DEPTHS(LIST_GRADIENT, 2)},
        {GRADIENT_DEPTHS(LIST_GRADIENT, 3)},
        {GRADIENT_DEPTHS(LIST_GRADIENT, 4)}};
    int64_t most = gradient_depth[(rows < GRADIENT_ROWS ? rows : GRADIENT_ROWS) - 1];

    for (int64_t v = 0; v < columns->vectors; v += GRADIENT_VECTORS) {
        int64_t left = columns->vectors - v;
        int64_t vectors = left < GRADIENT_VECTORS ? left : GRADIENT_VECTORS;

        for (int64_t i = 0, r = 0, end; r < depth; i++, r = end) {
            end = even_part(depth, most, i + 1);
            for (int64_t k = 0, m = 0, last; m < rows; k++, m = last) {
                last = even_part(rows, GRADIENT_ROWS, k + 1);
                functions[last - m - 1][end - r - 1](
                    vectors, dy + m * dy_stride + v * VECTOR, dy_stride, b, offset + r,
                    columns->place + v, index + r, dweight + m * dweight_stride, dweight_stride);
            }
        }
    }
}

float KERNEL_NAME(planes_sum)(const float *x, int64_t vectors)
{
    enum { CHAINS = 4 }; /* independent sums, which hide the latency of an addition */
    vector sum[CHAINS] = {0};
    int64_t v = 0;

    for (; v + CHAINS <= vectors; v += CHAINS, x += CHAINS * VECTOR)
#pragma GCC unroll 4
        for (int i = 0; i < CHAINS; i++)
            sum[i] += *(const vector *)(x + i * VECTOR);
    for (; v < vectors; v++, x += VECTOR)
        sum[0] += *(const vector *)x;
    sum[0] += sum[1];
    sum[2] += sum[3];
    sum[0] += sum[2];
    return sum_lanes(&sum[0]);
}
