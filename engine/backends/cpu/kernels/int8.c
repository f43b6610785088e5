/* int8.c: see int8.h. With AVX512_VNNI an instruction multiplies 64 pairs of numbers and adds each
 * four products to a sum; with AMX it multiplies tiles of 16 rows. Elsewhere even and odd numbers
 * are multiplied apart, as 16 bits. */
#include "engine/backends/cpu/kernels/int8.h"

#include "engine/backends/cpu/kernels/amx_product.h"
#include "engine/backends/cpu/kernels/kernels.h"
#include "engine/backends/cpu/kernels/vector.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* All functions are inlined, so that no register is passed to one. */
#pragma GCC diagnostic ignored "-Wpsabi"

/* Rows that are multiplied together, with up to four vectors of columns. */
enum { ROWS = REGISTERS == 32 ? 6 : 2 };

/* From which depth on AMX is the faster way: sums have to be handed over through memory. 48 rows
 * and 1,024 columns in the cache: 1.1 times as fast as AVX512_VNNI with 64 products to a sum, 1.6
 * with 128, 2.5 with 1,024; where the results go to memory, 0.9 with 64 (Xeon with AMX, 2026). */
enum { AMX_DEPTH_LEAST = 128 };

typedef int32_t sums __attribute__((vector_size(INT8_LANES * 4), may_alias));
typedef int16_t words __attribute__((vector_size(INT8_LANES * 4), may_alias));
typedef uint8_t bytes __attribute__((vector_size(INT8_LANES), may_alias));
typedef float floats __attribute__((vector_size(INT8_LANES * 4), may_alias));
typedef float floats_anywhere __attribute__((vector_size(INT8_LANES * 4), may_alias, aligned(4)));

/* ---- weights --------------------------------------------------------------------------------- */

/* The row of the weights at a place of a group; -1: there is none. */
static int64_t row_at(const struct int8_packing *packing, int64_t group, int number, int64_t lane)
{
    int64_t unit = group * INT8_LANES + lane, row;

    if (packing->hidden)
        return unit < packing->hidden ? number * packing->hidden + unit : -1;
    row = (group * packing->vectors + number) * INT8_LANES + lane;
    return row < packing->rows ? row : -1;
}

static int8_t *packed_place(const struct int8_packing *packing, int8_t *packed, int64_t group,
                            int number, int64_t lane, int64_t k)
{
    return packed + (size_t)group * int8_packing_group_bytes(packing) +
           ((k / 4 * packing->vectors + number) * INT8_LANES + lane) * 4 + k % 4;
}

static void pack_row(const struct int8_packing *packing, const int8_t *weights, int8_t *packed,
                     int64_t group, int number, int64_t lane)
{
    int64_t row = row_at(packing, group, number, lane);
    int32_t sum = 0;

    for (int64_t k = 0; k < 4 * int8_packing_steps(packing); k++) {
        int8_t value = row >= 0 && k < packing->depth ? weights[row * packing->depth + k] : 0;

        *packed_place(packing, packed, group, number, lane, k) = value;
        sum += value;
    }
    memcpy(packed + int8_packing_sums(packing) +
               (size_t)((group * packing->vectors + number) * INT8_LANES + lane) * sizeof sum,
           &sum, sizeof sum);
}

void KERNEL_NAME(int8_pack)(const struct int8_packing *packing, const int8_t *weights,
                            int8_t *packed)
{
    for (int64_t group = 0; group < packing->groups; group++)
        for (int number = 0; number < packing->vectors; number++)
            for (int64_t lane = 0; lane < INT8_LANES; lane++)
                pack_row(packing, weights, packed, group, number, lane);
}

void KERNEL_NAME(int8_unpack)(const struct int8_packing *packing, const int8_t *packed,
                              int8_t *weights)
{
    for (int64_t group = 0; group < packing->groups; group++)
        for (int number = 0; number < packing->vectors; number++)
            for (int64_t lane = 0; lane < INT8_LANES; lane++) {
                int64_t row = row_at(packing, group, number, lane);

                for (int64_t k = 0; row >= 0 && k < packing->depth; k++)
                    weights[row * packing->depth + k] =
                        *packed_place(packing, (int8_t *)packed, group, number, lane, k);
            }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Adding it leaves the rounded integer in the low bits: 1.5 · 2^23. */
static const float round_number = 12582912.0f;

static ALWAYS_INLINE floats load_part(const float *from, int64_t count)
{
    floats value = {0};

    for (int64_t i = 0; i < count; i++)
        value[i] = from[i];
    return value;
}

static ALWAYS_INLINE floats load_floats(const float *from, int64_t count)
{
    return count >= INT8_LANES ? *(const floats_anywhere *)from : load_part(from, count);
}

static ALWAYS_INLINE floats choose(sums mask, floats yes, floats no)
{
    return (floats)(((sums)yes & mask) | ((sums)no & ~mask));
}

struct range_lanes {
    floats low, high, odd;
};

static ALWAYS_INLINE void range_add(struct range_lanes *range, floats value)
{
    range->low = choose(value < range->low, value, range->low);
    range->high = choose(value > range->high, value, range->high);
    range->odd += value - value;
}

/* Each lane gets the number that is so many lanes further. */
#define TURN(value, by)                                                                           \
    __builtin_shufflevector(value, value, (by), (by) + 1, (by) + 2, (by) + 3, (by) + 4, (by) + 5, \
                            (by) + 6, (by) + 7, (by) + 8, (by) + 9, (by) + 10, (by) + 11,         \
                            (by) + 12, (by) + 13, (by) + 14, (by) + 15)
#define FOLD(range, by)                              \
    do {                                             \
        range_add(&(range), TURN((range).low, by));  \
        range_add(&(range), TURN((range).high, by)); \
        (range).odd += TURN((range).odd, by);        \
    } while (0)

/* The least and largest number, and 0; `*odd` is 0, or NaN if a number is not finite. */
static ALWAYS_INLINE void find_range(const float *x, int64_t count, float *least, float *largest,
                                     float *odd)
{
    struct range_lanes even = {0}, other = {0};
    int64_t i = 0;

    for (; i + 2 * INT8_LANES <= count; i += 2 * INT8_LANES) {
        range_add(&even, *(const floats_anywhere *)(x + i));
        range_add(&other, *(const floats_anywhere *)(x + i + INT8_LANES));
    }
    for (; i + INT8_LANES <= count; i += INT8_LANES)
        range_add(&even, *(const floats_anywhere *)(x + i));
    if (i < count)
        range_add(&even, load_part(x + i, count - i));
    range_add(&even, other.low);
    range_add(&even, other.high);
    even.odd += other.odd;
    FOLD(even, 8);
    FOLD(even, 4);
    FOLD(even, 2);
    FOLD(even, 1);
    *least = even.low[0];
    *largest = even.high[0];
    *odd = even.odd[0];
}

/* value = x factor + offset, rounded and limited to 0 … 255. NaN becomes 0. */
static ALWAYS_INLINE bytes quantize_vector(floats x, float factor, float offset)
{
    floats value = x * factor + offset;

    value = choose(value < 255.0f, value, (floats){0} + 255.0f);
    value = choose(value > 0.0f, value, (floats){0});
    return __builtin_convertvector((sums)(value + round_number) & 0xff, bytes);
}

static ALWAYS_INLINE void quantize(const float *x, int64_t count, float factor, float offset,
                                   uint8_t *values)
{
    int64_t i = 0;

    for (; i + INT8_LANES <= count; i += INT8_LANES) {
        bytes value = quantize_vector(*(const floats_anywhere *)(x + i), factor, offset);

        memcpy(values + i, &value, sizeof value);
    }
    if (i < count) {
        bytes value = quantize_vector(load_part(x + i, count - i), factor, offset);

        memcpy(values + i, &value, (size_t)(count - i));
    }
}

void KERNEL_NAME(int8_quantize_rows)(const float *x, int64_t x_row, int64_t rows, int64_t depth,
                                     const struct int8_rows *quantized)
{
    for (int64_t r = 0; r < rows; r++, x += x_row) {
        uint8_t *values = quantized->values + r * quantized->row;
        float least, largest, odd, scale, zero;

        find_range(x, depth, &least, &largest, &odd);
        scale = (largest - least) * (1.0f / 255.0f);
        scale = scale > 0.0f ? scale : 1.0f; /* a row of zeros */
        zero = (-least / scale + round_number) - round_number;
        quantize(x, depth, 1.0f / scale, zero, values);
        /* the weights of what is behind are 0 */
        for (int64_t i = depth; i < quantized->row; i++)
            values[i] = 0;
        quantized->scale[r] = scale + odd;
        /* of a row that is not finite any will do: its scale is not finite either */
        quantized->zero[r] = zero >= 0.0f && zero <= 255.0f ? (int32_t)zero : 0;
    }
}

void KERNEL_NAME(int8_quantize_state)(const float *x, int64_t count, uint8_t *quantized)
{
    if (count == INT8_LANES)
        quantize(x, INT8_LANES, INT8_STATE_RANGE, INT8_STATE_ZERO, quantized);
    else
        quantize(x, count, INT8_STATE_RANGE, INT8_STATE_ZERO, quantized);
}

/* ---- product --------------------------------------------------------------------------------- */

/* Four numbers of a row, in each lane. */
static ALWAYS_INLINE sums load_four(const uint8_t *from)
{
    int32_t four;

    memcpy(&four, from, sizeof four);
    return (sums){0} + four;
}

#if defined(__AVX512F__)
static ALWAYS_INLINE sums add_products_vnni(sums sum, sums a, sums b)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
}
#endif

/* The sums of each two products. */
static ALWAYS_INLINE sums multiply_words(sums a, sums b)
{
#if defined(__AVX512BW__)
    return (sums)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    __m256i left[2], right[2], result[2];
    sums product;

    memcpy(left, &a, sizeof left);
    memcpy(right, &b, sizeof right);
    for (int i = 0; i < 2; i++)
        result[i] = _mm256_madd_epi16(left[i], right[i]);
    memcpy(&product, result, sizeof product);
    return product;
#else
    /* a product of an unsigned and a signed number of 8 bits fits 16 bits */
    sums product = (sums)((words)a * (words)b);

    return (product << 16 >> 16) + (product >> 16);
#endif
}

/* Adds in each lane the products of four unsigned numbers of a and four signed ones of b. */
static ALWAYS_INLINE sums add_products(sums sum, sums a, sums b)
{
    sums even = (sums)((words)b << 8 >> 8), odd = (sums)((words)b >> 8);
    sums a_odd = (sums)((words)((words)a >> 8) & 0xff);

    return sum + multiply_words(a & 0x00ff00ff, even) + multiply_words(a_odd, odd);
}

static ALWAYS_INLINE void multiply(const int rows, const int vectors, const bool vnni,
                                   const uint8_t *a, int64_t a_row, const int8_t *b, int64_t steps,
                                   sums sum[ROWS][INT8_VECTORS_MAX])
{
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            sum[r][v] = (sums){0};
    for (int64_t k = 0; k < steps; k++, a += 4, b += vectors * INT8_LANES * 4) {
        sums factor[INT8_VECTORS_MAX];

#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            factor[v] = *(const sums *)(const void *)(b + v * INT8_LANES * 4);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            sums four = load_four(a + r * a_row);

#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
#if defined(__AVX512F__)
                sum[r][v] = vnni ? add_products_vnni(sum[r][v], four, factor[v])
                                 : add_products(sum[r][v], four, factor[v]);
#else
                sum[r][v] = add_products(sum[r][v], four, factor[v]);
#endif
        }
    }
    (void)vnni;
}

/* What became of the rows' products: y of a vector, whose first lane is this row of the weights, of
 * which it has `columns`. */
static ALWAYS_INLINE void finish_vector(const struct int8_linear *task, const int rows, int64_t row,
                                        int64_t column, int64_t columns,
                                        sums sum[][INT8_VECTORS_MAX], const int number, sums total,
                                        float *to)
{
    floats scale = load_floats(task->scale + column, columns);
    floats bias = task->bias ? load_floats(task->bias + column, columns) : (floats){0};

#pragma GCC unroll 8
    for (int r = 0; r < rows; r++, to += task->y_row) {
        sums product = sum[r][number] - total * task->x.zero[row + r];
        floats y = __builtin_convertvector(product, floats) * (scale * task->x.scale[row + r]);

        y += bias;
        if (task->relu) /* NaN stays */
            y = (floats)((sums)y & ~(y < 0.0f));
        if (columns >= INT8_LANES)
            memcpy(to, &y, sizeof y);
        else
            for (int64_t i = 0; i < columns; i++)
                to[i] = y[i];
    }
}

/* The sums of the weights of each column of a group. */
static ALWAYS_INLINE const sums *totals_of(const struct int8_packing *packing,
                                           const int8_t *weights, int64_t group)
{
    return (const sums *)(const void *)(weights + int8_packing_sums(packing)) +
           group * packing->vectors;
}

static ALWAYS_INLINE void finish_linear(const struct int8_linear *task, const int rows,
                                        const int vectors, int64_t row, int64_t group,
                                        sums sum[][INT8_VECTORS_MAX])
{
    const sums *totals = totals_of(&task->packing, task->weights, group);
    float *to = task->y + row * task->y_row + group * task->y_group;
    int64_t hidden = task->packing.hidden;

#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++, to += task->y_vector) {
        int64_t unit = group * INT8_LANES;
        int64_t column = hidden ? v * hidden + unit : (group * vectors + v) * INT8_LANES;
        int64_t columns = hidden ? hidden - unit : task->packing.rows - column;

        if (columns > 0)
            finish_vector(task, rows, row, column, columns, sum, v, totals[v], to);
    }
}

static ALWAYS_INLINE void linear_tile(const struct int8_linear *task, const int rows,
                                      const int vectors, const bool vnni, int64_t row,
                                      int64_t group)
{
    const struct int8_packing *packing = &task->packing;
    sums sum[ROWS][INT8_VECTORS_MAX];

    multiply(rows, vectors, vnni, task->x.values + row * task->x.row, task->x.row,
             task->weights + (size_t)group * int8_packing_group_bytes(packing),
             int8_packing_steps(packing), sum);
    finish_linear(task, rows, vectors, row, group, sum);
}

static ALWAYS_INLINE void finish_state(const struct int8_state *state, const int rows,
                                       const int vectors, int64_t group,
                                       sums sum[][INT8_VECTORS_MAX], float *to, int64_t to_row)
{
    const sums *totals = totals_of(&state->packing, state->weights, group);
    const floats *scale = (const floats *)(const void *)state->scale + group * vectors;

#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            floats y = __builtin_convertvector(sum[r][v] - totals[v] * INT8_STATE_ZERO, floats);

            y *= scale[v];
            memcpy(to + r * to_row + v * INT8_LANES, &y, sizeof y);
        }
}

static ALWAYS_INLINE void state_tile(const struct int8_state *state, const int rows,
                                     const int vectors, const bool vnni, int64_t row, int64_t group,
                                     float *to, int64_t to_row)
{
    const struct int8_packing *packing = &state->packing;
    sums sum[ROWS][INT8_VECTORS_MAX];

    multiply(rows, vectors, vnni, state->before + row * state->row, state->row,
             state->weights + (size_t)group * int8_packing_group_bytes(packing),
             int8_packing_steps(packing), sum);
    finish_state(state, rows, vectors, group, sum, to, to_row);
}

/* Calls function(…, rows, vectors, vnni, …) with constants, so that the sums stay in registers. */
#define WITH_VECTORS(function, first, rows, vectors, vnni, ...) \
    switch (vectors) {                                          \
    case 1:                                                     \
        function(first, rows, 1, vnni, __VA_ARGS__);            \
        break;                                                  \
    case 2:                                                     \
        function(first, rows, 2, vnni, __VA_ARGS__);            \
        break;                                                  \
    case 3:                                                     \
        function(first, rows, 3, vnni, __VA_ARGS__);            \
        break;                                                  \
    default:                                                    \
        function(first, rows, 4, vnni, __VA_ARGS__);            \
    }
#if defined(__AVX512F__)
#define WITH_CONSTANTS(function, first, rows, vectors, vnni, ...)           \
    switch (rows) {                                                         \
    case 1:                                                                 \
        WITH_VECTORS(function, first, 1, vectors, vnni, __VA_ARGS__) break; \
    case 2:                                                                 \
        WITH_VECTORS(function, first, 2, vectors, vnni, __VA_ARGS__) break; \
    case 3:                                                                 \
        WITH_VECTORS(function, first, 3, vectors, vnni, __VA_ARGS__) break; \
    case 4:                                                                 \
        WITH_VECTORS(function, first, 4, vectors, vnni, __VA_ARGS__) break; \
    case 5:                                                                 \
        WITH_VECTORS(function, first, 5, vectors, vnni, __VA_ARGS__) break; \
    default:                                                                \
        WITH_VECTORS(function, first, 6, vectors, vnni, __VA_ARGS__)        \
    }
#else
#define WITH_CONSTANTS(function, first, rows, vectors, vnni, ...)           \
    switch (rows) {                                                         \
    case 1:                                                                 \
        WITH_VECTORS(function, first, 1, vectors, vnni, __VA_ARGS__) break; \
    default:                                                                \
        WITH_VECTORS(function, first, 2, vectors, vnni, __VA_ARGS__)        \
    }
#endif

static void linear_rows_vnni(const struct int8_linear *task, int64_t rows, int64_t row,
                             int64_t group)
{
    WITH_CONSTANTS(linear_tile, task, rows, task->packing.vectors, true, row, group)
}

static void linear_rows_plain(const struct int8_linear *task, int64_t rows, int64_t row,
                              int64_t group)
{
    WITH_CONSTANTS(linear_tile, task, rows, task->packing.vectors, false, row, group)
}

static void state_rows_vnni(const struct int8_state *state, int64_t rows, int64_t row,
                            int64_t group, float *to, int64_t to_row)
{
    WITH_CONSTANTS(state_tile, state, rows, state->packing.vectors, true, row, group, to, to_row)
}

static void state_rows_plain(const struct int8_state *state, int64_t rows, int64_t row,
                             int64_t group, float *to, int64_t to_row)
{
    WITH_CONSTANTS(state_tile, state, rows, state->packing.vectors, false, row, group, to, to_row)
}

#if defined(__AVX512F__)

static void linear_rows_amx(const struct int8_linear *task, int64_t rows, int64_t row,
                            int64_t group, struct amx_tiles *tiles)
{
    const struct int8_packing *packing = &task->packing;
    sums sum[AMX_ROWS][INT8_VECTORS_MAX];

    KERNEL_NAME(amx_multiply_int8)
    (tiles, rows, packing->vectors, task->x.values + row * task->x.row, task->x.row,
     task->weights + (size_t)group * int8_packing_group_bytes(packing), int8_packing_steps(packing),
     (int32_t *)(void *)sum);
    for (int64_t r = 0; r < rows; r++)
        finish_linear(task, 1, packing->vectors, row + r, group, sum + r);
}

static void state_rows_amx(const struct int8_state *state, int64_t rows, int64_t row, int64_t group,
                           float *to, int64_t to_row, struct amx_tiles *tiles)
{
    const struct int8_packing *packing = &state->packing;
    sums sum[AMX_ROWS][INT8_VECTORS_MAX];

    KERNEL_NAME(amx_multiply_int8)
    (tiles, rows, packing->vectors, state->before + row * state->row, state->row,
     state->weights + (size_t)group * int8_packing_group_bytes(packing),
     int8_packing_steps(packing), (int32_t *)(void *)sum);
    for (int64_t r = 0; r < rows; r++)
        finish_state(state, 1, packing->vectors, group, sum + r, to + r * to_row, to_row);
}

#endif

/* How many of the rows from `row` to `end` are multiplied together, as equal parts as possible. By
 * AMX it is a tile of them, or what the registers for vectors cannot hold at once. */
static int64_t rows_together(enum int8_instructions instructions,
                             const struct int8_packing *packing, int64_t row, int64_t end)
{
    int64_t left = end - row, parts = (left + ROWS - 1) / ROWS;

#if defined(__AVX512F__)
    if (instructions == INT8_AMX && left > ROWS && packing->depth >= AMX_DEPTH_LEAST)
        return left < AMX_ROWS ? left : AMX_ROWS;
#endif
    (void)instructions;
    (void)packing;
    return (left + parts - 1) / parts;
}

static void linear_rows(const struct int8_linear *task, int64_t rows, int64_t row, int64_t group,
                        struct amx_tiles *tiles)
{
#if defined(__AVX512F__)
    if (rows > ROWS) {
        linear_rows_amx(task, rows, row, group, tiles);
        return;
    }
#endif
    (task->instructions == INT8_WORDS ? linear_rows_plain : linear_rows_vnni)(task, rows, row,
                                                                              group);
    (void)tiles;
}

static void state_rows(const struct int8_state *state, int64_t rows, int64_t row, int64_t group,
                       float *to, int64_t to_row, struct amx_tiles *tiles)
{
#if defined(__AVX512F__)
    if (rows > ROWS) {
        state_rows_amx(state, rows, row, group, to, to_row, tiles);
        return;
    }
#endif
    (state->instructions == INT8_WORDS ? state_rows_plain : state_rows_vnni)(state, rows, row,
                                                                             group, to, to_row);
    (void)tiles;
}

void KERNEL_NAME(int8_linear)(const struct int8_linear *task, int64_t rows, int64_t first_group,
                              int64_t end_group)
{
    struct amx_tiles tiles = {0};

    for (int64_t group = first_group; group < end_group; group++)
        for (int64_t row = 0, count; row < rows; row += count) {
            count = rows_together(task->instructions, &task->packing, row, rows);
            linear_rows(task, count, row, group, &tiles);
        }
    KERNEL_NAME(amx_end_tiles)(&tiles);
}

void KERNEL_NAME(int8_multiply_state)(const struct int8_state *state, int64_t row, int64_t rows,
                                      int64_t group, float *to, int64_t to_row,
                                      struct amx_tiles *tiles)
{
    for (int64_t end = row + rows, count; row < end; row += count, to += count * to_row) {
        count = rows_together(state->instructions, &state->packing, row, end);
        state_rows(state, count, row, group, to, to_row, tiles);
    }
}
