/* test_recurrent_gates.c: the gates of LSTM and GRU with extreme numbers, on every instruction set,
 * against the formulas of torch.nn in double precision: in evaluation, in training, and where the
 * state is quantized. The state's product is 0, so the input's product and the bias are what the
 * gates are functions of. */
#include "base/philox.h"
#include "engine/backends/cpu/instructions.h"
#include "engine/backends/cpu/kernels/kernels.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { HIDDEN = 37, ROWS = 7, GATES_MAX = 4, ROUNDS = 120 };
enum { CELLS = ROWS * HIDDEN };

/* What a step reads, and what it gives: [row][gate][unit] and [row][unit]. */
struct step {
    enum recurrent_cell cell;
    int64_t gates;
    float input[CELLS * GATES_MAX], bias[GATES_MAX * HIDDEN];
    float before[CELLS], content[CELLS];
    float after[CELLS], content_after[CELLS], output[CELLS];
    uint8_t quantized[CELLS];
};

enum way { WAY_EVALUATION, WAY_TRAINING, WAY_INT8, WAY_COUNT };
static const char *const way_names[] = {"evaluation", "training", "int8"};

/* ---- numbers --------------------------------------------------------------------------------- */

/* Tiny ones, subnormal too; those around the ends of what the exponentials take; huge ones. */
static const float magnitudes[] = {
    0.0f,   1e-45f, 1e-40f, 1.2e-38f, 1e-20f,  1e-7f, 1e-3f, 0.5f,  1.0f,    6.9f,
    7.1f,   13.9f,  14.1f,  20.0f,    27.9f,   28.1f, 43.9f, 86.9f, 87.4f,   88.8f,
    104.0f, 127.0f, 1e3f,   1e6f,     8388609, 1e15f, 1e30f, 3e38f, FLT_MAX, INFINITY};
enum { MAGNITUDES = sizeof magnitudes / sizeof *magnitudes };

static uint32_t draw(uint64_t round, uint64_t index)
{
    return philox_draw(31, round, index).word[0];
}

/* The first rounds give all gates of a unit the same magnitude with all signs, the others any. */
static float draw_argument(int round, int64_t index, int64_t unit, int64_t gate)
{
    uint32_t word = draw((uint64_t)round, (uint64_t)index);
    float value = magnitudes[round < MAGNITUDES ? (uint32_t)round : word % MAGNITUDES];
    bool negative = round < MAGNITUDES ? unit >> gate & 1 : word >> 16 & 1;

    return negative ? -value : value;
}

static void draw_step(struct step *step, int round)
{
    /* a cell gains at most 1 a step, and the state is from -1 to 1 */
    static const float contents[] = {0.0f, 1e-40f, 1e-6f, 0.7f, 13.9f, 14.1f, 1e3f, 1e6f};
    int64_t count = ROWS * step->gates * HIDDEN;

    for (int64_t i = 0; i < count; i++)
        step->input[i] = draw_argument(round, i, i % HIDDEN, i / HIDDEN % step->gates);
    for (int64_t i = 0; i < step->gates * HIDDEN; i++) {
        float most =
            round & 1 ? 1e-30f : 30.0f; /* of the last one, a GRU's state, which is added */

        step->bias[i] = most * (float)(draw((uint64_t)round, (uint64_t)(count + i)) % 3) - most;
    }
    for (int64_t i = 0; i < CELLS; i++) {
        uint32_t word = draw((uint64_t)round + ROUNDS, (uint64_t)i);
        float sign = word & 1 ? -1.0f : 1.0f;

        step->before[i] = sign * (word & 2 ? 1.0f : (float)(word >> 8 & 255) / 255);
        step->content[i] = sign * contents[word >> 16 & 7];
    }
}

/* ---- a step ---------------------------------------------------------------------------------- */

static void run_step(const struct kernels *kernels, enum way way, struct step *step)
{
    int64_t panels = (HIDDEN + kernels->vector - 1) / kernels->vector;
    size_t packed = (size_t)(panels * kernels->vector * step->gates * HIDDEN);
    float *weights = aligned_alloc(64, align_up(packed * sizeof *weights, 64));
    static float none[GATES_MAX * HIDDEN * HIDDEN], gates[CELLS * GATES_MAX], cells[CELLS];
    const struct int8_state int8 = {
        .packing = int8_packing_of(step->gates * HIDDEN, HIDDEN, (int)step->gates),
        .after = step->quantized,
        .row = HIDDEN};
    struct recurrent_forward forward = {
        .cell = step->cell,
        .hidden = HIDDEN,
        .time = {.steps = 1},
        .weights = weights,
        .bias = step->bias,
        .before = step->before,
        .after = step->after,
        .content = step->cell == RECURRENT_LSTM ? step->content_after : NULL,
        .input = {step->input, way == WAY_INT8 ? INT8_LANES : kernels->vector, step->gates * HIDDEN,
                  HIDDEN},
        .output = {step->output, HIDDEN},
        .int8 = way == WAY_INT8 ? &int8 : NULL};

    memcpy(step->content_after, step->content, sizeof step->content);
    kernels->recurrent_pack(none, step->gates, HIDDEN, false, 0, panels, weights);
    if (way == WAY_TRAINING) {
        forward.gates = (struct recurrent_array){gates, GATES_MAX * HIDDEN};
        forward.cells = (struct recurrent_array){cells, HIDDEN};
    }
    if (way == WAY_INT8)
        kernels->recurrent_forward_int8(&forward, 0, ROWS, 0, int8.packing.groups);
    else
        kernels->recurrent_forward(&forward, 0, ROWS, 0, panels);
    free(weights);
}

/* ---- the formulas ---------------------------------------------------------------------------- */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double argument(const struct step *step, int64_t row, int64_t unit, int64_t gate)
{
    return step->input[(row * step->gates + gate) * HIDDEN + unit] +
           step->bias[gate * HIDDEN + unit];
}

/* The state; *content: that of an LSTM's cell. */
static double expected_state(const struct step *step, int64_t row, int64_t unit, double *content)
{
    int64_t place = row * HIDDEN + unit;
    double first = argument(step, row, unit, 0), second = argument(step, row, unit, 1);

    if (step->cell == RECURRENT_GRU) {
        double n = tanh(step->input[(row * 3 + 2) * HIDDEN + unit] +
                        sigmoid(first) * step->bias[2 * HIDDEN + unit]);
        double z = sigmoid(second);

        return (1 - z) * n + z * step->before[place];
    }
    *content = sigmoid(second) * step->content[place] +
               sigmoid(first) * tanh(argument(step, row, unit, 2));
    return sigmoid(argument(step, row, unit, 3)) * tanh(*content);
}

static bool is_near(double value, double expected, double most)
{
    return fabs(value - expected) <= most;
}

static void check_step(const struct kernels *kernels, enum way way, const struct step *step)
{
    for (int64_t i = 0; i < CELLS; i++) {
        double content = 0, state = expected_state(step, i / HIDDEN, i % HIDDEN, &content);
        bool good = is_near(step->after[i], state, 1e-6) && step->output[i] == step->after[i];

        if (step->cell == RECURRENT_LSTM)
            good = good && is_near(step->content_after[i], content, 1e-6 * fmax(1, fabs(content)));
        if (way == WAY_INT8)
            good = good && is_near(step->quantized[i] - INT8_STATE_ZERO,
                                   (double)step->after[i] * INT8_STATE_RANGE, 0.5001);
        if (!good)
            fail_msg("%s, %s, vectors of %d: state %.9g, not %.9g; content %.9g, not %.9g; "
                     "integer %d; of row %d, unit %d",
                     recurrent_cell_to_string(step->cell), way_names[way], kernels->vector,
                     (double)step->after[i], state, (double)step->content_after[i], content,
                     step->quantized[i], (int)(i / HIDDEN), (int)(i % HIDDEN));
    }
}

static void check_cell(enum recurrent_cell cell)
{
    static struct step step;

    step.cell = cell;
    step.gates = recurrent_cell_gates(cell);
    for (int round = 0; round < ROUNDS; round++) {
        draw_step(&step, round);
        for (int level = 0; kernels_available()[level]; level++)
            for (enum way way = 0; way < WAY_COUNT; way++) {
                run_step(kernels_available()[level], way, &step);
                check_step(kernels_available()[level], way, &step);
            }
    }
}

static void extreme_numbers_saturate_an_lstm(void **state)
{
    (void)state;
    check_cell(RECURRENT_LSTM);
}

static void extreme_numbers_saturate_a_gru(void **state)
{
    (void)state;
    check_cell(RECURRENT_GRU);
}

/* A reset gate that is closed hides what the state adds, however large that is. */
static void a_closed_reset_gate_hides_the_state(void **state)
{
    static struct step step = {.cell = RECURRENT_GRU, .gates = 3};

    (void)state;
    for (int64_t row = 0; row < ROWS; row++)
        for (int64_t unit = 0; unit < HIDDEN; unit++) {
            step.input[(row * 3 + 0) * HIDDEN + unit] = -200.0f;
            step.input[(row * 3 + 1) * HIDDEN + unit] = -200.0f;
            step.input[(row * 3 + 2) * HIDDEN + unit] = 0.25f;
            step.bias[2 * HIDDEN + unit] = unit & 1 ? 1e30f : -1e9f;
        }
    for (int level = 0; kernels_available()[level]; level++)
        for (enum way way = 0; way < WAY_COUNT; way++) {
            run_step(kernels_available()[level], way, &step);
            check_step(kernels_available()[level], way, &step);
        }
}

/* NaN in one gate makes the unit NaN, and no other one. */
static void what_is_no_number_stays_so(void **state)
{
    static struct step step;

    (void)state;
    for (int cell = 0; cell < 2; cell++) {
        step.cell = cell ? RECURRENT_GRU : RECURRENT_LSTM;
        step.gates = recurrent_cell_gates(step.cell);
        for (int64_t gate = 0; gate < step.gates; gate++) {
            draw_step(&step, 8);
            step.input[gate * HIDDEN + 3] = NAN;
            for (int level = 0; kernels_available()[level]; level++)
                for (enum way way = 0; way < WAY_COUNT; way++) {
                    run_step(kernels_available()[level], way, &step);
                    for (int64_t i = 0; i < CELLS; i++)
                        assert_int_equal(isnan(step.after[i]) != 0, i == 3);
                }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extreme_numbers_saturate_an_lstm),
        cmocka_unit_test(extreme_numbers_saturate_a_gru),
        cmocka_unit_test(a_closed_reset_gate_hides_the_state),
        cmocka_unit_test(what_is_no_number_stays_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
