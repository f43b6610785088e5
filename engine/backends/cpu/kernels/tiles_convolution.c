/* tiles_convolution.c: convolutions and the gradients of their weights, over tiles (tiles.h). */
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/kernels/tiles_multiply.h"
#include "engine/backends/cpu/kernels/tiles_vector.h"

#if defined(__AVX512F__)
#include "engine/backends/cpu/kernels/amx.h"
#define HAVE_AMX 1
#endif

/* ---- products of tiles ----------------------------------------------------------------------- */

#if defined(HAVE_AMX)

enum { OPERAND_PAIRS = TILE_CHANNELS / 2, ROW_BYTES = 64 };

/* Configures the tiles: 0 to 3 are the results, 4 and 5 are a, 6 and 7 are b. */
__attribute__((target("amx-tile"))) static void begin_tiles(int64_t rows)
{
    struct tile_configuration configuration = {.palette = 1};

    for (int i = 0; i < 8; i++) {
        configuration.row_bytes[i] = ROW_BYTES;
        configuration.rows[i] = i < 6 ? (uint8_t)rows : OPERAND_PAIRS;
    }
    MEMORY_IS_WRITTEN();
    _tile_loadconfig(&configuration);
}

__attribute__((target("amx-tile"))) static void end_tiles(void)
{
    _tile_release();
}

__attribute__((target("amx-tile,amx-bf16"))) static void
multiply_amx(const struct tile_product *product)
{
    const int64_t row = product->c_row * (int64_t)sizeof(float);

    MEMORY_IS_WRITTEN();
    if (product->accumulate) {
        _tile_loadd(0, product->c[0], row);
        _tile_loadd(1, product->c[1], row);
        _tile_loadd(2, product->c[2], row);
        _tile_loadd(3, product->c[3], row);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t i = 0; i < product->count; i++) {
        const struct tile_step *step = &product->steps[i];

        _tile_loadd(6, step->b, ROW_BYTES);
        _tile_loadd(4, step->a0, ROW_BYTES);
        _tile_loadd(7, step->b + product->b_next, ROW_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(5, step->a1, ROW_BYTES);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, product->c[0], row);
    _tile_stored(1, product->c[1], row);
    _tile_stored(2, product->c[2], row);
    _tile_stored(3, product->c[3], row);
}

#endif

static inline float float_of_half(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Computes the same sums, in another order, on any processor. */
static void multiply_plain(const uint16_t *a, const uint16_t *b, int64_t rows, float *c,
                           int64_t c_row)
{
    for (int64_t p = 0; p < TILE_CHANNELS / 2; p++) {
        float even[TILE_ROWS], odd[TILE_ROWS];

        for (int64_t o = 0; o < TILE_ROWS; o++) {
            even[o] = float_of_half(b[(p * TILE_ROWS + o) * 2]);
            odd[o] = float_of_half(b[(p * TILE_ROWS + o) * 2 + 1]);
        }
        for (int64_t r = 0; r < rows; r++) {
            float first = float_of_half(a[r * TILE_CHANNELS + 2 * p]);
            float second = float_of_half(a[r * TILE_CHANNELS + 2 * p + 1]);

            for (int64_t o = 0; o < TILE_ROWS; o++)
                c[r * c_row + o] += first * even[o] + second * odd[o];
        }
    }
}

static void multiply(const struct tile_product *product)
{
#if defined(HAVE_AMX)
    if (product->amx) {
        multiply_amx(product);
        return;
    }
#endif
    for (int k = 0; k < 4 && !product->accumulate; k++)
        for (int64_t r = 0; r < product->rows; r++)
            memset(product->c[k] + r * product->c_row, 0, TILE_ROWS * sizeof(float));
    for (int64_t i = 0; i < product->count; i++)
        for (int k = 0; k < 4; k++)
            multiply_plain(k < 2 ? product->steps[i].a0 : product->steps[i].a1,
                           product->steps[i].b + (k & 1) * product->b_next, product->rows,
                           product->c[k], product->c_row);
}

static void begin_products(bool amx, int64_t rows)
{
#if defined(HAVE_AMX)
    if (amx)
        begin_tiles(rows);
#endif
    (void)amx;
    (void)rows;
}

static void end_products(bool amx)
{
#if defined(HAVE_AMX)
    if (amx)
        end_tiles();
#endif
    (void)amx;
}

/* ---- forward, and the gradient by the data --------------------------------------------------- */

static const uint16_t zero_tile[TILE_ELEMENTS] __attribute__((aligned(64)));

/* Writes two results of 16 columns side by side as `rows` rows of a tile. */
static void finish_pixel(const float *left, const float *right, const float *bias, bool relu,
                         int64_t rows, uint16_t *y)
{
    const float *results[] = {left, right};

    for (int h = 0; h < 2; h++) {
        floats offset = bias ? load_floats(bias + h * LANES) : (floats){0};

        for (int64_t r = 0; r < rows; r++) {
            floats value = load_floats(results[h] + r * TILE_ROWS) + offset;

            store_halves(y + r * TILE_CHANNELS + h * LANES, relu ? rectified(value) : value);
        }
    }
}

/* Lists what pixels (r, c0) and (r, c1) of y read of x. c1 may lie behind the last column. */
static int64_t list_steps(const struct tile_convolution *shape, const uint16_t *x,
                          const uint16_t *weights, int64_t rows, int64_t r, const int64_t c[2],
                          struct tile_step *steps)
{
    int64_t blocks = shape->channels / TILE_CHANNELS, count = 0;
    int64_t pixel = rows * TILE_CHANNELS, plane = shape->height * shape->width * pixel;

    for (int64_t i = 0; i < shape->kernel[0]; i++) {
        int64_t row = shape->row_map[r * shape->kernel[0] + i];

        for (int64_t k = 0; row >= 0 && k < shape->kernel[1]; k++) {
            int64_t first = shape->column_map[c[0] * shape->kernel[1] + k];
            int64_t second =
                c[1] < shape->out_width ? shape->column_map[c[1] * shape->kernel[1] + k] : -1;
            const uint16_t *b = weights + (i * shape->kernel[1] + k) * blocks * 2 * TILE_ELEMENTS;
            const uint16_t *a0 = first < 0 ? zero_tile : x + (row * shape->width + first) * pixel;
            const uint16_t *a1 = second < 0 ? zero_tile : x + (row * shape->width + second) * pixel;

            if (first < 0 && second < 0)
                continue;
            for (int64_t block = 0; block < blocks; block++)
                steps[count++] = (struct tile_step){first < 0 ? a0 : a0 + block * plane,
                                                    second < 0 ? a1 : a1 + block * plane,
                                                    b + block * 2 * TILE_ELEMENTS};
        }
    }
    return count;
}

static int64_t step_count(const struct tile_convolution *shape)
{
    return shape->kernel[0] * shape->kernel[1] * shape->channels / TILE_CHANNELS;
}

/* How many rows of y read about half of the second-level cache of x. */
static int64_t rows_at_once(const struct tile_convolution *shape, int64_t rows)
{
    enum { BYTES = 512 << 10 };
    int64_t image = shape->width * shape->height * rows * shape->channels * 2;
    int64_t count = BYTES * shape->out_height / image;

    return count > 0 ? count : 1;
}

/* Computes TILE_CHANNELS channels of the pixels of row r of y. */
static void convolve_row(const struct tile_convolution *shape, const uint16_t *x,
                         const uint16_t *weights, const float *bias, int64_t rows, int64_t r,
                         struct tile_step *steps, uint16_t *y)
{
    float results[4][TILE_ROWS * TILE_ROWS] __attribute__((aligned(64)));
    struct tile_product product = {.steps = steps,
                                   .b_next = TILE_ELEMENTS,
                                   .rows = rows,
                                   .amx = shape->amx,
                                   .c = {results[0], results[1], results[2], results[3]},
                                   .c_row = TILE_ROWS};

    for (int64_t start = 0; start < shape->out_width; start += 2 * shape->column_step)
        for (int64_t first = start; first < start + shape->column_step && first < shape->out_width;
             first++) {
            int64_t c[2] = {first, first + shape->column_step};

            product.count = list_steps(shape, x, weights, rows, r, c, steps);
            multiply(&product);
            for (int k = 0; k < 2 && c[k] < shape->out_width; k++)
                finish_pixel(results[2 * k], results[2 * k + 1], bias, shape->relu, rows,
                             y + (r * shape->out_width + c[k]) * rows * TILE_CHANNELS);
        }
}

void KERNEL_NAME(tile_convolve)(const struct tile_convolution *shape, const uint16_t *x,
                                const uint16_t *weights, const float *bias, int64_t rows,
                                void *scratch, uint16_t *y)
{
    int64_t chunk = rows_at_once(shape, rows);
    int64_t plane = shape->out_height * shape->out_width * rows * TILE_CHANNELS;

    begin_products(shape->amx, rows);
    for (int64_t first = 0; first < shape->out_height; first += chunk)
        for (int64_t o = 0; o < shape->out_channels / TILE_CHANNELS; o++)
            for (int64_t r = first; r < first + chunk && r < shape->out_height; r++)
                convolve_row(shape, x, weights + o * step_count(shape) * 2 * TILE_ELEMENTS,
                             bias ? bias + o * TILE_CHANNELS : NULL, rows, r, scratch,
                             y + o * plane);
    end_products(shape->amx);
}

/* ---- gradient of the weights ----------------------------------------------------------------- */

/* The rows of y whose operands are made at once, and the memory that they take. dy is stored as
 * [out / 16][pair of pixels][16 channels][2 pixels][16 samples]. x is stored as [in /
 * 16][row][column, those `stride` apart side by side][8 pairs of samples][16 channels][2]. Where
 * there are no samples or pixels, there are zeros. */
struct gradient_chunk {
    int64_t first_row, end_row;     /* of y */
    int64_t first_x_row, end_x_row; /* may lie outside of x */
    int64_t pairs;                  /* of pixels in a row of y */
    int64_t columns;                /* in a row of x with its margins */
    uint16_t *x, *dy;
    struct tile_step *steps;
};

enum { PIXEL_X = TILE_ROWS / 2 * TILE_ROWS * 2 };

static int64_t pairs_of_row(const struct tile_gradient *shape)
{
    return (shape->out_width + 1) / 2;
}

/* How many columns of x there are from -padding to the last one that a pair of pixels reads,
 * rounded up to a multiple of the stride. */
static int64_t columns_of_row(const struct tile_gradient *shape)
{
    int64_t s = shape->stride[1];
    int64_t reach =
        (2 * pairs_of_row(shape) - 1) * s + (shape->kernel[1] - 1) * shape->dilation[1] + 1;

    return (reach + s - 1) / s * s;
}

static int64_t x_rows_of(const struct tile_gradient *shape, int64_t rows)
{
    return (rows - 1) * shape->stride[0] + (shape->kernel[0] - 1) * shape->dilation[0] + 1;
}

static int64_t chunk_bytes(const struct tile_gradient *shape, int64_t rows)
{
    return 2 * (x_rows_of(shape, rows) * columns_of_row(shape) * TILE_ROWS * shape->channels +
                rows * pairs_of_row(shape) * 2 * TILE_ROWS * shape->out_channels);
}

/* How many rows leave room for the weights in the second-level cache. */
static int64_t chunk_rows(const struct tile_gradient *shape)
{
    enum { BYTES = 768 << 10 };
    int64_t rows = 1;

    while (rows < shape->out_height && chunk_bytes(shape, rows + 1) <= BYTES)
        rows++;
    return rows;
}

/* Interleaves one pixel: 16 channels of `rows` samples, two samples side by side. */
static inline void interleave_pixel(const uint16_t *x, int64_t rows, uint32_t *out)
{
    for (int64_t p = 0; p < TILE_ROWS / 2; p++) {
        const uint16_t *even = x + 2 * p * TILE_CHANNELS;
        uint32_t with_even = 2 * p < rows ? 0xffff : 0, with_odd = 2 * p + 1 < rows ? 0xffff : 0;
        const uint16_t *odd = with_odd ? even + TILE_CHANNELS : x;

        even = with_even ? even : x;
#pragma GCC ivdep
        for (int64_t c = 0; c < TILE_ROWS; c++)
            out[p * TILE_ROWS + c] = (even[c] & with_even) | (odd[c] & with_odd) << 16;
    }
}

/* Transposes one pixel of a block of samples: 16 channels of `rows` samples. */
static inline void transpose_pixel(const uint16_t *dy, int64_t rows, uint16_t *out)
{
    uint32_t pairs[PIXEL_X / 2];

    interleave_pixel(dy, rows, pairs);
    for (int64_t p = 0; p < TILE_ROWS / 2; p++)
        for (int64_t c = 0; c < TILE_ROWS; c++)
            memcpy(out + c * 2 * TILE_ROWS + 2 * p, &pairs[p * TILE_ROWS + c], sizeof *pairs);
}

static void lay_out_dy(const struct tile_gradient *shape, const uint16_t *dy, int64_t rows,
                       const struct gradient_chunk *chunk)
{
    int64_t plane = shape->out_height * shape->out_width * rows * TILE_CHANNELS;
    uint16_t *out = chunk->dy;

    for (int64_t o = 0; o < shape->out_channels / TILE_ROWS; o++)
        for (int64_t r = chunk->first_row; r < chunk->end_row; r++)
            for (int64_t c = 0; c < 2 * chunk->pairs; c++) {
                const uint16_t *pixel = dy + o / 2 * plane +
                                        (r * shape->out_width + c) * rows * TILE_CHANNELS +
                                        o % 2 * TILE_ROWS;
                uint16_t *place = out + c % 2 * TILE_ROWS;

                if (c < shape->out_width)
                    transpose_pixel(pixel, rows, place);
                else
                    transpose_pixel(pixel, 0, place);
                out += c % 2 * TILE_ELEMENTS;
            }
}

static void lay_out_x(const struct tile_gradient *shape, const uint16_t *x, int64_t rows,
                      const struct gradient_chunk *chunk)
{
    int64_t s = shape->stride[1], classes = chunk->columns / s;
    int64_t plane = shape->height * shape->width * rows * TILE_CHANNELS;
    uint16_t *out = chunk->x;

    for (int64_t i = 0; i < shape->channels / TILE_ROWS; i++)
        for (int64_t r = chunk->first_x_row; r < chunk->end_x_row;
             r++, out += chunk->columns * PIXEL_X)
            for (int64_t c = 0; c < chunk->columns && r >= 0 && r < shape->height; c++) {
                int64_t column = c - shape->padding[1];
                uint16_t *place = out + (c % s * classes + c / s) * PIXEL_X;

                if (column < 0 || column >= shape->width)
                    memset(place, 0, PIXEL_X * sizeof *place);
                else
                    interleave_pixel(x + i / 2 * plane +
                                         (r * shape->width + column) * rows * TILE_CHANNELS +
                                         i % 2 * TILE_ROWS,
                                     rows, (uint32_t *)(void *)place);
            }
}

/* Adds tap (i, k) for 32 output channels from 32 o on, and 32 input channels from 32 n on. */
static void add_tap(const struct tile_gradient *shape, const struct gradient_chunk *chunk,
                    int64_t i, int64_t k, int64_t o, int64_t n, bool accumulate, float *dweights)
{
    int64_t s = shape->stride[1], classes = chunk->columns / s, count = 0;
    int64_t x_rows = chunk->end_x_row - chunk->first_x_row;
    int64_t y_rows = chunk->end_row - chunk->first_row;
    int64_t column = k * shape->dilation[1];
    const uint16_t *x = chunk->x + 2 * n * x_rows * chunk->columns * PIXEL_X +
                        (column % s * classes + column / s) * PIXEL_X;
    const uint16_t *dy = chunk->dy + 2 * o * y_rows * chunk->pairs * TILE_ELEMENTS;
    float *c =
        dweights +
        ((i * shape->kernel[1] + k) * shape->out_channels + o * TILE_CHANNELS) * shape->channels +
        n * TILE_CHANNELS;
    int64_t below = TILE_ROWS * shape->channels;
    struct tile_product product = {.steps = chunk->steps,
                                   .b_next = x_rows * chunk->columns * PIXEL_X,
                                   .rows = TILE_ROWS,
                                   .accumulate = accumulate,
                                   .amx = shape->amx,
                                   .c = {c, c + TILE_ROWS, c + below, c + below + TILE_ROWS},
                                   .c_row = shape->channels};

    for (int64_t r = chunk->first_row; r < chunk->end_row; r++) {
        int64_t row = r * shape->stride[0] - shape->padding[0] + i * shape->dilation[0];

        for (int64_t p = 0; row >= 0 && row < shape->height && p < chunk->pairs; p++) {
            const uint16_t *a = dy + ((r - chunk->first_row) * chunk->pairs + p) * TILE_ELEMENTS;

            chunk->steps[count++] = (struct tile_step){
                a, a + y_rows * chunk->pairs * TILE_ELEMENTS,
                x + ((row - chunk->first_x_row) * chunk->columns + 2 * p) * PIXEL_X};
        }
    }
    product.count = count;
    if (count || !accumulate)
        multiply(&product);
}

void KERNEL_NAME(tile_convolve_weights)(const struct tile_gradient *shape, const uint16_t *x,
                                        const uint16_t *dy, int64_t rows, bool accumulate,
                                        void *scratch, float *dweights)
{
    struct gradient_chunk chunk = {.pairs = pairs_of_row(shape), .columns = columns_of_row(shape)};
    int64_t at_once = chunk_rows(shape);

    chunk.x = scratch;
    chunk.dy = chunk.x + x_rows_of(shape, at_once) * chunk.columns * TILE_ROWS * shape->channels;
    chunk.steps = (void *)(chunk.dy + at_once * chunk.pairs * 2 * TILE_ROWS * shape->out_channels);
    begin_products(shape->amx, TILE_ROWS);
    for (int64_t first = 0; first < shape->out_height; first = chunk.end_row) {
        chunk.first_row = first;
        chunk.end_row = first + at_once < shape->out_height ? first + at_once : shape->out_height;
        chunk.first_x_row = first * shape->stride[0] - shape->padding[0];
        chunk.end_x_row = chunk.first_x_row + x_rows_of(shape, chunk.end_row - first);
        lay_out_x(shape, x, rows, &chunk);
        lay_out_dy(shape, dy, rows, &chunk);
        for (int64_t o = 0; o < shape->out_channels / TILE_CHANNELS; o++)
            for (int64_t n = 0; n < shape->channels / TILE_CHANNELS; n++)
                for (int64_t i = 0; i < shape->kernel[0]; i++)
                    for (int64_t k = 0; k < shape->kernel[1]; k++)
                        add_tap(shape, &chunk, i, k, o, n, accumulate || first > 0, dweights);
    }
    end_products(shape->amx);
}

int64_t KERNEL_NAME(tile_convolve_scratch)(const struct tile_convolution *shape)
{
    return step_count(shape) * (int64_t)sizeof(struct tile_step);
}

int64_t KERNEL_NAME(tile_gradient_scratch)(const struct tile_gradient *shape)
{
    int64_t rows = chunk_rows(shape);

    return chunk_bytes(shape, rows) +
           rows * pairs_of_row(shape) * (int64_t)sizeof(struct tile_step);
}

/* ---- weights --------------------------------------------------------------------------------- */

void KERNEL_NAME(tile_pack_weights)(const float *weights, int64_t row, int64_t columns,
                                    bool transposed, uint16_t *packed)
{
    uint16_t rounded[TILE_CHANNELS][TILE_CHANNELS];

    for (int64_t o = 0; o < TILE_CHANNELS; o++) {
        const float *from = weights + o * row;
        float padded[TILE_CHANNELS] = {0};

        if (columns < TILE_CHANNELS)
            from = memcpy(padded, from, (size_t)columns * sizeof *from);
        for (int h = 0; h < TILE_CHANNELS / LANES; h++)
            store_halves(rounded[o] + h * LANES, load_floats(from + h * LANES));
    }
    for (int64_t tile = 0; tile < 2; tile++, packed += TILE_ELEMENTS)
        for (int64_t p = 0; p < TILE_ROWS; p++)
            for (int64_t c = 0; c < TILE_ROWS; c++) {
                int64_t column = tile * TILE_ROWS + c;
                uint16_t *pair = packed + (p * TILE_ROWS + c) * 2;

                if (transposed) {
                    pair[0] = rounded[2 * p][column];
                    pair[1] = rounded[2 * p + 1][column];
                } else {
                    memcpy(pair, &rounded[column][2 * p], 2 * sizeof *pair);
                }
            }
}
