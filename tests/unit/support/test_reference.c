/* test_reference.c: every committed dump can be read, and its graph has tensors with PyTorch's
 * names and shapes. (test_cpu_operators and test_trajectories compare the numbers.) */
#include "base/error.h"
#include "tests/support/reference.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void expect_tensor(const struct graph *graph, int32_t id, int32_t parameter,
                          const struct dump_tensor *tensor, const char *file)
{
    struct graph_tensor found = {0};
    struct graph_shape shape;

    if (id >= 0)
        found = graph->tensors[id];
    if (id >= 0 && parameter >= 0) /* a gradient is written as its parameter */
        found.dropped_axis = graph->tensors[parameter].dropped_axis;
    shape = graph_shape_in_files(&found);
    if (id < 0 || !graph_shape_equal(&shape, &tensor->shape))
        fail_msg("%s: the graph does not have '%s' in that shape", file, tensor->name);
}

/* The parameter whose gradient has that name; -1: it names no gradient of one. */
static int32_t parameter_of(const struct graph *graph, const char *name)
{
    const char *end = strstr(name, ".gradient");
    char parameter[128];

    if (!end)
        return -1;
    snprintf(parameter, sizeof parameter, "%.*s", (int)(end - name), name);
    return graph_find_tensor(graph, parameter);
}

static void check_operator(const char *name, const struct dump *dump)
{
    struct error error = {0};
    struct graph graph;

    if (reference_build_operator(dump, name, &graph, &error))
        fail_msg("%s: %s", name, error.text);
    for (int i = 0; i < dump->count; i++) {
        const struct dump_tensor *t = &dump->tensors[i];

        if (strcmp(t->name, "expected/output") == 0)
            expect_tensor(&graph, graph.output, -1, t, name);
        else if (strcmp(t->name, "target") == 0)
            expect_tensor(&graph, graph.target, -1, t, name);
        else if (strcmp(t->name, "expected/input.gradient") == 0)
            expect_tensor(&graph, graph.input_gradient, -1, t, name);
        else if (strncmp(t->name, "expected/0", 10) == 0)
            expect_tensor(&graph, graph_find_tensor(&graph, t->name + 9),
                          parameter_of(&graph, t->name + 9), t, name);
        else if (t->name[0] == '0')
            expect_tensor(&graph, graph_find_tensor(&graph, t->name), -1, t, name);
    }
    graph_release(&graph);
}

static void check_optimizer(const char *name, const struct dump *dump)
{
    static const char prefix[] = "expected/state/";
    struct error error = {0};
    int states = 0, tensors = 0;
    struct graph graph;

    if (reference_build_optimizer(dump, &graph, &error))
        fail_msg("%s: %s", name, error.text);
    for (int i = 0; i < dump->count; i++) {
        const struct dump_tensor *t = &dump->tensors[i];

        if (strncmp(t->name, prefix, strlen(prefix)) == 0) {
            expect_tensor(&graph, graph_find_tensor(&graph, t->name + strlen(prefix)), -1, t, name);
            states++;
        }
    }
    for (int32_t i = 0; i < graph.tensor_count; i++)
        tensors +=
            graph.tensors[i].role == TENSOR_OPTIMIZER || graph.tensors[i].role == TENSOR_AVERAGE;
    assert_int_equal(states, tensors);
    graph_release(&graph);
}

static void test_operators(void **state)
{
    (void)state;
    assert_true(dump_for_each("operators", check_operator) >= 87);
}

static void test_optimizers(void **state)
{
    (void)state;
    assert_true(dump_for_each("optimizers", check_optimizer) >= 28);
}

static void test_damaged_file(void **state)
{
    struct error error = {0};
    struct dump dump;

    (void)state;
    assert_int_not_equal(dump_read("Makefile", &dump, &error), 0);
    assert_non_null(strstr(error.text, "not a dump"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operators),
        cmocka_unit_test(test_optimizers),
        cmocka_unit_test(test_damaged_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
