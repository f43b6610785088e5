/* bytes.c: see bytes.h. With AMX two tiles of rows are multiplied together: six tiles are sums. */
#include "engine/backends/cpu/kernels/bytes.h"

#include "engine/backends/cpu/kernels/amx_product.h"
#include "engine/backends/cpu/kernels/int8_product.h"
#include "engine/backends/cpu/kernels/kernels.h"

/* The results of a row and a group, of which the layer has `columns`. */
static ALWAYS_INLINE void finish_row(const struct bytes_linear *task, int64_t group,
                                     int64_t columns, sums high, sums middle, sums low, float *to)
{
    const sums *offset = (const sums *)(const void *)task->offset + group * BYTES_DIGITS;
    floats scale = ((const floats *)(const void *)task->scale)[group], bias = {0}, y;

    if (task->bias)
        memcpy(&bias, task->bias + group * INT8_LANES, (size_t)columns * sizeof *to);
    /* integers up to here: what cancels leaves no rounding error */
    y = __builtin_convertvector(low - offset[2], floats);
    y += __builtin_convertvector(middle - offset[1], floats) * (float)BYTES_BASE;
    y += __builtin_convertvector(high - offset[0], floats) * (float)(BYTES_BASE * BYTES_BASE);
    y = y * scale + bias;
    if (task->relu) /* NaN stays */
        y = (floats)((sums)y & ~(y < 0.0f));
    memcpy(to, &y, (size_t)columns * sizeof *to);
}

static ALWAYS_INLINE void finish_rows(const struct bytes_linear *task, int64_t rows, int64_t group,
                                      int64_t columns, const sums (*sum)[INT8_VECTORS_MAX],
                                      float *to)
{
    for (int64_t r = 0; r < rows; r++, to += task->y_row)
        finish_row(task, group, columns, sum[r][0], sum[r][1], sum[r][2], to);
}

/* Results of a group, most of which has all of its columns. */
static void finish(const struct bytes_linear *task, int64_t rows, int64_t row, int64_t group,
                   const sums (*sum)[INT8_VECTORS_MAX])
{
    int64_t columns = task->packing.hidden - group * INT8_LANES;
    float *to = task->y + row * task->y_row + group * INT8_LANES;

    if (columns >= INT8_LANES)
        finish_rows(task, rows, group, INT8_LANES, sum, to);
    else
        finish_rows(task, rows, group, columns, sum, to);
}

static const int8_t *digits_of(const struct bytes_linear *task, int64_t group)
{
    return task->digits + (size_t)group * int8_packing_group_bytes(&task->packing);
}

/* INT8_ROWS rows; `rows` of them are wanted. */
static ALWAYS_INLINE void multiply_vectors(const struct bytes_linear *task, const bool vnni,
                                           int64_t rows, int64_t row, int64_t group)
{
    sums sum[INT8_ROWS][INT8_VECTORS_MAX];

    multiply_rows(INT8_ROWS, BYTES_DIGITS, vnni, task->x + row * task->x_row, task->x_row,
                  digits_of(task, group), int8_packing_steps(&task->packing), sum);
    finish(task, rows, row, group, (const sums(*)[INT8_VECTORS_MAX])sum);
}

static void multiply_plain(const struct bytes_linear *task, int64_t rows, int64_t row,
                           int64_t group)
{
    multiply_vectors(task, false, rows, row, group);
}

static void multiply_vnni(const struct bytes_linear *task, int64_t rows, int64_t row, int64_t group)
{
    multiply_vectors(task, true, rows, row, group);
}

static void linear_vectors(const struct bytes_linear *task, int64_t rows, int64_t first_group,
                           int64_t end_group)
{
    for (int64_t group = first_group; group < end_group; group++)
        for (int64_t row = 0; row < rows; row += INT8_ROWS) {
            int64_t count = rows - row < INT8_ROWS ? rows - row : INT8_ROWS;

            if (task->instructions == INT8_WORDS)
                multiply_plain(task, count, row, group);
            else
                multiply_vnni(task, count, row, group);
        }
}

static void linear_tiles(const struct bytes_linear *task, int64_t rows, int64_t first_group,
                         int64_t end_group)
{
    _Alignas(64) sums sum[BYTES_ROWS][INT8_VECTORS_MAX];
    struct amx_tiles tiles = {0};

    for (int64_t group = first_group; group < end_group; group++)
        for (int64_t row = 0; row < rows; row += BYTES_ROWS) {
            int64_t count = rows - row < BYTES_ROWS ? rows - row : BYTES_ROWS;

            KERNEL_NAME(amx_multiply_digits)
            (&tiles, task->x + row * task->x_row, task->x_row, digits_of(task, group),
             int8_packing_steps(&task->packing), (int32_t *)(void *)sum);
            finish(task, count, row, group, (const sums(*)[INT8_VECTORS_MAX])sum);
        }
    KERNEL_NAME(amx_end_tiles)(&tiles);
}

void KERNEL_NAME(bytes_linear)(const struct bytes_linear *task, int64_t rows, int64_t first_group,
                               int64_t end_group)
{
    if (task->instructions == INT8_AMX)
        linear_tiles(task, rows, first_group, end_group);
    else
        linear_vectors(task, rows, first_group, end_group);
}
