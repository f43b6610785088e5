/* recurrent_evaluate.h: the gates of LSTM and GRU in evaluation, which keeps none of them for a
 * gradient. A quotient of two polynomials takes the place of several sigmoids and tanh: with
 * a = e^-x, sigmoid(x) is 1 / (1 + a), and tanh(x) is (1 - b) / (1 + b) with b = e^-2x. So an LSTM
 * divides twice for each unit, not five times. A register of units is calculated at once.
 *
 * The error of a result, which is from -1 to 1, is below 1e-6. For NaN it is NaN. */
#pragma once

#include "engine/backends/cpu/kernels/int8.h"
#include "engine/backends/cpu/kernels/vector.h"

#include <string.h>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

typedef int32_t vector_bits __attribute__((vector_size(VECTOR * 4), may_alias));
typedef uint8_t vector_bytes __attribute__((vector_size(VECTOR), may_alias));

/* Beyond them sigmoid and tanh are 0, 1 or -1 within 1e-12. The product of three of the
 * exponentials, which are then at most e^28, does not overflow. */
#define SIGMOID_END 28.0f
#define TANH_END 14.0f
/* The reset gate of a GRU divides the state's part of n, which may be large, and nothing multiplies
 * its exponential. */
#define RESET_END 87.0f

/* What the units of a row read and write: one pointer for each array, at the first of the units. */
struct evaluated_row {
    const float *sums; /* of the first gate; that of the next is `next_sums` further */
    int64_t next_sums;
    const float *input; /* of the first gate */
    int64_t next_input;
    const float *bias, *before;
    float *after, *content, *output;
    uint8_t *quantized; /* the state for products of integers; NULL: it is not needed */
};

/* ---- numbers --------------------------------------------------------------------------------- */

/* From -end to end. */
static ALWAYS_INLINE vector limit(vector x, float end)
{
    const vector most = (vector){0} + end;

#if defined(__AVX512F__)
    /* they give the second operand if there is a NaN */
    return (vector)_mm512_max_ps((__m512)-most, _mm512_min_ps((__m512)most, (__m512)x));
#else
    vector limited;

    for (int i = 0; i < VECTOR; i++) {
        float value = most[i] < x[i] ? most[i] : x[i];

        limited[i] = -most[i] > value ? -most[i] : value;
    }
    return limited;
#endif
}

/* 2^x for numbers from -126 to 127, with a relative error below 2e-7: 2^n is the exponent of a
 * number, and 2^(x - n), with n the nearest integer, the polynomial with the least error. */
static ALWAYS_INLINE vector power_of_two(vector x)
{
    const float round = 12582912.0f + 127; /* 1.5 · 2^23: n + 127 is in the low bits of the sum */
    vector shifted = x + round;
    vector part = x - (shifted - round);
    vector p = part * 1.327647356e-3f + 9.675541880e-3f;

    p = p * part + 5.550713274e-2f;
    p = p * part + 2.402211971e-1f;
    p = p * part + 6.931469671e-1f;
    p = p * part + 1.000000072f;
    return p * (vector)((vector_bits)shifted << 23);
}

#define LOG2_E 1.44269504f

/* e^-x, of which sigmoid(x) is made. */
static ALWAYS_INLINE vector limited_power(vector x, float end)
{
    return power_of_two(limit(x, end) * -LOG2_E);
}

static ALWAYS_INLINE vector sigmoid_power(vector x)
{
    return limited_power(x, SIGMOID_END);
}

/* e^-2x, of which tanh(x) is made. */
static ALWAYS_INLINE vector tanh_power(vector x)
{
    return power_of_two(limit(x, TANH_END) * (-2 * LOG2_E));
}

/* ---- units ----------------------------------------------------------------------------------- */

/* `units` numbers, and zeros behind them. */
static ALWAYS_INLINE vector load_units(const float *from, const int64_t units)
{
    vector value = {0};

    memcpy(&value, from, (size_t)units * sizeof(*from));
    return value;
}

static ALWAYS_INLINE void store_units(float *to, vector value, const int64_t units)
{
    memcpy(to, &value, (size_t)units * sizeof(*to));
}

static ALWAYS_INLINE vector load_sum(const struct evaluated_row *row, int gate)
{
    vector sum;

    memcpy(&sum, row->sums + gate * row->next_sums, sizeof sum);
    return sum;
}

/* What the gate is a function of. */
static ALWAYS_INLINE vector gate_argument(const struct evaluated_row *row, int64_t hidden, int gate,
                                          const int64_t units)
{
    return load_sum(row, gate) + load_units(row->input + gate * row->next_input, units) +
           load_units(row->bias + gate * hidden, units);
}

/* Stores the state, which is from -1 to 1, and its integers as int8_quantize_state() makes them. */
static ALWAYS_INLINE void store_state(const struct evaluated_row *row, vector h,
                                      const int64_t units)
{
    const float round = 12582912.0f; /* 1.5 · 2^23 */

    store_units(row->after, h, units);
    store_units(row->output, h, units);
    if (row->quantized) {
        vector value = h * (float)INT8_STATE_RANGE + (float)INT8_STATE_ZERO + round;
        vector_bytes integers = __builtin_convertvector((vector_bits)value & 0xff, vector_bytes);

        memcpy(row->quantized, &integers, (size_t)units);
    }
}

/* With a = e^-i, b = e^-f, g = e^-2g, d = e^-o of the gates' arguments:
 *   c = c / (1 + b) + (1 - g) / ((1 + a) (1 + g)),  h = (1 - e^-2c) / ((1 + d) (1 + e^-2c)) */
static ALWAYS_INLINE void lstm_evaluate(const struct evaluated_row *row, int64_t hidden,
                                        const int64_t units)
{
    vector input = 1.0f + sigmoid_power(gate_argument(row, hidden, 0, units));
    vector forget = 1.0f + sigmoid_power(gate_argument(row, hidden, 1, units));
    vector power = tanh_power(gate_argument(row, hidden, 2, units));
    vector out = 1.0f + sigmoid_power(gate_argument(row, hidden, 3, units));
    vector added = input + input * power;
    vector c =
        (load_units(row->content, units) * added + (forget - forget * power)) / (forget * added);

    power = tanh_power(c);
    store_units(row->content, c, units);
    store_state(row, (1.0f - power) / (out + out * power), units);
}

/* With a = e^-z and b = e^-2n: h = (1 - z) n + z h = (a (1 - b) + h (1 + b)) / ((1 + a) (1 + b)) */
static ALWAYS_INLINE void gru_evaluate(const struct evaluated_row *row, int64_t hidden,
                                       const int64_t units)
{
    vector reset = 1.0f + limited_power(gate_argument(row, hidden, 0, units), RESET_END);
    vector update = sigmoid_power(gate_argument(row, hidden, 1, units));
    vector state = load_sum(row, 2) + load_units(row->bias + 2 * hidden, units);
    vector power = tanh_power(load_units(row->input + 2 * row->next_input, units) + state / reset);
    vector before = row->before ? load_units(row->before, units) : (vector){0};
    vector sum = 1.0f + power;

    store_state(row, (update - update * power + before * sum) / (sum + sum * update), units);
}
