/* digit_weights.c: see digit_weights.h. */
#include "engine/backends/cpu/digit_weights.h"

#include "base/alignment.h"
#include "engine/graph/memory_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Exponents of the balance, of either sign: what differs less does so by chance. */
enum { BALANCE_LEAST = 4, BALANCE_MOST = 100 };

/* The factor of a row whose largest number is less would leave float32's range. */
static const double ROW_LEAST = DIGITS_MOST * (double)__FLT_MIN__;

int digit_weights_create(int64_t out, int64_t depth, struct digit_weights *weights,
                         struct error *error)
{
    int64_t padded = digits_steps(depth) * DIGITS_STEP;
    size_t groups, digits, offset, scale, all;

    *weights = (struct digit_weights){
        .out = out, .depth = depth, .packing = int8_packing_of(DIGITS * out, padded, DIGITS)};
    groups = (size_t)weights->packing.groups;
    digits = align_up(int8_packing_sums(&weights->packing), MEMORY_ALIGNMENT);
    offset = align_up(groups * DIGITS * INT8_LANES * sizeof(int32_t), MEMORY_ALIGNMENT);
    scale = align_up(groups * INT8_LANES * sizeof(float), MEMORY_ALIGNMENT);
    all = align_up(digits + offset + scale + (size_t)depth * sizeof(float), MEMORY_ALIGNMENT);
    weights->memory = aligned_alloc(MEMORY_ALIGNMENT, all);
    if (!weights->memory)
        return error_no_memory(error, "the weights of a linear layer");
    memset(weights->memory, 0, all);
    weights->digits = (int8_t *)weights->memory;
    weights->offset = (int32_t *)(void *)(weights->memory + digits);
    weights->scale = (float *)(void *)(weights->memory + digits + offset);
    weights->balance = (float *)(void *)(weights->memory + digits + offset + scale);
    return 0;
}

void digit_weights_release(struct digit_weights *weights)
{
    free(weights->memory);
    *weights = (struct digit_weights){0};
}

/* Takes the lowest digit off an integer. */
static int32_t take_digit(int32_t *integer)
{
    int32_t digit = ((*integer + DIGITS_BASE / 2) & (DIGITS_BASE - 1)) - DIGITS_BASE / 2;

    *integer = (*integer - digit) / DIGITS_BASE;
    return digit;
}

/* Where the highest digit of a weight is; the others follow in steps of DIGIT_STRIDE. */
enum { DIGIT_STRIDE = INT8_LANES * 4 };

static int8_t *digits_at(const struct digit_weights *weights, int64_t row, int64_t k)
{
    return weights->digits +
           (size_t)(row / INT8_LANES) * int8_packing_group_bytes(&weights->packing) +
           (k / 4 * DIGITS * INT8_LANES + row % INT8_LANES) * 4 + k % 4;
}

static void write_digits(const struct digit_weights *weights, int64_t row, int64_t k,
                         int32_t integer)
{
    int8_t *to = digits_at(weights, row, k);

    for (int d = DIGITS - 1; d >= 0; d--)
        to[d * DIGIT_STRIDE] = (int8_t)take_digit(&integer);
}

/* What the digits of a weight stand for. */
static double read_digits(const struct digit_weights *weights, int64_t row, int64_t k)
{
    const int8_t *from = digits_at(weights, row, k);
    int32_t integer = 0;

    for (int d = 0; d < DIGITS; d++)
        integer = integer * DIGITS_BASE + from[d * DIGIT_STRIDE];
    return (double)integer * weights->scale[row];
}

/* Divides what the mean of the bytes contributes among the digits. */
static void write_offset(const struct digit_weights *weights, int64_t row, double sum)
{
    int32_t *to = weights->offset + row / INT8_LANES * DIGITS * INT8_LANES + row % INT8_LANES;

    for (int d = 0; d < DIGITS; d++) {
        double base = pow(DIGITS_BASE, DIGITS - 1 - d), digit = rint(sum / base);

        to[d * INT8_LANES] = (int32_t)digit;
        sum -= digit * base;
    }
}

/* A row of weights that becomes integers. */
struct weight_row {
    int64_t number;
    const float *values;
    const float *factor; /* of the features; NULL: they are balanced */
    /* the digits of the same row whose rounding errors are written; NULL: the numbers are */
    const struct digit_weights *taken;
};

static double weight_at(const struct digit_weights *weights, const struct weight_row *row,
                        int64_t k)
{
    double weight = row->factor ? (double)row->values[k] * row->factor[k]
                                : (double)row->values[k] / weights->balance[k];

    return row->taken ? weight - read_digits(row->taken, row->number, k) : weight;
}

/* Writes a row, which has this largest number. */
static void write_row(const struct digit_weights *weights, const struct weight_row *row,
                      const float *mean, double most)
{
    /* times bytes, a smaller row is as good as 0 */
    double inverse = most >= ROW_LEAST ? DIGITS_MOST / most : 0, sum = 0;

    weights->scale[row->number] = inverse > 0 ? (float)(most / DIGITS_MOST) : 0;
    for (int64_t k = 0; k < weights->depth; k++) {
        int32_t integer = inverse > 0 ? (int32_t)lrint(weight_at(weights, row, k) * inverse) : 0;

        sum += mean ? (double)integer * mean[k] : 0;
        write_digits(weights, row->number, k, integer);
    }
    write_offset(weights, row->number, sum);
}

/* Writes a row that is not finite: of its weights the infinite ones alone count, so that the
 * results are infinite; with one that is no number they are none, either. A ReLU behind them could
 * take the latter for 0. */
static void write_infinite_row(const struct digit_weights *weights, const struct weight_row *row,
                               const float *mean)
{
    float scale = row->taken ? 0 : INFINITY;
    double sum = 0;

    for (int64_t k = 0; k < weights->depth; k++) {
        double weight = (double)row->values[k] * row->factor[k];
        int32_t integer = isinf(weight) ? (weight > 0 ? DIGITS_MOST : -DIGITS_MOST) : 0;

        sum += (double)integer * mean[k];
        write_digits(weights, row->number, k, integer);
        scale = isnan(weight) && !row->taken ? NAN : scale;
    }
    write_offset(weights, row->number, sum);
    weights->scale[row->number] = scale;
}

/* The means of the exponents of the weights other than 0 of INT8_LANES features, or of `count`;
 * NAN: there are none. false: a weight is not finite. */
static bool average_exponents(const struct digit_weights *weights, const float *values,
                              int64_t count, float *means)
{
    int64_t sums[INT8_LANES] = {0}, numbers[INT8_LANES] = {0};

    for (int64_t row = 0; row < weights->out; row++, values += weights->depth)
        for (int64_t k = 0; k < count; k++) {
            if (!isfinite(values[k]))
                return false;
            sums[k] += values[k] != 0 ? ilogbf(values[k]) : 0;
            numbers[k] += values[k] != 0;
        }
    for (int64_t k = 0; k < count; k++)
        means[k] = numbers[k] ? (float)sums[k] / (float)numbers[k] : NAN;
    return true;
}

/* Finds the powers of two, by what the mean exponents of the features differ from that of all.
 * false: a weight is not finite. */
static bool find_balance(const struct digit_weights *weights, const float *values)
{
    int64_t depth = weights->depth, numbers = 0;
    float *balance = weights->balance, sum = 0;

    for (int64_t k = 0; k < depth; k += INT8_LANES)
        if (!average_exponents(weights, values + k, depth - k < INT8_LANES ? depth - k : INT8_LANES,
                               balance + k))
            return false;
    for (int64_t k = 0; k < depth; k++) {
        sum += isnan(balance[k]) ? 0 : balance[k];
        numbers += !isnan(balance[k]);
    }
    for (int64_t k = 0; k < depth; k++) {
        float exponent = isnan(balance[k]) ? 0 : balance[k] - sum / (float)numbers;

        exponent = fabsf(exponent) < BALANCE_LEAST ? 0 : rintf(exponent);
        balance[k] = exp2f(fmaxf(-BALANCE_MOST, fminf(exponent, BALANCE_MOST)));
    }
    return true;
}

/* The largest number of a row; INFINITY: one is not finite. `even`: no number is more than
 * DIGITS_PEAK_MOST times the mean size. */
static double find_most(const struct digit_weights *weights, const struct weight_row *row,
                        bool *even)
{
    double most = 0, sum = 0;
    int64_t others = 0;

    for (int64_t k = 0; k < weights->depth; k++) {
        double size = fabs(weight_at(weights, row, k));

        most = size > most ? size : most;
        sum += size;
        others += size != 0;
    }
    *even = most * (double)others <= DIGITS_PEAK_MOST * sum;
    return isfinite(sum) ? most : INFINITY;
}

bool digit_weights_write(struct digit_weights *weights, const float *values)
{
    int64_t depth = weights->depth;

    if (!find_balance(weights, values))
        return false;
    for (int64_t r = 0; r < weights->out; r++, values += depth) {
        const struct weight_row row = {.number = r, .values = values};
        bool even;
        double most = find_most(weights, &row, &even);

        if (!even || !isfinite(most) || (most > 0 && most < ROW_LEAST))
            return false;
        write_row(weights, &row, NULL, most);
    }
    return true;
}

bool digit_weights_write_for_bytes(struct digit_weights *weights, const float *values,
                                   const float *mean, const float *factor,
                                   const struct digit_weights *taken)
{
    bool all_even = true;

    for (int64_t r = 0; r < weights->out; r++, values += weights->depth) {
        const struct weight_row row = {
            .number = r, .values = values, .factor = factor, .taken = taken};
        bool even;
        double most = find_most(weights, &row, &even);

        if (isfinite(most)) {
            write_row(weights, &row, mean, most);
            all_even &= even;
        } else {
            write_infinite_row(weights, &row, mean);
        }
    }
    return all_even;
}
