/* test_cpu_operators.c: the results of every operator and optimizer on the CPU backend, compared
 * with PyTorch's dumps (tests/reference/README.md): forward and gradients, for every level of the
 * kernels that this machine supports, and for several divisions into tasks. */
#include "engine/backends/cpu/program.h"
#include "engine/graph/optimizer.h"
#include "engine/train/schedule.h"
#include "tests/support/reference.h"
#include "tests/support/session.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double tolerance = 1e-5;

/* The tensor that "expected/<name>" names. */
static int32_t find_result(const struct graph *graph, const char *name)
{
    char parameter[128];
    size_t length = strlen(name);

    if (strcmp(name, "output") == 0)
        return graph->output;
    if (strcmp(name, "input.gradient") == 0)
        return graph->input_gradient;
    if (length > 9 && strcmp(name + length - 9, ".gradient") == 0) {
        snprintf(parameter, sizeof parameter, "%.*s", (int)(length - 9), name);
        return graph_gradient_of(graph, graph_find_tensor(graph, parameter));
    }
    return graph_find_tensor(graph, name);
}

static void compare(struct test_session *session, const struct dump_tensor *expected,
                    int32_t tensor, const char *file, const struct test_session_options *options)
{
    float *values = calloc((size_t)expected->elements, sizeof(float));
    double error;

    if (tensor < 0)
        fail_msg("%s: no tensor for %s", file, expected->name);
    test_session_read(session, tensor, values);
    error = reference_error(expected, values);
    if (!(error <= tolerance))
        fail_msg("%s, %s, %d tasks, kernels %s: relative error %g", file, expected->name,
                 options->tasks, kernels_available()[options->kernels]->level, error);
    free(values);
}

static void check_operator_with(const char *file, const struct dump *dump,
                                const struct test_session_options *options)
{
    struct step_scalars scalars = {
        .step = 1, .batch = 1, .learning_rate = 0.1f, .gradient_scale = 1};
    const double *loss = dump_find(dump, "expected/loss")->values;
    struct test_session session;
    struct step_metrics metrics;
    struct error error = {0};
    struct graph graph;
    double difference;

    if (reference_build_operator(dump, file, &graph, &error))
        fail_msg("%s: %s", file, error.text);
    if (dump_find(dump, "attribute/seed")) { /* from these its mask is drawn */
        scalars.seed = (uint64_t)dump_attribute(dump, "seed");
        scalars.batch = (int64_t)dump_attribute(dump, "batch");
    }
    test_session_open(&session, &graph, options);
    test_session_initialize(&session, 1);
    for (int i = 0; i < dump->count; i++)
        if (dump->tensors[i].name[0] == '0')
            test_session_write(&session, graph_find_tensor(&graph, dump->tensors[i].name),
                               dump->tensors[i].values);
    test_session_input(&session, graph.input, dump_find(dump, "samples")->values);
    test_session_input(&session, graph.target, dump_find(dump, "target")->values);
    test_session_run(&session, PROGRAM_FORWARD | PROGRAM_BACKWARD, &scalars);
    for (int i = 0; i < dump->count; i++)
        if (strncmp(dump->tensors[i].name, "expected/", 9) == 0 &&
            strcmp(dump->tensors[i].name, "expected/loss") != 0)
            compare(&session, &dump->tensors[i], find_result(&graph, dump->tensors[i].name + 9),
                    file, options);
    session.backend->program_read_metrics(session.program, &metrics);
    difference = fabs(metrics.last_loss - *loss);
    if (!(difference <= tolerance * fabs(*loss)))
        fail_msg("%s: the loss is %.9g, not %.9g", file, metrics.last_loss, *loss);
    test_session_close(&session);
    graph_release(&graph);
}

/* Checks both block sizes of images and channels-last, whatever this processor would choose. */
static void check_operator(const char *file, const struct dump *dump)
{
    static const int tasks[] = {1, 2, 3, 8};
    struct test_session_options options = {.threads = 2, .emulate_precision = true};

    for (; kernels_available()[options.kernels]; options.kernels++)
        for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
            options.tasks = tasks[i];
            for (int order = 0; order < 3; order++) {
                options.image_block = order == 0 ? 8 : 16;
                options.channels_last = order == 2;
                options.native_bfloat16 = false;
                check_operator_with(file, dump, &options);
                options.native_bfloat16 = onednn_bfloat16() != ONEDNN_BFLOAT16_NONE;
                if (options.native_bfloat16 && dump_find(dump, "attribute/compute_type"))
                    check_operator_with(file, dump, &options);
            }
        }
}

static void check_optimizer_with(const char *file, const struct dump *dump,
                                 const struct test_session_options *options)
{
    static const char *const parameters[] = {"0.weight", "0.bias"};
    int steps = (int)dump_attribute(dump, "steps");
    struct optimizer_config config = reference_optimizer(dump);
    double momentum_product = 1;
    struct test_session session;
    struct error error = {0};
    struct graph graph;
    char name[64];

    if (reference_build_optimizer(dump, &graph, &error))
        fail_msg("%s: %s", file, error.text);
    test_session_open(&session, &graph, options);
    test_session_initialize(&session, 1);
    test_session_input(&session, graph.input, dump_find(dump, "0.weight")->values);
    test_session_input(&session, graph.target, dump_find(dump, "0.weight")->values);
    for (int i = 0; i < 2; i++)
        test_session_write(&session, graph_find_tensor(&graph, parameters[i]),
                           dump_find(dump, "%s", parameters[i])->values);
    for (int step = 1; step <= steps; step++) {
        struct step_scalars scalars = {.step = step,
                                       .batch = step,
                                       .gradient_scale = 1,
                                       .clip_norm = (float)reference_setting(dump, "clip_norm"),
                                       .clip_value = (float)reference_setting(dump, "clip_value")};

        scalars.average_share =
            (float)(1 -
                    schedule_average_decay(reference_setting(dump, "average_decay"), false, step));
        if (optimizer_of(&config)->averages_itself)
            scalars.average_share =
                (float)schedule_share(&(struct schedule_config){.learning_rate = 1}, step);
        if (optimizer_of(&config)->momentum)
            momentum_product *= optimizer_of(&config)->momentum(&config, config.beta1, step);
        scalars.momentum_product = momentum_product;
        snprintf(name, sizeof name, "learning_rate/%d", step);
        scalars.learning_rate = (float)dump_attribute(dump, name);
        for (int i = 0; i < 2; i++)
            test_session_write(&session,
                               graph_gradient_of(&graph, graph_find_tensor(&graph, parameters[i])),
                               dump_find(dump, "gradient/%d/%s", step, parameters[i])->values);
        test_session_run(&session, PROGRAM_UPDATE, &scalars);
        for (int i = 0; i < 2; i++)
            compare(&session, dump_find(dump, "expected/%d/%s", step, parameters[i]),
                    graph_find_tensor(&graph, parameters[i]), file, options);
    }
    for (int i = 0; i < dump->count; i++)
        if (strncmp(dump->tensors[i].name, "expected/state/", 15) == 0)
            compare(&session, &dump->tensors[i],
                    graph_find_tensor(&graph, dump->tensors[i].name + 15), file, options);
    test_session_close(&session);
    graph_release(&graph);
}

static void check_optimizer(const char *file, const struct dump *dump)
{
    for (int kernels = 0; kernels_available()[kernels]; kernels++)
        for (int tasks = 1; tasks <= 3; tasks += 2)
            check_optimizer_with(
                file, dump,
                &(struct test_session_options){.threads = 2, .kernels = kernels, .tasks = tasks});
}

static void test_operators(void **state)
{
    (void)state;
    assert_true(dump_for_each("operators", check_operator) >= 117);
}

static void test_optimizers(void **state)
{
    (void)state;
    assert_true(dump_for_each("optimizers", check_optimizer) >= 36);
}

/* Every operator of GRAPH_OPERATORS has a row, and a row with a single step says which. */
static void test_table(void **state)
{
    (void)state;
    for (int op = 0; op < OP_COUNT; op++) {
        const struct operator_functions *row = &cpu_operators.by_operator[op];

        bool steps = row->bind == slices_bind;

        if (!row->bind || (steps && !row->run) || (steps && row->suits_tiles && !row->run_tiles))
            fail_msg("the CPU backend's row of %s is not whole",
                     graph_op_to_string((enum graph_op)op));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_operators),
        cmocka_unit_test(test_optimizers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
