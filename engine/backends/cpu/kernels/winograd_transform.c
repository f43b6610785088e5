/* winograd_transform.c: the transforms of winograd.h. With points 0, ±p, ±q, ∞ the matrices of
 * F(4, 3) are, along one axis (Toom-Cook; Barabasz et al. 2020, "Error Analysis and Improving the
 * Accuracy of Winograd Convolution for Deep Neural Networks", ACM TOMS 46(4), section 3):
 *
 *   data:    the rows are the coefficients of M(x) / (x - point), for ∞ of M(x) itself, where
 *            M(x) = x (x² - p²)(x² - q²)
 *   weights: [1, point, point²] / product over the other points of (point - other), for ∞ [0, 0, 1]
 *   result:  the columns are [1, point, point², point³], for ∞ [0, 0, 0, 1]
  * The gradient by the data is the same convolution with the weights turned. The gradient by the
 * weights uses the transposed matrices. p = 5/8 and q = 3/2 keep the matrices' entries close to
 * each other: errors are about a third of those with the usual 1 and 2. */
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/kernels/vector.h"

enum { WINDOW = 6, TAPS = 3, TILE = WINOGRAD_TILE, FREQUENCIES = WINOGRAD_FREQUENCIES };

static const float p1 = 0.625f, p2 = 0.390625f, p3 = 0.244140625f;
static const float q1 = 1.5f, q2 = 2.25f, q3 = 3.375f;
static const float pq = 0.87890625f, sum = 2.640625f; /* p² q², p² + q² */
static const float scale_0 = (float)(1 / 0.87890625);
static const float scale_p = (float)(1 / (2 * 0.390625 * (0.390625 - 2.25)));
static const float scale_q = (float)(1 / (2 * 2.25 * (2.25 - 0.390625)));

/* Each function transforms the numbers of one line, which are `step` apart. */
static ALWAYS_INLINE void data_line(const vector *d, int step, vector *v, int v_step)
{
    vector d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step];
    vector d5 = d[5 * step];
    vector even = d4 - q2 * d2, odd = p1 * (d3 - q2 * d1);

    v[0] = pq * d0 - sum * d2 + d4;
    v[v_step] = even + odd;
    v[2 * v_step] = even - odd;
    even = d4 - p2 * d2;
    odd = q1 * (d3 - p2 * d1);
    v[3 * v_step] = even + odd;
    v[4 * v_step] = even - odd;
    v[5 * v_step] = pq * d1 - sum * d3 + d5;
}

static ALWAYS_INLINE void gradient_line(const vector *d, int step, vector *v, int v_step)
{
    vector d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step];
    vector even = d0 + p2 * d2, odd = p1 * d1 + p3 * d3;

    v[0] = d0;
    v[v_step] = even + odd;
    v[2 * v_step] = even - odd;
    even = d0 + q2 * d2;
    odd = q1 * d1 + q3 * d3;
    v[3 * v_step] = even + odd;
    v[4 * v_step] = even - odd;
    v[5 * v_step] = d3;
}

static ALWAYS_INLINE void weights_line(const vector *g, int step, vector *u, int u_step)
{
    vector g0 = g[0], g1 = g[step], g2 = g[2 * step];
    vector even = scale_p * (g0 + p2 * g2), odd = (scale_p * p1) * g1;

    u[0] = scale_0 * g0;
    u[u_step] = even + odd;
    u[2 * u_step] = even - odd;
    even = scale_q * (g0 + q2 * g2);
    odd = (scale_q * q1) * g1;
    u[3 * u_step] = even + odd;
    u[4 * u_step] = even - odd;
    u[5 * u_step] = g2;
}

static ALWAYS_INLINE void result_line(const vector *m, int step, vector *y, int y_step)
{
    vector even_p = m[step] + m[2 * step], odd_p = m[step] - m[2 * step];
    vector even_q = m[3 * step] + m[4 * step], odd_q = m[3 * step] - m[4 * step];

    y[0] = m[0] + even_p + even_q;
    y[y_step] = p1 * odd_p + q1 * odd_q;
    y[2 * y_step] = p2 * even_p + q2 * even_q;
    y[3 * y_step] = p3 * odd_p + q3 * odd_q + m[5 * step];
}

static ALWAYS_INLINE void result_weights_line(const vector *m, int step, vector *g, int g_step)
{
    vector even_p = scale_p * (m[step] + m[2 * step]), odd_p = scale_p * (m[step] - m[2 * step]);
    vector even_q = scale_q * (m[3 * step] + m[4 * step]);
    vector odd_q = scale_q * (m[3 * step] - m[4 * step]);

    g[0] = scale_0 * m[0] + even_p + even_q;
    g[g_step] = p1 * odd_p + q1 * odd_q;
    g[2 * g_step] = p2 * even_p + q2 * even_q + m[5 * step];
}

/* ---- images ---------------------------------------------------------------------------------- */

/* Where a tile of y is. */
struct tile {
    int64_t sample, row, column; /* of its first pixel */
};

static ALWAYS_INLINE struct tile tile_at(const struct winograd_shape *shape, int64_t number)
{
    int64_t columns = (shape->out_width + TILE - 1) / TILE;
    int64_t rows = (shape->out_height + TILE - 1) / TILE;

    return (struct tile){.sample = number / (rows * columns),
                         .row = number / columns % rows * TILE,
                         .column = number % columns * TILE};
}

/* Copies `extent`² pixels; those outside the image of height × width become zeros. */
static ALWAYS_INLINE void copy_window(const float *image, int64_t height, int64_t width,
                                      int64_t row, int64_t column, int extent, vector *window)
{
    for (int i = 0; i < extent; i++)
        for (int j = 0; j < extent; j++) {
            int64_t r = row + i, c = column + j;

            if (r >= 0 && r < height && c >= 0 && c < width)
                window[i * extent + j] = *(const vector *)(image + (r * width + c) * VECTOR);
            else
                window[i * extent + j] = (vector){0};
        }
}

void KERNEL_NAME(winograd_transform_data)(const float *x, const struct winograd_shape *shape,
                                          int64_t channels, const struct winograd_tiles *tiles,
                                          float *data)
{
    const int64_t height = shape->height, width = shape->width, pixels = height * width;

    for (int64_t block = 0; block < channels / VECTOR; block++)
        for (int64_t t = 0; t < tiles->count; t++) {
            struct tile tile = tile_at(shape, tiles->first + t);
            const float *image = x + (tile.sample * channels + block * VECTOR) * pixels;
            int64_t row = tile.row - shape->padding, column = tile.column - shape->padding;
            float *to = data + (block * tiles->rows + t) * VECTOR;
            vector window[WINDOW * WINDOW], half[WINDOW * WINDOW];

            if (row >= 0 && column >= 0 && row + WINDOW <= height && column + WINDOW <= width) {
                const float *from = image + (row * width + column) * VECTOR;
#pragma GCC unroll 6
                for (int j = 0; j < WINDOW; j++) {
                    vector line[WINDOW];
#pragma GCC unroll 6
                    for (int i = 0; i < WINDOW; i++)
                        line[i] = *(const vector *)(from + (i * width + j) * VECTOR);
                    data_line(line, 1, half + j, WINDOW);
                }
            } else {
                copy_window(image, height, width, row, column, WINDOW, window);
#pragma GCC unroll 6
                for (int j = 0; j < WINDOW; j++)
                    data_line(window + j, WINDOW, half + j, WINDOW);
            }
#pragma GCC unroll 6
            for (int i = 0; i < WINDOW; i++) {
                vector line[WINDOW];

                data_line(half + i * WINDOW, 1, line, 1);
#pragma GCC unroll 6
                for (int j = 0; j < WINDOW; j++)
                    *(vector *)(to + (i * WINDOW + j) * tiles->frequency_stride) = line[j];
            }
        }
}

void KERNEL_NAME(winograd_transform_gradient)(const float *dy, const struct winograd_shape *shape,
                                              int64_t channels, const struct winograd_tiles *tiles,
                                              float *data)
{
    const int64_t height = shape->out_height, width = shape->out_width, pixels = height * width;

    for (int64_t block = 0; block < channels / VECTOR; block++)
        for (int64_t t = 0; t < tiles->count; t++) {
            struct tile tile = tile_at(shape, tiles->first + t);
            const float *image = dy + (tile.sample * channels + block * VECTOR) * pixels;
            float *to = data + (block * tiles->rows + t) * VECTOR;
            vector window[TILE * TILE], half[WINDOW * TILE];

            copy_window(image, height, width, tile.row, tile.column, TILE, window);
#pragma GCC unroll 4
            for (int j = 0; j < TILE; j++)
                gradient_line(window + j, TILE, half + j, TILE);
#pragma GCC unroll 6
            for (int i = 0; i < WINDOW; i++) {
                vector line[WINDOW];

                gradient_line(half + i * TILE, 1, line, 1);
#pragma GCC unroll 6
                for (int j = 0; j < WINDOW; j++)
                    *(vector *)(to + (i * WINDOW + j) * tiles->frequency_stride) = line[j];
            }
        }
}

static ALWAYS_INLINE void store_pixel(const vector *value, const vector *bias, bool relu, float *to)
{
    vector y = *value + *bias;

    if (relu)
        for (int k = 0; k < VECTOR; k++) /* this form keeps a NaN, as PyTorch does */
            y[k] = y[k] < 0.0f ? 0.0f : y[k];
    *(vector *)to = y;
}

void KERNEL_NAME(winograd_finish)(const float *data, const struct winograd_shape *shape,
                                  int64_t channels, const struct winograd_tiles *tiles,
                                  const float *bias, bool relu, float *y)
{
    const int64_t height = shape->out_height, width = shape->out_width, pixels = height * width;

    for (int64_t block = 0; block < channels / VECTOR; block++) {
        vector offset = bias ? *(const vector *)(bias + block * VECTOR) : (vector){0};

        for (int64_t t = 0; t < tiles->count; t++) {
            struct tile tile = tile_at(shape, tiles->first + t);
            const float *from = data + (block * tiles->rows + t) * VECTOR;
            float *image = y + (tile.sample * channels + block * VECTOR) * pixels;
            int64_t rows = height - tile.row < TILE ? height - tile.row : TILE;
            int64_t columns = width - tile.column < TILE ? width - tile.column : TILE;
            vector half[TILE * WINDOW];

#pragma GCC unroll 6
            for (int j = 0; j < WINDOW; j++) {
                vector line[WINDOW];
#pragma GCC unroll 6
                for (int i = 0; i < WINDOW; i++)
                    line[i] = *(const vector *)(from + (i * WINDOW + j) * tiles->frequency_stride);
                result_line(line, 1, half + j, WINDOW);
            }
            for (int64_t i = 0; i < rows; i++) {
                float *to = image + ((tile.row + i) * width + tile.column) * VECTOR;
                vector line[TILE];

                result_line(half + i * WINDOW, 1, line, 1);
                for (int64_t j = 0; j < columns; j++)
                    store_pixel(&line[j], &offset, relu, to + j * VECTOR);
            }
        }
    }
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Turns the weights of one block of input and one of output channels: taps[tap][row], whose rows
 * are output channels, by 180 degrees. */
static void turn_weights(const float *weights, vector taps[TAPS * TAPS][VECTOR])
{
    for (int tap = 0; tap < TAPS * TAPS; tap++) {
        const float *from = weights + (TAPS * TAPS - 1 - tap) * VECTOR * VECTOR;
        float *to = (float *)taps[tap];

        for (int i = 0; i < VECTOR; i++)
            for (int o = 0; o < VECTOR; o++)
                to[o * VECTOR + i] = from[i * VECTOR + o];
    }
}

void KERNEL_NAME(winograd_transform_weights)(const float *weights, int64_t in_channels,
                                             int64_t out_channels, int64_t in_block,
                                             int64_t out_block, bool rotated,
                                             int64_t frequency_stride, float *transformed)
{
    const float *block =
        weights + (out_block * (in_channels / VECTOR) + in_block) * TAPS * TAPS * VECTOR * VECTOR;
    float *to = transformed + (rotated ? in_block * out_channels + out_block * VECTOR
                                       : out_block * in_channels + in_block * VECTOR) *
                                  VECTOR;
    vector turned[TAPS * TAPS][VECTOR];

    if (rotated)
        turn_weights(block, turned);
    for (int row = 0; row < VECTOR; row++, to += VECTOR) {
        const vector *from =
            rotated ? &turned[0][row] : (const vector *)(const void *)(block + row * VECTOR);
        vector half[WINDOW * TAPS];

#pragma GCC unroll 3
        for (int j = 0; j < TAPS; j++)
            weights_line(from + j * VECTOR, TAPS * VECTOR, half + j, TAPS);
#pragma GCC unroll 6
        for (int i = 0; i < WINDOW; i++) {
            vector line[WINDOW];

            weights_line(half + i * TAPS, 1, line, 1);
#pragma GCC unroll 6
            for (int j = 0; j < WINDOW; j++)
                *(vector *)(to + (i * WINDOW + j) * frequency_stride) = line[j];
        }
    }
}

void KERNEL_NAME(winograd_finish_weights)(const float *transformed, int64_t in_channels,
                                          int64_t in_block, int64_t out_block,
                                          int64_t frequency_stride, bool accumulate,
                                          float *dweights)
{
    float *to =
        dweights + (out_block * (in_channels / VECTOR) + in_block) * TAPS * TAPS * VECTOR * VECTOR;
    const float *from = transformed + (out_block * in_channels + in_block * VECTOR) * VECTOR;

    for (int row = 0; row < VECTOR; row++, from += VECTOR, to += VECTOR) {
        vector half[TAPS * WINDOW];

#pragma GCC unroll 6
        for (int j = 0; j < WINDOW; j++) {
            vector line[WINDOW];
#pragma GCC unroll 6
            for (int i = 0; i < WINDOW; i++)
                line[i] = *(const vector *)(from + (i * WINDOW + j) * frequency_stride);
            result_weights_line(line, 1, half + j, WINDOW);
        }
#pragma GCC unroll 3
        for (int i = 0; i < TAPS; i++) {
            vector line[TAPS];

            result_weights_line(half + i * WINDOW, 1, line, 1);
#pragma GCC unroll 3
            for (int j = 0; j < TAPS; j++) {
                vector *place = (vector *)(to + (i * TAPS + j) * VECTOR * VECTOR);

                if (accumulate)
                    line[j] += *place;
                *place = line[j];
            }
        }
    }
}
