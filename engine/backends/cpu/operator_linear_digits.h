/* operator_linear_digits.h: within this folder: another way to compute a linear layer, which
 * operator_linear.c takes where it can. */
#pragma once

#include "engine/backends/cpu/digit_weights.h"
#include "engine/backends/cpu/program.h"

struct linear_digits;

/* Rows [count][depth] and their results [count][out]. */
struct linear_rows {
    const float *x, *bias; /* bias NULL: none */
    float *y;
    int64_t count;
    bool relu;
};

/* Whether the way is open, and faster, for tasks with so many rows. */
bool linear_digits_pay(const struct backend_program *program, int64_t rows, int64_t out,
                       int64_t depth);
/* The caller frees it with linear_digits_free() (NULL allowed). Reserves scratch. */
int linear_digits_create(struct backend_program *program, int64_t out, int64_t depth,
                         struct linear_digits **digits, struct error *error);
void linear_digits_free(struct linear_digits *digits);
/* Takes the weights [out][depth] over, whenever they were written. */
void linear_digits_refresh(struct linear_digits *digits, const float *weights);
/* false: the rows or the weights cannot be integers, and the results have to be computed in another
 * way. */
bool linear_digits_run(const struct backend_program *program, const struct linear_digits *digits,
                       const struct linear_rows *rows, char *scratch);
