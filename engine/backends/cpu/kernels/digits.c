/* digits.c: see digits.h. */
#include "engine/backends/cpu/kernels/digits.h"

#include "engine/backends/cpu/kernels/kernels.h"

#include <math.h>
#include <string.h>

#if !defined(__AVX512F__)

/* Never called: only processors of the highest level have AMX. */
bool KERNEL_NAME(digits_pack_rows)(const float *x, const float *balance, int64_t rows,
                                   int64_t depth, int8_t *packed, float *scale)
{
    (void)x, (void)balance, (void)rows, (void)depth, (void)packed, (void)scale;
    return false;
}

void KERNEL_NAME(digits_pack_bytes)(const uint8_t *x, int64_t rows, int64_t depth, uint8_t *packed)
{
    (void)x, (void)rows, (void)depth, (void)packed;
}

void KERNEL_NAME(digits_linear)(const struct digits_linear *task, int64_t rows)
{
    (void)task, (void)rows;
}

void KERNEL_NAME(bytes_linear)(const struct digits_linear *task, int64_t rows)
{
    (void)task, (void)rows;
}

#else
#include "engine/backends/cpu/kernels/amx.h"
#include "engine/backends/cpu/kernels/vector.h"

/* Below this the squares of a row's numbers, or the inverse of its factor, would leave float32's
 * range. */
static const float LEAST = 1e-15f;

enum {
    LANES = 16,
    WEIGHT_ROW = DIGITS * LANES * 4, /* bytes of the packed weights from one row of a tile on */
    SUMS = 4,                        /* the most vectors of sums of a row */
    SUMS_ROW = SUMS * LANES * 4
};

typedef int32_t row_sums[SUMS][LANES];

/* ---- rows ------------------------------------------------------------------------------------ */

static __mmask16 mask_of(int64_t count)
{
    return count >= LANES ? 0xffff : count > 0 ? (__mmask16)((1u << count) - 1) : 0;
}

static ALWAYS_INLINE __m512 load_balanced(const float *x, const float *balance, __mmask16 mask)
{
    return _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x), _mm512_maskz_loadu_ps(mask, balance));
}

/* The factor of a row, or -1: it cannot be integers. */
static float find_scale(const float *x, const float *balance, int64_t depth)
{
    __m512 most = _mm512_setzero_ps(), squares = _mm512_setzero_ps();
    __m512 nothing = _mm512_setzero_ps();
    int64_t others = 0;
    float largest, mean;

    for (int64_t k = 0; k < depth; k += LANES) {
        __m512 value = load_balanced(x + k, balance + k, mask_of(depth - k));

        most = _mm512_max_ps(most, _mm512_abs_ps(value));
        squares = _mm512_fmadd_ps(value, value, squares);
        others += _mm_popcnt_u32(_mm512_cmp_ps_mask(value, nothing, _CMP_NEQ_UQ));
    }
    largest = _mm512_reduce_max_ps(most);
    mean = _mm512_reduce_add_ps(squares);
    if (mean == 0 && largest == 0)
        return 0;
    mean /= (float)others;
    if (!(largest > LEAST && mean < INFINITY) ||
        largest * largest > (float)(DIGITS_PEAK_MOST * DIGITS_PEAK_MOST) * mean)
        return -1;
    return largest / DIGITS_MOST;
}

/* The digits of a step of a row. */
static ALWAYS_INLINE void pack_step(const float *x, const float *balance, int64_t count,
                                    __m512 inverse, int8_t *to)
{
    const __m512i half = _mm512_set1_epi32(DIGITS_BASE / 2);

    for (int k = 0; k < DIGITS_STEP; k += LANES, to += LANES) {
        __m512 value = load_balanced(x + k, balance + k, mask_of(count - k));
        __m512i integer = _mm512_cvtps_epi32(_mm512_mul_ps(value, inverse));

        for (int d = DIGITS - 1; d >= 0; d--) {
            _mm_store_si128((__m128i *)(void *)(to + d * DIGITS_TILE_BYTES),
                            _mm512_cvtepi32_epi8(integer));
            /* what the digit, which has a sign, leaves */
            integer = _mm512_srai_epi32(_mm512_add_epi32(integer, half), 8);
        }
    }
}

bool KERNEL_NAME(digits_pack_rows)(const float *x, const float *balance, int64_t rows,
                                   int64_t depth, int8_t *packed, float *scale)
{
    int64_t steps = digits_steps(depth), block = steps * DIGITS * DIGITS_TILE_BYTES;

    for (int64_t r = 0; r < rows; r++, x += depth) {
        int8_t *to = packed + r / AMX_ROWS * block + r % AMX_ROWS * DIGITS_STEP;
        __m512 inverse;

        scale[r] = find_scale(x, balance, depth);
        if (scale[r] < 0)
            return false;
        inverse = _mm512_set1_ps(scale[r] > 0 ? 1 / scale[r] : 0);
        for (int64_t step = 0; step < steps; step++, to += DIGITS * DIGITS_TILE_BYTES)
            pack_step(x + step * DIGITS_STEP, balance + step * DIGITS_STEP,
                      depth - step * DIGITS_STEP, inverse, to);
    }
    return true;
}

void KERNEL_NAME(digits_pack_bytes)(const uint8_t *x, int64_t rows, int64_t depth, uint8_t *packed)
{
    int64_t steps = digits_steps(depth), block = steps * DIGITS_TILE_BYTES;

    for (int64_t r = 0; r < rows; r++, x += depth) {
        uint8_t *to = packed + r / AMX_ROWS * block + r % AMX_ROWS * DIGITS_STEP;

        for (int64_t k = 0; k < depth; k += DIGITS_STEP, to += DIGITS_TILE_BYTES) {
            int64_t left = depth - k;

            if (left < DIGITS_STEP)
                memset(to, 0, DIGITS_STEP);
            memcpy(to, x + k, left < DIGITS_STEP ? (size_t)left : DIGITS_STEP);
        }
    }
}

/* ---- products -------------------------------------------------------------------------------- */

/* The products of a tile of rows. A product of digits i and j of the operands counts 256^-(i + j)
 * of the highest: tiles 0 to 3 are the sums of those with i + j of 0 to 3. Tiles 4 to 6 are x. */
__attribute__((target("amx-tile,amx-int8"))) static void
multiply_digits(const int8_t *x, const int8_t *weights, int64_t steps, row_sums sums[AMX_ROWS])
{
    char *to = (char *)sums;

    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    MEMORY_IS_WRITTEN();
    for (int64_t step = 0; step < steps; step++) {
        _tile_loadd(4, x, DIGITS_STEP);
        _tile_loadd(5, x + DIGITS_TILE_BYTES, DIGITS_STEP);
        _tile_loadd(6, x + 2 * DIGITS_TILE_BYTES, DIGITS_STEP);
        _tile_loadd(7, weights, WEIGHT_ROW);
        _tile_dpbssd(2, 6, 7);
        _tile_dpbssd(0, 4, 7);
        _tile_dpbssd(1, 5, 7);
        _tile_loadd(7, weights + LANES * 4, WEIGHT_ROW);
        _tile_dpbssd(2, 5, 7);
        _tile_dpbssd(3, 6, 7);
        _tile_dpbssd(1, 4, 7);
        _tile_loadd(7, weights + 2 * LANES * 4, WEIGHT_ROW);
        _tile_dpbssd(2, 4, 7);
        _tile_dpbssd(3, 5, 7);
        x += DIGITS * DIGITS_TILE_BYTES;
        weights += AMX_ROWS * WEIGHT_ROW;
    }
    _tile_stored(0, to, SUMS_ROW);
    _tile_stored(1, to + LANES * 4, SUMS_ROW);
    _tile_stored(2, to + 2 * LANES * 4, SUMS_ROW);
    _tile_stored(3, to + 3 * LANES * 4, SUMS_ROW);
    MEMORY_IS_WRITTEN();
}

/* The products of two tiles of rows of bytes, whose sums are tiles 0 to 2 and 3 to 5, one for each
 * digit of the weights. */
__attribute__((target("amx-tile,amx-int8"))) static void
multiply_bytes(const uint8_t *x, const int8_t *weights, int64_t steps, row_sums sums[BYTES_ROWS])
{
    const uint8_t *second = x + steps * DIGITS_TILE_BYTES;
    char *to = (char *)sums, *to_second = (char *)(sums + AMX_ROWS);

    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    MEMORY_IS_WRITTEN();
    for (int64_t step = 0; step < steps; step++) {
        _tile_loadd(6, x, DIGITS_STEP);
        _tile_loadd(7, weights, WEIGHT_ROW);
        _tile_dpbusd(0, 6, 7);
        _tile_loadd(7, weights + LANES * 4, WEIGHT_ROW);
        _tile_dpbusd(1, 6, 7);
        _tile_loadd(7, weights + 2 * LANES * 4, WEIGHT_ROW);
        _tile_dpbusd(2, 6, 7);
        _tile_loadd(6, second, DIGITS_STEP);
        _tile_dpbusd(5, 6, 7);
        _tile_loadd(7, weights + LANES * 4, WEIGHT_ROW);
        _tile_dpbusd(4, 6, 7);
        _tile_loadd(7, weights, WEIGHT_ROW);
        _tile_dpbusd(3, 6, 7);
        x += DIGITS_TILE_BYTES;
        second += DIGITS_TILE_BYTES;
        weights += AMX_ROWS * WEIGHT_ROW;
    }
    _tile_stored(0, to, SUMS_ROW);
    _tile_stored(1, to + LANES * 4, SUMS_ROW);
    _tile_stored(2, to + 2 * LANES * 4, SUMS_ROW);
    _tile_stored(3, to_second, SUMS_ROW);
    _tile_stored(4, to_second + LANES * 4, SUMS_ROW);
    _tile_stored(5, to_second + 2 * LANES * 4, SUMS_ROW);
    MEMORY_IS_WRITTEN();
}

/* ---- results --------------------------------------------------------------------------------- */

/* What the results of a group need. */
struct group {
    __mmask16 columns;
    __m512 scale, bias;
    __m512i offset[DIGITS];
};

static struct group group_of(const struct digits_linear *task, int64_t number)
{
    struct group group = {.columns = mask_of(task->out - number * LANES),
                          .scale = _mm512_load_ps(task->scale + number * LANES),
                          .bias = _mm512_setzero_ps()};

    if (task->bias)
        group.bias = _mm512_maskz_loadu_ps(group.columns, task->bias + number * LANES);
    for (int d = 0; task->offset && d < DIGITS; d++)
        group.offset[d] = _mm512_load_si512(task->offset + (number * DIGITS + d) * LANES);
    return group;
}

static ALWAYS_INLINE void store_results(const struct digits_linear *task, const struct group *group,
                                        __m512 y, float *to)
{
    if (task->adds)
        y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(group->columns, to));
    if (task->relu) /* a NaN stays, as the second operand */
        y = _mm512_max_ps(_mm512_setzero_ps(), y);
    _mm512_mask_storeu_ps(to, group->columns, y);
}

static ALWAYS_INLINE __m512 sum_at(const row_sums sums, int number)
{
    return _mm512_cvtepi32_ps(_mm512_load_si512(sums[number]));
}

/* The sums count 2^32, 2^24, 2^16 and 2^8 products of the lowest digits. */
static void finish_digits(const struct digits_linear *task, const struct group *group, int64_t row,
                          int64_t rows, const row_sums *sums, float *to)
{
    const __m512 base = _mm512_set1_ps(DIGITS_BASE);

    for (int64_t r = 0; r < rows; r++, to += task->y_row) {
        __m512 y = _mm512_fmadd_ps(sum_at(sums[r], 0), base, sum_at(sums[r], 1));

        y = _mm512_fmadd_ps(y, base, sum_at(sums[r], 2));
        y = _mm512_fmadd_ps(y, base, sum_at(sums[r], 3));
        /* the row's factor first: the product of both could be too small for float32 */
        y = _mm512_mul_ps(y, _mm512_mul_ps(base, _mm512_set1_ps(task->x_scale[row + r])));
        store_results(task, group, _mm512_fmadd_ps(y, group->scale, group->bias), to);
    }
}

void KERNEL_NAME(digits_linear)(const struct digits_linear *task, int64_t rows)
{
    _Alignas(64) row_sums sums[AMX_ROWS];
    int64_t block = task->steps * DIGITS * DIGITS_TILE_BYTES;

    amx_begin_whole_tiles();
    for (int64_t number = 0; number * LANES < task->out; number++) {
        struct group group = group_of(task, number);

        for (int64_t row = 0; row < rows; row += AMX_ROWS) {
            multiply_digits((const int8_t *)task->x + row / AMX_ROWS * block,
                            task->weights + number * task->steps * AMX_ROWS * WEIGHT_ROW,
                            task->steps, sums);
            finish_digits(task, &group, row, rows - row < AMX_ROWS ? rows - row : AMX_ROWS,
                          (const row_sums *)sums, task->y + row * task->y_row + number * LANES);
        }
    }
    amx_end_whole_tiles();
}

static void finish_bytes(const struct digits_linear *task, const struct group *group, int64_t rows,
                         const row_sums *sums, float *to)
{
    const __m512 base = _mm512_set1_ps(DIGITS_BASE);

    for (int64_t r = 0; r < rows; r++, to += task->y_row) {
        __m512 digit[DIGITS], y;

        /* integers up to here: what cancels leaves no rounding error */
        for (int d = 0; d < DIGITS; d++)
            digit[d] = _mm512_cvtepi32_ps(
                _mm512_sub_epi32(_mm512_load_si512(sums[r][d]), group->offset[d]));
        y = _mm512_fmadd_ps(_mm512_fmadd_ps(digit[0], base, digit[1]), base, digit[2]);
        store_results(task, group, _mm512_fmadd_ps(y, group->scale, group->bias), to);
    }
}

void KERNEL_NAME(bytes_linear)(const struct digits_linear *task, int64_t rows)
{
    _Alignas(64) row_sums sums[BYTES_ROWS];

    amx_begin_whole_tiles();
    for (int64_t number = 0; number * LANES < task->out; number++) {
        struct group group = group_of(task, number);

        for (int64_t row = 0; row < rows; row += BYTES_ROWS) {
            multiply_bytes((const uint8_t *)task->x + row * task->steps * DIGITS_STEP,
                           task->weights + number * task->steps * AMX_ROWS * WEIGHT_ROW,
                           task->steps, sums);
            finish_bytes(task, &group, rows - row < BYTES_ROWS ? rows - row : BYTES_ROWS,
                         (const row_sums *)sums, task->y + row * task->y_row + number * LANES);
        }
    }
    amx_end_whole_tiles();
}

#endif
