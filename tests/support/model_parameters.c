/* model_parameters.c: see model_parameters.h. */
#include "tests/support/model_parameters.h"

#include "engine/graph/forward.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

const struct model_data model_digits = {.type = TENSOR_FLOAT32,
                                        .sample_shape = {1, 28, 28},
                                        .rank = 3,
                                        .outputs = 10,
                                        .loss = LOSS_CROSS_ENTROPY};
const struct model_data model_vectors = {.type = TENSOR_FLOAT32,
                                         .sample_shape = {64},
                                         .rank = 1,
                                         .outputs = 10,
                                         .loss = LOSS_CROSS_ENTROPY};
const struct model_data model_text = {.type = TENSOR_INT32,
                                      .sample_shape = {8},
                                      .rank = 1,
                                      .vocabulary = 65,
                                      .outputs = 65,
                                      .loss = LOSS_CROSS_ENTROPY};

/* Lists "0.weight[64x20] 0.bias[64] …": the parameters and statistics in order; *learnt receives
 * their number. */
static const char *list_parameters(const struct graph *graph, int64_t *learnt)
{
    static char list[4096];
    char shape[128];
    size_t length = 0;

    list[0] = '\0';
    *learnt = 0;
    for (int32_t i = 0; i < graph->tensor_count; i++) {
        const struct graph_tensor *t = &graph->tensors[i];

        if (t->role != TENSOR_PARAMETER && t->role != TENSOR_STATISTIC)
            continue;
        length +=
            (size_t)snprintf(list + length, sizeof list - length, "%s%s[%s]", length ? " " : "",
                             t->name, graph_shape_format(&t->shape, shape, sizeof shape));
        if (t->role == TENSOR_PARAMETER)
            *learnt += graph_shape_elements(&t->shape);
    }
    return list;
}

void model_expect(const struct model_config *config, const struct model_data *data,
                  const char *parameters, int64_t count)
{
    for (int training = 0; training < 2; training++) {
        struct error error = {0};
        struct graph graph;
        int64_t learnt;

        graph_init(&graph, 32, training);
        if (model_build(config, data, &graph, &error) ||
            (training && graph_differentiate(&graph, &error)) || graph_finish(&graph, &error))
            fail_msg("%s", error.text);
        assert_string_equal(list_parameters(&graph, &learnt), parameters);
        assert_int_equal(learnt, count);
        assert_int_equal(graph.tensors[graph.output].shape.extent[1], data->outputs);
        graph_release(&graph);
    }
}

void model_expect_refusal(const struct model_config *config, const struct model_data *data,
                          const char *sentence)
{
    struct error error = {0};
    struct graph graph;

    graph_init(&graph, 32, true);
    assert_true(model_build(config, data, &graph, &error) < 0);
    assert_string_equal(error.text, sentence);
    graph_release(&graph);
}
