/* operator_linear_digits.c: linear layers of float32 numbers by integers (kernels/digits.h), where
 * the weights stay as they were written. A task packs some of its rows at a time. */
#include "engine/backends/cpu/operator_linear_digits.h"

#include "base/alignment.h"
#include "engine/graph/operator.h"

#include <stdlib.h>

/* Packed rows of a task, which stay in the cache of a core while all weights pass by. */
enum { BLOCK_BYTES = 768 * 1024, BLOCK_ROWS_MOST = 256 };

/* The least sizes for which the products save more than packing the rows takes. */
enum { OUT_LEAST = 128, DEPTH_LEAST = 128, ROWS_LEAST = AMX_ROWS };

struct linear_digits {
    struct digit_weights weights;
    int64_t block; /* rows that are packed at a time */
    bool fits;     /* the weights can be integers */
};

bool linear_digits_pay(const struct backend_program *program, int64_t rows, int64_t out,
                       int64_t depth)
{
    return program->graph->constant_weights && program->device->int8 == INT8_AMX &&
           rows >= ROWS_LEAST && out >= OUT_LEAST && depth >= DEPTH_LEAST &&
           depth <= DIGITS_DEPTH_MOST;
}

int linear_digits_create(struct backend_program *program, int64_t out, int64_t depth,
                         struct linear_digits **digits, struct error *error)
{
    struct linear_digits *created = calloc(1, sizeof *created);
    int64_t rows = BLOCK_BYTES / (int64_t)digits_rows_bytes(1, depth, DIGITS) * AMX_ROWS;
    int r;

    if (!created)
        return error_no_memory(error, "a linear layer");
    created->block = rows > BLOCK_ROWS_MOST ? BLOCK_ROWS_MOST : rows < AMX_ROWS ? AMX_ROWS : rows;
    r = digit_weights_create(out, depth, &created->weights, error);
    if (r < 0) {
        free(created);
        return r;
    }
    program_reserve_scratch(program,
                            align_up((size_t)created->block * sizeof(float), MEMORY_ALIGNMENT) +
                                digits_rows_bytes(created->block, depth, DIGITS));
    *digits = created;
    return 0;
}

void linear_digits_free(struct linear_digits *digits)
{
    if (digits)
        digit_weights_release(&digits->weights);
    free(digits);
}

void linear_digits_refresh(struct linear_digits *digits, const float *weights)
{
    digits->fits = digit_weights_write(&digits->weights, weights);
}

bool linear_digits_run(const struct backend_program *program, const struct linear_digits *digits,
                       const struct linear_rows *rows, char *scratch)
{
    const struct kernels *kernels = program->device->kernels;
    int64_t depth = digits->weights.depth;
    float *scale = (float *)(void *)scratch;
    int8_t *packed =
        (int8_t *)scratch + align_up((size_t)digits->block * sizeof *scale, MEMORY_ALIGNMENT);
    struct digits_linear product = {.steps = digits_steps(depth),
                                    .out = digits->weights.out,
                                    .x = packed,
                                    .x_scale = scale,
                                    .weights = digits->weights.digits,
                                    .scale = digits->weights.scale,
                                    .bias = rows->bias,
                                    .y_row = digits->weights.out,
                                    .relu = rows->relu};

    for (int64_t row = 0, count; row < rows->count; row += count) {
        count = rows->count - row < digits->block ? rows->count - row : digits->block;
        if (!digits->fits ||
            !kernels->digits_pack_rows(rows->x + row * depth, digits->weights.balance, count, depth,
                                       packed, scale))
            return false;
        product.y = rows->y + row * product.y_row;
        kernels->digits_linear(&product, count);
    }
    return true;
}
