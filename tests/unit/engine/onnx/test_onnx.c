/* test_onnx.c: models in the ONNX format: files that are damaged, or have what traind does not
 * train; and what a graph of one has. */
#include "base/file.h"
#include "engine/models/models.h"
#include "engine/onnx/onnx.h"
#include "engine/onnx/onnx.pb-c.h"
#include "engine/train/weight_layouts.h"
#include "tests/support/temporary_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char folder[] = "tests/reference/data/onnx";

static void expect(int result, const struct error *error)
{
    if (result)
        fail_msg("%s", error->text);
}

static void write_file(const char *name, const void *content, size_t size)
{
    FILE *file = fopen(temporary_path(name), "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, size, file), size);
    fclose(file);
}

static void link_make(const char *target, const char *name)
{
    const char *path = temporary_path(name);

    unlink(path);
    assert_int_equal(symlink(target, path), 0);
}

/* Opens the file and builds a graph of it for samples of 1x8x8 numbers. */
static int try_images(const char *name, int64_t channels, int64_t side, struct error *error)
{
    struct model_config config = {.kind = MODEL_ONNX};
    const struct model_data data = {
        .rank = 3, .sample_shape = {channels, side, side}, .outputs = 10};
    struct graph graph;
    int result = onnx_open(temporary_folder, name, &config.onnx, error);

    if (result)
        return result;
    graph_init(&graph, 4, true);
    result = model_build(&config, &data, &graph, error);
    graph_release(&graph);
    onnx_close(config.onnx);
    return result;
}

static int try(const char *name, struct error *error)
{
    return try_images(name, 1, 8, error);
}

static void write_model(const Onnx__Model *model)
{
    size_t size = onnx__model__get_packed_size(model);
    uint8_t *bytes = malloc(size + 1);

    onnx__model__pack(model, bytes);
    write_file("net.onnx", bytes, size);
    free(bytes);
}

static void accept_model(const Onnx__Model *model)
{
    struct error error = {0};

    write_model(model);
    expect(try("net.onnx", &error), &error);
}

/* Writes the model, and expects a refusal whose sentence has these words. */
static void refuse(const Onnx__Model *model, const char *words)
{
    struct error error = {0};

    write_model(model);
    assert_true(try("net.onnx", &error) < 0);
    if (!strstr(error.text, words))
        fail_msg("expected \"%s\" in \"%s\"", words, error.text);
}

/* A committed model, to be changed. */
static Onnx__Model *model_read_from(const char *path)
{
    struct error error = {0};
    Onnx__Model *model;
    char *content;
    size_t size;

    expect(file_read(AT_FDCWD, path, 1 << 20, &content, &size, &error), &error);
    model = onnx__model__unpack(NULL, size, (const uint8_t *)content);
    assert_non_null(model);
    free(content);
    return model;
}

static Onnx__Model *model_read(void)
{
    return model_read_from("tests/reference/data/onnx/mlp.onnx");
}

static Onnx__Node *node_find(const Onnx__Model *model, const char *type, int skip)
{
    for (size_t i = 0; i < model->graph->n_node; i++)
        if (strcmp(model->graph->node[i]->op_type, type) == 0 && skip-- == 0)
            return model->graph->node[i];
    fail_msg("no node %s", type);
    return NULL;
}

static void text_set(char **text, const char *value)
{
    free(*text);
    *text = strdup(value);
}

static void a_cut_file_is_refused(void **state)
{
    struct error error = {0};
    char *content;
    size_t size;

    (void)state;
    expect(
        file_read(AT_FDCWD, "tests/reference/data/onnx/mlp.onnx", 1 << 20, &content, &size, &error),
        &error);
    for (size_t kept = 0; kept < size; kept += 97) {
        write_file("cut.onnx", content, kept);
        error.text[0] = '\0';
        if (try("cut.onnx", &error) == 0)
            fail_msg("%zu of %zu bytes are read as a model", kept, size);
        assert_true(*error.text);
    }
    free(content);
}

static void nodes_in_a_cycle_are_refused(void **state)
{
    Onnx__Model *model = model_read();

    (void)state;
    text_set(&node_find(model, "Relu", 0)->input[0], node_find(model, "Tanh", 0)->output[0]);
    refuse(model, "form a cycle");
    text_set(&node_find(model, "Relu", 0)->input[0], "nothing");
    refuse(model, "which nothing in it gives");
    onnx__model__free_unpacked(model, NULL);
}

static void all_missing_operators_are_named(void **state)
{
    Onnx__Model *model = model_read();

    (void)state;
    text_set(&node_find(model, "Relu", 0)->op_type, "Unheard");
    text_set(&node_find(model, "Tanh", 0)->op_type, "Untold");
    refuse(model, "Unheard (node");
    refuse(model, "Untold (node");
    onnx__model__free_unpacked(model, NULL);
}

static void shapes_that_disagree_are_refused(void **state)
{
    Onnx__Model *model = model_read();

    (void)state;
    model->graph->initializer[0]->dims[0]++;
    refuse(model, "bytes, but their shape needs");
    model->graph->initializer[0]->dims[0] -= 2;
    model->graph->initializer[0]->raw_data.len -=
        sizeof(float) * (size_t)model->graph->initializer[0]->dims[1];
    refuse(model, "are needed");
    /* no memory is taken for numbers that the file has not */
    model->graph->initializer[0]->has_raw_data = false;
    model->graph->initializer[0]->dims[0] = (int64_t)1 << 40;
    refuse(model, "have not as many numbers as their shape needs");
    onnx__model__free_unpacked(model, NULL);
    model = model_read();
    model->graph->input[0]->type->tensor_type->shape->dim[3]->dim_value = 9;
    refuse(model, "the model reads samples of 1x8x9");
    onnx__model__free_unpacked(model, NULL);
}

static void samples_may_have_axes_of_extent_1(void **state)
{
    static const int64_t shapes[][4] = {{8, 8}, {8, 1, 8}, {8, 8, 1}, {1, 1, 8, 8}, {1, 8, 8}};
    struct model_config config = {.kind = MODEL_ONNX};
    struct error error = {0};
    struct graph graph;

    (void)state;
    expect(onnx_open("tests/reference/data/onnx", "mlp.onnx", &config.onnx, &error), &error);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct model_data data = {.outputs = 10};

        while (data.rank < 4 && shapes[i][data.rank] > 0) {
            data.sample_shape[data.rank] = shapes[i][data.rank];
            data.rank++;
        }
        graph_init(&graph, 4, true);
        expect(model_build(&config, &data, &graph, &error), &error);
        graph_release(&graph);
    }
    graph_init(&graph, 4, true);
    assert_true(model_build(&config,
                            &(struct model_data){.rank = 2, .sample_shape = {4, 16}, .outputs = 10},
                            &graph, &error) < 0);
    graph_release(&graph);
    onnx_close(config.onnx);
}

/* Of the rows of one matrix two layers have a part each; a file of weights has the matrix. */
static void parts_of_a_weight_are_described(void **state)
{
    struct model_config config = {.kind = MODEL_ONNX};
    struct model_data data = {.rank = 2, .sample_shape = {7, 6}, .outputs = 10};
    struct error error = {0};
    struct graph graph;
    char *text;

    (void)state;
    expect(onnx_open("tests/reference/data/onnx", "cross.onnx", &config.onnx, &error), &error);
    graph_init(&graph, 4, true);
    expect(model_build(&config, &data, &graph, &error), &error);
    expect(weight_layouts_format(&graph, &text, &error), &error);
    assert_non_null(text);
    assert_non_null(strstr(text,
                           "\"attention.in_proj_weight.from144\":{\"shape\":[24,12],\"pieces\":"
                           "[{\"weight\":\"attention.in_proj_weight\",\"shape\":[36,12],"
                           "\"offset\":144,\"extent\":[288],\"stride\":[1]}]}"));
    free(text);
    graph_release(&graph);
    onnx_close(config.onnx);
}

/* How many tensors and numbers of them a graph of the model has. */
static int64_t graph_measure(const char *folder_of, const char *name, int32_t *tensors)
{
    struct model_config config = {.kind = MODEL_ONNX};
    struct model_data data = {.rank = 3, .sample_shape = {3, 12, 12}, .outputs = 10};
    struct error error = {0};
    struct graph graph;
    int64_t elements = 0;

    expect(onnx_open(folder_of, name, &config.onnx, &error), &error);
    graph_init(&graph, 4, true);
    expect(model_build(&config, &data, &graph, &error), &error);
    for (int32_t i = 0; i < graph.tensor_count; i++)
        elements += graph_shape_elements(&graph.tensors[i].shape);
    *tensors = graph.tensor_count;
    graph_release(&graph);
    onnx_close(config.onnx);
    return elements;
}

/* Puts 70 letters before a name, unless it is one of an input's or an initialiser's. */
static void name_lengthen(const Onnx__Graph *graph, char **name)
{
    char *longer;

    for (size_t i = 0; i < graph->n_initializer; i++)
        if (strcmp(graph->initializer[i]->name, *name) == 0)
            return;
    if (!**name || strcmp(graph->input[0]->name, *name) == 0)
        return;
    assert_true(asprintf(&longer, "%070d%s", 0, *name) > 0);
    text_set(name, longer);
    free(longer);
}

/* Names that begin with the same 70 letters: constants of several nodes stay several. */
static void long_names_are_told_apart(void **state)
{
    struct error error = {0};
    Onnx__Model *model;
    Onnx__Graph *graph;
    char *content;
    int32_t before, after;
    uint8_t *bytes;
    size_t size;

    (void)state;
    expect(file_read(AT_FDCWD, "tests/reference/data/onnx/places.onnx", 1 << 20, &content, &size,
                     &error),
           &error);
    model = onnx__model__unpack(NULL, size, (const uint8_t *)content);
    free(content);
    assert_non_null(model);
    graph = model->graph;
    for (size_t i = 0; i < graph->n_node; i++) {
        for (size_t k = 0; k < graph->node[i]->n_input; k++)
            name_lengthen(graph, &graph->node[i]->input[k]);
        for (size_t k = 0; k < graph->node[i]->n_output; k++)
            name_lengthen(graph, &graph->node[i]->output[k]);
    }
    name_lengthen(graph, &graph->output[0]->name);
    size = onnx__model__get_packed_size(model);
    bytes = malloc(size);
    onnx__model__pack(model, bytes);
    onnx__model__free_unpacked(model, NULL);
    write_file("long.onnx", bytes, size);
    free(bytes);
    assert_int_equal(graph_measure(temporary_folder, "long.onnx", &after),
                     graph_measure("tests/reference/data/onnx", "places.onnx", &before));
    assert_int_equal(after, before);
}

/* Adds a constant of whole numbers. */
static void constant_add(const Onnx__Model *model, const char *name, size_t count,
                         const int64_t *numbers)
{
    Onnx__Graph *graph = model->graph;
    Onnx__Tensor *tensor = malloc(sizeof *tensor);

    onnx__tensor__init(tensor);
    tensor->name = strdup(name);
    tensor->has_data_type = true;
    tensor->data_type = 7; /* int64 */
    tensor->n_dims = 1;
    tensor->dims = malloc(sizeof *tensor->dims);
    tensor->dims[0] = (int64_t)count;
    tensor->n_int64_data = count;
    tensor->int64_data = malloc(count * sizeof *numbers);
    memcpy(tensor->int64_data, numbers, count * sizeof *numbers);
    graph->initializer =
        realloc(graph->initializer, (graph->n_initializer + 1) * sizeof *graph->initializer);
    graph->initializer[graph->n_initializer++] = tensor;
}

static void input_add(Onnx__Node *node, const char *name)
{
    node->input = realloc(node->input, (node->n_input + 1) * sizeof *node->input);
    node->input[node->n_input++] = strdup(name);
}

/* x[first::step] along an axis, instead of the model's tanh. */
static Onnx__Model *model_with_steps(int64_t axis, int64_t first, int64_t step)
{
    Onnx__Model *model = model_read();
    Onnx__Node *node = node_find(model, "Tanh", 0);

    text_set(&node->op_type, "Slice");
    constant_add(model, "starts", 1, &first);
    constant_add(model, "ends", 1, (int64_t[]){step < 0 ? INT64_MIN : INT64_MAX});
    constant_add(model, "axes", 1, &axis);
    constant_add(model, "steps", 1, &step);
    input_add(node, "starts");
    input_add(node, "ends");
    input_add(node, "axes");
    input_add(node, "steps");
    return model;
}

static void steps_along_the_batch_are_refused(void **state)
{
    Onnx__Model *model = model_with_steps(0, -1, -1);

    (void)state;
    refuse(model, "Slice (node");
    onnx__model__free_unpacked(model, NULL);
    model = model_with_steps(0, 0, 2);
    refuse(model, "Slice (node");
    onnx__model__free_unpacked(model, NULL);
    model = model_with_steps(1, -1, -1);
    accept_model(model);
    onnx__model__free_unpacked(model, NULL);
}

/* The last layer's matrix [10,16] is the bias [16] of the layer before it, ten times. */
static Onnx__Model *model_with_repeats(void)
{
    Onnx__Model *model = model_read();
    Onnx__Graph *graph = model->graph;
    Onnx__Node *node = malloc(sizeof *node), *last = node_find(model, "Gemm", 2);
    Onnx__Node *before = node_find(model, "Gemm", 1);

    onnx__node__init(node);
    node->op_type = strdup("Expand");
    node->name = strdup("repeat");
    input_add(node, before->input[2]);
    input_add(node, "shape");
    free(before->input[--before->n_input]);
    constant_add(model, "shape", 2, (int64_t[]){10, 16});
    node->output = malloc(sizeof *node->output);
    node->output[node->n_output++] = strdup("repeated");
    text_set(&last->input[1], "repeated");
    graph->node = realloc(graph->node, (graph->n_node + 1) * sizeof *graph->node);
    memmove(graph->node + 1, graph->node, graph->n_node++ * sizeof *graph->node);
    graph->node[0] = node;
    return model;
}

/* It is one vector that trains; a matrix would train as ten. */
static void repeated_parameters_are_no_weights(void **state)
{
    Onnx__Model *model = model_with_repeats();

    (void)state;
    refuse(model, "repeats");
    onnx__model__free_unpacked(model, NULL);
}

/* What does not train is a matrix of its own, which no description says to be a part of another. */
static void repeated_constants_are_copied(void **state)
{
    struct model_config config = {.kind = MODEL_ONNX};
    const struct model_data data = {.rank = 3, .sample_shape = {1, 8, 8}, .outputs = 10};
    Onnx__Model *model = model_with_repeats();
    struct error error = {0};
    struct graph graph;
    char *text;

    (void)state;
    for (size_t i = 0; i < model->n_metadata_props; i++)
        text_set(&model->metadata_props[i]->value, "1.weight");
    write_model(model);
    onnx__model__free_unpacked(model, NULL);
    expect(onnx_open(temporary_folder, "net.onnx", &config.onnx, &error), &error);
    graph_init(&graph, 4, true);
    expect(model_build(&config, &data, &graph, &error), &error);
    expect(weight_layouts_format(&graph, &text, &error), &error);
    assert_null(text);
    graph_release(&graph);
    onnx_close(config.onnx);
}

/* A constant without numbers, where an operator wants one. */
static void empty_constants_are_no_crash(void **state)
{
    Onnx__Model *model = model_read();
    Onnx__Graph *graph = model->graph;
    Onnx__Node *node = node_find(model, "Relu", 0);
    Onnx__Tensor *empty = malloc(sizeof *empty);
    struct error error = {0};

    (void)state;
    onnx__tensor__init(empty);
    empty->name = strdup("empty");
    empty->has_data_type = true;
    empty->data_type = 1; /* float */
    empty->n_dims = 1;
    empty->dims = calloc(1, sizeof *empty->dims);
    graph->initializer =
        realloc(graph->initializer, (graph->n_initializer + 1) * sizeof *graph->initializer);
    graph->initializer[graph->n_initializer++] = empty;
    text_set(&node->op_type, "Trilu");
    text_set(&node->input[0], graph->initializer[0]->name);
    node->input = realloc(node->input, 2 * sizeof *node->input);
    node->input[node->n_input++] = strdup("empty");
    size_t size = onnx__model__get_packed_size(model);
    uint8_t *bytes = malloc(size);
    onnx__model__pack(model, bytes);
    write_file("empty.onnx", bytes, size);
    free(bytes);
    if (try("empty.onnx", &error) < 0)
        assert_true(*error.text);
    onnx__model__free_unpacked(model, NULL);
}

/* A tensor takes the shape of another one, which the nodes that this needs move (under ASan). */
static void shapes_of_tensors_may_move(void **state)
{
    Onnx__Model *model = model_read_from("tests/reference/data/onnx/squeeze.onnx");
    Onnx__Node *node = node_find(model, "LayerNormalization", 0);
    struct error error = {0};

    (void)state;
    text_set(&node->op_type, "LogSoftmax");
    while (node->n_input > 1)
        free(node->input[--node->n_input]);
    write_model(model);
    expect(try_images("net.onnx", 3, 12, &error), &error);
    onnx__model__free_unpacked(model, NULL);
}

static void several_inputs_are_numbers(void **state)
{
    Onnx__Model *model = model_read();
    Onnx__ValueInfo *first = model->graph->input[0], *inputs[2] = {first, first};
    Onnx__ValueInfo second = *first;

    (void)state;
    second.name = (char *)"other";
    inputs[1] = &second;
    first->type->tensor_type->elem_type = 7;
    free(model->graph->input);
    model->graph->input = inputs;
    model->graph->n_input = 2;
    refuse(model, "has 2 inputs, and input has indices");
    model->graph->input = malloc(sizeof *inputs);
    *model->graph->input = first;
    model->graph->n_input = 1;
    onnx__model__free_unpacked(model, NULL);
}

static void unknown_types_and_old_opsets_are_refused(void **state)
{
    Onnx__Model *model = model_read();

    (void)state;
    model->graph->initializer[0]->data_type = 8;
    refuse(model, "type 8 of the ONNX standard");
    onnx__model__free_unpacked(model, NULL);
    model = model_read();
    model->opset_import[0]->version = 12;
    refuse(model, "is of opset 12; traind reads opset 13 and later");
    onnx__model__free_unpacked(model, NULL);
}

static void missing_external_files_are_named(void **state)
{
    Onnx__StringPair pair = ONNX__STRING_PAIR__INIT, *pairs[] = {&pair};
    Onnx__Model *model = model_read();
    Onnx__Tensor *tensor = model->graph->initializer[0];

    (void)state;
    tensor->has_data_location = tensor->data_location = 1;
    tensor->external_data = pairs;
    tensor->n_external_data = 1;
    pair.key = (char *)"location";
    pair.value = (char *)"weights.bin";
    refuse(model, "weights.bin, which holds weights of the model");
    write_file("weights.bin", "short", 5);
    refuse(model, "has 5 bytes, but the weights");
    pair.value = (char *)"../weights.bin";
    refuse(model, "it must be in the model's folder");
    pair.value = (char *)"link.bin";
    link_make("/dev/null", "link.bin");
    refuse(model, "is a link to /dev/null, outside of the model's folder");
    link_make("weights.bin", "link.bin");
    refuse(model, "has 5 bytes, but the weights");
    tensor->external_data = NULL;
    tensor->n_external_data = 0;
    onnx__model__free_unpacked(model, NULL);
}

/* Bytes that were changed at random places: a model or a sentence, never a crash. */
static void mutated_files_are_read_or_refused(void **state)
{
    static const char *const names[] = {"mlp", "gpt", "general", "gru"};
    enum { CASES = 150, CHANGES = 6 };
    uint64_t random = 88172645463325252u;

    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct error error = {0};
        char path[128], *content;
        size_t size;

        snprintf(path, sizeof path, "%s/%s.onnx", folder, names[i % 4]);
        expect(file_read(AT_FDCWD, path, 1 << 20, &content, &size, &error), &error);
        for (int k = 0; k < CHANGES; k++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            content[random % size] = (char)(k % 2 ? random >> 40 : random >> 63 ? 0xff : 0);
        }
        write_file("mutated.onnx", content, size);
        free(content);
        if (try("mutated.onnx", &error) < 0)
            assert_true(*error.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_file_is_refused),
        cmocka_unit_test(nodes_in_a_cycle_are_refused),
        cmocka_unit_test(all_missing_operators_are_named),
        cmocka_unit_test(shapes_that_disagree_are_refused),
        cmocka_unit_test(samples_may_have_axes_of_extent_1),
        cmocka_unit_test(parts_of_a_weight_are_described),
        cmocka_unit_test(long_names_are_told_apart),
        cmocka_unit_test(steps_along_the_batch_are_refused),
        cmocka_unit_test(repeated_parameters_are_no_weights),
        cmocka_unit_test(repeated_constants_are_copied),
        cmocka_unit_test(empty_constants_are_no_crash),
        cmocka_unit_test(shapes_of_tensors_may_move),
        cmocka_unit_test(several_inputs_are_numbers),
        cmocka_unit_test(unknown_types_and_old_opsets_are_refused),
        cmocka_unit_test(missing_external_files_are_named),
        cmocka_unit_test(mutated_files_are_read_or_refused),
    };

    return cmocka_run_group_tests(tests, temporary_folder_make, temporary_folder_remove);
}
