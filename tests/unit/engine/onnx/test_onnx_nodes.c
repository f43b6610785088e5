/* test_onnx_nodes.c: models of a few nodes that are made here: such as no exporter writes, which
 * are refused with a sentence, and such whose results a formula tells. */
#include "base/alignment.h"
#include "engine/graph/forward.h"
#include "engine/models/models.h"
#include "engine/onnx/onnx.h"
#include "engine/onnx/onnx.pb-c.h"
#include "tests/support/session.h"
#include "tests/support/temporary_folder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NODES_MAX = 8, CONSTANTS_MAX = 8, NAMES_MAX = 4, ATTRIBUTES_MAX = 4, RANK_MAX = 4 };
enum { FLOAT = 1, INT64 = 7 };
enum { BATCH = 2, SAMPLE_MAX = 64 };

/* A model that is being made; all of its parts lie in it. */
struct made {
    Onnx__Model model;
    Onnx__OperatorSet set, *sets[1];
    Onnx__Graph graph;
    Onnx__ValueInfo ends[2], *input[1], *output[1];
    Onnx__Type type;
    Onnx__TensorType tensor_type;
    Onnx__Shape shape;
    Onnx__Dimension dimension[RANK_MAX], *dimensions[RANK_MAX];
    Onnx__Node node[NODES_MAX], *nodes[NODES_MAX];
    Onnx__Tensor constant[CONSTANTS_MAX], *constants[CONSTANTS_MAX];
    char *inputs[NODES_MAX][NAMES_MAX], *outputs[NODES_MAX][1];
    Onnx__Attribute attribute[NODES_MAX][ATTRIBUTES_MAX], *attributes[NODES_MAX][ATTRIBUTES_MAX];
    int rank;
    int64_t extent[RANK_MAX]; /* of a sample */
};

/* ---- making a model -------------------------------------------------------------------------- */

/* Its input x has samples of this shape, its output is y. */
static void made_begin(struct made *made, int rank, const int64_t *extent)
{
    memset(made, 0, sizeof *made);
    onnx__model__init(&made->model);
    onnx__graph__init(&made->graph);
    onnx__operator_set__init(&made->set);
    onnx__type__init(&made->type);
    onnx__tensor_type__init(&made->tensor_type);
    onnx__shape__init(&made->shape);
    made->set.has_version = true;
    made->set.version = 18;
    made->sets[0] = &made->set;
    made->model.n_opset_import = 1;
    made->model.opset_import = made->sets;
    made->model.graph = &made->graph;
    for (int i = 0; i < 2; i++)
        onnx__value_info__init(&made->ends[i]);
    made->ends[0].name = (char *)"x";
    made->ends[0].type = &made->type;
    made->ends[1].name = (char *)"y";
    made->input[0] = &made->ends[0];
    made->output[0] = &made->ends[1];
    made->graph.n_input = made->graph.n_output = 1;
    made->graph.input = made->input;
    made->graph.output = made->output;
    made->type.tensor_type = &made->tensor_type;
    made->tensor_type.has_elem_type = true;
    made->tensor_type.elem_type = FLOAT;
    made->tensor_type.shape = &made->shape;
    made->shape.n_dim = (size_t)rank + 1;
    made->shape.dim = made->dimensions;
    for (int i = 0; i <= rank; i++) {
        onnx__dimension__init(&made->dimension[i]);
        made->dimensions[i] = &made->dimension[i];
        made->dimension[i].has_dim_value = i > 0;
        made->dimension[i].dim_value = i ? extent[i - 1] : 0;
    }
    made->rank = rank;
    memcpy(made->extent, extent, (size_t)rank * sizeof *extent);
    made->graph.node = made->nodes;
    made->graph.initializer = made->constants;
}

static Onnx__Tensor *constant_add(struct made *made, const char *name, int type, int rank,
                                  const int64_t *extent)
{
    Onnx__Tensor *tensor = &made->constant[made->graph.n_initializer];

    onnx__tensor__init(tensor);
    made->constants[made->graph.n_initializer++] = tensor;
    tensor->name = (char *)name;
    tensor->has_data_type = true;
    tensor->data_type = type;
    tensor->n_dims = (size_t)rank;
    tensor->dims = (int64_t *)extent;
    return tensor;
}

static void floats_add(struct made *made, const char *name, int rank, const int64_t *extent,
                       const float *numbers, size_t count)
{
    Onnx__Tensor *tensor = constant_add(made, name, FLOAT, rank, extent);

    tensor->n_float_data = count;
    tensor->float_data = (float *)numbers;
}

static void float_add(struct made *made, const char *name, const float *number)
{
    floats_add(made, name, 0, NULL, number, 1);
}

static void integers_add(struct made *made, const char *name, const int64_t *numbers,
                         const int64_t *count)
{
    Onnx__Tensor *tensor = constant_add(made, name, INT64, 1, count);

    tensor->n_int64_data = (size_t)*count;
    tensor->int64_data = (int64_t *)numbers;
}

/* Inputs end with NULL; the output "" is left out. */
static int node_add(struct made *made, const char *type, const char *output, ...)
{
    int index = (int)made->graph.n_node++;
    Onnx__Node *node = &made->node[index];
    va_list inputs;
    char *input;

    onnx__node__init(node);
    made->nodes[index] = node;
    node->op_type = (char *)type;
    node->input = made->inputs[index];
    node->output = made->outputs[index];
    node->output[0] = (char *)output;
    node->n_output = 1;
    node->attribute = made->attributes[index];
    va_start(inputs, output);
    while ((input = va_arg(inputs, char *)))
        node->input[node->n_input++] = input;
    va_end(inputs);
    return index;
}

static Onnx__Attribute *attribute_add(struct made *made, int node, const char *name)
{
    size_t index = made->node[node].n_attribute++;
    Onnx__Attribute *attribute = &made->attribute[node][index];

    onnx__attribute__init(attribute);
    made->attributes[node][index] = attribute;
    attribute->name = (char *)name;
    return attribute;
}

static void int_add(struct made *made, int node, const char *name, int64_t number)
{
    Onnx__Attribute *attribute = attribute_add(made, node, name);

    attribute->has_i = true;
    attribute->i = number;
}

static void ints_add(struct made *made, int node, const char *name, const int64_t *numbers,
                     size_t count)
{
    Onnx__Attribute *attribute = attribute_add(made, node, name);

    attribute->n_ints = count;
    attribute->ints = (int64_t *)numbers;
}

static void text_add(struct made *made, int node, const char *name, const char *text)
{
    Onnx__Attribute *attribute = attribute_add(made, node, name);

    attribute->has_s = true;
    attribute->s = (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)text};
}

/* ---- using it -------------------------------------------------------------------------------- */

static void made_write(const struct made *made)
{
    size_t size = onnx__model__get_packed_size(&made->model);
    uint8_t *bytes = malloc(size);
    FILE *file = fopen(temporary_path("model.onnx"), "wb");

    assert_non_null(file);
    onnx__model__pack(&made->model, bytes);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    free(bytes);
}

static int made_build(const struct made *made, struct onnx_model **model, struct graph *graph,
                      struct error *error)
{
    int32_t x, y = -1;
    int result;

    made_write(made);
    graph_init(graph, BATCH, false);
    result = onnx_open(NULL, temporary_path("model.onnx"), model, error);
    if (result)
        return result;
    x = graph_input(graph, TENSOR_FLOAT32, made->extent, made->rank);
    result = onnx_build(*model, true, graph, x, &y, error);
    if (result == 0 && graph->error.code)
        result = error_set(error, graph->error.code, "%s", graph->error.text);
    return result;
}

/* Expects a refusal whose sentence has these words; "": any, or none. */
static void refuse(const struct made *made, const char *words)
{
    struct onnx_model *model = NULL;
    struct error error = {0};
    struct graph graph;
    int result = made_build(made, &model, &graph, &error);

    graph_release(&graph);
    onnx_close(model);
    if (*words && (result >= 0 || !strstr(error.text, words)))
        fail_msg("expected \"%s\" in \"%s\"", words, result < 0 ? error.text : "ok");
}

/* Computes y for samples x, BATCH times as many numbers as a sample has. Returns how many y has. */
static int64_t compute(const struct made *made, const float *x, float y[BATCH * SAMPLE_MAX])
{
    static const struct step_scalars scalars = {.step = 1, .gradient_scale = 1};
    const struct test_session_options options = {.threads = 1};
    struct onnx_model *model = NULL;
    struct test_session session;
    struct error error = {0};
    struct graph graph;
    int64_t count;
    float *aligned;
    size_t bytes;

    if (made_build(made, &model, &graph, &error) || graph_finish(&graph, &error))
        fail_msg("%s", error.text);
    count = graph_shape_elements(&graph.tensors[graph.output].shape);
    bytes = (size_t)graph_shape_elements(&graph.tensors[graph.input].shape) * sizeof *x;
    assert_true(count <= BATCH * SAMPLE_MAX);
    test_session_open(&session, &graph, &options);
    test_session_initialize(&session, 1);
    aligned = aligned_alloc(MEMORY_ALIGNMENT, align_up(bytes, MEMORY_ALIGNMENT));
    memcpy(aligned, x, bytes);
    test_session_input(&session, graph.input, aligned);
    test_session_run(&session, PROGRAM_FORWARD, &scalars);
    test_session_read(&session, graph.output, y);
    test_session_close(&session);
    free(aligned);
    graph_release(&graph);
    onnx_close(model);
    return count;
}

static void expect_near(double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance * fmax(0.5, fabs(expected))))
        fail_msg("%.9g instead of %.9g", found, expected);
}

/* ---- files that no exporter writes ----------------------------------------------------------- */

static const int64_t image[3] = {1, 4, 4};

static void outputs_that_are_left_out_are_no_crash(void **state)
{
    static const float ones[] = {1, 1};
    static const int64_t one = 1;
    struct made made;

    (void)state;
    made_begin(&made, 3, image);
    floats_add(&made, "p", 1, (const int64_t[]){2}, ones, 2);
    node_add(&made, "Add", "", "p", "p", NULL);
    node_add(&made, "Relu", "y", "x", NULL);
    refuse(&made, "");
    made_begin(&made, 3, image);
    integers_add(&made, "one", &one, &one);
    int_add(&made, node_add(&made, "SplitToSequence", "", "x", "one", NULL), "axis", 1);
    node_add(&made, "Relu", "y", "x", NULL);
    refuse(&made, "");
}

static void weights_of_endless_repeats_are_refused(void **state)
{
    static const int64_t shape[] = {1LL << 31, 1LL << 31, 1, 1}, four = 4;
    static const float half = 0.5f;
    struct made made;

    (void)state;
    made_begin(&made, 3, image);
    float_add(&made, "half", &half);
    integers_add(&made, "shape", shape, &four);
    node_add(&made, "Expand", "w", "half", "shape", NULL);
    node_add(&made, "Conv", "y", "x", "w", NULL);
    refuse(&made, "would have to be computed");
}

static void strides_of_empty_weights_are_checked(void **state)
{
    static const int64_t extent[] = {0, 1LL << 40, 1LL << 40};
    struct made made;

    (void)state;
    made_begin(&made, 3, image);
    floats_add(&made, "w", 3, extent, NULL, 0);
    node_add(&made, "Relu", "y", "x", NULL);
    refuse(&made, "impossible shape");
}

static void nodes_without_inputs_form_no_circle(void **state)
{
    static const int64_t groups[] = {0, 1, -1}, back[] = {-1, 1, 4, 4}, three = 3, four = 4,
                         one = 1;
    static const float unit = 1, zero = 0;
    struct made made;

    (void)state;
    made_begin(&made, 3, image);
    integers_add(&made, "groups", groups, &three);
    integers_add(&made, "back", back, &four);
    floats_add(&made, "one", 1, &one, &unit, 1);
    floats_add(&made, "zero", 1, &one, &zero, 1);
    node_add(&made, "Reshape", "r", "x", "groups", NULL);
    node_add(&made, "InstanceNormalization", "n", "r", "one", "zero", NULL);
    node_add(&made, "Reshape", "b", "n", "back", NULL);
    node_add(&made, "Unsqueeze", "u", NULL);
    node_add(&made, "Mul", "m", "b", "u", NULL);
    node_add(&made, "Add", "y", "m", "u", NULL);
    refuse(&made, "an operand is missing");
}

static void windows_are_checked(void **state)
{
    static const int64_t huge[] = {500000000, 1}, other[] = {3, 3};
    static const float weights[4] = {1, 1, 1, 1};
    struct made made;
    int node;

    (void)state;
    made_begin(&made, 3, image);
    node = node_add(&made, "MaxPool", "y", "x", NULL);
    ints_add(&made, node, "kernel_shape", huge, 2);
    ints_add(&made, node, "dilations", huge, 2);
    text_add(&made, node, "auto_pad", "SAME_UPPER");
    refuse(&made, "window is too large");
    made_begin(&made, 3, image);
    floats_add(&made, "w", 4, (const int64_t[]){1, 1, 2, 2}, weights, 4);
    ints_add(&made, node_add(&made, "Conv", "y", "x", "w", NULL), "kernel_shape", other, 2);
    refuse(&made, "not that of its weights");
}

static void the_batch_is_no_number(void **state)
{
    static const int64_t zero = 0, one = 1;
    struct made made;

    (void)state;
    made_begin(&made, 3, image);
    integers_add(&made, "first", &zero, &one);
    node_add(&made, "Shape", "shape", "x", NULL);
    node_add(&made, "Gather", "batch", "shape", "first", NULL);
    int_add(&made, node_add(&made, "Cast", "number", "batch", NULL), "to", FLOAT);
    node_add(&made, "Div", "y", "x", "number", NULL);
    refuse(&made, "the number of samples in a batch");
}

static void a_bias_with_more_axes_stays_a_sum(void **state)
{
    static const int64_t two = 2, matrix[] = {2, 2}, row[] = {1, 1, 2}, out[] = {-1, 2};
    static const float weights[] = {1, 2, 3, 4}, bias[] = {1, 1};
    struct made made;

    (void)state;
    made_begin(&made, 1, &two);
    floats_add(&made, "w", 2, matrix, weights, 4);
    floats_add(&made, "b", 3, row, bias, 2);
    integers_add(&made, "out", out, &two);
    node_add(&made, "MatMul", "m", "x", "w", NULL);
    node_add(&made, "Add", "a", "m", "b", NULL);
    int_add(&made, node_add(&made, "Softmax", "s", "a", NULL), "axis", 1);
    node_add(&made, "Reshape", "y", "s", "out", NULL);
    refuse(&made, "the batch would be its features");
}

/* A view of a parameter that was turned in part would end beyond its numbers. */
static void an_input_too_many_is_refused(void **state)
{
    static const int64_t two = 2, matrix[] = {6, 2};
    static const float weights[12] = {1};
    struct made made;

    (void)state;
    made_begin(&made, 1, &two);
    floats_add(&made, "w", 2, matrix, weights, 12);
    node_add(&made, "Transpose", "t", "w", "x", NULL);
    node_add(&made, "MatMul", "y", "x", "t", NULL);
    refuse(&made, "its first input is a constant");
}

/* ---- results --------------------------------------------------------------------------------- */

static const float samples[BATCH * 8] = {-1e6f, -1e4f, -7, -3,   -1e-3f, -1e-6f, 0, 0.3f,
                                         1e-6f, 1e-3f, 4,  6.5f, 9,      1e4f,   3, 1e6f};
static const int64_t eight = 8;

static void products_with_zero_are_zero(void **state)
{
    static const struct {
        const char *type;
        float number;
    } factors[] = {{"Mul", 0}, {"Div", INFINITY}};
    static const float one = 1;
    float y[BATCH * SAMPLE_MAX];

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct made made;

        made_begin(&made, 1, &eight);
        float_add(&made, "zero", &factors[k].number);
        float_add(&made, "one", &one);
        node_add(&made, factors[k].type, "m", "x", "zero", NULL);
        node_add(&made, "Add", "y", "m", "one", NULL);
        assert_int_equal(compute(&made, samples, y), BATCH * 8);
        for (int i = 0; i < BATCH * 8; i++)
            assert_true(y[i] == 1);
    }
}

/* However far apart the bounds are, numbers between them stay what they are. */
static void bounds_round_no_numbers(void **state)
{
    static const float bounds[][2] = {{-1e4f, 1e4f}, {-1e9f, 1e9f}, {-5, 7},  {1e-6f, 1e6f},
                                      {-1e6f, -1},   {-2, 3},       {5, 100}, {-100, 0.5f}};
    float y[BATCH * SAMPLE_MAX];

    (void)state;
    for (size_t k = 0; k < sizeof bounds / sizeof bounds[0]; k++) {
        struct made made;

        made_begin(&made, 1, &eight);
        float_add(&made, "least", &bounds[k][0]);
        float_add(&made, "most", &bounds[k][1]);
        node_add(&made, "Clip", "y", "x", "least", "most", NULL);
        compute(&made, samples, y);
        for (int i = 0; i < BATCH * 8; i++)
            expect_near(y[i], fmaxf(fminf(samples[i], bounds[k][1]), bounds[k][0]), 1e-6);
    }
}

static void error_functions_stand_alone(void **state)
{
    float y[BATCH * SAMPLE_MAX];
    struct made made;

    (void)state;
    made_begin(&made, 1, &eight);
    node_add(&made, "Neg", "n", "x", NULL);
    node_add(&made, "Erf", "y", "n", NULL);
    compute(&made, samples, y);
    for (int i = 0; i < BATCH * 8; i++)
        expect_near(y[i], erf(-samples[i]), 1e-6);
}

/* The window is that of the weights where the node does not say it. */
static void same_padding_needs_no_kernel_shape(void **state)
{
    static const float weights[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    static const double sums[16] = {4, 6, 6, 4, 6, 9, 9, 6, 6, 9, 9, 6, 4, 6, 6, 4};
    float x[BATCH * 16], y[BATCH * SAMPLE_MAX];
    struct made made;

    (void)state;
    for (int i = 0; i < BATCH * 16; i++)
        x[i] = 1;
    made_begin(&made, 3, image);
    floats_add(&made, "w", 4, (const int64_t[]){1, 1, 3, 3}, weights, 9);
    text_add(&made, node_add(&made, "Conv", "y", "x", "w", NULL), "auto_pad", "SAME_UPPER");
    assert_int_equal(compute(&made, x, y), BATCH * 16);
    for (int i = 0; i < BATCH * 16; i++)
        expect_near(y[i], sums[i % 16], 1e-6);
}

/* Factors of whole numbers: the root of 9, and the remainder of -7 by 3 with the sign of -7. */
static void constants_are_computed(void **state)
{
    static const int64_t nine = 9, minus = -7, three = 3, one = 1;
    static const float half = 0.5f;
    float y[BATCH * SAMPLE_MAX];
    struct made made;

    (void)state;
    made_begin(&made, 1, &eight);
    integers_add(&made, "nine", &nine, &one);
    float_add(&made, "half", &half);
    integers_add(&made, "minus", &minus, &one);
    integers_add(&made, "three", &three, &one);
    node_add(&made, "Pow", "root", "nine", "half", NULL);
    int_add(&made, node_add(&made, "Mod", "rest", "minus", "three", NULL), "fmod", 1);
    node_add(&made, "Mul", "whole", "root", "rest", NULL);
    int_add(&made, node_add(&made, "Cast", "factor", "whole", NULL), "to", FLOAT);
    node_add(&made, "Mul", "y", "x", "factor", NULL);
    compute(&made, samples, y);
    for (int i = 0; i < BATCH * 8; i++)
        expect_near(y[i], -3 * (double)samples[i], 1e-6);
}

/* Types of few bits keep the last ones: 300 is 44 of uint8, 200 is -56 of int8. */
static void casts_wrap(void **state)
{
    static const struct {
        int64_t number;
        int type;
        double expected;
    } casts[] = {{300, 2, 44}, {200, 3, -56}, {40000, 5, -25536}, {-1, 2, 255}};
    static const int64_t one = 1;
    float y[BATCH * SAMPLE_MAX];

    (void)state;
    for (size_t k = 0; k < sizeof casts / sizeof *casts; k++) {
        struct made made;

        made_begin(&made, 1, &eight);
        integers_add(&made, "number", &casts[k].number, &one);
        int_add(&made, node_add(&made, "Cast", "small", "number", NULL), "to", casts[k].type);
        int_add(&made, node_add(&made, "Cast", "factor", "small", NULL), "to", FLOAT);
        node_add(&made, "Mul", "y", "x", "factor", NULL);
        compute(&made, samples, y);
        for (int i = 0; i < BATCH * 8; i++)
            expect_near(y[i], casts[k].expected * (double)samples[i], 1e-6);
    }
}

/* ---- a recurrent layer that is computed step by step ---- */

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
            expect_near(y[(at * DIRECTIONS + direction) * HIDDEN + h], state[h], 1e-5);
        }
    }
}

static void plain_recurrent_layers_are_computed(void **state)
{
    static const int64_t shape[] = {STEPS, 1}, w[] = {DIRECTIONS, HIDDEN, 1},
                         r[] = {DIRECTIONS, HIDDEN, HIDDEN}, b[] = {DIRECTIONS, 2 * HIDDEN};
    ProtobufCBinaryData relu[] = {{.len = 4, .data = (uint8_t *)"Relu"},
                                  {.len = 4, .data = (uint8_t *)"Relu"}};
    float x[BATCH * STEPS], y[BATCH * SAMPLE_MAX];

    (void)state;
    for (int i = 0; i < BATCH * STEPS; i++)
        x[i] = (float)((i * 7) % 11 - 5) / 4;
    for (int with_relu = 0; with_relu < 2; with_relu++) {
        struct made made;
        int node;

        made_begin(&made, 2, shape);
        floats_add(&made, "w", 3, w, &input_weights[0][0], DIRECTIONS * HIDDEN);
        floats_add(&made, "r", 3, r, &state_weights[0][0][0], DIRECTIONS * HIDDEN * HIDDEN);
        floats_add(&made, "b", 2, b, &rnn_biases[0][0][0], DIRECTIONS * 2 * HIDDEN);
        node = node_add(&made, "RNN", "y", "x", "w", "r", "b", NULL);
        int_add(&made, node, "layout", 1);
        text_add(&made, node, "direction", "bidirectional");
        if (with_relu) {
            Onnx__Attribute *activations = attribute_add(&made, node, "activations");

            activations->n_strings = 2;
            activations->strings = relu;
        }
        assert_int_equal(compute(&made, x, y), BATCH * STEPS * DIRECTIONS * HIDDEN);
        for (int i = 0; i < BATCH * DIRECTIONS; i++)
            expect_rnn(x + i / 2 * STEPS, y + i / 2 * STEPS * DIRECTIONS * HIDDEN, i % 2,
                       with_relu);
    }
}

/* ---- probabilities ---- */

/* A softmax at the end is the loss's, and the predictions'. */
static void a_last_softmax_is_left_to_the_loss(void **state)
{
    static const struct {
        const char *end;
        enum model_loss loss;
        enum graph_op last;
    } cases[] = {{"Softmax", LOSS_CROSS_ENTROPY, OP_LEAKY_RELU},
                 {"Softmax", LOSS_MSE, OP_SOFTMAX},
                 {"Sigmoid", LOSS_BINARY, OP_LEAKY_RELU},
                 {"Sigmoid", LOSS_MSE, OP_ACTIVATION}};

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct model_config config = {.kind = MODEL_ONNX};
        struct model_data data = {
            .rank = 1, .sample_shape = {8}, .outputs = 8, .loss = cases[k].loss, .no_loss = true};
        struct error error = {0};
        struct graph graph;
        struct made made;

        made_begin(&made, 1, &eight);
        node_add(&made, "LeakyRelu", "l", "x", NULL);
        node_add(&made, cases[k].end, "y", "l", NULL);
        made_write(&made);
        assert_int_equal(onnx_open(NULL, temporary_path("model.onnx"), &config.onnx, &error), 0);
        graph_init(&graph, BATCH, false);
        if (model_build(&config, &data, &graph, &error) || graph_finish(&graph, &error))
            fail_msg("%s", error.text);
        assert_int_equal(graph.nodes[graph.node_count - 1].op, cases[k].last);
        assert_int_equal(graph.output, graph.nodes[graph.node_count - 1].output[0]);
        graph_release(&graph);
        onnx_close(config.onnx);
    }
}

static void reductions_of_no_axes_are_no_operation(void **state)
{
    static const int64_t none = 0;
    float y[BATCH * SAMPLE_MAX];
    struct made made;

    (void)state;
    made_begin(&made, 1, &eight);
    integers_add(&made, "axes", NULL, &none);
    int_add(&made, node_add(&made, "ReduceSum", "y", "x", "axes", NULL), "noop_with_empty_axes", 1);
    assert_int_equal(compute(&made, samples, y), BATCH * 8);
    for (int i = 0; i < BATCH * 8; i++)
        expect_near(y[i], samples[i], 1e-6);
}

/* The product of extent and factor is one of float32, as in onnxruntime: 3 pixels become 7. */
static void factors_of_images_are_float32(void **state)
{
    static const int64_t row[] = {1, 1, 3}, four = 4;
    static const float scales[] = {1, 1, 1, 7.0f / 3};
    float y[BATCH * SAMPLE_MAX];
    struct made made;
    int node;

    (void)state;
    made_begin(&made, 3, row);
    floats_add(&made, "scales", 1, &four, scales, 4);
    node = node_add(&made, "Resize", "y", "x", "", "scales", NULL);
    text_add(&made, node, "mode", "linear");
    assert_int_equal(compute(&made, samples, y), BATCH * 7);
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_that_are_left_out_are_no_crash),
        cmocka_unit_test(an_input_too_many_is_refused),
        cmocka_unit_test(weights_of_endless_repeats_are_refused),
        cmocka_unit_test(strides_of_empty_weights_are_checked),
        cmocka_unit_test(nodes_without_inputs_form_no_circle),
        cmocka_unit_test(windows_are_checked),
        cmocka_unit_test(the_batch_is_no_number),
        cmocka_unit_test(a_bias_with_more_axes_stays_a_sum),
        cmocka_unit_test(products_with_zero_are_zero),
        cmocka_unit_test(bounds_round_no_numbers),
        cmocka_unit_test(error_functions_stand_alone),
        cmocka_unit_test(same_padding_needs_no_kernel_shape),
        cmocka_unit_test(constants_are_computed),
        cmocka_unit_test(casts_wrap),
        cmocka_unit_test(plain_recurrent_layers_are_computed),
        cmocka_unit_test(a_last_softmax_is_left_to_the_loss),
        cmocka_unit_test(reductions_of_no_axes_are_no_operation),
        cmocka_unit_test(factors_of_images_are_float32),
    };

    if (argument_count > 1)
        cmocka_set_test_filter(arguments[1]);
    return cmocka_run_group_tests(tests, temporary_folder_make, temporary_folder_remove);
}
