/* test_convolution_choice.c: how the method of a convolution is chosen: which methods are tried, in
 * how many parts and with which samples they are measured, and which texts are choices. */
#include "engine/backends/cpu/program.h"
#include "engine/graph/forward.h"
#include "engine/train/convolutions.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static int programs_prepared, programs_in_six;

static int prepare_and_count(struct backend_device *device, const struct graph *graph,
                             const struct backend_program *shared, struct backend_program **program,
                             struct error *error)
{
    int r = backend_cpu()->program_prepare(device, graph, shared, program, error);

    programs_prepared++;
    programs_in_six += r == 0 && (*program)->parts == 6;
    return r;
}

/* A layer whose own work would be one part is measured in as many parts as its model has. */
static void test_measured_in_the_parts_of_the_model(void **state)
{
    struct convolution_shape shape = {
        .batch = 2,
        .channels = 4,
        .height = 5,
        .width = 5,
        .out_channels = 4,
        .attributes = {.kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}, .groups = 1},
        .parts = 6,
        .methods = "Bpcf"};
    struct backend_device_config config = {.threads = 2};
    struct backend counting = *backend_cpu();
    struct backend_device *device;
    struct convolution_times times;
    struct error error;

    (void)state;
    counting.program_prepare = prepare_and_count;
    assert_int_equal(counting.device_open(&config, &device, &error), 0);
    assert_int_equal(convolution_measure(&counting, device, &shape, &times, &error), 0);
    assert_true(programs_prepared > 0);
    assert_int_equal(programs_in_six, programs_prepared);
    /* afterwards, the model's programs are divided by their work again */
    assert_int_equal(device->tasks, 0);
    counting.device_close(device);
}

static int64_t least_batch;

static int prepare_and_note_batch(struct backend_device *device, const struct graph *graph,
                                  const struct backend_program *shared,
                                  struct backend_program **program, struct error *error)
{
    least_batch = graph->batch < least_batch ? graph->batch : least_batch;
    return backend_cpu()->program_prepare(device, graph, shared, program, error);
}

/* Where each part of the model's work has whole samples, each measured part has them, too. */
static void test_measured_with_whole_samples(void **state)
{
    struct convolution_shape shape = {.batch = 8,
                                      .channels = 32,
                                      .height = 20,
                                      .width = 20,
                                      .out_channels = 32,
                                      .attributes = {.kernel = {3, 3},
                                                     .stride = {1, 1},
                                                     .dilation = {1, 1},
                                                     .padding = {1, 1},
                                                     .groups = 1},
                                      .parts = 8,
                                      .methods = "Bdp"};
    struct backend_device_config config = {.threads = 2};
    struct backend noting = *backend_cpu();
    struct backend_device *device;
    struct convolution_times times;
    struct error error;

    (void)state;
    least_batch = shape.batch;
    noting.program_prepare = prepare_and_note_batch;
    assert_int_equal(noting.device_open(&config, &device, &error), 0);
    assert_int_equal(convolution_measure(&noting, device, &shape, &times, &error), 0);
    assert_int_equal(least_batch, 8);
    noting.device_close(device);
}

/* Samples that do not fall evenly to the parts: dividing channels is tried on any number of
 * threads, for one has no sums to do then, either. */
static void test_channels_are_divided_on_one_thread(void **state)
{
    struct backend_device_config config = {.threads = 1};
    const struct backend *backend = backend_cpu();
    const struct conv_attributes attributes = {
        .kernel = {3, 3}, .stride = {2, 2}, .dilation = {1, 1}, .padding = {1, 1}, .groups = 1};

    (void)state;
    for (int64_t batch = 3; batch <= 4; batch++) {
        struct backend_device *device;
        char methods[CONVOLUTION_METHODS_MAX];
        struct graph graph;
        struct error error;
        int32_t x;

        assert_int_equal(backend->device_open(&config, &device, &error), 0);
        backend->device_divide(device, 4);
        graph_init(&graph, batch, true);
        x = graph_input(&graph, TENSOR_FLOAT32, (int64_t[]){20, 9, 9}, 3);
        graph_conv2d(&graph, x, "0", 30, &attributes, true);
        for (int32_t i = 0; i < graph.node_count; i++)
            if (graph.nodes[i].op == OP_CONV2D)
                backend->convolution_methods(device, &graph, &graph.nodes[i], methods);
        assert_int_equal(strchr(methods, 'c') != NULL, batch == 3);
        assert_int_equal(strchr(methods, 'f') != NULL, batch == 3);
        graph_release(&graph);
        backend->device_close(device);
    }
}

static void test_choices_are_checked(void **state)
{
    static const char *const wrong[] = {"p", "pp", "ppx", "8", "pp7", "-d", "ppppp"};
    static const char *const right[] = {"", "7", "0123", "---", "pbnd-p", "lcf", "qpq", "uuu"};
    struct error error;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(convolution_methods_check(wrong[i], &error), -EINVAL);
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        assert_int_equal(convolution_methods_check(right[i], &error), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_measured_in_the_parts_of_the_model),
        cmocka_unit_test(test_measured_with_whole_samples),
        cmocka_unit_test(test_channels_are_divided_on_one_thread),
        cmocka_unit_test(test_choices_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
