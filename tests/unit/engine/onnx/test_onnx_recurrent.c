/* test_onnx_recurrent.c: LSTM, GRU and RNN nodes in forms that torch.onnx does not write. */
#include "tests/support/made_model.h"
#include "tests/support/temporary_folder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* ---- a layer that is computed step by step ---- */

enum { STEPS = 10, HIDDEN = 2, DIRECTIONS = 2 };
static const float input_weights[DIRECTIONS][HIDDEN] = {{0.5f, -0.3f}, {0.2f, 0.7f}};
static const float state_weights[DIRECTIONS][HIDDEN][HIDDEN] = {{{0.1f, 0.4f}, {-0.6f, 0.3f}},
                                                                {{0.8f, -0.2f}, {0.5f, 0.9f}}};
static const float rnn_biases[DIRECTIONS][2][HIDDEN] = {{{0.1f, 0.2f}, {-0.3f, 0.05f}},
                                                        {{-0.4f, 0.6f}, {0.15f, -0.25f}}};

static void expect_rnn(const float *x, const float *y, int direction, bool relu)
{
    double state[HIDDEN] = {0}, next[HIDDEN];

    for (int step = 0; step < STEPS; step++) {
        int at = direction ? STEPS - 1 - step : step;

        for (int h = 0; h < HIDDEN; h++) {
            next[h] = (double)x[at] * (double)input_weights[direction][h] +
                      (double)rnn_biases[direction][0][h] + (double)rnn_biases[direction][1][h];
            for (int k = 0; k < HIDDEN; k++)
                next[h] += (double)state_weights[direction][h][k] * state[k];
        }
        for (int h = 0; h < HIDDEN; h++) {
            state[h] = relu ? fmax(next[h], 0) : tanh(next[h]);
            made_expect_near(y[(at * DIRECTIONS + direction) * HIDDEN + h], state[h], 1e-5);
        }
    }
}

static void plain_recurrent_layers_are_computed(void **state)
{
    static const int64_t shape[] = {STEPS, 1}, w[] = {DIRECTIONS, HIDDEN, 1},
                         r[] = {DIRECTIONS, HIDDEN, HIDDEN}, b[] = {DIRECTIONS, 2 * HIDDEN};
    ProtobufCBinaryData relu[] = {{.len = 4, .data = (uint8_t *)"Relu"},
                                  {.len = 4, .data = (uint8_t *)"Relu"}};
    float x[MADE_BATCH * STEPS], y[MADE_BATCH * MADE_SAMPLE_MAX];

    (void)state;
    for (int i = 0; i < MADE_BATCH * STEPS; i++)
        x[i] = (float)((i * 7) % 11 - 5) / 4;
    for (int with_relu = 0; with_relu < 2; with_relu++) {
        struct made_model made;
        int node;

        made_begin(&made, 2, shape);
        made_floats(&made, "w", 3, w, &input_weights[0][0], DIRECTIONS * HIDDEN);
        made_floats(&made, "r", 3, r, &state_weights[0][0][0], DIRECTIONS * HIDDEN * HIDDEN);
        made_floats(&made, "b", 2, b, &rnn_biases[0][0][0], DIRECTIONS * 2 * HIDDEN);
        node = made_node(&made, "RNN", "y", "x", "w", "r", "b", NULL);
        made_int(&made, node, "layout", 1);
        made_text(&made, node, "direction", "bidirectional");
        if (with_relu) {
            Onnx__Attribute *activations = made_attribute(&made, node, "activations");

            activations->n_strings = 2;
            activations->strings = relu;
        }
        assert_int_equal(made_compute(&made, x, y), MADE_BATCH * STEPS * DIRECTIONS * HIDDEN);
        for (int i = 0; i < MADE_BATCH * DIRECTIONS; i++)
            expect_rnn(x + i / 2 * STEPS, y + i / 2 * STEPS * DIRECTIONS * HIDDEN, i % 2,
                       with_relu);
    }
}

/* ---- layers of the engine ---- */

/* Layers without biases are those of biases that are 0, and such without functions of theirs. */
static void biases_of_recurrent_layers_may_be_left_out(void **state)
{
    static const struct {
        const char *type;
        int64_t gates;
    } layers[] = {{"LSTM", 4}, {"GRU", 3}};
    ProtobufCBinaryData usual[] = {{.len = 7, .data = (uint8_t *)"Sigmoid"},
                                   {.len = 4, .data = (uint8_t *)"Tanh"},
                                   {.len = 4, .data = (uint8_t *)"tanh"}};
    static const float zeros[16] = {0};
    static const int64_t sample[] = {5, 1};
    float x[MADE_BATCH * 5], w[8], r[16], y[2][MADE_BATCH * MADE_SAMPLE_MAX];

    (void)state;
    for (int i = 0; i < 16; i++)
        r[i] = (float)((i * 7) % 11 - 5) / 8;
    for (int i = 0; i < MADE_BATCH * 5; i++)
        x[i] = r[i];
    for (int i = 0; i < 8; i++)
        w[i] = r[15 - i];
    for (int k = 0; k < 2; k++) {
        int64_t gates = layers[k].gates;

        for (int biased = 0; biased < 2; biased++) {
            struct made_model made;
            int node;

            made_begin(&made, 2, sample);
            made_floats(&made, "w", 3, (const int64_t[]){1, 2 * gates, 1}, w, (size_t)gates * 2);
            made_floats(&made, "r", 3, (const int64_t[]){1, 2 * gates, 2}, r, (size_t)gates * 4);
            made_floats(&made, "b", 2, (const int64_t[]){1, 4 * gates}, zeros, (size_t)gates * 4);
            node = made_node(&made, layers[k].type, "y", "x", "w", "r", biased ? "b" : NULL, NULL);
            made_int(&made, node, "layout", 1);
            made_int(&made, node, "linear_before_reset", 1);
            if (biased) { /* what the standard has where they are left out, too */
                Onnx__Attribute *activations = made_attribute(&made, node, "activations");

                activations->n_strings = k ? 2 : 3;
                activations->strings = usual;
            }
            assert_int_equal(made_compute(&made, x, y[biased]), MADE_BATCH * 5 * 2);
        }
        for (int i = 0; i < MADE_BATCH * 5 * 2; i++)
            assert_true(y[0][i] == y[1][i]);
        assert_true(y[0][0] != 0);
    }
}

static void recurrent_layers_have_the_directions_of_their_weights(void **state)
{
    static const int64_t shape[] = {3, 1}, w[] = {0, 2, 1}, r[] = {0, 2, 2}, b[] = {0, 4};
    static const int64_t w1[] = {1, 2, 1}, r1[] = {1, 2, 2}, b1[] = {1, 4};
    static const float numbers[4] = {1, 1, 1, 1};
    struct made_model made;
    int node;

    (void)state;
    for (int given = 0; given < 2; given++) {
        made_begin(&made, 2, shape);
        made_floats(&made, "w", 3, given ? w1 : w, numbers, given ? 2 : 0);
        made_floats(&made, "r", 3, given ? r1 : r, numbers, given ? 4 : 0);
        made_floats(&made, "b", 2, given ? b1 : b, numbers, given ? 4 : 0);
        node = made_node(&made, "RNN", "y", "x", "w", "r", "b", NULL);
        made_int(&made, node, "layout", 1);
        made_text(&made, node, "direction", given ? "bidirectional" : "forward");
        made_refuse(&made, given ? "have 1 directions, not 2" : "have 0 directions, not 1");
    }
}

/* torch.onnx leaves the projections of nn.LSTM away, and its initial cells tell. */
static void recurrent_layers_have_the_width_of_their_states(void **state)
{
    static const int64_t shape[] = {3, 1}, w[] = {1, 4, 1}, r[] = {1, 4, 1}, c[] = {1, 1, 2};
    static const float numbers[4] = {1, 1, 1, 1}, zeros[2];
    struct made_model made;

    (void)state;
    for (int given = 0; given < 2; given++) {
        int node;

        made_begin(&made, 2, shape);
        made_floats(&made, "w", 3, w, numbers, 4);
        made_floats(&made, "r", 3, r, numbers, 4);
        made_floats(&made, "c", 3, c, zeros, 2);
        node = given ? made_node(&made, "LSTM", "y", "x", "w", "r", "", "", "", "c", NULL)
                     : made_node(&made, "LSTM", "y", "x", "w", "r", NULL);
        made_int(&made, node, "layout", 1);
        if (!given)
            made_int(&made, node, "hidden_size", 2);
        made_refuse(&made, "a state of 1 numbers, not 2");
    }
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_recurrent_layers_are_computed),
        cmocka_unit_test(recurrent_layers_have_the_directions_of_their_weights),
        cmocka_unit_test(recurrent_layers_have_the_width_of_their_states),
        cmocka_unit_test(biases_of_recurrent_layers_may_be_left_out),
    };

    if (argument_count > 1)
        cmocka_set_test_filter(arguments[1]);
    return cmocka_run_group_tests(tests, temporary_folder_make, temporary_folder_remove);
}
