/* quantized_weights.c: see quantized_weights.h. */
#include "tests/support/quantized_weights.h"

#include "engine/train/quantization.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

void quantized_weights_write(struct test_session *session, const struct graph *plain)
{
    const struct graph *graph = session->graph;

    for (int32_t i = 0; i < plain->tensor_count; i++) {
        int64_t elements = graph_shape_elements(&plain->tensors[i].shape);
        float *values;

        if (plain->tensors[i].role != TENSOR_PARAMETER)
            continue;
        values = malloc((size_t)elements * sizeof *values);
        graph_initial_values(plain, i, 42, values);
        if (graph->tensors[i].type == TENSOR_INT8) {
            int64_t rows = plain->tensors[i].shape.extent[0];
            int8_t *quantized = malloc((size_t)elements), *read = malloc((size_t)elements);
            float *scale = malloc((size_t)rows * sizeof *scale);
            char name[GRAPH_NAME_MAX + 8];
            struct error error;

            snprintf(name, sizeof name, "%s_scale", plain->tensors[i].name);
            assert_int_equal(
                quantization_quantize(values, rows, elements / rows, quantized, scale, &error), 0);
            test_session_write(session, i, quantized);
            test_session_read(session, i, read);
            assert_memory_equal(read, quantized, (size_t)elements);
            test_session_write(session, graph_find_tensor(graph, name), scale);
            free(quantized);
            free(read);
            free(scale);
        } else {
            test_session_write(session, i, values);
        }
        free(values);
    }
}
