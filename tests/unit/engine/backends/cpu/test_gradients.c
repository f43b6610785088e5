/* test_gradients.c: the gradients of every operator on the CPU backend against finite differences
 * of the loss, independent of PyTorch: for each tensor that has a gradient g, and for directions v,
 *
 *     (L(x + h v) - L(x - h v)) / 2h  =  g . v  +  O(h^2)
 *
 * With entries of v of +1 or -1 drawn at random, g . v is about |g|, the Euclidean norm, which
 * therefore is the scale of errors. The forward part runs in float32: its loss is off by some 1e-7
 * of itself, hence the quotient by 1e-7 L / h = 2e-5 L at h = 0.005. |g| is 0.1 to 1 of the loss
 * for most cases here, so that this alone may reach 2e-4 of |g|; the third derivative adds h^2 / 6
 * of itself, 1e-4 of |g| for the sharpest curvatures (batch norm over few values). The tolerance of
 * 1e-3 leaves a factor of three; a missing factor, term or sign shows as 1e-2 to 1. */
#include "base/philox.h"
#include "engine/graph/build.h"
#include "tests/support/reference.h"
#include "tests/support/session.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DIRECTIONS = 4, VARIABLES_MAX = 24 };
static const float step_width = 0.005f;
static const double tolerance = 1e-3;

static const struct step_scalars scalars = {
    .step = 1, .batch = 1, .seed = 5, .learning_rate = 0.1f, .gradient_scale = 1};

/* A tensor on which the loss depends: its values, and the gradient of the loss with respect to
 * them. */
struct variable {
    const char *name;
    int32_t tensor; /* the parameter or the samples */
    bool is_input;
    int64_t elements;
    float step;                       /* the distance by which the values are moved */
    float *values, *moved, *gradient; /* 64-byte aligned */
};

static float *allocate(int64_t elements)
{
    float *values = aligned_alloc(64, ((size_t)elements * sizeof(float) + 63) / 64 * 64);

    assert_non_null(values);
    return values;
}

static double loss_at(struct test_session *session, struct variable *variable, const float *values)
{
    struct step_metrics metrics;

    if (variable->is_input)
        test_session_input(session, variable->tensor, values);
    else
        test_session_write(session, variable->tensor, values);
    test_session_run(session, PROGRAM_FORWARD, &scalars);
    session->backend->program_read_metrics(session->program, &metrics);
    return metrics.last_loss;
}

/* Direction 0 is all ones; the others have random signs. */
static float direction_entry(int direction, int64_t index)
{
    struct philox draw =
        philox_draw((uint64_t)direction, philox_stream(PHILOX_TEST, 0), (uint64_t)index);

    return direction && (draw.word[0] & 1) ? -1.0f : 1.0f;
}

/* Compares the derivative along one direction; returns the error relative to |g|. */
static double compare_direction(struct test_session *session, struct variable *variable,
                                int direction)
{
    double loss[2], moved = 0, expected = 0, norm = 0;

    for (int side = 0; side < 2; side++) {
        for (int64_t i = 0; i < variable->elements; i++)
            variable->moved[i] = variable->values[i] + (side ? -variable->step : variable->step) *
                                                           direction_entry(direction, i);
        loss[side] = loss_at(session, variable, variable->moved);
    }
    for (int64_t i = 0; i < variable->elements; i++) {
        double g = (double)variable->gradient[i];

        expected += g * (double)direction_entry(direction, i);
        norm += g * g;
    }
    moved = (loss[0] - loss[1]) / (2 * (double)variable->step);
    return fabs(moved - expected) / fmax(sqrt(norm), 1e-6);
}

static void check_variable(const char *file, struct test_session *session,
                           struct variable *variable)
{
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        double error = compare_direction(session, variable, direction);

        if (!(error <= tolerance))
            fail_msg("%s: the gradient by %s is off by %g along direction %d", file, variable->name,
                     error, direction);
    }
    loss_at(session, variable, variable->values); /* restores it for the next variable */
}

/* Moves the samples away from points without a derivative: ReLU at 0, hardswish and hardsigmoid at
 * -3 and 3, windows with two equal maxima. */
static void avoid_kinks(const char *file, float *samples, int64_t elements)
{
    for (int64_t i = 0; i < elements; i++) {
        if (strncmp(file, "relu", 4) == 0)
            samples[i] += samples[i] < 0 ? -0.05f : 0.05f;
        if (strncmp(file, "hard", 4) == 0 && fabsf(fabsf(samples[i]) - 3) < 0.05f)
            samples[i] *= 1.05f;
        if (strncmp(file, "max_", 4) == 0) /* 0.02 apart, in a scrambled order */
            samples[i] = 0.02f * (float)(i * 7919 % 1009) - 10.0f;
    }
}

/* Runs the graph once for its gradients, then checks each. `dump` (may be NULL) has the parameters'
 * values. */
static void check_graph_of_lengths(const char *file, const struct graph *graph,
                                   const struct dump *dump, float *samples, const int32_t *lengths,
                                   const void *target, float step)
{
    const struct test_session_options options = {.threads = 2};
    struct test_session session;
    struct variable variables[VARIABLES_MAX];
    int count = 0;

    test_session_open(&session, graph, &options);
    test_session_initialize(&session, 1);
    for (int i = 0; dump && i < dump->count; i++)
        if (dump->tensors[i].name[0] == '0')
            test_session_write(&session, graph_find_tensor(graph, dump->tensors[i].name),
                               dump->tensors[i].values);
    test_session_input(&session, graph->input, samples);
    if (lengths)
        test_session_input(&session, graph->lengths, lengths);
    test_session_input(&session, graph->target, target);
    test_session_run(&session, PROGRAM_FORWARD | PROGRAM_BACKWARD, &scalars);
    for (int32_t i = 0; i < graph->tensor_count; i++) {
        bool is_input = i == graph->input && graph->input_gradient >= 0;
        struct variable *v = &variables[count];

        if (graph->tensors[i].role != TENSOR_PARAMETER && !is_input)
            continue;
        *v = (struct variable){
            .name = graph->tensors[i].name, .tensor = i, .is_input = is_input, .step = step};
        v->elements = graph_shape_elements(&graph->tensors[i].shape);
        v->values = allocate(v->elements);
        v->moved = allocate(v->elements);
        v->gradient = allocate(v->elements);
        if (is_input)
            memcpy(v->values, samples, (size_t)v->elements * sizeof(float));
        else
            test_session_read(&session, i, v->values);
        test_session_read(&session, is_input ? graph->input_gradient : graph_gradient_of(graph, i),
                          v->gradient);
        count++;
        assert_true(count <= VARIABLES_MAX);
    }
    assert_true(count > 0);
    for (int i = 0; i < count; i++)
        check_variable(file, &session, &variables[i]);
    for (int i = 0; i < count; i++) {
        free(variables[i].values);
        free(variables[i].moved);
        free(variables[i].gradient);
    }
    test_session_close(&session);
}

static void check_graph(const char *file, const struct graph *graph, const struct dump *dump,
                        float *samples, const void *target)
{
    check_graph_of_lengths(file, graph, dump, samples, NULL, target, step_width);
}

/* Every operator in every shape that the reference dumps have. */
static void test_operators(void **state)
{
    static const char folder_path[] = "tests/reference/data/dumps/operators";
    DIR *folder = opendir(folder_path);
    const struct dirent *entry;
    int count = 0;

    (void)state;
    assert_non_null(folder);
    while ((entry = readdir(folder))) {
        struct error error = {0};
        struct dump dump;
        struct graph graph;
        char path[512];

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder_path, entry->d_name);
        if (dump_read(path, &dump, &error) ||
            reference_build_operator(&dump, entry->d_name, &graph, &error))
            fail_msg("%s: %s", entry->d_name, error.text);
        /* a rounded operand has no slope */
        if (graph.training && graph.compute_type == TENSOR_FLOAT32) {
            const struct dump_tensor *samples = dump_find(&dump, "samples");

            if (samples->type == DUMP_FLOAT32)
                avoid_kinks(entry->d_name, samples->values, samples->elements);
            check_graph(entry->d_name, &graph, &dump, samples->values,
                        dump_find(&dump, "target")->values);
            count++;
        }
        graph_release(&graph);
        dump_release(&dump);
    }
    closedir(folder);
    assert_true(count >= 98);
}

/* Dropout draws its mask again in the backward part: if it were another one, nothing would agree
 * here. Its samples also pass through a sum with themselves, so that a gradient is added up. */
static void test_dropout(void **state)
{
    struct error error = {0};
    struct graph graph;
    float *samples = allocate(8 * 30), *target = allocate(8 * 30);
    int32_t x, y;

    (void)state;
    for (int i = 0; i < 8 * 30; i++) {
        samples[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
        target[i] = (float)(i * 53 % 103) / 50.0f - 1.0f;
    }
    graph_init(&graph, 8, true);
    graph.wants_input_gradient = true;
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){30}, 1);
    y = graph_dropout(&graph, x, "0", 0.4f);
    y = graph_add(&graph, y, graph_activation(&graph, x, "1", ACTIVATION_SIGMOID), "2");
    graph_mse(&graph, graph_dropout(&graph, y, "3", 0.2f));
    if (graph_differentiate(&graph, &error) || graph_finish(&graph, &error))
        fail_msg("%s", error.text);
    check_graph("dropout", &graph, NULL, samples, target);
    graph_release(&graph);
    free(samples);
    free(target);
}

/* The loss by its formulas, in double: a softmax over 5 classes of which 3 are right, and whether
 * each of 4 classes, is among the 2 labels. */
static double head_losses_of(const float *logits, const int32_t *labels,
                             const struct loss_head *heads)
{
    double sum = 0, softmax = 0, binary = 0;

    for (int c = 0; c < 5; c++)
        sum += exp((double)logits[c]);
    for (int k = 0; k < 3; k++)
        softmax += log(sum) - (double)logits[labels[k]];
    for (int c = 0; c < 4; c++) {
        double probability = 1 / (1 + exp(-(double)logits[5 + c]));
        bool right = labels[3] == c || labels[4] == c;

        binary -= log(right ? probability : 1 - probability);
    }
    return (double)heads[0].weight * softmax / 3 + (double)heads[1].weight * binary / 4;
}

static void test_head_losses(void **state)
{
    static const struct loss_head heads[] = {
        {.classes = 5, .labels = 3, .weight = 1.5f},
        {.classes = 4, .labels = 2, .binary = true, .weight = 0.5f}};
    enum { BATCH = 7, CLASSES = 9, LABELS = 5 };
    float *samples = allocate(BATCH * CLASSES);
    int32_t *target = (int32_t *)allocate(BATCH * LABELS);
    const struct test_session_options options = {.threads = 2};
    struct test_session session;
    struct step_metrics metrics;
    struct error error = {0};
    struct graph graph;
    double expected = 0;

    (void)state;
    for (int i = 0; i < BATCH * CLASSES; i++)
        samples[i] = (float)(i * 37 % 101) / 25.0f - 2.0f;
    for (int i = 0; i < BATCH; i++) {
        int32_t *labels = target + i * LABELS;

        for (int k = 0; k < 3; k++)
            labels[k] = (i + k) % 5;
        labels[3] = i % 4;
        labels[4] = (i + 1) % 4;
        expected += head_losses_of(samples + i * CLASSES, labels, heads) / BATCH;
    }
    graph_init(&graph, BATCH, true);
    graph.wants_input_gradient = true;
    graph_head_losses(&graph, graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){CLASSES}, 1), heads,
                      2);
    if (graph_differentiate(&graph, &error) || graph_finish(&graph, &error))
        fail_msg("%s", error.text);
    check_graph("head_losses", &graph, NULL, samples, target);
    test_session_open(&session, &graph, &options);
    test_session_input(&session, graph.input, samples);
    test_session_input(&session, graph.target, target);
    test_session_run(&session, PROGRAM_FORWARD, &scalars);
    session.backend->program_read_metrics(session.program, &metrics);
    assert_true(fabs(metrics.last_loss - expected) < 1e-6 * expected);
    target[LABELS + 3] = 4; /* no class */
    test_session_input(&session, graph.target, target);
    test_session_run(&session, PROGRAM_FORWARD, &scalars);
    session.backend->program_read_metrics(session.program, &metrics);
    assert_true(isnan(metrics.last_loss));
    test_session_close(&session);
    graph_release(&graph);
    free(samples);
    free(target);
}

/* Values at, above and below zero are those of torch.nn.LeakyReLU: x, or negative_slope x. Then the
 * gradient, also where the slope is negative, away from zero. */
static void test_leaky_relu(void **state)
{
    static const float slopes[] = {0.01f, 0.3f, -0.5f, 0.0f};
    enum { BATCH = 8, WIDTH = 30, COUNT = BATCH * WIDTH };
    float *samples = allocate(COUNT), *target = allocate(COUNT), *values = allocate(COUNT);
    const struct test_session_options options = {.threads = 2};

    (void)state;
    for (size_t k = 0; k < sizeof slopes / sizeof slopes[0]; k++) {
        struct error error = {0};
        struct test_session session;
        struct graph graph;
        int32_t x;

        for (int i = 0; i < COUNT; i++) {
            samples[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
            target[i] = (float)(i * 53 % 103) / 50.0f - 1.0f;
        }
        graph_init(&graph, BATCH, true);
        graph.wants_input_gradient = true;
        x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){WIDTH}, 1);
        graph_mse(&graph, graph_leaky_relu(&graph, x, "0", slopes[k]));
        if (graph_differentiate(&graph, &error) || graph_finish(&graph, &error))
            fail_msg("%s", error.text);
        test_session_open(&session, &graph, &options);
        test_session_input(&session, graph.input, samples);
        test_session_input(&session, graph.target, target);
        test_session_run(&session, PROGRAM_FORWARD, &scalars);
        test_session_read(&session, graph.output, values);
        for (int i = 0; i < COUNT; i++)
            assert_true(values[i] == (samples[i] > 0 ? samples[i] : slopes[k] * samples[i]));
        test_session_close(&session);
        avoid_kinks("relu", samples, COUNT);
        check_graph("leaky_relu", &graph, NULL, samples, target);
        graph_release(&graph);
    }
    free(samples);
    free(target);
    free(values);
}

/* One matrix is embedding and output layer, and steps with the label -1 do not count. */
static void test_tied_output(void **state)
{
    enum { BATCH = 6, STEPS = 7, VOCABULARY = 19, WIDTH = 24, TOKENS = BATCH * STEPS };
    int32_t *samples = aligned_alloc(64, 256), *target = aligned_alloc(64, 256);
    struct error error = {0};
    struct graph graph;
    int32_t x, weight;

    (void)state;
    for (int i = 0; i < TOKENS; i++) {
        samples[i] = i * 7 % 11; /* some symbols are often there, some never */
        target[i] = i % 5 == 3 ? -1 : i * 5 % VOCABULARY;
    }
    graph_init(&graph, BATCH, true);
    x = graph_input(&graph, TENSOR_INT32, (int64_t[]){STEPS}, 1);
    x = graph_embedding(&graph, x, "0", VOCABULARY, WIDTH);
    weight = graph_find_tensor(&graph, "0.weight");
    graph_set_initializer(&graph, weight,
                          (struct initializer){.kind = INITIALIZER_NORMAL, .bound = 0.2f});
    x = graph_linear(&graph, graph_layer_norm(&graph, x, "1", 1e-5f, true), "2", WIDTH, true);
    graph_cross_entropy(&graph, graph_linear_shared(&graph, x, "3", weight, -1));
    if (graph_differentiate(&graph, &error) || graph_finish(&graph, &error))
        fail_msg("%s", error.text);
    check_graph("tied", &graph, NULL, (float *)samples, target);
    graph_release(&graph);
    free(samples);
    free(target);
}

/* Padded sequences: steps before the end of each have the result and the gradient of the sequence
 * alone, and the padding has no part in them. */
static void run_padded(int64_t steps, const int32_t *lengths, const float *samples, float *output,
                       float *gradient)
{
    enum { WIDTH = 3 * 2 * 8 };
    const struct test_session_options options = {.threads = 2};
    int64_t batch = lengths ? 2 : 1;
    float *target = allocate(batch * steps * WIDTH / 3);
    struct test_session session;
    struct error error = {0};
    struct graph graph;
    int32_t x, input = -1;

    graph_init(&graph, batch, true);
    graph.wants_input_gradient = true;
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){steps, WIDTH}, 2);
    if (lengths)
        input = graph_append_tensor(&graph, TENSOR_INPUT, TENSOR_INT32,
                                    &(struct graph_shape){.rank = 1, .extent = {batch}}, true,
                                    "lengths");
    x = graph_attention(&graph, x, "0", 2, false, input);
    graph_mse(&graph, graph_flatten(&graph, x, "1"));
    if (graph_differentiate(&graph, &error) || graph_finish(&graph, &error))
        fail_msg("%s", error.text);
    test_session_open(&session, &graph, &options);
    test_session_input(&session, graph.input, samples);
    if (lengths)
        test_session_input(&session, input, lengths);
    test_session_input(&session, graph.target, target);
    test_session_run(&session, PROGRAM_FORWARD, &scalars);
    test_session_read(&session, graph.output, output);
    /* with the result as target of the padding, only the sequence itself has a gradient */
    for (int64_t n = 0; n < batch; n++)
        for (int64_t t = 0; t < steps; t++)
            for (int64_t i = 0; i < WIDTH / 3; i++) {
                int64_t at = (n * steps + t) * WIDTH / 3 + i;

                /* a gradient of 1 at every step that counts */
                target[at] =
                    output[at] -
                    (!lengths || t < lengths[n] ? 0.5f * (float)(batch * steps * WIDTH / 3) : 0.0f);
            }
    test_session_input(&session, graph.target, target);
    test_session_run(&session, PROGRAM_FORWARD | PROGRAM_BACKWARD, &scalars);
    test_session_read(&session, graph.input_gradient, gradient);
    test_session_close(&session);
    graph_release(&graph);
    free(target);
}

static void test_padded_attention(void **state)
{
    enum { STEPS = 11, WIDTH = 48 };
    int32_t *lengths = aligned_alloc(64, 64);
    float *samples = allocate(2 * STEPS * WIDTH), *output = allocate(2 * STEPS * WIDTH);
    float *gradient = allocate(2 * STEPS * WIDTH), *alone = allocate(STEPS * WIDTH);
    float *own = allocate(STEPS * WIDTH), *copy = allocate(STEPS * WIDTH);

    (void)state;
    lengths[0] = 4;
    lengths[1] = 9;
    for (int i = 0; i < 2 * STEPS * WIDTH; i++)
        samples[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    run_padded(STEPS, lengths, samples, output, gradient);
    for (int n = 0; n < 2; n++) {
        memcpy(copy, samples + n * STEPS * WIDTH, (size_t)(lengths[n] * WIDTH) * sizeof *copy);
        run_padded(lengths[n], NULL, copy, alone, own);
        for (int i = 0; i < lengths[n] * WIDTH / 3; i++)
            assert_true(fabsf(alone[i] - output[n * STEPS * WIDTH / 3 + i]) < 1e-5f);
        for (int i = 0; i < STEPS * WIDTH; i++) {
            float expected = i < lengths[n] * WIDTH ? own[i] : 0;

            assert_true(fabsf(expected - gradient[n * STEPS * WIDTH + i]) < 2e-4f);
        }
    }
    free(lengths);
    free(samples);
    free(output);
    free(gradient);
    free(alone);
    free(own);
    free(copy);
}

enum recurrent_batch { BATCH_EQUAL, BATCH_LENGTHS, BATCH_CARRIED };

/* Lets the state that the batch before left be other than 0. */
static void draw_states(struct graph *graph)
{
    for (int32_t i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].role == TENSOR_STATE)
            graph->tensors[i].initializer = (struct initializer){INITIALIZER_UNIFORM, 1};
}

/* Recurrent layers of sizes that fill the kernels' vectors and tiles and do not, in both
 * directions, of sequences of one length and of several and with carried state, with the last step
 * and the mean. */
static void check_recurrent(enum recurrent_cell cell, bool reverse, enum recurrent_batch kind,
                            bool mean)
{
    enum { STEPS = 7, FEATURES = 5, MANY = 530 };
    bool ragged = kind == BATCH_LENGTHS, carried = kind == BATCH_CARRIED;
    int batch = carried && mean ? MANY : 11, count = batch * STEPS * FEATURES;
    int hidden = batch == MANY ? 5 : 21; /* for MANY: little curvature, and so a longer step */
    struct recurrent_layer layer = {
        .cell = cell, .hidden = hidden, .reverse = reverse, .carries_state = carried};
    float *samples = allocate(count), *target = allocate(batch * hidden);
    int32_t *lengths = aligned_alloc(64, 64), x, y;
    struct error error = {0};
    struct graph graph;
    char name[64];

    snprintf(name, sizeof name, "%s%s%s%s%s", recurrent_cell_to_string(cell),
             reverse ? "-reverse" : "", ragged ? "-lengths" : "", carried ? "-carried" : "",
             mean ? "-mean" : "");
    for (int i = 0; i < count; i++)
        samples[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    for (int i = 0; i < batch * hidden; i++)
        target[i] = (float)(i * 53 % 103) / 500.0f - 0.1f; /* near the output: a small loss */
    for (int i = 0; i < batch && ragged; i++)
        lengths[i] = 1 + i * 5 % STEPS;
    graph_init(&graph, batch, true);
    graph.streams += carried ? 3 : 0;
    graph.wants_input_gradient = true;
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){STEPS, FEATURES}, 2);
    if (ragged)
        graph_lengths(&graph);
    y = graph_recurrent(&graph, x, graph.lengths, "0", &layer);
    layer.number = 1;
    layer.reverse = false;
    y = graph_recurrent(&graph, y, graph.lengths, "0", &layer);
    graph_mse(&graph, mean ? graph_mean_over_time(&graph, y, graph.lengths, "1")
                           : graph_last_step(&graph, y, graph.lengths, "1", false));
    draw_states(&graph);
    if (graph_differentiate(&graph, &error) || graph_finish(&graph, &error))
        fail_msg("%s", error.text);
    /* Along all ones the state's weights bend the loss so much that h^2 / 6 of the third derivative
     * shows; so small a loss has the digits for a smaller step. */
    check_graph_of_lengths(name, &graph, NULL, samples, ragged ? lengths : NULL, target,
                           batch == MANY ? step_width / 2 : step_width / 4);
    graph_release(&graph);
    free(samples);
    free(target);
    free(lengths);
}

static void test_recurrent(void **state)
{
    (void)state;
    for (int i = 0; i < 24; i++)
        check_recurrent(i & 1 ? RECURRENT_GRU : RECURRENT_LSTM, i & 2,
                        (enum recurrent_batch)(i / 8), i & 4);
}

static void fill(float *samples, float *target, int count)
{
    for (int i = 0; i < count; i++) {
        samples[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
        target[i] = (float)(i * 53 % 103) / 50.0f - 1.0f;
    }
}

/* A Mamba block without its norm over two sequences in each sample: linear layers make the scan's
 * operands, so that each gets its gradient. */
static void test_scan(void **state)
{
    enum { BATCH = 3, SEQUENCES = 2, LENGTH = 37, WIDTH = 20, STATES = 5 };
    enum { STEPS = SEQUENCES * LENGTH, COUNT = BATCH * STEPS * WIDTH };
    float *samples = allocate(COUNT), *target = allocate(COUNT);

    (void)state;
    fill(samples, target, COUNT);
    for (int i = 0; i < COUNT; i++) /* so that most of the loss depends on the scan */
        target[i] *= 0.1f;
    for (int reverse = 0; reverse < 2; reverse++) {
        const struct causal_conv conv = {
            .kernel = 4, .sequences = SEQUENCES, .reverse = reverse, .silu = true};
        struct scan_inputs scan = {.sequences = SEQUENCES, .reverse = reverse};
        struct error error = {0};
        struct graph graph;
        int32_t x, parts[3];

        graph_init(&graph, BATCH, true);
        graph.wants_input_gradient = true;
        graph.accumulate = true; /* each gradient has memory of its own until it is read */
        x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){STEPS, WIDTH}, 2);
        scan.u = graph_causal_conv1d(&graph, x, "1", &conv);
        graph_split(&graph, graph_linear(&graph, scan.u, "2", WIDTH + 2 * STATES, false),
                    (int64_t[]){WIDTH, STATES, STATES}, 3, parts, "3");
        scan.delta = parts[0];
        scan.b = parts[1];
        scan.c = parts[2];
        scan.z = reverse ? -1 : graph_linear(&graph, x, "4", WIDTH, false);
        graph_mse(&graph, graph_flatten(&graph, graph_selective_scan(&graph, &scan, "5"), "6"));
        if (graph_differentiate(&graph, &error) || graph_finish(&graph, &error))
            fail_msg("%s", error.text);
        check_graph(reverse ? "scan, reversed" : "scan", &graph, NULL, samples, target);
        graph_release(&graph);
    }
    free(samples);
    free(target);
}

/* Sequences become images and are joined behind convolutions; maxima and means over time. */
static void test_sequences(void **state)
{
    enum { BATCH = 3, LENGTH = 11, WIDTH = 6, COUNT = BATCH * LENGTH * WIDTH };
    const struct conv_attributes window = {
        .kernel = {1, 3}, .stride = {1, 1}, .padding = {0, 1}, .dilation = {1, 1}, .groups = 1};
    float *samples = allocate(COUNT), *target = allocate(COUNT);
    struct error error = {0};
    struct graph graph;
    int32_t x, image, part[3];

    (void)state;
    fill(samples, target, COUNT);
    graph_init(&graph, BATCH, true);
    graph.wants_input_gradient = true;
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){LENGTH, WIDTH}, 2);
    image = graph_token_image(&graph, x, "0");
    for (int i = 0; i < 2; i++) { /* channels in blocks of 16, and in none */
        int32_t y = graph_conv2d(&graph, image, i ? "2" : "1", i ? 16 : 5, &window, true);

        y = graph_image_tokens(&graph, y, i ? "4" : "3");
        part[i] =
            i ? graph_mean_over_time(&graph, y, -1, "6") : graph_max_over_time(&graph, y, -1, "5");
    }
    part[2] = graph_max_over_time(&graph, x, -1, "7");
    graph_mse(&graph, graph_concatenate(&graph, part, 3, "8"));
    if (graph_differentiate(&graph, &error) || graph_finish(&graph, &error))
        fail_msg("%s", error.text);
    check_graph("max_over_time", &graph, NULL, samples, target);
    graph_release(&graph);
    free(samples);
    free(target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operators),   cmocka_unit_test(test_head_losses),
        cmocka_unit_test(test_dropout),     cmocka_unit_test(test_leaky_relu),
        cmocka_unit_test(test_tied_output), cmocka_unit_test(test_padded_attention),
        cmocka_unit_test(test_recurrent),   cmocka_unit_test(test_scan),
        cmocka_unit_test(test_sequences),

    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
