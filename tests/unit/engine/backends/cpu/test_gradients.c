/* test_gradients.c: the gradients of every operator on the CPU backend against finite differences
 * of the loss (tests/support/finite_differences.h); those along time are in
 * test_gradients_sequences.c. */
#include "engine/graph/build.h"
#include "engine/graph/forward.h"
#include "tests/support/finite_differences.h"
#include "tests/support/reference.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Moves the samples away from points without a derivative: ReLU and ELU at 0, ReLU6 at 6, too,
 * hardswish and hardsigmoid at -3 and 3, windows with two equal maxima. */
static void avoid_kinks(const char *file, float *samples, int64_t elements)
{
    for (int64_t i = 0; i < elements; i++) {
        if (strncmp(file, "relu", 4) == 0 || strncmp(file, "elu", 3) == 0)
            samples[i] += samples[i] < 0 ? -0.05f : 0.05f;
        if (strncmp(file, "relu6", 5) == 0 && fabsf(samples[i] - 6) < 0.05f)
            samples[i] = 6.1f;
        if (strncmp(file, "hard", 4) == 0 && fabsf(fabsf(samples[i]) - 3) < 0.05f)
            samples[i] *= 1.05f;
        if (strncmp(file, "max_", 4) == 0) /* 0.02 apart, in a scrambled order */
            samples[i] = 0.02f * (float)(i * 7919 % 1009) - 10.0f;
    }
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
            /* of triplets, small steps: others are mined soon */
            float step = strncmp(entry->d_name, "triplet", 7) == 0 ? gradients_step_width / 4
                                                                   : gradients_step_width;

            if (samples->type == DUMP_FLOAT32)
                avoid_kinks(entry->d_name, samples->values, samples->elements);
            gradients_check_lengths(entry->d_name, &graph, &dump, samples->values, NULL,
                                    dump_find(&dump, "target")->values, step);
            count++;
        }
        graph_release(&graph);
        dump_release(&dump);
    }
    closedir(folder);
    assert_true(count >= 110);
}

/* Dropout draws its mask again in the backward part: if it were another one, nothing would agree
 * here. Its samples also pass through a sum with themselves, so that a gradient is added up. */
static void test_dropout(void **state)
{
    struct error error = {0};
    struct graph graph;
    float *samples = gradients_allocate(8 * 30), *target = gradients_allocate(8 * 30);
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
    gradients_check("dropout", &graph, NULL, samples, target);
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
    float *samples = gradients_allocate(BATCH * CLASSES);
    int32_t *target = (int32_t *)gradients_allocate(BATCH * LABELS);
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
    gradients_check("head_losses", &graph, NULL, samples, target);
    test_session_open(&session, &graph, &options);
    test_session_input(&session, graph.input, samples);
    test_session_input(&session, graph.target, target);
    test_session_run(&session, PROGRAM_FORWARD, &gradients_scalars);
    session.backend->program_read_metrics(session.program, &metrics);
    assert_true(fabs(metrics.last_loss - expected) < 1e-6 * expected);
    target[LABELS + 3] = 4; /* no class */
    test_session_input(&session, graph.target, target);
    test_session_run(&session, PROGRAM_FORWARD, &gradients_scalars);
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
    float *samples = gradients_allocate(COUNT), *target = gradients_allocate(COUNT),
          *values = gradients_allocate(COUNT);
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
        test_session_run(&session, PROGRAM_FORWARD, &gradients_scalars);
        test_session_read(&session, graph.output, values);
        for (int i = 0; i < COUNT; i++)
            assert_true(values[i] == (samples[i] > 0 ? samples[i] : slopes[k] * samples[i]));
        test_session_close(&session);
        avoid_kinks("relu", samples, COUNT);
        gradients_check("leaky_relu", &graph, NULL, samples, target);
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
    gradients_check("tied", &graph, NULL, (float *)samples, target);
    graph_release(&graph);
    free(samples);
    free(target);
}

/* Frozen parameters in each way: a whole batch norm, which then uses its running statistics, a
 * weight alone, a bias alone, and those of a norm whose other gradients are needed. */
static void test_frozen(void **state)
{
    enum { BATCH = 6, SIDE = 3, CHANNELS = 2, CLASSES = 3 };
    static const char *const frozen[] = {"1", "2.weight", "3.bias", "5"};
    const struct conv_attributes conv = {
        .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .kernel = {3, 3}, .groups = 1};
    struct error error = {0};
    struct graph graph;
    float *samples = gradients_allocate(BATCH * 2 * SIDE * SIDE);
    float *target = gradients_allocate(BATCH * CLASSES);
    int32_t x;

    (void)state;
    for (int i = 0; i < BATCH * 2 * SIDE * SIDE; i++)
        samples[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    for (int i = 0; i < BATCH * CLASSES; i++)
        target[i] = (float)(i * 53 % 103) / 50.0f - 1.0f;
    graph_init(&graph, BATCH, true);
    graph.frozen = frozen;
    graph.frozen_count = sizeof frozen / sizeof *frozen;
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){2, SIDE, SIDE}, 3);
    x = graph_conv2d(&graph, x, "0", CHANNELS, &conv, true);
    x = graph_batch_norm(&graph, x, "1", 1e-5f, 0.1f);
    x = graph_activation(&graph, x, "1", ACTIVATION_TANH);
    x = graph_conv2d(&graph, x, "2", CHANNELS, &conv, true);
    x = graph_flatten(&graph, x, "2");
    x = graph_linear(&graph, x, "3", 12, true);
    x = graph_linear(&graph, x, "4", 12, true);
    x = graph_layer_norm(&graph, x, "5", 1e-5f, true);
    graph_mse(&graph, graph_linear(&graph, x, "6", CLASSES, true));
    graph.tensors[graph_find_tensor(&graph, "1.weight")].initializer =
        (struct initializer){.kind = INITIALIZER_NORMAL, .bound = 1};
    graph.tensors[graph_find_tensor(&graph, "1.running_mean")].initializer =
        (struct initializer){.kind = INITIALIZER_CONSTANT, .bound = 0.3f};
    graph.tensors[graph_find_tensor(&graph, "1.running_var")].initializer =
        (struct initializer){.kind = INITIALIZER_CONSTANT, .bound = 2.5f};
    if (graph_check_frozen(&graph, &error) || graph_differentiate(&graph, &error) ||
        graph_finish(&graph, &error))
        fail_msg("%s", error.text);
    /* small steps: the layer norm is curved */
    gradients_check_lengths("frozen", &graph, NULL, samples, NULL, target, 0.00125f);
    graph_release(&graph);
    free(samples);
    free(target);
}

/* Maximum pools of windows with more than 256 positions, against the largest number of each window.
 * Many numbers are equal; the first one in the order of rows gets the gradient, as in PyTorch. */
static void check_large_pool(int height, int width, int out_height, int out_width,
                             const struct conv_attributes *window)
{
    enum { BATCH = 3, CHANNELS = 2, IMAGES = BATCH * CHANNELS };
    const int pixels = height * width, outputs = out_height * out_width;
    float *samples = gradients_allocate(IMAGES * pixels),
          *target = gradients_allocate(IMAGES * outputs),
          *values = gradients_allocate(IMAGES * outputs),
          *gradient = gradients_allocate(IMAGES * pixels),
          *expected = calloc((size_t)IMAGES * (size_t)pixels, sizeof *expected);
    struct error error = {0};
    struct test_session session;
    struct graph graph;
    int32_t x;

    for (int i = 0; i < IMAGES * pixels; i++)
        samples[i] = (float)(i * 7919 % 1009 % 211) - 300.0f;
    for (int i = 0; i < IMAGES * outputs; i++)
        target[i] = (float)i;
    graph_init(&graph, BATCH, true);
    graph.wants_input_gradient = true;
    x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){CHANNELS, height, width}, 3);
    x = window ? graph_max_pool2d(&graph, x, "0", window)
               : graph_adaptive_max_pool2d(&graph, x, "0", out_height, out_width);
    graph_mse(&graph, graph_flatten(&graph, x, "1"));
    if (graph_differentiate(&graph, &error) || graph_finish(&graph, &error))
        fail_msg("%s", error.text);
    test_session_open(&session, &graph, &(struct test_session_options){.threads = 2});
    test_session_input(&session, graph.input, samples);
    test_session_input(&session, graph.target, target);
    test_session_run(&session, PROGRAM_FORWARD | PROGRAM_BACKWARD, &gradients_scalars);
    test_session_read(&session, graph.output, values);
    test_session_read(&session, graph.input_gradient, gradient);
    for (int i = 0; i < IMAGES * outputs; i++) {
        int image = i / outputs, oh = i % outputs / out_width, ow = i % out_width, best = -1;
        int top = window ? oh * window->stride[0] - window->padding[0] : oh * height / out_height;
        int left = window ? ow * window->stride[1] - window->padding[1] : ow * width / out_width;
        int bottom =
            window ? top + window->kernel[0] : ((oh + 1) * height + out_height - 1) / out_height;
        int right =
            window ? left + window->kernel[1] : ((ow + 1) * width + out_width - 1) / out_width;

        for (int h = top > 0 ? top : 0; h < bottom && h < height; h++)
            for (int w = left > 0 ? left : 0; w < right && w < width; w++) {
                int place = image * pixels + h * width + w;

                best = best < 0 || samples[place] > samples[best] ? place : best;
            }
        assert_true(values[i] == samples[best]);
        expected[best] += 2 * (samples[best] - target[i]) / (float)(IMAGES * outputs);
    }
    for (int i = 0; i < IMAGES * pixels; i++)
        assert_float_equal(gradient[i], expected[i], 1e-3);
    test_session_close(&session);
    graph_release(&graph);
    free(samples);
    free(target);
    free(values);
    free(gradient);
    free(expected);
}

static void test_large_pools(void **state)
{
    (void)state;
    check_large_pool(20, 26, 1, 1, NULL);
    check_large_pool(1, 997, 1, 1, NULL);  /* a prime number */
    check_large_pool(61, 47, 3, 2, NULL);  /* windows of several lengths */
    check_large_pool(1, 1000, 1, 2, NULL); /* parts of 250 positions, two to a window */
    check_large_pool(50, 47, 7, 6,
                     &(struct conv_attributes){.kernel = {20, 20},
                                               .stride = {7, 7},
                                               .padding = {6, 6},
                                               .dilation = {1, 1},
                                               .groups = 1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operators),   cmocka_unit_test(test_head_losses),
        cmocka_unit_test(test_dropout),     cmocka_unit_test(test_leaky_relu),
        cmocka_unit_test(test_tied_output), cmocka_unit_test(test_frozen),
        cmocka_unit_test(test_large_pools),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
