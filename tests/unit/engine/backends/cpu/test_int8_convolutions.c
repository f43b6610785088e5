/* test_int8_convolutions.c: convolutions of integers, of all shapes that oneDNN has implementations
 * of their own for: 1x1, depthwise, strided, with and without zero points, and channels that fill
 * no register. Results must be near float32's, and no other division of the work may change a
 * bit. */
#include "base/alignment.h"
#include "base/philox.h"
#include "engine/graph/forward.h"
#include "tests/support/quantized_weights.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { BATCH = 21, OUTPUTS = 5, SAMPLE_MAX = 16 * 12 * 12 };

struct model {
    const char *name;
    int64_t channels, side;    /* of a sample */
    int64_t expanded, reduced; /* channels of the layers between */
    enum activation_kind activation;
};

/* In the first ones AMX takes the wide layers' 1x1 convolutions by tiles, of which the last are not
 * full. In `deep` the weights outweigh the images of a slice. */
static const struct model models[] = {{"hardswish", 16, 6, 240, 40, ACTIVATION_HARDSWISH},
                                      {"relu", 16, 6, 240, 40, ACTIVATION_RELU},
                                      {"narrow", 3, 9, 17, 5, ACTIVATION_RELU},
                                      {"deep", 16, 4, 144, 256, ACTIVATION_RELU},
                                      {"images", 1, 12, 32, 24, ACTIVATION_HARDSWISH}};
enum { MODELS = sizeof models / sizeof *models };

static int32_t convolution(struct graph *graph, int32_t x, const char *name, int64_t channels,
                           int kernel, int stride, int groups)
{
    return graph_conv2d(graph, x, name, channels,
                        &(struct conv_attributes){.stride = {stride, stride},
                                                  .padding = {kernel / 2, kernel / 2},
                                                  .dilation = {1, 1},
                                                  .kernel = {kernel, kernel},
                                                  .groups = groups},
                        true);
}

static void build(struct graph *graph, const struct model *model, int64_t batch)
{
    int32_t x, branch;

    graph_init(graph, batch, false);
    x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){model->channels, model->side, model->side},
                    3);
    branch = convolution(graph, x, "branch", model->reduced, 1, 1, 1);
    x = convolution(graph, x, "expand", model->expanded, 1, 1, 1);
    x = graph_activation(graph, x, "act1", model->activation);
    x = convolution(graph, x, "depthwise", model->expanded, 5, 1, (int)model->expanded);
    x = graph_activation(graph, x, "act2", model->activation);
    x = convolution(graph, x, "project", model->reduced, 1, 1, 1);
    x = graph_add(graph, x, branch, "sum");
    x = graph_activation(graph, x, "act3", ACTIVATION_RELU);
    x = convolution(graph, x, "down", model->reduced, 3, 2, 1);
    x = graph_activation(graph, x, "act4", model->activation);
    x = convolution(graph, x, "last", model->expanded, 1, 1, 1);
    x = graph_global_average_pool2d(graph, x, "pool");
    x = graph_flatten(graph, x, "flatten");
    graph_linear(graph, x, "head", OUTPUTS, true);
}

static const struct step_scalars scalars = {.step = 1, .gradient_scale = 1};

static void run(struct test_session *session, const struct model *model, int64_t batch)
{
    size_t count = (size_t)(batch * model->channels * model->side * model->side);
    float *x = aligned_alloc(64, align_up(count * sizeof *x, 64));

    for (size_t i = 0; i < count; i++)
        x[i] = 4 * philox_uniform(philox_draw(5, 7, i).word[0]) - 2;
    test_session_input(session, session->graph->input, x);
    test_session_run(session, PROGRAM_FORWARD, &scalars);
    free(x);
}

/* The ranges of the batch, as graph_quantize() reads them, in a text that the caller frees; and the
 * outputs of the float32 model. */
static char *observe(const struct model *model, float *outputs)
{
    const struct test_session_options options = {.threads = 1};
    struct test_session session;
    struct graph graph, plain;
    struct error error;
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);

    build(&graph, model, BATCH);
    assert_int_equal(graph_observe(&graph, &error), 0);
    assert_int_equal(graph_finish(&graph, &error), 0);
    build(&plain, model, BATCH);
    assert_int_equal(graph_finish(&plain, &error), 0);
    test_session_open(&session, &graph, &options);
    test_session_initialize(&session, 1);
    quantized_weights_write(&session, &plain);
    run(&session, model, BATCH);
    test_session_read(&session, graph.output, outputs);
    fprintf(file, "static");
    for (int32_t i = 0; i < graph.tensor_count; i++) {
        const char *name = graph.tensors[i].name;
        float range[2];

        if (strncmp(name, GRAPH_RANGE_PREFIX, strlen(GRAPH_RANGE_PREFIX)))
            continue;
        test_session_read(&session, i, range);
        fprintf(file, "\n%.9g %.9g %s", (double)range[0], (double)range[1],
                name + strlen(GRAPH_RANGE_PREFIX));
    }
    fprintf(file, "\n");
    fclose(file);
    test_session_close(&session);
    graph_release(&graph);
    graph_release(&plain);
    return text;
}

static void run_quantized(const struct model *model, const char *ranges, int64_t batch,
                          const struct test_session_options *options, float *outputs)
{
    struct test_session session;
    struct graph graph, plain;
    struct error error;

    build(&plain, model, batch);
    assert_int_equal(graph_finish(&plain, &error), 0);
    build(&graph, model, batch);
    assert_int_equal(graph_quantize(&graph, ranges, &error), 0);
    assert_int_equal(graph_finish(&graph, &error), 0);
    test_session_open(&session, &graph, options);
    quantized_weights_write(&session, &plain);
    run(&session, model, batch);
    test_session_read(&session, graph.output, outputs);
    test_session_close(&session);
    graph_release(&graph);
    graph_release(&plain);
}

static const char instructions_variable[] = "ONEDNN_MAX_CPU_ISA";

/* Within two hundredths of the largest float32 result, or four where weights have but 7 bits. */
static void models_stay_close_to_float32(void **state)
{
    float tolerance = getenv(instructions_variable) ? 0.04f : 0.02f;

    (void)state;
    for (int m = 0; m < MODELS; m++) {
        float expected[BATCH * OUTPUTS], outputs[BATCH * OUTPUTS], most = 0, worst = 0;
        char *ranges = observe(&models[m], expected);

        run_quantized(&models[m], ranges, BATCH, &(struct test_session_options){.threads = 1},
                      outputs);
        for (int i = 0; i < BATCH * OUTPUTS; i++) {
            most = fmaxf(most, fabsf(expected[i]));
            worst = fmaxf(worst, fabsf(outputs[i] - expected[i]));
        }
        if (!(worst <= tolerance * most) || worst == 0)
            fail_msg("%s: off by %g of %g", models[m].name, (double)worst, (double)most);
        free(ranges);
    }
}

static void division_and_neighbours_change_no_bit(void **state)
{
    static const struct test_session_options ways[] = {{.threads = 1},
                                                       {.threads = 1, .tasks = 8},
                                                       {.threads = 2, .tasks = 2},
                                                       {.threads = 2, .tasks = 8},
                                                       {.threads = 3, .tasks = 8},
                                                       {.threads = 8, .tasks = 8}};

    (void)state;
    for (int m = 0; m < MODELS; m++) {
        float expected[BATCH * OUTPUTS], outputs[BATCH * OUTPUTS];
        char *ranges = observe(&models[m], expected);

        run_quantized(&models[m], ranges, BATCH,
                      &(struct test_session_options){.threads = 1, .tasks = 1}, expected);
        for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++)
            for (int64_t batch = 1; batch <= BATCH; batch += batch < 4 ? 1 : 17) {
                run_quantized(&models[m], ranges, batch, &ways[w], outputs);
                for (int64_t i = 0; i < batch * OUTPUTS; i++)
                    if (memcmp(&outputs[i], &expected[i], sizeof outputs[i]))
                        fail_msg("%s: output %d of %d samples is %.9g, not %.9g, with %d threads "
                                 "and %d tasks",
                                 models[m].name, (int)i, (int)batch, (double)outputs[i],
                                 (double)expected[i], ways[w].threads, ways[w].tasks);
            }
        free(ranges);
    }
}

/* The same in processes whose oneDNN has no VNNI, and adds two products in 16 bits. */
static void models_stay_close_without_vnni(void **state)
{
    static const char *const instructions[] = {"AVX2", "AVX512_CORE"};

    (void)state;
    for (size_t i = 0; i < sizeof instructions / sizeof instructions[0]; i++) {
        pid_t child;
        int status;

        fflush(NULL);
        child = fork();
        if (child == 0) {
            setenv(instructions_variable, instructions[i], 1);
            execl("/proc/self/exe", "test_int8_convolutions", "models_stay_close_to_float32", NULL);
            _exit(127);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_stay_close_to_float32),
        cmocka_unit_test(models_stay_close_without_vnni),
        cmocka_unit_test(division_and_neighbours_change_no_bit),
    };

    if (argument_count > 1)
        cmocka_set_test_filter(arguments[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
