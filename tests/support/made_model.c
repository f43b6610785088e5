/* made_model.c: see made_model.h. */
#include "tests/support/made_model.h"

#include "base/alignment.h"
#include "engine/graph/forward.h"
#include "tests/support/session.h"
#include "tests/support/temporary_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- making a model ---- */

void made_begin(struct made_model *made, int rank, const int64_t *extent)
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
    made->tensor_type.elem_type = MADE_FLOAT;
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

static Onnx__Tensor *constant_add(struct made_model *made, const char *name, int type, int rank,
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

void made_floats(struct made_model *made, const char *name, int rank, const int64_t *extent,
                 const float *numbers, size_t count)
{
    Onnx__Tensor *tensor = constant_add(made, name, MADE_FLOAT, rank, extent);

    tensor->n_float_data = count;
    tensor->float_data = (float *)numbers;
}

void made_float(struct made_model *made, const char *name, const float *number)
{
    made_floats(made, name, 0, NULL, number, 1);
}

void made_integers(struct made_model *made, const char *name, const int64_t *numbers,
                   const int64_t *count)
{
    Onnx__Tensor *tensor = constant_add(made, name, MADE_INT64, 1, count);

    tensor->n_int64_data = (size_t)*count;
    tensor->int64_data = (int64_t *)numbers;
}

int made_node(struct made_model *made, const char *type, const char *output, ...)
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

Onnx__Attribute *made_attribute(struct made_model *made, int node, const char *name)
{
    size_t index = made->node[node].n_attribute++;
    Onnx__Attribute *attribute = &made->attribute[node][index];

    onnx__attribute__init(attribute);
    made->attributes[node][index] = attribute;
    attribute->name = (char *)name;
    return attribute;
}

void made_int(struct made_model *made, int node, const char *name, int64_t number)
{
    Onnx__Attribute *attribute = made_attribute(made, node, name);

    attribute->has_i = true;
    attribute->i = number;
}

void made_ints(struct made_model *made, int node, const char *name, const int64_t *numbers,
               size_t count)
{
    Onnx__Attribute *attribute = made_attribute(made, node, name);

    attribute->n_ints = count;
    attribute->ints = (int64_t *)numbers;
}

void made_text(struct made_model *made, int node, const char *name, const char *text)
{
    Onnx__Attribute *attribute = made_attribute(made, node, name);

    attribute->has_s = true;
    attribute->s = (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)text};
}

/* ---- using it ---- */

void made_write(const struct made_model *made)
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

static int made_build(const struct made_model *made, struct onnx_model **model, struct graph *graph,
                      struct error *error)
{
    int32_t x, y = -1;
    int result;

    made_write(made);
    graph_init(graph, MADE_BATCH, false);
    result = onnx_open(NULL, temporary_path("model.onnx"), model, error);
    if (result)
        return result;
    x = graph_input(graph,
                    made->tensor_type.elem_type == MADE_INT64 ? TENSOR_INT32 : TENSOR_FLOAT32,
                    made->extent, made->rank);
    result = onnx_build(*model, true, graph, x, &y, error);
    if (result == 0 && !graph->error.code)
        graph->output = y;
    if (result == 0 && graph->error.code)
        result = error_set(error, graph->error.code, "%s", graph->error.text);
    return result;
}

void made_refuse(const struct made_model *made, const char *words)
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

int64_t made_compute(const struct made_model *made, const float *x,
                     float y[MADE_BATCH * MADE_SAMPLE_MAX])
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
    assert_true(count <= MADE_BATCH * MADE_SAMPLE_MAX);
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
